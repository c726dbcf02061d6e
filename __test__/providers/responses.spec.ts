// OpenAI Responses end to end: the requests, the answers, and what is sent back in the next call. It asserts on the raw requests
// of a loopback server and must never read internal state of the engine.

import { describe, expect, test } from 'vitest'
import type { AgentEngineOptions, AssembledContext } from '../../index.js'
import { describedTool, echoTool } from '../support/described-tools.js'
import { context, engineAt, tempDir, testModel } from '../support/engine.js'
import { responses } from '../support/servers/responses.js'
import { type Seen, sse } from '../support/servers/server.js'
import { serverPerTest } from '../support/servers/server-per-test.js'
import { singleRun } from '../support/single-run.js'
import { image, pictureTool, pointSchema, wholeContext } from '../support/values/whole-context.js'

const server = serverPerTest(() => sse(responses.answer('ok')))

const thinker = { ...testModel, id: 'thinker', reasoning: true, temperature: false }

const engineFor = (options: AgentEngineOptions = {}) =>
  engineAt(
    `${server.url}/v1`,
    { models: [testModel, thinker], ...options },
    { api: 'openai-responses', promptCacheKey: true },
  )

/** One run against the server with an engine of its own. */
const runOnce = (changes: Partial<AssembledContext> = {}, options: AgentEngineOptions = {}) =>
  singleRun(engineFor(options), changes)

/** The body up to the end of its input: model, instructions, tools and the items so far. */
const prefix = (seen: Seen) => seen.raw.slice(0, seen.raw.lastIndexOf('],"stream"'))

const inputMessage = (role: string, text: string) => ({
  type: 'message',
  role,
  content: [{ type: 'input_text', text }],
})

describe('the request', () => {
  test('has the whole context in the API’s form, and nothing else', async () => {
    const schema = pointSchema
    const search = { type: 'web_search', search_context_size: 'low' }
    await runOnce({
      ...wholeContext(),

      toolChoice: 'required',
      parallelToolCalls: false,
      responseFormat: { type: 'json_schema', schema },
      outputRetries: 0,
      stopSequences: ['END'],
      promptCache: { key: 'k1' },
      requestMetadata: { team: 'blue' },
      providerTools: [search],
    })
    expect(server.seen.map(({ method, path }) => `${method} ${path}`)).toEqual([
      'POST /v1/responses',
    ])
    expect(server.seen[0]?.headers.authorization).toBe('Bearer sk-test-canary-0123456789')
    expect(server.seen[0]?.body).toEqual({
      model: 'test-model',
      instructions: 'Be "brief".',
      tools: [
        {
          type: 'function',
          name: 'plot',
          description: 'Plots.',
          parameters: schema,
          strict: false,
        },
        search,
      ],
      input: [
        inputMessage('user', 'earlier'),
        { type: 'message', role: 'assistant', content: 'answer' },
        inputMessage('user', 'now'),
      ],
      stream: true,
      store: false,
      max_output_tokens: 1_000,
      temperature: 0.25,
      tool_choice: 'required',
      parallel_tool_calls: false,
      text: { format: { type: 'json_schema', name: 'answer', schema, strict: true } },
      prompt_cache_key: 'k1',
      metadata: { team: 'blue' },
    })
  })

  test('requests encrypted reasoning of a reasoning model, and has no temperature', async () => {
    await runOnce({ model: 'thinker', temperature: 0.5, thinkingConfig: { effort: 'low' } })
    await runOnce({ thinkingConfig: { effort: 'low' } })
    const sent = server.seen.map(({ body }) => [body.include, body.reasoning, body.temperature])
    expect(sent).toEqual([
      [['reasoning.encrypted_content'], { effort: 'low', summary: 'auto' }, undefined],
      [undefined, undefined, undefined],
    ])
  })

  test('has images as data URLs, also those of a tool', async () => {
    server.use(
      sse(responses.of(responses.call('fc_1', 'call_1', 'picture', {}))),
      sse(responses.answer('seen')),
    )
    await runOnce({
      currentMessage: { role: 'user', content: [{ type: 'text', text: 'what?' }, image] },
      tools: [pictureTool],
    })
    const sent = { type: 'input_image', detail: 'auto', image_url: 'data:image/png;base64,aGk=' }
    expect(server.seen[1]?.body.input).toEqual([
      {
        type: 'message',
        role: 'user',
        content: [{ type: 'input_text', text: 'what?' }, sent],
      },
      { type: 'function_call', call_id: 'call_1', name: 'picture', arguments: '{}' },
      {
        type: 'function_call_output',
        call_id: 'call_1',
        output: [{ type: 'input_text', text: 'here' }, sent],
      },
    ])
  })
})

