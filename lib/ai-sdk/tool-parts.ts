// The parts of tools in a UI message: one for each call, with an id that no other call of the message has. It must never show a result
// before its call.

import type { UIMessageChunk } from '../../ai-sdk.d.ts'
import type { StreamEvent } from '../../index.d.ts'

type Status = Extract<StreamEvent, { type: 'tool_status' }>
/** A piece of a call's arguments. The id and the name come as soon as the provider has sent them. */
type InputDelta = Extract<StreamEvent, { type: 'tool_input_delta' }>
/** What a running tool passed to its `onUpdate`. */
type Progress = Extract<StreamEvent, { type: 'tool_progress' }>

class ToolParts {
  #flags: { dynamic?: true }
  /** Arguments that stream, by the message and the position of the call. */
  #inputs = new Map<string, { text: string; isStarted: boolean }>()
  /** The ids of the parts, by the engine's id of the call. */
  #byCall = new Map<string, string>()
  /** The ids of the parts, by the message and the provider's id of the call. */
  #ids = new Map<string, string>()
  #used = new Set<string>()
  #begun = new Set<string>()

  constructor(dynamic: boolean) {
    this.#flags = dynamic ? { dynamic: true } : {}
  }

  /** The answer is requested again: arguments of a call that has not begun are no part of the next one. */
  restart(): void {
    this.#inputs.clear()
  }

  status(event: Status): UIMessageChunk[] {
    const { toolName, status } = event
    const toolCallId = this.#id(event.messageId, event.toolCallId)
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
    const open = this.#inputs.get(key) ?? { text: '', isStarted: false }
    this.#inputs.set(key, open)
    open.text += delta
    if (toolCallId === undefined || toolName === undefined) return []
    const id = this.#id(messageId, toolCallId)
    const chunks: UIMessageChunk[] = []
    if (!open.isStarted) {
      open.isStarted = true
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
  #id(messageId: string, toolCallId: string): string {
    const key = `${messageId} ${toolCallId}`
    let id = this.#ids.get(key)
    if (id === undefined) {
      id = toolCallId
      for (let count = 2; this.#used.has(id); count++) id = `${toolCallId}-${count}`
      this.#used.add(id)
      this.#ids.set(key, id)
    }
    return id
  }
}

/** The text of a failed tool's result. */
function textOf(result: unknown): string | undefined {
  if (result === undefined) return undefined
  return typeof result === 'string' ? result : JSON.stringify(result)
}

export { ToolParts }
