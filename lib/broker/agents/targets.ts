// Which session an agent means, and whether it may: an agent, a persona, its parent, or a session. It must never send anything.

import type { RoutingTarget } from '../../../index.d.ts'
import type { AgentEngine } from '../../engine/engine.ts'
import { resolveSessionAgentId } from '../decisions.ts'
import type { ReadOptions } from '../options.ts'
import { route } from '../routes.ts'
import type { ReadSubagents } from './options.ts'
import type { AgentStore } from './store.ts'

/** The session and the agent that a message goes to. */
interface Target {
  /** Undefined where a task gets a session of its own. */
  sessionLabel?: string
  agentId: string
}

/** The turn that names a target. */
interface From {
  sessionLabel: string
  /** The session that has given it its task. */
  parent: string | undefined
  subagents: ReadSubagents
}

class Targets {
  #engine: AgentEngine
  #options: ReadOptions
  #store: AgentStore

  constructor(engine: AgentEngine, options: ReadOptions, store: AgentStore) {
    this.#engine = engine
    this.#options = options
    this.#store = store
  }

  /** What `target` names. An agent is one of its own sessions for a task, and its main session for a message. */
  async find(target: string, from: From, isTask: boolean): Promise<Target> {
    if (target === 'parent') return await this.parent(from)
    const { config } = this.#options
    if (Object.hasOwn(config.agents, target)) {
      this.#check(target, from)
      return isTask
        ? { agentId: target }
        : { agentId: target, sessionLabel: `agent:${target}:main` }
    }
    if (Object.hasOwn(config.personas ?? {}, target)) {
      return await this.#session(route(this.#options, { persona: target } as RoutingTarget), from)
    }
    if ((await this.#engine.ledger.session(target)) === null) {
      const known = from.subagents.allowAgents.join(', ')
      throw new Error(`There is no agent, persona or session ${target}. Agents: ${known}.`)
    }
    return await this.#session({ sessionLabel: target }, from)
  }

  /** The session that has given a turn its task. */
  async parent(from: From): Promise<Target> {
    const { parent } = from
    if (parent === undefined) throw new Error('This session has no parent: nobody gave it a task.')
    return { sessionLabel: parent, agentId: await this.agentOf(parent) }
  }

  /** The agent of a session. */
  async agentOf(label: string): Promise<string> {
    const spawned = await this.#store.spawned(label)
    return spawned?.agentId ?? resolveSessionAgentId(this.#options.config, label)
  }

  async #session({ sessionLabel }: { sessionLabel?: string }, from: From): Promise<Target> {
    const label = sessionLabel ?? ''
    if (label === from.sessionLabel) throw new Error('An agent cannot send a message to itself.')
    const agentId = await this.agentOf(label)
    const isOwn =
      label === from.parent ||
      (await this.#store.madeBy(from.sessionLabel)).some((it) => it.sessionLabel === label)
    if (!isOwn) this.#check(agentId, from)
    return { sessionLabel: label, agentId }
  }

  #check(agentId: string, { subagents }: From): void {
    const { allowAgents } = subagents
    if (allowAgents.includes(agentId)) return
    throw new Error(
      `Not sent: \`subagents.allowAgents\` allows ${allowAgents.join(', ')}, and not ${agentId}.`,
    )
  }
}

export type { From, Target }
export { Targets }
