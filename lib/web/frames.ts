// The text of server-sent events (WHATWG HTML, "Server-sent events"): pure. It must never write a line that ends a frame early.

import type { SessionEvent, StreamEvent } from '../../index.d.ts'
import type { SessionEventId, StreamFailure } from '../../web.d.ts'
import type { Encoder } from './source-reader.ts'

/** The value of a field: the format has no escapes, so a line break would begin another field. */
const WORD = /^[\w.-]+$/

/** A comment: keeps a connection open, and reaches no listener. */
const COMMENT = ':\n\n'

/** What a stream begins with, before its first event: proxies and clients then see at once that it is open. */
function opening(retryMs: number | undefined): string {
  return retryMs === undefined ? COMMENT : `retry: ${retryMs}\n\n`
}

/** An event with its number. JSON has no raw line break, so it is one line of `data`. */
function frame(type: string, id: string, data: unknown): string {
  const json = JSON.stringify(data)
  if (!WORD.test(type) || json === undefined) {
    throw new TypeError('an event has a type that is not a word, or no JSON')
  }
  return `${id === '' ? '' : `id: ${id}\n`}event: ${type}\ndata: ${json}\n\n`
}

/** The last event of a stream whose source failed. It has no number, so a client that reconnects misses nothing. */
function failureFrame(error: unknown): string {
  const failure: StreamFailure = { type: 'error', code: codeOf(error) }
  return frame('error', '', failure)
}

/** Codes of the engine are public. Those of others, and every message, may show paths or more. */
function codeOf(error: unknown): string {
  if (!(error instanceof Error) || error.name !== 'AgentEngineError') return 'internal'
  const { code } = error as { code?: unknown }
  return typeof code === 'string' && WORD.test(code) ? code : 'internal'
}

type AnyEvent = StreamEvent | SessionEvent

interface FrameOptions {
  lastEventId: number | SessionEventId
  retryMs?: number | undefined
  map?: ((event: never) => unknown) | undefined
}

/** Events as frames. */
class FrameEncoder implements Encoder<AnyEvent, string> {
  #options: FrameOptions

  constructor(options: FrameOptions) {
    this.#options = options
  }

  opening(): string[] {
    return [opening(this.#options.retryMs)]
  }

  event(event: AnyEvent): string[] {
    const { map } = this.#options
    if (this.#isSeen(event)) return []
    const data = map === undefined ? event : map(event as never)
    if (data === undefined) return []
    const { type } = 'event' in event ? event.event : event
    return [frame(type, idOf(event), data)]
  }

  heartbeat(): string[] {
    return [COMMENT]
  }

  ending(): string[] {
    return []
  }

  failure(error: unknown): string[] {
    return [failureFrame(error)]
  }

  #isSeen(event: AnyEvent): boolean {
    const { lastEventId: last } = this.#options
    if (!('event' in event)) return typeof last === 'number' && event.seq <= last
    return typeof last === 'object' && event.runId === last.runId && event.event.seq <= last.seq
  }
}

/** The id of a frame. A number that is none would become the `Last-Event-ID` of the next request. */
function idOf(event: AnyEvent): string {
  const { seq } = 'event' in event ? event.event : event
  if (!Number.isSafeInteger(seq)) return ''
  return 'event' in event ? `${seq}:${encodeURIComponent(event.runId)}` : String(seq)
}

/** The event of a session that a frame's id names; undefined where it is no such id. */
function sessionEventOf(id: string): SessionEventId | undefined {
  const [, digits = '', run = ''] = /^(\d+):([^:]+)$/.exec(id) ?? []
  const seq = Number(digits)
  if (run === '' || !Number.isSafeInteger(seq)) return undefined
  try {
    return { runId: decodeURIComponent(run), seq }
  } catch {
    // No text that `encodeURIComponent` wrote.
    return undefined
  }
}

export { COMMENT, codeOf, FrameEncoder, sessionEventOf }
