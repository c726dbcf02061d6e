// Anthropic Messages: answers, their stop reasons and their usage, from a loopback server. It must never read internal state of the engine.

import { describe, expect, test } from 'vitest'
import type { AgentEngineOptions, AssembledContext } from '../../index.js'
import { describedTool, echoTool } from '../support/described-tools.js'
import { engineAt, testModel, textOf } from '../support/engine.js'
import { anthropic } from '../support/servers/anthropic.js'
import { sse } from '../support/servers/server.js'
import { serverPerTest } from '../support/servers/server-per-test.js'
import { singleRun } from '../support/single-run.js'

const server = serverPerTest(() => sse(anthropic.answer('ok')))

/** One run against the server with an engine of its own. */
const runOnce = (
  changes: Partial<AssembledContext> = {},
  options: AgentEngineOptions = {},
  provider: Record<string, unknown> = {},
) => singleRun(engineAt(server.url, options, provider), changes)

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
    ).toEqual([
      'stream_start',
      'reasoning hm',
      'token Hel',
      'token lo',
      'token  🦀',
      'usage',
      'stream_end',
    ])
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

  test.each(['refusal', 'sensitive'])(
    'that is a refusal ends the run as an error, with its text in the result: `%s`',
    async (code) => {
      server.use(sse(anthropic.start(), anthropic.text(0, 'I cannot'), anthropic.end(code)))
      const { events, result } = await runOnce()
      expect(result).toMatchObject({
        stopReason: 'error',
        error: {
          kind: 'model_error',
          retryable: false,
          detail: { kind: 'refusal', code },
        },
      })
      expect(result.messages.at(-1)?.content).toBe('I cannot')
      expect(events.at(-1)).toMatchObject({ type: 'stream_error', partial: true })
      expect(server.seen).toHaveLength(1)
    },
  )

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
