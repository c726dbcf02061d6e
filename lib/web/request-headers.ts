// What the headers of a request say, of a WHATWG Request and of Node.js alike. It must never trust a number that it did not write.

import type { NodeRequest, RequestProblem, SessionEventId, WebRequest } from '../../web.d.ts'
import { sessionEventOf } from './frames.ts'
import { WebRequestError } from './request-error.ts'

function isWebRequest(request: WebRequest | NodeRequest): request is WebRequest {
  return typeof request.headers.get === 'function'
}

/** A header by its name in lower case; undefined where it is absent or empty. */
function header(request: WebRequest | NodeRequest, name: string): string | undefined {
  const value = isWebRequest(request) ? request.headers.get(name) : request.headers[name]
  return (Array.isArray(value) ? value.join(', ') : value) || undefined
}

/** The `Last-Event-ID`, or why it is no number of an event. */
function readLastEventId(
  request: WebRequest | NodeRequest,
): { id: number | undefined } | { problem: RequestProblem } {
  const text = header(request, 'last-event-id')
  const id = text === undefined ? undefined : Number(text)
  if (text === undefined || (/^\d+$/.test(text) && Number.isSafeInteger(id))) return { id }
  return { problem: problem('is not the number of an event') }
}

function problem(message: string): RequestProblem {
  return { code: 'invalid_last_event_id', path: 'headers.last-event-id', message }
}

/** The `Last-Event-ID` of a request as a number. */
function lastEventId(request: WebRequest | NodeRequest): number | undefined {
  const read = readLastEventId(request)
  if ('problem' in read) throw new WebRequestError([read.problem])
  return read.id
}

/** The `Last-Event-ID` of a request for the events of a session. */
function lastSessionEvent(request: WebRequest | NodeRequest): SessionEventId | undefined {
  const text = header(request, 'last-event-id')
  if (text === undefined) return undefined
  const event = sessionEventOf(text)
  if (event === undefined) throw new WebRequestError([problem('is not the event of a session')])
  return event
}

export { header, isWebRequest, lastEventId, lastSessionEvent, readLastEventId }
