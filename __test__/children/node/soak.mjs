// A host that runs all day, for the soak test: sessions with pauses, against a server that fails at random.
// Prints a line of JSON when it ends. Needs --expose-gc, and the clock of `support/processes/fast-clock.c`.

import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { setTimeout as wait } from 'node:timers/promises'
import { AgentEngine } from '../../../index.js'
import { context } from '../common.mjs'

const [file, baseUrl, minutes] = process.argv.slice(2)
const SESSIONS = 8
const MINUTE = 60_000

const engine = new AgentEngine({
  providers: { test: { api: 'anthropic-messages', baseUrl } },
  authProfiles: Array.from({ length: 4 }, (_, n) => ({
    id: `p${n}`,
    provider: 'test',
    type: 'api_key',
    key: `sk-test-canary-000000000${n}`,
  })),
  models: ['main', 'spare'].map((id) => ({
    provider: 'test',
    id,
    contextWindow: 32_000,
    maxOutputTokens: 2_000,
  })),
  failover: { fallbacks: [{ provider: 'test', model: 'spare' }] },
  ledger: { path: file, synchronous: 'normal' },
})

/** Numbers in 0..1 that are the same in every run of this script. */
function dice(seed) {
  let state = seed
  return () => {
    state = (state * 1_664_525 + 1_013_904_223) % 2 ** 32
    return state / 2 ** 32
  }
}

/** Memory of the process's own, in bytes; the kernel's count, without pages of files. */
function own() {
  const [, kib] = /^RssAnon:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8'))
  return Number(kib) * 1024
}

const begun = Date.now()
const until = begun + Number(minutes) * MINUTE
const stops = {}
const wrong = []
/** The ids of completed turns by session, in order: only their hash, because this process's own memory is measured. */
const completed = Array.from({ length: SESSIONS }, () => createHash('sha256'))
let turns = 0

async function talk(session) {
  const roll = dice(session + 1)
  const tools = [
    { name: 'look', run: ({ n }) => `looked at ${n} ${'x'.repeat(Math.floor(roll() * 2_000))}` },
  ]
  for (let n = 0; Date.now() < until; n++) {
    const marker = `<${session}:${n}>`
    const run = engine.run(
      context({
        model: 'main',
        sessionLabel: `agent:main:dm:${session}`,
        currentMessage: { role: 'user', content: `${marker} ${'please '.repeat(roll() * 60)}` },
        tools,
        timeoutMs: 2 * MINUTE,
      }),
    )
    const aborts = roll() < 0.02
    let text = ''
    for await (const event of run) {
      if (event.type === 'token') text += event.text
      if (aborts) run.abort()
    }
    const result = await run.result
    turns++
    stops[result.stopReason] = (stops[result.stopReason] ?? 0) + 1
    if (!result.persisted) wrong.push(`${marker} was not written: ${result.persistError?.message}`)
    if (result.stopReason === 'end_turn') {
      if (!text.endsWith(`answer to ${marker}`))
        wrong.push(`${marker} was answered ${text.slice(-80)}`)
      completed[session].update(result.turnId)
    } else if (result.stopReason === 'error' && !result.error?.detail.kind) {
      wrong.push(`${marker} failed without a kind`)
    }
    await wait(30_000 + roll() * 30_000)
  }
}

const samples = []
async function watch() {
  while (Date.now() < until) {
    await wait(MINUTE)
    globalThis.gc()
    samples.push([(Date.now() - begun) / (60 * MINUTE), own()])
  }
}

await Promise.all([watch(), ...Array.from({ length: SESSIONS }, (_, session) => talk(session))])

/** Bytes an hour, by least squares over the second half: SQLite's page caches have grown with the file until then. */
function slope(points) {
  const late = points.slice(Math.floor(points.length / 2))
  const mean = (at) => late.reduce((sum, point) => sum + point[at], 0) / late.length
  const [x, y] = [mean(0), mean(1)]
  const above = late.reduce((sum, [hour, bytes]) => sum + (hour - x) * (bytes - y), 0)
  return above / late.reduce((sum, [hour]) => sum + (hour - x) ** 2, 0)
}

// Every acknowledged turn is in its session's log, once and in order.
for (const [session, hash] of completed.entries()) {
  const { rows } = await engine.ledger.query(
    `SELECT h.thread_id FROM session_history h JOIN turns t ON t.id = h.thread_id
     WHERE h.session_label = ? AND t.stop_reason = 'end_turn' AND t.turn_type = 'normal' ORDER BY h.id`,
    [`agent:main:dm:${session}`],
  )
  const logged = createHash('sha256').update(rows.map((row) => row.thread_id).join(''))
  if (logged.digest('hex') !== hash.digest('hex'))
    wrong.push(`session ${session} lost or doubled a turn`)
}
const compactions = await engine.ledger.query('SELECT count(*) AS n FROM compactions')
const report = await engine.ledger.verify()
if (!report.ok) wrong.push(...report.problems.slice(0, 5).map((problem) => problem.message))
await engine.close()
console.log(
  JSON.stringify({
    turns,
    stops,
    compactions: compactions.rows[0].n,
    wrong: wrong.slice(0, 20),
    bytesPerHour: Math.round(slope(samples)),
    mib: samples
      .filter((_, n) => n % 10 === 9)
      .map(([, bytes]) => Math.round(bytes / 104857.6) / 10),
  }),
)
