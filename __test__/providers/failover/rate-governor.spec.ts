// The rate governor through the public API, against a server with a limit: which calls wait, which are sent first, and that
// none is refused. It must never assert a duration.

import { expect, test, vi } from 'vitest'
import { AgentEngine, type AgentEngineOptions, type AssembledContext } from '../../../index.js'
import { closing, folder } from '../../support/cleanup.js'
import { context, testModel } from '../../support/engine.js'
import { anthropic } from '../../support/servers/anthropic.js'
import { chat } from '../../support/servers/chat.js'
import { gate } from '../../support/servers/server.js'
import { type Bucket, bucket } from '../../support/servers/token-bucket.js'

const key = (name: string) => `sk-test-canary-${name}-0123456789`

function engineOf(it: Bucket, options: AgentEngineOptions = {}, keys = ['a']) {
  return closing(
    new AgentEngine({
      providers: { test: { api: 'openai-chat', baseUrl: it.server.url } },
      authProfiles: keys.map((id) => ({ id, provider: 'test', key: key(id) })),
      models: [testModel],
      ...options,
    }),
  )
}

const userTurn = (content: string, changes: Partial<AssembledContext> = {}) =>
  context({ currentMessage: { role: 'user', content }, ...changes })

/** Waits until this many calls wait in the engine's lanes, and this many are under way. */
const until = (engine: AgentEngine, waiting: number, inFlight: number) =>
  vi.waitFor(
    () => {
      const sum = (of: 'waiting' | 'inFlight') =>
        engine.limits().reduce((all, lane) => all + lane[of], 0)
      expect([sum('waiting'), sum('inFlight')]).toEqual([waiting, inFlight])
    },
    { timeout: 20_000, interval: 5 },
  )

/**
 * One call that learns the limits, eleven that take most of what there is (a full bucket would lose what it gains while this
 * process is too busy to read), then 64 in parallel over 16 sessions.
 */
async function crowd(rateGovernor: boolean) {
  const it = await bucket(16, 800)
  const engine = engineOf(it, { rateGovernor })
  await engine.run(userTurn('first')).result
  await Promise.all(Array.from({ length: 11 }, () => engine.run(userTurn('more')).result))
  expect(it.refused).toBe(0)
  const runs = Array.from({ length: 64 }, (_, at) =>
    engine.run(userTurn(`call ${at}`, { sessionLabel: `agent:main:dm:${at % 16}` })),
  )
  const results = await Promise.all(runs.map((run) => run.result))
  return { it, results, engine }
}

test('64 concurrent runs are refused without the governor, and not refused with it', async () => {
  const free = await crowd(false)
  expect(free.it.refused).toBeGreaterThan(20)
  expect(free.engine.limits()).toEqual([])
  const times = free.results.flatMap((result) => result.attempts.map((it) => it.heldMs))
  expect(times.every((heldMs) => heldMs === undefined)).toBe(true)
  const governed = await crowd(true)
  expect(governed.it.refused).toBe(0)
  expect(governed.it.served).toHaveLength(76)
  for (const result of governed.results) {
    expect(result.stopReason).toBe('end_turn')
    expect(result.attempts).toHaveLength(1)
  }
  // The calls within the bucket were sent immediately; the others waited, and report it.
  const held = governed.results.filter((result) => (result.attempts[0]?.heldMs ?? 0) > 0)
  expect(held.length).toBeGreaterThan(20)
  expect(governed.results.some((result) => result.attempts[0]?.heldMs === undefined)).toBe(true)
  const [lane, ...others] = governed.engine.limits()
  expect(others).toEqual([])
  expect(lane).toMatchObject({ provider: 'test', profileId: 'a', model: 'test-model' })
  expect(lane).toMatchObject({ requests: { limit: 16 }, waiting: 0, inFlight: 0 })
})

test('concurrent calls at an unknown limit are refused once, and all are answered', async () => {
  const it = await bucket(16, 800)
  const engine = engineOf(it)
  const runs = Array.from({ length: 64 }, (_, at) =>
    engine.run(userTurn(`call ${at}`, { sessionLabel: `agent:main:dm:${at % 16}` })),
  )
  const results = await Promise.all(runs.map((run) => run.result))
  expect(results.map((result) => result.stopReason)).toEqual(Array(64).fill('end_turn'))
  expect(it.served).toHaveLength(64)
  // No refused call was sent again before the limit allowed it.
  expect(it.refused).toBeLessThanOrEqual(64)
})

