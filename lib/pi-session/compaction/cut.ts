// Where a session is cut: what is before is summarised, what is after is kept. It must never cut between a call and its result.

import type { CutPointResult, SessionEntry } from '../../../pi-session.d.ts'
import { estimateTokens } from './tokens.ts'

const ROLES: ReadonlySet<string> = new Set([
  'bashExecution',
  'custom',
  'branchSummary',
  'compactionSummary',
  'user',
  'assistant',
])

/** Whether what is kept may begin with this entry. */
function isCut(entry: SessionEntry | undefined): boolean {
  if (entry?.type === 'message') return ROLES.has(entry.message.role)
  return entry?.type === 'branch_summary' || entry?.type === 'custom_message'
}

/** Whether a turn begins with this entry. */
function isTurnStart(entry: SessionEntry | undefined): boolean {
  if (entry?.type !== 'message') return isCut(entry)
  return entry.message.role === 'user' || entry.message.role === 'bashExecution'
}

function findTurnStartIndex(
  entries: SessionEntry[],
  entryIndex: number,
  startIndex: number,
): number {
  for (let at = entryIndex; at >= startIndex; at--) if (isTurnStart(entries[at])) return at
  return -1
}

function findCutPoint(
  entries: SessionEntry[],
  startIndex: number,
  endIndex: number,
  keepRecentTokens: number,
): CutPointResult {
  const cuts: number[] = []
  for (let at = startIndex; at < endIndex; at++) if (isCut(entries[at])) cuts.push(at)
  const [first] = cuts
  if (first === undefined) {
    return { firstKeptEntryIndex: startIndex, turnStartIndex: -1, isSplitTurn: false }
  }
  const full = fullAt(entries, startIndex, endIndex, keepRecentTokens)
  let cut = full === undefined ? first : (cuts.find((at) => at >= full) ?? first)
  // Settings before the first kept message are kept with it.
  while (cut > startIndex && !isBoundary(entries[cut - 1])) cut--
  const entry = entries[cut]
  const isUser = entry?.type === 'message' && entry.message.role === 'user'
  const turnStartIndex = isUser ? -1 : findTurnStartIndex(entries, cut, startIndex)
  return { firstKeptEntryIndex: cut, turnStartIndex, isSplitTurn: turnStartIndex !== -1 }
}

function isBoundary(entry: SessionEntry | undefined): boolean {
  return entry?.type === 'compaction' || entry?.type === 'message'
}

/** The newest message with which as much as shall be kept is reached. */
function fullAt(
  entries: SessionEntry[],
  startIndex: number,
  endIndex: number,
  tokens: number,
): number | undefined {
  let sum = 0
  for (let at = endIndex - 1; at >= startIndex; at--) {
    const entry = entries[at]
    if (entry?.type !== 'message') continue
    sum += estimateTokens(entry.message)
    if (sum >= tokens) return at
  }
  return undefined
}

export { findCutPoint, findTurnStartIndex }
