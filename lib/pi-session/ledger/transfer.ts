// A session of pi in a ledger, and out of it, by the ledger's own import and export. It must never write rows itself.

import { randomUUID } from 'node:crypto'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Ledger } from '../../../index.d.ts'

/** Writes a session of the ledger as a new file of `dir`, and returns its path. */
async function load(ledger: Ledger, session: string, dir: string): Promise<string> {
  const path = join(dir, `${new Date().toISOString().replace(/[:.]/g, '-')}_${randomUUID()}.jsonl`)
  await ledger.export(path, { format: 'pi', session })
  return path
}

/** The whole of a session in the ledger's own format. */
async function exported(ledger: Ledger, session: string): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'agent-engine-pi-'))
  try {
    const path = join(dir, 'session.jsonl')
    await ledger.export(path, { session })
    return await readFile(path, 'utf8')
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
}

/** Imports the text of a session file, and returns the label of its session. */
async function save(ledger: Ledger, text: string, session: string | undefined): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'agent-engine-pi-'))
  try {
    const path = join(dir, 'session.jsonl')
    await writeFile(path, text)
    const options = { format: 'pi', ...(session !== undefined && { session }) } as const
    const { sessions, problems } = await ledger.import(path, options)
    const [label] = sessions
    if (label === undefined) {
      throw new Error(
        `the session was not imported: ${problems[0]?.message ?? 'it has no message'}`,
      )
    }
    return label
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
}

export { exported, load, save }
