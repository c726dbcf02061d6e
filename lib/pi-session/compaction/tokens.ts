// How large a context is, as pi estimates it: what the last answer reported, and a quarter of the characters of what follows. It must never throw for a
// message of an unknown form.

import type { AssistantMessage, Usage } from '../../../pi-ai.d.ts'
import type { CompactionSettings, SessionEntry } from '../../../pi-session.d.ts'

const DEFAULT_COMPACTION_SETTINGS: CompactionSettings = {
  enabled: true,
  reserveTokens: 16_384,
  keepRecentTokens: 20_000,
}
const CHARACTERS_PER_TOKEN = 4
/** An image, in characters. */
const IMAGE = 4_800

/** A message of any role. */
interface AnyMessage {
  role: string
  content?: unknown
  summary?: string
  command?: string
  output?: string
}

function calculateContextTokens(usage: Usage): number {
  const { input, output, cacheRead, cacheWrite, totalTokens } = usage
  return totalTokens || input + output + cacheRead + cacheWrite
}

/** The usage of an answer that did not fail. */
function usageOf(message: AnyMessage): Usage | undefined {
  if (message.role !== 'assistant') return undefined
  const { stopReason, usage } = message as unknown as AssistantMessage
  return stopReason === 'aborted' || stopReason === 'error' ? undefined : usage
}

function getLastAssistantUsage(entries: SessionEntry[]): Usage | undefined {
  for (const entry of entries.toReversed()) {
    const usage = entry.type === 'message' ? usageOf(entry.message) : undefined
    if (usage !== undefined) return usage
  }
  return undefined
}

function estimateTokens(message: AnyMessage): number {
  const { role, content, summary = '', command = '', output = '' } = message
  return Math.ceil(charactersOf(role, content, summary, command + output) / CHARACTERS_PER_TOKEN)
}

function charactersOf(role: string, content: unknown, summary: string, command: string): number {
  switch (role) {
    case 'branchSummary':
    case 'compactionSummary':
      return summary.length
    case 'bashExecution':
      return command.length
    case 'user':
    case 'assistant':
    case 'custom':
    case 'toolResult':
      if (typeof content === 'string') return content.length
      if (!Array.isArray(content)) return 0
      return content.reduce((sum, part) => sum + partLength(part, role), 0)
    default:
      return 0
  }
}

/** pi counts no images of a user. */
function partLength(part: Record<string, unknown>, role: string): number {
  switch (part?.type) {
    case 'text':
      return String(part.text ?? '').length
    case 'thinking':
      return String(part.thinking ?? '').length
    case 'toolCall':
      return String(part.name).length + JSON.stringify(part.arguments ?? {}).length
    case 'image':
      return role === 'user' ? 0 : IMAGE
    default:
      return 0
  }
}

/** The size of a context. Without `reported` the usage of its answers is not read: it is of another context. */
function contextTokens(messages: readonly AnyMessage[], reported: boolean): number {
  const at = reported ? messages.findLastIndex((message) => usageOf(message) !== undefined) : -1
  const last = messages[at]
  const usage = last === undefined ? undefined : usageOf(last)
  const known = usage === undefined ? 0 : calculateContextTokens(usage)
  return messages.slice(at + 1).reduce((sum, message) => sum + estimateTokens(message), known)
}

function shouldCompact(
  tokens: number,
  contextWindow: number,
  settings: CompactionSettings,
): boolean {
  return settings.enabled && tokens > contextWindow - settings.reserveTokens
}

export {
  calculateContextTokens,
  contextTokens,
  DEFAULT_COMPACTION_SETTINGS,
  estimateTokens,
  getLastAssistantUsage,
  shouldCompact,
}
