// Failing keys and models, through the public API: which ones are used instead, in what order, and which never
// (docs/rules/failover.md#rotation). It must never assert a duration.

import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { AgentEngineOptions, AssembledContext, StreamEvent } from '../../index.js'
import { folder } from '../support/cleanup.js'
import { readAll, textOf } from '../support/engine.js'
import { anthropic } from '../support/servers/anthropic.js'
import {
  chatReplyWith,
  contextOfM1,
  failWith,
  key,
  replyWith,
  runWithM1,
  type World,
  world,
} from '../support/servers/failover.js'
import { gate, type Handler, sse, sseThenHold } from '../support/servers/server.js'

let it: World
beforeEach(async () => {
  it = await world()
})
afterEach(() => it.server.close())

const runOnce = (changes: Partial<AssembledContext> = {}, options: AgentEngineOptions = {}) =>
  runWithM1(it, changes, options)

const switches = (events: StreamEvent[]) =>
  events.flatMap((event) =>
    event.type === 'model_switch' ? [`${event.from.model}>${event.to.model} ${event.reason}`] : [],
  )

describe('keys', () => {
  test.each([
    [401, 'auth'],
    [402, 'billing'],
    [429, 'rate_limit'],
  ])('a %i goes to the next key, and the session stays with that', async (code, reason) => {
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
    expect(it.asked).toEqual(['m1/a', 'm1/b', 'm1/b'])
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
    expect(it.asked).toEqual(['m1/a', 'm1/b', 'm1/a', 'm1/b', 'm1/a'])
  })

  test('one 400 is one request, and cools nothing', async () => {
    it.answers(() => failWith(400))
    const { engine, result } = await runOnce({ fallbacks: ['m2', 'm3'] })
    expect(result).toMatchObject({ stopReason: 'error', error: { detail: { kind: 'format' } } })
    expect(it.asked).toEqual(['m1/a'])
    expect((await engine.profiles()).flatMap((state) => state.windows)).toEqual([])
  })

  test('transient failures are retried with a key before the next one is used', async () => {
    const soon = { 'retry-after-ms': '1' }
    it.answers((_, name) => (name === 'a' ? failWith(529, 'busy', soon) : replyWith('ok')))
    const { result } = await runOnce()
    expect(result.stopReason).toBe('end_turn')
    expect(it.asked).toEqual(['m1/a', 'm1/a', 'm1/a', 'm1/b'])
  })

  test('a pinned key is never rotated: the next model is called with it', async () => {
    it.answers((model) => (model === 'm1' ? failWith(404) : replyWith('ok')))
    await runOnce({ authProfileId: 'b', fallbacks: ['m2'] })
    it.answers(() => failWith(401))
    const refused = await runOnce({ authProfileId: 'b', sessionLabel: 'other' })
    expect(refused.result.error?.kind).toBe('auth_failure')
    expect(it.asked).toEqual(['m1/b', 'm2/b', 'm1/b'])
  })

  test('the host’s order of keys is used, and keys that are not in it are not', async () => {
    it.answers((_, name) => (name === 'c' ? failWith(401) : replyWith('ok')))
    const engine = it.engine({ failover: { order: { test: ['c', 'a'] } } }, ['a', 'b', 'c'])
    for (const sessionLabel of ['s1', 's2', 's3'])
      await engine.run(contextOfM1({ sessionLabel })).result
    expect(it.asked).toEqual(['m1/c', 'm1/a', 'm1/a', 'm1/a'])
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
    expect(it.asked).toEqual(['m1/a', 'm1/b'])
    it.answers(() => replyWith('ok'))
    await engine.resetProfile('b')
    expect((await engine.run(contextOfM1({ sessionLabel: 'another' })).result).stopReason).toBe(
      'end_turn',
    )
    expect(it.asked.at(-1)).toBe('m1/b')
  })

  test.each<[Record<string, string>, string]>([
    [{}, 'cooldown'],
    [{ 'retry-after': '3600' }, 'provider'],
  ])('a limit that says %j ends with a time by the %s', async (headers, retryAfterSource) => {
    it.answers(() => failWith(429, 'slow', headers))
    const { result } = await runOnce({ timeoutMs: 20_000 })
    expect(result.error?.detail).toMatchObject({ kind: 'rate_limit', retryAfterSource })
    expect(result.error?.detail.retryAfterMs).toBeGreaterThan(20_000)
  })

  test('a limit without a time causes no wait where another model is usable', async () => {
    it.answers((model) => (model === 'm1' ? failWith(429) : replyWith('ok')))
    const { events, result } = await runOnce({ fallbacks: ['m2'], timeoutMs: 600_000 })
    expect(textOf(events)).toBe('ok')
    expect(it.asked).toEqual(['m1/a', 'm1/b', 'm2/a'])
    expect(switches(events)).toEqual(['m1>m2 rate_limit'])
    expect(events.filter(({ type }) => type === 'waiting')).toEqual([])
    expect(result.attempts).toHaveLength(3)
  })

  test('a pause longer than `maxWaitMs` leads to another model', async () => {
    const pause = { 'retry-after-ms': '50' }
    for (const [maxWaitMs, asked] of [
      [49, ['m1/a', 'm2/a']],
      [50, ['m1/a', 'm1/a', 'm1/a', 'm2/a']],
    ] as const) {
      it.asked.length = 0
      it.answers((model) => (model === 'm1' ? failWith(529, 'busy', pause) : replyWith('ok')))
      const engine = it.engine({ failover: { maxWaitMs } }, ['a'])
      const { stopReason } = await engine.run(contextOfM1({ fallbacks: ['m2'] })).result
      expect([stopReason, it.asked]).toEqual(['end_turn', asked])
    }
    expect(() => it.engine({ failover: { maxWaitMs: 60_001 } })).toThrowError(
      expect.objectContaining({ code: 'invalid_options', field: 'failover.maxWaitMs' }),
    )
  })

  test.each([
    [529, 'overloaded'],
    [503, 'server_error'],
    [429, 'rate_limit'],
  ])(
    'a %i with a time is asked three times, and each wait is an event that is kept',
    async (code, reason) => {
      const { file } = folder()
      it.answers(() => failWith(code, 'no', { 'retry-after-ms': '30' }))
      const engine = it.engine({ ledger: { path: file } }, ['a'])
      const run = engine.run(contextOfM1({ runId: 'waits' }))
      const events = await readAll(run)
      const { error } = await run.result
      expect(error?.detail).toMatchObject({ kind: reason, retryAfterMs: 30 })
      expect(it.asked).toEqual(['m1/a', 'm1/a', 'm1/a'])
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
    expect(it.asked.slice(0, 2)).toEqual(['m1/a', 'm1/b'])
    expect(it.asked).toHaveLength(3)
  })

  test('refused keys are an auth failure, and no key is in it', async () => {
    it.answers((_, name) => failWith(401, `bad key ${key(name)}`))
    const { result } = await runOnce()
    expect(result.error).toMatchObject({ kind: 'auth_failure', retryable: false })
    expect(JSON.stringify(result)).not.toContain('canary')
    expect(it.asked).toEqual(['m1/a', 'm1/b'])
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
    expect(it.asked.filter((line) => line.startsWith('m2'))).toEqual(['m2/b', 'm2/a'])
  })
})