/** A 429 for the first of ten runs with one key, and the requests after its window. */
async function refusedOnce(rateGovernor: boolean) {
  const it = await bucket(100, 1_000)
  const engine = engineOf(it, { rateGovernor })
  it.refuseNext(300)
  const { wait, open } = gate()
  const first = engine.run(userTurn('call 0'))
  await vi.waitFor(() => expect(it.refused).toBe(1))
  it.hold(wait)
  const rest = Array.from({ length: 9 }, (_, at) => engine.run(userTurn(`call ${at + 1}`)))
  return { it, engine, open, results: () => Promise.all([first, ...rest].map((run) => run.result)) }
}

test('when the window of a refusal ends one call is sent, and the others only after its answer', async () => {
  const free = await refusedOnce(false)
  await vi.waitFor(() => expect(free.it.served).toHaveLength(10), { timeout: 20_000 })
  free.open()
  await free.results()

  const { it, engine, open, results } = await refusedOnce(true)
  // The window has ended for all: one is under way, nine are queued, and none of those was sent.
  await until(engine, 9, 1)
  await vi.waitFor(() => expect(it.served).toHaveLength(1))
  expect(engine.limits()[0]).toMatchObject({ waiting: 9, inFlight: 1 })
  expect(it.served).toHaveLength(1)
  open()
  for (const result of await results()) expect(result.stopReason).toBe('end_turn')
  expect(it.refused).toBe(1)
})

const SUMMARY =
  '## Goal\nG\n\n## Constraints & preferences\nC\n\n## Progress\nP\n\n## Key decisions\nK\n\n## Next steps\nN\n\n## Critical context\n(none)'

test('an interactive run is sent before a worker, and both before a summary', async () => {
  const it = await bucket(4, 2_000, (seen) =>
    chat.answer(JSON.stringify(seen.body).includes('## Goal') ? SUMMARY : 'word '.repeat(400)),
  )
  const engine = engineOf(it, { ledger: { path: folder().file } }, [])
  for (const part of ['one', 'two', 'three', 'four', 'five']) {
    await engine.run(userTurn(`${part} ${'text '.repeat(100)}`, { sessionLabel: 'long' })).result
  }
  // A refusal, and the next call held at the server: later calls queue behind it.
  it.refuseNext(1)
  const { wait, open } = gate()
  it.hold(wait)
  const probe = engine.run(userTurn('probe'))
  await until(engine, 0, 1)
  await vi.waitFor(() => expect(it.served.at(-1)).toBe('probe'))
  const before = it.served.length
  const summary = engine.compact('long')
  await until(engine, 1, 1)
  const worker = engine.run(userTurn('worker', { sessionLabel: 'agent:main:worker:7' }))
  await until(engine, 2, 1)
  const subagent = engine.run(userTurn('subagent', { sessionLabel: 'agent:main:subagent:7' }))
  await until(engine, 3, 1)
  const person = engine.run(userTurn('person', { sessionLabel: 'agent:main:dm:7' }))
  await until(engine, 4, 1)
  it.hold()
  open()
  await Promise.all([probe, worker, subagent, person].map((run) => run.result))
  expect(await summary).not.toBeNull()
  expect(it.served.slice(before)).toEqual(['person', 'worker', 'subagent', 'summary'])
})

/** An engine with a limit of one request per minute that is used up. */
async function spent(options: AgentEngineOptions = {}, keys = ['a']) {
  const it = await bucket(1, 60_000)
  const engine = engineOf(it, options, keys)
  await engine.run(userTurn('first')).result
  return { it, engine }
}

test('an abort ends the wait of a queued run, which never reaches the server', async () => {
  const { it, engine } = await spent()
  const run = engine.run(userTurn('never'))
  await until(engine, 1, 0)
  run.abort()
  const result = await run.result
  expect(result.stopReason).toBe('aborted')
  expect(result.attempts).toEqual([])
  expect(engine.limits()[0]).toMatchObject({ waiting: 0, inFlight: 0 })
  expect(it.served).toEqual(['first'])
})

test('a queued run ends as a timeout at the end of its time', async () => {
  const { it, engine } = await spent()
  const result = await engine.run(userTurn('never', { timeoutMs: 400 })).result
  expect(result.stopReason).toBe('timeout')
  expect(result.error?.kind).toBe('timeout')
  expect(it.served).toEqual(['first'])
})

test('close waits for a queued run, which is sent when the limit allows it', async () => {
  const it = await bucket(1, 700)
  const engine = engineOf(it)
  await engine.run(userTurn('first')).result
  const run = engine.run(userTurn('second'))
  await until(engine, 1, 0)
  await engine.close()
  expect((await run.result).stopReason).toBe('end_turn')
  expect(it.served).toEqual(['first', 'second'])
  expect(it.refused).toBe(0)
})

