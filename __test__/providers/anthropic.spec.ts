// Anthropic Messages end to end: the requests, the answers, and what is sent back in the next call. It asserts on the raw
// requests of a loopback server and must never read internal state of the engine.

import { describe, expect, test } from 'vitest'
import type {
  AgentEngineOptions,
  AgentTool,
  AssembledContext,
  Block,
  ThinkingCapability,
  ThinkingConfig,
} from '../../index.js'
import { describedTool, echoTool } from '../support/described-tools.js'
import { context, engineAt, tempDir, testModel, textOf } from '../support/engine.js'
import { anthropic } from '../support/servers/anthropic.js'
import { type Seen, sse } from '../support/servers/server.js'
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
/** The body without breakpoints. */
const unmarked = (seen: Seen) =>
  seen.raw.replaceAll(`,${JSON.stringify(breakpoint).slice(1, -1)}`, '')
/** The same up to its last message: system, tools and the messages so far. */
const prefix = (seen: Seen) => unmarked(seen).slice(0, unmarked(seen).lastIndexOf(']}'))

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
    const asked = server.seen.map(({ body }) => [body.thinking, body.output_config])
    expect(asked).toEqual([
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
    const asked: [string, ThinkingConfig][] = [
      ['adaptive', { type: 'enabled', budgetTokens: 2_048 }],
      ['adaptive', { type: 'disabled' }],
      ['adaptive', { effort: 'medium' }],
      ['budget', { type: 'adaptive', effort: 'low' }],
      ['budget', { type: 'enabled', budgetTokens: 50_000 }],
      ['test-model', { type: 'enabled', budgetTokens: 50_000 }],
    ]
    for (const [model, thinkingConfig] of asked)
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

describe('the answer', () => {
  test('streams each delta as one event', async () => {
    server.use(
      sse(
        anthropic.start(),
        anthropic.thinking(0, 'hm', 'sig'),
        anthropic.text(1, 'Hel', 'lo', ' 🦀'),
        anthropic.end(),
      ),
    )
    const { events, result } = await runOnce()
    expect(
      events.map((event) => ('text' in event ? `${event.type} ${event.text}` : event.type)),
    ).toEqual(['stream_start', 'reasoning hm', 'token Hel', 'token lo', 'token  🦀', 'stream_end'])
    expect(result.blocks).toEqual([
      { type: 'thinking', thinking: 'hm', signature: 'sig' },
      { type: 'text', text: 'Hello 🦀' },
    ])
    expect(result.messages.at(-1)).toMatchObject({
      role: 'assistant',
      content: 'Hello 🦀',
      thinking: 'hm',
      providerStopReason: 'end_turn',
      provenance: {
        provider: 'test',
        api: 'anthropic-messages',
        model: 'test-model',
        responseId: 'msg_1',
      },
    })
  })

  test('may be one JSON message although a stream was requested', async () => {
    server.use((response) => {
      response.writeHead(200, { 'content-type': 'application/json' }).end(
        JSON.stringify({
          id: 'msg_whole',
          type: 'message',
          role: 'assistant',
          model: 'm',
          content: [{ type: 'text', text: 'whole' }],
          stop_reason: 'end_turn',
          usage: { input_tokens: 3, output_tokens: 2 },
        }),
      )
    })
    const { events, result } = await runOnce()
    expect([textOf(events), result.stopReason, result.usage.totalTokens]).toEqual([
      'whole',
      'end_turn',
      5,
    ])
  })

  test.each([
    ['end_turn', 'end_turn'],
    ['stop_sequence', 'end_turn'],
    ['max_tokens', 'max_tokens'],
    ['model_context_window_exceeded', 'max_tokens'],
    ['a_reason_of_tomorrow', 'end_turn'],
  ])('that stops with `%s` ends the run as `%s`', async (reason, stopReason) => {
    server.use(sse(anthropic.start(), anthropic.text(0, 'part'), anthropic.end(reason)))
    const { events, result } = await runOnce()
    expect(result).toMatchObject({ stopReason })
    expect(result.error).toBeUndefined()
    expect(result.messages.at(-1)).toMatchObject({ content: 'part', providerStopReason: reason })
    expect(events.at(-1)).toMatchObject({ type: 'stream_end', final: true })
    expect(server.seen).toHaveLength(1)
  })

  test('that is a refusal ends the run as an error, with its text in the result', async () => {
    server.use(sse(anthropic.start(), anthropic.text(0, 'I cannot'), anthropic.end('refusal')))
    const { events, result } = await runOnce()
    expect(result).toMatchObject({
      stopReason: 'error',
      error: {
        kind: 'model_error',
        retryable: false,
        detail: { kind: 'refusal', code: 'refusal' },
      },
    })
    expect(result.messages.at(-1)?.content).toBe('I cannot')
    expect(events.at(-1)).toMatchObject({ type: 'stream_error', partial: true })
    expect(server.seen).toHaveLength(1)
  })

  test('that pauses is sent back unchanged and continued, eight times at most', async () => {
    const search = {
      type: 'server_tool_use',
      id: 'srvtoolu_1',
      name: 'web_search',
      input: { q: 'x' },
    }
    server.use(
      sse(
        anthropic.start(),
        anthropic.blockStart(0, search),
        anthropic.blockStop(0),
        anthropic.end('pause_turn'),
      ),
    )
    const { events, result } = await runOnce()
    expect(server.seen).toHaveLength(9)
    expect(server.seen[1]?.body.messages.at(-1)).toEqual({ role: 'assistant', content: [search] })
    expect(result.stopReason).toBe('tool_use')
    expect(events.filter(({ type }) => type === 'stream_end')).toHaveLength(9)
  })

  test('that is cut at `max_tokens` never runs the call at the cut', async () => {
    const ran: unknown[] = []
    server.use(
      sse(
        anthropic.start(),
        anthropic.blockStart(0, { type: 'tool_use', id: 'toolu_1', name: 'echo', input: {} }),
        anthropic.delta(0, { type: 'input_json_delta', partial_json: '{"path":"/ho' }),
        anthropic.end('max_tokens'),
      ),
    )
    const { result } = await runOnce({
      tools: [describedTool('echo', (params) => ran.push(params))],
    })
    expect(ran).toEqual([])
    expect(result.stopReason).toBe('max_tokens')
    expect(result.toolCalls).toMatchObject([
      { id: 'toolu_1', status: 'failed', error: 'max_tokens' },
    ])
    expect(server.seen).toHaveLength(1)
  })

  test('whose call did close before `max_tokens` does not run it either', async () => {
    const ran: unknown[] = []
    server.use(
      sse(
        anthropic.start(),
        anthropic.toolUse(0, 'toolu_1', 'echo', {}),
        anthropic.end('max_tokens'),
      ),
    )
    await runOnce({ tools: [describedTool('echo', (params) => ran.push(params))] })
    expect(ran).toEqual([])
  })
})

describe('usage', () => {
  const priced = [
    {
      ...testModel,
      cost: {
        input: 2,
        output: 10,
        cacheRead: 0.2,
        cacheWrite: 2.5,
        cacheWrite1h: null,
        tiers: [],
      },
    },
  ]

  test('is summed over the calls, while the context’s size is the last call’s', async () => {
    server.use(
      sse(
        anthropic.start({ input: 100, cached: 20, cacheWrite: 30 }),
        anthropic.toolUse(0, 'toolu_1', 'echo', {}),
        anthropic.end('tool_use', { output: 40 }),
      ),
      sse(anthropic.answer('done', { input: 7, cached: 150, cacheWrite: 11, output: 5 })),
    )
    const { result } = await runOnce({ tools: [echoTool] }, { models: priced })
    expect(result.usage).toEqual({
      inputTokens: 107,
      cachedInputTokens: 170,
      cacheWriteTokens: 41,
      outputTokens: 45,
      reasoningTokens: 0,
      totalTokens: 363,
    })
    expect(result.contextTokens).toBe(173)
    expect(result.usageEstimated).toBe(false)
    expect(result.cost).toBeCloseTo((107 * 2 + 45 * 10 + 170 * 0.2 + 41 * 2.5) / 1e6, 12)
  })

  test('uses the last figures of `message_delta`, and never adds them', async () => {
    const usage = (fields: object) =>
      `event: message_delta\ndata: ${JSON.stringify({ type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: fields })}\n\n`
    server.use(
      sse(
        anthropic.start({ input: 10, cached: 1 }),
        anthropic.text(0, 'x'),
        usage({ output_tokens: 4, input_tokens: null }),
        usage({ output_tokens: 9, output_tokens_details: { thinking_tokens: 6 } }),
        anthropic.stop(),
      ),
    )
    const { result } = await runOnce()
    expect(result.usage).toEqual({
      inputTokens: 10,
      cachedInputTokens: 1,
      cacheWriteTokens: 0,
      outputTokens: 9,
      reasoningTokens: 6,
      totalTokens: 20,
    })
  })

  test('of a model without a price costs null, and not 0', async () => {
    const { result } = await runOnce()
    expect(result.cost).toBeNull()
    expect(result.usage.totalTokens).toBeGreaterThan(0)
  })

  test('that is not reported is estimated and marked so', async () => {
    const bare =
      'event: message_start\ndata: {"type":"message_start","message":{"id":"m","content":[]}}\n\n'
    const end =
      'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}\n\n'
    server.use(sse(bare, anthropic.text(0, 'some words of an answer'), end, anthropic.stop()))
    const { result } = await runOnce()
    expect(result.usageEstimated).toBe(true)
    expect(result.usage.outputTokens).toBeGreaterThan(0)
    expect(result.usage.inputTokens).toBeGreaterThan(0)
  })
})

describe('the next call', () => {
  const signature = `${'EqRkAbC+/='.repeat(30)}é`
  const thinking = {
    type: 'thinking',
    thinking: 'Let me “think”\n\tabout <it> & 🦀 \u2028',
    signature,
  }
  const redacted = { type: 'redacted_thinking', data: 'b64+/data==' }

  const thoughtful = (...rest: string[]) =>
    sse(
      anthropic.start(),
      anthropic.thinking(0, thinking.thinking, signature),
      anthropic.blockStart(1, redacted),
      anthropic.blockStop(1),
      ...rest,
    )

  test('gets thinking, signatures and redacted thinking back byte for byte, in order', async () => {
    server.use(
      thoughtful(
        anthropic.text(2, 'I look.'),
        anthropic.toolUse(3, 'toolu_1', 'echo', { a: 1 }),
        anthropic.end('tool_use'),
      ),
      sse(anthropic.answer('done')),
    )
    const { result } = await runOnce({ tools: [echoTool] })
    expect(server.seen[1]?.body.messages[1]).toEqual({
      role: 'assistant',
      content: [
        thinking,
        redacted,
        { type: 'text', text: 'I look.' },
        { type: 'tool_use', id: 'toolu_1', name: 'echo', input: { a: 1 } },
      ],
    })
    expect(result.stopReason).toBe('end_turn')
  })

  test('gets thinking back in the next turn too, read from the ledger', async () => {
    const dir = tempDir()
    server.use(thoughtful(anthropic.text(2, 'one'), anthropic.end()), sse(anthropic.answer('two')))
    const engine = engineAt(server.url, { ledger: { path: dir.file } })
    await engine.run(context()).result
    await engine.close()
    const again = engineAt(server.url, { ledger: { path: dir.file } })
    await again.run(context({ currentMessage: { role: 'user', content: 'more' } })).result
    await again.close()
    dir.remove()
    expect(server.seen[1]?.body.messages).toEqual([
      { role: 'user', content: [{ type: 'text', text: 'hi' }] },
      { role: 'assistant', content: [thinking, redacted, { type: 'text', text: 'one' }] },
      { role: 'user', content: [{ type: 'text', text: 'more', ...breakpoint }] },
    ])
  })

  test('does not get the thinking of another model, nor thinking without a signature', async () => {
    const dir = tempDir()
    server.use(thoughtful(anthropic.text(2, 'one'), anthropic.end()), sse(anthropic.answer('two')))
    const models = [testModel, { ...testModel, id: 'other-model' }]
    const engine = engineAt(server.url, { ledger: { path: dir.file }, models })
    await engine.run(context()).result
    await engine.run(context({ model: 'other-model' })).result
    await engine.close()
    dir.remove()
    expect(server.seen[1]?.body.messages[1]).toEqual({
      role: 'assistant',
      content: [{ type: 'text', text: 'one' }],
    })
  })

  test('gets a thinking block with only a signature back', async () => {
    server.use(
      sse(
        anthropic.start(),
        anthropic.blockStart(0, { type: 'thinking', thinking: '', signature: '' }),
        anthropic.delta(0, { type: 'signature_delta', signature }),
        anthropic.blockStop(0),
        anthropic.toolUse(1, 'toolu_1', 'echo', {}),
        anthropic.end('tool_use'),
      ),
      sse(anthropic.answer('done')),
    )
    await runOnce({ tools: [echoTool] })
    expect(server.seen[1]?.body.messages[1].content[0]).toEqual({
      type: 'thinking',
      thinking: '',
      signature,
    })
  })

  test('has all results of parallel calls in one user message, in call order', async () => {
    let release = () => {}
    const second = new Promise<void>((resolve) => {
      release = resolve
    })
    const slow: AgentTool = {
      ...describedTool('slow', async () => {
        await second
        return 'slow result'
      }),
      executionMode: 'parallel',
    }
    const fast: AgentTool = {
      ...describedTool('fast', () => {
        release()
        return 'fast result'
      }),
      executionMode: 'parallel',
    }
    server.use(
      sse(
        anthropic.calls(['toolu_a', 'slow', {}], ['toolu_b', 'fast', {}], ['toolu_c', 'gone', {}]),
      ),
      sse(anthropic.answer('done')),
    )
    const { result } = await runOnce({ tools: [slow, fast] })
    const messages = server.seen[1]?.body.messages
    expect(messages).toHaveLength(3)
    expect(messages[2]).toMatchObject({
      role: 'user',
      content: [
        {
          type: 'tool_result',
          tool_use_id: 'toolu_a',
          content: [{ type: 'text', text: 'slow result' }],
        },
        {
          type: 'tool_result',
          tool_use_id: 'toolu_b',
          content: [{ type: 'text', text: 'fast result' }],
        },
        { type: 'tool_result', tool_use_id: 'toolu_c', is_error: true },
      ],
    })
    expect(result.toolCalls.map(({ id, status }) => [id, status])).toEqual([
      ['toolu_a', 'completed'],
      ['toolu_b', 'completed'],
      ['toolu_c', 'failed'],
    ])
  })

  test('gets the blocks of server tools back unchanged', async () => {
    const raw: Block['type'][] = []
    const use = { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: {} }
    const found = {
      type: 'web_search_tool_result',
      tool_use_id: 'srvtoolu_1',
      content: [
        {
          type: 'web_search_result',
          url: 'https://a.test',
          encrypted_content: 'Eo+/=',
          page_age: null,
        },
      ],
    }
    const citation = {
      type: 'web_search_result_location',
      cited_text: 'c',
      url: 'https://a.test',
      encrypted_index: 'Ei==',
    }
    server.use(
      sse(
        anthropic.start(),
        anthropic.blockStart(0, use),
        anthropic.delta(0, { type: 'input_json_delta', partial_json: '{"query": ' }),
        anthropic.delta(0, { type: 'input_json_delta', partial_json: '"weather"}' }),
        anthropic.blockStop(0),
        anthropic.blockStart(1, found),
        anthropic.blockStop(1),
        anthropic.blockStart(2, { type: 'text', text: '', citations: [] }),
        anthropic.delta(2, { type: 'citations_delta', citation }),
        anthropic.delta(2, { type: 'text_delta', text: 'It rains.' }),
        anthropic.blockStop(2),
        anthropic.toolUse(3, 'toolu_1', 'echo', {}),
        anthropic.end('tool_use'),
      ),
      sse(anthropic.answer('done')),
    )
    const { result } = await runOnce({ tools: [echoTool] })
    for (const block of result.messages[1]?.blocks ?? []) raw.push(block.type)
    expect(raw).toEqual(['opaque', 'opaque', 'text', 'tool_call'])
    expect(server.seen[1]?.body.messages[1].content).toEqual([
      { ...use, input: { query: 'weather' } },
      found,
      { type: 'text', text: 'It rains.', citations: [citation] },
      { type: 'tool_use', id: 'toolu_1', name: 'echo', input: {} },
    ])
    expect(result.toolCalls.map(({ id }) => id)).toEqual(['toolu_1'])
  })

  test('has the original bytes of arguments, large integers included', async () => {
    const input = '{"big": 123456789012345678901234567890, "exp": 1E5, "dup": "\\u00e9"}'
    server.use(
      sse(
        anthropic.start(),
        anthropic.blockStart(0, { type: 'tool_use', id: 'toolu_1', name: 'echo', input: {} }),
        anthropic.delta(0, { type: 'input_json_delta', partial_json: input }),
        anthropic.blockStop(0),
        anthropic.end('tool_use'),
      ),
      sse(anthropic.answer('done')),
    )
    await runOnce({ tools: [echoTool] })
    expect(server.seen[1]?.raw).toContain(`"input":${input}}`)
  })

  test('begins with the bytes of the previous one, over a tool loop', async () => {
    const calls = [0, 1, 2, 3].map((n) =>
      sse(anthropic.calls([`toolu_${n}`, 'echo', { n }], [`toolu_${n}b`, 'echo', { text: '"\n' }])),
    )
    server.use(...calls, sse(anthropic.answer('done')))
    await runOnce({ tools: [echoTool, describedTool('other', () => 1)], systemPrompt: 'S' })
    expect(server.seen).toHaveLength(5)
    for (const [n, seen] of server.seen.entries()) {
      const next = server.seen[n + 1]
      if (next !== undefined) expect(unmarked(next).startsWith(prefix(seen))).toBe(true)
    }
  })

  test('begins with the bytes of the previous turn, from memory or from the ledger', async () => {
    const dir = tempDir()
    const turns = async (engine: ReturnType<typeof engineAt>, count: number) => {
      for (let turn = 0; turn < count; turn++) {
        const content = `turn ${turn} of ${server.seen.length}`
        await engine.run(context({ tools: [echoTool], currentMessage: { role: 'user', content } }))
          .result
      }
      await engine.close()
    }
    const script = () =>
      server.use(
        thoughtful(anthropic.toolUse(2, 'toolu_1', 'echo', { n: 1 }), anthropic.end('tool_use')),
        sse(anthropic.calls(['toolu_1', 'echo', { again: true }])),
        sse(anthropic.answer('one')),
        thoughtful(anthropic.text(2, 'two'), anthropic.end()),
        sse(anthropic.answer('three')),
      )
    script()
    await turns(engineAt(server.url, { ledger: { path: dir.file } }), 3)
    script()
    await turns(engineAt(server.url, { ledger: { path: dir.file } }), 3)
    dir.remove()
    expect(server.seen).toHaveLength(10)
    for (const [n, seen] of server.seen.entries()) {
      const next = server.seen[n + 1]
      if (next !== undefined)
        expect(unmarked(next).startsWith(prefix(seen)), `call ${n + 2}`).toBe(true)
    }
  })
})
