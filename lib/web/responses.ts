// A source of events as a stream, as a Response, and into a response of Node.js: each reads a frame only when its client took the last.
// It must never hold more than one frame for a client that does not read.

import type { EventStream, NodeResponse, ResponseOptions, SSEOptions } from '../../web.d.ts'
import { FrameReader } from './frame-reader.ts'
import { readResponseOptions, readStreamOptions } from './options.ts'

/** A stream of server-sent events. */
function toSSE(source: EventStream, options: SSEOptions = {}): ReadableStream<Uint8Array> {
  return streamOf(new FrameReader(source, readStreamOptions(source, options)))
}

/** A stream of server-sent events as the response of a `fetch` handler. */
function toResponse(source: EventStream, options: ResponseOptions = {}): Response {
  const { stream, headers, status } = readResponseOptions(source, options)
  // Before the source is touched: a status or header that a Response refuses leaves the run alone.
  const init = { status, headers: new Headers([...headers]) }
  new Response(null, init)
  return new Response(streamOf(new FrameReader(source, stream)), init)
}

function streamOf(reader: FrameReader): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder()
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const frame = await reader.next()
        if (frame === undefined) controller.close()
        else controller.enqueue(encoder.encode(frame))
      },
      cancel: () => reader.leave(),
    },
    // No frame is fetched in advance.
    { highWaterMark: 0 },
  )
}

/** Writes server-sent events into a response of Node.js. True after the last event, false where the client went before. */
async function writeSSE(
  source: EventStream,
  response: NodeResponse,
  options: ResponseOptions = {},
): Promise<boolean> {
  const { stream, headers, status } = readResponseOptions(source, options)
  if (response.headersSent) throw new TypeError('`response`: its headers have been sent already')
  response.statusCode = status
  for (const [name, value] of headers) response.setHeader(name, value)
  const reader = new FrameReader(source, stream)
  const { leave } = reader
  // `close` also comes after the end, and does nothing then. An error of the socket is followed by it.
  response.on('close', leave)
  response.on('error', leave)
  try {
    if (response.destroyed) leave()
    else response.flushHeaders?.()
    for (;;) {
      const frame = await reader.next()
      if (frame === undefined) break
      if (!response.write(frame) && !response.destroyed) await drained(response)
    }
    if (!response.destroyed) response.end()
    return !reader.isLeft
  } finally {
    response.off('close', leave)
  }
}

/** Until a client took what was written, or went. */
function drained(response: NodeResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      response.off('drain', done)
      response.off('close', done)
      resolve()
    }
    response.on('drain', done)
    response.on('close', done)
  })
}

export { toResponse, toSSE, writeSSE }
