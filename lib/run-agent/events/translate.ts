// The events of a run as `onEvent` of `runAgent` gets them: those of each answer in pi's form, and those of tools, retries and
// compactions. It must never change what it reads.

import type { StreamEvent } from '../../../index.d.ts'
import type { RunAgentEvent } from '../../../run-agent.d.ts'
import type { Prices } from '../usage.ts'
import { PartialMessage } from './message.ts'

class EventTranslator {
  readonly #provider: string
  readonly #model: string
  readonly #prices: Prices
  #messageId: string | undefined
  #partial: PartialMessage | undefined

  constructor(provider: string, model: string, prices: Prices) {
    this.#provider = provider
    this.#model = model
    this.#prices = prices
  }

  /** What one event becomes. */
  next(event: StreamEvent): RunAgentEvent[] {
    switch (event.type) {
      case 'token':
        return this.#in(event.messageId, (partial) => partial.text(event.text))
      case 'reasoning':
        return this.#in(event.messageId, (partial) => partial.thinking(event.text))
      case 'tool_input_delta':
        return this.#in(event.messageId, (partial) =>
          partial.call(event.index, event.toolCallId ?? '', event.toolName ?? '', event.delta),
        )
      case 'usage':
        if (event.purpose !== 'run' || event.messageId === undefined) return []
        return this.#in(event.messageId, (partial) => {
          partial.usage(event.provider, event.model, event.usage, event.cost)
          return []
        })
      case 'stream_end':
        return this.#ended(event)
      case 'stream_error':
        return this.#failed('error', event.error)
      case 'tool_status':
        return [toolEvent(event)]
      case 'retry': {
        // The next attempt is the same answer, under another id.
        this.#partial?.restart()
        this.#messageId = undefined
        const { attempt, reason, profileId, ms } = event
        return [
          { type: 'retry', attempt, reason, ms, ...(profileId !== undefined && { profileId }) },
        ]
      }
      case 'compaction': {
        const { phase, tokensBefore, tokensAfter } = event
        if (phase === 'start' || tokensAfter === undefined) return []
        return [{ type: 'compaction', tokensBefore, tokensAfter }]
      }
      default:
        return []
    }
  }

  /** Events of the message with this id, which begins where it is new. */
  #in(messageId: string, change: (partial: PartialMessage) => RunAgentEvent[]): RunAgentEvent[] {
    if (this.#partial !== undefined && (this.#messageId ?? messageId) === messageId) {
      this.#messageId = messageId
      return change(this.#partial)
    }
    const partial = this.#begin(messageId)
    return [partial.start(), ...change(partial)]
  }

  #begin(messageId: string | undefined): PartialMessage {
    this.#messageId = messageId
    this.#partial = new PartialMessage(this.#provider, this.#model, this.#prices)
    return this.#partial
  }

  #ended(event: Extract<StreamEvent, { type: 'stream_end' }>): RunAgentEvent[] {
    const { final, stopReason } = event
    if (final && stopReason === 'aborted') return this.#failed('aborted', 'Request was aborted')
    const partial = this.#partial
    this.#partial = undefined
    if (partial === undefined) return []
    // A message that goes on, or that the limit of iterations ended, has the reason that its calls say.
    if (stopReason === 'max_tokens') return partial.done('length')
    return partial.done(stopReason === 'end_turn' ? 'stop' : undefined)
  }

  #failed(reason: 'aborted' | 'error', message: string): RunAgentEvent[] {
    const events = this.#partial === undefined ? [this.#begin(undefined).start()] : []
    const failed = this.#partial?.failed(reason, message) ?? []
    this.#partial = undefined
    return [...events, ...failed]
  }
}

function toolEvent(event: Extract<StreamEvent, { type: 'tool_status' }>): RunAgentEvent {
  const { toolName, toolCallId, params, durationMs = 0, isError, result, status } = event
  if (status === 'started')
    return { type: 'tool_start', toolName, toolCallId, params: params ?? {} }
  return {
    type: 'tool_end',
    toolName,
    toolCallId,
    durationMs,
    isError: isError ?? status === 'failed',
    ...(result !== undefined && { result }),
  }
}

export { EventTranslator }
