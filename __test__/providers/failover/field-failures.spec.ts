// Failures that real users had, reproduced end to end (docs/rules/failover.md#classification): misclassified errors, useless
// requests with keys and models. It must never assert a duration.
//
// Elsewhere: compaction and histories in `compaction/field-failures`, every kind of error with every profile and model in
// `error-matrix`, an abort at each phase in `engine/abort-is-final` (that it never falls back: `failover`), and in `failover`
// that one 400 is one request and that a pinned key is never rotated.

import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { AgentEngineOptions, AssembledContext, ProfileState } from '../../../index.js'
import { folder } from '../../support/cleanup.js'
import { readAll, textOf } from '../../support/engine.js'
import { anthropic } from '../../support/servers/anthropic.js'
import { chat } from '../../support/servers/chat.js'
import {
  chatReplyWith,
  contextOfM1,
  failWith,
  replyWith,
  runWithM1,
  type World,
  world,
} from '../../support/servers/failover.js'
import { gate, type Handler, sse, status } from '../../support/servers/server.js'

let it: World
beforeEach(async () => {
  it = await world()
})
afterEach(() => it.server.close())

const HOUR = 3_600_000
const runOnce = (changes: Partial<AssembledContext> = {}, options: AgentEngineOptions = {}) =>
  runWithM1(it, changes, options)

/** A text that resembles every error. */
const ALARM = [
  '429 Too Many Requests: rate limit exceeded, retry after 3600 seconds.',
  '401 invalid x-api-key; authentication_error.',
  'insufficient_quota: your credit balance is too low (402).',
  'prompt is too long: 250000 tokens > 200000 maximum; context_length_exceeded.',
  '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}',
  'model_not_found. ECONNRESET. 500 Internal Server Error.',
].join('\n')

describe('a text that resembles an error', () => {
  const healthy = (states: ProfileState[]) =>
    expect(states.map(({ available, windows }) => [available, windows])).toEqual(
      states.map(() => [true, []]),
    )

  test('in an answer of the model is an answer, for any chunking', async () => {
    const { file } = folder()
    it.answers((model) =>
      model === 'o1'
        ? sse(chat.text(...ALARM.split(' ')) + chat.finish('stop') + chat.done())
        : replyWith(ALARM),
    )
    const { result, events, engine } = await runOnce(
      { fallbacks: ['m2', 'm3'] },
      { ledger: { path: file, synchronous: 'normal' } },
    )
    expect([result.stopReason, textOf(events), result.attempts.length]).toEqual([
      'end_turn',
      ALARM,
      1,
    ])
    expect(result.compaction).toBeUndefined()
    const other = await engine.run(
      contextOfM1({ provider: 'other', model: 'o1', fallbacks: ['m2'] }),
    ).result
    expect(other).toMatchObject({ stopReason: 'end_turn', attempts: [{ ok: true }] })
    // It is in the next request as well, without an effect.
    it.answers(() => replyWith('fine'))
    expect((await engine.run(contextOfM1({ fallbacks: ['m2'] })).result).attempts).toMatchObject([
      { ok: true, model: 'm1' },
    ])
    healthy(await engine.profiles())
    expect(it.requested).toEqual(['m1/a', 'o1/o', 'm1/a'])
  })

  test('in a tool result, or a tool’s error, is passed to the model', async () => {
    const rounds: Handler[] = [
      sse(anthropic.calls(['c1', 'fetch', {}], ['c2', 'break', {}])),
      replyWith('read'),
    ]
    it.answers(() => rounds.shift() ?? replyWith('more'))
    const tools = [
      { name: 'fetch', run: () => ALARM },
      {
        name: 'break',
        run: () => {
          throw Object.assign(new Error(ALARM), { status: 429, code: 'ECONNRESET' })
        },
      },
    ]
    const { result, engine } = await runOnce({ tools, fallbacks: ['m2', 'm3'] })
    expect(result).toMatchObject({ stopReason: 'end_turn', attempts: [{ ok: true }, { ok: true }] })
    expect(result.toolCalls.map((call) => call.status)).toEqual(['completed', 'failed'])
    expect(it.requested).toEqual(['m1/a', 'm1/a'])
    healthy(await engine.profiles())
  })

  test('in the conversation has no effect on the classification of a failure: only the payload is read', async () => {
    it.answers(() => failWith(400, 'messages.1: unexpected role'))
    const currentMessage = { role: 'user', content: ALARM } as const
    const { result, engine } = await runOnce({ currentMessage, fallbacks: ['m2'] })
    expect(result.error).toMatchObject({ kind: 'model_error', detail: { kind: 'format' } })
    expect(it.requested).toEqual(['m1/a'])
    healthy(await engine.profiles())
  })
})

