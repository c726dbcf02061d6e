// Google's API end to end: the requests, the answers, and what is sent back in the next call. It asserts on the raw requests of
// a loopback server and must never read internal state of the engine.

import { describe, expect, test } from 'vitest'
import type { AgentEngineOptions, AssembledContext } from '../../index.js'
import { describedTool, echoTool } from '../support/described-tools.js'
import { context, engineAt, tempDir, testModel, textOf } from '../support/engine.js'
import { google } from '../support/servers/google.js'
import { type Seen, sse, status } from '../support/servers/server.js'
import { serverPerTest } from '../support/servers/server-per-test.js'
import { singleRun } from '../support/single-run.js'
import {
  illustrated,
  pictureTool,
  pointSchema,
  wholeContext,
} from '../support/values/whole-context.js'

const server = serverPerTest(() => sse(google.answer('ok')))

const engineFor = (options: AgentEngineOptions = {}, provider: Record<string, unknown> = {}) =>
  engineAt(server.url, options, { api: 'google-generative-ai', ...provider })

/** One run against the server with an engine of its own. */
const runOnce = (
  changes: Partial<AssembledContext> = {},
  options: AgentEngineOptions = {},
  provider: Record<string, unknown> = {},
) => singleRun(engineFor(options, provider), changes)

/** The body up to the end of its contents: system prompt, tools and the messages so far. */
const prefix = (seen?: Seen) => seen?.raw.slice(0, seen.raw.lastIndexOf('],"generationConfig"'))

describe('the request', () => {
  test('has the whole context in the API’s form, and nothing else', async () => {
    const schema = pointSchema
    const answer = { type: 'object', properties: { ok: { type: 'boolean' } } }
    await runOnce(
      {
        model: 'gemini-2.5-flash',
        ...wholeContext(),
        currentMessage: illustrated,
        toolChoice: { name: 'plot' },
        providerTools: [{ googleSearch: {} }],
        responseFormat: { type: 'json_schema', schema: answer },
        outputRetries: 0,
        stopSequences: ['END'],
        requestMetadata: { user_id: 'u-1' },
        maxResponseTokens: 4_000,
        thinkingConfig: { effort: 'low' },
      },
      { models: [{ ...testModel, id: 'gemini-2.5-flash', reasoning: true }] },
    )
    expect(server.seen.map(({ method, path }) => `${method} ${path}`)).toEqual([
      'POST /v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse',
    ])
    expect(server.seen[0]?.body).toEqual({
      systemInstruction: { parts: [{ text: 'Be "brief".' }] },
      tools: [
        {
          functionDeclarations: [
            { name: 'plot', description: 'Plots.', parametersJsonSchema: schema },
          ],
        },
        { googleSearch: {} },
      ],
      contents: [
        { role: 'user', parts: [{ text: 'earlier' }] },
        { role: 'model', parts: [{ text: 'answer' }] },
        {
          role: 'user',
          parts: [{ text: 'now' }, { inlineData: { mimeType: 'image/png', data: 'aGk=' } }],
        },
      ],
      toolConfig: {
        functionCallingConfig: { mode: 'ANY', allowedFunctionNames: ['plot'] },
        includeServerSideToolInvocations: true,
      },
      generationConfig: {
        maxOutputTokens: 4_000,
        temperature: 0.25,
        stopSequences: ['END'],
        thinkingConfig: { includeThoughts: true, thinkingBudget: 2_048 },
        responseMimeType: 'application/json',
        responseJsonSchema: answer,
      },
    })
  })

  test('has the key in its header and never in its path', async () => {
    await runOnce()
    const [seen] = server.seen
    expect(seen?.headers).toMatchObject({
      'x-goog-api-key': 'sk-test-canary-0123456789',
      'accept-encoding': 'identity',
    })
    expect(seen?.headers.authorization).toBeUndefined()
    expect(seen?.path).not.toContain('canary')
  })

  test('is sent to Vertex below the project of the base URL, with a bearer token and labels', async () => {
    const project = '/v1/projects/p/locations/europe-west4'
    await runOnce(
      { requestMetadata: { user_id: 'u-1' } },
      {
        authProfiles: [{ id: 'v', provider: 'test', type: 'token', key: 'ya29.test-canary-0123' }],
      },
      { baseUrl: `${server.url}${project}` },
    )
    const [seen] = server.seen
    expect(seen?.path).toBe(
      `${project}/publishers/google/models/test-model:streamGenerateContent?alt=sse`,
    )
    expect(seen?.headers.authorization).toBe('Bearer ya29.test-canary-0123')
    expect(seen?.headers['x-goog-api-key']).toBeUndefined()
    expect(seen?.body.labels).toEqual({ user_id: 'u-1' })
  })

  test('has a level for a model with levels', async () => {
    const models = [{ ...testModel, id: 'gemini-3-flash-preview', reasoning: true }]
    const thinkingConfig = { effort: 'max' as const }
    await runOnce({ model: 'gemini-3-flash-preview', thinkingConfig }, { models })
    expect(server.seen[0]?.body.generationConfig.thinkingConfig).toEqual({
      includeThoughts: true,
      thinkingLevel: 'HIGH',
    })
  })
})

