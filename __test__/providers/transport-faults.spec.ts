// Transport faults over loopback sockets: the outcome of each, the number of attempts, and that none counts as success. It must
// never wait for time to pass where an event shows the same.

import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { createServer, type Server, type Socket } from 'node:net'
import { describe, expect, test } from 'vitest'
import type { AgentEngineOptions, AgentResult, AgentTool, AssembledContext } from '../../index.js'
import { context, engineAt, textOf } from '../support/engine.js'
import { anthropic } from '../support/servers/anthropic.js'
import { chat } from '../support/servers/chat.js'
import { type Handler, sse, sseThenHold, status, testServer } from '../support/servers/server.js'
import { serverPerTest } from '../support/servers/server-per-test.js'
import { singleRun } from '../support/single-run.js'

const server = serverPerTest(() => sse(anthropic.answer('ok')))

const runOnce = (
  changes: Partial<AssembledContext> = {},
  provider: Record<string, unknown> = {},
  options: AgentEngineOptions = {},
) => singleRun(engineAt(server.url, options, provider), changes)

/** The outcome of a failed run, without its message. */
const outcome = ({ stopReason, error, attempts }: AgentResult) => ({
  stopReason,
  kind: error?.kind,
  detail: error?.detail.kind,
  code: error?.detail.code,
  retryable: error?.retryable,
  attempts: attempts.length,
})

const failed = (
  kind: string,
  detail: string,
  code: string,
  retryable: boolean,
  attempts: number,
) => ({ stopReason: 'error', kind, detail, code, retryable, attempts })

const answer = sse(anthropic.answer('ok'))
const hello = sse(anthropic.answer('Hello.'))

/** A TCP server below HTTP. */
async function rawServer(onRequest: (socket: Socket) => void) {
  const sockets = new Set<Socket>()
  const tcp: Server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.once('data', () => onRequest(socket))
  })
  tcp.listen(0, '127.0.0.1')
  await once(tcp, 'listening')
  return {
    url: `http://127.0.0.1:${(tcp.address() as AddressInfo).port}`,
    close: () => {
      for (const socket of sockets) socket.destroy()
      tcp.close()
    },
  }
}

const head = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n'
const begun = anthropic.start() + anthropic.blockStart(0, { type: 'text', text: '' })
const token = anthropic.delta(0, { type: 'text_delta', text: 'Hel' })