describe('a text with a size that is no overflow', () => {
  const limited = { 'retry-after': '3600' }
  test.each<[string, Handler, string]>([
    [
      'a 429 for too many tokens',
      failWith(429, 'too many tokens, please wait', limited),
      'rate_limit',
    ],
    [
      'a 429 for tokens per minute',
      failWith(429, 'Request too large: limit 30000 input tokens per minute', limited),
      'rate_limit',
    ],
    [
      'a 413 for tokens per minute',
      status(413, {
        error: {
          message: 'Request too large on tokens per minute (TPM): Limit 6000, Requested 9000',
          type: 'tokens',
          code: 'rate_limit_exceeded',
        },
      }),
      'rate_limit',
    ],
    [
      'a 402 for credits',
      failWith(
        402,
        'This request requires more credits, or fewer max_tokens: you requested 9000 tokens',
      ),
      'billing',
    ],
    ['a 400 for too many images', failWith(400, 'exceeds the limit of 5 images'), 'format'],
  ])('%s compacts nothing', async (_, handler, kind) => {
    const { file } = folder()
    const ledger = { path: file, synchronous: 'normal' } as const
    const engine = it.engine({ ledger }, ['a'])
    for (let n = 0; n < 4; n++) await engine.run(contextOfM1()).result
    it.answers(() => handler)
    const result = await engine.run(contextOfM1()).result
    expect(result.error?.detail.kind).toBe(kind)
    expect(result.compaction).toBeUndefined()
    expect(it.requested).toHaveLength(5)
    const { rows } = await engine.ledger.query('SELECT count(*) AS n FROM compactions')
    expect(rows).toEqual([{ n: 0 }])
  })
})

