// Failing keys, through the public API: which key is used instead, in what order, and which never
// (docs/rules/failover.md#rotation). It must never assert a duration.

import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { AgentEngineOptions, AssembledContext } from '../../../index.js'
import { folder } from '../../support/cleanup.js'
import { readAll, textOf } from '../../support/engine.js'
import { anthropic } from '../../support/servers/anthropic.js'
import {
  contextOfM1,
  failWith,
  key,
  replyWith,
  runWithM1,
  switches,
  type World,
  world,
} from '../../support/servers/failover.js'
import { gate, type Handler, sse, sseThenHold } from '../../support/servers/server.js'

let it: World
beforeEach(async () => {
  it = await world()
})
afterEach(() => it.server.close())

const runOnce = (changes: Partial<AssembledContext> = {}, options: AgentEngineOptions = {}) =>
  runWithM1(it, changes, options)

describe('keys', () => {
  test.each([
    [401, 'auth'],
    [402, 'billing'],
    [429, 'rate_limit'],
  ])('a %i leads to the next key, and the session stays with that', async (code, reason) => {
    it.answers((_, name) => (name === 'a' ? failWith(code) : replyWith('ok')))
    const { engine, result } = await runOnce()
    expect(result.stopReason).toBe('end_turn')
    expect(
      result.attempts.map(({ profileId, ok, status, reason }) => [profileId, ok, status, reason]),
    ).toEqual([
      ['a', false, code, reason],
      ['b', true, 200, undefined],
    ])
    expect((await engine.run(contextOfM1()).result).stopReason).toBe('end_turn')
    expect(it.requested).toEqual(['m1/a', 'm1/b', 'm1/b'])
    const states = Object.fromEntries((await engine.profiles()).map((state) => [state.id, state]))
    expect(states.a?.windows).toMatchObject([{ reason, model: code === 429 ? 'm1' : null }])
    expect(states.a?.available).toBe(code === 429)
    expect(states.b).toMatchObject({
      available: true,
      windows: [],
      type: 'api_key',
      provider: 'test',
    })
    expect(JSON.stringify(states)).not.toContain('canary')
  })

  test('sessions alternate, and each stays with its own key', async () => {
    const engine = it.engine()
    for (const sessionLabel of ['s1', 's2', 's1', 's2', 's1'])
      expect((await engine.run(contextOfM1({ sessionLabel })).result).stopReason).toBe('end_turn')
    expect(it.requested).toEqual(['m1/a', 'm1/b', 'm1/a', 'm1/b', 'm1/a'])
  })

  test('one 400 is one request, and cools nothing', async () => {
    it.answers(() => failWith(400))
    const { engine, result } = await runOnce({ fallbacks: ['m2', 'm3'] })
    expect(result).toMatchObject({ stopReason: 'error', error: { detail: { kind: 'format' } } })
    expect(it.requested).toEqual(['m1/a'])
    expect((await engine.profiles()).flatMap((state) => state.windows)).toEqual([])
  })

  test('transient failures are retried with a key before the next one is used', async () => {
    const soon = { 'retry-after-ms': '1' }
    it.answers((_, name) => (name === 'a' ? failWith(529, 'busy', soon) : replyWith('ok')))
    const { result } = await runOnce()
    expect(result.stopReason).toBe('end_turn')
    expect(it.requested).toEqual(['m1/a', 'm1/a', 'm1/a', 'm1/b'])
  })

  test('a pinned key is never rotated: the next model is called with it', async () => {
    it.answers((model) => (model === 'm1' ? failWith(404) : replyWith('ok')))
    await runOnce({ authProfileId: 'b', fallbacks: ['m2'] })
    it.answers(() => failWith(401))
    const refused = await runOnce({ authProfileId: 'b', sessionLabel: 'other' })
    expect(refused.result.error?.kind).toBe('auth_failure')
    expect(it.requested).toEqual(['m1/b', 'm2/b', 'm1/b'])
  })

  test('the host’s order of keys is used, and keys that are not in it are not', async () => {
    it.answers((_, name) => (name === 'c' ? failWith(401) : replyWith('ok')))
    const engine = it.engine({ failover: { order: { test: ['c', 'a'] } } }, ['a', 'b', 'c'])
    for (const sessionLabel of ['s1', 's2', 's3'])
      await engine.run(contextOfM1({ sessionLabel })).result
    expect(it.requested).toEqual(['m1/c', 'm1/a', 'm1/a', 'm1/a'])
  })

  test('when all are limited the run fails with the time to wait, and the next one sends no request', async () => {
    it.answers(() => failWith(429))
    const timeoutMs = 20_000
    const { engine, result } = await runOnce({ timeoutMs })
    expect(result.error).toMatchObject({ kind: 'rate_limit', retryable: true })
    expect(result.error?.detail.retryAfterMs).toBeGreaterThan(20_000)
    const next = await engine.run(contextOfM1({ sessionLabel: 'another', timeoutMs })).result
    expect(next.error).toMatchObject({
      kind: 'rate_limit',
      detail: { code: 'profiles_cooling' },
    })
    expect(next.attempts).toEqual([])
    expect(it.requested).toEqual(['m1/a', 'm1/b'])
    it.answers(() => replyWith('ok'))
    await engine.resetProfile('b')
    expect((await engine.run(contextOfM1({ sessionLabel: 'another' })).result).stopReason).toBe(
      'end_turn',
    )
    expect(it.requested.at(-1)).toBe('m1/b')
  })

  test.each<[Record<string, string>, string]>([
    [{}, 'cooldown'],
    [{ 'retry-after': '3600' }, 'provider'],
  ])('a limit with %j ends with a time by the %s', async (headers, retryAfterSource) => {
    it.answers(() => failWith(429, 'slow', headers))
    const { result } = await runOnce({ timeoutMs: 20_000 })
    expect(result.error?.detail).toMatchObject({ kind: 'rate_limit', retryAfterSource })
    expect(result.error?.detail.retryAfterMs).toBeGreaterThan(20_000)
  })

  test('a limit without a time causes no wait where another model is usable', async () => {
    it.answers((model) => (model === 'm1' ? failWith(429) : replyWith('ok')))
    const { events, result } = await runOnce({ fallbacks: ['m2'], timeoutMs: 600_000 })
    expect(textOf(events)).toBe('ok')
    expect(it.requested).toEqual(['m1/a', 'm1/b', 'm2/a'])
    expect(switches(events)).toEqual(['m1>m2 rate_limit'])
    expect(events.filter(({ type }) => type === 'waiting')).toEqual([])
    expect(result.attempts).toHaveLength(3)
  })

  test('a pause longer than `maxWaitMs` leads to another model', async () => {
    const pause = { 'retry-after-ms': '50' }
    for (const [maxWaitMs, requested] of [
      [49, ['m1/a', 'm2/a']],
      [50, ['m1/a', 'm1/a', 'm1/a', 'm2/a']],
    ] as const) {
      it.requested.length = 0
      it.answers((model) => (model === 'm1' ? failWith(529, 'busy', pause) : replyWith('ok')))
      const engine = it.engine({ failover: { maxWaitMs } }, ['a'])
      const { stopReason } = await engine.run(contextOfM1({ fallbacks: ['m2'] })).result
      expect([stopReason, it.requested]).toEqual(['end_turn', requested])
    }
    expect(() => it.engine({ failover: { maxWaitMs: 60_001 } })).toThrowError(
      expect.objectContaining({ code: 'invalid_options', field: 'failover.maxWaitMs' }),
    )
  })

  test('`maxRetries` is how often a key is used again, and the next model is called after that', async () => {
    const pause = { 'retry-after-ms': '1' }
    for (const [maxRetries, code] of [
      [0, 529],
      [0, 429],
      [1, 529],
      [3, 529],
    ] as const) {
      it.requested.length = 0
      it.answers((model) => (model === 'm1' ? failWith(code, 'busy', pause) : replyWith('ok')))
      const engine = it.engine({ failover: { maxRetries } }, ['a'])
      const { stopReason } = await engine.run(contextOfM1({ fallbacks: ['m2'] })).result
      const requested = [...Array(maxRetries + 1).fill('m1/a'), 'm2/a']
      expect([stopReason, it.requested]).toEqual(['end_turn', requested])
    }
    expect(() => it.engine({ failover: { maxRetries: 11 } })).toThrowError(
      expect.objectContaining({ code: 'invalid_options', field: 'failover.maxRetries' }),
    )
  })

  test.each([
    [529, 'overloaded'],
    [503, 'server_error'],
    [429, 'rate_limit'],
  ])(
    'a %i with a time is requested three times, and each wait is a stored event',
    async (code, reason) => {
      const { file } = folder()
      it.answers(() => failWith(code, 'no', { 'retry-after-ms': '30' }))
      const engine = it.engine({ ledger: { path: file } }, ['a'])
      const run = engine.run(contextOfM1({ runId: 'waits' }))
      const events = await readAll(run)
      const { error } = await run.result
      expect(error?.detail).toMatchObject({ kind: reason, retryAfterMs: 30 })
      expect(it.requested).toEqual(['m1/a', 'm1/a', 'm1/a'])
      const waits = events.filter((event) => event.type === 'waiting')
      const wait = { reason, purpose: 'run', provider: 'test', model: 'm1', profileId: 'a' }
      expect(waits).toMatchObject([
        { ...wait, attempt: 2 },
        { ...wait, attempt: 3 },
      ])
      for (const { ms = 0, until = 0 } of waits) {
        // A window may end just before the wait begins; otherwise its last millisecond is waited for too.
        expect(ms).toBeGreaterThan(0)
        expect(ms).toBeLessThanOrEqual(31)
        expect(until).toBeGreaterThan(1_700_000_000_000)
      }
      const attached = []
      for await (const event of engine.attach('waits')) attached.push(event)
      expect(attached).toEqual(events)
    },
  )

  test('a short wait of the server is waited', async () => {
    let limited = 0
    it.answers(() =>
      limited++ < 2 ? failWith(429, 'slow', { 'retry-after-ms': '20' }) : replyWith('ok'),
    )
    const { result } = await runOnce()
    expect(result.stopReason).toBe('end_turn')
    expect(it.requested.slice(0, 2)).toEqual(['m1/a', 'm1/b'])
    expect(it.requested).toHaveLength(3)
  })

  test('refused keys are an auth failure, and no key is in it', async () => {
    it.answers((_, name) => failWith(401, `bad key ${key(name)}`))
    const { result } = await runOnce()
    expect(result.error).toMatchObject({ kind: 'auth_failure', retryable: false })
    expect(JSON.stringify(result)).not.toContain('canary')
    expect(it.requested).toEqual(['m1/a', 'm1/b'])
  })

  test('a summary is requested with a key that works', async () => {
    const { file } = folder()
    const words = 'lorem ipsum '.repeat(1_500)
    it.answers((model, name) => {
      if (model === 'm2') return name === 'b' ? failWith(429) : replyWith('## Goal\nIt goes on.')
      return replyWith(words)
    })
    const engine = it.engine({
      ledger: { path: file, synchronous: 'normal' },
      compaction: { model: 'm2', preset: 'myclaw' },
    })
    for (let turn = 0; turn < 6; turn++) await engine.run(contextOfM1()).result
    const done = await engine.compact('s')
    expect(done?.summary).toContain('It goes on')
    expect(it.requested.filter((line) => line.startsWith('m2'))).toEqual(['m2/b', 'm2/a'])
  })
})

