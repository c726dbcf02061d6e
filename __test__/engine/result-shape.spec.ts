// The shape of a result: every required field is present, with null for an unknown value. It must never test how a run got
// there.

import { expect, test } from 'vitest'
import { context, scriptedEngine } from '../support/engine.js'

test('a plain result has every required field, with null for an unknown cost', async () => {
  const { engine } = scriptedEngine([{ text: 'hello', usage: { inputTokens: 7, outputTokens: 2 } }])
  const result = await engine.run(context({ runId: 'r' })).result
  const { turnId, messages, durationMs, attempts, ...rest } = result
  expect(messages.map(({ role, content }) => [role, content])).toEqual([
    ['user', 'hi'],
    ['assistant', 'hello'],
  ])
  expect([turnId, durationMs, attempts]).toEqual([
    expect.stringMatching(/^[0-9A-Z]{26}$/),
    expect.any(Number),
    [
      {
        provider: 'test',
        model: 'test-model',
        ok: true,
        status: 200,
        ms: expect.any(Number),
        usage: rest.usage,
      },
    ],
  ])
  expect(rest).toEqual({
    runId: 'r',
    text: 'hello',
    blocks: [{ type: 'text', text: 'hello' }],
    toolCalls: [],
    usage: {
      inputTokens: 7,
      outputTokens: 2,
      cachedInputTokens: 0,
      cacheWriteTokens: 0,
      reasoningTokens: 0,
      totalTokens: 9,
    },
    usageEstimated: false,
    contextTokens: 9,
    tokenBudget: {
      modelLimit: 200_000,
      reserveResponse: 8_192,
      reserveTools: 0,
      available: 191_808,
      used: 9,
      remaining: 191_799,
    },
    cost: null,
    stopReason: 'end_turn',
    persisted: false,
    undeliveredSteering: [],
    warnings: [],
    cacheBreaks: [],
  })
  await engine.close()
})

test('a run without a request has a context of unknown size', async () => {
  const { engine } = scriptedEngine([{ error: { status: 401 } }])
  const { text, stopReason, contextTokens, undeliveredSteering } = await engine.run(context())
    .result
  expect({ text, stopReason, contextTokens, undeliveredSteering }).toEqual({
    text: '',
    stopReason: 'error',
    contextTokens: null,
    undeliveredSteering: [],
  })
  await engine.close()
})
