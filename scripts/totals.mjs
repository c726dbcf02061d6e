// Owns the last line of `npm test`: `N passed, N failed`, added up from the logs of the test runners. A step
// that failed without any failed test (a lint, a build) counts as one. It must never decide the exit code.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const logs = process.argv[2]
let passed = 0
let failed = 0

for (const name of readdirSync(logs)) {
  const path = join(logs, name)
  if (name.endsWith('.json')) {
    const report = JSON.parse(readFileSync(path, 'utf8'))
    passed += report.numPassedTests
    failed += report.numFailedTests
  } else if (name === 'core-tests.log') {
    const text = readFileSync(path, 'utf8')
    // nextest: `Summary [ 1.2s] 10 tests run: 9 passed (1 slow), 1 failed, 0 skipped`
    for (const line of text.match(/^ *Summary .*$/gm) ?? []) {
      passed += Number(/(\d+) passed/.exec(line)?.[1] ?? 0)
      failed += Number(/(\d+) failed/.exec(line)?.[1] ?? 0)
      failed += Number(/(\d+) timed out/.exec(line)?.[1] ?? 0)
    }
    // cargo test: `test result: ok. 5 passed; 0 failed; …`
    for (const match of text.matchAll(/^test result: .*? (\d+) passed; (\d+) failed/gm)) {
      passed += Number(match[1])
      failed += Number(match[2])
    }
  }
}
if (failed === 0 && existsSync(join(logs, 'failed-step'))) failed = 1
console.log(`${passed} passed, ${failed} failed`)
