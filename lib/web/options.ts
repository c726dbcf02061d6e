// The options of a stream, read once. It must never let a misspelt option pass unnoticed.

import type { EventStream, ResponseOptions, SSEOptions } from '../../web.d.ts'

const HEARTBEAT_MS = 15_000
/** The longest time of a timer. */
const LONGEST_MS = 2 ** 31 - 1

const STREAM = ['lastEventId', 'heartbeatMs', 'retryMs', 'onDisconnect', 'map', 'onError', 'signal']
const RESPONSE = [...STREAM, 'headers', 'status']

/** The options of a stream with their defaults. */
type StreamOptions = Required<Pick<SSEOptions, 'lastEventId' | 'heartbeatMs'>> & SSEOptions

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

/** Whether leaving a source may matter to a run: an attachment has no `abort`. */
function isRun(source: EventStream): source is EventStream & { abort(): void } {
  return 'abort' in source && typeof source.abort === 'function'
}

function readStream(source: EventStream, options: SSEOptions): StreamOptions {
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
    lastEventId: readNumber('lastEventId', options.lastEventId, Number.MAX_SAFE_INTEGER, 0),
    heartbeatMs: readNumber('heartbeatMs', options.heartbeatMs, LONGEST_MS, HEARTBEAT_MS),
    retryMs: readNumber('retryMs', options.retryMs, LONGEST_MS, undefined),
  }
}

/** The options of `toSSE`. */
function readStreamOptions(source: EventStream, options: SSEOptions): StreamOptions {
  checkNames(options, STREAM)
  return readStream(source, options)
}

/** The options of `toResponse` and `writeSSE`: the stream's, the headers, the status. */
function readResponseOptions(source: EventStream, options: ResponseOptions) {
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
export { checkNames, isRun, readNumber, readResponseOptions, readStreamOptions, refuse }
