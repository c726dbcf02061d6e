// Every request to a model is made in the same way: hooks, keys, budgets, attempt rows and costs of summaries and counts are
// those of runs. It must never read internal state of the engine: a loopback server records the requests.

import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type {
  AgentEngine,
  AgentEngineOptions,
  Attempt,
  BudgetOptions,
  OutgoingRequest,
} from '../../index.js'
import { closing, folder } from '../support/cleanup.js'
import { context, engineAt, readAll } from '../support/engine.js'
import { anthropic } from '../support/servers/anthropic.js'
import {
  type Handler,
  type Seen,
  sse,
  status,
  type TestServer,
  testServer,
} from '../support/servers/server.js'
import { SUMMARY } from '../support/values/summary.js'

/** US dollars per million tokens. */
const cost = { input: 1, output: 10, cacheRead: 0.5, cacheWrite: 2, cacheWrite1h: null, tiers: [] }
const models = [
  { provider: 'test', id: 'test-model', contextWindow: 4_000, maxOutputTokens: 1_000, cost },
  { provider: 'test', id: 'tiny', contextWindow: 100_000, maxOutputTokens: 2_000, cost },
]
const SESSION = 'agent:main:main'

let server: TestServer
/** Answers a request of the summariser. */
let summarise: Handler
let file: string
beforeEach(async () => {
  file = folder().file
  server = await testServer(answer)
  summarise = counted(SUMMARY)
})
afterEach(() => server.close())

/** An answer with a provider's usage: four characters per token. */
function counted(text: string): Handler {
  return (response, seen) => {
    const usage = { input: Math.ceil(seen.raw.length / 4), output: Math.ceil(text.length / 4) }
    return sse(anthropic.answer(text, usage))(response, seen)
  }
}

function answer(response: Parameters<Handler>[0], seen: Seen) {
  if (seen.path.endsWith('/count_tokens')) return status(200, { input_tokens: 77 })(response, seen)
  return (seen.body.model === 'tiny' ? summarise : counted('Noted.'))(response, seen)
}

function start(options: AgentEngineOptions = {}): AgentEngine {
  return closing(
    engineAt(server.url, {
      models,
      ledger: { path: file, synchronous: 'normal' },
      contextGuard: { minWindow: 1_000 },
      compaction: { model: 'tiny' },
      ...options,
    }),
  )
}

/** About 420 tokens. */
const long = (n: number) => `question ${n} ${'lorem ipsum '.repeat(140)}`

async function turns(engine: AgentEngine, count: number, from = 1) {
  const results = []
  for (let n = from; n < from + count; n++) {
    const currentMessage = { role: 'user', content: long(n) } as const
    results.push(await engine.run(context({ currentMessage })).result)
  }
  return results
}

const total = (attempts: readonly Attempt[]) =>
  attempts.reduce((sum, { cost }) => sum + (cost ?? Number.NaN), 0)
const purposes = (attempts: readonly Attempt[]) =>
  attempts.map(({ purpose = 'run', ok }) => `${purpose} ${ok ? 'ok' : 'failed'}`)
const summaries = () => server.seen.filter(({ body }) => body?.model === 'tiny').length

/** The row of the compaction that the session's last turns follow. */
async function compactionOf(engine: AgentEngine) {
  const { items } = await engine.ledger
    .query("SELECT id FROM turns WHERE turn_type = 'compaction' ORDER BY id DESC LIMIT 1")
    .then(({ rows }) => ({ items: rows }))
  const row = await engine.ledger.turn(String((items[0] as { id?: string })?.id))
  if (row === null) throw new Error('there is no compaction')
  return row
}

test('a summary of a run passes its hook, is an attempt of the run, and is paid once', async () => {
  const budgets: BudgetOptions[] = [
    { per: 'session', maxTokens: 1_000_000 },
    { per: 'day', maxCost: 100 },
  ]
  const engine = start({ budgets })
  const seen: string[] = []
  const before = await turns(engine, 5)
  const onRequest = ({ purpose, attempt, model, runId }: OutgoingRequest) => {
    seen.push(`${purpose} ${attempt} ${model} ${runId}`)
  }
  const requested = context({
    currentMessage: { role: 'user', content: long(6) },
    runId: 'the-run',
    onRequest,
  })
  const result = await engine.run(requested).result
  expect(seen).toEqual(['summary 1 tiny the-run', 'run 2 test-model the-run'])
  expect(purposes(result.attempts)).toEqual(['summary ok', 'run ok'])
  const [summary, own] = result.attempts
  expect(summary).toMatchObject({ model: 'tiny', profileId: 'p1', status: 200 })
  // The compaction's turn has its own usage and cost, and the run's turn none of it.
  expect(result).toMatchObject({ usage: own?.usage, cost: own?.cost })
  const row = await compactionOf(engine)
  expect(row).toMatchObject({ usage: summary?.usage, cost: summary?.cost, attempts: [] })
  expect((await engine.ledger.turn(result.turnId))?.attempts).toEqual(result.attempts)
  const all = [...before.flatMap(({ attempts }) => attempts), ...result.attempts]
  const [used] = (await engine.ledger.usage({ by: 'session' })).items
  expect(used?.compactionUsage).toEqual(summary?.usage)
  expect(used?.compactionCost).toBe(summary?.cost)
  expect((used?.cost ?? 0) + (used?.compactionCost ?? 0)).toBeCloseTo(total(all), 12)
  expect((await engine.ledger.stats()).cost).toBeCloseTo(total(all), 12)
  const spent = () => engine.budgets().map(({ usedTokens }) => usedTokens)
  const tokens = all.reduce((sum, { usage }) => sum + (usage?.totalTokens ?? 0), 0)
  expect(spent()).toEqual([tokens, tokens])
  expect(engine.budgets()[1]?.usedCost).toBeCloseTo(total(all), 8)
  await engine.close()
  await expectReopened(budgets, all)
})

