// Kills while facts are extracted, at every write and every sync of the ledger, before, in the middle of and after it: each turn is
// extracted once, no fact is there twice, and the calls are counted. It must never ask a process that is killed for anything.

import { beforeAll, expect, test } from 'vitest'
import { AgentEngine } from '../../../index.js'
import { folder, serving } from '../../support/cleanup.js'
import { expectSound } from '../../support/ledger/invariants.js'
import { sqlite3 } from '../../support/ledger/sqlite3.js'
import { killable } from '../../support/processes/killable.js'
import { canPreload, library } from '../../support/processes/preload.js'
import { chat } from '../../support/servers/chat.js'
import { sse } from '../../support/servers/server.js'

const script = 'memory/extractor.mjs'
const sessions = ['one', 'two', 'three']
const moments = ['before write', 'torn write', 'before sync', 'after sync'] as const
/** Whether each operation is a kill; `npm run proof:memory` sets it. Without it, one is. */
const isFull = process.env.EXTRACTION_KILLS === 'all'

let preload = ''
beforeAll(() => {
  if (canPreload) preload = library('kill-point')
})

/** A model that finds one fact in each turn: its session. `calls()`: the requests for facts. */
async function model() {
  let calls = 0
  const { url } = await serving((response, seen) => {
    if (seen.body.response_format === undefined) {
      return sse(chat.text('Noted.'), chat.finish('stop') + chat.usage(3, 2) + chat.done())(
        response,
        seen,
      )
    }
    calls++
    const [, session] = /I am in (\w+)/.exec(seen.raw) ?? []
    const fact = { entity: session, type: 'is', content: `here: ${session}`, confidence: 1 }
    const facts = JSON.stringify({ facts: [{ ...fact, replaces: false }] })
    return sse(chat.text(facts), chat.finish('stop') + chat.usage(30, 4) + chat.done())(
      response,
      seen,
    )
  })
  return { url, calls: () => calls }
}

/** Kills a process at an operation, and lets the next one end. Returns whether it was killed. */
async function killedAt(at: string): Promise<boolean> {
  const { url, calls } = await model()
  const { path, file } = folder()
  await new AgentEngine({ ledger: { path: file } }).close()
  const env = { LD_PRELOAD: preload, KILL_FILE: `${path}/`, KILL_AT: at }
  const signal = await killable(script, [file, url, ...sessions], env).ended
  expect(await killable(script, [file, url, 'last']).ended).toBe(null)
  const engine = new AgentEngine({ ledger: { path: file }, memory: true })
  try {
    const rows = async (sql: string) => (await engine.ledger.query(sql)).rows
    const turns = await rows('SELECT t.id, t.session_label FROM turns t ORDER BY t.id')
    const facts = await rows('SELECT turn_id, entity FROM memory_facts ORDER BY turn_id')
    expect(facts).toEqual(
      turns.map(({ id, session_label }) => ({ turn_id: id, entity: session_label })),
    )
    expect(await rows('SELECT * FROM memory_pending')).toEqual([])
    expect(await rows('SELECT * FROM memory_extractions')).toEqual([])
    const { items } = await engine.ledger.usage({ by: 'session' })
    const counted = items.map(({ memoryCalls }) => memoryCalls)
    // A call is counted before its facts are stored; one whose answer a killed process had not written is made again.
    expect(Math.min(...counted)).toBeGreaterThanOrEqual(1)
    const sum = counted.reduce((all, one) => all + one, 0)
    expect(sum).toBeGreaterThanOrEqual(facts.length)
    expect(sum).toBeLessThanOrEqual(calls())
    expect(calls()).toBeLessThanOrEqual(facts.length + 1)
    expect((await engine.ledger.verify()).ok).toBe(true)
  } finally {
    await engine.close()
  }
  if (sqlite3) expectSound(file)
  return signal === 'SIGKILL'
}

test.skipIf(!canPreload)(
  'each turn is extracted once and its call is counted, whichever write or sync a process is killed at (cc, Linux)',
  { timeout: 14_400_000 },
  async () => {
    if (!isFull) {
      expect(await killedAt('after sync 8')).toBe(true)
      return
    }
    let all = 0
    for (const moment of moments) {
      let misses = 0
      // How many operations a process has differs: jobs that wait share a commit.
      for (let number = 1; misses < 3; number++) {
        const killed = await killedAt(`${moment} ${number}`)
        misses = killed ? 0 : misses + 1
        all += Number(killed)
      }
    }
    console.log(`${all} kills`)
    expect(all).toBeGreaterThan(moments.length * 10)
  },
)
