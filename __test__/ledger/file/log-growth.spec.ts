// A log that cannot be checkpointed because another process reads: runs report it, no read of the engine is ended for it, and
// it ends with that read. A read of the engine that pins it is in `crates/ledger/src/tests/guard.rs`. It must never need the
// default limit.

import { spawn } from 'node:child_process'
import { expect, test, vi } from 'vitest'
import { afterwards, closing, folder } from '../../support/cleanup.js'
import { context, scriptedEngine } from '../../support/engine.js'
import { sqlite3 } from '../../support/ledger/sqlite3.js'

const BOUND = 8 << 20

/** The sqlite3 command line in the middle of a read. */
async function pinning(file: string) {
  const child = spawn('sqlite3', [file], { stdio: ['pipe', 'pipe', 'inherit'] })
  const ended = new Promise<void>((resolve) => child.on('close', () => resolve()))
  child.stdin.write('BEGIN; SELECT count(*) FROM turns;\n')
  await new Promise((resolve) => child.stdout.once('data', resolve))
  const release = async () => {
    if (child.exitCode === null) child.stdin.end('COMMIT;\n')
    await ended
  }
  afterwards(release)
  return release
}

test.skipIf(!sqlite3)(
  'a log over its limit because of another process is a warning of each run until it is checkpointed (sqlite3)',
  { timeout: 120_000 },
  async () => {
    vi.stubEnv('NEXUS_AGENT_ENGINE_LEDGER_LOG_BOUND', String(BOUND))
    afterwards(() => vi.unstubAllEnvs())
    const { file } = folder()
    const replies = Array<string>(1_000).fill('x'.repeat(60_000))
    const { engine } = scriptedEngine(replies, { ledger: { path: file } })
    closing(engine)
    let runs = 0
    const warned = async () => {
      const result = await engine.run(context({ sessionLabel: `s${++runs}` })).result
      expect(result).toMatchObject({ stopReason: 'end_turn', persisted: true })
      return result.warnings.filter(({ code }) => code === 'ledger_log_grew')
    }
    expect(await warned()).toEqual([])
    const release = await pinning(file)
    let warnings = await warned()
    while (warnings.length === 0 && runs < 500) warnings = await warned()
    expect(warnings).toEqual([
      { code: 'ledger_log_grew', message: expect.stringContaining(`${BOUND}`) },
    ])
    expect((await engine.ledger.stats()).logBytes).toBeGreaterThanOrEqual(BOUND)
    // The engine's own reads do not pin it.
    expect(await engine.ledger.verify()).toMatchObject({ ok: true })
    expect(await warned()).toHaveLength(1)
    await release()
    await warned()
    await warned()
    expect(await warned()).toEqual([])
    expect((await engine.ledger.stats()).logBytes).toBeLessThan(2 * BOUND)
  },
)