describe('the answer', () => {
  test('streams each delta as one event, a summary’s parts as paragraphs', async () => {
    const reasoning = responses.reasoning('rs_1', 'enc', '**One**', '**Two**')
    const message = responses.message('msg_1', 'Hello')
    server.use(
      sse(
        responses.created(),
        responses.added(0, { type: 'reasoning', id: 'rs_1', summary: [] }),
        responses.summary(0, 'rs_1', 0, '**One**'),
        responses.summary(0, 'rs_1', 1, '**Two**'),
        responses.done(0, reasoning),
        responses.added(1, { ...message, content: [] }),
        responses.text(1, 'msg_1', 'Hel', 'lo'),
        responses.done(1, message),
        responses.completed([reasoning, message], responses.usage(100, 40, 60, 25)),
      ),
    )
    const { events, result } = await runOnce({ model: 'thinker' })
    expect(
      events.map((event) => ('text' in event ? `${event.type} ${event.text}` : event.type)),
    ).toEqual([
      'stream_start',
      'reasoning **One**',
      'reasoning \n\n',
      'reasoning **Two**',
      'token Hel',
      'token lo',
      'usage',
      'stream_end',
    ])
    expect(result).toMatchObject({
      stopReason: 'end_turn',
      usage: {
        inputTokens: 40,
        cachedInputTokens: 60,
        outputTokens: 40,
        reasoningTokens: 25,
        totalTokens: 140,
      },
    })
    expect(result.messages.at(-1)).toMatchObject({
      content: 'Hello',
      thinking: '**One**\n\n**Two**',
      providerStopReason: 'completed',
      provenance: { api: 'openai-responses', responseId: 'resp_1' },
    })
  })

  test('may be one JSON response although a stream was requested', async () => {
    server.use((response) => {
      response.writeHead(200, { 'content-type': 'application/json' }).end(
        JSON.stringify({
          id: 'resp_w',
          object: 'response',
          status: 'completed',
          model: 'gpt-test',
          output: [responses.message('msg_1', 'whole')],
          usage: responses.usage(3, 2),
        }),
      )
    })
    const { result } = await runOnce()
    expect(result).toMatchObject({ stopReason: 'end_turn', usage: { totalTokens: 5 } })
    expect(result.messages.at(-1)?.content).toBe('whole')
  })

  test('that is incomplete at the cap never runs the call at the cut', async () => {
    const ran: unknown[] = []
    const call = responses.call('fc_1', 'call_1', 'echo', '{"path":"/ho', { status: 'incomplete' })
    server.use(
      sse(
        responses.created(),
        responses.added(0, { ...call, arguments: '' }),
        responses.args(0, 'fc_1', '{"path":"/ho'),
        responses.done(0, call),
        responses.incomplete('max_output_tokens'),
      ),
    )
    const { result } = await runOnce({
      tools: [describedTool('echo', (params) => ran.push(params))],
    })
    expect(ran).toEqual([])
    expect(result).toMatchObject({
      stopReason: 'max_tokens',
      usage: { totalTokens: 15 },
      toolCalls: [{ id: 'call_1', status: 'failed', error: 'max_tokens' }],
    })
  })

  test.each([
    [
      'is stopped by a filter',
      [responses.incomplete('content_filter')],
      { kind: 'model_error', retryable: false, detail: { kind: 'refusal' } },
    ],
    [
      'fails',
      [responses.failed({ code: 'server_error', message: 'Sorry.' })],
      { kind: 'model_error', retryable: true, detail: { kind: 'server_error' } },
    ],
    [
      'fails over its size',
      [responses.failed({ code: 'context_length_exceeded', message: 'Too long.' })],
      { kind: 'context_overflow', detail: { code: 'context_length_exceeded' } },
    ],
    [
      'tells of an error midway',
      [
        responses.event('error', {
          code: 'rate_limit_exceeded',
          message: 'Please try again in 11.054s.',
          param: null,
        }),
      ],
      { kind: 'rate_limit', detail: { kind: 'rate_limit', retryAfterMs: 11_054 } },
    ],
    [
      'is cut off',
      [],
      { kind: 'model_error', retryable: true, detail: { code: 'stream_truncated' } },
    ],
  ])('that %s is an error whose text is in the result', async (_, end, error) => {
    const message = responses.message('msg_1', '')
    server.use(
      sse(
        responses.created(),
        responses.added(0, { ...message, content: [] }),
        responses.text(0, 'msg_1', 'par'),
        ...end,
      ),
    )
    const { result } = await runOnce()
    expect(result).toMatchObject({ stopReason: 'error', error })
    expect(result.messages.at(-1)?.content).toBe('par')
    expect(server.seen).toHaveLength(1)
  })
})

