// Compaction through the public API with a real ledger: the requests, the rows, and what the next process reads. Its failures
// are in `field-failures`. It must never read internal state of the engine: the scripted provider records the requests.

import { afterEach, beforeEach, expect, test } from 'vitest'
import {
  AgentEngine,
  type AgentEngineOptions,
  type ScriptedReply,
  scriptedProvider,
} from '../../index.js'
import { context, tempDir } from '../support/engine.js'
import { SUMMARY } from '../support/values/summary.js'

/** A window of 4,000 tokens, 3,000 of them for the prompt. */
const models = [
  { provider: 'test', id: 'test-model', contextWindow: 4_000, maxOutputTokens: 1_000 },
  { provider: 'small', id: 'tiny', contextWindow: 100_000, maxOutputTokens: 2_000 },
]

let dir: ReturnType<typeof tempDir>
let engines: AgentEngine[]
beforeEach(() => {
  dir = tempDir()
  engines = []
})
afterEach(async () => {
  await Promise.all(engines.map((engine) => engine.close()))
  dir.remove()
})

function start(
  replies: ScriptedReply[],
  options: AgentEngineOptions = {},
  summaries: ScriptedReply[] = [],
) {
  const provider = scriptedProvider(replies)
  const small = scriptedProvider(summaries)
  const engine = new AgentEngine({
    providers: { test: provider, small },
    models,
    ledger: { path: dir.file, synchronous: 'normal' },
    contextGuard: { minWindow: 1_000 },
    compaction: { provider: 'small', model: 'tiny' },
    ...options,
  })
  engines.push(engine)
  return { engine, provider, small }
}

/** About 420 tokens. */
const long = (what: string) => `${what} ${'lorem ipsum '.repeat(140)}`
const userTurn = (content: string) => context({ currentMessage: { role: 'user', content } })

async function turns(engine: AgentEngine, count: number, from = 1) {
  const results = []
  for (let n = from; n < from + count; n++) {
    results.push(await engine.run(userTurn(long(`question ${n}`))).result)
  }
  return results
}

const answers = (count: number, from = 1): ScriptedReply[] =>
  Array.from({ length: count }, (_, n) => `answer ${n + from}`)

/** The beginning of each message of the session's context. */
async function historyTexts(engine: AgentEngine) {
  const messages = await engine.ledger.history('agent:main:main')
  return messages.map(({ content }) => content.slice(0, 20).split(' lorem')[0])
}

test('a history that would not fit is summarised before the first call, and the next process reads the summary', async () => {
  const { engine, provider, small } = start(answers(7), {}, [SUMMARY])
  const phases: string[] = []
  await turns(engine, 5)
  const run = engine.run(userTurn(long('question 6')), {
    onAgentEvent: ({ phase }) => phases.push(phase),
  })
  const result = await run.result
  expect(result).toMatchObject({ stopReason: 'end_turn', persisted: true })
  expect(phases).toEqual(['start', 'compaction_start', 'compaction_end', 'streaming', 'end'])
  expect(small.requests).toHaveLength(1)
  const { compaction } = result
  expect(compaction).toMatchObject({
    summary: SUMMARY,
    turnsSummarized: 2,
    model: 'tiny',
    provider: 'small',
    trigger: 'context_limit',
    compactionType: 'summary',
  })
  expect(compaction?.tokensAfter).toBeLessThan(compaction?.tokensBefore ?? 0)
  const context = [
    '[Previous conversati',
    'question 3',
    'answer 3',
    'question 4',
    'answer 4',
    'question 5',
    'answer 5',
    'question 6',
    'answer 6',
  ]
  expect(await historyTexts(engine)).toEqual(context)
  // The row, and the turn between the old head and the run's.
  const turn = await engine.ledger.turn(result.turnId)
  const row = await engine.ledger.turn(turn?.parentTurnId ?? '')
  expect(row).toMatchObject({ turnType: 'compaction', status: 'completed', compaction })
  const sent = JSON.stringify(provider.requests.at(-1))
  expect(sent).toContain('[Previous conversation summary]:')
  expect(sent).not.toContain('question 2')
  await engine.close()
  const next = start(['answer 7'], { compaction: false })
  expect(await historyTexts(next.engine)).toEqual(context)
})

