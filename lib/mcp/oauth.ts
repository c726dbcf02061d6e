// `createMcpOAuth`: an `auth` function of an MCP server that logs a user in by OAuth 2.1. The host opens the browser, and stores the tokens.
// It must never log in twice at the same time, or again and again for the same scopes.

import type {
  createMcpOAuth as Declared,
  McpOAuthOptions,
  McpOAuthState,
  McpTokenRequest,
} from '../../index.d.ts'
import { refusal } from '../values/errors.ts'
import { type Fields, isGiven, readFields } from '../values/reader.ts'
import { McpOAuthError, parsedUrl, reachOf } from './oauth-addresses.ts'
import { clientFor, logIn, tokens } from './oauth-client.ts'
import { type Challenge, type Discovered, discover, readChallenge } from './oauth-discovery.ts'

const CODE = 'invalid_options'
/** A token with less time left is renewed. */
const RENEW_MS = 60_000
/** The refusals after which a refresh token is of no use any more. Whatever else happens may pass. */
const USELESS = ['invalid_grant', 'invalid_client', 'unauthorized_client', 'unsupported_grant_type']
/** How long the user is not asked again for scopes that a login has not brought. */
const ASK_AGAIN_MS = 600_000
const TEXTS = ['url', 'redirectUri', 'clientName', 'clientMetadataUrl', 'scope'] as const
const FUNCTIONS = ['authorize', 'load', 'save'] as const

/** The options of a caller, checked. */
function readOptions(given: unknown): McpOAuthOptions {
  const fields: Fields = readFields(given, 'options', CODE)
  const known = [...TEXTS, ...FUNCTIONS, 'client', 'allowedHosts']
  for (const [name, value] of Object.entries(fields)) {
    if (!known.includes(name)) throw refusal(CODE, name, 'is not known')
    if (!isGiven(value)) continue
    if (TEXTS.includes(name as never) && typeof value !== 'string') {
      throw refusal(CODE, name, 'is not a string')
    }
    if (FUNCTIONS.includes(name as never) && typeof value !== 'function') {
      throw refusal(CODE, name, 'is not a function')
    }
  }
  checkServer(fields.url)
  if (isGiven(fields.allowedHosts)) {
    const hosts: unknown = fields.allowedHosts
    if (!Array.isArray(hosts) || !hosts.every((host) => typeof host === 'string')) {
      throw refusal(CODE, 'allowedHosts', 'is not a list of hosts')
    }
  }
  if (isGiven(fields.client)) {
    const client = readFields(fields.client, 'client', CODE, 'client.')
    if (typeof client.clientId !== 'string') {
      throw refusal(CODE, 'client.clientId', 'is not a string')
    }
    fields.client = client
  }
  const options = fields as unknown as McpOAuthOptions
  const { authorize, redirectUri, client } = options
  if (!authorize && !client?.clientSecret) {
    throw refusal(CODE, 'authorize', 'is missing; without it pass a `client` with a `clientSecret`')
  }
  if (authorize && !URL.canParse(String(redirectUri))) {
    throw refusal(CODE, 'redirectUri', 'is not a URL')
  }
  return options
}

/** Refuses an address of a server that no token may be sent to. */
function checkServer(url: unknown) {
  try {
    parsedUrl(url, 'it', true)
  } catch (error) {
    throw refusal(CODE, 'url', (error as Error).message.replace(/^it /, ''))
  }
}

