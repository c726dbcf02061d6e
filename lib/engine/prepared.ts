// Several runs of one context, which is read once: an internal method for the other files of this package, which call the same model with the same
// tools again and again. It must never be more than a shorter way of `run`: what it refuses, `run` refuses with a better error.

import type { AgentRun, AssembledContext, OnRequest, RunOptions } from '../../index.d.ts'

/** The name of the method. Each file of the package has a copy of this code, and all of them the same symbol. */
const PREPARE: unique symbol = Symbol.for('@nexus/agent-engine/prepare') as never

/** What each run has of its own. */
interface OwnPart extends Pick<AssembledContext, 'currentMessage' | 'history' | 'currentTurn'> {
  signal?: AbortSignal | undefined
  onRequest?: OnRequest | undefined
}

/** Begins a run. */
type PreparedRun = (own: OwnPart) => AgentRun

/** An engine with the method. The fields must not be changed afterwards. */
interface Preparing {
  [PREPARE](options: RunOptions): PreparedRun
}

export type { OwnPart, PreparedRun, Preparing }
export { PREPARE }
