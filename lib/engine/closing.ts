// The options of `close`. It must never end a run itself.

import { clip, refusal } from '../values/errors.ts'
import { readFields } from '../values/reader.ts'

const CODE = 'invalid_options'
/** The longest delay of a timer. */
const MAX_GRACE_MS = 0x7fffffff

/** How an engine is closed. */
interface Closing {
  abort: boolean
  graceMs: number | undefined
}

/** Reads the options of `close`. */
function readClosing(options: unknown): Closing {
  const { abort = false, graceMs, ...others } = readFields(options, 'options', CODE)
  const [unknown] = Object.keys(others)
  if (unknown !== undefined) {
    throw refusal(
      CODE,
      clip(unknown),
      'is not an option of `close`; they are `graceMs` and `abort`',
    )
  }
  if (typeof abort !== 'boolean') throw refusal(CODE, 'abort', 'is not true or false')
  if (graceMs === undefined) return { abort, graceMs }
  if (typeof graceMs !== 'number' || !(graceMs >= 0 && graceMs <= MAX_GRACE_MS)) {
    throw refusal(CODE, 'graceMs', `is not a time; pass 0 to ${MAX_GRACE_MS} milliseconds`)
  }
  return { abort, graceMs }
}

export { readClosing }
