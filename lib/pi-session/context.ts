// What a model reads of a session: the path to a leaf, after a compaction its summary and what it kept. It must never change an entry.

import type { Message } from '../../pi-ai.d.ts'
import type { CompactionEntry, SessionContext, SessionEntry } from '../../pi-session.d.ts'

type ById = ReadonlyMap<string, SessionEntry>

const COMPACTED =
  'The conversation history before this point was compacted into the following summary:\n\n<summary>\n'
const BRANCHED =
  'The following is a summary of a branch that this conversation came back from:\n\n<summary>\n'

/** The entries from the root to `leaf`. An entry that is its own ancestor ends the walk. */
function pathTo(leaf: SessionEntry | undefined, byId: ById): SessionEntry[] {
  const path: SessionEntry[] = []
  const seen = new Set<SessionEntry>()
  for (let at = leaf; at !== undefined && !seen.has(at); ) {
    seen.add(at)
    path.push(at)
    at = at.parentId === null ? undefined : byId.get(at.parentId)
  }
  return path.reverse()
}

function buildSessionContext(
  entries: SessionEntry[],
  leafId?: string | null,
  byId: ById = new Map(entries.map((entry) => [entry.id, entry])),
): SessionContext {
  if (leafId === null) return { messages: [], thinkingLevel: 'off', model: null }
  const leaf = (leafId ? byId.get(leafId) : undefined) ?? entries.at(-1)
  const path = pathTo(leaf, byId)
  return { messages: messagesOf(path), ...settingsOf(path) }
}

function settingsOf(path: readonly SessionEntry[]): Omit<SessionContext, 'messages'> {
  let thinkingLevel = 'off'
  let model: SessionContext['model'] = null
  for (const entry of path) {
    if (entry.type === 'thinking_level_change') {
      thinkingLevel = entry.thinkingLevel
    } else if (entry.type === 'model_change') {
      model = { provider: entry.provider, modelId: entry.modelId }
    } else if (entry.type === 'message' && entry.message.role === 'assistant') {
      model = { provider: entry.message.provider, modelId: entry.message.model }
    }
  }
  return { thinkingLevel, model }
}

function messagesOf(path: readonly SessionEntry[]): unknown[] {
  const at = path.findLastIndex((entry) => entry.type === 'compaction')
  if (at < 0) return path.flatMap(messageOf)
  const compaction = path[at] as CompactionEntry
  const { summary, tokensBefore, timestamp, firstKeptEntryId } = compaction
  const before = path.slice(0, at)
  const first = before.findIndex(({ id }) => id === firstKeptEntryId)
  const kept = first < 0 ? [] : before.slice(first)
  const time = new Date(timestamp).getTime()
  return [
    { role: 'compactionSummary', summary, tokensBefore, timestamp: time },
    ...[...kept, ...path.slice(at + 1)].flatMap(messageOf),
  ]
}

/** The message of an entry, where it has one. */
function messageOf(entry: SessionEntry): unknown[] {
  if (entry.type === 'message') return [entry.message]
  const timestamp = new Date(entry.timestamp).getTime()
  if (entry.type === 'custom_message') {
    const { customType, content, display, details } = entry
    return [{ role: 'custom', customType, content, display, details, timestamp }]
  }
  if (entry.type === 'branch_summary' && entry.summary) {
    return [{ role: 'branchSummary', summary: entry.summary, fromId: entry.fromId, timestamp }]
  }
  return []
}

/** A message of one of pi's own roles. */
interface OwnMessage {
  role: string
  timestamp: number
  content?: unknown
  summary?: string
  command?: string
  output?: string
  cancelled?: boolean
  exitCode?: number | null
  truncated?: boolean
  fullOutputPath?: string
  excludeFromContext?: boolean
}

function convertToLlm(messages: OwnMessage[]): Message[] {
  return messages.flatMap((message): Message[] => {
    const { role, timestamp } = message
    const asUser = (text: string): Message[] => [
      { role: 'user', content: [{ type: 'text', text }], timestamp },
    ]
    switch (role) {
      case 'user':
      case 'assistant':
      case 'toolResult':
        return [message as unknown as Message]
      case 'custom':
        if (typeof message.content === 'string') return asUser(message.content)
        return [{ role: 'user', content: message.content as [], timestamp }]
      case 'branchSummary':
        return asUser(`${BRANCHED}${message.summary}</summary>`)
      case 'compactionSummary':
        return asUser(`${COMPACTED}${message.summary}\n</summary>`)
      case 'bashExecution':
        return message.excludeFromContext ? [] : asUser(commandText(message))
      default:
        return []
    }
  })
}

/** A command that the user has run. */
function commandText(message: OwnMessage): string {
  const { command, output, cancelled, exitCode, truncated, fullOutputPath } = message
  let text = `Ran \`${command}\`\n${output ? `\`\`\`\n${output}\n\`\`\`` : '(no output)'}`
  if (cancelled) text += '\n\n(command cancelled)'
  else if (exitCode) text += `\n\nCommand exited with code ${exitCode}`
  if (truncated && fullOutputPath) {
    text += `\n\n[Output truncated. Full output: ${fullOutputPath}]`
  }
  return text
}

export { buildSessionContext, convertToLlm, messageOf, pathTo }
