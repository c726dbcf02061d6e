// Requests to the native side that the caller's signal ends: they reject with the signal's reason at once.
// It must never leave a listener on the caller's signal.

import type { Code } from '../values/errors.ts'
import * as signals from '../values/signals.ts'
import * as hub from './hub.ts'

/** Where the signal of a call is, for a refusal. */
const PATH = 'signal'

/**
 * Sends a request, or waits for a promise. When `given`, an abort signal, is aborted, the request rejects with its reason, and its answer is dropped; `cancel`
 * ends the work of the native side, where that can be ended.
 */
async function abortable<Value>(
  given: unknown,
  work: ((id: number) => void) | Promise<Value>,
  { cancel, code = 'invalid_options' }: { cancel?: (id: number) => void; code?: Code } = {},
): Promise<Value> {
  const signal = signals.readSignal(given, PATH, code)
  if (signal === undefined) return typeof work === 'function' ? hub.request(work) : work
  if (signals.isAborted(signal, PATH, code)) throw signals.reasonOf(signal)
  let stopListening = () => {}
  const aborted = new Promise<never>((_, reject) => {
    const target = {
      abort: () => {
        if (number !== undefined) cancel?.(number)
        reject(signals.reasonOf(signal))
      },
    }
    signals.listen(signal, target, PATH, code)
    stopListening = () => signals.stopListening(signal, target)
  })
  let number: number | undefined
  const send = (id: number) => {
    number = id
    if (typeof work === 'function') work(id)
  }
  const answer = typeof work === 'function' ? hub.request<Value>(send) : work
  // One of them is left without a reader.
  answer.catch(() => {})
  aborted.catch(() => {})
  try {
    return await Promise.race([answer, aborted])
  } finally {
    stopListening()
  }
}

export { abortable }
