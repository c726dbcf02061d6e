// The types of `@nexus/agent-engine/web`: runs over HTTP. Written by hand; `lib/web` is checked against them.

import type { AgentRun, SessionEvent, StandardSchema, StreamEvent } from './index.js'

/** What is streamed: a run, an attachment (`engine.attach`), or any async iterable of events. */
export type EventStream = AgentRun | AsyncIterable<StreamEvent>

/** What is streamed of a session: the events of all its runs (`engine.ledger.watch`). */
export type SessionStream = AsyncIterable<SessionEvent>

/** An event of a session: its run, and its number in that run. */
export interface SessionEventId {
  runId: string
  seq: number
}

export interface SSEOptions {
  /** Events up to this number are skipped: the `Last-Event-ID` of a client that has them. Default 0. */
  lastEventId?: number | undefined
  /** Milliseconds without an event after which a comment is sent, so that no proxy closes the connection. 0: never. Default 15,000. */
  heartbeatMs?: number | undefined
  /** How long an `EventSource` waits before it connects again, in milliseconds. Default: the browser's own, some seconds. */
  retryMs?: number | undefined
  /**
   * What becomes of a run whose client disconnects. Default: its iterator is left, which aborts the run unless its context has
   * `detached: true`. `abort`: a detached run is aborted too. `continue`: no run is aborted; the rest of its events is read and dropped.
   * An attachment is only left: `abort` is refused for it.
   */
  onDisconnect?: 'abort' | 'continue' | undefined
  /** What a client gets as `data` of an event; undefined: nothing, the event is skipped. Default: the event itself. */
  map?: ((event: StreamEvent) => unknown) | undefined
  /** Receives what the source threw. The client gets its code only. */
  onError?: ((error: unknown) => void) | undefined
  /** Ends the stream as a disconnected client does. */
  signal?: AbortSignal | undefined
}

export interface ResponseOptions extends SSEOptions {
  /** Besides `content-type`, `cache-control` and `x-accel-buffering`; the last two may be replaced. */
  headers?: Readonly<Record<string, string>> | undefined
  /** Default 200, which an `EventSource` needs. */
  status?: number | undefined
}

/** {@link SSEOptions} for the events of a session. */
export interface SessionSSEOptions
  extends Omit<SSEOptions, 'lastEventId' | 'map' | 'onDisconnect'> {
  /** The last event that a client has: events of that run up to it are skipped. See {@link lastSessionEvent}. */
  lastEventId?: SessionEventId | undefined
  /** What a client gets as `data` of an event; undefined: nothing. Default: the {@link SessionEvent}. */
  map?: ((event: SessionEvent) => unknown) | undefined
  onDisconnect?: undefined
}

/** {@link ResponseOptions} for the events of a session. */
export interface SessionResponseOptions extends SessionSSEOptions {
  headers?: ResponseOptions['headers']
  status?: number | undefined
}

/** The `data` of the event `error`, after which the stream ends: the source failed, and the run may go on without it. */
export interface StreamFailure {
  type: 'error'
  /** The code of an `AgentEngineError` (`unknown_run`, `events_expired`, `engine_closed`, …), else `internal`. */
  code: string
}

/**
 * A stream of server-sent events: `id` is the event's `seq`, `event` its type, `data` its JSON. Nothing is read from the source before
 * the stream is read.
 *
 * @example
 * new Response(toSSE(engine.run(context)), { headers: { 'content-type': 'text/event-stream' } })
 */
export declare function toSSE(source: EventStream, options?: SSEOptions): ReadableStream<Uint8Array>
/**
 * The events of a session, until the client or the engine ends the stream. `id` is the event's `seq` with its run, `event` its type, `data`
 * the JSON of the {@link SessionEvent}. A client that comes back gets the rest of the run under way, and all later runs.
 *
 * @example
 * toSSE(engine.ledger.watch('agent:main:main'), { lastEventId: lastSessionEvent(request) })
 */
export declare function toSSE(
  source: SessionStream,
  options?: SessionSSEOptions,
): ReadableStream<Uint8Array>

/**
 * {@link toSSE} as the response of a `fetch` handler (Hono, Next.js, Remix, Bun, Deno).
 *
 * @example
 * toResponse(engine.attach(runId, { afterSeq: lastEventId(request) ?? 0 }), { signal: request.signal })
 */
export declare function toResponse(source: EventStream, options?: ResponseOptions): Response
/** The events of a session as a response. */
export declare function toResponse(
  source: SessionStream,
  options?: SessionResponseOptions,
): Response

