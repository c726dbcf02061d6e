// The messages between agents on the native side: sent, awaited, read and cancelled. It must never decide what may be sent.

import type { NativeBroker } from '../../../binding.d.ts'
import type { AgentBudget, Dispatch, QueuedMessage, QueueMode } from '../../../index.d.ts'
import { request } from '../../native/hub.ts'

/** A message of an agent, for the native side. */
interface NewAgentMessage {
  id: string
  fromSession: string
  fromTurn: string
  fromAgent: string
  toSession: string
  toAgent: string
  mode: QueueMode
  message: string
  task?: {
    kind: Dispatch['kind']
    limits: { maxDepth: number; maxChildren: number; maxConcurrent: number }
    isNew: boolean
    isFork: boolean
    model?: string | undefined
    timeoutMs?: number | undefined
    isDetached: boolean
    /** The budget of the agent that gets it, and that of the turn that gives it. */
    budget?: AgentBudget | undefined
    parentBudget?: ({ account: string } & AgentBudget) | undefined
  }
}

class AgentStore {
  #native: () => NativeBroker

  /** `native` is called late: the tools of a turn are made after the broker. */
  constructor(native: () => NativeBroker) {
    this.#native = native
  }

  send(message: NewAgentMessage): Promise<{ sessionLabel?: string; refused?: string }> {
    const json = JSON.stringify(message)
    return request((id) => this.#native().sendAgent(id, json))
  }

  /** Resolves when a dispatch has ended. The turn that waits has no slot of its lane meanwhile. */
  wait(dispatchId: string, sessionLabel: string, turnId: string): Promise<Dispatch | null> {
    return request((id) => this.#native().awaitDispatch(id, dispatchId, sessionLabel, turnId))
  }

  dispatch(dispatchId: string): Promise<Dispatch | null> {
    return request((id) => this.#native().dispatch(id, dispatchId))
  }

  /** The newest dispatches that a session has made. */
  madeBy(parentSession: string): Promise<Dispatch[]> {
    const filter = JSON.stringify({ parentSession })
    return request((id) => this.#native().dispatches(id, filter))
  }

  /** The messages of a session that wait or are in a turn. */
  queue(sessionLabel: string): Promise<QueuedMessage[]> {
    return request((id) => this.#native().queue(id, sessionLabel))
  }

  cancel(dispatchId: string): Promise<Dispatch | null> {
    return request((id) => this.#native().cancelDispatch(id, dispatchId))
  }

  /** The dispatch for which a session was made. */
  async spawned(sessionLabel: string): Promise<Dispatch | null> {
    // Only these are made for a dispatch.
    if (!sessionLabel.startsWith('worker:')) return null
    return request((id) => this.#native().spawned(id, sessionLabel))
  }
}

export type { NewAgentMessage }
export { AgentStore }
