// The entries of one session in a ledger: a turn each; the session points at the turn of the leaf. It must never lose an entry whose append has returned, nor write them in another order.

import type { Ledger } from '../../../index.d.ts'
import type { SessionEntry, SessionHeader } from '../../../pi-session.d.ts'
import { rowsOf, SessionCalls } from './calls.ts'
import { newTurnId } from './ids.ts'
import { headerLine, sessionLine, turnLine } from './lines.ts'
import { Spool } from './spool.ts'

/** A ledger with what was read of it once. */
interface LedgerFile {
  ledger: Ledger
  id: string
  path: string
}

/** An entry that is in the ledger, and its turn. */
interface Stored {
  entry: SessionEntry
  turnId: string
}

const labelOf = (sessionId: string) => `pi:${sessionId}`

class EntryLog {
  readonly label: string
  readonly header: SessionHeader
  readonly file: LedgerFile
  #turns = new Map<string, string>()
  #parents = new Map<string, string | null>()
  #calls = new SessionCalls()
  #spool: Spool
  #draining: Promise<void> | undefined
  /** The turn of the leaf. */
  #leaf: string | undefined
  /** The turn to which the session was moved last. */
  #pointed: string | undefined
  #warned = false

  constructor(file: LedgerFile, header: SessionHeader, stored: readonly Stored[] = []) {
    this.file = file
    this.header = header
    this.label = labelOf(header.id)
    for (const { entry, turnId } of stored) this.#add(entry, turnId)
    this.#spool = new Spool(file.path, headerLine(file.id) + sessionLine(this.label, header))
  }

  /** Another session of the same ledger, without entries. */
  begin(header: SessionHeader): EntryLog {
    return new EntryLog(this.file, header)
  }

  /** A kill loses nothing from now on; the ledger has it soon. */
  append(entry: SessionEntry): void {
    this.#leaf = newTurnId(Date.now())
    const ended = this.#add(entry, this.#leaf)
    const parentOf = (id: string) => this.#parents.get(id)
    const calls = rowsOf(entry, ended)
    this.#spool.append(turnLine(this.label, entry, this.#turns, parentOf, calls))
    this.#draining ??= this.#soon()
  }

  /** The leaf is another entry: the ledger's session soon points there. */
  point(entryId: string): void {
    this.#leaf = this.#turns.get(entryId)
    this.#draining ??= this.#soon()
  }

  /** The ledger has all that was appended, and its session points at the leaf. */
  async flush(): Promise<void> {
    await this.#draining
    await this.#store()
  }

  async #store(): Promise<void> {
    const { ledger } = this.file
    await this.#spool.drain(ledger)
    const leaf = this.#leaf
    if (leaf === undefined || leaf === this.#pointed) return
    await ledger.moveSession(this.label, leaf)
    this.#pointed = leaf
  }

  turnOf(entryId: string): string | undefined {
    return this.#turns.get(entryId)
  }

  /** The calls that the entry ends. */
  #add(entry: SessionEntry, turnId: string): ReturnType<SessionCalls['add']> {
    const { id, parentId } = entry
    this.#turns.set(id, turnId)
    this.#parents.set(id, parentId)
    return this.#calls.add(entry)
  }

  /** What is appended in one go is imported in one go. */
  async #soon(): Promise<void> {
    await new Promise<void>((resolve) => setImmediate(resolve))
    try {
      await this.#store()
    } catch (error) {
      this.#warn(error)
    } finally {
      this.#draining = undefined
    }
  }

  /** Once: `flush` has the error as well. */
  #warn(error: unknown): void {
    if (this.#warned) return
    this.#warned = true
    const why = error instanceof Error ? error.message : String(error)
    process.emitWarning(`session ${this.label} is not in the ledger yet: ${why}`, {
      code: 'AGENT_ENGINE_SESSION',
    })
  }
}

export type { LedgerFile, Stored }
export { EntryLog, labelOf }
