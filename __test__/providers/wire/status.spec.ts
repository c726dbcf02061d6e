// The end of an answer: its own status or reason decides. The name of the last event must never decide.

import { describe, expect, test } from 'vitest'
import { closing, serving } from '../../support/cleanup.js'
import { context, engineAt } from '../../support/engine.js'
import { anthropic } from '../../support/servers/anthropic.js'
import { bedrock, eventStream } from '../../support/servers/bedrock.js'
import { chat } from '../../support/servers/chat.js'
import { google } from '../../support/servers/google.js'
import { responses } from '../../support/servers/responses.js'
import { type Handler, sse } from '../../support/servers/server.js'
import { answerText } from '../../support/servers/wire-apis.js'

async function runAnswer(api: string, answer: Handler, provider: Record<string, unknown> = {}) {
  const server = await serving(answer)
  const engine = closing(engineAt(server.url, {}, { api, ...provider }))
  let ran = 0
  const read = { name: 'read', parameters: { type: 'object' }, run: () => `${++ran}` }
  const result = await engine.run(context({ tools: [read], maxIterations: 2 })).result
  return { result, ran, requests: server.seen.length }
}

describe('responses: the status of the last event decides', () => {
  const message = responses.message('msg_1', 'Half of it')
  const ended = (fields: object, event = 'response.completed', items = [message]) =>
    sse(
      responses.created() +
        items.map((item, at) => responses.added(at, item) + responses.done(at, item)).join('') +
        responses.event(event, {
          response: {
            id: 'resp_1',
            model: 'gpt-test',
            output: items,
            usage: responses.usage(12, 3),
            ...fields,
          },
        }),
    )

  test.each(['response.completed', 'response.done'])('`incomplete` in a `%s`', async (event) => {
    const cut = { status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } }
    const { result } = await runAnswer('openai-responses', ended(cut, event))
    expect([result.stopReason, answerText(result)]).toEqual(['max_tokens', 'Half of it'])
    expect(result.usage.inputTokens).toBe(12)
  })

  test('a filter that stopped it', async () => {
    const cut = { status: 'incomplete', incomplete_details: { reason: 'content_filter' } }
    const { result } = await runAnswer('openai-responses', ended(cut))
    expect([result.stopReason, result.error?.detail.kind]).toEqual(['error', 'refusal'])
  })

  test.each([
    [{ code: 'rate_limit_exceeded', message: 'Please try again in 90s' }, 'rate_limit'],
    [
      { code: 'context_length_exceeded', message: 'exceeds the context window' },
      'context_overflow',
    ],
    [{ code: 'insufficient_quota', message: 'no credit' }, 'billing'],
    [null, 'server_error'],
  ])('`failed` with %j', async (error, kind) => {
    const { result } = await runAnswer('openai-responses', ended({ status: 'failed', error }))
    expect([result.stopReason, result.error?.detail.kind]).toEqual(['error', kind])
  })

  test('calls of an answer that was cut are not run', async () => {
    const call = responses.call('fc_1', 'call_1', 'read', {})
    const cut = { status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } }
    const { result, ran, requests } = await runAnswer(
      'openai-responses',
      ended(cut, 'response.completed', [call]),
    )
    expect([result.stopReason, ran, requests]).toEqual(['max_tokens', 0, 1])
  })

  test.each(['completed', 'in_progress', '', null])(
    'status %j of a `response.completed` is a whole answer',
    async (status) => {
      const { result } = await runAnswer('openai-responses', ended({ status }))
      expect([result.stopReason, answerText(result)]).toEqual(['end_turn', 'Half of it'])
    },
  )

  test('a reason without a status is one', async () => {
    const cut = { incomplete_details: { reason: 'max_output_tokens' } }
    expect((await runAnswer('openai-responses', ended(cut))).result.stopReason).toBe('max_tokens')
  })
})

describe('google: a value for "no reason yet" is no reason', () => {
  const part = (text: string, finishReason?: string) =>
    `data: ${JSON.stringify({ candidates: [{ content: { parts: [{ text }] }, finishReason, index: 0 }] })}\n\n`

  test('the last reason counts', async () => {
    const none = 'FINISH_REASON_UNSPECIFIED'
    const { result } = await runAnswer(
      'google-generative-ai',
      sse(part('Half ', none), part('of it', none), google.finish('MAX_TOKENS')),
    )
    expect([result.stopReason, answerText(result)]).toEqual(['max_tokens', 'Half of it'])
    const whole = await runAnswer(
      'google-generative-ai',
      sse(part('All', none), google.finish('STOP')),
    )
    expect(whole.result.messages.at(-1)?.providerStopReason).toBe('STOP')
  })

  test('without a later one the answer was cut', async () => {
    const { result } = await runAnswer(
      'google-generative-ai',
      sse(part('Half', 'FINISH_REASON_UNSPECIFIED')),
    )
    expect([result.stopReason, result.error?.detail.code]).toEqual(['error', 'stream_truncated'])
  })
})

describe('a stream without a reason', () => {
  test('of Anthropic is cut: its `message_stop` alone is not enough', async () => {
    const answer = sse(
      anthropic.start(),
      anthropic.text(0, 'Half'),
      'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":null},"usage":{"output_tokens":3}}\n\n',
      anthropic.stop(),
    )
    const { result } = await runAnswer('anthropic-messages', answer)
    expect([result.stopReason, result.error?.detail.code]).toEqual(['error', 'stream_truncated'])
  })

  test('of Chat Completions is whole at its `[DONE]`, and a call in it only if its JSON is', async () => {
    const text = await runAnswer('openai-chat', sse(chat.text('All of it'), chat.done()))
    expect([text.result.stopReason, answerText(text.result)]).toEqual(['end_turn', 'All of it'])
    const half = await runAnswer(
      'openai-chat',
      sse(chat.toolCall(0, 'call_1', 'read', '{"a":'), chat.done()),
    )
    expect(half.ran).toBe(0)
  })

  test('of Bedrock is whole at its `messageStop`, with or without usage after it', async () => {
    const answer = [bedrock.start(), bedrock.text(0, 'All of it')]
    const region = { region: 'us-east-1' }
    const ended = await runAnswer(
      'bedrock-converse',
      eventStream(...answer, bedrock.stop('max_tokens')),
      region,
    )
    expect(ended.result.stopReason).toBe('max_tokens')
    const cut = await runAnswer(
      'bedrock-converse',
      eventStream(...answer, bedrock.usage(12, 3)),
      region,
    )
    expect(cut.result.error?.detail.code).toBe('stream_truncated')
  })
})
