// pi's session manager: entries in memory, appended to pi's file or to a ledger. It must never change or remove an entry that was appended.

import { appendFileSync, existsSync, mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { Ledger } from '../../index.d.ts'
import type {
  SessionManager as Declared,
  NewSessionOptions,
  SessionContext,
  SessionEntry,
  SessionHeader,
  SessionInfo,
  SessionListProgress,
  SessionMessageEntry,
  SessionTreeNode,
} from '../../pi-session.d.ts'
import { buildSessionContext, pathTo } from './context.ts'
import { migrate, newHeader, newId, textOf } from './entries.ts'
import {
  allDirs,
  endsLine,
  findMostRecentSession,
  listed,
  loadEntriesFromFile,
  sessionDirOf,
} from './files.ts'
import type { EntryLog } from './ledger/log.ts'
import { load, save } from './ledger/transfer.ts'
import { treeOf } from './tree.ts'

/** An entry before it has its place. */
type Given = {
  [Type in SessionEntry as Type['type']]: Omit<Type, keyof Place>
}[SessionEntry['type']]
type Place = Pick<SessionEntry, 'id' | 'parentId' | 'timestamp'>
type Content = SessionMessageEntry['message']

/** A session of a ledger, with the entries that are there. */
interface InLedger {
  log: EntryLog
  entries?: readonly SessionEntry[]
}

class SessionManager implements Omit<Declared, never> {
  #cwd: string
  #dir: string
  #persists: boolean
  #id = ''
  #file: string | undefined
  #header!: SessionHeader
  #entries: SessionEntry[] = []
  #byId = new Map<string, SessionEntry>()
  #labels = new Map<string, { label: string; timestamp: string }>()
  #leafId: string | null = null
  /** An answer is among the entries: the file is written from then on. */
  #hasAnswer = false
  /** The file has all entries. */
  #written = false
  /** The file was found with a last line that has no end. */
  #isTorn = false
  /** Where the entries are, of a session in a ledger: it has no file. */
  #log: EntryLog | undefined

  constructor(
    cwd: string,
    dir: string,
    file: string | undefined,
    persists: boolean,
    inLedger?: InLedger,
  ) {
    this.#cwd = cwd
    this.#dir = dir
    this.#persists = persists
    if (inLedger !== undefined) this.#open(inLedger)
    else if (persists && dir !== '') mkdirSync(dir, { recursive: true })
    if (inLedger !== undefined) return
    if (file === undefined) this.newSession()
    else this.setSessionFile(file)
  }

  #open({ log, entries = [] }: InLedger): void {
    this.#log = log
    this.#header = log.header
    this.#id = log.header.id
    this.#adopt(entries)
  }

  static create(cwd: string, sessionDir: string = sessionDirOf(cwd)): SessionManager {
    return new SessionManager(cwd, sessionDir, undefined, true)
  }

  static open(path: string, sessionDir?: string, cwd?: string): SessionManager {
    const header = loadEntriesFromFile(path).find((entry) => entry.type === 'session')
    const dir = sessionDir ?? resolve(path, '..')
    return new SessionManager(cwd ?? header?.cwd ?? process.cwd(), dir, path, true)
  }

  static continueRecent(cwd: string, sessionDir: string = sessionDirOf(cwd)): SessionManager {
    const recent = findMostRecentSession(sessionDir) ?? undefined
    return new SessionManager(cwd, sessionDir, recent, true)
  }

  static inMemory(cwd: string = process.cwd()): SessionManager {
    return new SessionManager(cwd, '', undefined, false)
  }

  static forkFrom(source: string, cwd: string, sessionDir = sessionDirOf(cwd)): SessionManager {
    const entries = loadEntriesFromFile(source)
    if (entries.length === 0) {
      throw new Error(`Cannot fork: source session file is empty or invalid: ${source}`)
    }
    const forked = new SessionManager(cwd, sessionDir, undefined, true)
    migrate(entries)
    forked.#header.parentSession = source
    forked.#adopt(entries.filter((entry) => entry.type !== 'session'))
    forked.#rewrite()
    return forked
  }

  static list(
    cwd: string,
    sessionDir?: string,
    onProgress?: SessionListProgress,
  ): Promise<SessionInfo[]> {
    return listed([sessionDir ?? sessionDirOf(cwd)], onProgress)
  }

  static async listAll(onProgress?: SessionListProgress): Promise<SessionInfo[]> {
    return listed(await allDirs(), onProgress)
  }

  static async fromLedger(
    ledger: Ledger,
    session: string,
    { cwd = process.cwd(), sessionDir }: { cwd?: string; sessionDir?: string } = {},
  ): Promise<SessionManager> {
    const dir = sessionDir ?? sessionDirOf(cwd)
    mkdirSync(dir, { recursive: true })
    return SessionManager.open(await load(ledger, session, dir), dir, cwd)
  }

  async saveTo(ledger: Ledger, { session }: { session?: string } = {}): Promise<string> {
    return save(ledger, textOf([this.#header, ...this.#entries]), session)
  }

  /** Appends entries of another session as they are. The last one is the leaf. */
  adopt(entries: readonly SessionEntry[]): void {
    for (const entry of entries) {
      this.#log?.append(entry)
      this.#add(entry)
    }
  }

  getLedgerSession(): string | undefined {
    return this.#log?.label
  }

  async flush(): Promise<void> {
    await this.#log?.flush()
  }

  async forkInLedger(label?: string): Promise<string> {
    const log = this.#log
    if (log === undefined) throw new Error('the session is in a file: `saveTo` imports it')
    const turnId = this.#leafId === null ? undefined : log.turnOf(this.#leafId)
    if (turnId === undefined) throw new Error('the session has no entry to continue from')
    await log.flush()
    return (await log.file.ledger.fork(turnId, label === undefined ? {} : { label })).label
  }

  exportFile(path: string): void {
    replaceFile(path, textOf([this.#header, ...this.#entries]))
  }

  setSessionFile(path: string): void {
    if (this.#log !== undefined) {
      throw new Error(`the session is in a ledger: open ${path} with LedgerSessions.importFile`)
    }
    const file = resolve(path)
    const entries = loadEntriesFromFile(file)
    if (entries.length === 0) {
      this.newSession()
      this.#file = file
      // A file without a header is begun anew: what is appended to it could not be read.
      if (existsSync(file)) this.#rewrite()
      return
    }
    this.#file = file
    const isOld = migrate(entries)
    this.#header = entries.find((entry) => entry.type === 'session') as SessionHeader
    this.#id = this.#header.id
    this.#adopt(entries.filter((entry) => entry.type !== 'session'))
    this.#written = true
    this.#isTorn = !endsLine(file)
    if (isOld) this.#rewrite()
  }

  newSession(options: NewSessionOptions = {}): string | undefined {
    const header = newHeader(this.#cwd, options)
    this.#id = header.id
    this.#header = header
    this.#adopt([])
    this.#written = false
    this.#isTorn = false
    if (this.#log !== undefined) this.#log = this.#log.begin(header)
    else if (this.#persists) this.#file = this.#fileOf(header.timestamp, header.id)
    return this.#file
  }

  #fileOf(timestamp: string, id: string): string {
    return join(this.#dir, `${timestamp.replace(/[:.]/g, '-')}_${id}.jsonl`)
  }

  /** Takes entries as they are. The last one is the leaf. */
  #adopt(entries: readonly SessionEntry[]): void {
    this.#entries = []
    this.#byId = new Map()
    this.#labels = new Map()
    this.#leafId = null
    this.#hasAnswer = false
    for (const entry of entries) this.#add(entry)
  }

  #add(entry: SessionEntry): void {
    this.#entries.push(entry)
    this.#byId.set(entry.id, entry)
    this.#leafId = entry.id
    if (entry.type === 'label') {
      const { targetId, label, timestamp } = entry
      if (label) this.#labels.set(targetId, { label, timestamp })
      else this.#labels.delete(targetId)
    }
    this.#hasAnswer ||= isAnswer(entry)
  }

  /** Writes the whole file; a crash leaves the old one or the new one. */
  #rewrite(added: readonly SessionEntry[] = []): void {
    if (!this.#persists || this.#file === undefined) return
    replaceFile(this.#file, textOf([this.#header, ...this.#entries, ...added]))
    this.#written = true
    this.#isTorn = false
  }

  /** An entry that could not be written is none: nothing has changed when this throws. */
  #append(given: Given, parentId = this.#leafId): string {
    const id = newId(this.#byId)
    const place = { id, parentId, timestamp: new Date().toISOString() }
    const { type, ...fields } = given
    // In pi's order of fields.
    const entry = { type, ...place, ...fields } as SessionEntry
    this.#log?.append(entry)
    if (this.#persists && this.#file !== undefined) this.#write(this.#file, entry)
    this.#add(entry)
    return id
  }

  #write(file: string, entry: SessionEntry): void {
    const isWritten = this.#written
    // Until this has succeeded the file may end with a part of the entry: then the next append writes it anew.
    this.#written = false
    // Without an answer nothing is written: then the file has not all entries.
    if (!this.#hasAnswer && !isAnswer(entry)) return
    // A part of an entry must not take the next one with it: what refers to that would be lost.
    if (isWritten) appendFileSync(file, (this.#isTorn ? '\n' : '') + textOf([entry]))
    else this.#rewrite([entry])
    this.#written = true
    this.#isTorn = false
  }

  isPersisted(): boolean {
    return this.#persists
  }

  getCwd(): string {
    return this.#cwd
  }

  getSessionDir(): string {
    return this.#dir
  }

  getSessionId(): string {
    return this.#id
  }

  getSessionFile(): string | undefined {
    return this.#file
  }

  getHeader(): SessionHeader | null {
    return this.#header
  }

  getSessionName(): string | undefined {
    const last = this.#entries.findLast((entry) => entry.type === 'session_info')
    return last?.name?.trim() || undefined
  }

  appendMessage(message: Content): string {
    return this.#append({ type: 'message', message })
  }

  appendThinkingLevelChange(thinkingLevel: string): string {
    return this.#append({ type: 'thinking_level_change', thinkingLevel })
  }

  appendModelChange(provider: string, modelId: string): string {
    return this.#append({ type: 'model_change', provider, modelId })
  }

  appendCompaction(
    summary: string,
    firstKeptEntryId: string,
    tokensBefore: number,
    details?: unknown,
    fromHook?: boolean,
  ): string {
    const fields = { summary, firstKeptEntryId, tokensBefore, details, fromHook }
    return this.#append({ type: 'compaction', ...fields } as Given)
  }

  appendCustomEntry(customType: string, data?: unknown): string {
    return this.#append({ type: 'custom', customType, data })
  }

  appendCustomMessageEntry(
    customType: string,
    content: Extract<SessionEntry, { type: 'custom_message' }>['content'],
    display: boolean,
    details?: unknown,
  ): string {
    return this.#append({ type: 'custom_message', customType, content, display, details })
  }

  appendSessionInfo(name: string): string {
    return this.#append({ type: 'session_info', name: name.trim() })
  }

  appendLabelChange(targetId: string, label: string | undefined): string {
    this.#known(targetId)
    return this.#append({ type: 'label', targetId, label })
  }

  #known(id: string): void {
    if (!this.#byId.has(id)) throw new Error(`Entry ${id} not found`)
  }

  getLeafId(): string | null {
    return this.#leafId
  }

  getLeafEntry(): SessionEntry | undefined {
    return this.#leafId === null ? undefined : this.#byId.get(this.#leafId)
  }

  getEntry(id: string): SessionEntry | undefined {
    return this.#byId.get(id)
  }

  getChildren(parentId: string): SessionEntry[] {
    return this.#entries.filter((entry) => entry.parentId === parentId)
  }

  getLabel(id: string): string | undefined {
    return this.#labels.get(id)?.label
  }

  getBranch(fromId?: string): SessionEntry[] {
    const id = fromId ?? this.#leafId
    return pathTo(id === null ? undefined : this.#byId.get(id), this.#byId)
  }

  getEntries(): SessionEntry[] {
    return this.#entries.slice()
  }

  getTree(): SessionTreeNode[] {
    return treeOf(this.#entries, this.#labels)
  }

  buildSessionContext(): SessionContext {
    return buildSessionContext(this.#entries, this.#leafId, this.#byId)
  }

  branch(fromId: string): void {
    this.#known(fromId)
    this.#leafId = fromId
    this.#log?.point(fromId)
  }

  resetLeaf(): void {
    this.#leafId = null
  }

  branchWithSummary(
    fromId: string | null,
    summary: string,
    details?: unknown,
    fromHook?: boolean,
  ): string {
    if (fromId !== null) this.#known(fromId)
    const fields = { fromId: fromId ?? 'root', summary, details, fromHook }
    return this.#append({ type: 'branch_summary', ...fields } as Given, fromId)
  }

  createBranchedSession(leafId: string): string | undefined {
    const path = this.getBranch(leafId).filter((entry) => entry.type !== 'label')
    if (path.length === 0) throw new Error(`Entry ${leafId} not found`)
    const labels = [...this.#labels].filter(([id]) => path.some((entry) => entry.id === id))
    const parentSession = this.#persists ? (this.#file ?? this.#log?.label) : undefined
    this.newSession({ ...(parentSession !== undefined && { parentSession }) })
    this.adopt(path)
    for (const [targetId, { label, timestamp }] of labels) {
      const place = { id: newId(this.#byId), parentId: this.#leafId, timestamp }
      this.adopt([{ type: 'label', ...place, targetId, label }])
    }
    // As for a new session: without an answer there is no file.
    if (this.#hasAnswer) this.#rewrite()
    return this.#persists ? this.#file : undefined
  }
}

function isAnswer(entry: SessionEntry): boolean {
  return entry.type === 'message' && entry.message?.role === 'assistant'
}

/** Writes a whole file; a crash leaves the old one or the new one. */
function replaceFile(path: string, text: string): void {
  const draft = `${path}.${process.pid}.tmp`
  writeFileSync(draft, text)
  renameSync(draft, path)
}

export { SessionManager }
