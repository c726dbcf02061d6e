// The turns of a broker: what an agent, its tools and the messages of a queue are as a context, and their runs.
// It must never choose the messages of a turn: the native side does.

import type { ComposedMessage, NativeBroker } from '../../binding.d.ts'
import type {
  AgentTool,
  AssembledContext,
  BrokerAgent,
  Message,
  QueuedMessage,
  TurnScope,
} from '../../index.d.ts'
import type { AgentEngine, EngineParts, Start } from '../engine/engine.ts'
import { request } from '../native/hub.ts'
import type { AgentRun } from '../run/run.ts'
import { readInput } from '../run/run-input.ts'
import { AgentEngineError } from '../values/errors.ts'
import { toJson } from '../values/json.ts'
import { type Fields, givenFields } from '../values/reader.ts'
import { stoodStill } from './agents/pauses.ts'
import type { AgentStore } from './agents/store.ts'
import { Targets } from './agents/targets.ts'
import { agentTools } from './agents/tools.ts'
import { resolveAgentModel, type SessionScope, sessionScope } from './decisions.ts'
import { assemble, compose, resumedPrompt } from './layers.ts'
import type { ReadOptions } from './options.ts'
import type { StoredRequest } from './requests.ts'
import { readReset } from './resets.ts'
import { answerOf } from './silence.ts'
import { isOver } from './thread-age.ts'

/** A message of a queue, as the native side gives it to a turn. */
type TurnItem = QueuedMessage & { request: StoredRequest }

/** A turn that the native side begins. */
interface StartTurn extends TaskLimits {
  turnId: string
  runId: string
  sessionLabel: string
  items: TurnItem[]
  /** The dropped messages that the note names. */
  dropped: string[]
  note: string | null
}

/** The limits of a turn that is the task of another agent. */
interface TaskLimits {
  /** The time that it has left; negative where it is over. */
  timeoutMs: number | null
  /** What it may spend. */
  budget: TurnBudget | null
}

/** What a turn may spend, and the account in which it is counted. */
interface TurnBudget {
  account: string
  maxTokens?: number | null
  maxCost?: number | null
}

/** A run that has begun, and whose it is. */
interface BegunTurn {
  run: AgentRun
  agentId: string
}

/** The agent of a session. */
interface FoundAgent {
  agent: BrokerAgent
  agentId: string
  session: SessionScope
}

class Turns {
  #engine: AgentEngine
  #parts: EngineParts
  #options: ReadOptions
  #agents: AgentStore
  #targets: Targets

  constructor(engine: AgentEngine, parts: EngineParts, options: ReadOptions, agents: AgentStore) {
    this.#engine = engine
    this.#parts = parts
    this.#options = options
    this.#agents = agents
    this.#targets = new Targets(engine, options, agents)
  }

