// Calibrated estimates: through the public API, against a server with a different tokenizer. It must never depend on the token
// count of a real model.

import { describe, expect, test } from 'vitest'
import { AgentEngine, type AgentEngineOptions, type AssembledContext } from '../../index.js'
import { closing, folder, serving } from '../support/cleanup.js'
import { context } from '../support/engine.js'
import { chat } from '../support/servers/chat.js'
import type { Seen } from '../support/servers/server.js'

const WINDOW = 8_000
const model = {
  provider: 'test',
  id: 'test-model',
  contextWindow: WINDOW,
  maxOutputTokens: 1_000,
}

const SUMMARY =
  '## Goal\nG\n\n## Constraints & preferences\nC\n\n## Progress\nP\n\n## Key decisions\nK\n\n## Next steps\nN\n\n## Critical context\n(none)'

/** A text of this many estimated tokens. */
const words = (tokens: number, first = '') => `${first} `.padEnd(4 * tokens, 'word ')

function texts({ body }: Seen): string[] {
  return body.messages.map(({ content }: { content: string | { text: string }[] }) =>
    typeof content === 'string' ? content : content.map(({ text }) => text).join(''),
  )
}

/** A server that counts `times` as many tokens as the estimate, and refuses prompts over its window. */
async function counting(times: number) {
  const prompts: number[] = []
  let overflows = 0
  const server = await serving((response, seen) => {
    const sentTexts = texts(seen)
    const count = Math.ceil(
      times * sentTexts.reduce((sum, text) => sum + Math.ceil(text.length / 4), 0),
    )
    if (count > WINDOW) {
      overflows++
      response.writeHead(400, { 'content-type': 'application/json' })
      const code = 'context_length_exceeded'
      response.end(JSON.stringify({ error: { message: 'maximum context length', code } }))
      return
    }
    const summarises = sentTexts.some((text) => text.includes('## Goal'))
    if (!summarises) prompts.push(count)
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    const answer = chat.text(summarises ? SUMMARY : 'ok') + chat.finish('stop')
    response.end(answer + chat.usage(count, 1) + chat.done())
  })
  return {
    prompts,
    overflows: () => overflows,
    engine: (options: AgentEngineOptions = {}) =>
      closing(
        new AgentEngine({
          providers: { test: { api: 'openai-chat', baseUrl: server.url } },
          models: [model],
          contextGuard: { minWindow: 1_000 },
          ...options,
        }),
      ),
  }
}

const userTurn = (content: string, changes: Partial<AssembledContext> = {}) =>
  context({ currentMessage: { role: 'user', content }, sessionLabel: 's', ...changes })

const near = (estimate: number, counted: number) => {
  expect(estimate).toBeGreaterThan(counted * 0.97)
  expect(estimate).toBeLessThan(counted * 1.03)
}

describe.each([2, 0.5])('a model that counts %d tokens per estimated token', (times) => {
  test('after one call the estimate of the next is correct, also after a restart', async () => {
    const world = await counting(times)
    const { file } = folder()
    const first = world.engine({ ledger: { path: file } })
    const next = userTurn(words(700, 'second'))
    const { tokens: naive } = await first.countTokens(userTurn(words(600)))
    await first.run(userTurn(words(600, 'first'))).result
    near(naive * times, world.prompts[0] ?? 0)
    const { tokens, systemTokens, toolTokens, messageTokens } = await first.countTokens(next)
    expect(systemTokens + toolTokens + messageTokens).toBe(tokens)
    // Another ledger has no calibration.
    const { tokens: strange } = await world.engine().countTokens(userTurn(words(600)))
    expect(strange).toBe(naive)
    await first.close()
    const second = world.engine({ ledger: { path: file } })
    expect((await second.countTokens(next)).tokens).toBe(tokens)
    // Reported usage is never changed.
    const { usage, contextTokens } = await second.run(next).result
    near(tokens, world.prompts[1] ?? 0)
    expect(usage.inputTokens).toBe(world.prompts[1])
    expect(contextTokens).toBe((world.prompts[1] ?? 0) + 1)
    const rows = await second.ledger.query(
      'SELECT provider, model, per_mille FROM model_calibration',
    )
    const { provider, model, per_mille } = rows.rows[0] as Record<string, unknown>
    expect([rows.rows.length, provider, model]).toEqual([1, 'test', 'test-model'])
    near(per_mille as number, 1_000 * times)
  })
})

test('compaction happens at the right point, also in the first call after a restart', async () => {
  const world = await counting(2)
  const { file } = folder()
  // At most 6,800 tokens, with a fifth of an estimate as its margin: 5,667 by the server's count.
  const first = world.engine({ ledger: { path: file } })
  const compacted = []
  for (let turn = 1; turn <= 9; turn++) {
    const { compaction, stopReason } = await first.run(userTurn(words(500, `turn ${turn}`))).result
    expect(stopReason).toBe('end_turn')
    if (compaction !== undefined) compacted.push([turn, compaction] as const)
  }
  expect(world.overflows()).toBe(0)
  expect(Math.max(...world.prompts)).toBeLessThan(5_700)
  expect(Math.max(...world.prompts)).toBeGreaterThan(4_500)
  expect(compacted.length).toBeGreaterThan(0)
  const [turn, compaction] = compacted[0] ?? []
  expect(turn).toBe(6)
  expect(compaction).toMatchObject({ trigger: 'context_limit' })
  near(compaction?.tokensBefore ?? 0, 6 * 1_000)
  await first.close()
  // The raw estimate of this prompt is far below the limit: only a calibrated engine compacts.
  const second = world.engine({ ledger: { path: file } })
  const large = await second.run(userTurn(words(2_000, 'large'))).result
  expect(large.compaction).toMatchObject({ trigger: 'context_limit' })
  expect(large.stopReason).toBe('end_turn')
  expect(world.overflows()).toBe(0)
})

test('budgets reserve the calibrated count if it is higher, and the estimate otherwise', async () => {
  for (const [times, size] of [
    [2, 1_000],
    [0.5, 1_800],
  ] as const) {
    const world = await counting(times)
    const engine = world.engine({ budgets: [{ per: 'run', maxTokens: 3_000 }] })
    expect((await engine.run(userTurn(words(700), { history: [] })).result).stopReason).toBe(
      'end_turn',
    )
    const { error } = await engine.run(userTurn(words(size), { history: [] })).result
    expect(error?.detail.kind).toBe('budget_exceeded')
    expect(world.prompts).toHaveLength(1)
  }
})