describe('models', () => {
  test('the next model gets the conversation in its own API, and the turn records that model', async () => {
    const { file } = folder()
    const engine = it.engine({ ledger: { path: file, synchronous: 'normal' } })
    it.answers(() =>
      sse(
        anthropic.start() +
          anthropic.thinking(0, 'hm', 'sig') +
          anthropic.text(1, 'first') +
          anthropic.end(),
      ),
    )
    await engine.run(contextOfM1()).result
    it.answers((model) => (model === 'o1' ? chatReplyWith('second') : failWith(404)))
    const run = engine.run(
      contextOfM1({ fallbacks: ['m2', { provider: 'other', model: 'o1' }, 'm1'] }),
    )
    const events = await readAll(run)
    const result = await run.result
    expect([result.stopReason, textOf(events)]).toEqual(['end_turn', 'second'])
    expect(switches(events)).toEqual(['m1>m2 model_not_found', 'm2>o1 model_not_found'])
    expect(it.asked).toEqual(['m1/a', 'm1/a', 'm2/a', 'o1/o'])
    const sent = it.server.seen.at(-1)?.body
    expect(sent.messages.map(({ role }: { role: string }) => role)).toEqual([
      'system',
      'user',
      'assistant',
      'user',
    ])
    expect(JSON.stringify(sent.messages)).not.toContain('hm')
    expect(result.tokenBudget?.modelLimit).toBe(100_000)
    const turn = await engine.ledger.turn(result.turnId)
    expect(turn).toMatchObject({ provider: 'other', model: 'o1' })
    const { rows } = await engine.ledger.query('SELECT attempts_json FROM turns WHERE id = ?', [
      result.turnId,
    ])
    expect(JSON.parse(String(rows[0]?.attempts_json))).toEqual(result.attempts)
    expect(
      result.attempts.map(({ model, profileId, reason }) => [model, profileId, reason]),
    ).toEqual([
      ['m1', 'a', 'model_not_found'],
      ['m2', 'a', 'model_not_found'],
      ['o1', 'o', undefined],
    ])
    // The next turn begins with the requested model.
    it.answers(() => replyWith('third'))
    expect((await engine.run(contextOfM1()).result).attempts).toMatchObject([
      { model: 'm1', ok: true },
    ])
  })

  test('after the first token no other model is requested', async () => {
    it.answers(() =>
      sse(
        anthropic.start() +
          anthropic.blockStart(0, { type: 'text', text: '' }) +
          anthropic.delta(0, { type: 'text_delta', text: 'half' }),
      ),
    )
    const { result, events } = await runOnce({ fallbacks: ['m2'] })
    expect(result).toMatchObject({ stopReason: 'error', error: { retryable: true } })
    expect(events.at(-1)).toMatchObject({ type: 'stream_error', partial: true })
    expect(it.asked).toEqual(['m1/a'])
  })

  test('a refusal without text leads to the next model; with text it is final', async () => {
    it.answers((model) =>
      model === 'm1' ? sse(anthropic.start() + anthropic.end('refusal')) : replyWith('ok'),
    )
    const { result, events } = await runOnce({ fallbacks: ['m2'] })
    expect([result.stopReason, textOf(events)]).toEqual(['end_turn', 'ok'])
    expect(switches(events)).toEqual(['m1>m2 refusal'])
    it.answers(() => sse(anthropic.start() + anthropic.text(0, 'No.') + anthropic.end('refusal')))
    const declined = await runOnce({ fallbacks: ['m2'], sessionLabel: 'other' })
    expect(declined.result.error?.detail.kind).toBe('refusal')
    expect(it.asked).toEqual(['m1/a', 'm2/a', 'm1/a'])
  })

  test('a prompt that is too long leads to a larger window only, and only after compaction has failed', async () => {
    const long = () => failWith(400, 'prompt is too long: 9 > 8')
    it.answers((model) => (model === 'm3' ? replyWith('fits') : long()))
    const { result, events } = await runOnce({ fallbacks: ['m2', 'm3'] }, { compaction: false })
    expect([result.stopReason, textOf(events)]).toEqual(['end_turn', 'fits'])
    expect(switches(events)).toEqual(['m1>m3 context_overflow'])
    expect(it.asked).toEqual(['m1/a', 'm3/a'])
  })

  test('a summary comes before a larger window', async () => {
    const { file } = folder()
    let full = false
    it.answers((model, _) => (response, seen) => {
      const text = JSON.stringify(seen.body)
      if (text.includes('lorem') && model === 'm1' && full && !text.includes('It goes on'))
        return (
          seen.body.messages.length === 1
            ? replyWith('## Goal\nIt goes on.')
            : failWith(400, 'prompt is too long: 9 > 8')
        )(response, seen)
      return replyWith(full ? 'fits' : 'lorem ipsum '.repeat(800))(response, seen)
    })
    const engine = it.engine({
      ledger: { path: file, synchronous: 'normal' },
      compaction: { preset: 'myclaw' },
    })
    for (let turn = 0; turn < 8; turn++) await engine.run(contextOfM1()).result
    full = true
    const run = engine.run(contextOfM1({ fallbacks: ['m3'] }))
    const events = await readAll(run)
    const result = await run.result
    expect([result.stopReason, textOf(events)]).toEqual(['end_turn', 'fits'])
    expect(result.compaction?.summary).toContain('It goes on')
    expect(switches(events)).toEqual([])
  })

  test('after a compaction the key is chosen again, because the old prompt’s cache is useless', async () => {
    const { file } = folder()
    let full = false
    it.answers(() => (response, seen) => {
      const long = full && seen.body.messages.length > 4
      const answer = long
        ? failWith(400, 'prompt is too long: 9 > 8')
        : replyWith('lorem ipsum '.repeat(400))
      return answer(response, seen)
    })
    const engine = it.engine({
      ledger: { path: file, synchronous: 'normal' },
      compaction: { strategies: ['hard_clear'] },
    })
    for (let turn = 0; turn < 4; turn++) await engine.run(contextOfM1()).result
    full = true
    expect((await engine.run(contextOfM1()).result).compaction?.compactionType).toBe('hard_clear')
    expect(it.asked.slice(-3)).toEqual(['m1/a', 'm1/a', 'm1/b'])
    await engine.run(contextOfM1()).result
    expect(it.asked.at(-1)).toBe('m1/b')
  })

  test('all models fail: the last one’s error, and every attempt', async () => {
    it.answers(() => failWith(401))
    const engine = it.engine({}, ['a'])
    const result = await engine.run(
      contextOfM1({ fallbacks: ['m2', { provider: 'other', model: 'o1' }] }),
    ).result
    expect(result).toMatchObject({ stopReason: 'error', error: { kind: 'auth_failure' } })
    // The key was refused, so its other model is not called.
    expect(it.asked).toEqual(['m1/a', 'o1/o'])
    expect(result.attempts.map(({ model }) => model)).toEqual(['m1', 'o1'])
  })

  test('an allowlist holds for fallbacks, and names the models it left out', async () => {
    it.answers((model) => (model === 'm1' ? failWith(404) : replyWith('ok')))
    const { result } = await runOnce({ fallbacks: ['m2', 'm3'] }, { failover: { allow: ['m3'] } })
    expect(it.asked).toEqual(['m1/a', 'm3/a'])
    expect(result.warnings).toMatchObject([{ code: 'fallback_not_allowed', field: 'fallbacks[0]' }])
    const usual = it.engine({ failover: { fallbacks: ['m2'] } })
    expect((await usual.run(contextOfM1()).result).attempts.at(-1)?.model).toBe('m2')
  })

  test('options for one provider are not sent to another', async () => {
    it.answers((model) => (model === 'o1' ? chatReplyWith('ok') : failWith(404)))
    const { result } = await runOnce({
      fallbacks: ['m2', 'o1'],
      headers: { 'x-team-secret': 'house-key-0123456789' },
      providerTools: [{ type: 'web_search_20250305', name: 'web_search' }],
    })
    expect(result.stopReason).toBe('end_turn')
    const sent = it.server.seen.map(({ headers, raw }) => [
      headers['x-team-secret'] !== undefined,
      raw.includes('web_search'),
    ])
    expect(sent).toEqual([
      [true, true],
      [true, true],
      [false, false],
    ])
    expect(result.warnings.map(({ code, field }) => [code, field])).toEqual([
      ['unsupported_option', 'headers'],
      ['unsupported_option', 'providerTools'],
    ])
  })

  test('the tool loop continues with the fallback model', async () => {
    let ran = 0
    const tools = [{ name: 'look', run: () => `saw ${++ran}` }]
    let calls = 0
    it.answers((model) => {
      if (model === 'm1')
        return calls++ === 0 ? sse(anthropic.calls(['c1', 'look', {}])) : failWith(404)
      return replyWith('done')
    })
    const { result, events } = await runOnce({ tools, fallbacks: ['m2'] })
    expect([result.stopReason, textOf(events), ran]).toEqual(['end_turn', 'done', 1])
    expect(it.asked).toEqual(['m1/a', 'm1/a', 'm2/a'])
    const sent = JSON.stringify(it.server.seen.at(-1)?.body.messages)
    expect(sent).toContain('saw 1')
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
  ] as const)('%s ends the run, and nobody else is asked', async (_, handler, changes) => {
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
    expect(it.asked).toEqual(['m1/a'])
  })
})

