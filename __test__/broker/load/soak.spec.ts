// A broker that works for long: short turns over many sessions, a fault in every twentieth answer, a restart after each part. Each receipt
// ends, exactly once, and the memory is flat. `npm run proof:broker-soak` has 20,000 turns over 200 sessions, and `proof:postgres-soak` the same on
// a server; here it has 200 over 20.

import { expect, test } from 'vitest'
import { userTexts } from '../../support/broker.js'
import { afterwards, folder, serving } from '../../support/cleanup.js'
import { expectSound } from '../../support/ledger/invariants.js'
import { sqlite3 } from '../../support/ledger/sqlite3.js'
import { childEnv } from '../../support/processes/child.js'
import { killable } from '../../support/processes/killable.js'
import { anthropic } from '../../support/servers/anthropic.js'
import { type Handler, sse, status } from '../../support/servers/server.js'

const turns = Number(process.env.BROKER_SOAK_TURNS ?? 200)
const [sessions, part] = turns >= 2_000 ? [200, 1_000] : [20, 50]

const half = anthropic.start() + anthropic.blockStart(0, { type: 'text', text: '' })
const faults: Handler[] = [
  status(
    429,
    { type: 'error', error: { type: 'rate_limit_error', message: 'Slow down' } },
    {
      'retry-after-ms': '20',
    },
  ),
  status(500, { type: 'error', error: { type: 'api_error', message: 'Internal server error' } }),
  status(529, { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }),
  (response) => response.destroy(),
  sse(half),
]

test.skipIf(process.platform !== 'linux')(
  `${turns} turns over ${sessions} sessions with faults and restarts: each message ends once, and the memory is flat`,
  { timeout: turns * 200 + 120_000 },
  async () => {
    let requests = 0
    let failed = 0
    const server = await serving((response, seen) => {
      server.seen.length = 0
      if (++requests % 20 === 7) return faults[failed++ % faults.length]?.(response, seen)
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.end(anthropic.answer(`to ${userTexts(seen).at(-1)?.slice(0, 20)}`))
    })
    const { file } = folder()
    const args = [file, server.url, String(turns), String(sessions), String(part)]
    const child = killable('broker/soaker.mjs', args, {
      MALLOC_ARENA_MAX: '1',
      NODE_OPTIONS: `${childEnv().NODE_OPTIONS ?? ''} --expose-gc`,
    })
    afterwards(() => child.kill())
    expect(await child.ended).toBe(null)
    const report = JSON.parse(child.lines.at(-1) ?? 'null')
    console.log(`${requests} requests, ${failed} faults: ${child.lines.at(-1)}`)
    expect(failed).toBeGreaterThan(turns / 40)
    expect([report.receipts, report.interrupted]).toEqual([turns, 0])
    const ended: { status: string; n: number }[] = report.ends
    expect(ended.filter(({ status: how }) => how !== 'delivered' && how !== 'failed')).toEqual([])
    expect(ended.reduce((sum, { n }) => sum + n, 0)).toBe(turns)
    const delivered = ended.find(({ status: how }) => how === 'delivered')?.n ?? 0
    expect(delivered).toBeGreaterThan(turns * 0.9)
    // Nothing is asked twice: each text is in one turn.
    expect(report.asked.n).toBe(report.asked.different)
    expect(report.asked.n).toBeLessThanOrEqual(delivered)
    // Caches and the allocator settle in the first quarter.
    if (turns >= 10_000) {
      const settled = report.memory[Math.floor(report.memory.length / 4)]
      expect(report.memory.at(-1)).toBeLessThan(settled + 32)
    }
    if (sqlite3) expectSound(file)
  },
)
