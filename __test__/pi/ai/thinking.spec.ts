// What a thinking level comes to in the requests of Claude's generations: a budget for the older ones, an effort for those that decide themselves. It must
// never wait for a time.

import { expect, test } from 'vitest'
import { completeSimple, type Model, supportsXhigh } from '../../../pi-ai.js'
import { bedrock, eventStream } from '../../support/servers/bedrock.js'
import { sse } from '../../support/servers/server.js'
import { serverPerTest } from '../../support/servers/server-per-test.js'
import { modelAt, wires } from './wires.js'

const server = serverPerTest(() => sse(wires.anthropic.text('Hello.')))
const messages = [{ role: 'user' as const, content: 'hi', timestamp: 1 }]
const levels = ['minimal', 'low', 'medium', 'high', 'xhigh'] as const

/** What the request of each level has: how it thinks, and the effort. */
async function sent(changes: Partial<Model>): Promise<unknown[]> {
  const asked: unknown[] = []
  for (const reasoning of levels) {
    const model = modelAt(wires.anthropic, server.url, { maxTokens: 64_000, ...changes })
    const answer = await completeSimple(model, { messages }, { apiKey: 'sk-x', reasoning })
    expect(answer.errorMessage).toBeUndefined()
    const body = server.seen.at(-1)?.body as any
    const fields = body.additionalModelRequestFields ?? body
    asked.push([
      fields.thinking.budget_tokens ?? fields.thinking.type,
      fields.output_config?.effort ?? body.outputConfig?.effort,
    ])
  }
  return asked
}

const byEffort = (...efforts: string[]) => efforts.map((effort) => ['adaptive', effort])
const fifth = byEffort('low', 'low', 'medium', 'high', 'xhigh')

test.each([
  ['claude-opus-5-5', fifth],
  ['claude-sonnet-5', fifth],
  ['claude-haiku-5-5', fifth],
  ['claude-fable-5-1', fifth],
  ['claude-opus-4-7', fifth],
  ['claude-opus-4-6', byEffort('low', 'low', 'medium', 'high', 'max')],
])('%s gets an effort', async (id, expected) => {
  expect(await sent({ id, provider: 'anthropic' })).toEqual(expected)
})

test('an older Claude gets a budget', async () => {
  const budgets = [1_024, 2_048, 8_192, 16_384, 16_384].map((budget) => [budget, undefined])
  for (const id of [
    'claude-sonnet-4-5',
    'claude-sonnet-4-20250514',
    'claude-3-7-sonnet-20250219',
  ]) {
    expect(await sent({ id, provider: 'anthropic' })).toEqual(budgets)
  }
})

test('an effort that a model names itself is sent', async () => {
  const thinkingLevelMap = { low: 'medium', xhigh: 'max' }
  const efforts = byEffort('low', 'medium', 'medium', 'high', 'max')
  expect(await sent({ id: 'claude-opus-5-5', provider: 'anthropic', thinkingLevelMap })).toEqual(
    efforts,
  )
})

test.each(['anthropic.claude-opus-5-5', 'eu.anthropic.claude-sonnet-5'])(
  'so does Amazon Bedrock: %s',
  async (id) => {
    server.use(eventStream(bedrock.answer('ok')))
    const changes = { id, api: 'bedrock-converse-stream', provider: 'amazon-bedrock' }
    expect(await sent(changes)).toEqual(fifth)
  },
)

test('the newer generations have the level `xhigh`', () => {
  const has = (id: string) => supportsXhigh(modelAt(wires.anthropic, '', { id }))
  expect(['claude-opus-5-5', 'claude-sonnet-5', 'claude-sonnet-4-5'].map(has)).toEqual([
    true,
    true,
    false,
  ])
})
