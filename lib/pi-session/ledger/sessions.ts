// pi's sessions in a ledger: made, opened, listed, copied from files and to them. It must never change a session that pi's manager did not make.

import { existsSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { basename, dirname, isAbsolute, join } from 'node:path'
import type { Ledger, SessionRow } from '../../../index.d.ts'
import type {
  LedgerSessions as Declared,
  FileEntry,
  NewSessionOptions,
  SessionEntry,
  SessionHeader,
  SessionInfo,
  SessionListProgress,
} from '../../../pi-session.d.ts'
import { migrate, newHeader, parseSessionEntries } from '../entries.ts'
import { agentDir, infoOfEntries, lastUsedFirst, loadEntriesFromFile } from '../files.ts'
import { SessionManager } from '../manager.ts'
import { entriesIn } from './lines.ts'
import { EntryLog, type LedgerFile, labelOf, type Stored } from './log.ts'
import { recoverSpools } from './recovery.ts'
import { exported } from './transfer.ts'

class LedgerSessions implements Declared {
  #ledger: Ledger
  #cwd: string
  #spoolDir: string | undefined
  #file: Promise<LedgerFile> | undefined

  constructor(ledger: Ledger, options: { cwd?: string; spoolDir?: string } = {}) {
    this.#ledger = ledger
    this.#cwd = options.cwd ?? process.cwd()
    this.#spoolDir = options.spoolDir
  }

  async create(options: NewSessionOptions = {}): Promise<SessionManager> {
    const header = newHeader(this.#cwd, options)
    const file = await this.#opened()
    if (await this.#ledger.session(labelOf(header.id))) {
      throw new Error(`the ledger has a session ${labelOf(header.id)} already: open it`)
    }
    return new SessionManager(this.#cwd, '', undefined, true, { log: new EntryLog(file, header) })
  }

  async open(id: string): Promise<SessionManager> {
    const file = await this.#opened()
    const row = await this.#ledger.session(labelOf(id))
    const header = row === null ? undefined : headerOf(row)
    if (header === undefined) throw new Error(`the ledger has no session of pi's with the id ${id}`)
    const stored = await this.#stored(labelOf(id))
    const log = new EntryLog(file, header, stored)
    const entries = stored.map(({ entry }) => entry)
    return new SessionManager(header.cwd, '', undefined, true, { log, entries })
  }

  async continueRecent(): Promise<SessionManager> {
    await this.#opened()
    const [latest] = (await this.#rows({ piCwd: this.#cwd })).sort(lastMovedFirst)
    return latest === undefined ? this.create() : this.open(latest.label.slice(labelOf('').length))
  }

  async forkFrom(id: string): Promise<SessionManager> {
    const source = await this.open(id)
    const fork = await this.create({ parentSession: labelOf(id) })
    return adopted(fork, source.getEntries())
  }

  async importFile(path: string): Promise<SessionManager> {
    const entries = existsSync(path) ? loadEntriesFromFile(path) : []
    const header = entries.find((entry) => entry.type === 'session')
    if (header === undefined) throw new Error(`${path} is not a session file`)
    migrate(entries)
    const file = await this.#opened()
    if (await this.#ledger.session(labelOf(header.id))) {
      throw new Error(`the ledger has a session ${labelOf(header.id)} already: open it`)
    }
    const log = new EntryLog(file, header)
    const manager = new SessionManager(header.cwd, '', undefined, true, { log })
    return adopted(manager, entries.filter(isEntry))
  }

  async list(onProgress?: SessionListProgress): Promise<SessionInfo[]> {
    return this.#infos(await this.#rows({ piCwd: this.#cwd }), onProgress)
  }

  async listAll(onProgress?: SessionListProgress): Promise<SessionInfo[]> {
    return this.#infos(await this.#rows(), onProgress)
  }

  async #infos(rows: SessionRow[], onProgress?: SessionListProgress): Promise<SessionInfo[]> {
    const infos: SessionInfo[] = []
    for (const [index, row] of rows.entries()) {
      const header = headerOf(row)
      if (header !== undefined) {
        const entries = (await this.#stored(row.label)).map(({ entry }) => entry)
        const last = Date.parse(entries.at(-1)?.timestamp ?? header.timestamp)
        const info = infoOfEntries(row.label, [header, ...entries], new Date(last))
        if (info !== undefined) infos.push(info)
      }
      onProgress?.(index + 1, rows.length)
    }
    return lastUsedFirst(infos)
  }

  /** The sessions that pi's manager has made. */
  async #rows(metadata?: Record<string, string>): Promise<SessionRow[]> {
    await this.#opened()
    const found: SessionRow[] = []
    for (let after: string | null | undefined; after !== null; ) {
      const page = await this.#ledger.sessions({
        prefix: labelOf(''),
        ...(metadata && { metadata }),
        ...(after !== undefined && { after }),
        limit: 1_000,
      })
      found.push(...page.items.filter((row) => headerOf(row) !== undefined))
      after = page.next
    }
    return found
  }

  /** The entries of a session, in the order in which they were appended. */
  async #stored(label: string): Promise<Stored[]> {
    return entriesIn(await exported(this.#ledger, label), label)
  }

  /** The ledger; what a process has left behind is in it afterwards. */
  async #opened(): Promise<LedgerFile> {
    this.#file ??= this.#open()
    try {
      return await this.#file
    } catch (error) {
      // The next call begins anew.
      this.#file = undefined
      throw error
    }
  }

  async #open(): Promise<LedgerFile> {
    const { path, ledgerId: id } = await this.#ledger.stats()
    const spools = spoolsOf(path, id, this.#spoolDir)
    await mkdir(dirname(spools), { recursive: true })
    await recoverSpools(this.#ledger, spools)
    return { ledger: this.#ledger, id, spools }
  }
}

/** Beside the ledger's file; a ledger on a server has a schema in place of a path, and its spools are on this machine. */
function spoolsOf(path: string, id: string, given: string | undefined): string {
  if (isAbsolute(path)) return join(given ?? dirname(path), `${basename(path)}.pi-`)
  return join(given ?? join(agentDir(), 'spools'), `${id}.pi-`)
}

/** By the last move of the session's pointer; of one millisecond, by the turn. */
function lastMovedFirst(a: SessionRow, b: SessionRow): number {
  if (a.updatedAt !== b.updatedAt) return b.updatedAt - a.updatedAt
  return (a.threadId ?? '') < (b.threadId ?? '') ? 1 : -1
}

/** The header of a session of pi's manager; undefined for any other session. */
function headerOf({ metadata, label }: SessionRow): SessionHeader | undefined {
  const text = (metadata as { pi?: unknown } | null)?.pi
  if (typeof text !== 'string') return undefined
  const [header] = parseSessionEntries(text)
  return header?.type === 'session' && labelOf(header.id) === label ? header : undefined
}

async function adopted(
  manager: SessionManager,
  entries: readonly SessionEntry[],
): Promise<SessionManager> {
  manager.adopt(entries)
  await manager.flush()
  return manager
}

function isEntry(entry: FileEntry): entry is SessionEntry {
  return entry.type !== 'session'
}

export { LedgerSessions }
