// The types of `@nexus/agent-engine/ai-sdk`: runs for the AI SDK (`ai` 6 and 7). Written by hand; `lib/ai-sdk` is checked against them. They
// import nothing of `ai`: its own types fit by structure, in both versions.

import type { Block, MessageInput, StreamEvent } from './index.js'
import type { EventStream, NodeResponse, StreamFailure } from './web.js'

/** The chunks of a UI message stream that a run has; each is a `UIMessageChunk` of `ai`. */
export type UIMessageChunk =
  | { type: 'start'; messageId?: string; messageMetadata?: unknown }
  | { type: 'start-step' }
  | { type: 'text-start'; id: string }
  | { type: 'text-delta'; id: string; delta: string }
  | { type: 'text-end'; id: string }
  | { type: 'reasoning-start'; id: string }
  | { type: 'reasoning-delta'; id: string; delta: string }
  | { type: 'reasoning-end'; id: string }
  | { type: 'tool-input-start'; toolCallId: string; toolName: string; dynamic?: boolean }
  | { type: 'tool-input-delta'; toolCallId: string; inputTextDelta: string }
  | {
      type: 'tool-input-available'
      toolCallId: string
      toolName: string
      input: unknown
      dynamic?: boolean
    }
  | {
      type: 'tool-input-error'
      toolCallId: string
      toolName: string
      input: unknown
      errorText: string
      dynamic?: boolean
    }
  | {
      type: 'tool-output-available'
      toolCallId: string
      output: unknown
      /** True: a progress, which another output follows. */
      preliminary?: boolean
      dynamic?: boolean
    }
  | { type: 'tool-output-error'; toolCallId: string; errorText: string; dynamic?: boolean }
  | { type: 'finish-step' }
  | { type: 'finish'; finishReason?: UIFinishReason; messageMetadata?: unknown }
  | { type: 'abort' }
  | { type: 'error'; errorText: string }
  | UIDataChunk

/** A data part of a UI message. */
export interface UIDataChunk {
  type: `data-${string}`
  /** Parts with one id replace each other. */
  id?: string
  data: unknown
  /** True: it reaches `onData` only, and is no part of the message. */
  transient?: boolean
}

export type UIFinishReason = 'stop' | 'length' | 'tool-calls' | 'error' | 'other'

export interface UIMessageStreamOptions {
  /** The id of the assistant's message. Default: the id of the run. */
  messageId?: string | undefined
  /** Metadata of the message: called for `stream_start` and for `stream_end`; undefined: none. */
  messageMetadata?: ((event: StreamEvent) => unknown) | undefined
  /** Whether reasoning is sent. Default true. */
  sendReasoning?: boolean | undefined
  /** True: parts of tools have the type `dynamic-tool`. Default: `tool-NAME`. */
  dynamicTools?: boolean | undefined
  /** True: what a tool passes to its `onUpdate` is a preliminary output of its part. Default false. */
  toolProgress?: boolean | undefined
  /** A data part for an event that has no chunk of its own (`waiting`, `model_switch`, …); undefined: none, which is the default. */
  data?: ((event: StreamEvent) => UIDataChunk | undefined) | undefined
  /** The text of an error for the client. Default: the error's message; for a source that failed, its code. */
  errorText?:
    | ((failure: Extract<StreamEvent, { type: 'stream_error' }> | StreamFailure) => string)
    | undefined
  /** What becomes of a run whose client disconnects, as for `toSSE` of `/web`: left by default, which aborts it unless it is `detached`. */
  onDisconnect?: 'abort' | 'continue' | undefined
  /** Receives what the source threw. */
  onError?: ((error: unknown) => void) | undefined
  /** Ends the stream as a disconnected client does. */
  signal?: AbortSignal | undefined
}

export interface UIMessageResponseOptions extends UIMessageStreamOptions {
  /**
   * The number of the last event that a client has: its `Last-Event-ID`. The chunks of events up to it are not sent. The source must
   * begin with the run's first event all the same: what follows depends on it.
   */
  lastEventId?: number | undefined
  /** Milliseconds without an event after which a comment is sent. 0: never. Default 15,000. */
  heartbeatMs?: number | undefined
  /** Besides the headers of a UI message stream. */
  headers?: Readonly<Record<string, string>> | undefined
  /** Default 200. */
  status?: number | undefined
}

/**
 * A run, or the attachment to one from its first event, as a UI message stream: one assistant message with a step for each call of the
 * model. For `createUIMessageStreamResponse`, `writer.merge`, `readUIMessageStream`, or a `ChatTransport` of your own.
 *
 * @example
 * for await (const message of readUIMessageStream({ stream: toUIMessageStream(run) })) render(message)
 */
export declare function toUIMessageStream(
  source: EventStream,
  options?: UIMessageStreamOptions,
): ReadableStream<UIMessageChunk>

/**
 * {@link toUIMessageStream} as the response that `useChat` reads, with the number of its event as `id` of each. A client that leaves it
 * (`stop()`) aborts the run, unless that is `detached`.
 *
 * @example
 * export async function POST(request: Request) {
 *   const { messages, id } = await request.json()
 *   const [message] = fromUIMessages(messages.slice(-1))
 *   const run = engine.run(message, { session: id })
 *   return toUIMessageStreamResponse(run, { signal: request.signal })
 * }
 */
export declare function toUIMessageStreamResponse(
  source: EventStream,
  options?: UIMessageResponseOptions,
): Response

/** The same into a response of `node:http`, Express or Fastify. Resolves with false where the client disconnected before the end. */
export declare function writeUIMessageStream(
  source: EventStream,
  response: NodeResponse,
  options?: UIMessageResponseOptions,
): Promise<boolean>

/** A `UIMessage` of `ai`, as far as it is read. */
export interface UIMessageLike {
  readonly role: 'system' | 'user' | 'assistant'
  readonly parts: readonly { readonly type: string }[]
}

/** A `ModelMessage` of `ai`, as far as it is read. */
export interface ModelMessageLike {
  readonly role: 'system' | 'user' | 'assistant' | 'tool'
  readonly content: string | readonly { readonly type: string }[]
}

export interface FromMessagesOptions {
  /**
   * What becomes of a part that the engine has no form for: a text, a block, or undefined to leave it out. Called for files other than
   * images and texts in the message itself (PDFs, files by their address), for files of assistants, data parts, sources. Default: such a
   * file of a user is refused, everything else is left out.
   */
  part?: ((part: { readonly type: string }) => string | Block | undefined) | undefined
}

/**
 * Messages of `useChat` for `history` and `currentMessage` of a context. A message of an assistant becomes a message for each of its
 * steps, followed by the results of its tools; calls whose input is incomplete are left out.
 *
 * @example
 * const messages = fromUIMessages(body.messages)
 * engine.run(messages.at(-1), { history: messages.slice(0, -1) })
 *
 * @throws {TypeError} with the path of what is no message of that kind, or of a file that the engine cannot pass on.
 */
export declare function fromUIMessages(
  messages: readonly UIMessageLike[],
  options?: FromMessagesOptions,
): MessageInput[]

/**
 * Messages of `generateText` and `streamText` for the `history` of a context.
 *
 * @example
 * const history = fromModelMessages(await convertToModelMessages(uiMessages))
 *
 * @throws {TypeError} as {@link fromUIMessages}.
 */
export declare function fromModelMessages(
  messages: readonly ModelMessageLike[],
  options?: FromMessagesOptions,
): MessageInput[]
