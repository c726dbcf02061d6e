// What the callers of an embedded run hear while it runs: texts, reasoning, tools, events. A callback that throws must never reach the run.

import type { AgentEvent } from '../../../pi-agent.d.ts'
import type { AssistantMessageEvent } from '../../../pi-ai.d.ts'
import type { RunEmbeddedPiAgentParams } from '../../../pi-session.d.ts'

class Replies {
  #params: RunEmbeddedPiAgentParams
  #warned = false
  /** The texts of the message under way, so far. */
  #text = ''
  #reasoning = ''

  constructor(params: RunEmbeddedPiAgentParams) {
    this.#params = params
  }

  agentEvent(stream: string, data: Record<string, unknown>): void {
    this.#call(this.#params.onAgentEvent, { stream, data })
  }

  event(event: AgentEvent): void {
    switch (event.type) {
      case 'message_start':
        if (event.message.role !== 'assistant') return
        this.#text = ''
        this.#reasoning = ''
        this.#call(this.#params.onAssistantMessageStart, undefined)
        return
      case 'message_update':
        this.#update(event.assistantMessageEvent)
        return
      case 'message_end':
        if (event.message.role !== 'assistant' || this.#text === '') return
        if (this.#params.blockReplyBreak === 'message_end') this.#block(this.#text)
        return
      case 'tool_execution_start': {
        const { toolCallId, toolName: name, args } = event
        // What was said so far is shown before a tool takes its time.
        this.#call(this.#params.onBlockReplyFlush, undefined)
        this.agentEvent('tool', { phase: 'start', name, toolCallId, args })
        return
      }
      case 'tool_execution_update': {
        const { toolCallId, toolName: name, partialResult } = event
        this.agentEvent('tool', { phase: 'update', name, toolCallId, partialResult })
        return
      }
      case 'tool_execution_end': {
        const { toolCallId, toolName: name, isError, result } = event
        this.agentEvent('tool', { phase: 'result', name, toolCallId, isError, result })
        const text = textOf(result?.content)
        if (text !== '') this.#call(this.#params.onToolResult, { text })
        return
      }
      case 'agent_start':
      case 'agent_end':
      case 'turn_start':
      case 'turn_end':
    }
  }

  #update(event: AssistantMessageEvent): void {
    if (event.type === 'text_delta') {
      this.#text += event.delta
      this.#call(this.#params.onPartialReply, { text: this.#text })
      this.agentEvent('assistant', { text: this.#text, delta: event.delta })
    } else if (event.type === 'text_end') {
      if (this.#params.blockReplyBreak !== 'message_end') this.#block(event.content)
    } else if (event.type === 'thinking_delta') {
      this.#reasoning += event.delta
      this.#call(this.#params.onReasoningStream, { text: this.#reasoning })
    } else if (event.type === 'thinking_end') {
      this.#call(this.#params.onReasoningEnd, undefined)
    }
  }

  #block(text: string): void {
    if (text.trim() !== '') this.#call(this.#params.onBlockReply, { text })
  }

  #call(callback: ((payload: never) => unknown) | undefined, payload: unknown): void {
    if (callback === undefined) return
    try {
      const returned = callback(payload as never)
      if (returned instanceof Promise) returned.catch((error) => this.#warn(error))
    } catch (error) {
      this.#warn(error)
    }
  }

  /** Once per run. */
  #warn(error: unknown): void {
    if (this.#warned) return
    this.#warned = true
    const why = error instanceof Error ? error.message : String(error)
    process.emitWarning(`a callback of an embedded run has thrown: ${why}`, {
      code: 'AGENT_ENGINE_CALLBACK',
    })
  }
}

/** The texts of a result. */
function textOf(content: unknown): string {
  if (!Array.isArray(content)) return ''
  return content.flatMap((part) => (part?.type === 'text' ? [String(part.text)] : [])).join('\n')
}

export { Replies, textOf }
