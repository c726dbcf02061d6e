// Failures that real users had with long conversations, reproduced end to end (docs/rules/compaction.md and docs/rules/projection.md): histories that were emptied,
// messages that were lost or doubled, sizes and sums that were mixed up.
// It must never read internal state of the engine: requests are read from a loopback server, persisted turns from the ledger.

import { beforeEach, describe, expect, test } from 'vitest'
import type { AgentEngine, AgentEngineOptions, AgentResult } from '../../index.js'
import { closing, folder, serving } from '../support/cleanup.js'
import { context, engineAt } from '../support/engine.js'
import { anthropic } from '../support/servers/anthropic.js'
import { failWith } from '../support/servers/failover.js'
import { type Handler, sse, type TestServer } from '../support/servers/server.js'
import { SUMMARY } from '../support/values/summary.js'

const soon = { 'retry-after-ms': '1' }
const replyWith = (text: string) => sse(anthropic.answer(text))

/** 3,000 tokens for the prompt of `m`; `large` is the same model with a larger window, `tiny` summarises. */
const models = [
  { provider: 'test', id: 'm', contextWindow: 4_000, maxOutputTokens: 1_000 },
  { provider: 'test', id: 'large', contextWindow: 100_000, maxOutputTokens: 1_000 },
  { provider: 'test', id: 'tiny', contextWindow: 100_000, maxOutputTokens: 2_000 },
]
/** About 420 tokens. */
const long = (what: string) => `${what} ${'lorem ipsum '.repeat(140)}`

let server: TestServer
/** The answers of the model and the summariser, in order; then `ok` and the summary. */
let replies: Handler[]
let summaries: Handler[]
let file: string
beforeEach(async () => {
  replies = []
  summaries = []
  file = folder().file
  server = await serving((response, seen) => {
    const next =
      seen.body.model === 'tiny'
        ? (summaries.shift() ?? replyWith(SUMMARY))
        : (replies.shift() ?? replyWith('ok'))
    return next(response, seen)
  })
})

const open = (options: AgentEngineOptions = {}) =>
  closing(
    engineAt(server.url, {
      models,
      ledger: { path: file, synchronous: 'normal' },
      contextGuard: { minWindow: 1_000 },
      compaction: { provider: 'test', model: 'tiny' },
      ...options,
    }),
  )

const run = (engine: AgentEngine, content: string, model = 'm'): Promise<AgentResult> =>
  engine.run(context({ model, currentMessage: { role: 'user', content }, sessionLabel: 's' }))
    .result

async function runQuestions(engine: AgentEngine, from: number, to: number, model = 'm') {
  const results = []
  for (let n = from; n <= to; n++) results.push(await run(engine, long(`question ${n}`), model))
  return results
}

/** The beginning of each message of the session's context. */
const historyTexts = async (engine: AgentEngine) =>
  (await engine.ledger.history('s')).map(({ content }) => content.split(' lorem')[0]?.slice(0, 20))

const compactions = async (engine: AgentEngine) =>
  (await engine.ledger.query('SELECT count(*) AS n FROM compactions')).rows[0]?.n

const sentTo = (model: string) => server.seen.filter(({ body }) => body.model === model)
/** The texts of the messages of a request. */
const textsOf = ({ body }: { body: any }): string[] =>
  body.messages.flatMap(({ content }: any) =>
    typeof content === 'string' ? [content] : content.map(({ text = '' }: any) => text),
  )

