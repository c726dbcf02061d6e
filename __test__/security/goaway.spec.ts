// A server that ends its HTTP/2 connection while many runs share it. It must never count a run that was repeated as one that went on.

import { readFileSync } from 'node:fs'
import {
  constants,
  createSecureServer,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { afterwards, closing } from '../support/cleanup.js'
import { context, engineAt } from '../support/engine.js'
import { chat } from '../support/servers/chat.js'

const RUNS = 8

const pem = (name: string) =>
  readFileSync(join(import.meta.dirname, '../../crates/provider/src/http/testdata', name), 'utf8')

/** A server that holds its answers until `answer` is called. */
async function holding() {
  const sessions = new Set<ServerHttp2Session>()
  const waiting: ServerHttp2Stream[] = []
  const arrived: (() => void)[] = []
  const server = createSecureServer({ key: pem('server.key.pem'), cert: pem('server.pem') })
  const counts = { connections: 0, requests: 0 }
  server.on('session', (session) => {
    counts.connections++
    sessions.add(session)
  })
  server.on('stream', (stream) => {
    counts.requests++
    stream.on('error', () => {})
    stream.resume().on('end', () => {
      waiting.push(stream)
      for (const each of arrived) each()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  afterwards(() => {
    for (const session of sessions) session.destroy()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  return {
    url: `https://localhost:${port}`,
    counts,
    sessions,
    /** Waits until this many requests are held. */
    held: (count: number) =>
      new Promise<void>((resolve) => {
        const look = () => waiting.length >= count && resolve()
        arrived.push(look)
        look()
      }),
    /** Says that nothing after the first request was looked at, and closes the connection. */
    drop() {
      waiting.length = 0
      for (const session of sessions) {
        session.goaway(constants.NGHTTP2_NO_ERROR, 1)
        session.destroy()
      }
      sessions.clear()
    },
    answer() {
      for (const stream of waiting.splice(0)) {
        stream.respond({ ':status': 200, 'content-type': 'text/event-stream' })
        stream.end(chat.answer('ok'))
      }
    },
  }
}

/** Many runs over one connection, each held by the server. */
async function sharing() {
  const server = await holding()
  const provider = { api: 'openai-chat', caCertificates: pem('ca.pem') }
  const engine = closing(engineAt(server.url, {}, provider))
  const begin = (session: number) =>
    engine.run(context({ sessionLabel: `agent:main:${session}` })).result
  const first = begin(0)
  await server.held(1)
  server.answer()
  expect((await first).text).toBe('ok')
  const running = Array.from({ length: RUNS }, (_, at) => begin(at + 1))
  await server.held(RUNS)
  expect(server.counts).toEqual({ connections: 1, requests: 1 + RUNS })
  return { server, begin, running }
}

const ended = (attempts: number) => Array.from({ length: RUNS }, () => ['ok', attempts])

test('runs go on over a connection that its server wants to end, and the next one gets another', async () => {
  const { server, begin, running } = await sharing()
  for (const session of server.sessions) session.goaway()
  server.answer()
  const results = await Promise.all(running)
  expect(results.map(({ text, attempts }) => [text, attempts.length])).toEqual(ended(1))
  const next = begin(RUNS + 1)
  await server.held(1)
  server.answer()
  expect((await next).text).toBe('ok')
  expect(server.counts).toEqual({ connections: 2, requests: 2 + RUNS })
})

test('runs that a server drops with its connection are repeated over another one, and none fails', async () => {
  const { server, running } = await sharing()
  server.drop()
  await server.held(RUNS)
  server.answer()
  const results = await Promise.all(running)
  expect(results.map(({ text, attempts }) => [text, attempts.length])).toEqual(ended(2))
  expect(server.counts.requests).toBe(1 + 2 * RUNS)
})
