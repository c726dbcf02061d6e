// The request options of a context at a server that sees the bytes: options, caching, headers, `onRequest`, warnings. It must
// never read internal state of the engine: everything is read from the requests and from results.

import { describe, expect, test } from 'vitest'
import type {
  AgentEngineOptions,
  AgentResult,
  AgentTool,
  AssembledContext,
  OutgoingRequest,
  RunWarning,
} from '../../index.js'
import { context, engineAt, readAll, testModel } from '../support/engine.js'
import { anthropic } from '../support/servers/anthropic.js'
import { chat } from '../support/servers/chat.js'
import { type Seen, sse, status } from '../support/servers/server.js'
import { serverPerTest } from '../support/servers/server-per-test.js'

const server = serverPerTest(() => sse(anthropic.answer('ok')))

const CHAT = { api: 'openai-chat' }

async function run(
  changes: Partial<AssembledContext> = {},
  options: AgentEngineOptions = {},
  provider: Record<string, unknown> = {},
): Promise<AgentResult> {
  const engine = engineAt(server.url, options, provider)
  const { result } = engine.run(context(changes))
  await result
  await engine.close()
  return result
}

const bodies = () => server.seen.map(({ body }) => body)
const fields = (warnings: RunWarning[]) => warnings.map(({ code, field }) => `${code} ${field}`)
const five = { cache_control: { type: 'ephemeral' } }
const hour = { cache_control: { type: 'ephemeral', ttl: '1h' } }
const echo: AgentTool = { name: 'echo', run: () => 'heard' }
const schema = {
  type: 'object',
  properties: { x: { type: 'integer' } },
  required: ['x'],
  additionalProperties: false,
}

/** Every request option, in forms that both APIs have. */
const requested = {
  tools: [echo],
  toolChoice: { name: 'echo' },
  parallelToolCalls: false,
  responseFormat: { type: 'json_schema' as const, name: 'point', schema },
  outputRetries: 0,
  stopSequences: ['END'],
  promptCache: { ttl: '1h' as const },
  requestMetadata: { user_id: 'u-1' },
  providerTools: [{ type: 'web_search_20250305', name: 'web_search', max_uses: 2 }],
  temperature: 0.5,
  maxResponseTokens: 100,
}