describe('an abort', () => {
  const hold: Handler = () => {}
  test.each([
    ['before the answer', hold, {}],
    [
      'at the first token',
      sseThenHold(
        anthropic.start() +
          anthropic.blockStart(0, { type: 'text', text: '' }) +
          anthropic.delta(0, { type: 'text_delta', text: 'x' }),
      ),
      {},
    ],
    ['in a tool', sse(anthropic.calls(['c1', 'wait', {}])), {}],
    [
      'in the wait before a retry',
      failWith(529, 'busy', { 'retry-after': '20' }),
      { fallbacks: undefined },
    ],
    [
      'in the wait for a key',
      failWith(429, 'slow', { 'retry-after': '20' }),
      { fallbacks: undefined },
    ],
  ] as const)('%s ends the run, and no other model is called', async (_, handler, changes) => {
    const here = gate()
    it.answers(() => (response, seen) => {
      here.open()
      return handler(response, seen)
    })
    const waiting = gate()
    const tools = [
      {
        name: 'wait',
        run: () => {
          waiting.open()
          return new Promise(() => {})
        },
      },
    ]
    const { file } = folder()
    const engine = it.engine({ ledger: { path: file, synchronous: 'normal' } }, ['a'])
    const run = engine.run(
      contextOfM1({ tools, fallbacks: ['m2', 'm3'], timeoutMs: 60_000, ...changes }),
    )
    await here.wait
    if (_ === 'in a tool') await waiting.wait
    if (_ === 'at the first token') await run.next().then(() => run.next())
    if (_.startsWith('in the wait')) {
      for (let type = ''; type !== 'waiting'; type = (await run.next()).value?.type ?? 'waiting');
    }
    run.abort()
    const result = await run.result
    expect(result).toMatchObject({ stopReason: 'aborted', persisted: true })
    await engine.close()
    expect(it.requested).toEqual(['m1/a'])
  })
})
