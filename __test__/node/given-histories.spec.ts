// Given histories: whatever a host does to the messages that it gives again, the request is the one of an engine that never saw
// them. `npm run proof:given-histories` runs 100,000 sequences of edits; a sequence is made again by `GIVEN_SEED=<its seed>
// GIVEN_SEQUENCES=1`. It must never look at what is remembered, only at what is sent.

import { expect, test } from 'vitest'
import { closing } from '../support/cleanup.js'
import { bodyOf, freshBody, given, unsentEngine } from '../support/sent-bodies.js'
import { edit } from '../support/values/edited-history.js'
import { Random } from '../support/values/hostile.js'

const SEQUENCES = Number(process.env.GIVEN_SEQUENCES ?? 300)
const SEED = Number(process.env.GIVEN_SEED ?? 1)
/** A new engine costs more than a call: of so many calls, one is compared with one of a new engine. */
const FRESH = 8
const STEPS = 8
const MODELS = ['test-model', 'test-model', 'test-model', 'other-model'] as const
const PROVIDERS = ['test', 'test', 'test', 'chat'] as const

test(`${SEQUENCES} sequences of edits are sent as an engine sends them that never saw the history`, async () => {
  const remembering = closing(unsentEngine())
  // A list behind a proxy is never recognised, and none of it is remembered.
  const forgetful = closing(unsentEngine())
  let calls = 0
  for (let sequence = 0; sequence < SEQUENCES; sequence++) {
    const seed = SEED + sequence
    const random = new Random(seed)
    let history: unknown[] = []
    const label = random.once(2) ? 'shared' : `session-${seed}`
    const done: string[] = []
    for (let step = 1 + random.int(STEPS); step > 0; step--) {
      history = edit(random, history)
      const changes = {
        sessionLabel: random.once(6) ? `other-${seed}` : label,
        model: random.pick(MODELS),
        provider: random.pick(PROVIDERS),
      }
      const body = await bodyOf(remembering, { ...changes, ...given(history) })
      const whole = given(new Proxy(history, {}))
      const expected = await bodyOf(forgetful, { ...changes, ...whole })
      done.push(`${changes.provider}/${changes.model}: ${history.length} messages`)
      const info = `seed ${seed}: ${done.join(', ')}`
      expect(body, info).toBe(expected)
      expect(body, info).not.toMatch(/^no request/)
      if (calls++ % FRESH === 0) {
        expect(body, info).toBe(await freshBody({ ...changes, ...given(history) }))
      }
    }
  }
}, 86_400_000)

test('a frozen message is read again where a getter may return another value', async () => {
  const engine = closing(unsentEngine())
  let reads = 0
  const block = Object.freeze({
    type: 'text',
    get text() {
      return `read ${++reads}`
    },
  })
  const message = Object.freeze({ role: 'user', content: Object.freeze([block]) })
  const history = [message, { role: 'assistant', content: 'Yes.' }]
  for (const read of [1, 2, 3]) {
    expect(await bodyOf(engine, given(history))).toContain(`"read ${read}"`)
  }
})
