// The text of server-sent events (WHATWG HTML, "Server-sent events"): pure. It must never write a line that ends a frame early.

import type { StreamEvent } from '../../index.d.ts'
import type { StreamFailure } from '../../web.d.ts'

/** The value of a field: the format has no escapes, so a line break would begin another field. */
const WORD = /^[\w.-]+$/

/** A comment: keeps a connection open, and reaches no listener. */
const COMMENT = ':\n\n'

/** What a stream begins with, before its first event: proxies and clients then see at once that it is open. */
function opening(retryMs: number | undefined): string {
  return retryMs === undefined ? COMMENT : `retry: ${retryMs}\n\n`
}

/** An event with its number. JSON has no raw line break, so it is one line of `data`. */
function frame({ type, seq }: StreamEvent, data: unknown): string {
  const json = JSON.stringify(data)
  if (!WORD.test(type) || json === undefined) {
    throw new TypeError('an event has a type that is not a word, or no JSON')
  }
  // A number that is none would become the `Last-Event-ID` of the next request.
  const id = Number.isSafeInteger(seq) ? `id: ${seq}\n` : ''
  return `${id}event: ${type}\ndata: ${json}\n\n`
}

/** The last event of a stream whose source failed. It has no number, so a client that reconnects misses nothing. */
function failureFrame(error: unknown): string {
  const failure: StreamFailure = { type: 'error', code: codeOf(error) }
  return `event: error\ndata: ${JSON.stringify(failure)}\n\n`
}

/** Codes of the engine are public. Those of others, and every message, may show paths or more. */
function codeOf(error: unknown): string {
  if (!(error instanceof Error) || error.name !== 'AgentEngineError') return 'internal'
  const { code } = error as { code?: unknown }
  return typeof code === 'string' && WORD.test(code) ? code : 'internal'
}

export { COMMENT, failureFrame, frame, opening }
