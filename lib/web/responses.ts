// Events as server-sent events: a stream, a Response, a response of Node.js. It must never decide what a frame has.

import type { SessionEvent, StreamEvent } from '../../index.d.ts'
import type {
  EventStream,
  NodeResponse,
  ResponseOptions,
  SessionResponseOptions,
  SessionSSEOptions,
  SessionStream,
  SSEOptions,
} from '../../web.d.ts'
import { FrameEncoder } from './frames.ts'
import { readResponseOptions, readStreamOptions, type StreamOptions } from './options.ts'
import { SourceReader } from './source-reader.ts'
import { responseOf, streamOf, textBytes, writeAll } from './transport.ts'

type Source = EventStream | SessionStream

/** A stream of server-sent events. */
function toSSE(
  source: Source,
  options: SSEOptions | SessionSSEOptions = {},
): ReadableStream<Uint8Array> {
  return streamOf(framesOf(source, readStreamOptions(source, options)), textBytes())
}

/** A stream of server-sent events as the response of a `fetch` handler. */
function toResponse(
  source: Source,
  options: ResponseOptions | SessionResponseOptions = {},
): Response {
  const { stream, headers, status } = readResponseOptions(source, options)
  return responseOf(() => framesOf(source, stream), headers, status)
}

/** Writes server-sent events into a response of Node.js. True after the last event, false where the client went before. */
async function writeSSE(
  source: Source,
  response: NodeResponse,
  options: ResponseOptions | SessionResponseOptions = {},
): Promise<boolean> {
  const { stream, headers, status } = readResponseOptions(source, options)
  return writeAll(() => framesOf(source, stream), response, headers, status)
}

function framesOf(source: Source, options: StreamOptions) {
  const events: AsyncIterable<StreamEvent | SessionEvent> = source
  return new SourceReader(events, options, new FrameEncoder(options))
}

export { toResponse, toSSE, writeSSE }