describe('the answer', () => {
  test('streams each text and thought as one event', async () => {
    server.use(
      sse(
        google.thought('hm'),
        google.text('Hel', 'lo'),
        google.finish('STOP', 100, 4, {
          cachedContentTokenCount: 60,
          thoughtsTokenCount: 6,
          toolUsePromptTokenCount: 5,
          totalTokenCount: 115,
        }),
      ),
    )
    const { events, result } = await runOnce()
    expect(
      events.map((event) => ('text' in event ? `${event.type} ${event.text}` : event.type)),
    ).toEqual(['stream_start', 'reasoning hm', 'token Hel', 'token lo', 'usage', 'stream_end'])
    expect(result.messages.at(-1)).toMatchObject({
      content: 'Hello',
      thinking: 'hm',
      providerStopReason: 'STOP',
      provenance: { api: 'google-generative-ai', responseId: 'resp-1' },
    })
    expect(result.usage).toEqual({
      inputTokens: 45,
      cachedInputTokens: 60,
      cacheWriteTokens: 0,
      outputTokens: 10,
      reasoningTokens: 6,
      totalTokens: 115,
    })
  })

  const part = (text: string) => ({ content: { role: 'model', parts: [{ text }] } })
  const first = { candidates: [part('who')] }
  const last = (text: string) => ({
    candidates: [{ ...part(text), finishReason: 'STOP' }],
    usageMetadata: { promptTokenCount: 3, candidatesTokenCount: 2, totalTokenCount: 5 },
  })

  test.each([
    ['one response', last('whole')],
    ['a list of chunks', [first, last('le')]],
  ])('may be JSON, %s, although a stream was requested', async (_, body) => {
    server.use((response) => {
      const headers = { 'content-type': 'application/json; charset=UTF-8' }
      response.writeHead(200, headers).end(JSON.stringify(body))
    })
    const { events, result } = await runOnce()
    expect([textOf(events), result.stopReason, result.usage.totalTokens]).toEqual([
      'whole',
      'end_turn',
      5,
    ])
  })

  test('cut at `MAX_TOKENS` runs no call', async () => {
    const ran: unknown[] = []
    server.use(sse(google.parts(google.call('echo', {})), google.finish('MAX_TOKENS')))
    const { result } = await runOnce({
      tools: [describedTool('echo', (params) => ran.push(params))],
    })
    expect(ran).toEqual([])
    expect(result).toMatchObject({
      stopReason: 'max_tokens',
      toolCalls: [{ status: 'failed', error: 'max_tokens' }],
    })
  })

  test.each([
    ['a blocked prompt', google.blocked('SAFETY'), '', 'prompt_blocked:SAFETY'],
    ['a stop for safety', google.text('Well,') + google.finish('SAFETY'), 'Well,', 'SAFETY'],
  ])(
    'that ends with %s is a refusal that is not requested again',
    async (_, stream, text, code) => {
      server.use(sse(stream))
      const { events, result } = await runOnce()
      expect(result).toMatchObject({
        stopReason: 'error',
        error: { kind: 'model_error', retryable: false, detail: { kind: 'refusal', code } },
      })
      expect(result.error?.message).toContain('content filter')
      expect(textOf(events)).toBe(text)
      expect(server.seen).toHaveLength(1)
    },
  )

  test.each([
    ['a malformed call', google.finish('MALFORMED_FUNCTION_CALL')],
    [
      'an unexpected call',
      google.parts(google.call('no', {})) + google.finish('UNEXPECTED_TOOL_CALL'),
    ],
    ['nothing', google.text('') + google.finish('STOP')],
  ])('that is %s is requested again, before anything is emitted', async (_, stream) => {
    server.use(sse(stream), sse(google.answer('better')))
    const { events, result } = await runOnce({ tools: [echoTool] })
    const types = ['stream_start', 'usage', 'retry', 'waiting', 'token', 'usage', 'stream_end']
    expect(events.map(({ type }) => type)).toEqual(types)
    expect(result).toMatchObject({ stopReason: 'end_turn', toolCalls: [] })
    expect(result.messages.map(({ content }) => content)).toEqual(['hi', 'better'])
    expect(server.seen[1]?.raw).toBe(server.seen[0]?.raw)
    expect(result.usage.totalTokens).toBe(30)
  })

  test('that is a malformed call twice is an error', async () => {
    server.use(sse(google.finish('MALFORMED_FUNCTION_CALL')))
    const { result } = await runOnce({ tools: [echoTool] })
    expect(result.error).toMatchObject({
      kind: 'model_error',
      retryable: true,
      detail: { code: 'MALFORMED_FUNCTION_CALL' },
    })
    expect(server.seen).toHaveLength(2)
  })

  test('with an error in its middle is an error, with its text in the result', async () => {
    const error = google.error(503, 'UNAVAILABLE', 'The model is overloaded.')
    server.use(sse(google.text('par'), `data: ${JSON.stringify(error)}\n\n`))
    const { events, result } = await runOnce()
    expect(result).toMatchObject({
      stopReason: 'error',
      error: { retryable: true, detail: { kind: 'overloaded', code: 'UNAVAILABLE' } },
    })
    expect(events.at(-1)).toMatchObject({ type: 'stream_error', partial: true })
    expect(result.messages.at(-1)?.content).toBe('par')
  })

  test('without a finish reason is no success, and its calls never run', async () => {
    const ran: unknown[] = []
    server.use(sse(google.text('Let me'), google.parts(google.call('echo', { path: '/' }))))
    const { result } = await runOnce({
      tools: [describedTool('echo', (params) => ran.push(params))],
    })
    expect(ran).toEqual([])
    expect(result.error?.detail).toMatchObject({ kind: 'network', code: 'stream_truncated' })
  })
})