describe('47 % of one fleet’s compactions had emptied the history', () => {
  const failing: [string, Handler][] = [
    ['answers 500', failWith(500, 'broken', soon)],
    ['returns no text', replyWith('')],
    ['returns blanks', replyWith(' \n\t ')],
    ['returns more than it received', replyWith(`${SUMMARY} ${'and so on '.repeat(3_000)}`)],
    ['refuses', sse(anthropic.start() + anthropic.text(0, 'No.') + anthropic.end('refusal'))],
    ['is cut in the middle', sse(anthropic.start() + anthropic.text(0, SUMMARY))],
  ]
  test.each(failing)(
    'a summariser that %s writes no boundary: the history stays, and the run continues',
    async (_, handler) => {
      const engine = open()
      await runQuestions(engine, 1, 5)
      const before = await historyTexts(engine)
      summaries = Array(12).fill(handler)
      const result = await run(engine, long('question 6'))
      expect(result).toMatchObject({ stopReason: 'end_turn', persisted: true })
      expect(result.compaction).toBeUndefined()
      expect(result.warnings.map(({ code }) => code)).toContain('compaction_failed')
      expect(summaries.length).toBeLessThan(12)
      expect(await compactions(engine)).toBe(0)
      expect(await historyTexts(engine)).toEqual([...before, 'question 6', 'ok'])
      expect(textsOf(sentTo('m').at(-1) as never)).toHaveLength(11)
    },
  )

  test.each(failing)(
    'after an overflow, a summariser that %s leaves the history unchanged',
    async (_, handler) => {
      const engine = open()
      await runQuestions(engine, 1, 5, 'large')
      const before = await historyTexts(engine)
      summaries = Array(12).fill(handler)
      replies = Array(4).fill(failWith(400, 'prompt is too long: 9 > 8'))
      const result = await run(engine, 'question 6', 'large')
      expect(result).toMatchObject({ stopReason: 'error', error: { kind: 'compaction_failure' } })
      expect(await compactions(engine)).toBe(0)
      expect(await historyTexts(engine)).toEqual(before)
      // The next run has the whole history.
      replies = []
      await run(engine, 'question 7', 'large')
      expect(textsOf(sentTo('large').at(-1) as never)).toHaveLength(11)
    },
  )
})

test('a compaction loop ends after its attempts, however often the provider refuses', async () => {
  for (const most of [1, 3]) {
    file = folder().file
    const compaction = { provider: 'test', model: 'tiny', maxOverflowRecoveries: most }
    const engine = open({ compaction })
    await runQuestions(engine, 1, 9, 'large')
    const before = server.seen.length
    replies = Array(50).fill(failWith(400, 'prompt is too long: 9 > 8'))
    const result = await run(engine, 'question 10', 'large')
    expect(result).toMatchObject({ stopReason: 'error', error: { kind: 'context_overflow' } })
    const since = server.seen.slice(before).map(({ body }) => body.model)
    const refused = since.filter((model) => model === 'large').length
    // The first one, one for each recovery, and one with truncated results.
    expect(refused).toBeLessThanOrEqual(most + 2)
    expect(await compactions(engine)).toBeLessThanOrEqual(most)
    replies = []
  }
})

test('three consecutive compactions: every message is in a summary’s input or in the context, and in one only', async () => {
  const engine = open()
  const results = await runQuestions(engine, 1, 14)
  const compacted = results.flatMap(({ compaction }) => compaction ?? [])
  expect(compacted.length).toBeGreaterThanOrEqual(3)
  const summarised = sentTo('tiny').flatMap(textsOf).join('\n')
  const context = (await historyTexts(engine)).join('\n')
  for (let n = 1; n <= 14; n++) {
    const mentions = (text: string) => new RegExp(`question ${n}\\b`).test(text)
    expect([n, mentions(summarised) !== mentions(context)]).toEqual([n, true])
  }
  // Each updates the previous summary, and continues where that ended.
  expect(textsOf(sentTo('tiny')[1] as never).join()).toContain('<previous-summary>')
  for (const [n, next] of compacted.slice(1).entries()) {
    expect(next.summarizedThroughTurnId > (compacted[n]?.summarizedThroughTurnId ?? '')).toBe(true)
    expect(next.summarizedThroughTurnId >= (compacted[n]?.firstKeptTurnId ?? '')).toBe(true)
  }
})

test('the turns after a compaction stay in the context: of the next turn, and of the next process', async () => {
  const engine = open()
  await runQuestions(engine, 1, 6)
  expect(await compactions(engine)).toBe(1)
  const remaining = ['question 3', 'ok', 'question 4', 'ok', 'question 5', 'ok', 'question 6', 'ok']
  expect(await historyTexts(engine)).toEqual(['[Previous conversati', ...remaining])
  await engine.close()
  const next = open()
  await run(next, 'And now?')
  const sent = textsOf(sentTo('m').at(-1) as never).map((text) => text.split(' lorem')[0])
  expect(sent.join('\n')).toMatch(/^\[Previous conversation summary\]:/)
  for (const n of [3, 4, 5, 6]) expect(sent.join('\n')).toContain(`question ${n}`)
  for (const n of [1, 2]) expect(sent.join('\n')).not.toContain(`question ${n}`)
})

