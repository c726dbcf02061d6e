// An MCP server over HTTP with sessions, whose answers a test writes. It must never outlive its test.

import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterwards } from '../cleanup.js'

export interface Message {
  id?: number | string
  method: string
  params: { name?: string; arguments?: object; _meta?: { progressToken?: number } }
}
export interface Seen {
  verb: string | undefined
  headers: IncomingHttpHeaders
  method: string | undefined
}
type Answer = (message: Message, response: ServerResponse, seen: Seen) => unknown

export const text = (text: string) => ({ content: [{ type: 'text', text }] })
const capabilities = { tools: {}, resources: {}, prompts: {} }
const serverInfo = { name: 'over http', version: '1' }
const inputSchema = { type: 'object' }
const listed = { tools: [{ name: 'echo', inputSchema }] }

/** Answers a message as JSON. */
export const json = (response: ServerResponse, id: unknown, result: object) => {
  response.setHeader('content-type', 'application/json')
  response.end(JSON.stringify({ jsonrpc: '2.0', id, result }))
}

/** A server that begins a session, and leaves calls of tools and all that it does not know to `answer`, where it does not `refuse` the request. */
export async function overHttp(
  answer: Answer = ({ id }, response) => json(response, id, text('ok')),
  refuse: (seen: Seen, response: ServerResponse, message?: Message) => boolean = () => false,
) {
  const seen: Seen[] = []
  let sessions = 0
  const server = createServer((request, response) => {
    let body = ''
    request.on('data', (part) => {
      body += part
    })
    request.on('end', () => {
      const message = body === '' ? undefined : (JSON.parse(body) as Message)
      const about = { verb: request.method, headers: request.headers, method: message?.method }
      seen.push(about)
      if (refuse(about, response, message)) return
      if (message === undefined) return response.writeHead(200).end()
      const { id, method } = message
      if (id === undefined || method === undefined) return response.writeHead(202).end()
      if (method === 'initialize') {
        response.setHeader('mcp-session-id', `session-${++sessions}`)
        return json(response, id, { protocolVersion: '2025-06-18', capabilities, serverInfo })
      }
      if (method === 'tools/list') return json(response, id, listed)
      return answer(message, response, about)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  afterwards(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}/mcp/`, seen }
}
