// What a server with a handshake sends over HTTP without being asked: over a stream that belongs to no request. It must never depend on the
// time that a pause takes.

import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, test } from 'vitest'
import { afterwards } from '../../support/cleanup.js'
import { context } from '../../support/engine.js'
import { callAll, engineWith } from '../../support/servers/mcp.js'
import { callTools } from '../../support/tools.js'

const text = (text: string) => ({ content: [{ type: 'text', text }] })
const event = (fields: object) => `data: ${JSON.stringify({ jsonrpc: '2.0', ...fields })}\n\n`

/** A server that asks during each call, and then has another tool, if it has such a stream. */
async function speaking(hasStream: boolean) {
  const names = ['one']
  const seen: string[] = []
  let unasked: ServerResponse | undefined
  let left = () => {}
  const gone = new Promise<void>((resolve) => {
    left = resolve
  })
  let answered = (_result: unknown) => {}
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const part of request) body += part
    if (request.method === 'GET') {
      seen.push(`GET ${request.headers['mcp-session-id']} ${request.headers.accept}`)
      if (!hasStream) return response.writeHead(405).end()
      response.on('close', left)
      unasked = response.writeHead(200, { 'content-type': 'text/event-stream' })
      return response.flushHeaders()
    }
    if (request.method === 'DELETE') return response.end()
    const { id, method, result } = JSON.parse(body)
    seen.push(method ?? `answer ${id}`)
    const json = (result: object) => {
      response.writeHead(200, { 'content-type': 'application/json', 'mcp-session-id': 'm1' })
      response.end(JSON.stringify({ jsonrpc: '2.0', id, result }))
    }
    if (method === 'initialize') {
      const capabilities = { tools: { listChanged: true } }
      const serverInfo = { name: 'speaking', version: '1' }
      return json({ protocolVersion: '2025-11-25', capabilities, serverInfo })
    }
    if (method === 'tools/list') {
      return json({ tools: names.map((name) => ({ name, inputSchema: { type: 'object' } })) })
    }
    if (method === 'tools/call') {
      if (unasked === undefined) return json(text('nobody to ask'))
      const answer = new Promise((resolve) => {
        answered = resolve
      })
      unasked.write(event({ id: 'q1', method: 'elicitation/create', params: { message: 'Who?' } }))
      json(text(JSON.stringify(await answer)))
      names.push('two')
      return unasked.write(event({ method: 'notifications/tools/list_changed' }))
    }
    if (id === 'q1') answered(result)
    response.writeHead(202).end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  afterwards(() => {
    server.closeAllConnections()
    server.close()
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`
  return { url, seen, gone }
}

test('a server asks, and says that its tools changed, over a stream of its own, which ends with the engine', async () => {
  const { url, seen, gone } = await speaking(true)
  const onElicitation = ({ message }: { message: string }) => ({
    action: 'accept' as const,
    content: { message },
  })
  const { engine, provider } = engineWith({ s: { url, onElicitation } }, [
    callTools(['s__one', {}]),
    'done',
    'next',
  ])
  expect((await callAll({ engine, provider })).texts).toEqual([
    '{"action":"accept","content":{"message":"Who?"}}',
  ])
  expect(seen.slice(0, 4)).toEqual([
    'initialize',
    'notifications/initialized',
    'GET m1 text/event-stream',
    'tools/list',
  ])
  // The notification crosses the process: until it is there the tools are the old ones.
  const lists = () => seen.filter((method) => method === 'tools/list').length
  while (lists() < 2) await engine.mcp.tools()
  await engine.run(context()).result
  expect([lists(), provider.requests.at(-1)?.tools]).toEqual([2, ['s__one', 's__two']])
  await engine.close()
  await gone
})

test('a server without such a stream is used as it is', async () => {
  const { url, seen } = await speaking(false)
  const { engine, provider } = engineWith({ s: { url } }, [callTools(['s__one', {}]), 'done'])
  expect((await callAll({ engine, provider })).texts).toEqual(['nobody to ask'])
  expect(seen).toContain('GET m1 text/event-stream')
  await engine.close()
})
