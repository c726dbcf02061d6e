// The limits of a provider over several processes that share a ledger: together they send no more than it allows. The server counts; it
// must never assert a duration.

import { expect, test } from 'vitest'
import { newLedger } from '../../support/ledger/named.js'
import { child } from '../../support/processes/child.js'
import { type Bucket, bucket } from '../../support/servers/token-bucket.js'

const CALLS = 14

/** Three processes at one limit, each of which has learnt it before any of them begins with many calls. */
async function crowd(fileOf: (at: number) => string): Promise<{ it: Bucket; outcomes: string[] }> {
  let arrived = 0
  let open = () => {}
  const all = new Promise<void>((resolve) => {
    open = resolve
  })
  const it = await bucket(24, 6_000, undefined, () => {
    arrived += 1
    if (arrived !== 3) return
    // A bucket that is full would refuse a request that is late on a busy machine, whoever sent it.
    it.overflow()
    open()
  })
  it.hold(all)
  const ended = await Promise.all(
    ['a', 'b', 'c'].map((name, at) =>
      child('providers/shared-limit.mjs', [fileOf(at), it.server.url, name, String(CALLS)]),
    ),
  )
  expect(ended.map(({ code, err }) => [code, err])).toEqual(ended.map(() => [0, '']))
  return { it, outcomes: ended.flatMap(({ out }) => JSON.parse(out) as string[]) }
}

test('three processes on one ledger cause no storm of refusals, and use the whole limit', async () => {
  const file = newLedger()
  const { it, outcomes } = await crowd(() => file)
  expect(it.served.length).toBe(3 * (CALLS + 1))
  expect(outcomes.every((outcome) => outcome.startsWith('end_turn '))).toBe(true)
  // A process that is far from the limit by its own answers asks after four or five calls of this limit: those of two processes may be what
  // the third has been admitted for. All the others ask first.
  expect(it.refused).toBeLessThanOrEqual(2 * 5)
})

test('each on a ledger of its own, they are refused', async () => {
  const { it } = await crowd(() => newLedger())
  // How many depends on how fast they send: 6 to 21 were seen.
  expect(it.refused).toBeGreaterThan(0)
})