/** The budgets of an engine that opens the ledger again, with one more call. */
async function expectReopened(budgets: BudgetOptions[], all: readonly Attempt[]) {
  const engine = start({ budgets, compaction: false })
  const sessionLabel = SESSION
  const { attempts } = await engine.run(
    context({ sessionLabel, history: [], currentMessage: { role: 'user', content: 'hi' } }),
  ).result
  const every = [...all, ...attempts]
  const tokens = every.reduce((sum, { usage }) => sum + (usage?.totalTokens ?? 0), 0)
  const [session, day] = engine.budgets()
  expect([session?.usedTokens, day?.usedTokens]).toEqual([tokens, tokens])
  expect(day?.usedCost).toBeCloseTo(total(every), 8)
}

test('a manual compaction has its attempts, its usage and its cost in its row', async () => {
  const budgets: BudgetOptions[] = [
    { per: 'session', maxTokens: 1_000_000 },
    { per: 'day', maxCost: 100 },
  ]
  const seen: OutgoingRequest[] = []
  const onRequest = (request: OutgoingRequest) => {
    if (request.purpose !== 'run') seen.push(request)
  }
  const engine = start({ budgets, onRequest })
  const before = await turns(engine, 5)
  const done = await engine.compact(SESSION)
  expect(done?.turnsSummarized).toBeGreaterThan(0)
  const row = await compactionOf(engine)
  expect(seen.map(({ purpose, attempt, runId }) => [purpose, attempt, runId])).toEqual([
    ['summary', 1, row.runId],
  ])
  expect(purposes(row.attempts)).toEqual(['summary ok'])
  expect(row.cost).toBeGreaterThan(0)
  expect(row).toMatchObject({ usage: row.attempts[0]?.usage, cost: row.attempts[0]?.cost })
  const all = [...before.flatMap(({ attempts }) => attempts), ...row.attempts]
  const [used] = (await engine.ledger.usage({ by: 'session' })).items
  expect(used).toMatchObject({ compactionUsage: row.usage, compactionCost: row.cost })
  expect((await engine.ledger.stats()).cost).toBeCloseTo(total(all), 12)
  expect(engine.budgets()[1]?.usedCost).toBeCloseTo(total(all), 8)
  await engine.close()
  await expectReopened(budgets, all)
})

test('a hook that refuses a summary fails the compaction, but no run', async () => {
  const engine = start({
    onRequest: ({ purpose }) => {
      if (purpose === 'summary') throw new Error('not to this model')
    },
  })
  await turns(engine, 5)
  const [result] = await turns(engine, 1, 6)
  expect(result).toMatchObject({ stopReason: 'end_turn', persisted: true })
  expect(result?.warnings[0]).toMatchObject({ code: 'compaction_failed' })
  expect(result?.warnings[0]?.message).toContain('not to this model')
  expect(purposes(result?.attempts ?? [])).toEqual(['summary failed', 'run ok'])
  expect(result?.attempts[0]).toMatchObject({ reason: 'format' })
  const history = await engine.ledger.history(SESSION)
  const refused = engine.compact(SESSION)
  await expect(refused).rejects.toMatchObject({ code: 'compaction_failed' })
  await expect(refused).rejects.toThrow('not to this model')
  expect(await engine.ledger.history(SESSION)).toEqual(history)
  expect(summaries()).toBe(0)
})

test('a hook may replace the request of a summary', async () => {
  const engine = start({
    onRequest: ({ purpose, body }) => (purpose === 'summary' ? { ...body, top_k: 3 } : undefined),
  })
  await turns(engine, 5)
  expect(await engine.compact(SESSION)).not.toBeNull()
  expect(server.seen.find(({ body }) => body.model === 'tiny')?.body.top_k).toBe(3)
})

