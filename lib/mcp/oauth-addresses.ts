// Which addresses a login may call that a server has named: https, and no address of this machine or an internal network unless the host says so.
// Names are not resolved: it must never be the only protection of a network whose names outsiders choose.

/** Why there is no token. Its message has no secret. */
class McpOAuthError extends Error {
  override readonly name = 'McpOAuthError'
  /** The code of a refusal, of RFC 6749. */
  readonly refusal: string | undefined

  constructor(message: string, refusal?: string) {
    super(message)
    this.refusal = refusal
  }
}

/** The addresses that a login may call, apart from public ones. */
interface Reach {
  /** The MCP server is on this machine, by plain http: so may be its authorization server. */
  local: boolean
  /** The MCP server is in an internal network: so may be its authorization server. */
  internal: boolean
  /** The host of the MCP server, and those that the options allow. */
  hosts: ReadonlySet<string>
}

function reachOf(server: URL, allowedHosts: readonly string[] = []): Reach {
  const hosts = new Set([server.hostname, ...allowedHosts.map((host) => host.toLowerCase())])
  return { local: isLoopback(server), internal: isInternal(server.hostname), hosts }
}

/** A checked address. */
function checkedUrl(text: unknown, what: string, reach: Reach): URL {
  const url = parsedUrl(text, what, reach.local)
  const { hostname } = url
  if (reach.hosts.has(hostname) || (reach.local && isLoopback(url))) return url
  if (isReserved(hostname) || (isInternal(hostname) && !reach.internal)) {
    throw new McpOAuthError(
      `${what} is an internal address: \`${url.origin}\`; allow its host by \`allowedHosts\``,
    )
  }
  return url
}

/** An address that is https, or http to this machine where that is allowed. */
function parsedUrl(text: unknown, what: string, local: boolean): URL {
  if (typeof text !== 'string' || !URL.canParse(text)) throw new McpOAuthError(`${what} is no URL`)
  const url = new URL(text)
  const allowed = url.protocol === 'https:' || (local && isLoopback(url))
  if (!allowed) throw new McpOAuthError(`${what} is not https: \`${url.origin}\``)
  if (url.username !== '' || url.password !== '') {
    throw new McpOAuthError(`${what} holds a user or password`)
  }
  return url
}

/** Whether an address is plain http to this machine. */
function isLoopback({ protocol, hostname }: URL): boolean {
  const isLocal =
    hostname === 'localhost' || hostname === '[::1]' || /^127(?:\.\d+){3}$/.test(hostname)
  return protocol === 'http:' && isLocal
}

/** Whether no server of anybody's has this host: link-local addresses, and the metadata services of clouds. */
function isReserved(hostname: string): boolean {
  const name = bare(hostname)
  return (
    /^(?:169\.254|0|2[2-5]\d)\./.test(name) ||
    /^(?:100\.100\.100\.200|192\.0\.0\.192)$/.test(name) ||
    // Link-local, multicast, addresses of IPv4 in those of IPv6, and the metadata service of AWS.
    /^\[(?:fe[89ab]|ff|64:ff9b:|::(?!1?\])|fd00:ec2::254\])/.test(name) ||
    /^metadata(?:\.google\.internal)?$/.test(name)
  )
}

/** Whether a host is of this machine or an internal network, by its own form. */
function isInternal(hostname: string): boolean {
  const name = bare(hostname)
  return (
    isReserved(name) ||
    /^(?:10|127)\.|^192\.168\.|^172\.(?:1[6-9]|2\d|3[01])\.|^100\.(?:6[4-9]|[7-9]\d|1[01]\d|12[0-7])\./.test(
      name,
    ) ||
    /^\[(?:::1?\]|f[cd])/.test(name) ||
    !/[.:]/.test(name) ||
    /\.(?:localhost|local|internal|intranet|lan|home\.arpa)$/.test(name)
  )
}

/** A host without the dot at its end; `URL` has made the rest alike. */
const bare = (hostname: string) => hostname.replace(/\.$/, '')

export type { Reach }
export { checkedUrl, McpOAuthError, parsedUrl, reachOf }
