// What a client does at an authorization server: registers, sends the user there, and gets tokens.
// It must never send a secret to another address than the server's own endpoints, or accept an answer that belongs to another login.

import type { McpOAuthClient, McpOAuthTokens } from '../../index.d.ts'
import { McpOAuthError } from './oauth-addresses.ts'
import { type Discovered, strings } from './oauth-discovery.ts'
import { type Answer, post } from './oauth-fetch.ts'

/** What the host says about itself. */
interface Application {
  name: string
  redirectUri: string | undefined
  metadataUrl: string | undefined
  client: McpOAuthClient | undefined
}

type Authorize = (url: string) => unknown

/** The client of a server: the host's, the address of its document, or one that is registered now. */
async function clientFor(application: Application, found: Discovered): Promise<McpOAuthClient> {
  const { client, metadataUrl, redirectUri, name } = application
  if (client !== undefined) return client
  if (metadataUrl !== undefined && found.metadata.client_id_metadata_document_supported === true) {
    return { clientId: metadataUrl, authMethod: 'none' }
  }
  if (found.registration === undefined) {
    throw new McpOAuthError(`\`${found.issuer}\` registers no clients; pass \`client\``)
  }
  const answer = await post(
    found.registration,
    JSON.stringify({
      client_name: name,
      redirect_uris: [redirectUri],
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      token_endpoint_auth_method: methodOf({ clientId: '' }, found) ?? 'none',
      ...(found.scopes && { scope: found.scopes.join(' ') }),
    }),
  )
  if (typeof answer.client_id !== 'string') {
    throw new McpOAuthError(`\`${found.issuer}\` has registered no client`)
  }
  const { client_id: clientId, client_secret: secret, token_endpoint_auth_method: method } = answer
  return {
    clientId,
    ...(typeof secret === 'string' && { clientSecret: secret }),
    ...(isMethod(method) && { authMethod: method }),
  }
}

const METHODS = ['client_secret_basic', 'client_secret_post', 'none'] as const
type Method = (typeof METHODS)[number]

function isMethod(value: unknown): value is Method {
  return METHODS.includes(value as Method)
}

/** How the client proves at the token endpoint who it is. */
function methodOf(client: McpOAuthClient, { metadata }: Discovered): Method | undefined {
  if (client.authMethod !== undefined) return client.authMethod
  const supported = strings(metadata.token_endpoint_auth_methods_supported)
  // Without a list it is Basic (RFC 8414).
  const known = supported?.find(isMethod)
  if (client.clientId !== '' && client.clientSecret === undefined) return 'none'
  return supported === undefined ? 'client_secret_basic' : known
}

/** Sends the user to the authorization server, and exchanges the code that comes back. */
async function logIn(
  client: McpOAuthClient,
  found: Discovered,
  redirectUri: string,
  scope: string | undefined,
  authorize: Authorize,
): Promise<McpOAuthTokens> {
  if (found.authorization === undefined) {
    throw new McpOAuthError(`\`${found.issuer}\` has no authorization endpoint`)
  }
  const [state, verifier] = [secret(), secret()]
  const url = new URL(found.authorization)
  const challenge = base64url(await crypto.subtle.digest('SHA-256', Buffer.from(verifier)))
  const wanted = {
    response_type: 'code',
    client_id: client.clientId,
    redirect_uri: redirectUri,
    state,
    code_challenge: challenge,
    code_challenge_method: 'S256',
    scope,
    resource: found.resource,
  }
  for (const [name, value] of Object.entries(wanted)) {
    if (value !== undefined) url.searchParams.set(name, value)
  }
  const back = await authorize(url.href)
  if (typeof back !== 'string' || !URL.canParse(back)) {
    throw new McpOAuthError('`authorize` gave no address; return the one that the browser came to')
  }
  const { searchParams: given } = new URL(back)
  if (given.get('state') !== state) throw new McpOAuthError('the answer is not to this login')
  // RFC 9207: another server may have answered.
  const issuer = given.get('iss')
  if (issuer !== null && issuer !== found.issuer) {
    throw new McpOAuthError('another authorization server has answered')
  }
  const code = given.get('code')
  if (code === null) throw new McpOAuthError('the login was refused')
  const grant = {
    grant_type: 'authorization_code',
    code,
    redirect_uri: redirectUri,
    code_verifier: verifier,
  }
  return await tokens(client, found, grant, scope)
}

/** Gets tokens for a grant. */
async function tokens(
  client: McpOAuthClient,
  found: Discovered,
  grant: Record<string, string>,
  scope: string | undefined,
): Promise<McpOAuthTokens> {
  const body = new URLSearchParams(grant)
  if (found.resource !== undefined) body.set('resource', found.resource)
  const headers: Record<string, string> = {}
  const { clientId, clientSecret = '' } = client
  const method = methodOf(client, found)
  if (method === 'client_secret_basic') {
    const pair = [clientId, clientSecret].map(encodeURIComponent).join(':')
    headers.authorization = `Basic ${Buffer.from(pair).toString('base64')}`
  } else {
    body.set('client_id', clientId)
    if (method === 'client_secret_post') body.set('client_secret', clientSecret)
  }
  return readTokens(await post(found.token, body, headers), found, grant.refresh_token, scope)
}

function readTokens(
  answer: Answer,
  found: Discovered,
  refresh: string | undefined,
  scope: string | undefined,
): McpOAuthTokens {
  const { access_token: accessToken, token_type: type, expires_in: seconds } = answer
  if (typeof accessToken !== 'string' || String(type).toLowerCase() !== 'bearer') {
    throw new McpOAuthError(`\`${found.issuer}\` gave no bearer token`)
  }
  const refreshToken = typeof answer.refresh_token === 'string' ? answer.refresh_token : refresh
  const granted = typeof answer.scope === 'string' ? answer.scope : scope
  return {
    accessToken,
    ...(refreshToken !== undefined && { refreshToken }),
    ...(Number.isFinite(Number(seconds ?? Number.NaN)) && {
      expiresAt: Date.now() + Number(seconds) * 1_000,
    }),
    ...(granted !== undefined && { scope: granted }),
  }
}

const base64url = (bytes: ArrayBuffer) => Buffer.from(bytes).toString('base64url')

const secret = () => base64url(crypto.getRandomValues(new Uint8Array(32)).buffer)

export type { Application, Authorize }
export { clientFor, logIn, tokens }
