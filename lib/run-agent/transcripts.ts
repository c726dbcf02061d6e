// The transcripts of earlier versions, which become sessions of the ledger when they are first used. It must never change or delete one.

import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Ledger, LedgerImport } from '../../index.d.ts'

/** Imports that are under way: two runs of one session import its transcript once. */
const running = new Map<string, Promise<void>>()

/** Imports the transcript of a session that the ledger does not have yet. */
async function importTranscript(
  ledger: Ledger,
  sessionsFolder: string,
  sessionKey: string,
): Promise<void> {
  const path = join(sessionsFolder, `${sessionKey.replaceAll(':', '__')}.jsonl`)
  const imported =
    running.get(path) ?? importOnce(ledger, path, sessionKey).finally(() => running.delete(path))
  running.set(path, imported)
  await imported
}

async function importOnce(ledger: Ledger, path: string, sessionKey: string): Promise<void> {
  // A key with a separator is no name of a file in this folder.
  if (/[/\\\0]/.test(sessionKey) || !existsSync(path)) return
  if ((await ledger.session(sessionKey)) !== null || isEmpty(path)) return
  try {
    const { problems } = withoutHeader(
      path,
      await ledger.import(path, { format: 'myclaw', session: sessionKey }),
    )
    if (problems.length > 0) {
      const lines = problems.slice(0, 20).map(({ line }) => line)
      process.emitWarning(
        `lines of \`${path}\` are no messages and were not imported: ${lines.join(', ')}`,
        { code: 'RUN_AGENT_TRANSCRIPT' },
      )
    }
  } catch (error) {
    // Another process has imported it meanwhile.
    if ((error as { code?: unknown }).code !== 'storage_constraint') throw error
  }
}

/** Whether a transcript has no message: nothing but its header. */
function isEmpty(path: string): boolean {
  const lines = readFileSync(path, 'utf8').split('\n')
  return lines.every((line) => line.trim() === '' || headerOf(line) !== undefined)
}

/** The first line of a transcript, `{ type: 'session', sessionKey, createdAt }`; undefined for another one. */
function headerOf(line: string): { sessionKey?: unknown } | undefined {
  try {
    const value = JSON.parse(line)
    return value?.type === 'session' ? value : undefined
  } catch {
    return undefined
  }
}

/** The report without a problem of the header, which is no message. */
function withoutHeader(path: string, report: LedgerImport): LedgerImport {
  const first = report.problems.some(({ line }) => line === 1)
  if (!first) return report
  const [line = ''] = readFileSync(path, 'utf8').split('\n', 1)
  if (headerOf(line) === undefined) return report
  return { ...report, problems: report.problems.filter((problem) => problem.line !== 1) }
}

export { headerOf, importTranscript, withoutHeader }
