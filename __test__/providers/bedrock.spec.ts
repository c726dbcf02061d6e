// Bedrock Converse end to end: the signed requests, the binary stream, and what is sent back in the next call. It asserts on the
// raw requests of a loopback server and must never read internal state of the engine.

import { describe, expect, test } from 'vitest'
import { AgentEngine, type AgentEngineOptions, type AssembledContext } from '../../index.js'
import { describedTool } from '../support/described-tools.js'
import { engineAt, textOf } from '../support/engine.js'
import { bedrock, eventStream, expectedSignature } from '../support/servers/bedrock.js'
import { status } from '../support/servers/server.js'
import { serverPerTest } from '../support/servers/server-per-test.js'
import { singleRun } from '../support/single-run.js'
import { illustrated, pointSchema, wholeContext } from '../support/values/whole-context.js'

const server = serverPerTest(() => eventStream(bedrock.answer('ok')))

const claude = 'us.anthropic.claude-sonnet-4-5-20250929-v1:0'
const path = '/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse-stream'
const models = [{ provider: 'test', id: claude, contextWindow: 200_000, maxOutputTokens: 8_192 }]
const secretAccessKey = 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY'
const sessionToken = 'session-token-canary-0123456789/+='

/** One run against the server with an engine of its own. */
const runOnce = (
  changes: Partial<AssembledContext> = {},
  options: AgentEngineOptions = {},
  provider: Record<string, unknown> = {},
) =>
  singleRun(
    engineAt(
      server.url,
      { models, ...options },
      { api: 'bedrock-converse', region: 'us-east-1', ...provider },
    ),
    { model: claude, ...changes },
  )

const point = { cachePoint: { type: 'default' } }

describe('the request', () => {
  test('has the whole context in the API’s form, and nothing else', async () => {
    const schema = pointSchema
    await runOnce({
      ...wholeContext(),
      currentMessage: illustrated,
      maxResponseTokens: 4_000,
      thinkingConfig: { type: 'enabled', budgetTokens: 2_048 },
    })
    expect(server.seen.map((seen) => `${seen.method} ${seen.path}`)).toEqual([`POST ${path}`])
    expect(server.seen[0]?.body).toEqual({
      system: [{ text: 'Be "brief".' }, point],
      toolConfig: {
        tools: [
          { toolSpec: { name: 'plot', description: 'Plots.', inputSchema: { json: schema } } },
          point,
        ],
      },
      messages: [
        { role: 'user', content: [{ text: 'earlier' }] },
        { role: 'assistant', content: [{ text: 'answer' }] },
        {
          role: 'user',
          content: [
            { text: 'now' },
            { image: { format: 'png', source: { bytes: 'aGk=' } } },
            point,
          ],
        },
      ],
      inferenceConfig: { maxTokens: 4_000 },
      additionalModelRequestFields: { thinking: { type: 'enabled', budget_tokens: 2_048 } },
    })
  })

  test('is signed with an access key, over the bytes that are sent', async () => {
    const key = { accessKeyId: 'AKIDEXAMPLE', secretAccessKey }
    for (const given of [key, { ...key, sessionToken }]) {
      const profile = { id: 'p1', provider: 'test', type: 'aws' as const, key: given }
      const history = Array.from({ length: 40 }, (_, index) => [
        { role: 'user' as const, content: `Frage ${index} – “ü” 🦀` },
        { role: 'assistant' as const, content: 'x'.repeat(500) },
      ]).flat()
      await runOnce({ history }, { authProfiles: [profile] })
    }
    for (const seen of server.seen) {
      expect(seen.headers.authorization).toBe(
        expectedSignature(seen, 'AKIDEXAMPLE', secretAccessKey, 'us-east-1'),
      )
      expect(seen.raw).not.toContain(secretAccessKey)
      expect(JSON.stringify(seen.headers)).not.toContain(secretAccessKey)
      const sent = String(seen.headers['x-amz-date'])
      expect(sent).toMatch(/^\d{8}T\d{6}Z$/)
      const at = Date.parse(sent.replace(/(....)(..)(..)T(..)(..)(..)Z/, '$1-$2-$3T$4:$5:$6Z'))
      expect(Math.abs(Date.now() - at)).toBeLessThan(120_000)
    }
    expect(server.seen.map(({ headers }) => headers['x-amz-security-token'])).toEqual([
      undefined,
      sessionToken,
    ])
  })

  test('has a Bedrock API key as a bearer, and requests frames', async () => {
    await runOnce()
    expect(server.seen[0]?.headers).toMatchObject({
      authorization: 'Bearer sk-test-canary-0123456789',
      accept: 'application/vnd.amazon.eventstream, application/json',
      'content-type': 'application/json',
    })
    expect(server.seen[0]?.headers['x-amz-date']).toBeUndefined()
  })

  test('a profile without a region or for another API is refused by its path', () => {
    const profile = { id: 'p', provider: 'test', type: 'aws' as const }
    const key = { accessKeyId: 'a', secretAccessKey }
    const engine = (provider: object, more: object) => () =>
      new AgentEngine({
        providers: { test: { baseUrl: 'https://h', ...provider } },
        authProfiles: [{ ...profile, ...more }],
      } as AgentEngineOptions)
    expect(engine({ api: 'openai-chat' }, { key })).toThrow('authProfiles[0].type')
    expect(engine({ api: 'bedrock-converse', region: 'us-east-1' }, { key: 'text' })).toThrow(
      'authProfiles[0].key',
    )
    expect(engine({ api: 'bedrock-converse', region: 'nowhere' }, { key })).toThrow(
      'providers.test.region',
    )
  })
})

