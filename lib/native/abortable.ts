// Work that the caller's signal ends for the caller: its promise rejects with the signal's reason at once.
// It must never leave a listener on the caller's signal.

import { refusal } from '../values/errors.ts'
import { readFields } from '../values/reader.ts'
import * as signals from '../values/signals.ts'
import * as hub from './hub.ts'

const CODE = 'invalid_options'
/** Where the signal of a call is, for a refusal. */
const PATH = 'signal'

/**
 * Begins work, unless `given`, an abort signal, is aborted. When it is, the promise rejects with its reason, and the outcome of the work is
 * dropped; `cancel` ends the work, where that can be ended.
 */
async function abortable<Value>(
  given: unknown,
  begin: () => Promise<Value>,
  cancel?: () => void,
): Promise<Value> {
  const signal = signals.readSignal(given, PATH, CODE)
  if (signal === undefined) return begin()
  if (signals.isAborted(signal, PATH, CODE)) throw signals.reasonOf(signal)
  let stopListening = () => {}
  const aborted = new Promise<never>((_, reject) => {
    const target = {
      abort: () => {
        cancel?.()
        reject(signals.reasonOf(signal))
      },
    }
    signals.listen(signal, target, PATH, CODE)
    stopListening = () => signals.stopListening(signal, target)
  })
  const work = begin()
  // One of them is left without a reader.
  work.catch(() => {})
  aborted.catch(() => {})
  try {
    return await Promise.race([work, aborted])
  } finally {
    stopListening()
  }
}

/** The same for a request to the native side; `cancel` receives its number. */
function abortableRequest<Value>(
  signal: unknown,
  send: (id: number) => void,
  cancel?: (id: number) => void,
): Promise<Value> {
  let number: number | undefined
  const begin = () =>
    hub.request<Value>((id) => {
      number = id
      send(id)
    })
  return abortable(signal, begin, () => {
    if (number !== undefined) cancel?.(number)
  })
}

/** The `signal` of a call's options. */
function signalOf(options: unknown): unknown {
  const { signal, ...others } = readFields(options, 'options', CODE)
  const [other] = Object.keys(others)
  if (other !== undefined) throw refusal(CODE, other, 'is no option; pass `signal`')
  return signal
}

export { abortable, abortableRequest, signalOf }
