// A provider with a real token bucket: it counts requests, refuses those over the limit, and reports its level in its headers. It
// must never refuse a request within the limit.

import { serving } from '../cleanup.js'
import { chat } from './chat.js'
import type { Seen, TestServer } from './server.js'

export interface Bucket {
  server: TestServer
  /** The accepted requests, in order: the first user's text of each, or `summary`. */
  served: string[]
  /** The number of refused requests. */
  refused: number
  /** Holds back later answers until it is called again without an argument. */
  hold(wait?: Promise<void>): void
  /** From now on what comes back is not lost while the bucket is full: a request finds what it would have found had it not been late. */
  overflow(): void
  /** Refuses the next request, whatever the bucket has, with this `retry-after`. */
  refuseNext(retryAfterMs: number): void
}

const userText = ({ body }: Seen): string => {
  const user = body.messages.findLast((message: { role: string }) => message.role === 'user')
  const text = typeof user?.content === 'string' ? user.content : JSON.stringify(user?.content)
  return text.length > 200 ? 'summary' : text
}

/** A bucket of `size` requests for each key, full again `fullMs` after it was empty. `arrives` is called for each accepted request. */
export async function bucket(
  size: number,
  fullMs: number,
  answer: (seen: Seen) => string = () => chat.answer('ok'),
  arrives: () => void = () => {},
): Promise<Bucket> {
  /** The level of each key's bucket, and its time. */
  const levels = new Map<string, { level: number; at: number }>()
  let gate: Promise<void> | undefined
  let most = size
  let refusal: number | undefined
  const served: string[] = []
  const server = await serving(async (response, seen) => {
    const now = performance.now()
    const key = String(seen.headers.authorization)
    const { level: before, at } = levels.get(key) ?? { level: size, at: now }
    let level = Math.min(most, before + ((now - at) * size) / fullMs)
    const refuse = refusal !== undefined || level < 1
    if (!refuse) level -= 1
    levels.set(key, { level, at: now })
    // A bucket that has just given one is never full.
    const reported = Math.min(size - 1, level)
    const full = ((size - reported) * fullMs) / size
    const headers: Record<string, string> = {
      'x-ratelimit-limit-requests': String(size),
      'x-ratelimit-remaining-requests': String(Math.floor(reported)),
      'x-ratelimit-reset-requests': `${Math.ceil(full)}ms`,
    }
    if (refuse) {
      it.refused++
      headers['retry-after-ms'] = String(refusal ?? Math.max(500, Math.ceil(full / size)))
      refusal = undefined
      response.writeHead(429, { 'content-type': 'application/json', ...headers })
      response.end(JSON.stringify({ error: { message: 'slow down', type: 'rate_limit_error' } }))
      return
    }
    served.push(userText(seen))
    arrives()
    await gate
    response.writeHead(200, { 'content-type': 'text/event-stream', ...headers })
    response.end(answer(seen))
  })
  const it: Bucket = {
    server,
    served,
    refused: 0,
    hold: (wait) => {
      gate = wait
    },
    overflow: () => {
      const now = performance.now()
      for (const [key, { level, at }] of levels)
        levels.set(key, { level: Math.min(size, level + ((now - at) * size) / fullMs), at: now })
      most = Number.POSITIVE_INFINITY
    },
    refuseNext: (retryAfterMs) => {
      refusal = retryAfterMs
    },
  }
  return it
}
