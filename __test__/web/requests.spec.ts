// What `fromRequest` and `lastEventId` make of requests: bodies, limits, refusals, the client's disconnect. Of a WHATWG request and of
// Node.js alike. It must never assert a time.

import { once } from 'node:events'
import { request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http'
import { describe, expect, test } from 'vitest'
import type { StandardSchema } from '../../index.js'
import {
  fromRequest,
  lastEventId,
  type ReadRequest,
  type RequestOptions,
  WebRequestError,
} from '../../web.js'
import { httpServer } from '../support/servers/http.js'
import { gate } from '../support/servers/server.js'

type Init = { body?: string | Uint8Array; headers?: Record<string, string> }
type Read = (init: Init, options?: RequestOptions<any>) => Promise<unknown>

/** What was read without its signal, or all that was wrong. */
async function outcome(reading: Promise<ReadRequest<unknown>>) {
  try {
    const { body, lastEventId } = await reading
    return { body, lastEventId }
  } catch (error) {
    if (!(error instanceof WebRequestError)) throw error
    const { name, code, status, issues, message } = error
    return { name, code, status, issues, message }
  }
}

const whatwg: Read = (init, options) => {
  const method = init.body === undefined ? 'GET' : 'POST'
  return outcome(
    fromRequest(new Request('http://host/', { method, ...init } as RequestInit), options),
  )
}

const node: Read = async (init, options = {}) => {
  const { url } = await httpServer(async (request, response) => {
    const read = await outcome(fromRequest(request, { ...options, response }))
    response.end(JSON.stringify(read))
  })
  const method = init.body === undefined ? 'GET' : 'POST'
  return (await fetch(url, { method, ...init } as RequestInit)).json()
}

const json = (body: string | Uint8Array, headers = {}): Init => ({
  body,
  headers: { 'content-type': 'application/json', ...headers },
})

/** An error as its fields, the message made of the issues. */
const wrong = (code: string, status: number, ...issues: [string, string][]) => ({
  name: 'WebRequestError',
  code,
  status,
  issues: issues.map(([path, message]) => ({ path, message })),
  message: issues.map(([path, message]) => `\`${path}\`: ${message}`).join('; '),
})

const text: StandardSchema<unknown, { text: string }> = {
  '~standard': {
    version: 1,
    vendor: 'test',
    validate: async (value: any) =>
      typeof value?.text === 'string'
        ? { value: { text: value.text.trim() } }
        : {
            issues: [
              { message: 'is required', path: ['text'] },
              { message: 'is empty', path: [{ key: 'list' }, 0] },
              { message: 'is not a message' },
            ],
          },
  },
}

describe.each([
  ['a WHATWG request', whatwg],
  ['a request of node:http', node],
])('%s', (_, read) => {
  test('gives its JSON and its last event', async () => {
    expect(await read(json('{"a":["é🙂"]}', { 'last-event-id': '17' }))).toEqual({
      body: { a: ['é🙂'] },
      lastEventId: 17,
    })
    const types = ['application/JSON; charset=utf-8', 'application/vnd.chat+json']
    for (const type of types) {
      expect(await read(json('null', { 'content-type': type }))).toEqual({ body: null })
    }
  })

  test('may have no body', async () => {
    expect(await read({})).toEqual({})
    expect(await read({ headers: { 'last-event-id': '' } })).toEqual({})
    expect(await read({ headers: { 'last-event-id': '3' } })).toEqual({ lastEventId: 3 })
  })

  test('is refused with all that is wrong with it', async () => {
    const headers = { 'content-type': 'text/plain', 'last-event-id': '-1' }
    const last = ['headers.last-event-id', 'is not the number of an event'] as [string, string]
    const type = ['headers.content-type', 'is not `application/json`'] as [string, string]
    const body = ['body', 'is not JSON in UTF-8'] as [string, string]
    expect(await read({ body: '{"sk-secret', headers })).toEqual(
      wrong('invalid_last_event_id', 400, last, type, body),
    )
    expect(await read({ body: '{}', headers: { 'content-type': 'text/plain' } })).toEqual(
      wrong('unsupported_media_type', 415, type),
    )
    expect(await read(json('{"sk-secret'))).toEqual(wrong('invalid_json', 400, body))
    expect(await read(json(Uint8Array.of(0x22, 0xff, 0x22)))).toEqual(
      wrong('invalid_json', 400, body),
    )
  })

  test('has a body of the limit at most', async () => {
    const tooLarge = wrong('body_too_large', 413, ['body', 'has more than 5 bytes'])
    expect(await read(json('"abc"'), { maxBytes: 5 })).toEqual({ body: 'abc' })
    expect(await read(json('"abcd"'), { maxBytes: 5 })).toEqual(tooLarge)
    expect(await read(json('"éé"'), { maxBytes: 5 })).toEqual(tooLarge)
  })

  test('is what the schema made of it, or refused with the issues of the schema', async () => {
    expect(await read(json('{"text":" hi "}'), { schema: text })).toEqual({ body: { text: 'hi' } })
    const refused = wrong(
      'invalid_body',
      400,
      ['body.text', 'is required'],
      ['body.list.0', 'is empty'],
      ['body', 'is not a message'],
    )
    expect(await read(json('{}'), { schema: text })).toEqual(refused)
    expect(await read({}, { schema: text })).toEqual(refused)
  })
})

test('a number that no event has is no last event', () => {
  const of = (value: string): unknown => {
    try {
      return lastEventId(new Request('http://host/', { headers: { 'last-event-id': value } }))
    } catch (error) {
      return (error as WebRequestError).code
    }
  }
  const code = 'invalid_last_event_id'
  expect(
    ['0', '12', '9007199254740991', '9007199254740992', '1e3', '0x1', '-1', '1.5', 'a'].map(of),
  ).toEqual([0, 12, 9007199254740991, ...Array(6).fill(code)])
})

/** A POST whose body comes in pieces; what the server answered. */
async function chunked(url: string, pieces: string[]) {
  const request = httpRequest(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
  })
  request.on('error', () => {})
  for (const piece of pieces) request.write(piece)
  request.end()
  const [response] = (await once(request, 'response')) as [IncomingMessage]
  return [response.statusCode, JSON.parse(String((await response.toArray())[0]))]
}

