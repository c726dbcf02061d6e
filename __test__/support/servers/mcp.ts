// Engines with scripted MCP servers, and runs whose model calls their tools. It must never leave a server running.

import { existsSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { type AddressInfo, createServer as createTcpServer, type Socket } from 'node:net'
import { fileURLToPath } from 'node:url'
import type {
  AgentEngine,
  AgentEngineOptions,
  AssembledContext,
  Block,
  McpProcessOptions,
  ScriptedReply,
  StreamEvent,
} from '../../../index.js'
import { afterwards, closing } from '../cleanup.js'
import { context, readAll, scriptedEngine } from '../engine.js'
import { toolResultsIn } from '../tools.js'

const SERVER = fileURLToPath(new URL('../../children/mcp/server.mjs', import.meta.url))

/** What a scripted server does; see `children/mcp/server.mjs`. */
export interface ServerScript {
  log?: string
  gate?: number
  never?: boolean
  exit?: boolean
  modern?: boolean
  print?: string
  noise?: string[]
  tools?: object[]
  asks?: object
}

/** The options of a scripted server. */
export function scriptedServer(
  script: ServerScript = {},
  options: Partial<McpProcessOptions> = {},
): McpProcessOptions {
  return { command: process.execPath, args: [SERVER, JSON.stringify(script)], ...options }
}

/** Holds back the scripted servers whose `gate` is its port, until they are released. */
export async function gate() {
  const held: Socket[] = []
  let came = () => {}
  const server = createTcpServer((socket) => {
    // A server that is killed resets its connection.
    socket.on('error', () => {})
    held.push(socket)
    came()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const release = () => {
    for (const socket of held.splice(0)) socket.end('begin')
  }
  afterwards(() => {
    release()
    server.close()
  })
  /** Resolves when so many servers are held. */
  const holds = async (count: number) => {
    while (held.length < count) {
      await new Promise<void>((resolve) => {
        came = resolve
      })
    }
  }
  return { port: (server.address() as AddressInfo).port, holds, release }
}

/** An engine with these servers, and a model with these replies. It closes after the test. */
export function engineWith(
  mcp: AgentEngineOptions['mcp'],
  replies: ScriptedReply[] = [],
  options: AgentEngineOptions = {},
) {
  const { engine, provider } = scriptedEngine(replies, { mcp, ...options })
  return { engine: closing(engine), provider }
}

type Requests = ReturnType<typeof scriptedEngine>['provider']

/** One run: the results of its calls as the model received them, each as a text that says whether it is an error. */
export async function callAll(
  { engine, provider }: { engine: AgentEngine; provider: Requests },
  changes: Partial<AssembledContext> = {},
) {
  const run = engine.run(context(changes))
  const events = await readAll(run)
  const result = await run.result
  const sent = toolResultsIn(provider.requests.at(-1)?.messages ?? [])
  const texts = sent.map(({ content, isError }) => `${isError ? 'error: ' : ''}${shown(content)}`)
  return { result, events, texts, progress: progressIn(events) }
}

function shown(blocks: Block[]): string {
  const text = (block: Block) =>
    block.type === 'text' ? block.text : block.type === 'image' ? `[${block.mimeType}]` : block.type
  return blocks.map(text).join('\n')
}

function progressIn(events: StreamEvent[]): unknown[] {
  return events.flatMap((event) => (event.type === 'tool_progress' ? [event.partial] : []))
}

/** The messages that a server has received, from its log. */
export function received(log: string): { method?: string; params?: Record<string, unknown> }[] {
  if (!existsSync(log)) return []
  const lines = readFileSync(log, 'utf8').split('\n').slice(0, -1)
  return lines.map((line) => JSON.parse(line))
}

/** The address of a server that answers as `handle` does, piece by piece, until the test ends. */
export async function overFetch(handle: (request: Request) => Promise<Response>): Promise<string> {
  const server = createServer(async (request, response) => {
    const parts: Buffer[] = []
    for await (const part of request) parts.push(part as Buffer)
    const body = request.method === 'POST' ? { body: Buffer.concat(parts) } : {}
    const headers = Object.entries(request.headers).map(([name, value]): [string, string] => [
      name,
      String(value),
    ])
    const left = new AbortController()
    response.on('close', () => left.abort())
    const url = `http://127.0.0.1${request.url}`
    const { signal } = left
    const asked = new Request(url, { method: request.method ?? 'POST', headers, signal, ...body })
    const answer = await handle(asked)
    response.writeHead(answer.status, Object.fromEntries(answer.headers))
    response.flushHeaders()
    try {
      for await (const piece of answer.body ?? []) response.write(piece)
    } catch {
      // The client has gone.
    }
    response.end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  afterwards(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`
}