describe('connections', () => {
  test('a refused connection is a network failure, tried three times', async () => {
    const { url } = server
    await server.close()
    const { result, events } = await runOnce({}, { baseUrl: url })
    expect(outcome(result)).toEqual(failed('model_error', 'network', 'connect', true, 3))
    expect(result.attempts.map(({ ok, reason }) => [ok, reason])).toEqual(
      Array(3).fill([false, 'network']),
    )
    const waits = ['retry', 'waiting', 'retry', 'waiting']
    expect(events.map(({ type }) => type)).toEqual(['stream_start', ...waits, 'stream_error'])
    expect(events.at(-1)).toMatchObject({ partial: false })
  })

  test('a name that does not resolve is a network failure that names the host', async () => {
    const { result } = await runOnce({}, { baseUrl: 'https://nonexistent.invalid' })
    expect(outcome(result)).toEqual(failed('model_error', 'network', 'dns', true, 3))
    expect(result.error?.message).toContain('`https://nonexistent.invalid`')
  })

  test('a connection reset in the middle of an event is a network failure, retried before a token', async () => {
    let requests = 0
    const raw = await rawServer((socket) => {
      requests++
      socket.write(head + begun.slice(0, -20), () => socket.resetAndDestroy())
    })
    const { result } = await runOnce({}, { baseUrl: raw.url })
    raw.close()
    expect(outcome(result)).toMatchObject({ stopReason: 'error', detail: 'network', attempts: 3 })
    expect(requests).toBe(3)
  })

  test('a connection reset after a token ends the run, with the partial text in the result', async () => {
    let reset = () => {}
    const raw = await rawServer((socket) => {
      socket.write(head + begun + token)
      reset = () => socket.resetAndDestroy()
    })
    const engine = engineAt(raw.url)
    const run = engine.run(context())
    const events = []
    for await (const event of run) {
      events.push(event)
      if (event.type === 'token') reset()
    }
    const result = await run.result
    await engine.close()
    raw.close()
    expect(outcome(result)).toEqual(failed('model_error', 'network', 'reset', true, 1))
    expect(events.at(-1)).toMatchObject({ type: 'stream_error', partial: true })
    expect(result.messages.at(-1)).toMatchObject({ role: 'assistant', content: 'Hel' })
  })

  test('a clean end before the terminal event is never a success: retried only before a token', async () => {
    server.use(sse(begun), sse(begun), hello)
    const again = await runOnce()
    expect([textOf(again.events), again.result.stopReason, again.result.attempts.length]).toEqual([
      'Hello.',
      'end_turn',
      3,
    ])
    server.use(sse(begun, token))
    const { result, events } = await runOnce()
    expect(outcome(result)).toEqual(failed('model_error', 'network', 'stream_truncated', true, 1))
    expect(events.at(-1)).toMatchObject({ type: 'stream_error', partial: true })
  })

  test('an end without `message_stop` but with a stop reason is no success either', async () => {
    server.use(
      sse(anthropic.start(), anthropic.text(0, 'Hello.'), anthropic.messageDelta('end_turn')),
    )
    const { result } = await runOnce()
    expect(outcome(result)).toMatchObject({ stopReason: 'error', code: 'stream_truncated' })
  })

  test('a call of a stream that was cut is never run', async () => {
    const ran: unknown[] = []
    const tool: AgentTool = { name: 'rm', run: (params) => ran.push(params) }
    server.use(
      sse(
        anthropic.start(),
        anthropic.text(0, 'I remove.'),
        anthropic.toolUse(1, 'toolu_1', 'rm', { path: '/' }),
      ),
    )
    const { result } = await runOnce({ tools: [tool] })
    expect(ran).toEqual([])
    expect(result.toolCalls).toMatchObject([{ status: 'failed', error: 'interrupted' }])
  })

  test('a cut of the other API is never a success', async () => {
    server.use(sse(chat.text('Hel', 'lo')))
    const { result } = await runOnce({}, { api: 'openai-chat' })
    expect(outcome(result)).toEqual(failed('model_error', 'network', 'stream_truncated', true, 1))
  })
})

describe('time limits', () => {
  test('a server that never answers ends at the header limit', async () => {
    server.use(() => {})
    const { result } = await runOnce({}, { headerTimeoutMs: 50 })
    expect(outcome(result)).toEqual(failed('timeout', 'timeout', 'header_timeout', true, 3))
    await Promise.all(server.seen.map(({ closed }) => closed))
  })

  test('a stream that stalls ends at the idle limit', async () => {
    server.use(sseThenHold(begun, token))
    const { result } = await runOnce({}, { idleTimeoutMs: 50 })
    expect(outcome(result)).toEqual(failed('timeout', 'timeout', 'idle_timeout', true, 1))
    expect(result.messages.at(-1)?.content).toBe('Hel')
    await server.seen[0]?.closed
  })

  test('a stream of pings only ends at the progress limit', async () => {
    server.use((response, seen) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(begun + token)
      const pings = setInterval(() => response.write(anthropic.ping()), 5)
      seen.closed.then(() => clearInterval(pings))
    })
    const { result } = await runOnce({}, { idleTimeoutMs: 10_000, noProgressTimeoutMs: 100 })
    expect(outcome(result)).toEqual(failed('timeout', 'timeout', 'no_progress', true, 1))
    await server.seen[0]?.closed
  })

  test('the run’s own time limit ends it as a timeout, whatever the server does', async () => {
    server.use(sseThenHold(begun, token))
    const { result, events } = await runOnce({ timeoutMs: 1_000 })
    expect(result).toMatchObject({
      stopReason: 'timeout',
      error: { kind: 'timeout', detail: { code: 'run_timeout' } },
    })
    expect(events.at(-1)).toMatchObject({ type: 'stream_error', partial: true })
    await server.seen[0]?.closed
  })
})

