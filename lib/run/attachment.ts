// Another run with the same id, which a run attaches to in place of one of its own: its events, its result, its abort.
// It must never start or end that run by itself.

import type { NativeEngine } from '../../binding.d.ts'
import type { AgentResult, RunInfo, StreamEvent } from '../../index.d.ts'
import * as hub from '../native/hub.ts'
import { AgentEngineError } from '../values/errors.ts'
import { abortSession, attach } from './follow.ts'
import { complete } from './result.ts'

/** The run that a run attaches to. */
interface Attachment {
  /** Its events after number `afterSeq`; none where they are not stored. */
  events(afterSeq: number): AsyncIterable<StreamEvent>
  result(): Promise<AgentResult>
  /** Aborts it, if it runs. */
  abort(): Promise<void>
}

/** A run of the ledger; `skipped` are the groups of events that are left out. */
function attachment(native: NativeEngine, runId: string, skipped: number): Attachment {
  return {
    async *events(afterSeq) {
      try {
        yield* attach(native, runId, { afterSeq }, skipped)
      } catch (error) {
        // Its result is there all the same.
        if ((error as AgentEngineError).code !== 'events_expired') throw error
      }
    },
    async result() {
      const result = await hub.request<AgentResult | null>((id) => native.resultOf(id, runId))
      if (result !== null) return complete(result)
      throw new AgentEngineError('engine_closed', 'the engine is closed; make a new one')
    },
    async abort() {
      const info = await hub.request<RunInfo | null>((id) => native.runInfo(id, runId))
      if (info?.status !== 'running') return
      await abortSession(native, info.sessionLabel).catch((error: AgentEngineError) => {
        // It has ended meanwhile.
        if (error.code !== 'not_running') throw error
      })
    },
  }
}

export type { Attachment }
export { attachment }
