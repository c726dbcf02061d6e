// Manual compaction: checks the arguments, returns a promise of the result, and cancels by an AbortSignal.
// It must never leave a listener on the caller's signal.

import type { NativeEngine } from '../../binding.d.ts'
import type { CompactionResult, OnRequest } from '../../index.d.ts'
import { requestWithHook } from '../native/request-hook.ts'
import { refusal } from '../values/errors.ts'
import { toJson } from '../values/json.ts'
import { attempt, readFields, readName } from '../values/reader.ts'
import * as signals from '../values/signals.ts'

const CODE = 'invalid_options'

async function compact(
  native: NativeEngine,
  label: unknown,
  options: unknown,
  onRequest: OnRequest | undefined,
): Promise<CompactionResult | null> {
  readName(label, 'label', 'invalid_label')
  const { signal: given, ...fields } = readFields(options, 'options', CODE)
  const signal = readAbortSignal(given)
  signal?.throwIfAborted()
  const json = toJson({ ...fields, label }, 'options', () => CODE)
  let stopListening = () => {}
  try {
    const result = await requestWithHook<CompactionResult | null>(
      native,
      onRequest,
      (id, hooked) => {
        const target = { abort: () => native.cancelRequest(id) }
        if (signal !== undefined) {
          signals.listen(signal, target, 'signal', CODE)
          stopListening = () => signals.stopListening(signal, target)
        }
        native.compact(id, json, hooked)
      },
    )
    // A summary that was written before the abort stays, and is returned.
    if (result === null) signal?.throwIfAborted()
    return result
  } finally {
    stopListening()
  }
}

/** A real AbortSignal; undefined where there is none. */
function readAbortSignal(given: unknown): AbortSignal | undefined {
  const signal: unknown = signals.readSignal(given, 'signal', CODE)
  if (signal === undefined) return undefined
  if (attempt(() => signal instanceof AbortSignal, 'signal', CODE)) return signal as AbortSignal
  throw refusal(CODE, 'signal', 'is not an AbortSignal')
}

export { compact }