test('six calls with a growing cache: usage is their sum, the context’s size is that of the last one', async () => {
  const engine = open()
  const uses = Array.from({ length: 6 }, (_, n) => ({
    input: 10 + n,
    cached: n * 9_000,
    cacheWrite: n === 5 ? 0 : 9_000,
    output: 20 + n,
  }))
  replies = uses.map((usage, n) =>
    sse(
      anthropic.start(usage, `msg_${n}`) +
        (n === 5 ? anthropic.text(0, 'done') : anthropic.toolUse(0, `c${n}`, 'look', {})) +
        anthropic.end(n === 5 ? 'end_turn' : 'tool_use', usage),
    ),
  )
  const tools = [{ name: 'look', run: () => 'seen' }]
  const requested = context({ model: 'large', tools, sessionLabel: 's' })
  const result = await engine.run(requested).result
  const sum = (of: keyof (typeof uses)[0]) => uses.reduce((all, use) => all + use[of], 0)
  expect(result.stopReason).toBe('end_turn')
  expect(result.usage).toMatchObject({
    inputTokens: sum('input'),
    outputTokens: sum('output'),
    cachedInputTokens: sum('cached'),
    cacheWriteTokens: sum('cacheWrite'),
    totalTokens: sum('input') + sum('output') + sum('cached') + sum('cacheWrite'),
  })
  // 45,040: the sum is far over the window, but does not cause a compaction.
  expect(result.contextTokens).toBe(15 + 45_000 + 25)
  expect(result.usage.totalTokens).toBeGreaterThan(100_000)
  await run(engine, 'more', 'large')
  expect(await compactions(engine)).toBe(0)
  expect(await engine.ledger.turn(result.turnId)).toMatchObject({
    contextTokens: result.contextTokens,
    usage: { totalTokens: result.usage.totalTokens },
  })
})

test('a run that failed without output moves no pointer, so that a repetition duplicates no message', async () => {
  const engine = open()
  const first = await run(engine, 'first', 'large')
  replies = [failWith(400, 'no')]
  const failed = await run(engine, 'second', 'large')
  expect(failed).toMatchObject({ stopReason: 'error', persisted: true })
  expect((await engine.ledger.session('s'))?.threadId).toBe(first.turnId)
  expect(await engine.ledger.turn(failed.turnId)).toMatchObject({ status: 'failed' })
  await run(engine, 'second', 'large')
  expect(textsOf(sentTo('large').at(-1) as never)).toEqual(['first', 'ok', 'second'])
})

test('consecutive user messages are joined, and none is dropped', async () => {
  const engine = open()
  // Three turns that were aborted before any output: their questions stay.
  for (const content of ['one', 'two', 'three']) {
    const currentMessage = { role: 'user', content } as const
    const requested = context({ model: 'large', sessionLabel: 's', currentMessage })
    replies = [() => running.abort()]
    const running = engine.run(requested)
    expect((await running.result).stopReason).toBe('aborted')
  }
  replies = []
  const history = [
    { role: 'user', content: 'alpha' },
    { role: 'user', content: 'beta' },
    { role: 'assistant', content: 'gamma' },
    { role: 'user', content: 'delta' },
  ] as const
  await run(engine, 'four', 'large')
  const currentMessage = { role: 'user', content: 'epsilon' } as const
  const given = context({ model: 'large', sessionLabel: 'h', currentMessage, history })
  await engine.run(given).result
  const roles = (n: number) =>
    server.seen.at(n)?.body.messages.map(({ role }: { role: string }) => role)
  expect(roles(-2)).toEqual(['user'])
  expect(textsOf(server.seen.at(-2) as never).join('|')).toMatch(/one\W+two\W+three\W+four/)
  expect(roles(-1)).toEqual(['user', 'assistant', 'user'])
  expect(textsOf(server.seen.at(-1) as never).join('|')).toMatch(
    /alpha\W+beta\W+gamma\W+delta\W+epsilon/,
  )
})

test.each([
  [400, 'a prompt that nearly fills the window', 'context_overflow'],
  [422, 'a prompt that nearly fills the window', 'context_overflow'],
  [400, 'a short prompt', 'unknown'],
])('a %i without a body for %s is reported as %s', async (status, prompt, kind) => {
  replies.push((response) => response.writeHead(status).end())
  const [, , tiny] = models
  const roomy = { ...models[0], maxOutputTokens: 100 } as (typeof models)[number]
  const engine = open({ models: [roomy, tiny as (typeof models)[number]] })
  const size = prompt === 'a short prompt' ? 1 : 8
  const result = await run(engine, Array.from({ length: size }, () => long('all')).join(' '))
  expect(result).toMatchObject({ stopReason: 'error', error: { kind } })
  expect(result.attempts.map(({ reason }) => reason)).toEqual([kind])
})
