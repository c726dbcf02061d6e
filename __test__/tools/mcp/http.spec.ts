// MCP servers over HTTP: answers as JSON and as events, sessions, tokens, refusals, and secrets that nothing shows. What a run makes of tools is
// calls.spec.ts.

import { readdirSync, readFileSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { join } from 'node:path'
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server'
import { expect, test } from 'vitest'
import * as z from 'zod'
import { AgentEngine, type McpTokenRequest } from '../../../index.js'
import { folder } from '../../support/cleanup.js'
import { context } from '../../support/engine.js'
import { callAll, engineWith, overFetch } from '../../support/servers/mcp.js'
import { json, overHttp, text } from '../../support/servers/mcp-http.js'
import { callTools } from '../../support/tools.js'

const call = callTools(['s__echo', { n: 1 }])

test('a session is begun, named with each request, and ended with the engine', async () => {
  const { url, seen } = await overHttp()
  const { engine, provider } = engineWith({ s: { url, headers: { 'x-team': 'red' } } }, [
    call,
    'done',
  ])
  expect((await callAll({ engine, provider })).texts).toEqual(['ok'])
  await engine.close()
  const shown = seen.map(({ verb, method, headers }) => [
    verb,
    method,
    headers['mcp-session-id'],
    headers['mcp-protocol-version'],
    headers['x-team'],
  ])
  const named = ['session-1', '2025-06-18', 'red']
  expect(shown).toEqual([
    ['POST', 'initialize', undefined, undefined, 'red'],
    ['POST', 'notifications/initialized', ...named],
    ['POST', 'tools/list', ...named],
    ['POST', 'tools/call', ...named],
    ['DELETE', undefined, 'session-1', undefined, 'red'],
  ])
})

test('an answer is a stream of events: progress, requests of the server, and the result', async () => {
  const { url, seen } = await overHttp(({ id, params }, response) => {
    response.setHeader('content-type', 'text/event-stream')
    const event = (message: object) => `data: ${JSON.stringify({ jsonrpc: '2.0', ...message })}\n\n`
    const progressToken = params._meta?.progressToken
    response.write(
      event({ method: 'notifications/progress', params: { progressToken, progress: 1 } }),
    )
    response.write(event({ id: 'q', method: 'ping' }))
    response.write(event({ id: 999, result: text('of another') }))
    response.end(event({ id, result: text('streamed') }))
  })
  const { engine, provider } = engineWith({ s: { url } }, [call, 'done'])
  const { texts, progress } = await callAll({ engine, provider })
  expect(texts).toEqual(['streamed'])
  expect(progress).toEqual([{ content: [], details: { progress: 1, total: null, message: null } }])
  await expect.poll(() => seen.filter(({ method }) => method === undefined).length).toBe(1)
})

const refusal = (message: string, id: unknown = null) =>
  JSON.stringify({ jsonrpc: '2.0', error: { code: -32000, message }, id })

test.each([
  ['404', 404, ''],
  ['400 without a valid id', 400, refusal('Bad Request: No valid session ID provided')],
  ['400 as a new server', 400, refusal('Bad Request: Server not initialized')],
])(
  'a session that the server has ended is begun again, and the request is repeated in it: %s',
  async (_, status, body) => {
    const { url, seen } = await overHttp(({ id }, response, { headers }) => {
      if (headers['mcp-session-id'] === 'session-1') response.writeHead(status).end(body)
      else json(response, id, text('again'))
    })
    const { engine, provider } = engineWith({ s: { url } }, [call, 'done'])
    expect((await callAll({ engine, provider })).texts).toEqual(['again'])
    expect(seen.filter(({ method }) => method === 'initialize')).toHaveLength(2)
    const other = await overHttp(({ id }, response, { headers }) => {
      if (headers['mcp-session-id'] === 'session-1') response.writeHead(status).end(body)
      else json(response, id, { contents: [{ uri: 'file:///a', text: 'read again' }] })
    })
    const { engine: reader } = engineWith({ s: { url: other.url } })
    expect(await reader.mcp.readResource('s', 'file:///a')).toEqual([
      { uri: 'file:///a', text: 'read again' },
    ])
  },
)

test('a call that the server has refused by its id is not repeated', async () => {
  const { url, seen } = await overHttp(({ id }, response) =>
    response.writeHead(400).end(refusal('the session has no such book', id)),
  )
  const { engine, provider } = engineWith({ s: { url } }, [call, 'done'])
  const { texts } = await callAll({ engine, provider })
  expect(texts).toEqual([
    'error: MCP server `s` answered an error: the session has no such book (code -32000)',
  ])
  expect(seen.filter(({ method }) => method === 'tools/call')).toHaveLength(1)
})

test('an abort ends the request, and tells the server', async () => {
  let begin = () => {}
  const began = new Promise<void>((resolve) => {
    begin = resolve
  })
  const { url, seen } = await overHttp(() => begin())
  const { engine } = engineWith({ s: { url } }, [call])
  const run = engine.run(context())
  await began
  run.abort()
  expect((await run.result).stopReason).toBe('aborted')
  await expect.poll(() => seen.map(({ method }) => method)).toContain('notifications/cancelled')
})

test.each([
  [
    'a status',
    (response: ServerResponse) => response.writeHead(503).end('secret-in-a-page'),
    'answered HTTP 503',
  ],
  [
    'a redirect',
    (response: ServerResponse) =>
      response.writeHead(307, { location: 'http://127.0.0.1:1/' }).end(),
    'redirects elsewhere',
  ],
  [
    'no message',
    (response: ServerResponse) => response.end('<html>'),
    'answered what is no message of the protocol',
  ],
  [
    'half a stream',
    (response: ServerResponse) =>
      response.writeHead(200, { 'content-type': 'text/event-stream' }).end(': hi\n\n'),
    'ended its answer before the result',
  ],
  ['a reset', (response: ServerResponse) => response.destroy(), '127.0.0.1'],
])('an answer that is none is an error of the call: %s', async (_, answer, expected) => {
  const { url } = await overHttp((_message, response) => answer(response))
  const { engine, provider } = engineWith({ s: { url } }, [call, 'done'])
  const { texts, result } = await callAll({ engine, provider })
  expect(texts[0]).toMatch(/^error: MCP server `s` /)
  expect(texts[0]).toContain(expected)
  expect(texts[0]).not.toContain('secret-in-a-page')
  expect(result.stopReason).toBe('end_turn')
})

test('a token comes from the host, is renewed once when it is refused, and is in nothing else', async () => {
  const tokens: boolean[] = []
  const { url, seen } = await overHttp((message, response, { headers }) => {
    if (headers.authorization === 'Bearer canary-token-1') return response.writeHead(401).end()
    response.setHeader('content-type', 'application/json')
    const error = { code: -1, message: `${headers.authorization} and ${headers['x-second']}` }
    response.end(JSON.stringify({ jsonrpc: '2.0', id: message.id, error }))
  })
  const { path, file } = folder()
  const auth = ({ server, refused }: { server: string; refused: boolean }) => {
    expect(server).toBe('s')
    tokens.push(refused)
    return `canary-token-${tokens.length}`
  }
  const { engine, provider } = engineWith(
    { s: { url, auth, headers: { 'x-second': 'canary-second' } } },
    [call, 'done'],
    { ledger: { path: file } },
  )
  const { texts, events, result } = await callAll({ engine, provider })
  expect(texts[0]).toMatch(/^error: MCP server `s` answered an error: /)
  expect(tokens).toEqual([false, true])
  expect(seen.at(-1)?.headers.authorization).toBe('Bearer canary-token-2')
  const states = engine.mcp.servers()
  await engine.close()
  expect(JSON.stringify([texts, events, result, states])).not.toContain('canary')
  for (const name of readdirSync(path)) {
    expect(readFileSync(join(path, name)).includes('canary')).toBe(false)
  }
})

test('the host sees what a server wants, gives no token before, and one for all that wait; more is asked for once in a request', async () => {
  const wants = 'Bearer resource_metadata="https://s.example/about", scope="read"'
  const more = 'Bearer error="insufficient_scope", scope="write"'
  let initialized = 0
  const { url, seen } = await overHttp(
    ({ id }, response, { headers }) => {
      if (headers.authorization !== 'Bearer canary-write') {
        return response.writeHead(403, { 'www-authenticate': more }).end()
      }
      json(response, id, text('written'))
    },
    ({ headers }, response) => {
      if (headers.authorization !== undefined) return false
      initialized += 1
      response.writeHead(401, { 'www-authenticate': wants }).end()
      return true
    },
  )
  const asked: unknown[] = []
  const auth = async (request: McpTokenRequest) => {
    asked.push(request)
    if (!request.refused) return null
    return request.challenge === wants ? 'canary-read' : 'canary-write'
  }
  const { engine, provider } = engineWith({ s: { url, auth } }, [call, 'done'])
  const { texts, result, events } = await callAll({ engine, provider })
  expect([texts, initialized]).toEqual([['written'], 1])
  expect(asked).toEqual([
    { server: 's', refused: false },
    { server: 's', refused: true, challenge: wants },
    { server: 's', refused: true, challenge: more },
  ])
  const shown = JSON.stringify([texts, result, events, engine.mcp.servers()])
  expect(shown).not.toContain('canary')
  const calls = seen.filter(({ method }) => method === 'tools/call')
  expect(calls.map(({ headers }) => headers.authorization)).toEqual([
    'Bearer canary-read',
    'Bearer canary-write',
  ])
})

test('a host that has no token, or fails, is an error of the server that says so, and no failed run', async () => {
  const { url } = await overHttp(undefined, (_, response) => {
    response.writeHead(401, { 'www-authenticate': 'Bearer' }).end()
    return true
  })
  for (const [auth, why] of [
    [() => null, 'refuses the credentials (HTTP 401)'],
    [() => Promise.reject(new Error('nobody is logged in')), '`auth` failed: nobody is logged in'],
  ] as const) {
    const { engine } = engineWith({ s: { url, auth } }, ['done'])
    const { stopReason, warnings } = await engine.run(context()).result
    expect(stopReason).toBe('end_turn')
    expect(JSON.stringify(warnings)).toContain(why)
    expect(engine.mcp.servers()[0]).toMatchObject({
      name: 's',
      error: expect.stringContaining(why),
    })
  }
})

test.each([
  ['with a handshake', 'auto', '2025-11-25'],
  ['without one', '2026-07-28', '2026-07-28'],
] as const)(
  'a tool of the library of the protocol is called over HTTP, %s',
  async (_, protocol, spoken) => {
    const handler = createMcpHandler(() => {
      const server = new McpServer({ name: 'adder', version: '1' })
      const schemas = {
        inputSchema: z.object({ a: z.number() }),
        outputSchema: z.object({ sum: z.number() }),
      }
      server.registerTool('add one', schemas, async ({ a }) => ({
        content: [{ type: 'text', text: `${a + 1}` }],
        structuredContent: { sum: a + 1 },
      }))
      return server
    })
    const url = await overFetch((request) => handler.fetch(request))
    const { engine, provider } = engineWith({ s: { url, protocol } })
    const [tool] = await engine.mcp.tools()
    expect([tool?.tool, engine.mcp.servers()[0]?.protocol]).toEqual(['add one', spoken])
    expect(provider.requests).toEqual([])
    const name = tool?.name ?? ''
    const second = engineWith({ s: { url, protocol } }, [
      callTools([name, { a: 1 }], [name, { a: 'x' }]),
      'done',
    ])
    const { texts, result } = await callAll(second)
    expect(texts[0]).toBe('2')
    expect(texts[1]).toMatch(/^error: .*a: must be number/s)
    expect(result.toolCalls[0]?.result).toMatchObject({ structuredContent: { sum: 2 } })
  },
)

test('addresses are checked like those of providers', () => {
  const refused = (options: object) => {
    try {
      new AgentEngine({ mcp: { s: options as never } })
    } catch (error) {
      return (error as Error).message
    }
    return 'accepted'
  }
  expect(refused({ url: 'http://example.com' })).toContain('mcp.s.url')
  expect(refused({ url: 'http://169.254.169.254/', allowInsecure: true })).toContain(
    'metadata address',
  )
  expect(refused({ url: 'https://user:secret@example.com' })).not.toContain('secret')
  expect(refused({ url: 'https://example.com', headers: { host: 'x' } })).toContain(
    'mcp.s.headers.host',
  )
  expect(refused({ url: 'https://example.com', auth: 'token' })).toContain('mcp.s.auth')
})
