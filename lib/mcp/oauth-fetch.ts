// Requests to authorization servers: bounded in time and size, to safe addresses only, and without redirects.
// It must never show what a server answered, other than the code of its error.

import { McpOAuthError } from './oauth-addresses.ts'

/** The longest answer. */
const MAX_CHARACTERS = 256 * 1024
const LIMIT_MS = 30_000

/** A JSON object of a server: nothing in it is checked. */
type Answer = Record<string, unknown>

/** Statuses that say nothing about what is at an address: too slow, too early, too often. */
const AGAIN = [408, 425, 429]

/** The JSON object at an address; `undefined` where there is none. */
async function fetchDocument(url: URL): Promise<Answer | undefined> {
  const { ok, status, answer } = await request(url, { headers: { accept: 'application/json' } })
  if (ok) return answer
  if (status >= 500 || AGAIN.includes(status))
    throw new McpOAuthError(`\`${url.origin}\` answered HTTP ${status}`)
  return undefined
}

/** Posts to an authorization server; a refusal is an error with its code. */
async function post(
  url: URL,
  body: URLSearchParams | string,
  headers: Record<string, string> = {},
): Promise<Answer> {
  const { ok, status, answer } = await request(url, {
    method: 'POST',
    body,
    headers: {
      accept: 'application/json',
      ...(typeof body === 'string' && { 'content-type': 'application/json' }),
      ...headers,
    },
  })
  if (ok && answer !== undefined) return answer
  const { error } = answer ?? {}
  const code = typeof error === 'string' && /^[\w.-]{1,60}$/.test(error) ? error : undefined
  const why = code === undefined ? '' : `: \`${code}\``
  throw new McpOAuthError(`\`${url.origin}${url.pathname}\` answered HTTP ${status}${why}`, code)
}

async function request(url: URL, init: RequestInit) {
  let response: Response
  let text: string
  try {
    const signal = AbortSignal.timeout(LIMIT_MS)
    response = await fetch(url, { ...init, redirect: 'manual', signal })
    text = await bounded(response)
  } catch (error) {
    if (error instanceof McpOAuthError) throw error
    const { name } = error as Error
    throw new McpOAuthError(`\`${url.origin}\` gave no answer (${name})`)
  }
  return { ok: response.ok, status: response.status, answer: parsed(text) }
}

async function bounded(response: Response): Promise<string> {
  let text = ''
  const decoder = new TextDecoder()
  for await (const piece of response.body ?? []) {
    text += decoder.decode(piece, { stream: true })
    if (text.length > MAX_CHARACTERS) {
      throw new McpOAuthError(`\`${new URL(response.url).origin}\` sent a too long answer`)
    }
  }
  return text + decoder.decode()
}

function parsed(text: string): Answer | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Answer)
      : undefined
  } catch {
    return undefined
  }
}

export type { Answer }
export { fetchDocument, post }
