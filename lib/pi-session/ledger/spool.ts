// What was appended and is not in the ledger yet: a file beside the ledger, so that a kill loses no entry. It must never remove a line before the ledger has it.

import { randomUUID } from 'node:crypto'
import {
  closeSync,
  fstatSync,
  openSync,
  renameSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { rm } from 'node:fs/promises'
import type { Ledger, LedgerImport } from '../../../index.d.ts'
import { ownName } from './processes.ts'

/** The file may be read by its owner only, as the ledger. */
const MODE = { mode: 0o600 } as const
/** The spools of this process that are not empty, by the beginning of their paths. */
const own = new Map<string, Spool>()

class Spool {
  /** Written first into each file. */
  #head: string
  /** The files, without what numbers them. */
  #name: string
  #lines = ''
  /** A write has failed: the file may end with a part of a line. */
  #isTorn = false
  #parts: string[] = []
  #count = 0
  #draining: Promise<void> = Promise.resolve()

  /** `spools` is the beginning of the paths of all spools of a ledger. */
  constructor(spools: string, head: string) {
    this.#head = head
    this.#name = `${spools}${ownName()}-${randomUUID()}`
  }

  /** Whether the ledger has all that was appended. */
  get isEmpty(): boolean {
    return this.#lines === '' && this.#parts.length === 0
  }

  /** The line is in the file when this returns; where it throws nothing was appended. */
  append(line: string): void {
    if (this.#isTorn) this.#cut()
    try {
      this.#write(line)
    } catch (error) {
      this.#isTorn = true
      throw error
    }
    this.#lines += line
    own.set(this.#name, this)
  }

  #write(line: string): void {
    const file = openSync(`${this.#name}.jsonl`, 'a', MODE.mode)
    try {
      // Without a beginning it is new. Or somebody took it for one that was left behind: whether all of it is in the ledger is not known.
      const isNew = fstatSync(file).size === 0
      const bytes = Buffer.from(isNew ? this.#head + this.#lines + line : line)
      for (let at = 0; at < bytes.length; ) at += writeSync(file, bytes, at)
    } finally {
      closeSync(file)
    }
  }

  /** Imports all that was appended. What fails stays, and is tried again by the next call. */
  drain(ledger: Ledger): Promise<void> {
    const work = this.#draining.then(() => this.#drain(ledger))
    // The caller has its failure; the next one begins anew.
    this.#draining = work.catch(() => {})
    return work
  }

  async #drain(ledger: Ledger): Promise<void> {
    for (;;) {
      if (this.#lines !== '') this.#cut()
      const [part] = this.#parts
      if (part === undefined) break
      const refused = refusalOf(await ledger.import(part))
      if (refused !== undefined) throw new Error(`an entry was not stored: ${refused} (${part})`)
      await rm(part, { force: true })
      this.#parts.shift()
    }
    own.delete(this.#name)
  }

  /** What is appended from now on is in another file. */
  #cut(): void {
    const file = `${this.#name}.jsonl`
    if (this.#lines === '') {
      rmSync(file, { force: true })
    } else {
      const part = `${this.#name}.${this.#count}.jsonl`
      if (this.#isTorn || !renamed(file, part)) {
        writeFileSync(part, this.#head + this.#lines, MODE)
        rmSync(file, { force: true })
      }
      this.#count++
      this.#lines = ''
      this.#parts.push(part)
    }
    this.#isTorn = false
  }
}

/** False where somebody took the file for one that was left behind. */
function renamed(from: string, to: string): boolean {
  try {
    renameSync(from, to)
    return true
  } catch {
    return false
  }
}

/** Notes about lines that were imported: a reference to a turn that is not there, and a session whose pointer a host's run has moved. */
const IMPORTED: ReadonlySet<string> = new Set(['lost_reference', 'session_exists'])

/** Why a line was not imported. */
function refusalOf({ problems }: LedgerImport): string | undefined {
  return problems.find(({ code }) => !IMPORTED.has(code))?.message
}

export { own, refusalOf, Spool }
