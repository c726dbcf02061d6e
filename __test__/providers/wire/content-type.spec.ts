// Answers without a content type: they are read by their first bytes, for any chunking. An answer with a wrong type must never be
// read.

import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { describe, expect, test } from 'vitest'
import { afterwards, closing, serving } from '../../support/cleanup.js'
import { context, engineAt } from '../../support/engine.js'
import type { Handler } from '../../support/servers/server.js'
import { answerText, wireApis } from '../../support/servers/wire-apis.js'

/** The body that a handler would write, without its headers. */
async function bodyOf(handler: Handler): Promise<Buffer> {
  const { url } = await serving(handler)
  const response = await fetch(url, { method: 'POST', body: '{}' })
  return Buffer.from(await response.arrayBuffer())
}

/** A server that writes these bytes after a minimal head, each piece in its own packet. */
async function bare(head: string, pieces: Buffer[]) {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.setNoDelay(true)
    socket.on('error', () => {})
    let requested = ''
    const listen = async (data: Buffer) => {
      requested += data.toString('latin1')
      const length = /content-length: (\d+)/i.exec(requested)?.[1]
      const end = requested.indexOf('\r\n\r\n')
      if (end < 0 || requested.length < end + 4 + Number(length ?? 0)) return
      socket.off('data', listen)
      socket.write(`HTTP/1.1 200 OK\r\n${head}connection: close\r\n\r\n`)
      for (const piece of pieces) {
        await new Promise((resolve) => setImmediate(resolve))
        if (!socket.write(piece)) await once(socket, 'drain')
      }
      socket.end()
    }
    socket.on('data', listen)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  afterwards(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  // The server listens before the first run.
  connect(address.port, '127.0.0.1')
    .on('error', () => {})
    .end()
  return `http://127.0.0.1:${address.port}`
}

async function runAt(url: string, api: string, provider: Record<string, unknown>) {
  const engine = closing(engineAt(url, {}, { api, ...provider }))
  const { result } = engine.run(context())
  return result
}

const cut = (body: Buffer, size: number) =>
  Array.from({ length: Math.ceil(body.length / size) }, (_, at) =>
    body.subarray(at * size, (at + 1) * size),
  )

/** The first byte alone, then pieces of this many bytes. */
const CHUNKINGS: [name: string, of: (body: Buffer) => Buffer[]][] = [
  ['at once', (body) => [body]],
  ['with the first byte alone', (body) => [body.subarray(0, 1), body.subarray(1)]],
  ['with the first three bytes alone', (body) => [body.subarray(0, 3), body.subarray(3)]],
  ['byte by byte', (body) => cut(body, 1)],
]

const HEADS: [name: string, head: string][] = [
  ['no content type', ''],
  ['an empty content type', 'content-type: \r\n'],
  ['nothing but parameters', 'content-type: ; charset=utf-8\r\n'],
]

describe.each(wireApis)('an answer of $api', ({ api, provider, answer }) => {
  test.each(HEADS)('with %s is read in every chunking', async (_, head) => {
    const body = await bodyOf(answer('read by its first bytes'))
    for (const [name, of] of CHUNKINGS) {
      const result = await runAt(await bare(head, of(body)), api, provider)
      expect([name, result.stopReason, answerText(result)]).toEqual([
        name,
        'end_turn',
        'read by its first bytes',
      ])
    }
  })
})

const chat = wireApis.find(({ api }) => api === 'openai-chat')
if (chat === undefined) throw new Error('no such API')

describe('without a content type', () => {
  const whole = {
    id: 'c1',
    model: 'm',
    choices: [
      { index: 0, message: { role: 'assistant', content: 'whole' }, finish_reason: 'stop' },
    ],
    usage: { prompt_tokens: 3, completion_tokens: 1, total_tokens: 4 },
  }

  test.each([
    ['a byte order mark', '\ufeff'],
    ['blank lines', '\n\r\n\n'],
    ['a comment', ': keep-alive\n\n'],
    ['an id', 'id: 1\n'],
    ['all of them', '\ufeff\r\n\n: first\n\nretry: 3000\n'],
  ])('%s may come before the events', async (_, before) => {
    const body = Buffer.concat([Buffer.from(before), await bodyOf(chat.answer('hello'))])
    for (const [name, of] of CHUNKINGS) {
      const result = await runAt(await bare('', of(body)), chat.api, {})
      expect([name, result.stopReason, answerText(result)]).toEqual([name, 'end_turn', 'hello'])
    }
  })

  test.each(['', '\ufeff', ' \r\n'])('a whole answer in JSON is read after %j', async (before) => {
    const body = Buffer.from(before + JSON.stringify(whole))
    for (const [name, of] of CHUNKINGS) {
      const result = await runAt(await bare('', of(body)), chat.api, {})
      expect([name, result.stopReason, answerText(result)]).toEqual([name, 'end_turn', 'whole'])
    }
  })

  test('a body of type JSON may begin with a byte order mark too', async () => {
    const body = Buffer.from(`\ufeff${JSON.stringify(whole)}`)
    const result = await runAt(
      await bare('content-type: application/json\r\n', [body]),
      chat.api,
      {},
    )
    expect([result.stopReason, answerText(result)]).toEqual(['end_turn', 'whole'])
  })

  test('an error in JSON is that error', async () => {
    const body = {
      error: { message: 'no such model', type: 'invalid_request_error', code: 'model_not_found' },
    }
    const result = await runAt(await bare('', [Buffer.from(JSON.stringify(body))]), chat.api, {})
    expect(result.error?.detail.kind).toBe('model_not_found')
  })

  test.each([
    ['a page', '<!doctype html><html><title>Login</title></html>', 'not_a_stream'],
    ['words', 'database: down', 'not_a_stream'],
    ['blank lines for ever', '\n'.repeat(10_000), 'empty_response'],
    ['nothing', '', 'empty_response'],
  ])('%s is refused', async (_, text, code) => {
    const result = await runAt(await bare('', [Buffer.from(text)]), chat.api, {})
    expect([result.stopReason, result.error?.detail.code]).toEqual(['error', code])
  })

  test('a cut stream is no answer', async () => {
    const body = await bodyOf(chat.answer('hello'))
    const result = await runAt(await bare('', [body.subarray(0, 20)]), chat.api, {})
    expect([result.stopReason, result.error?.detail.code]).toEqual(['error', 'stream_truncated'])
  })
})

test.each(['text/html', 'text/plain', 'application/octet-stream', 'text/eventstream'])(
  'an answer with the content type `%s` is refused, whatever it begins with',
  async (type) => {
    const body = await bodyOf(chat.answer('hello'))
    const result = await runAt(await bare(`content-type: ${type}\r\n`, [body]), chat.api, {})
    expect([result.stopReason, result.error?.detail.code]).toEqual(['error', 'not_a_stream'])
  },
)
