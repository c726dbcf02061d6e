// The answer of a call as pi's message and its events: one message, changed as it grows. It must never make a second message, nor parse arguments
// that nobody reads.

import type { AgentMessage, Block, StreamEvent } from '../../index.d.ts'
import type {
  AssistantMessage,
  AssistantMessageEvent,
  Model,
  TextContent,
  ThinkingContent,
  ToolCall,
} from '../../pi-ai.d.ts'
import { PartialJson, parseStreamingJson } from './json/partial-json.ts'
import { redactedOf, signatureOfCall, signatureOfOpaque, textOf, thinkingOf } from './signatures.ts'

type Content = TextContent | ThinkingContent | ToolCall

/** A call whose arguments arrive: pi's own name for their text so far. */
interface GrowingCall extends ToolCall {
  partialJson?: string
}

/** A call under way: its fragments that were not read yet. */
interface Growing {
  call: GrowingCall
  json: PartialJson
  unread: string[]
}

class Answer {
  readonly message: AssistantMessage
  #emit: (event: AssistantMessageEvent) => void
  #started = false
  /** The part that grows; undefined between parts. */
  #open: Content | undefined
  #index = -1
  /** The position in the model's answer of the call that grows. */
  #position = -1
  #growing: Growing | undefined
  /** The arguments of the calls that were streamed, as they were written. */
  #written = new Map<ToolCall, string>()

  constructor(model: Model, emit: (event: AssistantMessageEvent) => void) {
    this.#emit = emit
    this.message = {
      role: 'assistant',
      content: [],
      api: model.api,
      provider: model.provider,
      model: model.id,
      usage: {
        input: 0,
        output: 0,
        cacheRead: 0,
        cacheWrite: 0,
        totalTokens: 0,
        cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 },
      },
      stopReason: 'stop',
      timestamp: Date.now(),
    }
  }

  /** Emits that the answer has begun, once. */
  start(): void {
    if (this.#started) return
    this.#started = true
    this.#emit({ type: 'start', partial: this.message })
  }

  /** What arrives of the answer. */
  event(event: StreamEvent): void {
    const partial = this.message
    if (event.type === 'token') {
      const delta = event.text
      if (this.#open?.type === 'text') this.#open.text += delta
      else this.#begin({ type: 'text', text: delta })
      this.#emit({ type: 'text_delta', contentIndex: this.#index, delta, partial })
    } else if (event.type === 'reasoning') {
      const delta = event.text
      if (this.#open?.type === 'thinking') this.#open.thinking += delta
      else this.#begin({ type: 'thinking', thinking: delta })
      this.#emit({ type: 'thinking_delta', contentIndex: this.#index, delta, partial })
    } else if (event.type === 'tool_input_delta') {
      const { index, toolCallId = '', toolName = '', delta } = event
      if (this.#open?.type !== 'toolCall' || this.#position !== index) {
        // The part before it ends first: it may be a call that grows.
        this.#end()
        this.#begin(this.#call(toolCallId, toolName))
        this.#position = index
      }
      this.#grow(delta)
      this.#emit({ type: 'toolcall_delta', contentIndex: this.#index, delta, partial })
    } else if (event.type === 'retry') {
      this.#discard()
    }
  }

  /** The model is asked again: what arrived of its answer is no part of the next one. */
  #discard(): void {
    this.#growing = undefined
    this.#open = undefined
    this.#position = -1
    this.#index = -1
    this.#written.clear()
    this.message.content.length = 0
  }

  /** The answer is whole, or as much of it as there is: parts that were not streamed are added, and all have their signatures. */
  complete(answer: AgentMessage | undefined): void {
    this.start()
    this.#end()
    if (answer !== undefined) this.#adopt(answer.blocks)
    const responseId = answer?.provenance?.responseId
    if (responseId !== undefined) this.message.responseId = responseId
  }

  /** The answer ended early: the part that grows is as it is. */
  leave(): void {
    this.#settle()
    this.#open = undefined
  }

  #begin(content: Content): void {
    this.start()
    this.#end()
    const empty = content.type === 'text' || content.type === 'thinking'
    this.#open = content
    this.#index = this.message.content.push(content) - 1
    const type = empty ? (`${content.type}_start` as const) : 'toolcall_start'
    this.#emit({ type, contentIndex: this.#index, partial: this.message })
  }

  /** Ends the part that grows. */
  #end(): void {
    const content = this.#open
    if (content === undefined) return
    this.#settle()
    this.#open = undefined
    this.#emitEnd(content, this.#index)
  }

  #emitEnd(content: Content, contentIndex: number): void {
    const partial = this.message
    if (content.type === 'text') {
      this.#emit({ type: 'text_end', contentIndex, content: content.text, partial })
    } else if (content.type === 'thinking') {
      this.#emit({ type: 'thinking_end', contentIndex, content: content.thinking, partial })
    } else {
      this.#emit({ type: 'toolcall_end', contentIndex, toolCall: content, partial })
    }
  }

  /** A call whose `arguments` are read from the fragments when somebody looks at them. */
  #call(id: string, name: string): GrowingCall {
    const call: GrowingCall = { type: 'toolCall', id, name, arguments: {}, partialJson: '' }
    const growing: Growing = { call, json: new PartialJson(), unread: [] }
    this.#growing = growing
    Object.defineProperty(call, 'arguments', {
      enumerable: true,
      configurable: true,
      get: () => read(growing),
      set: (value) => define(call, value),
    })
    return call
  }

  #grow(delta: string): void {
    const growing = this.#growing
    if (growing === undefined) return
    growing.unread.push(delta)
    growing.call.partialJson += delta
  }

  /** The call that grows has its arguments as a value. */
  #settle(): void {
    const growing = this.#growing
    if (growing === undefined) return
    this.#growing = undefined
    this.#position = -1
    const { call } = growing
    const written = call.partialJson ?? ''
    const isUnread = Object.getOwnPropertyDescriptor(call, 'arguments')?.get !== undefined
    if (isUnread) define(call, argumentsOf(written))
    delete call.partialJson
    this.#written.set(call, written)
  }

  /** A call that was streamed, with what is known of it at the end. */
  #finished(call: ToolCall, block: Extract<Block, { type: 'tool_call' }>): ToolCall {
    const { name, argumentsJson } = block
    call.name = name
    // The same object as in the events, unless the provider wrote other arguments in the end.
    if (this.#written.get(call) !== argumentsJson) call.arguments = argumentsOf(argumentsJson)
    const thoughtSignature = signatureOfCall(block, this.message.api)
    if (thoughtSignature !== undefined) call.thoughtSignature = thoughtSignature
    return call
  }

  /** Takes the parts of the whole answer over, in their order. */
  #adopt(blocks: readonly Block[]): void {
    const { api } = this.message
    const streamed = this.message.content
    const content: Content[] = []
    let at = 0
    /** What is left of a part that was streamed as one and is several. */
    let rest = 0
    const unseen: number[] = []
    for (const block of blocks) {
      const known = streamed[at]
      if (block.type === 'tool_call' && known?.type === 'toolCall' && known.id === block.id) {
        content.push(this.#finished(known, block))
        at++
        continue
      }
      const whole = wholeOf(block, api)
      if (whole === undefined) {
        if (block.type === 'opaque') attach(content, signatureOfOpaque(block.rawJson, api))
        continue
      }
      if (rest > 0 && whole.type === known?.type) {
        content.push(whole)
        rest -= lengthOf(whole)
        if (rest <= 0) at++
      } else if (known !== undefined && isSame(known, whole, block.type)) {
        rest = Math.max(0, lengthOf(known) - lengthOf(whole))
        content.push(Object.assign(known, whole))
        if (rest === 0) at++
      } else {
        unseen.push(content.push(whole) - 1)
      }
    }
    // The list is the caller's too.
    streamed.splice(0, streamed.length, ...content)
    for (const index of unseen) {
      const added = content[index] as Content
      if (added.type === 'thinking' && added.redacted) continue
      const start = added.type === 'toolCall' ? 'toolcall_start' : (`${added.type}_start` as const)
      this.#emit({ type: start, contentIndex: index, partial: this.message })
      this.#emitEnd(added, index)
    }
  }
}