describe('the answer', () => {
  test('streams each delta as one event, and its reasoning is sent back with its signature', async () => {
    server.use(
      eventStream(
        bedrock.start(),
        bedrock.reasoning(0, 'hm', 'c2lnbmF0dXJl'),
        bedrock.delta(1, { reasoningContent: { redactedContent: 'RW5jcnlwdGVk' } }),
        bedrock.close(1),
        bedrock.text(2, 'Hel', 'lo'),
        bedrock.toolUse(3, 'tooluse_a', 'echo', '{"n"', ':1}'),
        bedrock.toolUse(4, 'tooluse_b', 'fail'),
        bedrock.stop('tool_use'),
        bedrock.usage(5, 7, { cacheReadInputTokens: 10, cacheWriteInputTokens: 1 }),
      ),
      eventStream(bedrock.answer('done')),
    )
    const fail = describedTool('fail', () => {
      throw new Error('no luck')
    })
    const { events, result } = await runOnce({
      tools: [describedTool('echo', (params) => `echo ${params.n}`), fail],
    })
    const deltas = events.filter(({ type }) => type === 'reasoning' || type === 'token')
    expect(deltas.map((event) => ('text' in event ? event.text : ''))).toEqual([
      'hm',
      'Hel',
      'lo',
      'done',
    ])
    expect(result.toolCalls.map(({ id, status: how }) => `${id} ${how}`)).toEqual([
      'tooluse_a completed',
      'tooluse_b failed',
    ])
    expect(result.usage).toMatchObject({
      inputTokens: 17,
      outputTokens: 10,
      cachedInputTokens: 10,
      cacheWriteTokens: 1,
    })
    expect(server.seen[1]?.body.messages.slice(1)).toEqual([
      {
        role: 'assistant',
        content: [
          { reasoningContent: { reasoningText: { text: 'hm', signature: 'c2lnbmF0dXJl' } } },
          { reasoningContent: { redactedContent: 'RW5jcnlwdGVk' } },
          { text: 'Hello' },
          { toolUse: { toolUseId: 'tooluse_a', name: 'echo', input: { n: 1 } } },
          { toolUse: { toolUseId: 'tooluse_b', name: 'fail', input: {} } },
        ],
      },
      {
        role: 'user',
        content: [
          { toolResult: { toolUseId: 'tooluse_a', content: [{ text: 'echo 1' }] } },
          {
            toolResult: {
              toolUseId: 'tooluse_b',
              status: 'error',
              content: [{ text: expect.stringContaining('no luck') }],
            },
          },
          point,
        ],
      },
    ])
    // Except for the cache point, which moves, the second request begins with the bytes of the first.
    const prefix = (raw = '') =>
      raw.slice(0, raw.lastIndexOf('],"role":"user"}],"inferenceConfig"'))
    const first = prefix(server.seen[0]?.raw).replace(/,\{"cachePoint":\{"type":"default"\}\}$/, '')
    expect(first).toContain('"messages":[')
    expect(server.seen[1]?.raw.startsWith(first)).toBe(true)
  })

  test.each([1, 7, 1_000])('in pieces of %i bytes is the same', async (size) => {
    const bytes = Buffer.concat([bedrock.answer('Grüße 🦀')])
    server.use(async (response) => {
      response.writeHead(200, { 'content-type': 'application/vnd.amazon.eventstream' })
      for (let at = 0; at < bytes.length; at += size) {
        response.write(bytes.subarray(at, at + size))
        await new Promise(setImmediate)
      }
      response.end()
    })
    const { events, result } = await runOnce()
    expect([textOf(events), result.stopReason]).toEqual(['Grüße 🦀', 'end_turn'])
  })

  test('may end without its usage, and may be one JSON answer', async () => {
    server.use(
      eventStream(bedrock.start(), bedrock.text(0, 'hi'), bedrock.stop('end_turn')),
      (response) => {
        response.writeHead(200, { 'content-type': 'application/json' }).end(
          JSON.stringify({
            output: { message: { role: 'assistant', content: [{ text: 'whole' }] } },
            stopReason: 'end_turn',
            usage: { inputTokens: 1, outputTokens: 2, totalTokens: 3 },
          }),
        )
      },
    )
    const first = await runOnce()
    expect([textOf(first.events), first.result.usageEstimated]).toEqual(['hi', true])
    const second = await runOnce()
    expect([textOf(second.events), second.result.usage.totalTokens]).toEqual(['whole', 3])
  })
})

