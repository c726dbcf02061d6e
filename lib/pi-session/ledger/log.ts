// The entries of one session in a ledger: a turn each; the session points at the turn of the leaf. It must never lose an entry whose append has returned, nor write them in another order.

import type { Ledger } from '../../../index.d.ts'
import type { SessionEntry, SessionHeader } from '../../../pi-session.d.ts'
import { rowsOf, SessionCalls } from './calls.ts'
import { newTurnId } from './ids.ts'
import { headerLine, parentIn, sessionLine, turnLine } from './lines.ts'
import { Spool } from './spool.ts'

/** A ledger with what was read of it once. */
interface LedgerFile {
  ledger: Ledger
  id: string
  /** The path of its spools, without what tells them apart. */
  spools: string
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
    this.#spool = new Spool(file.spools, headerLine(file.id) + sessionLine(this.label, header))
  }

  /** Another session of the same ledger, without entries. */
  begin(header: SessionHeader): EntryLog {
    return new EntryLog(this.file, header)
  }

  /** A kill loses nothing from now on; the ledger has it soon. */
  append(entry: SessionEntry): void {
    const turnId = newTurnId(Date.now())
    const turnOf = (id: string) => (id === entry.id ? turnId : this.#turns.get(id))
    const parentOf = (id: string) => (id === entry.id ? parentIn(entry) : this.#parents.get(id))
    const calls = rowsOf(entry, this.#calls.endedBy(entry))
    this.#spool.append(turnLine(this.label, entry, turnOf, parentOf, calls))
    this.#add(entry, turnId)
    this.#leaf = turnId
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

  /** Also what is appended meanwhile. */
  async #store(): Promise<void> {
    const { ledger } = this.file
    while (this.#isBehind()) {
      await this.#spool.drain(ledger)
      const leaf = this.#leaf
      if (leaf === undefined || leaf === this.#pointed) continue
      await ledger.moveSession(this.label, leaf)
      this.#pointed = leaf
    }
  }

  #isBehind(): boolean {
    return !this.#spool.isEmpty || (this.#leaf !== undefined && this.#leaf !== this.#pointed)
  }

  turnOf(entryId: string): string | undefined {
    return this.#turns.get(entryId)
  }

  #add(entry: SessionEntry, turnId: string): void {
    this.#turns.set(entry.id, turnId)
    this.#parents.set(entry.id, parentIn(entry))
    this.#calls.add(entry)
  }

  /** What is appended in one go is imported in one go. */
  async #soon(): Promise<void> {
    await new Promise<void>((resolve) => setImmediate(resolve))
    let hasFailed = false
    try {
      await this.#store()
    } catch (error) {
      hasFailed = true
      this.#warn(error)
    }
    // After a failure the next append, or `flush`, tries again.
    this.#draining = !hasFailed && this.#isBehind() ? this.#soon() : undefined
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
