// Imports the spools that were left behind: by processes that have ended, and by engines of this one that were closed. What cannot be imported is set aside with a
// warning. It must never keep a session from being opened because of another one, nor remove what the ledger does not have.

import { readdir, readFile, rename, rm, truncate } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import type { Ledger } from '../../../index.d.ts'
import { isRunning } from './processes.ts'
import { own, refusalOf } from './spool.ts'

/** The end of a line, as a byte. */
const NEWLINE = 10
const END = '.jsonl'

/** `spools` is the beginning of the paths of all spools of the ledger. */
async function recoverSpools(ledger: Ledger, spools: string): Promise<void> {
  for (const [name, spool] of own) {
    if (!name.startsWith(spools)) continue
    // The session that appended it has the error as well.
    await spool
      .drain(ledger)
      .catch((error: unknown) => warn(`${name}${END} is not imported`, error))
  }
  const dir = dirname(spools)
  const prefix = basename(spools)
  for (const name of (await readdir(dir)).sort()) {
    if (!name.startsWith(prefix) || !name.endsWith(END)) continue
    if (!isRunning(name.slice(prefix.length))) await recover(ledger, join(dir, name))
  }
}

async function recover(ledger: Ledger, path: string): Promise<void> {
  const hasLines = await dropCutLine(path)
  const refused = hasLines ? await refusal(ledger, path) : undefined
  if (refused === undefined) return rm(path, { force: true })
  const aside = `${path}.refused`
  await rename(path, aside)
  warn(`entries in ${aside} are not in the ledger`, refused)
}

/** Why not all of a file is imported. What is not about the file is thrown: then it stays. */
async function refusal(ledger: Ledger, path: string): Promise<string | undefined> {
  try {
    return refusalOf(await ledger.import(path))
  } catch (error) {
    if ((error as { code?: unknown }).code === 'invalid_import') return messageOf(error)
    throw error
  }
}

function warn(what: string, why: unknown): void {
  process.emitWarning(`${what}: ${messageOf(why)}`, { code: 'AGENT_ENGINE_SESSION' })
}

function messageOf(why: unknown): string {
  return why instanceof Error ? why.message : String(why)
}

/** A kill may have cut the last line: that entry was never appended. Returns whether a line is left after the first. */
async function dropCutLine(path: string): Promise<boolean> {
  const text = await readFile(path)
  const end = text.lastIndexOf(NEWLINE) + 1
  if (end < text.length) await truncate(path, end)
  return end > text.indexOf(NEWLINE) + 1
}

export { recoverSpools }