describe('options', () => {
  test('are in the body of Anthropic Messages', async () => {
    const { warnings } = await run(requested)
    expect(bodies()).toEqual([
      {
        model: 'test-model',
        max_tokens: 100,
        stream: true,
        system: [{ type: 'text', text: 'You are a test.', ...hour }],
        tools: [
          { name: 'echo', input_schema: { type: 'object', properties: {} } },
          { type: 'web_search_20250305', name: 'web_search', max_uses: 2, ...hour },
        ],
        output_config: { format: { type: 'json_schema', schema } },
        temperature: 0.5,
        messages: [{ role: 'user', content: [{ type: 'text', text: 'hi', ...hour }] }],
        tool_choice: { type: 'tool', name: 'echo', disable_parallel_tool_use: true },
        stop_sequences: ['END'],
        metadata: { user_id: 'u-1' },
      },
    ])
    expect(warnings).toEqual([])
  })

  test('are in the body of Chat Completions', async () => {
    server.use(sse(chat.answer('ok')))
    const { warnings } = await run(requested, {}, CHAT)
    expect(bodies()).toEqual([
      {
        model: 'test-model',
        tools: [
          {
            type: 'function',
            function: {
              name: 'echo',
              description: '',
              parameters: { type: 'object', properties: {} },
            },
          },
          { type: 'web_search_20250305', name: 'web_search', max_uses: 2 },
        ],
        messages: [
          { role: 'system', content: 'You are a test.' },
          { role: 'user', content: 'hi' },
        ],
        stream: true,
        stream_options: { include_usage: true },
        max_tokens: 100,
        temperature: 0.5,
        tool_choice: { type: 'function', function: { name: 'echo' } },
        parallel_tool_calls: false,
        response_format: {
          type: 'json_schema',
          json_schema: { name: 'point', strict: true, schema },
        },
        stop: ['END'],
        user: 'u-1',
      },
    ])
    expect(fields(warnings)).toEqual(['unsupported_option promptCache.ttl'])
  })

  test('that force a call apply to the first one only: the next is the model’s choice', async () => {
    for (const [provider, calls, answer] of [
      [{}, anthropic.calls(['toolu_1', 'echo', {}]), anthropic.answer('done')],
      [CHAT, chat.calls(['call_1', 'echo', {}]), chat.answer('done')],
    ] as const) {
      server.use(sse(calls), sse(answer))
      const result = await run({ tools: [echo], toolChoice: 'required' }, {}, provider)
      expect(result).toMatchObject({ stopReason: 'end_turn', warnings: [] })
    }
    expect(bodies().map((body) => body.tool_choice)).toEqual([
      { type: 'any' },
      undefined,
      'required',
      undefined,
    ])
  })

  test('that are invalid are refused before anything is sent', async () => {
    const engine = engineAt(server.url)
    const refused = (changes: object) => {
      try {
        engine.run(context(changes as Partial<AssembledContext>))
      } catch (error) {
        const { code, field } = error as { code: string; field: string }
        return `${code} ${field}`
      }
      return 'taken'
    }
    expect([
      refused({ headers: { 'x-foo': 'a\nb' } }),
      refused({ headers: { 'x y': 'a' } }),
      refused({ headers: { Authorization: 'Bearer x' } }),
      refused({ headers: { 'X-Api-Key': 'x' } }),
      refused({ headers: { 'x-a': '1', 'X-A': '2' } }),
      refused({ stopSequences: ['a', ''] }),
      refused({ responseFormat: { type: 'json_schema' } }),
      refused({ responseFormat: { type: 'json_object', schema: {} } }),
      refused({ responseFormat: { type: 'json_schema', schema: [] } }),
      refused({ onRequest: true }),
      refused({ onRequest: {} }),
    ]).toEqual([
      'invalid_context headers.x-foo',
      'invalid_context headers.x y',
      'invalid_context headers.Authorization',
      'invalid_context headers.X-Api-Key',
      'invalid_context headers.x-a',
      'invalid_context stopSequences[1]',
      'invalid_context responseFormat.schema',
      'invalid_context responseFormat',
      'invalid_context responseFormat.schema',
      'invalid_context onRequest',
      'invalid_context onRequest',
    ])
    await engine.close()
    expect(server.seen).toEqual([])
  })
})

describe('warnings', () => {
  test('are emitted once per option and run, for any number of calls', async () => {
    server.use(sse(anthropic.calls(['toolu_1', 'echo', {}])), sse(anthropic.answer('done')))
    const models = [{ ...testModel, temperature: false }]
    const { warnings, attempts } = await run(
      {
        tools: [echo],
        temperature: 0.5,
        responseFormat: { type: 'json_object' },
        promptCache: { key: 'k' },
        requestMetadata: { team: 'red', user_id: 'u' },
      },
      { models },
    )
    expect(attempts).toHaveLength(2)
    expect(fields(warnings)).toEqual([
      'unsupported_option temperature',
      'unsupported_option responseFormat',
      'unsupported_option promptCache.key',
      'unsupported_option requestMetadata.team',
    ])
    expect(warnings[0]?.message).toBe(
      '`temperature` was left out: `test-model` does not support it',
    )
    expect(bodies().map((body) => body.temperature)).toEqual([undefined, undefined])
  })

  test('name the options that thinking excludes', async () => {
    const thinkingConfig = { type: 'enabled' as const, budgetTokens: 2_048 }
    const warm = await run({ thinkingConfig, temperature: 0.5 })
    const forced = await run({ thinkingConfig, tools: [echo], toolChoice: 'required' })
    expect([fields(warm.warnings), fields(forced.warnings)]).toEqual([
      ['unsupported_option temperature'],
      ['unsupported_option thinkingConfig'],
    ])
    expect(bodies().map((body) => body.thinking)).toEqual([
      { type: 'enabled', budget_tokens: 2_048 },
      undefined,
    ])
  })
})