describe('invalid answers', () => {
  const page = '<!doctype html><html><head><title>Welcome</title></head><body>hi</body></html>'
  const plain =
    (type: string | undefined, body: string | Buffer): Handler =>
    (response) => {
      response.writeHead(200, type === undefined ? {} : { 'content-type': type }).end(body)
    }

  // Each is attempted three times, so they wait in parallel.
  test.concurrent.each([
    ['a web page', plain('text/html', page), 'not_a_stream'],
    ['an empty body', plain('text/event-stream', ''), 'stream_truncated'],
    ['an empty body without a type', plain(undefined, ''), 'empty_response'],
    ['another content type', plain('text/plain', 'hello'), 'not_a_stream'],
    ['JSON that is no message', plain('application/json', '{"hello":1}'), 'invalid_response'],
    [
      'truncated JSON',
      plain('application/json', '{"id":"msg_1","content":[{"ty'),
      'invalid_response',
    ],
    [
      'an event of truncated JSON',
      sse('event: message_start\ndata: {"type":"mess\n\n'),
      'malformed_event',
    ],
    ['an event of noise', sse('data: \u0000\u0001{{{not json\n\n'), 'malformed_event'],
    [
      'binary noise',
      plain('text/event-stream', Buffer.from([0xff, 0xfe, 0, 10, 10, 0xc3])),
      'stream_truncated',
    ],
  ])('%s with status 200 is an error, never an empty success', async (_, handler, code) => {
    const own = await testServer(handler)
    const { result, events } = await runOnce({}, { baseUrl: own.url })
    await own.close()
    expect(outcome(result)).toMatchObject({ stopReason: 'error', kind: 'model_error', code })
    expect(result.messages).toHaveLength(1)
    expect(events.at(-1)).toMatchObject({ type: 'stream_error', partial: false })
    expect(result.error?.message.length).toBeLessThan(400)
  })

  test('an error object with status 200 is the error it names', async () => {
    const body = {
      type: 'error',
      error: { type: 'invalid_request_error', message: 'prompt is too long: 9 tokens > 8 maximum' },
    }
    server.use(plain('application/json', JSON.stringify(body)))
    const { result } = await runOnce()
    expect(outcome(result)).toMatchObject({ kind: 'context_overflow', attempts: 1 })
  })

  test('a compressed answer is refused before it is unpacked, once', async () => {
    server.use((response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream', 'content-encoding': 'gzip' })
      response.end(Buffer.from([0x1f, 0x8b, 8, 0]))
    })
    const { result } = await runOnce()
    expect(outcome(result)).toEqual(
      failed('model_error', 'server_error', 'content_encoding', false, 1),
    )
  })

  test('a redirect is refused, and the other origin never gets the key', async () => {
    const other = await testServer(answer)
    for (const code of [301, 302, 307, 308]) {
      server.use((response) => {
        response.writeHead(code, { location: `${other.url}/v1/messages` }).end()
      })
      const { result } = await runOnce()
      expect(outcome(result)).toEqual(failed('model_error', 'format', 'redirect_refused', false, 1))
      expect(result.error?.detail.status).toBe(code)
    }
    expect([other.connections(), other.seen.length]).toEqual([0, 0])
    await other.close()
  })

  test('an event of 17 MiB is a typed error, and its memory is bounded', async () => {
    const before = process.memoryUsage().rss
    server.use(async (response, { closed }) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write('event: content_block_delta\ndata: {"type":"content_block_delta","x":"')
      const mebibyte = Buffer.alloc(1024 * 1024, 97)
      let gone = false
      closed.then(() => {
        gone = true
      })
      for (let sent = 0; sent < 17 && !gone; sent++) {
        if (!response.write(mebibyte)) await Promise.race([once(response, 'drain'), closed])
      }
      response.end('"}\n\n')
    })
    const { result } = await runOnce()
    expect(outcome(result)).toEqual(
      failed('model_error', 'server_error', 'event_too_large', false, 1),
    )
    expect((process.memoryUsage().rss - before) / 1024 / 1024).toBeLessThan(96)
  })
})