describe('the next call', () => {
  const reasoning = responses.reasoning('rs_1', 'enc+/=='.repeat(40), '**Plan**')
  const commentary = responses.message('msg_1', 'I look.', { phase: 'commentary' })
  const { id: _, ...sentReasoning } = reasoning
  const sentCommentary = {
    ...commentary,
    content: [{ type: 'output_text', text: 'I look.', annotations: [] }],
  }

  test('gets encrypted reasoning back, phases, and one result per call in call order', async () => {
    const calls = [
      responses.call('fc_1', 'call_a', 'echo', { n: 1 }, { namespace: 'files' }),
      responses.call('fc_2', 'call_b', 'gone', {}),
    ]
    server.use(sse(responses.of(reasoning, commentary, ...calls)), sse(responses.answer('done')))
    const { result } = await runOnce({ model: 'thinker', tools: [echoTool] })
    expect(result.toolCalls).toMatchObject([{ id: 'call_a' }, { id: 'call_b' }])
    expect(server.seen[1]?.body.input.slice(1)).toEqual([
      sentReasoning,
      sentCommentary,
      {
        type: 'function_call',
        call_id: 'call_a',
        name: 'echo',
        arguments: '{"n":1}',
        namespace: 'files',
      },
      { type: 'function_call', call_id: 'call_b', name: 'gone', arguments: '{}' },
      { type: 'function_call_output', call_id: 'call_a', output: 'echo {"n":1}' },
      {
        type: 'function_call_output',
        call_id: 'call_b',
        output: expect.stringContaining('gone'),
      },
    ])
  })

  test('gets provider-run items back byte for byte, also from the ledger', async () => {
    const dir = tempDir()
    const search = {
      type: 'web_search_call',
      id: 'ws_1',
      status: 'completed',
      action: { type: 'search', query: '“x”', ratio: 1.5 },
    }
    const compaction = { type: 'compaction', id: 'cmp_1', encrypted_content: 'c+/=' }
    server.use(
      sse(responses.of(reasoning, search, compaction, commentary)),
      sse(responses.answer('one')),
    )
    const turn = async () => {
      const engine = engineFor({ ledger: { path: dir.file } })
      await engine.run(context({ model: 'thinker' })).result
      await engine.close()
    }
    await turn()
    await turn()
    dir.remove()
    const [first, second] = server.seen
    expect(second?.body.input).toEqual([
      ...first?.body.input,
      sentReasoning,
      search,
      compaction,
      sentCommentary,
      inputMessage('user', 'hi'),
    ])
    for (const item of [search, compaction]) expect(second?.raw).toContain(JSON.stringify(item))
  })

  test('has neither reasoning nor ids for another model', async () => {
    const dir = tempDir()
    server.use(sse(responses.of(reasoning, commentary)), sse(responses.answer('one')))
    for (const model of ['thinker', 'test-model']) {
      const engine = engineFor({ ledger: { path: dir.file } })
      await engine.run(context({ model })).result
      await engine.close()
    }
    dir.remove()
    expect(server.seen[1]?.body.input).toEqual([
      inputMessage('user', 'hi'),
      { type: 'message', role: 'assistant', content: 'I look.' },
      inputMessage('user', 'hi'),
    ])
  })

  test('begins with the bytes of the previous one, over a tool loop', async () => {
    const calls = [0, 1, 2].map((n) =>
      sse(
        responses.of(
          reasoning,
          responses.call(`fc_${n}`, `call_${n}`, 'echo', { n }),
          responses.call('fc_x', 'call_0', 'echo', { text: '"\n' }),
        ),
      ),
    )
    server.use(...calls, sse(responses.answer('done')))
    await runOnce({ model: 'thinker', tools: [echoTool, describedTool('other', () => 1)] })
    expect(server.seen).toHaveLength(4)
    for (const [n, seen] of server.seen.entries()) {
      const next = server.seen[n + 1]
      if (next !== undefined) expect(next.raw.startsWith(prefix(seen)), `call ${n + 2}`).toBe(true)
    }
  })
})