describe('a rate limit', () => {
  test('with a Retry-After of an hour causes no wait: the window lasts an hour', async () => {
    it.answers(() => failWith(429, 'slow', { 'retry-after': '3600' }))
    const before = Date.now()
    const { engine, result } = await runOnce({}, {})
    expect(result.error).toMatchObject({ kind: 'rate_limit', retryable: true })
    expect(result.error?.detail.retryAfterMs).toBeGreaterThan(HOUR / 2)
    expect(it.requested).toEqual(['m1/a', 'm1/b'])
    for (const { windows } of await engine.profiles()) {
      if (windows.length === 0) continue
      expect(windows).toMatchObject([{ model: 'm1', reason: 'rate_limit' }])
      expect(windows[0]?.until).toBeGreaterThanOrEqual(before + HOUR)
    }
    // The next run sends no request.
    expect((await engine.run(contextOfM1({ sessionLabel: 'next' })).result).attempts).toEqual([])
    expect(it.requested).toHaveLength(2)
  })

  test('of all profiles is waited for if it is short, and leads to the next model if it is long', async () => {
    let limited = 0
    const short = failWith(429, 'slow', { 'retry-after-ms': '20' })
    it.answers(() => (limited++ < 2 ? short : replyWith('first')))
    const waited = await runOnce({ fallbacks: ['m2'] })
    expect(textOf(waited.events)).toBe('first')
    expect(it.requested.every((line) => line.startsWith('m1'))).toBe(true)
    it.requested.length = 0
    const long = failWith(429, 'slow', { 'retry-after': '3600' })
    it.answers((model) => (model === 'm1' ? long : replyWith('second')))
    const gone = await runOnce({ fallbacks: ['m2'], sessionLabel: 'other' })
    expect(textOf(gone.events)).toBe('second')
    expect(it.requested).toEqual(['m1/a', 'm1/b', 'm2/a'])
    // All are in cooldown before the first call: the next model immediately.
    it.requested.length = 0
    const run = gone.engine.run(contextOfM1({ fallbacks: ['m2'], sessionLabel: 'third' }))
    expect(textOf(await readAll(run))).toBe('second')
    expect(it.requested).toEqual([expect.stringMatching(/^m2\//)])
  })

  test('that is repeated in its window does not extend it', async () => {
    const engine = it.engine({}, ['a'])
    const held = [gate(), gate()]
    const requested = [gate(), gate()]
    let requests = 0
    it.answers(() => async (response, seen) => {
      const n = requests++
      requested[n]?.open()
      await held[n]?.wait
      return failWith(
        429,
        'slow',
        n === 0 ? { 'retry-after': '3600' } : { 'retry-after': '7200' },
      )(response, seen)
    })
    const windows = async () => (await engine.profiles()).find(({ id }) => id === 'a')?.windows
    // Both are under way before the first is refused.
    const first = engine.run(contextOfM1({ sessionLabel: 's1' }))
    await requested[0]?.wait
    const second = engine.run(contextOfM1({ sessionLabel: 's2' }))
    await requested[1]?.wait
    held[0]?.open()
    expect((await first.result).error?.kind).toBe('rate_limit')
    const before = await windows()
    expect(before).toHaveLength(1)
    held[1]?.open()
    expect((await second.result).error?.kind).toBe('rate_limit')
    expect(await windows()).toEqual(before)
  })
})

test('a used-up quota with a 429 is billing: the key has a long cooldown, and the next one is used', async () => {
  const body = {
    error: {
      message: 'You exceeded your current quota, please check your plan and billing details.',
      type: 'insufficient_quota',
      code: 'insufficient_quota',
    },
  }
  it.answers((model) =>
    model === 'o1' ? status(429, body, { 'retry-after': '1' }) : replyWith('ok'),
  )
  const engine = it.engine()
  const fallbacks = [{ provider: 'test', model: 'm1' }]
  const result = await engine.run(contextOfM1({ provider: 'other', model: 'o1', fallbacks })).result
  expect(result.attempts.map(({ model, reason }) => [model, reason])).toEqual([
    ['o1', 'billing'],
    ['m1', undefined],
  ])
  const { windows } = (await engine.profiles()).find(({ id }) => id === 'o') ?? {}
  expect(windows).toMatchObject([{ model: null, reason: 'billing' }])
})

test('a timeout falls back, and a late answer of the primary causes no second reply in events, result or ledger', async () => {
  const { file } = folder()
  const late = gate()
  const finished = gate()
  it.answers((model) =>
    model === 'o1'
      ? chatReplyWith('in time')
      : async (response, seen) => {
          response.on('error', () => {})
          await late.wait
          await replyWith('too late')(response, seen)
          finished.open()
        },
  )
  const url = it.server.url
  const { engine, events, result } = await runOnce(
    { fallbacks: [{ provider: 'other', model: 'o1' }], authProfileId: 'a' },
    {
      ledger: { path: file, synchronous: 'normal' },
      providers: {
        // Only of the late one: a slow machine must not delay the other as well.
        test: { api: 'anthropic-messages', baseUrl: url, headerTimeoutMs: 50 },
        other: { api: 'openai-chat', baseUrl: url },
      },
    },
  )
  late.open()
  await finished.wait
  expect([result.stopReason, textOf(events)]).toEqual(['end_turn', 'in time'])
  expect(events.filter(({ type }) => type === 'model_switch')).toMatchObject([
    { from: { model: 'm1' }, to: { model: 'o1' }, reason: 'timeout' },
  ])
  expect(events.filter(({ type }) => type === 'stream_end')).toHaveLength(1)
  expect(it.requested).toEqual(['m1/a', 'm1/a', 'm1/a', 'o1/o'])
  // Another run through the same engine and ledger follows any effect of the late answer.
  it.answers(() => chatReplyWith('next'))
  await engine.run(contextOfM1({ provider: 'other', model: 'o1' })).result
  const history = await engine.ledger.history('s')
  expect(history.map(({ role, content }) => `${role}: ${content}`)).toEqual([
    'user: hi',
    'assistant: in time',
    'user: hi',
    'assistant: next',
  ])
})