describe('the prompt cache', () => {
  const marks = (seen: Seen | undefined) => seen?.raw.match(/"cache_control"/g)?.length ?? 0

  test('is on by default: system, last tool and last block are marked, in every call', async () => {
    server.use(
      sse(anthropic.calls(['toolu_1', 'echo', {}])),
      sse(anthropic.calls(['toolu_2', 'echo', {}])),
      sse(anthropic.answer('done')),
    )
    await run({ tools: [{ name: 'other', run: () => '' }, echo] })
    expect(server.seen.map(marks)).toEqual([3, 3, 3])
    for (const body of bodies()) {
      expect(body.system).toEqual([{ type: 'text', text: 'You are a test.', ...five }])
      expect(body.tools.map((tool: object) => 'cache_control' in tool)).toEqual([false, true])
      expect(body.messages.at(-1).content.at(-1)).toMatchObject(five)
    }
  })

  test('can be off', async () => {
    await run({ tools: [echo], promptCache: { ttl: 'off' } })
    expect(marks(server.seen[0])).toBe(0)
    expect(server.seen[0]?.body.system).toBe('You are a test.')
  })

  test('prices tokens cached for an hour separately', async () => {
    const cost = { input: 1, output: 0, cacheRead: 0, cacheWrite: 10, cacheWrite1h: 100, tiers: [] }
    const withCacheUsage = (parts: object) =>
      anthropic
        .answer('ok', { input: 0, cacheWrite: 3_000_000, output: 0 })
        .replace('"cache_creation_input_tokens"', `"cache_creation":${JSON.stringify(parts)},$&`)
    const priced = async (parts: object, models = [{ ...testModel, cost }]) => {
      server.use(sse(withCacheUsage(parts)))
      return (await run({}, { models })).cost
    }
    const parts = { ephemeral_5m_input_tokens: 1_000_000, ephemeral_1h_input_tokens: 2_000_000 }
    expect(await priced(parts)).toBe(10 + 200)
    expect(await priced({})).toBe(30)
  })
})

describe('headers of a turn', () => {
  test('are sent with its requests, override those of the provider, and are sent with no other turn', async () => {
    const engine = engineAt(server.url, {}, { headers: { 'x-team': 'red', 'x-kept': 'yes' } })
    await engine.run(context({ headers: { 'X-Team': 'blue', 'anthropic-beta': 'a' } })).result
    await engine.run(context()).result
    await engine.close()
    const sent = server.seen.map(({ headers }) => [
      headers['x-team'],
      headers['x-kept'],
      headers['anthropic-beta'],
      headers['x-api-key'],
    ])
    expect(sent).toEqual([
      ['blue', 'yes', 'a', 'sk-test-canary-0123456789'],
      ['red', 'yes', undefined, 'sk-test-canary-0123456789'],
    ])
  })

  test('with keys never appear in an error', async () => {
    const secret = 'plain words as a secret'
    server.use(status(400, { error: { message: `who is ${secret}?` } }))
    const result = await run({ headers: { 'x-gateway-token': secret } })
    expect(result.error?.message).toContain('who is')
    expect(JSON.stringify(result)).not.toContain(secret)
  })
})