const createMcpOAuth: typeof Declared = (given) => {
  const options = readOptions(given)
  const { authorize, redirectUri = '', save } = options
  const server = new URL(options.url)
  const reach = reachOf(server, options.allowedHosts)
  let state: McpOAuthState = {}
  let isLoaded = false
  /** The last login that was for more scopes: what it was for, and the token that it brought. */
  let stepped: { scope: string | undefined; token: string; until: number } | undefined

  async function store(next: McpOAuthState) {
    state = next
    await save?.(structuredClone(next))
  }

  /** A new token without the user: by the refresh token, if there is one. */
  async function refreshed(found: Discovered): Promise<boolean> {
    const { client, tokens: old } = state
    if (client === undefined || old?.refreshToken === undefined) return false
    const grant = { grant_type: 'refresh_token', refresh_token: old.refreshToken }
    try {
      await store({ ...state, tokens: await tokens(client, found, grant, old.scope) })
      return true
    } catch (error) {
      const why = error instanceof McpOAuthError ? error.refusal : undefined
      if (why === undefined || !USELESS.includes(why)) throw error
      // The user logs in again; a client that is not known any more is registered again.
      const { client: registered, ...others } = state
      const isKnown = why !== 'invalid_client'
      await store({ ...others, ...(isKnown && { client: registered }), tokens: undefined })
      return false
    }
  }

  /** The scopes to ask for: those that the server names, else all, and those of before where it wants more. */
  function scopeFor(found: Discovered, challenge: Challenge): string | undefined {
    const more = challenge.error === 'insufficient_scope' ? state.tokens?.scope : undefined
    const wanted = challenge.scope ?? options.scope ?? found.scopes?.join(' ')
    const scopes = new Set([more, wanted].flatMap((text) => text?.split(' ') ?? []))
    const supported = found.metadata.scopes_supported
    const isOffered = Array.isArray(supported) && supported.includes('offline_access')
    if (authorize && isOffered) scopes.add('offline_access')
    return scopes.size === 0 ? undefined : [...scopes].join(' ')
  }

  async function token(request: McpTokenRequest) {
    if (!isLoaded) state = { ...(await options.load?.()) }
    isLoaded = true
    const challenge = readChallenge(request.challenge)
    const needsMore = challenge.error === 'insufficient_scope'
    const soon = Date.now() + RENEW_MS
    const held = state.tokens
    const isGood = held !== undefined && (held.expiresAt ?? Number.POSITIVE_INFINITY) > soon
    if (!request.refused && (isGood || !held?.refreshToken)) return isGood ? asKey(held) : null

    // A server that has named its metadata once need not do so again.
    const resourceMetadata = challenge.metadata ?? state.resourceMetadata
    const found = await discover(server, { ...challenge, metadata: resourceMetadata }, reach)
    const about = { issuer: found.issuer, ...(resourceMetadata && { resourceMetadata }) }
    // What was registered at another server is of no use at this one.
    if (state.issuer !== found.issuer) await store(about)
    if (!needsMore && (await refreshed(found))) return asKey(state.tokens)
    // Without a request that was refused nobody is asked: the server may let it pass.
    if (!request.refused) return null
    const scope = scopeFor(found, challenge)
    const isAsked = stepped?.scope === scope && stepped?.token === state.tokens?.accessToken
    if (needsMore && isAsked && Date.now() < (stepped?.until ?? 0)) {
      throw new McpOAuthError(`a login for \`${scope}\` does not satisfy the server`)
    }
    const application = {
      name: options.clientName ?? 'nexus-agent-engine',
      redirectUri,
      metadataUrl: options.clientMetadataUrl,
      client: options.client ?? state.client,
    }
    const client = await clientFor(application, found)
    const made = authorize
      ? await logIn(client, found, redirectUri, scope, authorize)
      : await tokens(
          client,
          found,
          { grant_type: 'client_credentials', ...(scope && { scope }) },
          scope,
        )
    if (needsMore) {
      stepped = { scope, token: made.accessToken, until: Date.now() + ASK_AGAIN_MS }
    }
    await store({ ...about, client, tokens: made })
    return asKey(made)
  }

  // One after the other: who waits for a login gets its token.
  let last: Promise<unknown> = Promise.resolve()
  return (request) => {
    const next = last.then(() => token(request))
    last = next.catch(() => {})
    return next
  }
}

/** A token as an engine takes it. */
function asKey(held: McpOAuthState['tokens']) {
  if (held === undefined) return null
  const { accessToken: key, expiresAt } = held
  return expiresAt === undefined ? { key } : { key, expiresAt }
}

export { createMcpOAuth }