describe('an error', () => {
  const quota = (quotaId: string, retryDelay: string) =>
    google.error(429, 'RESOURCE_EXHAUSTED', 'You exceeded your current quota.', [
      { '@type': 'type.googleapis.com/google.rpc.QuotaFailure', violations: [{ quotaId }] },
      { '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay },
    ])

  test('of a minute’s quota is waited for as long as it states', async () => {
    const body = quota('GenerateRequestsPerMinutePerProjectPerModel', '0.05s')
    server.use(status(429, body), sse(google.answer('later')))
    const { result } = await runOnce()
    expect(result.messages.at(-1)?.content).toBe('later')
    expect(server.seen).toHaveLength(2)
  })

  test('of a day’s quota causes no wait, and may be in a list', async () => {
    const body = quota('GenerateRequestsPerDayPerProjectPerModel-FreeTier', '0.05s')
    server.use(status(429, [body]), sse(google.answer('never')))
    const { result } = await runOnce()
    expect(result.error).toMatchObject({
      kind: 'rate_limit',
      retryable: false,
      detail: { kind: 'rate_limit', status: 429, code: 'RESOURCE_EXHAUSTED' },
    })
    expect(server.seen).toHaveLength(1)
  })

  test.each([
    [400, 'INVALID_ARGUMENT', 'API key not valid. Please pass a valid API key.', 'auth'],
    [
      400,
      'INVALID_ARGUMENT',
      'The input token count (1250074) exceeds the maximum number of tokens allowed (1048576).',
      'context_overflow',
    ],
    [404, 'NOT_FOUND', 'models/x is not found for API version v1beta', 'model_not_found'],
  ])('%i %s is classified by its text', async (code, word, message, kind) => {
    server.use(status(code, google.error(code, word, message)))
    const { result } = await runOnce()
    expect(result.error?.detail).toMatchObject({ kind, status: code })
  })
})

describe('the next call', () => {
  test('has every part unchanged, each signature on its own part, and all results in one turn', async () => {
    const code = { executableCode: { language: 'PYTHON', code: '1' }, thoughtSignature: 'c2ln' }
    server.use(
      sse(
        google.thought('hm'),
        google.text('Let ', 'me'),
        google.parts(code, { codeExecutionResult: { outcome: 'OUTCOME_OK', output: '1' } }),
        google.parts(google.call('echo', { n: 1 }, { thoughtSignature: 'Zmlyc3Q=' })),
        google.parts(google.call('gone', {}), google.call('echo', { n: 3 })),
        google.parts({ text: '', thoughtSignature: 'bGFzdA==' }) + google.finish('STOP'),
      ),
      sse(google.answer('done')),
    )
    const { result } = await runOnce({ tools: [echoTool] })
    expect(result.toolCalls.map(({ status: ended }) => ended)).toEqual([
      'completed',
      'failed',
      'completed',
    ])
    const ids = result.toolCalls.map(({ id }) => id)
    expect(new Set(ids).size).toBe(3)
    const call = (index: number, name: string, args: object) => ({
      functionCall: { id: ids[index], name, args },
    })
    const answer = (index: number, name: string, response: object) => ({
      functionResponse: { id: ids[index], name, response },
    })
    const contents = server.seen[1]?.body.contents
    expect(contents.slice(1)).toEqual([
      {
        role: 'model',
        parts: [
          { text: 'Let me' },
          code,
          { codeExecutionResult: { outcome: 'OUTCOME_OK', output: '1' } },
          { ...call(0, 'echo', { n: 1 }), thoughtSignature: 'Zmlyc3Q=' },
          call(1, 'gone', {}),
          call(2, 'echo', { n: 3 }),
          { text: '', thoughtSignature: 'bGFzdA==' },
        ],
      },
      {
        role: 'user',
        parts: [
          answer(0, 'echo', { output: 'echo {"n":1}' }),
          answer(1, 'gone', { error: expect.any(String) }),
          answer(2, 'echo', { output: 'echo {"n":3}' }),
        ],
      },
    ])
  })

  test('has the images of a tool beside its result', async () => {
    server.use(
      sse(
        google.parts({ functionCall: { id: 'fc1', name: 'picture', args: {} } }),
        google.finish('STOP'),
      ),
      sse(google.answer('seen')),
    )
    await runOnce({ tools: [pictureTool] })
    expect(server.seen[1]?.body.contents.at(-1)).toEqual({
      role: 'user',
      parts: [
        { functionResponse: { id: 'fc1', name: 'picture', response: { output: 'here' } } },
        { text: 'Image from tool `picture` (call `fc1`):' },
        { inlineData: { mimeType: 'image/png', data: 'aGk=' } },
      ],
    })
  })

  test('begins with the bytes of the previous call, within a turn and across turns', async () => {
    const ledger = tempDir()
    const engine = engineFor({ ledger: { path: ledger.file } })
    server.use(
      sse(google.thought('hm'), google.calls(['echo', { n: 1 }])),
      sse(google.calls(['echo', { n: 2 }], ['echo', { n: 3 }])),
      sse(google.answer('done')),
      sse(google.answer('again')),
    )
    for (const content of ['one', 'two']) {
      await engine.run(context({ tools: [echoTool], currentMessage: { role: 'user', content } }))
        .result
    }
    await engine.close()
    ledger.remove()
    expect(server.seen).toHaveLength(4)
    for (const [at, seen] of server.seen.entries()) {
      if (at > 0) expect(seen.raw.startsWith(prefix(server.seen[at - 1]) ?? '?')).toBe(true)
    }
  })
})
