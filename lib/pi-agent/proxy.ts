// A `streamFn` for a program without keys: its own server calls the model and passes the events on, without the message so far, which is put together here.
// It must never parse a call's arguments that nobody reads.

import type { ProxyAssistantMessageEvent, ProxyStreamOptions } from '../../pi-agent.d.ts'
import type {
  AssistantMessage,
  AssistantMessageEvent,
  AssistantMessageEventStream,
  Context,
  Model,
  ToolCall,
} from '../../pi-ai.d.ts'
import { createAssistantMessageEventStream } from '../../pi-ai.js'
import { PartialJson, parseStreamingJson } from '../pi-ai/json/partial-json.ts'
import { failure } from './answer.ts'
import { messageOf } from './run.ts'

const ABORTED = 'Request aborted by user'

/** A call whose arguments arrive. */
interface GrowingCall extends ToolCall {
  partialJson?: string
}

function streamProxy(
  model: Model,
  context: Context,
  options: ProxyStreamOptions,
): AssistantMessageEventStream {
  const stream = createAssistantMessageEventStream()
  const partial: AssistantMessage = {
    ...failure(model, false, ''),
    content: [],
    stopReason: 'stop',
  }
  delete partial.errorMessage
  const fail = (error: unknown) => {
    const reason = options.signal?.aborted ? 'aborted' : 'error'
    partial.stopReason = reason
    partial.errorMessage = messageOf(error)
    stream.push({ type: 'error', reason, error: partial })
    stream.end(partial)
  }
  read(model, context, options, new Proxied(partial), stream).catch(fail)
  return stream
}

async function read(
  model: Model,
  context: Context,
  options: ProxyStreamOptions,
  proxied: Proxied,
  stream: AssistantMessageEventStream,
): Promise<void> {
  const { proxyUrl, authToken, signal } = options
  const response = await fetch(`${proxyUrl}/api/stream`, {
    method: 'POST',
    headers: { authorization: `Bearer ${authToken}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, context, options: sentOptions(options) }),
    ...(signal && { signal }),
  })
  if (!response.ok) throw new Error(await refusalOf(response))
  if (response.body === null) throw new Error('Proxy error: the response has no body')
  const decoder = new TextDecoder()
  let rest = ''
  for await (const bytes of response.body) {
    if (signal?.aborted) throw new Error(ABORTED)
    const lines = (rest + decoder.decode(bytes, { stream: true })).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) {
      const data = line.startsWith('data: ') ? line.slice('data: '.length).trim() : ''
      if (data === '') continue
      const event = proxied.event(JSON.parse(data))
      if (event === undefined) continue
      stream.push(event)
      if (event.type === 'done' || event.type === 'error') return stream.end()
    }
  }
  throw new Error(signal?.aborted ? ABORTED : 'Proxy error: the stream ended without a result')
}

/** What the server needs of the options. A function or a signal cannot be sent. */
function sentOptions(options: ProxyStreamOptions): Record<string, unknown> {
  const { temperature, maxTokens, reasoning, cacheRetention, sessionId, headers } = options
  const { metadata, transport, thinkingBudgets, maxRetryDelayMs } = options
  return {
    temperature,
    maxTokens,
    reasoning,
    cacheRetention,
    sessionId,
    headers,
    metadata,
    transport,
    thinkingBudgets,
    maxRetryDelayMs,
  }
}

async function refusalOf(response: Response): Promise<string> {
  const text = await response.text()
  const { error } = (parseStreamingJson(text) ?? {}) as { error?: unknown }
  return `Proxy error: ${error ? String(error) : `${response.status} ${response.statusText}`}`
}

/** The message that the events of a server make. */
class Proxied {
  #partial: AssistantMessage
  #calls = new Map<number, PartialJson>()

  constructor(partial: AssistantMessage) {
    this.#partial = partial
  }

  /** The event with the message so far; undefined for an event that pi does not know. */
  event(event: ProxyAssistantMessageEvent): AssistantMessageEvent | undefined {
    const partial = this.#partial
    switch (event.type) {
      case 'start':
        return { type: 'start', partial }
      case 'text_start':
        partial.content[event.contentIndex] = { type: 'text', text: '' }
        return { ...event, partial }
      case 'thinking_start':
        partial.content[event.contentIndex] = { type: 'thinking', thinking: '' }
        return { ...event, partial }
      case 'text_delta':
        this.#part(event.contentIndex, 'text', event.type).text += event.delta
        return { ...event, partial }
      case 'thinking_delta':
        this.#part(event.contentIndex, 'thinking', event.type).thinking += event.delta
        return { ...event, partial }
      case 'text_end': {
        const { type, contentIndex, contentSignature } = event
        const part = this.#part(contentIndex, 'text', type)
        if (contentSignature !== undefined) part.textSignature = contentSignature
        return { type, contentIndex, content: part.text, partial }
      }
      case 'thinking_end': {
        const { type, contentIndex, contentSignature } = event
        const part = this.#part(contentIndex, 'thinking', type)
        if (contentSignature !== undefined) part.thinkingSignature = contentSignature
        return { type, contentIndex, content: part.thinking, partial }
      }
      case 'toolcall_start': {
        const { type, contentIndex, id, toolName: name } = event
        partial.content[contentIndex] = this.#call(contentIndex, id, name)
        return { type, contentIndex, partial }
      }
      case 'toolcall_delta': {
        const call: GrowingCall = this.#part(event.contentIndex, 'toolCall', event.type)
        call.partialJson += event.delta
        this.#calls.get(event.contentIndex)?.push(event.delta)
        return { ...event, partial }
      }
      case 'toolcall_end': {
        const { type, contentIndex } = event
        const call: GrowingCall = this.#part(contentIndex, 'toolCall', type)
        settle(call, call.arguments)
        delete call.partialJson
        return { type, contentIndex, toolCall: call, partial }
      }
      case 'done':
        partial.stopReason = event.reason
        partial.usage = event.usage
        return { type: 'done', reason: event.reason, message: partial }
      case 'error':
        partial.stopReason = event.reason
        partial.usage = event.usage
        if (event.errorMessage !== undefined) partial.errorMessage = event.errorMessage
        return { type: 'error', reason: event.reason, error: partial }
      default:
        return undefined
    }
  }

  #part<Type extends 'text' | 'thinking' | 'toolCall'>(index: number, type: Type, event: string) {
    const part = this.#partial.content[index]
    if (part?.type !== type) throw new Error(`Received ${event} for non-${type} content`)
    return part as Extract<AssistantMessage['content'][number], { type: Type }>
  }

  /** A call whose `arguments` are read from what arrived when somebody looks at them. */
  #call(index: number, id: string, name: string): GrowingCall {
    const json = new PartialJson()
    this.#calls.set(index, json)
    const call: GrowingCall = { type: 'toolCall', id, name, arguments: {}, partialJson: '' }
    Object.defineProperty(call, 'arguments', {
      enumerable: true,
      configurable: true,
      get: () => json.value() ?? {},
      set: (value) => settle(call, value),
    })
    return call
  }
}

function settle(call: ToolCall, value: unknown): void {
  const usual = { writable: true, enumerable: true, configurable: true }
  Object.defineProperty(call, 'arguments', { value, ...usual })
}

export { streamProxy }
