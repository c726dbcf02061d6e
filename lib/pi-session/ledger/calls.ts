// The calls of tools in a session of pi's, as rows of the ledger: each is stored with its result, whose turn is another one than the call's. It must never
// have a call without a result.

import type { AssistantMessage, ToolResultMessage } from '../../../pi-ai.d.ts'
import type { SessionEntry } from '../../../pi-session.d.ts'
import { callIdOf } from '../../pi-ai/signatures.ts'
import { newTurnId } from './ids.ts'

/** A call whose result may come. */
interface Called {
  params: unknown
  startedAt: number
}

class SessionCalls {
  /** By the id that the provider gave it: the latest one. */
  #calls = new Map<string, Called>()

  /** Notes the calls of an answer. */
  add(entry: SessionEntry): void {
    const message = messageOf(entry)
    if (message?.role !== 'assistant' || !Array.isArray(message.content)) return
    for (const part of message.content) {
      if (part?.type !== 'toolCall') continue
      const startedAt = Date.parse(entry.timestamp) || 0
      this.#calls.set(String(part.id), { params: part.arguments, startedAt })
    }
  }

  /** The row of the call that an entry answers; none for another entry, or where the call is not known. */
  rowsOf(entry: SessionEntry): Record<string, unknown>[] {
    const message = messageOf(entry)
    if (message?.role !== 'toolResult') return []
    const id = String(message.toolCallId)
    const called = this.#calls.get(id)
    if (called === undefined) return []
    const text = textOf(message)
    return [
      {
        id: callIdOf(id),
        toolName: String(message.toolName),
        params: isRecord(called.params) ? called.params : {},
        ...(message.isError === true
          ? { status: 'failed', error: text }
          : { status: 'completed', result: text }),
        startedAt: called.startedAt,
        completedAt: Date.parse(entry.timestamp) || 0,
        sequence: 0,
        callId: newTurnId(Date.now()),
      },
    ]
  }
}

function messageOf(entry: SessionEntry): AssistantMessage | ToolResultMessage | undefined {
  return entry.type === 'message' ? entry.message : undefined
}

function textOf({ content }: ToolResultMessage): string {
  const parts = Array.isArray(content) ? content : []
  const texts = parts.flatMap((part) => (part?.type === 'text' ? [String(part.text)] : []))
  return texts.join('\n').toWellFormed()
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export { SessionCalls }
