// Anthropic Messages: the request. It asserts on the raw requests of a loopback server and must never read internal state of the
// engine. What later calls send back is providers/anthropic-replay.spec.ts.

import { describe, expect, test } from 'vitest'
import type {
  AgentEngineOptions,
  AssembledContext,
  ThinkingCapability,
  ThinkingConfig,
} from '../../index.js'
import { engineAt, testModel } from '../support/engine.js'
import { anthropic } from '../support/servers/anthropic.js'
import { sse } from '../support/servers/server.js'
import { serverPerTest } from '../support/servers/server-per-test.js'
import { singleRun } from '../support/single-run.js'
import { image, pictureTool, plotTool, wholeContext } from '../support/values/whole-context.js'

const server = serverPerTest(() => sse(anthropic.answer('ok')))

/** One run against the server with an engine of its own. */
const runOnce = (
  changes: Partial<AssembledContext> = {},
  options: AgentEngineOptions = {},
  provider: Record<string, unknown> = {},
) => singleRun(engineAt(server.url, options, provider), changes)

/** The breakpoint of the prompt cache, which is no part of a provider's hash. */
const breakpoint = { cache_control: { type: 'ephemeral' } }

describe('the request', () => {
  test('has the whole context in the API’s form, and nothing else', async () => {
    const schema = {
      type: 'object',
      $defs: { point: { type: 'object', properties: { x: { type: 'number' } } } },
      properties: {
        at: { $ref: '#/$defs/point' },
        kind: { anyOf: [{ const: 1 }, { const: 'b' }] },
      },
      required: ['at'],
      additionalProperties: false,
    }
    await runOnce({
      ...wholeContext(),
      tools: [plotTool(schema)],
    })
    expect(server.seen.map(({ method, path }) => `${method} ${path}`)).toEqual([
      'POST /v1/messages',
    ])
    expect(server.seen[0]?.body).toEqual({
      model: 'test-model',
      max_tokens: 1_000,
      stream: true,
      system: [{ type: 'text', text: 'Be "brief".', ...breakpoint }],
      tools: [{ name: 'plot', description: 'Plots.', input_schema: schema, ...breakpoint }],
      temperature: 0.25,
      messages: [
        { role: 'user', content: [{ type: 'text', text: 'earlier' }] },
        { role: 'assistant', content: [{ type: 'text', text: 'answer' }] },
        { role: 'user', content: [{ type: 'text', text: 'now', ...breakpoint }] },
      ],
    })
  })

  test('has the key in `x-api-key`, the version, and the headers of the options', async () => {
    await runOnce({}, {}, { headers: { 'anthropic-beta': 'a,b', 'x-team': 'red' } })
    const headers = server.seen[0]?.headers ?? {}
    expect(headers).toMatchObject({
      'x-api-key': 'sk-test-canary-0123456789',
      'anthropic-version': '2023-06-01',
      'anthropic-beta': 'a,b',
      'x-team': 'red',
      'content-type': 'application/json',
      'accept-encoding': 'identity',
      'content-length': String(Buffer.byteLength(server.seen[0]?.raw ?? '')),
    })
    expect(headers.authorization).toBeUndefined()
  })

  test('has a token as a bearer, and the version of the options', async () => {
    await runOnce(
      {},
      { authProfiles: [{ id: 'p', provider: 'test', type: 'token', key: 'token-0123456789' }] },
      { anthropicVersion: '2026-10-21' },
    )
    const headers = server.seen[0]?.headers ?? {}
    expect(headers.authorization).toBe('Bearer token-0123456789')
    expect(headers['x-api-key']).toBeUndefined()
    expect(headers['anthropic-version']).toBe('2026-10-21')
  })

  test('is sent below the path of the base URL, with its query', async () => {
    await runOnce({}, {}, { baseUrl: `${server.url}/gateway/anthropic/?tenant=7` })
    expect(server.seen[0]?.path).toBe('/gateway/anthropic/v1/messages?tenant=7')
  })

  test('has no key without one in the options', async () => {
    await runOnce({}, { authProfiles: [] })
    const { authorization, 'x-api-key': key } = server.seen[0]?.headers ?? {}
    expect([authorization, key]).toEqual([undefined, undefined])
  })

  test('leaves out the temperature if the model refuses it, or with thinking on', async () => {
    const models = [testModel, { ...testModel, id: 'cool', temperature: false, reasoning: true }]
    await runOnce({ model: 'cool', temperature: 0.5 }, { models })
    await runOnce({ temperature: 0.5, thinkingConfig: { type: 'enabled', budgetTokens: 2_048 } })
    await runOnce({ temperature: 0.5, thinkingConfig: { type: 'disabled' } })
    expect(server.seen.map(({ body }) => body.temperature)).toEqual([undefined, undefined, 0.5])
  })

  test('requests thinking as the context configures it', async () => {
    await runOnce({ thinkingConfig: { type: 'enabled', budgetTokens: 2_048 } })
    await runOnce({ thinkingConfig: { type: 'adaptive', effort: 'xhigh' } })
    await runOnce({ thinkingConfig: { type: 'disabled' } })
    await runOnce({})
    const requested = server.seen.map(({ body }) => [body.thinking, body.output_config])
    expect(requested).toEqual([
      [{ type: 'enabled', budget_tokens: 2_048 }, undefined],
      [{ type: 'adaptive' }, { effort: 'xhigh' }],
      [{ type: 'disabled' }, undefined],
      [undefined, undefined],
    ])
  })

  test('requests thinking in the form that the model supports, within the cap of the answer', async () => {
    const able = (id: string, thinking: Partial<ThinkingCapability>) => ({
      ...testModel,
      id,
      thinking: { adaptive: false, budget: false, efforts: [], canDisable: true, ...thinking },
    })
    const models = [
      testModel,
      able('adaptive', { adaptive: true, efforts: ['low', 'high'], canDisable: false }),
      able('budget', { budget: true }),
    ]
    const requested: [string, ThinkingConfig][] = [
      ['adaptive', { type: 'enabled', budgetTokens: 2_048 }],
      ['adaptive', { type: 'disabled' }],
      ['adaptive', { effort: 'medium' }],
      ['budget', { type: 'adaptive', effort: 'low' }],
      ['budget', { type: 'enabled', budgetTokens: 50_000 }],
      ['test-model', { type: 'enabled', budgetTokens: 50_000 }],
    ]
    for (const [model, thinkingConfig] of requested)
      await runOnce({ model, thinkingConfig }, { models })
    expect(server.seen.map(({ body }) => [body.thinking, body.output_config])).toEqual([
      [{ type: 'adaptive' }, undefined],
      [undefined, undefined],
      [undefined, { effort: 'low' }],
      [{ type: 'enabled', budget_tokens: 2_048 }, undefined],
      [{ type: 'enabled', budget_tokens: 8_191 }, undefined],
      [{ type: 'enabled', budget_tokens: 8_191 }, undefined],
    ])
  })

  test('caps the answer at the model’s limit', async () => {
    await runOnce({ maxResponseTokens: 1_000_000 })
    await runOnce({})
    expect(server.seen.map(({ body }) => body.max_tokens)).toEqual([8_192, 8_192])
  })

  test('has images as base64, in user messages and in tool results', async () => {
    server.use(sse(anthropic.calls(['toolu_1', 'picture', {}])), sse(anthropic.answer('seen')))
    await runOnce({
      currentMessage: { role: 'user', content: [{ type: 'text', text: 'what?' }, image] },
      tools: [pictureTool],
    })
    const sent = {
      type: 'image',
      source: { type: 'base64', media_type: 'image/png', data: 'aGk=' },
    }
    expect(server.seen[1]?.body.messages).toEqual([
      { role: 'user', content: [{ type: 'text', text: 'what?' }, sent] },
      {
        role: 'assistant',
        content: [{ type: 'tool_use', id: 'toolu_1', name: 'picture', input: {} }],
      },
      {
        role: 'user',
        content: [
          {
            type: 'tool_result',
            tool_use_id: 'toolu_1',
            content: [{ type: 'text', text: 'here' }, sent],
            ...breakpoint,
          },
        ],
      },
    ])
  })
})
