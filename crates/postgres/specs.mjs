// Runs the specs of the ledger on PostgreSQL, and says how many ran, which are about the file, and what waits. It must never pass where
// a listed test is gone, or one that waits has begun to work.

import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const folder = mkdtempSync(join(tmpdir(), 'postgres-specs-'))
const report = process.argv[2] ?? join(folder, 'report.json')
const args = ['run', '--project', 'postgres', '--reporter=default', '--reporter=json']
const vitest = join('node_modules', 'vitest', 'vitest.mjs')
const { status } = spawnSync(process.execPath, [vitest, ...args, `--outputFile.json=${report}`], {
  stdio: 'inherit',
})
const { testResults, numPassedTests, numPendingTests } = JSON.parse(readFileSync(report, 'utf8'))
rmSync(folder, { recursive: true, force: true })
// Node.js has no types here: the table is read as text.
const table = readFileSync(join('__test__', 'support', 'ledger', 'backends.mts'), 'utf8')
const part = (name) =>
  new RegExp(`export const ${name}[^{]*=\\s*\\{([\\s\\S]*?)\\n\\}`).exec(table)?.[1] ?? ''
const specs = part('ofTheFile').match(/^ {2}\S.*:/gm)?.length ?? 0
const waits = part('waiting').match(/^ {4}\S/gm)?.length ?? 0
console.log(
  `on PostgreSQL: ${testResults.length} specs with ${numPassedTests} tests; ${numPendingTests} tests and ${specs} specs are of the file alone, ${waits} tests wait (__test__/support/ledger/backends.mts)`,
)
process.exit(status ?? 1)
