// MCP servers whose streams are cut, resumed and stay open: an answer that continues after its last event, and subscriptions to changes. It must
// never depend on the time that a pause takes.

import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server'
import { expect, test } from 'vitest'
import * as z from 'zod'
import { afterwards, folder } from '../../support/cleanup.js'
import { context } from '../../support/engine.js'
import {
  callAll,
  engineWith,
  overFetch,
  received,
  scriptedServer,
} from '../../support/servers/mcp.js'
import { callTools } from '../../support/tools.js'

const serverInfo = { name: 'resuming', version: '1' }
const listed = { tools: [{ name: 'long', inputSchema: { type: 'object' } }] }
type Respond = (response: ServerResponse, id: unknown, last: string | undefined) => void

/** A server whose answer to a call is written by `respond`, for the call (`last` undefined) and for each resumption of it. */
async function resuming(respond: Respond) {
  const resumed: (string | undefined)[] = []
  let calling: unknown
  const server = createServer((request, response) => {
    let body = ''
    request.on('data', (part) => {
      body += part
    })
    request.on('end', () => {
      const json = (id: unknown, result: object) => {
        response.setHeader('content-type', 'application/json')
        response.end(JSON.stringify({ jsonrpc: '2.0', id, result }))
      }
      if (request.method === 'GET') {
        const last = String(request.headers['last-event-id'])
        resumed.push(last)
        response.setHeader('content-type', 'text/event-stream')
        return respond(response, calling, last)
      }
      const { id, method } = body === '' ? ({} as never) : JSON.parse(body)
      if (id === undefined) return response.writeHead(202).end()
      if (method === 'initialize') {
        const capabilities = { tools: {} }
        return json(id, { protocolVersion: '2025-11-25', capabilities, serverInfo })
      }
      if (method === 'tools/list') return json(id, listed)
      calling = id
      response.setHeader('content-type', 'text/event-stream')
      respond(response, id, undefined)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  afterwards(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`, resumed }
}

const message = (fields: object) => `data: ${JSON.stringify({ jsonrpc: '2.0', ...fields })}\n\n`
const progressed = (progress: number) =>
  message({ method: 'notifications/progress', params: { progressToken: 'x', progress } })
const done = (id: unknown) => message({ id, result: { content: [{ type: 'text', text: 'done' }] } })

const call = callTools(['s__long', {}])

test('an answer that ends before its result is resumed after its last whole event, as often as it brings something', async () => {
  const { url, resumed } = await resuming((response, id, last) => {
    if (last === undefined) {
      response.write(`id: a1\nretry: 1\n${progressed(1)}`)
      // Cut in the middle of the next event.
      return response.end('id: a2\ndata: {"jsonrpc":')
    }
    const at = Number(last.slice(1))
    if (at < 6) return response.end(`id: a${at + 1}\n${progressed(at)}`)
    response.end(`id: a7\n${done(id)}`)
  })
  const { texts } = await callAll(engineWith({ s: { url } }, [call, 'ok']))
  expect(texts).toEqual(['done'])
  expect(resumed).toEqual(['a1', 'a2', 'a3', 'a4', 'a5', 'a6'])
})

test('an answer that is not resumed, or brings nothing more, is an error of its call', async () => {
  const refusing = await resuming((response, _, last) => {
    if (last === undefined) return response.end(`id: 1\nretry: 1\n${progressed(1)}`)
    response.writeHead(405).end()
  })
  const refused = await callAll(engineWith({ s: { url: refusing.url } }, [call, 'ok']))
  expect(refused.texts).toEqual([
    'error: MCP server `s` ended its answer before the result, and does not resume it (HTTP 405)',
  ])
  const silent = await resuming((response, _, last) => {
    response.end(last === undefined ? `id: 1\nretry: 1\n${progressed(1)}` : ': nothing\n\n')
  })
  const ended = await callAll(engineWith({ s: { url: silent.url } }, [call, 'ok']))
  expect(ended.texts).toEqual(['error: MCP server `s` ended its answer before the result'])
  expect(silent.resumed).toEqual(['1', '1', '1'])
  const unnumbered = await resuming((response) => response.end(progressed(1)))
  const cut = await callAll(engineWith({ s: { url: unnumbered.url } }, [call, 'ok']))
  expect(cut.texts).toEqual(['error: MCP server `s` ended its answer before the result'])
  expect(unnumbered.resumed).toEqual([])
})

test('a server without a handshake is subscribed to, and a change takes effect at the next run', async () => {
  const names = ['one']
  const handler = createMcpHandler(() => {
    const server = new McpServer({ name: 'growing', version: '1' })
    for (const name of names) {
      server.registerTool(name, { inputSchema: z.object({}) }, async () => ({ content: [] }))
    }
    return server
  })
  afterwards(() => handler.close())
  let listening = () => {}
  const subscribed = new Promise<void>((resolve) => {
    listening = resolve
  })
  const methods: string[] = []
  const url = await overFetch(async (request) => {
    const { method } = (await request.clone().json()) as { method: string }
    methods.push(method)
    const response = await handler.fetch(request)
    if (method === 'subscriptions/listen') listening()
    return response
  })
  const { engine, provider } = engineWith({ s: { url, protocol: '2026-07-28' } }, ['a', 'b', 'c'])
  const offered = async () => {
    await engine.run(context()).result
    return provider.requests.at(-1)?.tools
  }
  expect(await offered()).toEqual(['s__one'])
  await subscribed
  names.push('two')
  handler.notify.toolsChanged()
  // The notification crosses the process: until it is there the tools are the old ones, and after that the new ones.
  while (methods.filter((method) => method === 'tools/list').length < 2) await engine.mcp.tools()
  expect(await offered()).toEqual(['s__one', 's__two'])
  const lists = () => methods.filter((method) => method === 'tools/list').length
  const before = lists()
  await offered().catch(() => {})
  expect(lists()).toBe(before)
  await engine.close()
})

test('over stdio the subscription is one request, which ends with the server', async () => {
  const log = join(folder().path, 'log')
  const { engine, provider } = engineWith(
    { s: scriptedServer({ modern: true, log }, { protocol: '2026-07-28' }) },
    [callTools(['s__grow', {}]), 'grown', 'next'],
  )
  await engine.run(context()).result
  await engine.run(context()).result
  expect(provider.requests.at(-1)?.tools).toContain('s__grown')
  const listens = received(log).filter(({ method }) => method === 'subscriptions/listen')
  expect(listens.map(({ params }) => params?.notifications)).toEqual([{ toolsListChanged: true }])
  await engine.close()
})
