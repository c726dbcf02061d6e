// Compacts a session: what is before its cut becomes a summary. It must never write anything after a failure or an abort.

import type { Model } from '../../../pi-ai.d.ts'
import type {
  CompactionEntry,
  CompactionSettings,
  SessionEntry,
  SessionManager,
} from '../../../pi-session.d.ts'
import { messageOf } from '../context.ts'
import { findCutPoint, findTurnStartIndex } from './cut.ts'
import { type SummaryOptions, summarize } from './summary.ts'
import { contextTokens, DEFAULT_COMPACTION_SETTINGS, shouldCompact } from './tokens.ts'

type Summarized = Parameters<typeof summarize>[0]

/** A small window cannot reserve what a large one does. */
const MAX_SHARE = 0.25

function settingsFor({ contextWindow }: Model): CompactionSettings {
  const { reserveTokens, keepRecentTokens } = DEFAULT_COMPACTION_SETTINGS
  const most = Math.floor(contextWindow * MAX_SHARE)
  return {
    enabled: true,
    reserveTokens: Math.min(reserveTokens, most),
    keepRecentTokens: Math.min(keepRecentTokens, most),
  }
}

/** The size of the session's context. Usage that was reported before its last compaction is of another context. */
function sizeOf(session: SessionManager): number {
  const path = session.getBranch()
  const compacted = path.findLastIndex(({ type }) => type === 'compaction')
  const answered = path.findLastIndex(
    (entry) => entry.type === 'message' && entry.message.role === 'assistant',
  )
  return contextTokens(session.buildSessionContext().messages, answered > compacted)
}

/** Whether the session leaves too little room in the model's window, as far as that is known. */
function isFull(session: SessionManager, model: Model, prompt: string): boolean {
  if (!(model.contextWindow > 0)) return false
  const tokens = sizeOf(session) + contextTokens([{ role: 'user', content: prompt }], false)
  return shouldCompact(tokens, model.contextWindow, settingsFor(model))
}

/** The most of what is kept of a context that the model has refused, whatever its size. */
const KEPT_SHARE = 0.4

/** Writes the compaction. Returns false where there is nothing to summarise, or after an abort. */
async function compactSession(
  session: SessionManager,
  model: Model,
  reason: 'full' | 'refused',
  options: SummaryOptions,
): Promise<boolean> {
  const path = session.getBranch()
  const { reserveTokens, keepRecentTokens } = settingsFor(model)
  const previous = path.findLast((entry) => entry.type === 'compaction')
  // What the last compaction has kept was not summarised yet.
  const begin = Math.max(
    0,
    path.findIndex(({ id }) => id === previous?.firstKeptEntryId),
  )
  const estimate = contextTokens(session.buildSessionContext().messages, false)
  const most = Math.floor(estimate * KEPT_SHARE)
  const keep = reason === 'full' ? keepRecentTokens : Math.min(keepRecentTokens, most)
  const cut = cutOf(path, begin, Math.max(1, keep))
  const kept = path[cut]
  const cutOff = path.slice(begin, cut)
  const messages = cutOff.filter(({ type }) => type !== 'compaction').flatMap(messageOf)
  if (kept === undefined || messages.length === 0) return false
  const previousSummary = previous?.summary
  const about = { ...options, previousSummary }
  const summary = await summarize(messages as Summarized, model, reserveTokens, about)
  if (options.signal?.aborted) return false
  const files = filesOf(cutOff, previous)
  session.appendCompaction(summary + listed(files), kept.id, sizeOf(session), files)
  return true
}

/** Where what is kept begins: at least the turn under way is. */
function cutOf(path: SessionEntry[], begin: number, keep: number): number {
  const end = path.findLastIndex((entry) => !isFailure(entry)) + 1
  const { firstKeptEntryIndex } = findCutPoint(path, begin, end, keep)
  const turn = findTurnStartIndex(path, end - 1, begin)
  if (turn < 0) return firstKeptEntryIndex
  return firstKeptEntryIndex > begin ? Math.min(firstKeptEntryIndex, turn) : turn
}

function isFailure(entry: SessionEntry): boolean {
  return entry.type === 'message' && entry.message.stopReason === 'error'
}

/** The files that the summarised tools have used, with those of the compaction before. */
interface Files {
  readFiles: string[]
  modifiedFiles: string[]
}

function filesOf(entries: readonly SessionEntry[], previous: CompactionEntry | undefined): Files {
  const before = previous?.fromHook ? undefined : (previous?.details as Partial<Files> | undefined)
  const read = new Set<string>(Array.isArray(before?.readFiles) ? before.readFiles : [])
  const modified = new Set<string>(Array.isArray(before?.modifiedFiles) ? before.modifiedFiles : [])
  for (const entry of entries) {
    if (entry.type !== 'message' || entry.message.role !== 'assistant') continue
    for (const part of entry.message.content) {
      const path = part?.type === 'toolCall' ? part.arguments?.path : undefined
      if (typeof path !== 'string' || path === '') continue
      if (part.name === 'read') read.add(path)
      else if (part.name === 'write' || part.name === 'edit') modified.add(path)
    }
  }
  const readFiles = [...read].filter((path) => !modified.has(path)).sort()
  return { readFiles, modifiedFiles: [...modified].sort() }
}

function listed({ readFiles, modifiedFiles }: Files): string {
  const section = (name: string, paths: string[]) =>
    paths.length === 0 ? '' : `\n\n<${name}>\n${paths.join('\n')}\n</${name}>`
  return section('read-files', readFiles) + section('modified-files', modifiedFiles)
}

export { compactSession, isFull }
