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

  /** Notes the calls of an entry, and returns those that it ends. */
  add(entry: SessionEntry): Ended[] {
    const message = messageOf(entry)
    const above = (entry.parentId === null ? undefined : this.#open.get(entry.parentId)) ?? []
    const isOver = message?.role === 'user' || message?.role === 'assistant'
    const open = isOver ? this.#called(entry, message) : above
    if (open.length > 0) this.#open.set(entry.id, open)
    const ended: Ended[] = []
    if (isOver) {
      for (const called of above) if (!called.hasRow) ended.push({ called })
    } else if (message?.role === 'toolResult') {
      const called = this.#calls.get(String(message.toolCallId))
      if (called !== undefined) ended.push({ called, result: message })
    }
    for (const { called } of ended) called.hasRow = true
    return ended
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
