// The matrix of docs/rules/failover.md#rotation, over HTTP: every kind of error from 2 and 3 profiles of 3 models, and the
// exact order of the requests. The same with a simulated clock and its waits is in `crates/turn/src/fallback/tests.rs`. It must
// never wait for the end of a window.

import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { AgentEngine } from '../../../index.js'
import { folder } from '../../support/cleanup.js'
import { context, readAll, textOf } from '../../support/engine.js'
import { anthropic } from '../../support/servers/anthropic.js'
import { failWith, replyWith, type World, world } from '../../support/servers/failover.js'
import { type Handler, sse, status } from '../../support/servers/server.js'

let it: World
beforeEach(async () => {
  it = await world()
})
afterEach(() => it.server.close())

/** Lets the next attempt of a profile follow immediately. */
const soon = { 'retry-after-ms': '1' }
const hour = { 'retry-after': '3600' }
const MODELS = ['m1', 'm2', 'm3'] as const
type Model = (typeof MODELS)[number]

/** The number of requests per profile of a model, and the models: all of them without `models`. */
interface Way {
  reason: string
  handler: Handler
  /** Requests with one profile. */
  times?: number
  /** True where another profile of the model would fail alike. */
  onceAModel?: boolean
  models?: readonly Model[]
}

const ways: Record<string, Way> = {
  // Limited for an hour: no wait; the second limited model widens the window to the third.
  '429': { reason: 'rate_limit', handler: failWith(429, 'slow', hour), models: ['m1', 'm2'] },
  '529': {
    reason: 'overloaded',
    handler: failWith(529, 'busy', soon),
    times: 3,
    models: ['m1', 'm2'],
  },
  '503 with the text overloaded': {
    reason: 'overloaded',
    handler: failWith(503, 'The server is overloaded', soon),
    times: 3,
    models: ['m1', 'm2'],
  },
  '408': {
    reason: 'timeout',
    handler: failWith(408, 'late', soon),
    times: 3,
    models: ['m1', 'm2'],
  },
  '500': { reason: 'server_error', handler: failWith(500, 'broken', soon), times: 3 },
  '502 with a web page': {
    reason: 'server_error',
    handler: status(502, '<html><title>Bad Gateway</title></html>', soon),
    times: 3,
  },
  // The keys of a service are shared by all its models.
  '401': { reason: 'auth', handler: failWith(401), models: ['m1'] },
  '403 of a key that was revoked': {
    reason: 'auth_permanent',
    handler: failWith(403, 'This API key has been revoked'),
    models: ['m1'],
  },
  '402': { reason: 'billing', handler: failWith(402, 'credit balance is too low'), models: ['m1'] },
  '404': { reason: 'model_not_found', handler: failWith(404), onceAModel: true },
  '400': { reason: 'format', handler: failWith(400), onceAModel: true, models: ['m1'] },
  '400 without a body': { reason: 'unknown', handler: status(400, ''), onceAModel: true },
  'a refusal': {
    reason: 'refusal',
    handler: sse(anthropic.start() + anthropic.end('refusal')),
    onceAModel: true,
  },
  // m2 has a smaller window.
  'an overflow': {
    reason: 'context_overflow',
    handler: failWith(400, 'prompt is too long: 9 > 8'),
    onceAModel: true,
    models: ['m1', 'm3'],
  },
}

/** The requests if every attempt fails. */
const orderOf = ({ times = 1, onceAModel = false, models = MODELS }: Way, profiles: string[]) =>
  models.flatMap((model) =>
    (onceAModel ? profiles.slice(0, 1) : profiles).flatMap((profile) =>
      Array<string>(times).fill(`${model}/${profile}`),
    ),
  )

describe.each([[['a', 'b']], [['a', 'b', 'c']]])('of the profiles %j', (profiles) => {
  const start = (file?: string) => {
    const failover = { order: { test: profiles } }
    const ledger =
      file === undefined ? {} : { ledger: { path: file, synchronous: 'normal' } as const }
    return it.engine({ failover, compaction: false, ...ledger }, profiles)
  }
  const userTurn = (sessionLabel: string) =>
    context({ model: 'm1', fallbacks: ['m2', 'm3'], sessionLabel, timeoutMs: 20_000 })

  test.each(Object.entries(ways))('%s from every profile', async (_, way) => {
    it.answers(() => way.handler)
    const result = await start().run(userTurn('s')).result
    const order = orderOf(way, profiles)
    expect(it.requested).toEqual(order)
    expect(result).toMatchObject({ stopReason: 'error', error: { detail: { kind: way.reason } } })
    const attempts = result.attempts.map(({ model, profileId, reason }) => [
      `${model}/${profileId}`,
      reason,
    ])
    expect(attempts).toEqual(order.map((who) => [who, way.reason]))
  })

  test.each(Object.entries(ways))('%s, and an answer at any position', async (_, way) => {
    const order = orderOf(way, profiles)
    // The answer follows one failure, two, …: the requests before it are always the same.
    for (let failures = 1; failures < order.length; failures++) {
      it.requested.length = 0
      let left = failures
      it.answers(() => (left-- > 0 ? way.handler : replyWith('ok')))
      const run = start().run(userTurn('s'))
      const events = await readAll(run)
      expect([failures, textOf(events), ...it.requested]).toEqual([
        failures,
        'ok',
        ...order.slice(0, failures + 1),
      ])
      expect((await run.result).stopReason).toBe('end_turn')
    }
  })

  test.each(Object.entries(ways))(
    '%s cools the right profiles, and the next process uses none in cooldown',
    async (_, way) => {
      const { file } = folder()
      const engine = start(file)
      it.answers(() => way.handler)
      await engine.run(userTurn('s')).result
      // The last use of a healthy profile causes no commit of its own.
      const failures = async (of: AgentEngine) =>
        (await of.profiles()).map(({ lastUsedAt: _, ...state }) => state)
      const before = await failures(engine)
      const cools = ['rate_limit', 'overloaded', 'timeout', 'auth', 'auth_permanent', 'billing']
      const cooled = before.filter(({ windows }) => windows.length > 0).map(({ id }) => id)
      expect(cooled.sort()).toEqual(cools.includes(way.reason) ? profiles : [])
      await engine.close()
      const next = start(file)
      expect(await failures(next)).toEqual(before)
      it.requested.length = 0
      const again = await next.run(userTurn('other')).result
      expect(again.stopReason).toBe('error')
      // A profile in cooldown gets no request, and no window has moved.
      if (cooled.length > 0) expect(it.requested).toEqual([])
      expect((await failures(next)).map(({ windows }) => windows)).toEqual(
        before.map(({ windows }) => windows),
      )
    },
  )
})