/** Answers with what is wrong. */
async function refusing(request: IncomingMessage, response: ServerResponse) {
  const read = await outcome(fromRequest(request, { maxBytes: 64, response }))
  response.statusCode = read.status ?? 200
  response.end(JSON.stringify(read))
}

test('a body without a length is read up to the limit, and its client still gets the answer', async () => {
  const { url } = await httpServer(refusing)
  expect(await chunked(url, ['{"a":', '"b"}'])).toEqual([200, { body: { a: 'b' } }])
  const piece = 'x'.repeat(64 * 1024)
  expect(await chunked(url, ['"', ...Array(64).fill(piece), '"'])).toEqual([
    413,
    wrong('body_too_large', 413, ['body', 'has more than 64 bytes']),
  ])
})

test('a client that disconnects within its body ends the reading', async () => {
  const failed = gate()
  let message: string | undefined
  const { url } = await httpServer(async (request, response) => {
    const reading = fromRequest(request, { response })
    client.destroy()
    message = await reading.then(
      () => 'read',
      (error: Error) => error.message,
    )
    failed.open()
  })
  const client = httpRequest(url, { method: 'POST', headers: { 'content-length': '10' } })
  client.on('error', () => {})
  client.write('{')
  await failed.wait
  expect(message).toMatch(/aborted|disconnected/)
})

test('the signal is aborted when the client disconnects before its answer', async () => {
  const arrived = gate()
  const aborted = gate()
  const { url } = await httpServer(async (request, response) => {
    const { signal } = await fromRequest(request, { response })
    signal.addEventListener('abort', aborted.open)
    arrived.open()
  })
  const controller = new AbortController()
  const answer = expect(fetch(url, { signal: controller.signal })).rejects.toThrow('aborted')
  await arrived.wait
  controller.abort()
  await aborted.wait
  await answer
})

test('the signal is not aborted by a connection that closes after the answer', async () => {
  const closed = gate()
  let signal: AbortSignal | undefined
  const { url, disconnect } = await httpServer(async (request, response) => {
    signal = (await fromRequest(request, { response })).signal
    request.socket.on('close', closed.open)
    response.end('ok')
  })
  expect(await (await fetch(url)).text()).toBe('ok')
  disconnect()
  await closed.wait
  expect(signal?.aborted).toBe(false)
})

test('a WHATWG request has its own signal', async () => {
  const request = new Request('http://host/')
  expect((await fromRequest(request)).signal).toBe(request.signal)
})

test('a request of node:http without its response is a mistake of the caller', async () => {
  const { url } = await httpServer(async (request, response) => {
    const error = await fromRequest(request, {} as never).catch((error) => error)
    response.end(`${error.name}: ${error.message}`)
  })
  expect(await (await fetch(url)).text()).toBe(
    'TypeError: `response`: pass the response beside a request of Node.js',
  )
})