describe('status codes', () => {
  /** Lets the next attempt follow immediately. */
  const soon = { 'retry-after-ms': '5' }
  const body = (type: string, message = 'said') => ({ type: 'error', error: { type, message } })

  test.each([
    [400, body('invalid_request_error'), 'model_error', 'format'],
    [
      400,
      body('invalid_request_error', 'prompt is too long: 9 > 8'),
      'context_overflow',
      'context_overflow',
    ],
    [401, body('authentication_error', 'invalid x-api-key'), 'auth_failure', 'auth'],
    [402, body('billing_error', 'credit balance is too low'), 'auth_failure', 'billing'],
    [403, body('permission_error', 'not allowed'), 'auth_failure', 'auth'],
    [404, body('not_found_error', 'model: nope'), 'model_error', 'model_not_found'],
    [
      413,
      body('request_too_large', 'Request exceeds the maximum size'),
      'context_overflow',
      'context_overflow',
    ],
    [422, body('invalid_request_error', 'unprocessable'), 'model_error', 'format'],
    [429, body('rate_limit_error', 'slow down'), 'rate_limit', 'rate_limit'],
  ])('%i is not tried again (%#)', async (code, reply, kind, detail) => {
    server.use(status(code, reply), answer)
    const { result } = await runOnce()
    expect(outcome(result)).toMatchObject({ stopReason: 'error', kind, detail, attempts: 1 })
    expect(result.error?.detail.status).toBe(code)
    expect(server.seen).toHaveLength(1)
  })

  test.each([408, 409, 500, 502, 503, 504, 529])(
    '%i is tried again, and the attempts are in the result',
    async (code) => {
      server.use(status(code, body('api_error'), soon), status(code, 'nothing JSON', soon), answer)
      const { result, events } = await runOnce()
      expect([result.stopReason, textOf(events)]).toEqual(['end_turn', 'ok'])
      expect(result.attempts.map((attempt) => [attempt.ok, attempt.status])).toEqual([
        [false, code],
        [false, code],
        [true, 200],
      ])
      expect(result.attempts.every(({ profileId }) => profileId === 'p1')).toBe(true)
    },
  )

  test('a lasting 5xx fails after three attempts', async () => {
    server.use(status(500, body('api_error'), soon))
    const { result } = await runOnce()
    expect(outcome(result)).toMatchObject({
      kind: 'model_error',
      detail: 'server_error',
      retryable: true,
      attempts: 3,
    })
  })

  test('a web page with a 502 is a server error, without the page', async () => {
    server.use(
      status(502, '<html><head><title>Bad Gateway</title></head></html>', {
        'content-type': 'text/html',
        ...soon,
      }),
    )
    const { result } = await runOnce()
    expect(outcome(result)).toMatchObject({
      detail: 'server_error',
      code: 'html_error_page',
      attempts: 3,
    })
    expect(result.error?.message).not.toContain('<')
  })

  test('a rate limit with a time to wait is waited for', async () => {
    server.use(status(429, body('rate_limit_error'), { 'retry-after-ms': '20' }), answer)
    const { result } = await runOnce()
    expect(result.stopReason).toBe('end_turn')
    server.use(status(429, body('rate_limit_error'), { 'retry-after': '1' }), answer)
    const waited = await runOnce()
    expect(waited.result.stopReason).toBe('end_turn')
    expect(waited.result.durationMs).toBeGreaterThanOrEqual(1_000)
  })

  test.each([429, 503, 529])(
    '%i that requests more than a minute ends as a rate limit with the wait',
    async (code) => {
      server.use(status(code, body('overloaded_error'), { 'retry-after': '120' }), answer)
      const { result } = await runOnce()
      expect(outcome(result)).toMatchObject({
        kind: 'rate_limit',
        detail: 'rate_limit',
        attempts: 1,
      })
      expect(result.error?.detail.retryAfterMs).toBe(120_000)
    },
  )

  test('a used-up quota is billing, and waiting does not help', async () => {
    const quota = {
      error: {
        message: 'You exceeded your current quota',
        type: 'insufficient_quota',
        code: 'insufficient_quota',
      },
    }
    server.use(status(429, quota, { 'retry-after': '1' }), answer)
    const { result } = await runOnce({}, { api: 'openai-chat' })
    expect(outcome(result)).toMatchObject({
      kind: 'auth_failure',
      detail: 'billing',
      retryable: false,
      attempts: 1,
    })
  })

  test('`x-should-retry` overrides the status, both ways', async () => {
    server.use(status(500, body('api_error'), { 'x-should-retry': 'false' }), answer)
    const no = await runOnce()
    expect(outcome(no.result)).toMatchObject({
      detail: 'server_error',
      retryable: false,
      attempts: 1,
    })
    server.use(status(400, body('invalid_request_error'), { 'x-should-retry': 'true' }), answer)
    const yes = await runOnce()
    expect([yes.result.stopReason, yes.result.attempts.length]).toEqual(['end_turn', 2])
  })
})