  /** Begins the run of a turn. `begun` is called at once: what comes later misses the first events. */
  async start(
    native: NativeBroker,
    turn: StartTurn,
    begun: (turn: BegunTurn) => void,
  ): Promise<void> {
    const { turnId, runId, sessionLabel, items, dropped, note } = turn
    const last = items.at(-1)
    if (last === undefined) throw new AgentEngineError('internal', 'a turn has no message')
    const earlier: Message[] = items.flatMap(({ message, request }) => [
      ...(request.earlier ?? []),
      message,
    ])
    earlier.pop()
    // What was dropped came before what waited.
    if (note !== null) earlier.unshift({ role: 'user', content: note })
    const request = { ...last.request, eventId: last.eventId ?? undefined }
    const found = await this.agent(sessionLabel)
    const budget = turn.budget ?? ownBudget(found.agent, turnId)
    const { context, agentId, prompt } = await this.#context(
      found,
      sessionLabel,
      turnId,
      last.message,
      { ...request, budget },
    )
    const leaves = await this.#threadToLeave(sessionLabel, found.agent)
    limitTime(context, turn)
    const taken = {
      turnId,
      sessionLabel,
      items: items.map(({ id }) => id),
      named: dropped,
      earlier: toJson(earlier, 'message', () => 'invalid_context'),
      ...(leaves !== undefined && { leaves }),
      ...(prompt !== undefined && { prompt }),
      ...(budget !== undefined && { budget: crossing(budget) }),
      lastEvent: 0,
    }
    const start: Start = (number, json, known, flags) =>
      native.run(this.#parts.native, number, taken, json, known, flags)
    begun({ run: this.#parts.begin({ ...context, runId }, start), agentId })
  }

  /**
   * Resumes an interrupted turn with the tools of its session's agent, as `start` does. Returns `unresumable` for one that can only be
   * closed, and `elsewhere` for one that has ended, or that another process runs.
   */
  async resume(
    native: NativeBroker,
    turnId: string,
    sessionLabel: string,
    limits: TaskLimits,
    begun: (turn: BegunTurn) => void,
  ): Promise<'resumed' | 'unresumable' | 'elsewhere'> {
    const found = (await this.#engine.recover()).find((turn) => turn.turnId === turnId)
    if (found === undefined) return 'elsewhere'
    if (!found.resumable) return 'unresumable'
    const { agent, agentId, session } = await this.agent(sessionLabel)
    const scope = { sessionLabel, agentId, turnId, identity: undefined, permissions: undefined }
    const budget = limits.budget ?? ownBudget(agent, turnId)
    const tools = await this.#tools(agent, scope, budget)
    const engine = this.#parts.native
    const persisted = await interrupted(() =>
      request<Fields>((id) => engine.interruptedContext(id, turnId)),
    )
    if (persisted === undefined) return 'elsewhere'
    const options = this.#options
    const { systemPrompt, prompt } = await resumedPrompt(
      { native: engine, options, agent, session, scope, tools },
      persisted.systemPrompt as string,
    )
    const lastEvent = await request<number>((id) => engine.lastEvent(id, turnId))
    const taken = {
      ...{ turnId, sessionLabel, items: [], named: [], earlier: '[]', lastEvent },
      ...(prompt !== undefined && { prompt }),
      ...(budget !== undefined && { budget: crossing(budget) }),
    }
    const start: Start = (number, json, known, flags) =>
      native.resume(engine, number, taken, json, known, flags)
    const { beforeToolCall } = options
    const context = {
      ...persisted,
      systemPrompt,
      tools,
      ...(beforeToolCall !== undefined && { beforeToolCall }),
    }
    if (limits.timeoutMs !== null) {
      const paused = await stoodStill(this.#engine, this.#agents, sessionLabel, turnId)
      limitTime(context, { ...limits, timeoutMs: limits.timeoutMs + paused })
    }
    begun({ run: this.#parts.begin(context, start), agentId })
    return 'resumed'
  }

  /** The messages that enter a running turn, as the host's function changes them. */
  async compose(
    sessionLabel: string,
    turnId: string,
    items: readonly TurnItem[],
  ): Promise<ComposedMessage[]> {
    const { agentId } = await this.agent(sessionLabel)
    const composed: ComposedMessage[] = []
    // In their order: one may depend on what the function did for another one.
    for (const { id, message, request } of items) {
      const { identity, permissions } = request
      const scope = { sessionLabel, agentId, turnId, identity, permissions }
      const changed = await compose(this.#options, scope, message)
      const layers = toJson(changed.layers ?? [], 'layers', () => 'context_failed')
      composed.push({
        id,
        message: toJson(changed.message, 'message', () => 'context_failed'),
        layers,
      })
    }
    return composed
  }

  /** The head of a session whose thread is over by its agent's `reset`. */
  async #threadToLeave(sessionLabel: string, { reset }: BrokerAgent): Promise<string | undefined> {
    const path = `reset of session \`${sessionLabel}\``
    const read = readReset(typeof reset === 'function' ? reset(sessionLabel) : reset, path)
    if (read === undefined) return undefined
    const session = await this.#engine.ledger.session(sessionLabel)
    if (session === null || session.threadId === null) return undefined
    return isOver(read, session.updatedAt, Date.now()) ? session.threadId : undefined
  }

  /** The agent of a session. */
  async agent(sessionLabel: string): Promise<FoundAgent> {
    const { routes, agents } = this.#options
    const spawned = await this.#agents.spawned(sessionLabel)
    const session = sessionScope(routes, sessionLabel)
    const agentId = spawned?.agentId ?? session.agentId
    const agent = agents.get(agentId)
    if (agent === undefined) {
      const known = [...agents.keys()].join(', ')
      const why = `agent \`${agentId}\` of session \`${sessionLabel}\` is not configured; known: ${known}`
      throw new AgentEngineError('invalid_options', why)
    }
    if (spawned?.model) {
      const { model } = spawned
      const named = { ...agent, model }
      const models = resolveAgentModel({ agents: { it: named } }, 'it')
      return { agent: { ...agent, ...models }, agentId, session }
    }
    return { agent, agentId, session }
  }

  /** The context of a turn with one message. */
  async context(
    sessionLabel: string,
    turnId: string,
    given: Message,
    request: StoredRequest & { eventId: string | undefined },
  ): Promise<{ context: Fields; agentId: string }> {
    const found = await this.agent(sessionLabel)
    return await this.#context(found, sessionLabel, turnId, given, request)
  }

  async #context(
    { agent, agentId, session }: FoundAgent,
    sessionLabel: string,
    turnId: string,
    given: Message,
    {
      identity,
      permissions,
      target,
      eventId,
      budget,
    }: StoredRequest & { eventId: string | undefined; budget?: TurnBudget | undefined },
  ): Promise<{ context: Fields; agentId: string; prompt: string | undefined }> {
    const scope = { sessionLabel, agentId, turnId, identity, permissions }
    const tools = await this.#tools(agent, scope, budget)
    const { native, defaults, memory } = this.#parts
    const options = this.#options
    const { systemPrompt, prompt, message, layers } = await assemble({
      ...{ native, memory, options, agent, session, scope, tools },
      message: given,
    })
    const fields: Partial<AssembledContext> = givenFields({
      sessionLabel,
      systemPrompt,
      layers,
      tools,
      toolsetName: agent.toolset,
      model: agent.model,
      provider: agent.provider,
      fallbacks: agent.fallbacks?.length ? agent.fallbacks : undefined,
      role: agent.role,
      workspacePath: agent.workspace,
      thinkingConfig: agent.thinking,
      maxIterations: agent.maxIterations,
      maxResponseTokens: agent.maxResponseTokens,
      temperature: agent.temperature,
      timeoutMs: agent.timeoutMs,
      policy: agent.policy,
      beforeToolCall: options.beforeToolCall,
      permissionsGranted: Array.isArray(permissions) ? permissions : undefined,
      sourceEventId: eventId,
      target,
    })
    // The engine's defaults complete it, as those of any other run.
    const { context } = readInput(message, fields, {
      defaults,
      newId: () => native.newId(),
      toolsets: undefined,
    })
    return { context, agentId, prompt }
  }

  async #tools(
    agent: BrokerAgent,
    scope: TurnScope,
    budget: TurnBudget | undefined,
  ): Promise<readonly AgentTool[]> {
    const subagents = this.#options.subagents.get(scope.agentId)
    const own = await this.#toolset(agent, scope)
    if (subagents === undefined) return own
    const tools = agentTools({
      agentId: scope.agentId,
      role: agent.role ?? 'unified',
      subagents,
      budget,
      budgetOf: (agentId) => this.#options.agents.get(agentId)?.budgets,
      modelsOf: (agentId) => this.#modelsOf(agentId),
      parentOf: (sessionLabel, turnId) => this.#parentOf(sessionLabel, turnId),
      store: this.#agents,
      targets: this.#targets,
    })
    return [...own, ...tools]
  }

  /** The models of an agent, by each of their names. */
  #modelsOf(agentId: string): string[] {
    const models = resolveAgentModel(this.#options.config, agentId)
    if (models === undefined) return []
    const { provider, model, fallbacks } = models
    return [{ provider, model }, ...fallbacks].flatMap((it) => {
      if (typeof it === 'string') return [it]
      return it.provider ? [it.model, `${it.provider}/${it.model}`] : [it.model]
    })
  }

  /** The session that has given a turn its task. */
  async #parentOf(sessionLabel: string, turnId: string): Promise<string | undefined> {
    const spawned = await this.#agents.spawned(sessionLabel)
    if (spawned !== null) return spawned.parentSession
    const items = await this.#agents.queue(sessionLabel)
    const senders = items.filter((it) => it.turnId === turnId).map(({ from }) => from)
    return senders.find((from) => from !== null && from.kind !== 'worker_result')?.fromSession
  }

  async #toolset(agent: BrokerAgent, scope: TurnScope): Promise<readonly AgentTool[]> {
    if (agent.toolset === undefined) return []
    const toolset = this.#options.toolsets.get(agent.toolset)
    if (toolset === undefined) {
      throw new AgentEngineError('invalid_options', `there is no toolset \`${agent.toolset}\``)
    }
    if (typeof toolset !== 'function') return toolset
    // A session whose turn waits for its tools does nothing else.
    const late = (why: string) =>
      new AgentEngineError('context_failed', `toolset \`${agent.toolset}\` ${why}`)
    return await answerOf(() => toolset(scope), late)
  }
}

/** The context of a turn; undefined where it is no interrupted one any more. */
async function interrupted(read: () => Promise<Fields>): Promise<Fields | undefined> {
  try {
    return await read()
  } catch (error) {
    if ((error as AgentEngineError).code === 'unknown_turn') return undefined
    throw error
  }
}

/** A turn has no more time than the task that it is has left: that counts from the call on. */
function limitTime(context: Fields, { timeoutMs }: TaskLimits): void {
  if (timeoutMs === null) return
  const left = Math.max(1, timeoutMs)
  context.timeoutMs = Math.min((context.timeoutMs as number | undefined) ?? left, left)
}

/** The budget of a turn that is no task. */
function ownBudget({ budgets }: BrokerAgent, turnId: string): TurnBudget | undefined {
  return budgets ? { ...budgets, account: `turn:${turnId}` } : undefined
}

/** A budget for the native side, which knows no null. */
function crossing({ account, maxTokens, maxCost }: TurnBudget) {
  return {
    account,
    ...(typeof maxTokens === 'number' && { maxTokens }),
    ...(typeof maxCost === 'number' && { maxCost }),
  }
}

export type { BegunTurn, StartTurn, TaskLimits, TurnBudget, TurnItem }
export { Turns }
