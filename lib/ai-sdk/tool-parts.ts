// The parts of tools in a UI message: one for each call, with an id that no other call of the message has. It must never show a result
// before its call.

import type { UIMessageChunk } from '../../ai-sdk.d.ts'
import type { StreamEvent } from '../../index.d.ts'

type Status = Extract<StreamEvent, { type: 'tool_status' }>
/** A piece of a call's arguments. The id and the name come as soon as the provider has sent them. */
type InputDelta = Extract<StreamEvent, { type: 'tool_input_delta' }>
/** What a running tool passed to its `onUpdate`. */
type Progress = Extract<StreamEvent, { type: 'tool_progress' }>

/** The arguments of one call: what was not sent yet, and the part, once it has begun. */
interface Input {
  text: string
  part?: { key: string; id: string; toolName: string }
}

class ToolParts {
  #flags: { dynamic?: true }
  /** Arguments that stream, by the message and the position of the call. */
  #inputs = new Map<string, Input>()
  /** The ids of the parts, by the engine's id of the call. */
  #byCall = new Map<string, string>()
  /** The ids of the parts, by the message and the provider's id of the call. */
  #ids = new Map<string, string>()
  #used = new Set<string>()
  #begun = new Set<string>()
  /** Parts that an answer has begun which was requested again: the next one goes on with them. */
  #left: { id: string; toolName: string }[] = []

  constructor(dynamic: boolean) {
    this.#flags = dynamic ? { dynamic: true } : {}
  }

  /** The answer is requested again: arguments of a call that has not begun are no part of the next one. Returns whether there are such. */
  restart(): boolean {
    const before = this.#left.length
    for (const { part } of this.#inputs.values()) {
      if (part === undefined || this.#begun.has(part.id)) continue
      this.#ids.delete(part.key)
      this.#left.push(part)
    }
    this.#inputs.clear()
    return this.#left.length > before
  }

  /** The answer is whole: parts that it did not go on with are no calls. */
  leave(): UIMessageChunk[] {
    const errorText = 'the model was asked again, and did not make this call'
    this.#inputs.clear()
    return this.#left.splice(0).map(({ id: toolCallId, toolName }) => {
      this.#begun.add(toolCallId)
      const call = { toolCallId, toolName, input: {}, errorText }
      return { type: 'tool-input-error', ...call, ...this.#flags }
    })
  }

  status(event: Status): UIMessageChunk[] {
    const { toolName, status } = event
    const toolCallId = this.#id(event.messageId, event.toolCallId, toolName)
    const input = event.params ?? {}
    this.#byCall.set(event.callId, toolCallId)
    const call = { toolCallId, toolName, input, ...this.#flags }
    if (status === 'started') return this.#begin(toolCallId, call)
    if (status === 'completed') {
      // A call that was settled when the run was resumed did not start here.
      const chunks = this.#begin(toolCallId, call)
      const output = event.result ?? event.summary ?? null
      chunks.push({ type: 'tool-output-available', toolCallId, output, ...this.#flags })
      return chunks
    }
    const errorText = textOf(event.result) ?? event.summary ?? 'failed'
    if (this.#begun.has(toolCallId)) {
      return [{ type: 'tool-output-error', toolCallId, errorText, ...this.#flags }]
    }
    this.#begun.add(toolCallId)
    return [{ type: 'tool-input-error', ...call, errorText }]
  }

  /** Arguments as they stream. */
  input({ messageId, index, delta, toolCallId, toolName }: InputDelta): UIMessageChunk[] {
    const key = `${messageId} ${index}`
    const open = this.#inputs.get(key) ?? { text: '' }
    this.#inputs.set(key, open)
    open.text += delta
    if (toolCallId === undefined || toolName === undefined) return []
    const id = this.#id(messageId, toolCallId, toolName)
    const chunks: UIMessageChunk[] = []
    if (open.part === undefined) {
      open.part = { key: keyOf(messageId, toolCallId), id, toolName }
      chunks.push({ type: 'tool-input-start', toolCallId: id, toolName, ...this.#flags })
    }
    if (open.text !== '') {
      chunks.push({ type: 'tool-input-delta', toolCallId: id, inputTextDelta: open.text })
    }
    open.text = ''
    return chunks
  }

  /** Progress as an output that another one follows. */
  progress({ callId, partial }: Progress): UIMessageChunk[] {
    const toolCallId = this.#byCall.get(callId)
    if (toolCallId === undefined) return []
    const output = { output: partial, preliminary: true }
    return [{ type: 'tool-output-available', toolCallId, ...output, ...this.#flags }]
  }

  #begin(
    toolCallId: string,
    call: { toolCallId: string; toolName: string; input: unknown },
  ): UIMessageChunk[] {
    if (this.#begun.has(toolCallId)) return []
    this.#begun.add(toolCallId)
    return [{ type: 'tool-input-available', ...call }]
  }

  /** The provider's id, which may come again in a later message: a part is found by its id alone. */
  #id(messageId: string, toolCallId: string, toolName: string): string {
    const key = keyOf(messageId, toolCallId)
    let id = this.#ids.get(key)
    if (id === undefined) {
      // A part keeps the tool that it began with.
      const at = this.#left.findIndex((left) => left.toolName === toolName)
      id = this.#left.splice(at, at < 0 ? 0 : 1)[0]?.id ?? this.#unused(toolCallId)
      this.#ids.set(key, id)
    }
    return id
  }

  #unused(toolCallId: string): string {
    let id = toolCallId
    for (let count = 2; this.#used.has(id); count++) id = `${toolCallId}-${count}`
    this.#used.add(id)
    return id
  }
}

function keyOf(messageId: string, toolCallId: string): string {
  return `${messageId} ${toolCallId}`
}

/** The text of a failed tool's result. */
function textOf(result: unknown): string | undefined {
  if (result === undefined) return undefined
  return typeof result === 'string' ? result : JSON.stringify(result)
}

export { ToolParts }