describe('a stream that fails', () => {
  const part = [bedrock.start(), bedrock.delta(0, { text: 'par' })]
  const throttled = bedrock.exception('throttlingException', { message: 'Too many requests.' })
  const damaged = () => {
    const bytes = bedrock.text(0, 'tial')
    bytes[bytes.length - 30] = (bytes[bytes.length - 30] ?? 0) ^ 1
    return bytes
  }

  test.each([
    ['an exception', throttled, 'rate_limit', 'rate_limit', 'throttlingException'],
    ['a wrong checksum', damaged(), 'model_error', 'network', 'frame_damaged'],
    [
      'an end in the middle of a frame',
      bedrock.text(0, 'tial').subarray(0, 40),
      'model_error',
      'network',
      'stream_truncated',
    ],
    ['an end before its stop', bedrock.close(0), 'model_error', 'network', 'stream_truncated'],
  ])(
    'with %s after the first token keeps the text and is not repeated',
    async (_, bytes, kind, fine, code) => {
      server.use(eventStream(...part, bytes))
      const { events, result } = await runOnce()
      expect(result).toMatchObject({
        stopReason: 'error',
        error: { kind, retryable: true, detail: { kind: fine, code } },
      })
      expect(events.at(-1)).toMatchObject({ type: 'stream_error', partial: true })
      expect(server.seen).toHaveLength(1)
    },
  )

  test('never runs a call that was cut, for any cause', async () => {
    const ran: unknown[] = []
    const call = bedrock.toolUse(1, 'tooluse_a', 'echo', '{"path":"/home/u', 'ser"}')
    const whole = Buffer.concat([bedrock.start(), bedrock.text(0, 'Now.'), call])
    for (const cut of [whole, whole.subarray(0, -1), whole.subarray(0, whole.length - 150)]) {
      server.use(eventStream(cut))
      const { result } = await runOnce({
        tools: [describedTool('echo', (params) => ran.push(params))],
      })
      expect(result.error?.detail.code).toBe('stream_truncated')
    }
    // A closed call, at a stop by length.
    server.use(eventStream(whole, bedrock.stop('max_tokens'), bedrock.usage(1, 1)))
    const { result } = await runOnce({
      tools: [describedTool('echo', (params) => ran.push(params))],
    })
    expect(result.stopReason).toBe('max_tokens')
    expect(ran).toEqual([])
  })

  test('before the first token is retried', async () => {
    server.use(
      eventStream(
        bedrock.start(),
        bedrock.exception('serviceUnavailableException', { message: 'Try later.' }),
      ),
      eventStream(bedrock.answer('second')),
    )
    const { events } = await runOnce()
    expect([textOf(events), server.seen.length]).toEqual(['second', 2])
  })
})

describe('an error', () => {
  const errortype = (name: string) => ({
    'x-amzn-errortype': `${name}:http://internal.amazon.com/coral/com.amazon.bedrock/`,
  })

  test.each([
    [400, 'ValidationException', 'Input is too long for requested model.', 'context_overflow'],
    [400, 'ValidationException', 'The provided model identifier is invalid.', 'model_not_found'],
    [400, 'ValidationException', 'Malformed input request.', 'format'],
    [403, 'AccessDeniedException', 'You do not have access to the model.', 'auth'],
    [403, 'ExpiredTokenException', 'The security token is expired', 'auth'],
    [404, 'ResourceNotFoundException', 'Could not resolve the model.', 'model_not_found'],
    [408, 'ModelTimeoutException', 'The model took too long.', 'timeout'],
    [424, 'ModelErrorException', 'The model failed.', 'server_error'],
    [429, 'ThrottlingException', 'Too many tokens, please wait before trying again.', 'rate_limit'],
    [429, 'ModelNotReadyException', 'The model is not ready.', 'overloaded'],
    [500, 'InternalServerException', 'Unexpected.', 'server_error'],
    [503, 'ServiceUnavailableException', 'Try later.', 'server_error'],
  ])('%i %s `%s` is `%s`', async (code, name, message, kind) => {
    server.use(status(code, { message }, errortype(name)))
    const { result } = await runOnce({ timeoutMs: 20_000 })
    expect(result.error?.detail).toMatchObject({ kind, status: code, code: name })
    expect(result.error?.message).toBe(message)
  })

  test('that quotes the secret key or the session token is reported without them', async () => {
    const key = { accessKeyId: 'AKIDEXAMPLE', secretAccessKey, sessionToken }
    const message = `The canonical request was x-amz-security-token:${sessionToken} key ${secretAccessKey}`
    server.use(status(403, { message }, errortype('InvalidSignatureException')))
    const { events, result } = await runOnce(
      {},
      { authProfiles: [{ id: 'p1', provider: 'test', type: 'aws', key }] },
    )
    const shown = JSON.stringify([events, result])
    expect(result.error?.detail.kind).toBe('auth')
    expect(shown).not.toContain(secretAccessKey)
    expect(shown).not.toContain(sessionToken)
  })
})