test('the usage of a failed summary counts for the run, and its failure for the key', async () => {
  const limited = status(
    429,
    { type: 'error', error: { type: 'rate_limit_error', message: 'slow' } },
    { 'retry-after': '3600' },
  )
  // A rejected answer is paid for, and so is the second attempt.
  summarise = counted('')
  const engine = start()
  await turns(engine, 5)
  const [empty] = await turns(engine, 1, 6)
  expect(purposes(empty?.attempts ?? [])).toEqual(['summary ok', 'summary ok', 'run ok'])
  expect(empty?.cost).toBeCloseTo(total(empty?.attempts ?? []), 12)
  const tokens = empty?.attempts.reduce((sum, { usage }) => sum + (usage?.totalTokens ?? 0), 0)
  expect(empty?.usage.totalTokens).toBe(tokens)
  summarise = limited
  const [refused] = await turns(engine, 1, 7)
  expect(purposes(refused?.attempts ?? [])).toEqual(['summary failed', 'run ok'])
  const [profile] = await engine.profiles()
  expect(profile?.windows).toMatchObject([{ model: 'tiny', reason: 'rate_limit' }])
})

test('a wait of a summary is an event of its run', async () => {
  let busy = 1
  summarise = (response, seen) =>
    busy-- > 0
      ? status(529, { type: 'error', error: { type: 'overloaded_error', message: 'busy' } })(
          response,
          seen,
        )
      : counted(SUMMARY)(response, seen)
  const engine = start()
  await turns(engine, 5)
  const run = engine.run(context({ currentMessage: { role: 'user', content: long(6) } }))
  const waits = (await readAll(run)).filter(({ type }) => type === 'waiting')
  expect(waits).toMatchObject([
    { purpose: 'summary', reason: 'overloaded', attempt: 2, model: 'tiny', profileId: 'p1' },
  ])
  expect(purposes((await run.result).attempts)).toEqual(['summary failed', 'summary ok', 'run ok'])
})

test('every call has a span and a line in the log', async () => {
  const child = join(import.meta.dirname, '..', 'children', 'ledger', 'log.mjs')
  const { stderr } = await promisify(execFile)(process.execPath, [child, file], {
    env: { ...process.env, NEXUS_AGENT_ENGINE_LOG: 'info' },
  })
  const ended = stderr.split('\n').filter((line) => line.includes('agent.call.ended'))
  const of = (purpose: string) =>
    ended.filter((line) => line.includes(`agent.call{purpose="${purpose}"`))
  expect([of('run').length, of('summary').length, of('count').length]).toEqual([5, 1, 1])
  expect(of('summary')[0]).toMatch(/provider="small" model="tiny".* ok=false/)
  expect(stderr).toMatch(/agent\.call\.failed.*provider="small"/)
})

test('an exact count passes the hook and has no usage', async () => {
  const seen: string[] = []
  const budgets: BudgetOptions[] = [{ per: 'session', maxTokens: 10 }]
  const engine = start({
    budgets,
    onRequest: ({ purpose, url, runId, body }) => {
      seen.push(`${purpose} ${new URL(url).pathname} ${runId}`)
      return { ...body, system: 'Another one.' }
    },
  })
  const count = await engine.countTokens(context({ runId: 'counted' }), { exact: true })
  expect(count).toMatchObject({ tokens: 77, exact: true })
  expect(seen).toEqual(['count /v1/messages/count_tokens counted'])
  expect(server.seen[0]?.body.system).toBe('Another one.')
  expect(engine.budgets()).toEqual([])
  // The context's hook is called before the engine's.
  const refused = engine.countTokens(
    context({
      onRequest: () => {
        throw new Error('not counted')
      },
    }),
    { exact: true },
  )
  await expect(refused).rejects.toMatchObject({
    code: 'provider_failed',
    error: { detail: { code: 'on_request_failed' } },
  })
  expect(server.seen).toHaveLength(1)
})

test('a key that is refused for a count cools down, and close ends a count', async () => {
  const engine = start()
  server.use(status(401, { type: 'error', error: { type: 'authentication_error', message: 'no' } }))
  const refused = engine.countTokens(context(), { exact: true })
  await expect(refused).rejects.toMatchObject({ code: 'provider_failed' })
  expect((await engine.profiles())[0]).toMatchObject({
    available: false,
    windows: [{ reason: 'auth', model: null }],
  })
  await engine.resetProfile('p1')
  server.use(() => {})
  const requested = server.seen.length
  const counting = engine.countTokens(context(), { exact: true })
  counting.catch(() => {})
  await expect.poll(() => server.seen.length).toBe(requested + 1)
  await engine.close()
  await expect(counting).rejects.toMatchObject({ code: 'engine_closed' })
})
