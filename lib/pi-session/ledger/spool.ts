// What was appended and is not in the ledger yet: a file beside the ledger, so that a kill loses no entry. What a process that has ended left behind is
// imported by the next one. It must never remove a line before the ledger has it.

import { randomUUID } from 'node:crypto'
import { appendFileSync, renameSync, writeFileSync } from 'node:fs'
import { readdir, readFile, rm, truncate } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import type { Ledger, LedgerImport } from '../../../index.d.ts'

/** The end of a line, as a byte. */
const NEWLINE = 10
/** The file may be read by its owner only, as the ledger. */
const MODE = { mode: 0o600 } as const
/** The spools of this process that are not empty, by the beginning of their paths. */
const own = new Map<string, Spool>()

/** Where a ledger's spools are. */
const prefixOf = (ledgerPath: string) => `${basename(ledgerPath)}.pi-`

class Spool {
  /** Written first into each file. */
  #head: string
  /** The files, without what numbers them. */
  #name: string
  #lines = ''
  #parts: string[] = []
  #count = 0
  #draining: Promise<void> = Promise.resolve()

  constructor(ledgerPath: string, head: string) {
    this.#head = head
    const name = `${prefixOf(ledgerPath)}${process.pid}-${randomUUID()}`
    this.#name = join(dirname(ledgerPath), name)
  }

  /** The line is in the file when this returns. */
  append(line: string): void {
    const text = this.#lines === '' ? this.#head + line : line
    appendFileSync(`${this.#name}.jsonl`, text, MODE)
    this.#lines += line
    own.set(this.#name, this)
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
    const part = `${this.#name}.${this.#count++}.jsonl`
    try {
      renameSync(`${this.#name}.jsonl`, part)
    } catch {
      // Somebody took it for one that was left behind: whether all of it is in the ledger is not known.
      writeFileSync(part, this.#head + this.#lines, MODE)
    }
    this.#lines = ''
    this.#parts.push(part)
  }
}

/** Notes about lines that were imported: a reference to a turn that is not there, and a session whose pointer a host's run has moved. */
const IMPORTED: ReadonlySet<string> = new Set(['lost_reference', 'session_exists'])

/** Why a line was not imported. */
function refusalOf({ problems }: LedgerImport): string | undefined {
  return problems.find(({ code }) => !IMPORTED.has(code))?.message
}

/** Imports what was left behind: by processes that have ended, and by engines of this one that were closed. */
async function recoverSpools(ledger: Ledger, ledgerPath: string): Promise<void> {
  const dir = dirname(ledgerPath)
  const prefix = prefixOf(ledgerPath)
  for (const [name, spool] of own) {
    if (name.startsWith(join(dir, prefix))) await spool.drain(ledger)
  }
  for (const name of (await readdir(dir)).sort()) {
    if (!name.startsWith(prefix)) continue
    const [pid = ''] = name.slice(prefix.length).split('-')
    if (isRunning(Number(pid))) continue
    const path = join(dir, name)
    if (await dropCutLine(path)) {
      const refused = refusalOf(await ledger.import(path))
      if (refused !== undefined) throw new Error(`an entry was not recovered: ${refused} (${path})`)
    }
    await rm(path, { force: true })
  }
}

/** A kill may have cut the last line: that entry was never appended. Returns whether a line is left after the first. */
async function dropCutLine(path: string): Promise<boolean> {
  const text = await readFile(path)
  const end = text.lastIndexOf(NEWLINE) + 1
  if (end < text.length) await truncate(path, end)
  return end > text.indexOf(NEWLINE) + 1
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    // Another user's process.
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

export { recoverSpools, Spool }
