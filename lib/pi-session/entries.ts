// The entries of pi's session files: their text, their versions, ids. It must never touch a file.

import { randomBytes, randomUUID } from 'node:crypto'
import type {
  CompactionEntry,
  FileEntry,
  NewSessionOptions,
  SessionEntry,
  SessionHeader,
} from '../../pi-session.d.ts'

const CURRENT_SESSION_VERSION = 3

/** What files of older versions have. */
type OldEntry = Record<string, unknown> & { type?: string; id?: string }

/** An id that none of `taken` has. */
function newId(taken: { has(id: string): boolean }): string {
  for (;;) {
    const id = randomBytes(4).toString('hex')
    if (!taken.has(id)) return id
  }
}

/** The header of a session that begins now. */
function newHeader(
  cwd: string,
  { id = randomUUID(), parentSession }: NewSessionOptions = {},
): SessionHeader {
  const timestamp = new Date().toISOString()
  return {
    type: 'session',
    version: CURRENT_SESSION_VERSION,
    id,
    timestamp,
    cwd,
    ...(parentSession !== undefined && { parentSession }),
  }
}

function parseSessionEntries(content: string): FileEntry[] {
  const entries: FileEntry[] = []
  // An editor may have put a byte order mark before the header.
  for (const line of content.replace(/^\ufeff/, '').split('\n')) {
    if (line.trim() === '') continue
    try {
      const entry = JSON.parse(line)
      // Another value is no entry, and nothing follows it.
      if (typeof entry?.type === 'string') entries.push(entry)
    } catch {
      // A line that a crash has cut: what is around it is whole.
    }
  }
  return entries
}

/** Brings entries to the current version, in place. Returns whether they were of an older one. */
function migrate(entries: FileEntry[]): boolean {
  const header = entries.find((entry) => entry.type === 'session')
  const version = header?.version ?? 1
  if (version >= CURRENT_SESSION_VERSION) return false
  const old = entries as unknown as OldEntry[]
  if (version < 2) addIds(old)
  for (const entry of old) {
    const message = entry.message as { role?: string } | undefined
    if (entry.type === 'session') entry.version = CURRENT_SESSION_VERSION
    else if (entry.type === 'message' && message?.role === 'hookMessage') message.role = 'custom'
  }
  return true
}

/** The first version is a list: each entry follows the one before it. */
function addIds(entries: OldEntry[]): void {
  const taken = new Set<string>()
  let parentId: string | null = null
  for (const entry of entries) {
    if (entry.type === 'session') continue
    entry.id = newId(taken)
    taken.add(entry.id)
    entry.parentId = parentId
    parentId = entry.id
  }
  for (const entry of entries) {
    const { firstKeptEntryIndex } = entry
    if (entry.type !== 'compaction' || typeof firstKeptEntryIndex !== 'number') continue
    const kept = entries[firstKeptEntryIndex]
    if (kept !== undefined && kept.type !== 'session') entry.firstKeptEntryId = kept.id
    delete entry.firstKeptEntryIndex
  }
}

function migrateSessionEntries(entries: FileEntry[]): void {
  migrate(entries)
}

function getLatestCompactionEntry(entries: SessionEntry[]): CompactionEntry | null {
  return entries.findLast((entry) => entry.type === 'compaction') ?? null
}

/** The text of entries as a file has it. */
function textOf(entries: readonly FileEntry[]): string {
  return entries.map((entry) => `${JSON.stringify(entry)}\n`).join('')
}

export {
  CURRENT_SESSION_VERSION,
  getLatestCompactionEntry,
  migrate,
  migrateSessionEntries,
  newHeader,
  newId,
  parseSessionEntries,
  textOf,
}