describe('wrong options are refused immediately', () => {
  test.each([
    [{ fallbacks: ['nope'] }, 'unknown_model', 'fallbacks[0]'],
    [
      { fallbacks: [{ provider: 'nope', model: 'm1' }] },
      'unknown_provider',
      'fallbacks[0].provider',
    ],
    [{ fallbacks: [7] }, 'invalid_context', 'fallbacks[0]'],
    [{ fallbacks: [''] }, 'invalid_context', 'fallbacks[0]'],
    [{ fallbacks: 'm2' }, 'invalid_context', 'fallbacks'],
    [{ authProfileId: 'nope' }, 'invalid_context', 'authProfileId'],
    [{ authProfileId: 'o' }, 'invalid_context', 'authProfileId'],
  ])('in a context: %j', (changes, code, field) => {
    const engine = it.engine()
    expect(() => engine.run(contextOfM1(changes as Partial<AssembledContext>))).toThrow(
      expect.objectContaining({ code, field }),
    )
  })

  test.each([
    [{ ladder: 'steep' }, 'failover.ladder'],
    [{ billingBaseMs: 0 }, 'failover.billingBaseMs'],
    [{ order: { nope: [] } }, 'failover.order.nope'],
    [{ order: { test: ['o'] } }, 'failover.order.test[0]'],
    [{ order: { test: ['a', 'a'] } }, 'failover.order.test[1]'],
    [{ fallbacks: [{ provider: 'nope', model: 'x' }] }, 'failover.fallbacks'],
    [{ other: 1 }, 'failover.other'],
    [[], 'failover'],
  ])('in the options: %j', (failover, field) => {
    expect(() => it.engine({ failover: failover as never })).toThrow(
      expect.objectContaining({ code: 'invalid_options', field }),
    )
  })

  test('an unknown profile', async () => {
    await expect(it.engine().resetProfile('nope')).rejects.toMatchObject({
      code: 'unknown_profile',
    })
  })
})
