// `createMcpOAuth`: logins of a user at the authorization server that an MCP server trusts, and what it refuses. The protocol's own scenarios are a
// proof (`npm run proof:mcp`). It must never reach a server but its own.

import { createHash } from 'node:crypto'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, test } from 'vitest'
import { createMcpOAuth, type McpOAuthOptions, type McpOAuthState } from '../../../index.js'
import { afterwards, folder } from '../../support/cleanup.js'
import { callAll, engineWith } from '../../support/servers/mcp.js'
import { callTools } from '../../support/tools.js'

type Fields = Record<string, unknown>
/** What a test changes: the documents, the scopes of a tool, the address to which the browser is sent back. */
interface Changes {
  resource?: Fields
  server?: Fields
  scope?: string
  back?: (url: URL) => void
  token?: (response: ServerResponse) => unknown
  /** What the authorization server answers to a request for tokens before it does anything. */
  refresh?: (response: ServerResponse) => boolean
}

const redirectUri = 'http://127.0.0.1:9/callback'
const serverInfo = { name: 'guarded', version: '1' }

/** An MCP server at `/mcp`, and the authorization server that it trusts. Tokens are `canary-1`, `canary-2` … */
async function guarded(changes: Changes = {}) {
  const seen: [path: string, body: Fields | undefined][] = []
  const valid = new Set<string>()
  let issued = 0
  let scope: string | undefined
  const server = createServer(async (request, response) => {
    let text = ''
    for await (const part of request) text += part
    const path = request.url ?? ''
    const isForm = request.headers['content-type']?.includes('urlencoded')
    const body = isForm ? Object.fromEntries(new URLSearchParams(text)) : text && JSON.parse(text)
    if (path !== '/mcp') seen.push([path, body || undefined])
    const json = (value: object, status = 200) =>
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))
    const documents: Record<string, Fields> = {
      '/about': {
        resource: `${url}/mcp`,
        authorization_servers: [url],
        scopes_supported: ['read'],
        ...changes.resource,
      },
      '/.well-known/oauth-authorization-server': {
        issuer: url,
        authorization_endpoint: `${url}/authorize`,
        token_endpoint: `${url}/token`,
        registration_endpoint: `${url}/register`,
        code_challenge_methods_supported: ['S256'],
        token_endpoint_auth_methods_supported: ['none'],
        ...changes.server,
      },
    }
    const document = documents[path]
    if (document !== undefined) return json(document)
    if (path === '/register') return json({ client_id: 'registered' }, 201)
    if (path === '/token') {
      if (changes.token !== undefined) return changes.token(response)
      if (body.grant_type === 'refresh_token' && changes.refresh?.(response)) return
      if (body.grant_type === 'refresh_token' && body.refresh_token !== `refresh-${issued}`) {
        return json({ error: 'invalid_grant', error_description: 'canary-text' }, 400)
      }
      const token = `canary-token-${++issued}`
      valid.add(token)
      return json({
        access_token: token,
        token_type: 'Bearer',
        refresh_token: `refresh-${issued}`,
        expires_in: 3_600,
        ...(scope && { scope }),
      })
    }
    if (path !== '/mcp') return response.writeHead(404).end()
    const challenge = (text: string, status: number) =>
      response.writeHead(status, { 'www-authenticate': `Bearer ${text}` }).end()
    const token = request.headers.authorization?.replace('Bearer ', '') ?? ''
    if (!valid.has(token)) return challenge(`resource_metadata="${url}/about"`, 401)
    const { id, method } = body
    if (id === undefined) return response.writeHead(202).end()
    const result = (value: object) => json({ jsonrpc: '2.0', id, result: value })
    if (method === 'initialize') {
      return result({ protocolVersion: '2025-06-18', capabilities: { tools: {} }, serverInfo })
    }
    if (method === 'tools/list') {
      return result({ tools: [{ name: 'echo', inputSchema: { type: 'object' } }] })
    }
    if (changes.scope !== undefined && !scope?.includes(changes.scope)) {
      return challenge(`error="insufficient_scope", scope="${changes.scope}"`, 403)
    }
    result({ content: [{ type: 'text', text: 'let in' }] })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  afterwards(() => {
    server.closeAllConnections()
    server.close()
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const logins: Fields[] = []
  /** A user who agrees to everything. */
  const authorize = (address: string) => {
    const { searchParams } = new URL(address)
    const wanted = Object.fromEntries(searchParams)
    logins.push(wanted)
    scope = wanted.scope
    const back = new URL(redirectUri)
    back.searchParams.set('state', wanted.state ?? '')
    back.searchParams.set('code', 'a code')
    changes.back?.(back)
    return back.href
  }
  const options: McpOAuthOptions = { url: `${url}/mcp`, redirectUri, authorize }
  return { url, options, seen, logins, revoke: () => valid.clear() }
}

const call = callTools(['s__echo', {}])

test('a server that wants a login gets one: found by its metadata, registered, with PKCE, for this server, and renewed without the user', async () => {
  const { url, options, seen, logins, revoke } = await guarded()
  const { path, file } = folder()
  let stored: McpOAuthState | undefined
  const save = (state: McpOAuthState) => {
    stored = state
  }
  const mcp = { s: { url: `${url}/mcp`, auth: createMcpOAuth({ ...options, save }) } }
  const { engine, provider } = engineWith(mcp, [call, 'done', call, 'done'], {
    ledger: { path: file },
  })
  const first = await callAll({ engine, provider })
  expect(first.texts).toEqual(['let in'])
  const [login] = logins
  const { code_challenge: challenge, state, ...wanted } = login ?? {}
  expect(wanted).toEqual({
    response_type: 'code',
    client_id: 'registered',
    redirect_uri: redirectUri,
    code_challenge_method: 'S256',
    scope: 'read',
    resource: `${url}/mcp`,
  })
  expect(String(state).length).toBeGreaterThan(40)
  const [, , registration, exchange] = seen.map(([, body]) => body)
  expect(seen.map(([path]) => path)).toEqual([
    '/about',
    '/.well-known/oauth-authorization-server',
    '/register',
    '/token',
  ])
  expect(registration).toMatchObject({ redirect_uris: [redirectUri] })
  const { code_verifier: verifier, ...sent } = exchange ?? {}
  expect(createHash('sha256').update(String(verifier)).digest('base64url')).toBe(challenge)
  expect(sent).toEqual({
    grant_type: 'authorization_code',
    code: 'a code',
    redirect_uri: redirectUri,
    client_id: 'registered',
    resource: `${url}/mcp`,
  })

  revoke()
  const second = await callAll({ engine, provider })
  // The second request has the results of both runs.
  expect([second.texts, logins.length]).toEqual([['let in', 'let in'], 1])
  expect(seen.at(-1)).toEqual([
    '/token',
    {
      grant_type: 'refresh_token',
      refresh_token: 'refresh-1',
      client_id: 'registered',
      resource: `${url}/mcp`,
    },
  ])
  expect(stored?.tokens?.accessToken).toBe('canary-token-2')
  expect(JSON.stringify([first, second, engine.mcp.servers()])).not.toContain('canary')

  // Another process begins with what was stored.
  const next = createMcpOAuth({ ...options, load: () => stored })
  expect(await next({ server: 's', refused: false })).toMatchObject({ key: 'canary-token-2' })
  expect([logins.length, path.length > 0]).toEqual([1, true])
})

test('more is asked for where a tool wants more, once', async () => {
  const { url, options, logins } = await guarded({ scope: 'write' })
  const auth = createMcpOAuth(options)
  const { engine, provider } = engineWith({ s: { url: `${url}/mcp`, auth } }, [call, 'done'])
  expect((await callAll({ engine, provider })).texts).toEqual(['let in'])
  expect(logins.map(({ scope }) => scope)).toEqual(['read', 'read write'])
  // The refusal of the tool does not name the metadata again.
  expect(logins.map(({ resource }) => resource)).toEqual([`${url}/mcp`, `${url}/mcp`])
  const again = {
    server: 's',
    refused: true,
    challenge: 'Bearer error="insufficient_scope", scope="write"',
  }
  await expect(auth(again)).rejects.toThrow('does not satisfy the server')
  expect(logins).toHaveLength(2)
})

test('a user is asked again for more once another token is refused, and after a login that failed', async () => {
  const { url, options, logins } = await guarded({ scope: 'write' })
  let isOpen = false
  const auth = createMcpOAuth({
    ...options,
    authorize: (address) => {
      if (!isOpen) throw new Error('the browser was closed')
      return options.authorize?.(address) ?? ''
    },
  })
  const first = { server: 's', refused: true, challenge: `Bearer resource_metadata="${url}/about"` }
  const more = {
    server: 's',
    refused: true,
    challenge: 'Bearer error="insufficient_scope", scope="write"',
  }
  isOpen = true
  await auth(first)
  isOpen = false
  await expect(auth(more)).rejects.toThrow('the browser was closed')
  isOpen = true
  expect(await auth(more)).toMatchObject({ key: 'canary-token-2' })
  await expect(auth(more)).rejects.toThrow('does not satisfy the server')
  // The token is renewed, and the new one has less: that is another question.
  expect(await auth(first)).toMatchObject({ key: 'canary-token-3' })
  expect(await auth(more)).toMatchObject({ key: 'canary-token-4' })
  expect(logins.map(({ scope }) => scope)).toEqual(['read', 'read write', 'read write'])
})

test.each<[string, (response: ServerResponse) => void, boolean]>([
  ['a status', (response) => response.writeHead(503).end(), true],
  ['a reset', (response) => response.destroy(), true],
  ['an overload', (response) => response.writeHead(429).end('{"error":"slow_down"}'), true],
  ['a page', (response) => response.end('<html>'), true],
  ['a refusal', (response) => response.writeHead(400).end('{"error":"invalid_grant"}'), false],
  [
    'an end of the client',
    (response) => response.writeHead(401).end('{"error":"invalid_client"}'),
    false,
  ],
])('a refresh token outlives an outage, and no refusal of it: %s', async (_, answer, outlives) => {
  let isDown = true
  const { url, options, logins, seen } = await guarded({
    refresh: (response) => {
      if (isDown) answer(response)
      return isDown
    },
  })
  let stored: McpOAuthState | undefined
  const auth = createMcpOAuth({
    ...options,
    save: (state) => {
      stored = state
    },
  })
  const wanted = {
    server: 's',
    refused: true,
    challenge: `Bearer resource_metadata="${url}/about"`,
  }
  await auth(wanted)
  const registrations = () => seen.filter(([path]) => path === '/register').length
  if (!outlives) {
    isDown = true
    expect(await auth(wanted)).toMatchObject({ key: 'canary-token-2' })
    const registered = String(answer).includes('invalid_client') ? 2 : 1
    expect([logins.length, registrations()]).toEqual([2, registered])
    return
  }
  await expect(auth(wanted)).rejects.toThrow(/127\.0\.0\.1/)
  expect(stored?.tokens).toMatchObject({ refreshToken: 'refresh-1' })
  isDown = false
  expect(await auth(wanted)).toMatchObject({ key: 'canary-token-2' })
  expect([logins.length, registrations()]).toEqual([1, 1])
})

test('a server cannot have internal addresses called that the host does not allow', async () => {
  const refusedAt = async (server: string, address: string, options: object = {}) => {
    const auth = createMcpOAuth({
      url: server,
      client: { clientId: 'a', clientSecret: 'b' },
      ...options,
    })
    const challenge = `Bearer resource_metadata="${address}"`
    return String(await auth({ server: 's', refused: true, challenge }).catch((error) => error))
  }
  const open = 'https://mcp.example.com/mcp'
  for (const host of [
    '169.254.169.254',
    '2852039166',
    '0xa9.254.169.254',
    '[::ffff:169.254.169.254]',
    '[fd00:ec2::254]',
    '[fe80::1]',
    'metadata.google.internal',
    'localhost',
    'localhost.',
    'database',
    'db.internal',
    '10.0.0.8',
    '172.20.0.1',
    '192.168.1.1',
    '100.64.0.1',
    '127.0.0.1',
    '0.0.0.0',
    '[::]',
    '[::1]',
    '[fc00::1]',
  ]) {
    expect(await refusedAt(open, `https://${host}/about`)).toContain('is an internal address')
  }
  // A server of the own network may have its login there, but never at a metadata service.
  const inside = 'https://mcp.corp.internal/mcp'
  expect(await refusedAt(inside, 'https://169.254.169.254/about')).toContain('internal address')
  // What is allowed is called: nobody listens there.
  const { url } = await guarded()
  const { port } = new URL(url)
  for (const [server, host, options] of [
    [open, `localhost:${port}`, { allowedHosts: ['localhost'] }],
    [`https://127.0.0.1:${port}/mcp`, `localhost:${port}`, {}],
  ] as const) {
    expect(await refusedAt(server, `https://${host}/about`, options)).toContain('gave no answer')
  }
})

test('who waits for a login gets its token, and one that the server has ended begins again', async () => {
  const { url, options, logins } = await guarded()
  const auth = createMcpOAuth(options)
  const challenge = `Bearer resource_metadata="${url}/about"`
  expect(await auth({ server: 's', refused: false })).toBe(null)
  await Promise.all([
    auth({ server: 's', refused: true, challenge }),
    auth({ server: 's', refused: false }),
  ])
  expect(logins).toHaveLength(1)
  const state: McpOAuthState = {
    issuer: url,
    client: { clientId: 'mine' },
    tokens: { accessToken: 'old', refreshToken: 'of another time', expiresAt: 1 },
  }
  const late = createMcpOAuth({ ...options, load: () => state })
  // Its refresh token is refused: nobody is asked before the server wants a login.
  expect(await late({ server: 's', refused: false })).toBe(null)
  expect(logins).toHaveLength(1)
  expect(await late({ server: 's', refused: true, challenge })).toMatchObject({
    key: expect.stringMatching(/^canary-token-/),
  })
  expect(logins.map(({ client_id }) => client_id)).toEqual(['registered', 'mine'])
})

test.each<[string, Changes, string]>([
  [
    'another resource',
    { resource: { resource: 'https://other.example/mcp' } },
    'about another resource',
  ],
  ['another issuer', { server: { issuer: 'https://other.example' } }, 'of another issuer'],
  ['no PKCE', { server: { code_challenge_methods_supported: ['plain'] } }, 'no PKCE with S256'],
  ['a plain address', { server: { token_endpoint: 'http://other.example/token' } }, 'is not https'],
  [
    'an address of metadata',
    { server: { token_endpoint: 'http://169.254.169.254/' } },
    'is not https',
  ],
  ['no registration', { server: { registration_endpoint: undefined } }, 'registers no clients'],
  [
    'the state of another login',
    { back: (url) => url.searchParams.set('state', 'x') },
    'not to this login',
  ],
  [
    'the answer of another server',
    { back: (url) => url.searchParams.set('iss', 'https://other.example') },
    'another authorization server',
  ],
  ['a refusal', { back: (url) => url.searchParams.delete('code') }, 'the login was refused'],
  [
    'a redirect with the code',
    { token: (response) => response.writeHead(307, { location: 'https://other.example' }).end() },
    'HTTP 307',
  ],
  [
    'no bearer token',
    { token: (response) => response.end('{"access_token":"x"}') },
    'no bearer token',
  ],
  ['a page', { token: (response) => response.writeHead(400).end('<canary>') }, 'HTTP 400'],
  [
    'an endless answer',
    { token: (response) => response.end('x'.repeat(300_000)) },
    'too long answer',
  ],
])('a login fails for %s, with a reason and without a secret', async (_, changes, why) => {
  const { url, options } = await guarded(changes)
  const auth = createMcpOAuth(options)
  const challenge = `Bearer resource_metadata="${url}/about"`
  const error = await auth({ server: 's', refused: true, challenge }).catch((error) => error)
  expect(error.message).toContain(why)
  expect(error.message).not.toMatch(/canary|a code/)
  // A run goes on without the tools of the server, and says why.
  const { engine } = engineWith({ s: { url: `${url}/mcp`, auth } }, ['done'])
  const { warnings, stopReason } = await engine.run('hi', { model: 'test/scripted' }).result
  expect([stopReason, JSON.stringify(warnings)]).toEqual(['end_turn', expect.stringContaining(why)])
})

test('options that cannot be used are refused by their path', () => {
  const refused = (options: object) => {
    try {
      createMcpOAuth(options as never)
    } catch (error) {
      return error
    }
    return undefined
  }
  const url = 'https://mcp.example.com/mcp'
  const authorize = () => ''
  for (const [options, field] of [
    [{}, 'url'],
    [{ url: 'mcp', authorize, redirectUri }, 'url'],
    [{ url: 'http://example.com', authorize, redirectUri }, 'url'],
    [{ url: 'https://user:canary@example.com', authorize, redirectUri }, 'url'],
    [{ url, authorize, redirectUri, allowedHosts: 'canary' }, 'allowedHosts'],
    [{ url }, 'authorize'],
    [{ url, authorize }, 'redirectUri'],
    [{ url, authorize, redirectUri, client: { clientSecret: 'canary' } }, 'client.clientId'],
    [{ url, authorize, redirectUri, save: 'canary' }, 'save'],
    [{ url, authorize, redirectUri, scopes: ['read'] }, 'scopes'],
  ] as const) {
    expect(refused(options)).toMatchObject({ code: 'invalid_options', field })
    expect(String(refused(options))).not.toContain('canary')
  }
  expect(refused({ url, client: { clientId: 'service', clientSecret: 'canary' } })).toBe(undefined)
})
