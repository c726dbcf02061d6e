// The chunks of a UI message stream that the events of one run make: pure but for its state. It must never need an event twice, nor
// number anything by chance: a stream that is read again has the same ids.

import type { UIFinishReason, UIMessageChunk, UIMessageStreamOptions } from '../../ai-sdk.d.ts'
import type { StopReason, StreamEvent } from '../../index.d.ts'
import { codeOf } from '../web/frames.ts'
import type { Encoder } from '../web/source-reader.ts'
import { ToolParts } from './tool-parts.ts'

const FINISH: Record<Exclude<StopReason, 'aborted'>, UIFinishReason> = {
  end_turn: 'stop',
  max_tokens: 'length',
  tool_use: 'tool-calls',
  timeout: 'error',
  error: 'error',
}

type StreamEnd = Extract<StreamEvent, { type: 'stream_end' }>
type Delta = Extract<StreamEvent, { type: 'token' | 'reasoning' }>

class ChunkEncoder implements Encoder<StreamEvent, UIMessageChunk> {
  #options: UIMessageStreamOptions
  #tools: ToolParts
  /** The message of the model whose step is open. */
  #step: string | undefined
  /** The next message takes the place of the one whose step is open. */
  #isAgain = false
  /** The text or the reasoning that is open. */
  #part: { kind: 'text' | 'reasoning'; id: string } | undefined
  #parts = 0
  #ended = false

  constructor(options: UIMessageStreamOptions) {
    this.#options = options
    this.#tools = new ToolParts(options.dynamicTools === true)
  }

  opening(): UIMessageChunk[] {
    return []
  }

  heartbeat(): UIMessageChunk[] {
    return []
  }

  event(event: StreamEvent): UIMessageChunk[] {
    switch (event.type) {
      case 'stream_start':
        return [
          {
            type: 'start',
            messageId: this.#options.messageId ?? event.runId,
            ...this.#metadata(event),
          },
        ]
      case 'token':
        return this.#delta('text', event)
      case 'reasoning':
        return this.#options.sendReasoning === false ? [] : this.#delta('reasoning', event)
      case 'tool_status':
        return [...this.#inStep(event.messageId), ...this.#endPart(), ...this.#tools.status(event)]
      case 'stream_end':
        return event.final ? this.#finish(event) : this.#endPart()
      case 'stream_error':
        this.#ended = true
        return [...this.#endStep(), this.#error(event)]
      case 'tool_input_delta':
        return [...this.#inStep(event.messageId), ...this.#endPart(), ...this.#tools.input(event)]
      case 'tool_progress':
        return this.#options.toolProgress === true
          ? this.#tools.progress(event)
          : this.#other(event)
      case 'retry':
        // Arguments begin again, in the same step and parts.
        this.#isAgain ||= this.#tools.restart()
        return this.#other(event)
      default:
        return this.#other(event)
    }
  }

  /** Events that only the host has a part for. */
  #other(event: StreamEvent): UIMessageChunk[] {
    const data = this.#options.data?.(event)
    return data === undefined ? [] : [data]
  }

  /** A source that ends without a terminal event: the process of its run ended. */
  ending(): UIMessageChunk[] {
    if (this.#ended) return []
    return [...this.#endStep(), this.#error({ type: 'error', code: 'interrupted' })]
  }

  failure(error: unknown): UIMessageChunk[] {
    return [...this.#endStep(), this.#error({ type: 'error', code: codeOf(error) })]
  }

  #error(failure: Parameters<NonNullable<UIMessageStreamOptions['errorText']>>[0]): UIMessageChunk {
    const { errorText } = this.#options
    const byDefault = failure.type === 'error' ? failure.code : failure.error
    return { type: 'error', errorText: errorText?.(failure) ?? byDefault }
  }

  #delta(kind: 'text' | 'reasoning', { messageId, text }: Delta): UIMessageChunk[] {
    const chunks = this.#inStep(messageId)
    if (this.#part?.kind !== kind) {
      chunks.push(...this.#endPart())
      this.#parts += 1
      this.#part = { kind, id: `${messageId}-${this.#parts}` }
      chunks.push({ type: `${kind}-start`, id: this.#part.id })
    }
    chunks.push({ type: `${kind}-delta`, id: this.#part.id, delta: text })
    return chunks
  }

  /** A step for each message of the model. The results of its tools belong to it. */
  #inStep(messageId: string): UIMessageChunk[] {
    if (this.#step === messageId) return []
    // A host may have left out the event that says so.
    const isAgain = this.#isAgain || this.#tools.restart()
    if (this.#step !== undefined && isAgain) {
      this.#isAgain = false
      this.#step = messageId
      return []
    }
    const chunks = this.#endStep()
    this.#step = messageId
    chunks.push({ type: 'start-step' })
    return chunks
  }

  #endPart(): UIMessageChunk[] {
    const part = this.#part
    if (part === undefined) return []
    this.#part = undefined
    return [{ type: `${part.kind}-end`, id: part.id }]
  }

  #endStep(): UIMessageChunk[] {
    const chunks = [...this.#endPart(), ...this.#tools.leave()]
    if (this.#step !== undefined) chunks.push({ type: 'finish-step' })
    this.#step = undefined
    return chunks
  }

  #finish(event: StreamEnd): UIMessageChunk[] {
    this.#ended = true
    const chunks = this.#endStep()
    // The event has it since it has the run's end; events that were stored before have none.
    const { stopReason } = event
    if (stopReason === 'aborted') chunks.push({ type: 'abort' })
    else {
      const finishReason = stopReason === undefined ? {} : { finishReason: FINISH[stopReason] }
      chunks.push({ type: 'finish', ...finishReason, ...this.#metadata(event) })
    }
    return chunks
  }

  #metadata(event: StreamEvent): { messageMetadata?: unknown } {
    const messageMetadata = this.#options.messageMetadata?.(event)
    return messageMetadata === undefined ? {} : { messageMetadata }
  }
}

export { ChunkEncoder }
