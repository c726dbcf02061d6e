// Brokers for tests, over a server whose answers a test gives. It must never reach a real provider.

import type { ServerResponse } from 'node:http'
import { type AgentEngineOptions, Broker, type BrokerOptions } from '../../index.js'
import { afterwards, serving } from './cleanup.js'
import { engineAt } from './engine.js'
import { ledgerAt, newLedger } from './ledger/named.js'
import { anthropic } from './servers/anthropic.js'
import type { Seen, TestServer } from './servers/server.js'

/** A request of a model that a test answers. */
export interface Asked {
  /** The texts of the user's messages, the oldest first. */
  texts: string[]
  seen: Seen
  /** Its connection was closed, or it was answered. */
  closed: Promise<void>
  answer(text: string): void
  calls(...calls: [string, string, unknown][]): void
  refuse(status: number, message: string): void
}

const agent = { model: 'test-model', provider: 'test' }

/** The texts of the user's messages of a request. */
export function userTexts(seen: Seen): string[] {
  return seen.body.messages.flatMap(({ role, content }: { role: string; content: unknown }) => {
    if (role !== 'user') return []
    if (typeof content === 'string') return [content]
    const blocks = content as { type: string; text?: string }[]
    return blocks.flatMap(({ type, text }) => (type === 'text' && text ? [text] : []))
  })
}

/** A server whose requests wait until the test answers them. */
export async function askedServer(): Promise<{ server: TestServer; next: () => Promise<Asked> }> {
  const asked: Asked[] = []
  const waiting: ((next: Asked) => void)[] = []
  const server = await serving((response: ServerResponse, seen: Seen) => {
    const stream = (body: string) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).end(body)
    }
    const next: Asked = {
      texts: userTexts(seen),
      seen,
      closed: new Promise((resolve) => response.on('close', () => resolve())),
      answer: (text) => stream(anthropic.answer(text)),
      calls: (...calls) => stream(anthropic.calls(...calls)),
      refuse: (status, message) => {
        const body = JSON.stringify({ type: 'error', error: { type: 'api_error', message } })
        response.writeHead(status, { 'content-type': 'application/json' }).end(body)
      },
    }
    const taken = waiting.shift()
    if (taken === undefined) asked.push(next)
    else taken(next)
  })
  const next = () => {
    const first = asked.shift()
    if (first !== undefined) return Promise.resolve(first)
    return new Promise<Asked>((resolve) => waiting.push(resolve))
  }
  return { server, next }
}

/** A server that answers each request with its last text. */
export function echoing(): Promise<TestServer> {
  return serving((response, seen) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.end(anthropic.answer(`to ${userTexts(seen).at(-1)}`))
  })
}

/** A broker on a ledger of its own. */
export function brokerAt(
  url: string,
  options: Partial<BrokerOptions> = {},
  engineOptions: AgentEngineOptions = {},
) {
  const file = newLedger()
  const engine = engineAt(url, { ledger: ledgerAt(file), ...engineOptions })
  const broker = new Broker(engine, { agents: { main: agent }, ...options })
  afterwards(async () => {
    await broker.close({ drainMs: 0 })
    await engine.close()
  })
  return { engine, broker, file }
}

/** A model for trees of two: what is asked with `tree` starts an agent, which answers, and then answers itself. */
export const treeModel = (): Promise<TestServer> =>
  serving((response, { body }) => {
    const isTree = (userTexts({ body } as never)[0] ?? '').startsWith('tree')
    const isFirst = body.messages.length === 1
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    const call = anthropic.calls(['c', 'spawn_agent', { task: 'work' }])
    response.end(isTree && isFirst ? call : anthropic.answer('done'))
  })