describe('events out of order', () => {
  test('an error event before a token is retried, after one it ends the run', async () => {
    const overloaded = anthropic.error('overloaded_error', 'Overloaded')
    server.use(sse(anthropic.start(), overloaded), hello)
    const again = await runOnce()
    expect([textOf(again.events), again.result.attempts.length]).toEqual(['Hello.', 2])
    server.use(sse(begun, token, overloaded), hello)
    const { result, events } = await runOnce()
    expect(outcome(result)).toMatchObject({ detail: 'overloaded', retryable: true, attempts: 1 })
    expect(textOf(events)).toBe('Hel')
    expect(events.at(-1)).toMatchObject({ type: 'stream_error', partial: true })
  })

  test('an error event in the middle of tool arguments runs nothing', async () => {
    const ran: unknown[] = []
    server.use(
      sse(
        anthropic.start(),
        anthropic.text(0, 'x'),
        anthropic.toolUse(1, 'toolu_1', 'rm', {}),
        anthropic.error('api_error', 'Internal server error'),
      ),
    )
    const { result } = await runOnce({ tools: [{ name: 'rm', run: (params) => ran.push(params) }] })
    expect([ran, result.stopReason]).toEqual([[], 'error'])
  })

  test('unknown events, unknown deltas and comments are skipped', async () => {
    server.use(
      sse(
        ': a comment\n\n',
        'event: tomorrow\ndata: {"type":"tomorrow","x":[1]}\n\n',
        anthropic.start(),
        anthropic.ping(),
        anthropic.blockStart(0, { type: 'text', text: '' }),
        anthropic.delta(0, { type: 'tomorrow_delta', text: 'no' }),
        anthropic.delta(0, { type: 'text_delta', text: 'yes' }),
        anthropic.delta(9, { type: 'signature_delta', signature: 'no' }),
        anthropic.blockStop(9),
        anthropic.blockStop(0),
        anthropic.blockStop(0),
        anthropic.end(),
      ),
    )
    const { result, events } = await runOnce()
    expect([textOf(events), result.stopReason]).toEqual(['yes', 'end_turn'])
    expect(result.blocks).toEqual([{ type: 'text', text: 'yes' }])
  })

  test('repeated events do not duplicate the text', async () => {
    server.use(
      sse(
        anthropic.start(),
        anthropic.start(),
        anthropic.blockStart(0, { type: 'text', text: '' }),
        anthropic.blockStart(0, { type: 'text', text: '' }),
        token,
        anthropic.blockStop(0),
        anthropic.blockStop(0),
        anthropic.end(),
        anthropic.end(),
      ),
    )
    const { result } = await runOnce()
    expect(result.blocks).toEqual([{ type: 'text', text: 'Hel' }])
  })

  test('a second message in the middle of the first is never joined to it', async () => {
    server.use(
      sse(begun, token, anthropic.start({}, 'msg_2'), anthropic.text(0, 'other'), anthropic.end()),
    )
    const { result, events } = await runOnce()
    expect(textOf(events)).toBe('Hel')
    expect(outcome(result)).toMatchObject({ stopReason: 'error', code: 'stream_spliced' })
  })

  test('two calls with one id are two calls with two results', async () => {
    const ran: unknown[] = []
    const tool: AgentTool = {
      name: 'note',
      run: (params) => {
        ran.push(params)
        return `noted ${JSON.stringify(params)}`
      },
    }
    server.use(sse(anthropic.calls(['same', 'note', { n: 1 }], ['same', 'note', { n: 2 }])), hello)
    const { result } = await runOnce({ tools: [tool] })
    expect(ran).toEqual([{ n: 1 }, { n: 2 }])
    expect(result.stopReason).toBe('end_turn')
    const [, requested, answered] = server.seen[1]?.body.messages ?? []
    const ids = requested.content.map(({ id }: { id: string }) => id)
    expect(new Set(ids).size).toBe(2)
    expect(answered.content.map((block: { tool_use_id: string }) => block.tool_use_id)).toEqual(ids)
    expect(JSON.stringify(answered.content[1])).toContain('"noted {\\"n\\":2}"')
  })

  test('arguments that are no JSON are reported to the model, and the run continues', async () => {
    server.use(
      sse(
        anthropic.start(),
        anthropic.blockStart(0, { type: 'tool_use', id: 'toolu_1', name: 'note', input: {} }),
        anthropic.delta(0, { type: 'input_json_delta', partial_json: '{"n": nope' }),
        anthropic.blockStop(0),
        anthropic.end('tool_use'),
      ),
      hello,
    )
    const ran: unknown[] = []
    const { result } = await runOnce({
      tools: [{ name: 'note', run: (params) => ran.push(params) }],
    })
    expect([ran, result.stopReason]).toEqual([[], 'end_turn'])
    const [, requested, answered] = server.seen[1]?.body.messages ?? []
    expect(requested.content).toEqual([
      { type: 'tool_use', id: 'toolu_1', name: 'note', input: {} },
    ])
    expect(answered.content[0]).toMatchObject({ tool_use_id: 'toolu_1', is_error: true })
  })

  test('an error inside a chat stream ends it, before a token with a retry', async () => {
    const error =
      'data: {"error":{"message":"upstream failed","type":"server_error","code":502}}\n\n'
    server.use(sse(error), sse(chat.answer('ok')))
    const again = await runOnce({}, { api: 'openai-chat' })
    expect([textOf(again.events), again.result.attempts.length]).toEqual(['ok', 2])
    server.use(sse(chat.text('Hel'), error))
    const { result } = await runOnce({}, { api: 'openai-chat' })
    expect(outcome(result)).toMatchObject({
      stopReason: 'error',
      detail: 'server_error',
      attempts: 1,
    })
  })
})