describe('onRequest', () => {
  test('sees the request, without a key, and sends what it returns byte for byte', async () => {
    const seen: OutgoingRequest[] = []
    await run({
      runId: 'r-1',
      sessionLabel: 'agent:main:secret-label',
      headers: { 'x-gateway-token': 'a-second-key-0123456789' },
      onRequest: (request) => {
        seen.push(request)
        return { ...request.body, top_k: 5, odd: ['\u2028', 1e21] }
      },
    })
    expect(seen).toEqual([
      {
        provider: 'test',
        model: 'test-model',
        api: 'anthropic-messages',
        url: `${server.url}/v1/messages`,
        body: expect.objectContaining({ model: 'test-model', stream: true }),
        purpose: 'run',
        attempt: 1,
        runId: 'r-1',
      },
    ])
    expect(JSON.stringify(seen)).not.toMatch(/canary|second-key/)
    const body = seen[0]?.body
    expect(server.seen[0]?.raw).toBe(JSON.stringify({ ...body, top_k: 5, odd: ['\u2028', 1e21] }))
    expect(server.seen[0]?.headers['content-length']).toBe(
      String(Buffer.byteLength(server.seen[0]?.raw ?? '')),
    )
  })

  test('does not see a key in the base URL', async () => {
    const urls: string[] = []
    const baseUrl = `${server.url}/?api_key=plain-words-of-a-key&tenant=7`
    await run({ onRequest: ({ url }) => void urls.push(url) }, {}, { baseUrl })
    expect(urls).toEqual([`${server.url}/v1/messages?api_key=[***]&tenant=[***]`])
    expect(server.seen[0]?.path).toBe('/v1/messages?api_key=plain-words-of-a-key&tenant=7')
  })

  test('that returns nothing changes nothing, and may be asynchronous', async () => {
    await run()
    await run({
      onRequest: async (request) => {
        await new Promise((resolve) => setImmediate(resolve))
        request.body.model = 'other'
      },
    })
    expect(server.seen[1]?.raw).toBe(server.seen[0]?.raw)
  })

  test('is called for every attempt, in order with the events, the context’s before the engine’s', async () => {
    const order: string[] = []
    server.use(
      status(529, { error: { type: 'overloaded_error', message: 'busy' } }, { 'retry-after': '0' }),
      sse(anthropic.calls(['toolu_1', 'echo', {}])),
      sse(anthropic.answer('done')),
    )
    const options = {
      onRequest: ({ attempt }: OutgoingRequest) => {
        order.push(`engine ${attempt}`)
      },
    }
    const tools = [{ name: 'echo', run: () => order.push('tool') }]
    const engine = engineAt(server.url, options)
    await engine.run(context({ tools })).result
    await engine.run(
      context({
        onRequest: ({ attempt }) => {
          order.push(`context ${attempt}`)
        },
      }),
    ).result
    await engine.close()
    expect(order).toEqual(['engine 1', 'engine 2', 'tool', 'engine 3', 'context 1'])
  })

  test('that throws, or returns no object, fails the run before anything is sent', async () => {
    const failing: ((request: OutgoingRequest) => any)[] = [
      () => {
        throw new Error('no such tenant')
      },
      async () => Promise.reject(new Error('no such tenant')),
      () => null,
      () => 'text',
      () => [1],
      () => ({ toJSON: () => 'text' }),
      () => {
        const circle: Record<string, unknown> = {}
        circle.self = circle
        return circle
      },
    ]
    const failed: AgentResult[] = []
    for (const onRequest of failing) failed.push(await run({}, { onRequest }))
    expect(server.seen).toEqual([])
    for (const { stopReason, error, attempts } of failed) {
      expect(stopReason).toBe('error')
      expect(error).toMatchObject({ retryable: false, detail: { code: 'on_request_failed' } })
      expect(attempts).toHaveLength(1)
    }
    expect(failed.slice(0, 4).map(({ error }) => error?.message)).toEqual([
      '`onRequest` failed, and the request was not sent: no such tenant',
      '`onRequest` failed, and the request was not sent: no such tenant',
      '`onRequest` failed, and the request was not sent: it returned null; return the body to send, or nothing',
      '`onRequest` failed, and the request was not sent: it returned a string; return the body to send, or nothing',
    ])
  })

  test('that never settles ends with the run’s time or its abort', async () => {
    const timed = await run({ timeoutMs: 50, onRequest: () => new Promise(() => {}) })
    expect(timed.stopReason).toBe('timeout')
    const engine = engineAt(server.url)
    const aborted = engine.run(
      context({
        onRequest: () => {
          aborted.abort()
          return new Promise(() => {})
        },
      }),
    )
    const events = await readAll(aborted)
    expect(events.at(-1)).toMatchObject({ type: 'stream_end', final: true })
    expect((await aborted.result).stopReason).toBe('aborted')
    await engine.close()
    expect(server.seen).toEqual([])
  })

  test('that is no function is refused with the options', () => {
    expect(() => engineAt(server.url, { onRequest: 1 as never })).toThrow(
      expect.objectContaining({ code: 'invalid_options', field: 'onRequest' }),
    )
  })
})
