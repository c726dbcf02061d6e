// Placeholder usage of a server: zeros, a constant 1, the announcement of a cut stream. It is estimated, and marked so. It must
// never assert the count of a real model, only whether it is plausible beside the estimate.

import { expect, test } from 'vitest'
import type { ScriptedReply, ScriptedUsage } from '../../index.js'
import { AgentEngine, scriptedProvider } from '../../index.js'
import { closing, folder } from '../support/cleanup.js'
import { context, engineAt, testModel } from '../support/engine.js'
import { anthropic } from '../support/servers/anthropic.js'
import { sseThenHold, testServer } from '../support/servers/server.js'

/** US dollars per million tokens. */
const cost = { input: 1, output: 10, cacheRead: 0.5, cacheWrite: 2, cacheWrite1h: null, tiers: [] }
/** Texts of known size: 4 characters are a token. */
const words = (tokens: number) => 'a'.repeat(4 * tokens)
const requested = {
  systemPrompt: words(100),
  currentMessage: { role: 'user', content: words(300) },
} as const
const NOTHING = { inputTokens: 0, outputTokens: 0 }

function start(replies: ScriptedReply[], price: typeof cost | null = cost) {
  const { file } = folder()
  return closing(
    new AgentEngine({
      ledger: { path: file, synchronous: 'normal' },
      providers: { test: scriptedProvider(replies) },
      models: [{ ...testModel, ...(price ? { cost: price } : {}) }],
      budgets: [{ per: 'session', maxTokens: 1_000_000 }],
    }),
  )
}

test.each<[string, ScriptedUsage | undefined, [number, number, boolean]]>([
  ['nothing', undefined, [400, 60, true]],
  ['zeros', NOTHING, [400, 60, true]],
  ['ones', { inputTokens: 1, outputTokens: 1 }, [400, 60, true]],
  ['a prompt of less than a quarter', { inputTokens: 99, outputTokens: 60 }, [400, 60, true]],
  ['an answer of less than a quarter', { inputTokens: 390, outputTokens: 14 }, [390, 60, true]],
  ['another tokenizer', { inputTokens: 101, outputTokens: 16 }, [101, 16, false]],
  ['hidden reasoning', { inputTokens: 390, outputTokens: 9_000 }, [390, 9_000, false]],
])('%s reported', async (_, usage, [input, output, estimated]) => {
  const engine = start([{ text: words(60), usage }])
  const result = await engine.run(context(requested)).result
  expect(result).toMatchObject({
    usage: { inputTokens: input, outputTokens: output, totalTokens: input + output },
    usageEstimated: estimated,
  })
  expect(result.cost).toBeCloseTo((input + 10 * output) / 1e6, 12)
  const [attempt] = result.attempts
  expect(attempt).toMatchObject({ usage: result.usage, cost: result.cost })
  expect(attempt?.usageEstimated ?? false).toBe(estimated)
  expect(engine.budgets()).toMatchObject([{ usedTokens: input + output }])
  const row = await engine.ledger.turn(result.turnId)
  expect(row).toMatchObject({
    usage: result.usage,
    usageEstimated: estimated,
    cost: result.cost,
    attempts: result.attempts,
  })
})

test('a prompt read from the cache is no placeholder', async () => {
  const usage = { inputTokens: 3, cachedInputTokens: 390, outputTokens: 60 }
  const result = await start([{ text: words(60), usage }]).run(context(requested)).result
  expect(result).toMatchObject({ usage: { ...usage, totalTokens: 453 }, usageEstimated: false })
})

test('a low count for an image is no placeholder', async () => {
  const usage = { inputTokens: 90, outputTokens: 60 }
  const image = { type: 'image', mimeType: 'image/png', data: 'aGk=' } as const
  const content = [{ type: 'text', text: words(10) }, image] as const
  const result = await start([{ text: words(60), usage }]).run(
    context({ systemPrompt: '', currentMessage: { role: 'user', content } }),
  ).result
  expect(result).toMatchObject({ usage, usageEstimated: false })
})

test('an estimated cost is null without a price, and 0 for a free model', async () => {
  const unknown = await start([{ text: words(60), usage: NOTHING }], null).run(context(requested))
    .result
  expect([unknown.cost, unknown.usageEstimated]).toEqual([null, true])
  const free = { ...cost, input: 0, output: 0 }
  const nothing = await start([{ text: words(60), usage: NOTHING }], free).run(context(requested))
    .result
  expect([nothing.cost, nothing.usageEstimated]).toEqual([0, true])
})

test('calls without reported usage do not exceed a budget', async () => {
  const replies = Array.from({ length: 12 }, () => ({ text: words(60), usage: NOTHING }))
  const engine = closing(
    new AgentEngine({
      providers: { test: scriptedProvider(replies) },
      models: [{ ...testModel, maxOutputTokens: 200 }],
      budgets: [{ per: 'day', maxTokens: 3_000 }],
    }),
  )
  let answered = 0
  for (let n = 0; n < 12; n++) {
    const { stopReason } = await engine.run(
      context({ ...requested, sessionLabel: `agent:main:dm:${n}` }),
    ).result
    if (stopReason === 'end_turn') answered++
  }
  const [day] = engine.budgets()
  expect(day?.usedTokens).toBe(answered * 460)
  expect(day?.usedTokens).toBeLessThanOrEqual(3_000)
  expect(answered).toBeLessThan(7)
})

test('an aborted stream has its announced prompt tokens, and its output is counted from its text', async () => {
  const server = await testServer(
    sseThenHold(
      anthropic.start({ input: 380 }),
      anthropic.blockStart(0, { type: 'text', text: '' }),
      anthropic.delta(0, { type: 'text_delta', text: words(40) }),
    ),
  )
  try {
    const engine = closing(engineAt(server.url, { models: [{ ...testModel, cost }] }))
    const run = engine.run(context(requested))
    for await (const event of run) if (event.type === 'token') run.abort()
    const result = await run.result
    expect(result).toMatchObject({
      stopReason: 'aborted',
      usage: { inputTokens: 380, outputTokens: 40, totalTokens: 420 },
      usageEstimated: true,
    })
    expect(result.cost).toBeCloseTo((380 + 400) / 1e6, 12)
  } finally {
    await server.close()
  }
})
