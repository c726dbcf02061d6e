// The engine against a third-party server of all five APIs: texts, tool loops, failures, cut streams, and chaos. Errors of the
// server itself are named where they matter. It must never need the network.

import { LLMock } from '@copilotkit/aimock'
import { describe, expect, type TestContext, test } from 'vitest'
import { AgentEngine, type AgentResult, type Api, type AssembledContext } from '../../index.js'
import { context, readAll, textOf } from '../support/engine.js'

/** The full proof is `CHAOS_RUNS=500`. */
const CHAOS = Number(process.env.CHAOS_RUNS ?? 50)

interface WireServer {
  api: Api
  /** The base paths of the APIs at this server. */
  base: string
  model: string
  /** The number of pieces after which a stream is cut in the middle of its call. */
  cuts: number[]
  /** Options that this server does not support. */
  without: Partial<AssembledContext>
}

const cuts = [1, 3, 5, 8, 13, 21]

const SERVERS: WireServer[] = [
  { api: 'anthropic-messages', base: '', model: 'claude-sonnet-4-5', cuts, without: {} },
  { api: 'openai-chat', base: '/v1', model: 'gpt-4.1', cuts, without: {} },
  { api: 'openai-responses', base: '/v1', model: 'gpt-5', cuts, without: {} },
  // Its calls are whole, with the finish reason beside them.
  { api: 'google-generative-ai', base: '', model: 'gemini-2.5-pro', cuts: [1], without: {} },
  // It treats a cache point among the tools as a tool.
  {
    api: 'bedrock-converse',
    base: '',
    model: 'anthropic.claude-sonnet-4-5',
    cuts,
    without: { promptCache: { ttl: 'off' } },
  },
]

const usage = { prompt_tokens: 20, completion_tokens: 7, total_tokens: 27 }
/** Resources of a test; the tests mostly wait for a retry, so they run in parallel. */
type Cleanup = Pick<TestContext, 'onTestFinished'>

function engineFor(
  { api, base, model }: WireServer,
  mock: LLMock,
  { onTestFinished }: Cleanup,
): AgentEngine {
  const engine = new AgentEngine({
    providers: { test: { api, baseUrl: `${mock.url}${base}` } },
    authProfiles: [{ id: 'p1', provider: 'test', type: 'token', key: 'sk-nobody-checks-this' }],
    models: [{ provider: 'test', id: model, contextWindow: 200_000, maxOutputTokens: 8_192 }],
  })
  onTestFinished(() => engine.close())
  return engine
}

const texts = ({ blocks }: AgentResult) =>
  blocks.map((block) => (block.type === 'text' ? block.text : block))

/** A server that answers in small pieces. */
async function mockServer({ onTestFinished }: Cleanup): Promise<LLMock> {
  const mock = await LLMock.create({ port: 0, chunkSize: 4, logLevel: 'silent' })
  onTestFinished(() => mock.stop())
  return mock
}

function isSupported(one: WireServer): boolean {
  try {
    void new AgentEngine({
      providers: { test: { api: one.api, baseUrl: 'http://127.0.0.1:9' } },
    }).close()
    return true
  } catch {
    return false
  }
}

const supported = SERVERS.filter(isSupported)