const overflow: ScriptedReply = {
  error: { kind: 'context_overflow', message: 'prompt is too long' },
}
/** Nothing is compacted before a call: the window is large, but the provider refuses. */
const large = [{ ...models[0], contextWindow: 100_000 }, models[1]]

test('a prompt that the provider refuses is compacted and sent again', async () => {
  const { engine, provider } = start([...answers(5), overflow, 'answer 6'], { models: large }, [
    SUMMARY,
  ])
  await turns(engine, 5)
  const result = await engine.run(userTurn(long('question 6'))).result
  expect(result).toMatchObject({
    stopReason: 'end_turn',
    compaction: { trigger: 'overflow_recovery' },
  })
  expect(result.attempts.map(({ purpose, reason }) => [purpose, reason])).toEqual([
    [undefined, 'context_overflow'],
    ['summary', undefined],
    [undefined, undefined],
  ])
  expect(JSON.stringify(provider.requests.at(-1))).not.toContain('question 1')
})

test('an abort during a compaction writes nothing, and no message is steered meanwhile', async () => {
  const { engine } = start(answers(6), {}, [{ gate: 'never', text: SUMMARY }])
  await turns(engine, 5)
  const before = await historyTexts(engine)
  const seen: unknown[] = []
  const run = engine.run(userTurn(long('question 6')), {
    onAgentEvent: ({ phase }) => {
      if (phase !== 'compaction_start') return
      seen.push(run.stream.isCompacting(), run.steer('more'))
      run.abort()
    },
  })
  const result = await run.result
  expect(result.stopReason).toBe('aborted')
  expect(seen).toEqual([true, false])
  expect(run.stream.isCompacting()).toBe(false)
  expect(await historyTexts(engine)).toEqual([...before, 'question 6'])
  const { rows } = await engine.ledger.query('SELECT count(*) AS n FROM compactions')
  expect(rows).toEqual([{ n: 0 }])
})

test('a tool loop that outgrows the window loses its oldest rounds between two calls', async () => {
  const call = (n: number): ScriptedReply => ({ toolCalls: [{ name: 'read', arguments: { n } }] })
  const replies = [call(1), call(2), call(3), call(4), call(5), call(6), 'done']
  const { engine, provider, small } = start(replies, {}, [SUMMARY, SUMMARY, SUMMARY])
  const result = await engine.run({
    ...userTurn('read them all'),
    tools: [{ name: 'read', run: ({ n }: { n: number }) => long(`result ${n}`).repeat(2) }],
  }).result
  expect(result).toMatchObject({ stopReason: 'end_turn', persisted: true })
  expect(small.requests.length).toBeGreaterThan(0)
  const sent = JSON.stringify(provider.requests.at(-1))
  expect(sent).toContain('read them all')
  expect(sent).toContain('[Previous conversation summary]:')
  expect(sent).not.toContain('result 1 ')
  expect(sent).toContain('result 6 ')
  // The ledger has all rounds.
  expect((await engine.ledger.turn(result.turnId))?.messages).toHaveLength(14)
})

test('a session without a past has nothing to compact', async () => {
  const { engine, small } = start([overflow], { models: large })
  const result = await engine.run(userTurn('hi')).result
  expect(result).toMatchObject({ stopReason: 'error', error: { kind: 'context_overflow' } })
  expect(small.requests).toEqual([])
  expect(await engine.compact('agent:main:main').catch((error) => error.code)).toBe(null)
})

