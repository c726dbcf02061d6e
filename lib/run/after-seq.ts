// The option `afterSeq`: which events a reader has already. It must never accept a number that no event can have.

import type { EventsFrom } from '../../index.d.ts'
import { refusal } from '../values/errors.ts'
import { readFields } from '../values/reader.ts'

const CODE = 'invalid_options'

function readAfterSeq(options: unknown = {}): number {
  const { afterSeq = 0, ...rest } = readFields(options, 'options', CODE)
  const [other] = Object.keys(rest)
  if (other !== undefined) throw refusal(CODE, other, 'is not an option')
  if (typeof afterSeq !== 'number' || !Number.isSafeInteger(afterSeq) || afterSeq < 0) {
    throw refusal(CODE, 'afterSeq', 'is not the number of an event; pass 0 or more')
  }
  return afterSeq
}

export type { EventsFrom }
export { readAfterSeq }