// In parallel: most of a test is the wait for a limit without a time.
describe.concurrent.each(supported)('a third-party server of $api', (one) => {
  const runPrompt = (
    mock: LLMock,
    until: Cleanup,
    text: string,
    changes: Partial<AssembledContext> = {},
  ) =>
    engineFor(one, mock, until).run(
      context({
        ...one.without,
        model: one.model,
        currentMessage: { role: 'user', content: text },
        ...changes,
      }),
    )

  test.concurrent('streams a text with its usage', async (until) => {
    const mock = await mockServer(until)
    // Gemini's own reason is `STOP`; this server has another one unless it is configured.
    mock.onMessage('hello', { content: 'Hi there, — “ünïcode” 🎉!', finishReason: 'stop', usage })
    const run = runPrompt(mock, until, 'hello')
    const events = await readAll(run)
    const result = await run.result
    expect(textOf(events)).toBe('Hi there, — “ünïcode” 🎉!')
    expect(events.filter(({ type }) => type === 'token').length).toBeGreaterThan(3)
    expect(result).toMatchObject({ stopReason: 'end_turn', usageEstimated: false })
    expect(texts(result)).toEqual(['Hi there, — “ünïcode” 🎉!'])
    expect(result.usage).toMatchObject({ inputTokens: 20, outputTokens: 7, totalTokens: 27 })
  })

  test.concurrent('runs its tools, in parallel and in sequence, and reads their results', async (until) => {
    const mock = await mockServer(until)
    const calls = (at: number) => (request: any) =>
      request.messages.filter((message: any) => message.role === 'tool').length === at
    const toolCalls = [
      { name: 'add', arguments: '{"a":2,"b":3}' },
      { name: 'add', arguments: '{"a":20,"b":30}' },
    ]
    mock.on({ predicate: calls(0) }, { toolCalls, usage })
    mock.on(
      { predicate: calls(2), toolResultContains: '50' },
      { content: 'Once more.', toolCalls: [{ name: 'add', arguments: '{"a":5,"b":50}' }], usage },
    )
    mock.on(
      { predicate: calls(3), toolResultContains: '55' },
      { content: 'It is 55.', finishReason: 'stop', usage },
    )
    const seen: unknown[] = []
    const add = {
      name: 'add',
      description: 'Adds two numbers.',
      parameters: {
        type: 'object',
        properties: { a: { type: 'number' }, b: { type: 'number' } },
        required: ['a', 'b'],
      },
      run: ({ a, b }: { a: number; b: number }) => {
        seen.push([a, b])
        return String(a + b)
      },
    }
    const run = runPrompt(mock, until, 'sum', { tools: [add] })
    const result = await run.result
    expect(result.error).toBeUndefined()
    expect(seen).toEqual([
      [2, 3],
      [20, 30],
      [5, 50],
    ])
    expect(result.toolCalls.map(({ status, result: answered }) => [status, answered])).toEqual([
      ['completed', '5'],
      ['completed', '50'],
      ['completed', '55'],
    ])
    expect(result.messages.at(-1)?.content).toBe('It is 55.')
    expect(result.stopReason).toBe('end_turn')
    expect(result.usage.totalTokens).toBe(3 * 27)
    expect(result.contextTokens).toBe(27)
    expect(new Set(result.toolCalls.map(({ callId }) => callId)).size).toBe(3)
  })

  test.concurrent('refuses, and the failure has its kind', async (until) => {
    const mock = await mockServer(until)
    const refusals: [number, string, string][] = [
      [400, 'invalid_request_error', 'format'],
      [401, 'authentication_error', 'auth'],
      [403, 'permission_error', 'auth'],
      [404, 'not_found_error', 'model_not_found'],
      [429, 'rate_limit_error', 'rate_limit'],
    ]
    for (const [status, type, kind] of refusals) {
      mock.clearFixtures()
      mock.onMessage('no', { error: { message: 'not like this', type }, status })
      const result = await runPrompt(mock, until, 'no').result
      expect([result.stopReason, result.error?.detail.kind, result.error?.detail.status]).toEqual([
        'error',
        kind,
        status,
      ])
      expect(result.error?.message).toContain('not like this')
    }
  })

  test.concurrent('fails once before the first token, and is called again', async (until) => {
    const mock = await mockServer(until)
    mock.onMessage('hello', { content: 'Hi!', finishReason: 'stop', usage })
    mock.nextRequestError(503, { message: 'try later', type: 'api_error' })
    const result = await runPrompt(mock, until, 'hello').result
    expect(texts(result)).toEqual(['Hi!'])
    expect(result.attempts.map(({ status }) => status)).toEqual([503, 200])
  })

  test.concurrent('stops in the middle of a text: the result has the partial text and is no success', async (until) => {
    const mock = await mockServer(until)
    const content = 'This answer will never be whole, whatever happens.'
    // After the start events of every API, and slow enough that the socket has the pieces before it is reset.
    mock.onMessage('long', { content, usage }, { truncateAfterChunks: 7, latency: 10 })
    const run = runPrompt(mock, until, 'long')
    const events = await readAll(run)
    const result = await run.result
    const partialText = textOf(events)
    expect(partialText.length).toBeGreaterThan(0)
    expect(content.startsWith(partialText)).toBe(true)
    expect([result.stopReason, texts(result)]).toEqual(['error', [partialText]])
    expect(result.error?.detail.kind).toBe('network')
    expect(events.at(-1)).toMatchObject({ type: 'stream_error', partial: true })
  })

  test.concurrent('stops in the middle of a call: no tool runs', async (until) => {
    const mock = await mockServer(until)
    const command = `{"command":"rm -rf ${'/home/user/'.repeat(20)}"}`
    const engine = engineFor(one, mock, until)
    const outcomes = one.cuts.map(async (truncateAfterChunks) => {
      mock.onMessage(
        `call ${truncateAfterChunks}.`,
        { content: 'Now.', toolCalls: [{ name: 'bash', arguments: command }], usage },
        { truncateAfterChunks, latency: 5 },
      )
      let ran = 0
      const bash = {
        name: 'bash',
        parameters: { type: 'object' },
        run: () => {
          ran += 1
          return 'gone'
        },
      }
      const currentMessage = { role: 'user' as const, content: `call ${truncateAfterChunks}.` }
      const sessionLabel = `cut ${truncateAfterChunks}`
      const { result } = engine.run(
        context({
          ...one.without,
          model: one.model,
          currentMessage,
          sessionLabel,
          tools: [bash],
          maxIterations: 2,
        }),
      )
      const { stopReason } = await result
      return [truncateAfterChunks, stopReason, ran]
    })
    expect(await Promise.all(outcomes)).toEqual(one.cuts.map((at) => [at, 'error', 0]))
  })

  test.concurrent.for([
    ['drops every request', { dropRate: 1 }, 'server_error'],
    ['hangs up at once', { disconnectRate: 1 }, 'network'],
    ['limits every request', { rateLimitRate: 1 }, 'rate_limit'],
    ['answers what is no JSON', { malformedRate: 1 }, undefined],
  ] as const)('%s: a failure, and then all is well again', async ([, chaos, kind], until) => {
    const mock = await mockServer(until)
    mock.onMessage('hello', { content: 'Hi!', finishReason: 'stop', usage })
    mock.setChaos(chaos)
    const failed = await runPrompt(mock, until, 'hello').result
    expect([failed.stopReason, failed.blocks]).toEqual(['error', []])
    if (kind !== undefined) expect(failed.error?.detail.kind).toBe(kind)
    mock.clearChaos()
    const result = await runPrompt(mock, until, 'hello').result
    expect(texts(result)).toEqual(['Hi!'])
  })

  test.concurrent(`injects random faults in ${CHAOS} runs: each is correct or a failure`, {
    timeout: 300_000,
  }, async (until) => {
    const mock = await mockServer(until)
    mock.on(
      { hasToolResult: false },
      { content: 'Look.', toolCalls: [{ name: 'look', arguments: '{"at":"it"}' }], usage },
    )
    mock.on({ hasToolResult: true }, { content: 'It is here.', finishReason: 'stop', usage })
    mock.setChaos({ dropRate: 0.1, malformedRate: 0.1, disconnectRate: 0.1, rateLimitRate: 0.05 })
    const engine = engineFor(one, mock, until)
    const outcomes = await Promise.all(
      Array.from({ length: CHAOS }, async (_, at) => {
        let looks = 0
        const look = {
          name: 'look',
          parameters: { type: 'object' },
          run: () => {
            looks += 1
            return 'here'
          },
        }
        const { result } = engine.run(
          context({
            ...one.without,
            model: one.model,
            sessionLabel: `chaos ${at}`,
            tools: [look],
            // The injected faults decide the end, never a slow machine.
            timeoutMs: 240_000,
          }),
        )
        const done = await result
        return { looks, result: done }
      }),
    )
    const isRight = ({ looks, result }: { looks: number; result: AgentResult }) =>
      result.stopReason === 'end_turn'
        ? looks === 1 && result.messages.at(-1)?.content === 'It is here.'
        : result.stopReason === 'error' && result.error !== undefined && looks <= 1
    const wrong = outcomes.filter((outcome) => !isRight(outcome))
    expect(wrong.map(({ looks, result }) => [looks, result.stopReason, result.error])).toEqual([])
    const well = outcomes.filter(({ result }) => result.stopReason === 'end_turn').length
    console.log(`${one.api}: ${well} of 100 runs through chaos ended well`)
    expect(well).toBeGreaterThan(0)
  })
})
