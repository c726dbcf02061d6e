// The options of a stream, read once. It must never let a misspelt option pass unnoticed.

import type {
  EventStream,
  ResponseOptions,
  SessionEventId,
  SessionResponseOptions,
  SessionSSEOptions,
  SessionStream,
  SSEOptions,
} from '../../web.d.ts'
import { isRun } from './source-reader.ts'

const HEARTBEAT_MS = 15_000
/** The longest time of a timer. */
const LONGEST_MS = 2 ** 31 - 1

const STREAM = ['lastEventId', 'heartbeatMs', 'retryMs', 'onDisconnect', 'map', 'onError', 'signal']
const RESPONSE = [...STREAM, 'headers', 'status']

type Source = EventStream | SessionStream
type Options = SSEOptions | SessionSSEOptions

/** The options of a stream with their defaults. */
interface StreamOptions extends Omit<SSEOptions, 'lastEventId' | 'heartbeatMs' | 'map'> {
  lastEventId: number | SessionEventId
  heartbeatMs: number
  map?: ((event: never) => unknown) | undefined
}

function refuse(name: string, why: string): never {
  throw new TypeError(`\`${name}\`: ${why}`)
}

/** A whole number from 0 to `most`, or the default where it is absent. */
function readNumber<Default>(name: string, value: unknown, most: number, byDefault: Default) {
  if (value === undefined) return byDefault
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 0 || value > most) {
    refuse(name, `is not a whole number from 0 to ${most}`)
  }
  return value
}

function checkNames(options: object, names: readonly string[]): void {
  const unknown = Object.keys(options).find((name) => !names.includes(name))
  if (unknown !== undefined) refuse(unknown.slice(0, 100), 'is not an option')
}

function checkFunction(name: string, value: unknown): void {
  if (value !== undefined && typeof value !== 'function') refuse(name, 'is not a function')
}

/** The number of a run's event, or a session's event. */
function readLastEvent(value: unknown): number | SessionEventId {
  if (typeof value !== 'object' || value === null) {
    return readNumber('lastEventId', value, Number.MAX_SAFE_INTEGER, 0)
  }
  const { runId, seq } = value as { runId?: unknown; seq?: unknown }
  if (typeof runId !== 'string') refuse('lastEventId.runId', 'is not a string')
  return { runId, seq: readNumber('lastEventId.seq', seq, Number.MAX_SAFE_INTEGER, 0) }
}

function readStream(source: Source, options: Options): StreamOptions {
  if (typeof source?.[Symbol.asyncIterator] !== 'function') {
    refuse('source', 'is neither a run nor an async iterable of events')
  }
  const { onDisconnect, map, onError, signal } = options
  const disconnects: unknown[] = [undefined, 'abort', 'continue']
  if (!disconnects.includes(onDisconnect)) refuse('onDisconnect', 'is not `abort` or `continue`')
  if (onDisconnect === 'abort' && !isRun(source)) {
    refuse('onDisconnect', 'an attachment cannot abort its run; call `engine.abortSession`')
  }
  checkFunction('map', map)
  checkFunction('onError', onError)
  if (signal !== undefined && typeof signal?.addEventListener !== 'function') {
    refuse('signal', 'is not an AbortSignal')
  }
  return {
    ...options,
    lastEventId: readLastEvent(options.lastEventId),
    heartbeatMs: readNumber('heartbeatMs', options.heartbeatMs, LONGEST_MS, HEARTBEAT_MS),
    retryMs: readNumber('retryMs', options.retryMs, LONGEST_MS, undefined),
  }
}

/** The options of `toSSE`. */
function readStreamOptions(source: Source, options: Options): StreamOptions {
  checkNames(options, STREAM)
  return readStream(source, options)
}

/** The options of `toResponse` and `writeSSE`: the stream's, the headers, the status. */
function readResponseOptions(source: Source, options: ResponseOptions | SessionResponseOptions) {
  checkNames(options, RESPONSE)
  const { headers, status = 200, ...stream } = options
  return { stream: readStream(source, stream), headers: streamHeaders(headers), status }
}

/** The headers of a response, by their names in lower case. */
function streamHeaders(given: ResponseOptions['headers'] = {}): Map<string, string> {
  // No cache may store a stream, and no proxy (nginx reads the last header) may hold it back.
  const headers = new Map([
    ['cache-control', 'no-store'],
    ['x-accel-buffering', 'no'],
  ])
  for (const [name, value] of Object.entries(given)) headers.set(name.toLowerCase(), value)
  return headers.set('content-type', 'text/event-stream; charset=utf-8')
}

export type { StreamOptions }
export { checkNames, readNumber, readResponseOptions, readStreamOptions, refuse }
