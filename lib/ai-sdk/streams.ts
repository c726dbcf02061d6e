// A run as a UI message stream: objects, a Response, a response of Node.js. It must never decide what a chunk has.

import type {
  UIMessageChunk,
  UIMessageResponseOptions,
  UIMessageStreamOptions,
} from '../../ai-sdk.d.ts'
import type { StreamEvent } from '../../index.d.ts'
import type { EventStream, NodeResponse } from '../../web.d.ts'
import { type Encoder, SourceReader } from '../web/source-reader.ts'
import { responseOf, streamOf, writeAll } from '../web/transport.ts'
import { ChunkEncoder } from './chunks.ts'
import { readResponse, readStream } from './options.ts'

/** Chunks as server-sent events. The id comes with the last chunk of its event: a client has all of it then. */
class ChunkFrames implements Encoder<StreamEvent, string> {
  #chunks: ChunkEncoder
  #lastEventId: number

  constructor(options: UIMessageStreamOptions, lastEventId: number) {
    this.#chunks = new ChunkEncoder(options)
    this.#lastEventId = lastEventId
  }

  opening(): string[] {
    return this.heartbeat()
  }

  heartbeat(): string[] {
    return [':\n\n']
  }

  event(event: StreamEvent): string[] {
    const chunks = this.#chunks.event(event)
    if (event.seq <= this.#lastEventId) return []
    const last = chunks.length - 1
    return chunks.map(
      (chunk, index) => `${index === last ? `id: ${event.seq}\n` : ''}${data(chunk)}`,
    )
  }

  ending(): string[] {
    return [...this.#chunks.ending().map(data), 'data: [DONE]\n\n']
  }

  failure(error: unknown): string[] {
    return [...this.#chunks.failure(error).map(data), 'data: [DONE]\n\n']
  }
}

/** JSON has no raw line break, so it is one line of `data`. */
function data(chunk: UIMessageChunk): string {
  return `data: ${JSON.stringify(chunk)}\n\n`
}

/** A UI message stream. */
function toUIMessageStream(
  source: EventStream,
  options: UIMessageStreamOptions = {},
): ReadableStream<UIMessageChunk> {
  const events: AsyncIterable<StreamEvent> = source
  const read = readStream(source, options)
  return streamOf(new SourceReader(events, read, new ChunkEncoder(options)), (chunk) => chunk)
}

/** A UI message stream as the response that `useChat` reads. */
function toUIMessageStreamResponse(
  source: EventStream,
  options: UIMessageResponseOptions = {},
): Response {
  const { read, headers, status } = framesOf(source, options)
  return responseOf(read, headers, status)
}

/** A UI message stream into a response of Node.js. */
async function writeUIMessageStream(
  source: EventStream,
  response: NodeResponse,
  options: UIMessageResponseOptions = {},
): Promise<boolean> {
  const { read, headers, status } = framesOf(source, options)
  return writeAll(read, response, headers, status)
}

function framesOf(source: EventStream, options: UIMessageResponseOptions) {
  const { stream, headers, status, lastEventId } = readResponse(source, options)
  const events: AsyncIterable<StreamEvent> = source
  const read = () => new SourceReader(events, stream, new ChunkFrames(options, lastEventId))
  return { read, headers, status }
}

export { toUIMessageStream, toUIMessageStreamResponse, writeUIMessageStream }
