// Which authorization server an MCP server trusts, and its endpoints: RFC 9728 and RFC 8414, and where a server has neither, the fixed paths
// of the first revision of the protocol.
// It must never accept metadata that is about another resource or issuer.

import { checkedUrl, McpOAuthError, type Reach } from './oauth-addresses.ts'
import { type Answer, fetchDocument } from './oauth-fetch.ts'

/** What is known about the authorization of an MCP server. */
interface Discovered {
  issuer: string
  /** The identifier of the MCP server, for which tokens are. */
  resource: string | undefined
  /** All scopes of the MCP server. */
  scopes: string[] | undefined
  authorization: URL | undefined
  token: URL
  registration: URL | undefined
  /** The authorization server's own words. */
  metadata: Answer
}

/** What a server wants, of its header `WWW-Authenticate`. */
interface Challenge {
  metadata: string | undefined
  scope: string | undefined
  error: string | undefined
}

function readChallenge(header = ''): Challenge {
  const bearer = /(?:^|,\s*)Bearer\s+(.*)$/is.exec(header)?.[1] ?? ''
  const value = (name: string) => {
    const found = new RegExp(`(?:^|[\\s,])${name}\\s*=\\s*(?:"([^"]*)"|([^\\s,"]+))`, 'i').exec(
      bearer,
    )
    return found?.[1] ?? found?.[2]
  }
  return { metadata: value('resource_metadata'), scope: value('scope'), error: value('error') }
}

/** Finds the authorization server of an MCP server. */
async function discover(server: URL, challenge: Challenge, reach: Reach): Promise<Discovered> {
  const resource = await resourceMetadata(server, challenge.metadata, reach)
  if (resource === undefined) {
    const metadata = await serverMetadata(new URL(server.origin), false)
    return discovered(server.origin, undefined, undefined, metadata ?? {}, reach)
  }
  const [issuer] = strings(resource.authorization_servers) ?? []
  const at = checkedUrl(issuer, 'the authorization server', reach)
  const metadata = await serverMetadata(at, true)
  if (metadata === undefined) {
    throw new McpOAuthError(`the authorization server \`${at.origin}\` has no metadata`)
  }
  const scopes = strings(resource.scopes_supported)
  return discovered(issuer ?? '', resource.resource as string, scopes, metadata, reach)
}

function discovered(
  issuer: string,
  resource: string | undefined,
  scopes: string[] | undefined,
  metadata: Answer,
  reach: Reach,
): Discovered {
  const hasMetadata = Object.keys(metadata).length > 0
  const endpoint = (field: string, path: string) => {
    const given = metadata[field] ?? (hasMetadata ? undefined : new URL(path, issuer).href)
    return given === undefined ? undefined : checkedUrl(given, `\`${field}\``, reach)
  }
  const methods = strings(metadata.code_challenge_methods_supported)
  if (hasMetadata && metadata.authorization_endpoint !== undefined && !methods?.includes('S256')) {
    throw new McpOAuthError(`the authorization server \`${issuer}\` has no PKCE with S256`)
  }
  const token = endpoint('token_endpoint', '/token')
  if (token === undefined) throw new McpOAuthError(`\`${issuer}\` has no token endpoint`)
  return {
    issuer,
    resource,
    scopes,
    authorization: endpoint('authorization_endpoint', '/authorize'),
    token,
    registration: endpoint('registration_endpoint', '/register'),
    metadata,
  }
}

async function resourceMetadata(server: URL, named: string | undefined, reach: Reach) {
  const known = '/.well-known/oauth-protected-resource'
  const path = server.pathname.replace(/\/$/, '')
  const places = named === undefined ? [`${known}${path}`, known] : [named]
  for (const place of new Set(places)) {
    const url = checkedUrl(new URL(place, server.origin).href, 'the resource metadata', reach)
    const found = await fetchDocument(url)
    if (found === undefined) continue
    if (!isOf(server, found.resource)) {
      throw new McpOAuthError(`the metadata of \`${url.origin}\` is about another resource`)
    }
    return found
  }
  return undefined
}

/** Whether a resource is the server, or one that it is beneath. */
function isOf(server: URL, resource: unknown): boolean {
  if (typeof resource !== 'string' || !URL.canParse(resource)) return false
  const { origin, pathname } = new URL(resource)
  const slashed = (path: string) => (path.endsWith('/') ? path : `${path}/`)
  return origin === server.origin && slashed(server.pathname).startsWith(slashed(pathname))
}

/** The metadata of an authorization server: of OAuth, else of OpenID Connect. */
async function serverMetadata(issuer: URL, isStrict: boolean): Promise<Answer | undefined> {
  const path = issuer.pathname.replace(/\/$/, '')
  const places = ['oauth-authorization-server', 'openid-configuration'].map(
    (name) => `/.well-known/${name}${path}`,
  )
  if (path !== '') places.push(`${path}/.well-known/openid-configuration`)
  for (const place of places) {
    const found = await fetchDocument(new URL(place, issuer.origin))
    if (found === undefined) continue
    const bare = (text: unknown) => String(text).replace(/\/$/, '')
    if (isStrict && bare(found.issuer) !== bare(issuer.href)) {
      throw new McpOAuthError(`the metadata of \`${issuer.origin}\` is of another issuer`)
    }
    return found
  }
  return undefined
}

function strings(value: unknown): string[] | undefined {
  return Array.isArray(value) ? value.filter((each) => typeof each === 'string') : undefined
}

export type { Challenge, Discovered }
export { discover, readChallenge, strings }
