// The calls of tools in a session of pi's, as rows of the ledger: each is stored with its result, whose turn is another one than the call's, or with the first
// message that follows on its branch instead of one. It must never have two rows of a call on one branch.

import type { AssistantMessage, Message, ToolResultMessage, UserMessage } from '../../../pi-ai.d.ts'
import type { SessionEntry } from '../../../pi-session.d.ts'
import { callIdOf } from '../../pi-ai/signatures.ts'
import { newTurnId } from './ids.ts'

/** A call whose result may come. */
interface Called {
  id: string
  toolName: string
  params: unknown
  startedAt: number
  hasRow: boolean
}

/** A call that an entry ends: with its result, or without one. */
interface Ended {
  called: Called
  result?: ToolResultMessage
}

/** What the end of a call has that no result came for, as the import of a file has it. */
const INTERRUPTED = { status: 'failed', error: 'interrupted' }

class SessionCalls {
  /** By the id that the provider gave it: the latest one. */
  #calls = new Map<string, Called>()
  /** The calls of the last answer at or above an entry, where no message but results follows it. */
  #open = new Map<string, readonly Called[]>()

  /** The calls that an entry ends. */
  endedBy(entry: SessionEntry): Ended[] {
    const message = messageOf(entry)
    if (isOver(message)) {
      return this.#above(entry).flatMap((called) => (called.hasRow ? [] : [{ called }]))
    }
    if (message?.role !== 'toolResult') return []
    const called = this.#calls.get(String(message.toolCallId))
    return called === undefined ? [] : [{ called, result: message }]
  }

  /** Notes the calls of an entry, and those that it ends. */
  add(entry: SessionEntry): void {
    for (const { called } of this.endedBy(entry)) called.hasRow = true
    const message = messageOf(entry)
    const open = isOver(message) ? this.#called(entry, message) : this.#above(entry)
    if (open.length > 0) this.#open.set(entry.id, open)
  }

  #above({ parentId }: SessionEntry): readonly Called[] {
    return (parentId === null ? undefined : this.#open.get(parentId)) ?? []
  }

  #called(entry: SessionEntry, message: AssistantMessage | UserMessage): Called[] {
    if (message.role !== 'assistant' || !Array.isArray(message.content)) return []
    const calls: Called[] = []
    for (const part of message.content) {
      if (part?.type !== 'toolCall') continue
      const id = String(part.id)
      const startedAt = timeOf(entry)
      const { name, arguments: params } = part
      const called = { id, toolName: String(name), params, startedAt, hasRow: false }
      this.#calls.set(id, called)
      calls.push(called)
    }
    return calls
  }
}

/** The rows of the calls that an entry has ended. */
function rowsOf(entry: SessionEntry, ended: readonly Ended[]): Record<string, unknown>[] {
  return ended.map(({ called, result }, sequence) => ({
    id: callIdOf(called.id),
    toolName: result === undefined ? called.toolName : String(result.toolName),
    params: isRecord(called.params) ? called.params : {},
    ...(result === undefined ? INTERRUPTED : outcomeOf(result)),
    startedAt: called.startedAt,
    ...(result !== undefined && { completedAt: timeOf(entry) }),
    sequence,
    callId: newTurnId(Date.now()),
  }))
}

function outcomeOf(result: ToolResultMessage): Record<string, unknown> {
  const text = textOf(result)
  return result.isError === true
    ? { status: 'failed', error: text }
    : { status: 'completed', result: text }
}

function timeOf({ timestamp }: SessionEntry): number {
  return Date.parse(timestamp) || 0
}

/** Whether a message ends the calls before it. */
function isOver(message: Message | undefined): message is AssistantMessage | UserMessage {
  return message?.role === 'user' || message?.role === 'assistant'
}

function messageOf(entry: SessionEntry): Message | undefined {
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

export { rowsOf, SessionCalls }
