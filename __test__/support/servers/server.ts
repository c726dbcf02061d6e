// A loopback HTTP server with scripted answers, byte by byte, that records its requests. It must never call another machine or
// outlive its test.

import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'

export interface Seen {
  method: string
  path: string
  headers: IncomingHttpHeaders
  body: any
  raw: string
  /** Resolves when the client closed this exchange before its end, or after it. */
  closed: Promise<void>
}

export type Handler = (response: ServerResponse, seen: Seen) => unknown

export interface TestServer {
  url: string
  seen: Seen[]
  /** TCP connections accepted so far. */
  connections(): number
  /** Resolves when every client has closed its connections. */
  deserted(): Promise<unknown>
  /** Handlers of one request each, in order; the last one answers all further ones. */
  use(...handlers: Handler[]): void
  close(): Promise<void>
}

export async function testServer(...handlers: Handler[]): Promise<TestServer> {
  const seen: Seen[] = []
  const sockets = new Set<Socket>()
  let accepted = 0
  let queue = handlers
  const server: Server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk) => chunks.push(chunk))
    request.on('end', () => {
      const raw = Buffer.concat(chunks).toString('utf8')
      const record: Seen = {
        method: request.method ?? '',
        path: request.url ?? '',
        headers: request.headers,
        raw,
        body: parse(raw),
        closed: new Promise((resolve) => response.on('close', () => resolve())),
      }
      seen.push(record)
      const handler = queue.length > 1 ? queue.shift() : queue[0]
      if (handler === undefined) {
        response.writeHead(500).end('no handler')
        return
      }
      Promise.resolve(handler(response, record)).catch((error) => response.destroy(error))
    })
  })
  server.on('connection', (socket) => {
    accepted++
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    socket.on('error', () => {})
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    seen,
    connections: () => accepted,
    deserted: () => Promise.all([...sockets].map((socket) => once(socket, 'close'))),
    use: (...next) => {
      queue = next
    },
    close: () =>
      new Promise((resolve) => {
        for (const socket of sockets) socket.destroy()
        server.close(() => resolve())
      }),
  }
}

function parse(raw: string): unknown {
  try {
    return JSON.parse(raw)
  } catch {
    return undefined
  }
}

/** Answers with a whole event stream. */
export function sse(...events: string[]): Handler {
  return (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.end(events.join(''))
  }
}

/** Answers with an error body. */
export function status(code: number, body: unknown, headers: Record<string, string> = {}): Handler {
  return (response) => {
    const text = typeof body === 'string' ? body : JSON.stringify(body)
    response.writeHead(code, { 'content-type': 'application/json', ...headers })
    response.end(text)
  }
}

/** Answers with these events and then holds the connection open. */
export function sseThenHold(...events: string[]): Handler {
  return (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write(events.join(''))
  }
}

/** A promise with its resolver. */
export function gate(): { wait: Promise<void>; open: () => void } {
  let open = () => {}
  const wait = new Promise<void>((resolve) => {
    open = resolve
  })
  return { wait, open }
}