describe('many runs', () => {
  // A call may start before the connection of the last answer is free again, and then opens another: how often depends on the
  // machine. One connection for each of the 20 calls is the defect.
  const SHARED = 10

  test('in sequence share their connection', async () => {
    const engine = engineAt(server.url)
    for (let run = 0; run < 20; run++) {
      const { stopReason } = await engine.run(context()).result
      expect(stopReason).toBe('end_turn')
    }
    await engine.close()
    expect(server.seen).toHaveLength(20)
    expect(server.connections()).toBeLessThanOrEqual(SHARED)
  })

  test('the calls of a tool loop share their connection', async () => {
    server.use(
      ...Array.from({ length: 20 }, (_, n) => sse(anthropic.calls([`toolu_${n}`, 'note', {}]))),
      hello,
    )
    await runOnce({ tools: [{ name: 'note', run: () => 'ok' }] })
    expect(server.seen).toHaveLength(21)
    expect(server.connections()).toBeLessThanOrEqual(SHARED)
  })

  test('200 concurrent ones all finish', async () => {
    const engine = engineAt(server.url)
    const results = await Promise.all(
      Array.from({ length: 200 }, (_, n) => engine.run(context({ sessionLabel: `s${n}` })).result),
    )
    await engine.close()
    expect(results.filter(({ stopReason }) => stopReason === 'end_turn')).toHaveLength(200)
    expect(server.seen).toHaveLength(200)
  })
})