/** Whether a streamed part is this one. Redacted thinking is never streamed. */
function isSame(shown: Content, whole: Content, type: Block['type']): boolean {
  return shown.type === whole.type && type !== 'redacted_thinking' && lengthOf(whole) > 0
}

function lengthOf(content: Content): number {
  if (content.type === 'text') return content.text.length
  return content.type === 'thinking' ? content.thinking.length : 0
}

/** A part of the answer as pi has it; undefined for one that pi does not have. */
function wholeOf(block: Block, api: string): Content | undefined {
  switch (block.type) {
    case 'text':
      return textOf(block, api)
    case 'thinking':
      return thinkingOf(block, api)
    case 'redacted_thinking':
      return redactedOf(block.data)
    case 'tool_call': {
      const { id, name, argumentsJson } = block
      const thoughtSignature = signatureOfCall(block, api)
      const call = { type: 'toolCall', id, name, arguments: argumentsOf(argumentsJson) } as const
      return thoughtSignature === undefined ? call : { ...call, thoughtSignature }
    }
    case 'image':
    case 'tool_result':
    case 'opaque':
      return undefined
  }
}

/** Google may sign a part that has no text: pi has the signature with the text before it. */
function attach(content: Content[], signature: string | undefined): void {
  if (signature === undefined) return
  const last = content.at(-1)
  if (last?.type === 'text' && last.textSignature === undefined) last.textSignature = signature
  else content.push({ type: 'text', text: '', textSignature: signature })
}

function argumentsOf(json: string): Record<string, unknown> {
  const value = parseStreamingJson(json)
  const isRecord = typeof value === 'object' && value !== null && !Array.isArray(value)
  return isRecord ? (value as Record<string, unknown>) : {}
}

/** The arguments so far: what arrived since the last look is read. */
function read({ json, unread }: Growing): unknown {
  for (const text of unread.splice(0)) json.push(text)
  return json.value() ?? {}
}

function define(call: ToolCall, value: unknown): void {
  Object.defineProperty(call, 'arguments', {
    value,
    writable: true,
    enumerable: true,
    configurable: true,
  })
}

export { Answer }
