// An assistant message of pi while it streams: one object that grows, which its events share as `partial`. It must never be changed after
// its end.

import type { TokenUsage } from '../../../index.d.ts'
import type { AssistantMessage, AssistantMessageEvent, PiToolCall } from '../../../run-agent.d.ts'
import { noUsage, type Prices, piUsage } from '../usage.ts'

type Kind = 'text' | 'thinking' | 'toolCall'
type Ended = Extract<AssistantMessage['stopReason'], 'stop' | 'length' | 'toolUse'>

class PartialMessage {
  readonly message: AssistantMessage
  readonly #prices: Prices
  #open: Kind | undefined
  /** The arguments of the open call as they are written. */
  #json = ''
  #callIndex: number | undefined

  constructor(provider: string, model: string, prices: Prices) {
    this.#prices = prices
    this.message = {
      role: 'assistant',
      content: [],
      api: prices(provider, model)?.api ?? 'unknown',
      provider,
      model,
      usage: noUsage(),
      stopReason: 'stop',
      timestamp: Date.now(),
    }
  }

  start(): AssistantMessageEvent {
    return { type: 'start', partial: this.message }
  }

  text(delta: string): AssistantMessageEvent[] {
    const events = this.#begin('text')
    const part = this.message.content.at(-1)
    if (part?.type === 'text') part.text += delta
    return [...events, { type: 'text_delta', contentIndex: this.#at, delta, partial: this.message }]
  }

  thinking(delta: string): AssistantMessageEvent[] {
    const events = this.#begin('thinking')
    const part = this.message.content.at(-1)
    if (part?.type === 'thinking') part.thinking += delta
    const event = { contentIndex: this.#at, delta, partial: this.message }
    return [...events, { type: 'thinking_delta', ...event }]
  }

  /** A piece of a call's arguments; `index` tells the calls of a message apart. */
  call(index: number, id: string, name: string, delta: string): AssistantMessageEvent[] {
    const events = this.#callIndex === index && this.#open === 'toolCall' ? [] : this.end()
    if (this.#open === undefined) {
      this.#open = 'toolCall'
      this.#callIndex = index
      this.#json = ''
      this.message.content.push({ type: 'toolCall', id, name, arguments: {} })
      events.push({ type: 'toolcall_start', contentIndex: this.#at, partial: this.message })
    }
    const call = this.message.content.at(-1) as PiToolCall
    // Some services name a call after its arguments have begun.
    call.id ||= id
    call.name ||= name
    this.#json += delta
    const event = { contentIndex: this.#at, delta, partial: this.message }
    return [...events, { type: 'toolcall_delta', ...event }]
  }

  /** The model is asked again: what arrived of its answer is no part of the next one. */
  restart(): void {
    this.#open = undefined
    this.#callIndex = undefined
    this.#json = ''
    this.message.content.length = 0
  }

  /** Ends the open part. */
  end(): AssistantMessageEvent[] {
    const part = this.message.content.at(-1)
    if (this.#open === undefined || part === undefined) return []
    this.#open = undefined
    const at = { contentIndex: this.#at, partial: this.message }
    if (part.type === 'text') return [{ type: 'text_end', content: part.text, ...at }]
    if (part.type === 'thinking') return [{ type: 'thinking_end', content: part.thinking, ...at }]
    part.arguments = fieldsOf(this.#json)
    return [{ type: 'toolcall_end', toolCall: part, ...at }]
  }

  usage(provider: string, model: string, usage: TokenUsage, cost: number | undefined): void {
    this.message.provider = provider
    this.message.model = model
    this.message.usage = piUsage(usage, cost, this.#prices(provider, model))
  }

  done(given?: Ended): AssistantMessageEvent[] {
    const events = this.end()
    const hasCalls = this.message.content.some(({ type }) => type === 'toolCall')
    const reason = given ?? (hasCalls ? 'toolUse' : 'stop')
    this.message.stopReason = reason
    return [...events, { type: 'done', reason, message: this.message }]
  }

  failed(reason: 'aborted' | 'error', message: string): AssistantMessageEvent[] {
    const events = this.end()
    this.message.stopReason = reason
    this.message.errorMessage = message
    return [...events, { type: 'error', reason, error: this.message }]
  }

  get #at(): number {
    return this.message.content.length - 1
  }

  #begin(kind: 'text' | 'thinking'): AssistantMessageEvent[] {
    if (this.#open === kind) return []
    const events = this.end()
    this.#open = kind
    this.message.content.push(
      kind === 'text' ? { type: 'text', text: '' } : { type: 'thinking', thinking: '' },
    )
    return [...events, { type: `${kind}_start`, contentIndex: this.#at, partial: this.message }]
  }
}

/** The arguments of a call; those that are no JSON object are reported by the tool's result. */
function fieldsOf(json: string): Record<string, unknown> {
  try {
    const value = JSON.parse(json)
    return value !== null && typeof value === 'object' && !Array.isArray(value) ? value : {}
  } catch {
    return {}
  }
}

export { PartialMessage }