test('a session is compacted manually, with instructions, and uncompacted', async () => {
  const { engine, small } = start([...answers(5), 'answer 6'], {}, [SUMMARY])
  await turns(engine, 5)
  const before = await historyTexts(engine)
  const done = await engine.compact('agent:main:main', { instructions: 'Keep the colours.' })
  expect(done).toMatchObject({ turnsSummarized: 2, compactionType: 'summary' })
  expect(JSON.stringify(small.requests[0])).toContain('Mind this: Keep the colours.')
  expect((await historyTexts(engine)).slice(0, 2)).toEqual(['[Previous conversati', 'question 3'])
  await engine.ledger.uncompact('agent:main:main')
  expect(await historyTexts(engine)).toEqual(before)
  expect(await engine.ledger.uncompact('agent:main:main')).toBeNull()
  await expect(engine.compact('nobody')).rejects.toMatchObject({ code: 'unknown_session' })
})

test('a manual compaction is cancelled by its signal, and fails closed', async () => {
  const gone: ScriptedReply = { gate: 'never', text: SUMMARY }
  const { engine, small } = start(answers(5), {}, [gone, '', ''])
  await turns(engine, 5)
  const before = await historyTexts(engine)
  const controller = new AbortController()
  const compacting = engine.compact('agent:main:main', { signal: controller.signal })
  await expect.poll(() => small.requests.length).toBe(1)
  controller.abort(new Error('enough'))
  await expect(compacting).rejects.toThrow('enough')
  await expect(engine.compact('agent:main:main')).rejects.toMatchObject({
    code: 'compaction_failed',
  })
  expect(await historyTexts(engine)).toEqual(before)
})

test('the strategies are tried in order, and recorded by their name', async () => {
  const compaction = {
    strategies: ['tool_result_truncation', 'sliding_window'] as const,
  }
  const { engine, provider } = start(answers(6), { compaction })
  const results = await turns(engine, 6)
  expect(results[5].compaction).toMatchObject({
    compactionType: 'sliding_window',
    summary: '(2 earlier turns were left out here.)',
    summarizationInputTokens: 0,
  })
  expect(provider.requests).toHaveLength(6)
  const { rows } = await engine.ledger.query('SELECT compaction_type FROM compactions')
  expect(rows).toEqual([{ compaction_type: 'sliding_window' }])
})

test('the context guard refuses a small window, warns of a full one, and stops at its own limit', async () => {
  const { engine } = start(['a'], { contextGuard: {} })
  expect(() => engine.run(userTurn('hi'))).toThrow(
    expect.objectContaining({ code: 'invalid_context' }),
  )
  const { engine: warned } = start(['a'], { models: large, contextGuard: { warnThreshold: 0.001 } })
  const result = await warned.run(userTurn(long('hi'))).result
  expect(result.warnings.map(({ code }) => code)).toEqual(['context_near_limit'])
  expect(result.tokenBudget).toMatchObject({ modelLimit: 100_000, reserveResponse: 1_000 })
  const { engine: limited, provider } = start(['a'], {
    models: large,
    contextGuard: { hardLimit: 100 },
  })
  const refused = await limited.run({ ...userTurn(long('hi')), sessionLabel: 'other' }).result
  expect(refused.error).toMatchObject({
    kind: 'context_overflow',
    detail: { code: 'context_guard' },
  })
  expect(provider.requests).toEqual([])
})

test('wrong options of compaction are refused with their path', () => {
  const wrong = (options: object) => {
    try {
      start([], options as AgentEngineOptions)
    } catch (error) {
      return (error as { field?: string }).field
    }
  }
  expect(wrong({ compaction: { strategies: [] } })).toBe('compaction.strategies')
  expect(wrong({ compaction: { maxOverflowRecoveries: 4 } })).toBe(
    'compaction.maxOverflowRecoveries',
  )
  expect(wrong({ compaction: { provider: 'small' } })).toBe('compaction.model')
  expect(wrong({ compaction: { nonsense: 1 } })).toMatch(/^compaction/)
  expect(wrong({ contextGuard: { warnThreshold: 2 } })).toBe('contextGuard.warnThreshold')
})
