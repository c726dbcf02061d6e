// Runs in the ledger: where one is, lists of them, and the result of one, in whichever process it runs.
// It must never change the result of a run of this engine.

import type { NativeEngine } from '../../binding.d.ts'
import type { AgentResult, CallOptions, Page, RunFilter, RunInfo } from '../../index.d.ts'
import { abortable, abortableRequest, signalOf } from '../native/abortable.ts'
import { complete } from '../run/result.ts'
import { AgentEngineError, refusal } from '../values/errors.ts'
import { toJson } from '../values/json.ts'
import { readFields, readName } from '../values/reader.ts'

const CODE = 'invalid_options'

/** A run of this engine that has not ended. */
interface LiveRun {
  readonly id: string
  readonly result: Promise<AgentResult>
}

/** The id of a run. */
function readRunId(runId: unknown): string {
  if (typeof runId !== 'string' || runId === '') {
    throw refusal(CODE, 'runId', 'is not the id of a run')
  }
  return readName(runId, 'runId', CODE)
}

async function runInfo(
  native: NativeEngine,
  runId: unknown,
  options: CallOptions,
): Promise<RunInfo | null> {
  const [run, signal] = [readRunId(runId), signalOf(options)]
  return abortableRequest(signal, (id) => native.runInfo(id, run))
}

async function runs(native: NativeEngine, filter: RunFilter & CallOptions): Promise<Page<RunInfo>> {
  const { signal, ...fields } = readFields(filter, 'filter', 'invalid_query', 'filter.')
  const json = toJson(fields, 'filter', () => 'invalid_query')
  return abortableRequest(signal, (id) => native.runs(id, json))
}

/** The result of a run: of one of `live`, else as the ledger has it, once the run has ended. */
async function resultOf(
  native: NativeEngine,
  live: Iterable<LiveRun>,
  runId: unknown,
  options: CallOptions,
): Promise<AgentResult> {
  const [run, signal] = [readRunId(runId), signalOf(options)]
  for (const each of live) {
    if (each.id !== run) continue
    try {
      return await abortable(signal, () => each.result)
    } catch (error) {
      // One that was refused because the ledger has another run with its id.
      if (!(error instanceof AgentEngineError) || error.code !== 'duplicate_run') throw error
    }
  }
  const result = await abortableRequest<AgentResult | null>(
    signal,
    (id) => native.resultOf(id, run),
    (id) => native.leave(id),
  )
  if (result !== null) return complete(result)
  throw new AgentEngineError('engine_closed', 'the engine is closed; make a new one')
}

export { resultOf, runInfo, runs }