test('a wait caused by headers alone ends at `maxWaitMs`, and an answer proves them wrong', async () => {
  // By the headers nothing ever remains, and the refill takes hours; yet each request is answered.
  const it = await bucket(1_000_000, 1_000)
  const lies = { 'x-ratelimit-limit-requests': '1', 'x-ratelimit-remaining-requests': '0' }
  it.server.use((response) => {
    const reset = { 'x-ratelimit-reset-requests': '5h0m0s' }
    response.writeHead(200, { 'content-type': 'text/event-stream', ...lies, ...reset })
    response.end(chat.answer('ok'))
  })
  const engine = engineOf(it, { rateGovernor: { maxWaitMs: 50 } })
  const one = async () => (await engine.run(userTurn('call')).result).attempts[0]?.heldMs
  expect(await one()).toBeUndefined()
  expect(await one()).toBeGreaterThan(0)
  expect(await one()).toBeUndefined()
  expect(it.server.seen).toHaveLength(3)
})

test('a new session takes a key with remaining limit; a session with a key waits for it', async () => {
  const { it, engine } = await spent({ failover: { order: { test: ['a', 'b'] } } }, ['a', 'b'])
  const other = await engine.run(userTurn('other', { sessionLabel: 'other' })).result
  expect(other.attempts).toMatchObject([{ profileId: 'b', ok: true }])
  const same = engine.run(userTurn('same'))
  await until(engine, 1, 0)
  expect(engine.limits()).toMatchObject([
    { profileId: 'a', waiting: 1, requests: { limit: 1, remaining: 0 } },
    { profileId: 'b', waiting: 0 },
  ])
  same.abort()
  await same.result
  expect(it.served).toEqual(['first', 'other'])
})

test('a run that waits for a key uses another one when that key is refused', async () => {
  const it = await bucket(2, 60_000)
  const engine = engineOf(it, { failover: { order: { test: ['a', 'b'] } } }, ['a', 'b'])
  await engine.run(userTurn('first')).result
  // The second of two: it is under way when the third is queued.
  const { wait, open } = gate()
  const reached = gate()
  it.server.use(async (response, seen) => {
    if (String(seen.headers.authorization).includes('canary-b')) {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.end(chat.answer('from b'))
      return
    }
    reached.open()
    await wait
    response.writeHead(401, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ error: { message: 'bad key' } }))
  })
  const second = engine.run(userTurn('second'))
  await reached.wait
  const third = engine.run(userTurn('third'))
  await until(engine, 1, 1)
  open()
  const results = await Promise.all([second.result, third.result])
  expect(results.map((result) => result.attempts.map((it) => it.profileId))).toEqual([
    ['a', 'b'],
    ['b'],
  ])
})

test('the limits in Anthropic’s headers are absolute times', async () => {
  const it = await bucket(1, 1_000)
  const reset = new Date(Date.now() + 30_000).toISOString()
  const of = (kind: string, limit: number, remaining: number) => ({
    [`anthropic-ratelimit-${kind}-limit`]: String(limit),
    [`anthropic-ratelimit-${kind}-remaining`]: String(remaining),
    [`anthropic-ratelimit-${kind}-reset`]: reset,
  })
  it.server.use((response) => {
    const headers = {
      ...of('requests', 50, 49),
      ...of('input-tokens', 40_000, 39_000),
      ...of('output-tokens', 8_000, 7_000),
    }
    response.writeHead(200, { 'content-type': 'text/event-stream', ...headers })
    response.end(anthropic.answer('ok'))
  })
  const providers = { test: { api: 'anthropic-messages', baseUrl: it.server.url } } as const
  const engine = engineOf(it, { providers })
  await engine.run(userTurn('call')).result
  const [lane] = engine.limits()
  expect(lane?.requests).toMatchObject({ limit: 50 })
  expect(lane?.input).toMatchObject({ limit: 40_000 })
  expect(lane?.output).toMatchObject({ limit: 8_000 })
  expect(lane?.tokens).toBeUndefined()
  expect(lane?.output?.remaining).toBeLessThan(8_000)
})

test('a wrong option is refused immediately', () => {
  const refusal = (rateGovernor: unknown) => {
    try {
      void new AgentEngine({ rateGovernor } as AgentEngineOptions).close()
    } catch (error) {
      return error
    }
  }
  const of = (field: string) => ({ name: 'AgentEngineError', code: 'invalid_options', field })
  expect(refusal('yes')).toMatchObject(of('rateGovernor'))
  expect(refusal([60])).toMatchObject(of('rateGovernor'))
  expect(refusal({ maxWaitMs: 60_001 })).toMatchObject(of('rateGovernor.maxWaitMs'))
  expect(refusal({ maxWaitMs: 'long' })).toMatchObject(of('rateGovernor.maxWaitMs'))
  expect(refusal({ wait: 1 })).toMatchObject(of('rateGovernor.wait'))
  expect(refusal({ maxWaitMs: 0 })).toBeUndefined()
})