/**
 * {@link toSSE} into a response of `node:http`, Express or Fastify (`reply.hijack()`, then `reply.raw`). Headers are sent at once, and
 * a slow client is waited for. Resolves when the response has ended: true after the last event, false where the client
 * disconnected before it. Never rejects because of the source or the client.
 *
 * @example
 * createServer((request, response) => writeSSE(engine.run(context), response))
 */
export declare function writeSSE(
  source: EventStream,
  response: NodeResponse,
  options?: ResponseOptions,
): Promise<boolean>
/** The events of a session into a response of Node.js. */
export declare function writeSSE(
  source: SessionStream,
  response: NodeResponse,
  options?: SessionResponseOptions,
): Promise<boolean>

/** The `Last-Event-ID` of a request as a number; undefined without one. A {@link WebRequestError} if it is none of ours. */
export declare function lastEventId(request: WebRequest | NodeRequest): number | undefined

/** The `Last-Event-ID` of a request for the events of a session; undefined without one. A {@link WebRequestError} if it is none of ours. */
export declare function lastSessionEvent(
  request: WebRequest | NodeRequest,
): SessionEventId | undefined

/**
 * Reads a request: its JSON body, its `Last-Event-ID`, and a signal that is aborted when the client disconnects before the answer has
 * ended. Rejects with a {@link WebRequestError} that lists all that is wrong. With a `schema`, `body` is what the schema made of it.
 *
 * @example
 * const { body, signal } = await fromRequest(request, { schema: z.object({ text: z.string() }) })
 */
export declare function fromRequest<Body = unknown>(
  request: WebRequest,
  options?: RequestOptions<Body>,
): Promise<ReadRequest<Body>>
/** The same for `node:http`: the response shows whether a client disconnected, or was answered. */
export declare function fromRequest<Body = unknown>(
  request: NodeRequest,
  options: RequestOptions<Body> & { response: NodeResponse },
): Promise<ReadRequest<Body>>

export interface RequestOptions<Body = unknown> {
  /** The longest body in bytes. Default 1,048,576. */
  maxBytes?: number | undefined
  /** A Standard Schema (Zod, Valibot, ArkType, …) for the body. */
  schema?: StandardSchema<any, Body> | undefined
}

export interface ReadRequest<Body = unknown> {
  /** Parsed JSON; undefined where the request has no body. */
  body: Body
  lastEventId: number | undefined
  signal: AbortSignal
}

/**
 * What is wrong with a request. The message and the issues may be sent to the client: they repeat
 * nothing of the body beyond the messages and paths of your schema.
 */
export declare class WebRequestError extends Error {
  constructor(problems: readonly RequestProblem[])
  override readonly name: 'WebRequestError'
  readonly code: RequestErrorCode
  /** The HTTP status to answer with. */
  readonly status: 400 | 413 | 415
  /** All that is wrong. `code` and `status` are those of the first. */
  readonly issues: readonly RequestIssue[]
}

export type RequestErrorCode =
  | 'body_too_large'
  | 'unsupported_media_type'
  | 'invalid_json'
  | 'invalid_body'
  | 'invalid_last_event_id'

export interface RequestIssue {
  /** Where: `body`, `body.text`, `headers.content-type`, `headers.last-event-id`. */
  path: string
  message: string
}

/** An issue with its code. */
export interface RequestProblem extends RequestIssue {
  code: RequestErrorCode
}

/** A WHATWG `Request`, as far as it is used. */
export interface WebRequest {
  readonly headers: { get(name: string): string | null }
  readonly body: ReadableStream<Uint8Array> | null
  readonly signal: AbortSignal
}

/** An `IncomingMessage` of `node:http` or `node:http2`, as far as it is used. */
export interface NodeRequest {
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  on(event: string, listener: (...values: any[]) => void): unknown
  off(event: string, listener: (...values: any[]) => void): unknown
  pause(): unknown
}

/** A `ServerResponse` of `node:http` or `node:http2`, as far as it is used. */
export interface NodeResponse {
  readonly destroyed: boolean
  readonly headersSent: boolean
  readonly writableFinished: boolean
  statusCode: number
  setHeader(name: string, value: string): unknown
  flushHeaders?(): void
  write(chunk: string): boolean
  end(): unknown
  on(event: string, listener: (...values: any[]) => void): unknown
  off(event: string, listener: (...values: any[]) => void): unknown
}
