// Calls of `/pi-ai` that fail: how often they are sent, and what pi itself reads in their messages. It must never wait for a time.

import { isContextOverflow as overflow054 } from '@mariozechner/pi-ai'
import { AgentSession as Session054 } from '@mariozechner/pi-coding-agent'
import { isContextOverflow as overflow073 } from 'pi-ai-073'
import { AgentSession as Session073 } from 'pi-coding-agent-073'
import { expect, test } from 'vitest'
import { type AssistantMessage, completeSimple, type StreamOptions } from '../../../pi-ai.js'
import { anthropic } from '../../support/servers/anthropic.js'
import { type Handler, sse, status } from '../../support/servers/server.js'
import { serverPerTest } from '../../support/servers/server-per-test.js'
import { modelAt, wires } from './wires.js'

const server = serverPerTest(() => sse(wires.anthropic.text('Hello.')))
const context = { messages: [{ role: 'user' as const, content: 'hi', timestamp: 1 }] }
const error = (type: string, message: string) => ({ type: 'error', error: { type, message } })
const limited = error('rate_limit_error', 'Slow down.')

async function call(handler: Handler, options: StreamOptions = {}): Promise<AssistantMessage> {
  server.use(handler)
  const model = modelAt(wires.anthropic, server.url)
  return completeSimple(model, context, { apiKey: 'sk-x', ...options })
}

/** Answers with events, and ends the connection in the middle. */
const cut =
  (...events: string[]): Handler =>
  (response) => {
    if (events.length === 0) return response.destroy()
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    return response.write(events.join(''), () => response.destroy())
  }
const text = anthropic.start() + anthropic.blockStart(0, { type: 'text', text: '' })

/** Whether pi would try again, by both versions. */
function isRetried(message: AssistantMessage): boolean[] {
  const session = { model: { contextWindow: 200_000 } }
  return [Session054, Session073].map((Session: any) =>
    Session.prototype._isRetryableError.call(session, message),
  )
}

test.each([
  ['an internal error', status(500, error('api_error', 'Internal server error'))],
  ['a limit', status(429, limited)],
  ['a limit with its end', status(429, limited, { 'retry-after-ms': '1' })],
  ['an overload', status(529, error('overloaded_error', 'Overloaded'))],
  ['a connection that is cut', cut()],
  ['an answer that is cut', cut(text)],
])(
  'a call that fails is one request, and more where the caller says so: %s',
  async (_, handler) => {
    for (const maxRetries of [undefined, 0, Number.NaN, -1]) {
      server.seen.length = 0
      const { stopReason } = await call(handler, {
        ...(maxRetries !== undefined && { maxRetries }),
      })
      expect([maxRetries, stopReason, server.seen.length]).toEqual([maxRetries, 'error', 1])
    }
  },
)

test('`maxRetries` is the number of requests after the first', async () => {
  const limit = status(429, limited, { 'retry-after-ms': '1' })
  for (const maxRetries of [1, 2]) {
    server.seen.length = 0
    await call(limit, { maxRetries })
    expect(server.seen.length).toBe(1 + maxRetries)
  }
  server.use(limit, sse(wires.anthropic.text('Hello.')))
  const model = modelAt(wires.anthropic, server.url)
  const { stopReason } = await completeSimple(model, context, { apiKey: 'sk-x', maxRetries: 1 })
  expect(stopReason).toBe('stop')
})

test('what a `fetch` has thrown for an earlier request is not the message of the last', async () => {
  let requests = 0
  const own: typeof fetch = async (url, init) => {
    if (requests++ === 0) throw new Error('the proxy is closed')
    return fetch(url, init)
  }
  const { errorMessage } = await call(status(400, error('invalid_request_error', 'No.')), {
    maxRetries: 1,
    fetch: own,
  })
  expect([errorMessage, requests]).toEqual(['400 No.', 2])
})

test.each<[string, Handler, string]>([
  ['an internal error', status(500, ''), '500 the provider answered `500` and did not say why'],
  ['a gateway', status(503, '<html></html>', { 'content-type': 'text/html' }), '503 the server'],
  ['a limit', status(429, limited), '429 Slow down.'],
  ['an overload', status(529, ''), '529 Overloaded: the provider answered `529`'],
  ['a time-out of the server', status(408, ''), '408 Connection error (timed out): the provider'],
  ['no answer', cut(), 'Connection error: `http://127.0.0.1:'],
  ['an answer that is cut', cut(text), 'Connection error: the answer of `http://127.0.0.1:'],
  [
    'a text that is cut',
    cut(text, anthropic.delta(0, { type: 'text_delta', text: 'Hel' })),
    'Connection error: the answer of `http://127.0.0.1:',
  ],
  ['an answer without its end', sse(text), 'Connection error: the response ended before'],
  [
    'an overload in the stream',
    sse(text, anthropic.error('overloaded_error', 'Overloaded')),
    'Overloaded',
  ],
  [
    'a failure in the stream',
    sse(text, anthropic.error('api_error', 'It went wrong.')),
    'Server error: It went wrong.',
  ],
])('pi tries again after %s', async (_, handler, message) => {
  const answer = await call(handler)
  expect(answer.stopReason).toBe('error')
  expect(answer.errorMessage?.slice(0, message.length)).toBe(message)
  expect(isRetried(answer)).toEqual([true, true])
})

test('pi tries again after a time-out as after one of its clients', async () => {
  const answer = await call(() => {}, { timeoutMs: 50 })
  expect(answer.errorMessage).toMatch(/^Request timed out: /)
  // 0.54 does not, whoever makes the request.
  expect(isRetried(answer)).toEqual([false, true])
})

test.each([
  ['a key that is refused', status(401, error('authentication_error', 'invalid x-api-key'))],
  ['a request that is wrong', status(400, error('invalid_request_error', 'tools: too many'))],
  ['an address that is wrong', status(404, '<html></html>', { 'content-type': 'text/html' })],
])('pi does not try again after %s', async (_, handler) => {
  const answer = await call(handler)
  expect(answer.stopReason).toBe('error')
  expect([overflow054(answer as never), overflow073(answer as never)]).toEqual([false, false])
  expect(isRetried(answer)).toEqual([false, false])
})

test('a refusal without a body is an overflow for pi, as with its own clients', async () => {
  for (const [code, message] of [
    [400, /^400 status code \(no body\)$/],
    [413, /^prompt is too long: 413 /],
  ] as const) {
    const answer = await call(status(code, ''))
    expect(answer.errorMessage).toMatch(message)
    expect([overflow054(answer as never), overflow073(answer as never)]).toEqual([true, true])
    expect(isRetried(answer)).toEqual([false, false])
  }
})

test('an answer that pauses has ended, as in pi', async () => {
  const answer = await call(sse(text, anthropic.blockStop(0), anthropic.end('pause_turn')))
  expect([answer.stopReason, server.seen.length]).toEqual(['stop', 1])
})
