// The ids of turns: ULIDs that grow, also within a millisecond. It must never give one twice.

import { randomBytes } from 'node:crypto'

const DIGITS = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'
const TIME_LENGTH = 10
const RANDOM_BITS = 80n

let lastTime = 0
let lastRandom = 0n

/** A ULID that is greater than all that this process has made. */
function newTurnId(now: number): string {
  const time = Math.max(now, lastTime)
  if (time === lastTime) {
    lastRandom++
  } else {
    lastTime = time
    // Half of the range: there is room for what follows in the same millisecond.
    lastRandom = BigInt(`0x${randomBytes(10).toString('hex')}`) >> 1n
  }
  return digits((BigInt(time) << RANDOM_BITS) | lastRandom, TIME_LENGTH + 16)
}

function digits(value: bigint, length: number): string {
  let text = ''
  for (let rest = value; text.length < length; rest >>= 5n) text = DIGITS[Number(rest & 31n)] + text
  return text
}

export { newTurnId }
