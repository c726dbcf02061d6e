// What must type-check of `@nexus/agent-engine/web`, and what must not (`tsc --strict` over this file is the test). It is never run: every
// value here is only declared.

import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Http2ServerRequest, Http2ServerResponse } from 'node:http2'
import type {
  AgentEngine,
  AgentRun,
  SessionEvent,
  StandardSchema,
  StreamEvent,
} from '../../index.js'
import {
  fromRequest,
  lastEventId,
  lastSessionEvent,
  type RequestErrorCode,
  toResponse,
  toSSE,
  WebRequestError,
  writeSSE,
} from '../../web.js'

/** Compiles only if the two types are equal. */
type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
const is = <Yes extends true>(): Yes => true as Yes

declare const engine: AgentEngine
declare const run: AgentRun
declare const list: AsyncIterable<StreamEvent>
declare const watched: AsyncIterable<SessionEvent>

const stream: ReadableStream<Uint8Array> = toSSE(run)
toSSE(engine.attach('r'), { lastEventId: undefined, heartbeatMs: 5, map: ({ seq }) => ({ seq }) })
toSSE(watched, { lastEventId: { runId: 'r', seq: 5 }, map: ({ runId, event }) => [runId, event] })
toSSE(engine.ledger.watch('s'), { lastEventId: lastSessionEvent(web) })
// @ts-expect-error a session's events are of several runs: their numbers do not order them
toSSE(watched, { lastEventId: 5 })
// @ts-expect-error leaving a session's events aborts none of its runs
toSSE(watched, { onDisconnect: 'abort' })
// @ts-expect-error misspelt
toSSE(list, { heartbeat: 5 })

const response: Response = toResponse(run, { status: 201, headers: { 'x-a': 'b' } })
// @ts-expect-error a status is a number
toResponse(run, { status: '200' })

declare const node: { request: IncomingMessage; response: ServerResponse }
declare const node2: { request: Http2ServerRequest; response: Http2ServerResponse }
const written: Promise<boolean> = writeSSE(run, node.response, { onDisconnect: 'continue' })
writeSSE(list, node2.response)

declare const web: Request
const last: (number | undefined)[] = [web, node.request, node2.request].map(lastEventId)

declare const schema: StandardSchema<unknown, { text: string }>
const parsed = fromRequest(web, { schema })
is<Same<Awaited<typeof parsed>['body'], { text: string }>>()
const raw = fromRequest(node.request, { response: node.response })
is<Same<Awaited<typeof raw>['body'], unknown>>()
fromRequest(node2.request, { response: node2.response, maxBytes: 5 })
// @ts-expect-error only its response shows whether a client of Node.js disconnected
fromRequest(node.request)

declare const thrown: unknown
if (thrown instanceof WebRequestError) {
  is<Same<typeof thrown.code, RequestErrorCode>>()
  is<Same<typeof thrown.status, 400 | 413 | 415>>()
  const paths: string[] = thrown.issues.map(({ path }) => path)
  Response.json({ paths })
}

export { last, response, stream, written }
