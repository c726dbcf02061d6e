// A call through a `fetch` of the host: a server on this machine that the engine calls, and that passes each request on. It exists for one call, and answers
// only who knows its path. It must never leave a socket open, nor be there for calls without such a function.

import { randomBytes } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { ReadableStream } from 'node:stream/web'
import type { Model, StreamOptions } from '../../pi-ai.d.ts'
import { addressOf } from './engines.ts'

/** Headers of one connection: the next one has its own. */
const OF_CONNECTION: ReadonlySet<string> = new Set([
  'connection',
  'content-encoding',
  'content-length',
  'expect',
  'host',
  'keep-alive',
  'transfer-encoding',
])

interface Bridge {
  /** In place of the model's. */
  baseUrl: string
  /** What the host's functions have thrown for the last request. */
  failure: unknown
  close(): void
}

const isBridged = ({ fetch, onResponse }: StreamOptions) =>
  fetch !== undefined || onResponse !== undefined

async function openBridge(model: Model, options: StreamOptions): Promise<Bridge> {
  if (model.api === 'bedrock-converse-stream') {
    throw new Error(
      'a request of Amazon Bedrock is signed for its host: `fetch` and `onResponse` cannot be used',
    )
  }
  if (!model.baseUrl) throw new Error('`fetch` and `onResponse` need the `baseUrl` of the model')
  const path = `/${randomBytes(16).toString('hex')}`
  const base = addressOf(model).replace(/\/$/, '')
  const server = createServer((request, response) => {
    if (!request.url?.startsWith(path)) {
      response.writeHead(404).end()
      return
    }
    const url = base + request.url.slice(path.length)
    bridge.failure = undefined
    passOn(request, response, url, model, options).catch((error) => {
      bridge.failure = error
      response.destroy()
    })
  })
  const bridge: Bridge = {
    baseUrl: '',
    failure: undefined,
    close() {
      server.close()
      server.closeAllConnections()
    },
  }
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(0, '127.0.0.1', resolve)
  })
  bridge.baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`
  return bridge
}

async function passOn(
  request: IncomingMessage,
  response: ServerResponse,
  url: string,
  model: Model,
  { fetch = globalThis.fetch, onResponse }: StreamOptions,
): Promise<void> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk)
  const controller = new AbortController()
  response.once('close', () => controller.abort())
  const answer: Response = await fetch(url, {
    method: request.method,
    headers: headersOf(Object.entries(request.headers)),
    ...(chunks.length > 0 && { body: Buffer.concat(chunks) }),
    signal: controller.signal,
  })
  const { status } = answer
  await onResponse?.({ status, headers: Object.fromEntries(answer.headers) }, model)
  response.writeHead(status, headersOf([...answer.headers]))
  if (answer.body === null) response.end()
  else await pipeline(Readable.fromWeb(answer.body as ReadableStream), response)
}

function headersOf(entries: [string, string | string[] | undefined][]): Record<string, string> {
  const passed = entries.filter(([name]) => !OF_CONNECTION.has(name))
  return Object.fromEntries(passed.map(([name, value]) => [name, String(value)]))
}

export type { Bridge }
export { isBridged, openBridge }
