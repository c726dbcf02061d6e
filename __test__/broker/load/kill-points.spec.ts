// Kills at every write and every sync of all that a broker stores, before, in the middle of and after it: enqueue, claim, steer,
// dispatch, the end of a child, its delivery to the parent, the end of a turn, the outbox and schedules. A small library, preloaded
// into the child, ends it at the chosen operation. It must never ask a process that is killed for anything.

import { beforeAll, expect, test } from 'vitest'
import { AgentEngine } from '../../../index.js'
import { userTexts } from '../../support/broker.js'
import { folder, serving } from '../../support/cleanup.js'
import { expectSound } from '../../support/ledger/invariants.js'
import { sqlite3 } from '../../support/ledger/sqlite3.js'
import { killable } from '../../support/processes/killable.js'
import { canPreload, library } from '../../support/processes/preload.js'
import { anthropic } from '../../support/servers/anthropic.js'

const script = 'broker/points.mjs'
/** The kills for each commit, by name; `npm run proof:broker` sets it. Without it, one kill of each number of processes. */
const least = Number(process.env.BROKER_POINT_KILLS ?? 0)
const moments = ['before write', 'torn write', 'before sync', 'after sync'] as const

let preload = ''
beforeAll(() => {
  if (canPreload) preload = library('kill-point')
})

/** The commits by name, in their order: each is what the ledger has after it. */
const commits: [string, string][] = [
  ['schedule', 'SELECT 1 FROM schedules'],
  ['enqueue', "SELECT 1 FROM queue_items WHERE event_id = '<one>'"],
  ['claim', "SELECT 1 FROM queue_items WHERE event_id = '<one>' AND status <> 'pending'"],
  ['steer', "SELECT 1 FROM queue_items WHERE event_id = '<two>' AND status <> 'pending'"],
  ['dispatch', 'SELECT 1 FROM dispatches'],
  ['deliver', "SELECT 1 FROM queue_items WHERE event_id = '<one>' AND status = 'delivered'"],
  ['child end', "SELECT 1 FROM dispatches WHERE status <> 'active'"],
  [
    'parent delivery',
    `SELECT 1 FROM queue_items WHERE json_extract(sender_json, '$.kind') = 'worker_result' AND status = 'delivered'`,
  ],
  ['outbox', "SELECT 1 FROM deliveries WHERE status = 'delivered'"],
]

/** A model whose manager notes first, then dispatches, and whose worker answers. */
const model = () =>
  serving((response, { body }) => {
    const texts = userTexts({ body } as never)
    const isManager = JSON.stringify(body.system).includes('manager')
    const used = JSON.stringify(body.messages)
    const last = JSON.stringify(body.messages.at(-1))
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    if (!isManager) response.end(anthropic.answer(`did ${texts.at(-1)}`))
    else if (texts.includes('<one>') && !used.includes('"note"')) {
      response.end(anthropic.calls(['call_1', 'note', {}]))
    } else if (texts.includes('<two>') && !used.includes('"agent_send"')) {
      const params = { op: 'dispatch', target: 'coder', content: 'task' }
      response.end(anthropic.calls(['call_2', 'agent_send', params]))
    } else response.end(anthropic.answer(last.includes('tool_result') ? 'done' : 'yes'))
  })

/** The commits that a ledger has, by name. */
async function reached(file: string): Promise<string[]> {
  const engine = new AgentEngine({ ledger: { path: file } })
  try {
    const select = commits.map(([, sql], at) => `EXISTS (${sql}) AS c${at}`).join(', ')
    const { rows } = await engine.ledger.query(`SELECT ${select}`)
    return commits.flatMap(([name], at) => (rows[0]?.[`c${at}`] === 1 ? [name] : []))
  } finally {
    await engine.close()
  }
}

/** What became of everything: each message ended once, each task has one result, each answer is delivered. */
async function check(file: string, receipts: Map<string, string>): Promise<void> {
  const engine = new AgentEngine({ ledger: { path: file } })
  try {
    const query = async (sql: string) => (await engine.ledger.query(sql)).rows
    const items = await query('SELECT id, event_id, status, reason, sender_json FROM queue_items')
    const ids = new Set(items.map(({ id }) => id))
    expect([...receipts.keys()].filter((id) => !ids.has(id))).toEqual([])
    for (const { id, status, reason } of items) {
      expect(`${id}: ${status} ${reason ?? ''}`).toMatch(
        /: (delivered |failed (interrupted|run_failed))$/,
      )
    }
    const events = items.flatMap(({ event_id }) => (event_id === null ? [] : [event_id]))
    expect(new Set(events).size).toBe(events.length)
    const history = await engine.ledger.history('main')
    const asked = history.filter(({ role }) => role === 'user').map(({ content }) => content)
    expect(new Set(asked).size).toBe(asked.length)
    for (const { id, status, result_item_id } of await query('SELECT * FROM dispatches')) {
      expect(`${id} ${status}`).toMatch(/ (ok|aborted)$/)
      const results = items.filter(({ sender_json }) => {
        const sender = JSON.parse((sender_json as string | null) ?? '{}')
        return sender.kind === 'worker_result' && sender.dispatchId === id
      })
      expect(results.map((row) => row.id)).toEqual([result_item_id])
    }
    expect(await query("SELECT 1 FROM deliveries WHERE status <> 'delivered'")).toEqual([])
    expect(await query('SELECT 1 FROM schedules WHERE next_at IS NOT NULL')).toEqual([])
    expect(await engine.recover()).toEqual([])
  } finally {
    await engine.close()
  }
  if (sqlite3) expectSound(file)
}

/**
 * Kills a process at an operation, beside others that go on; then all is done to its end. Returns the commits that the ledger had after
 * the kill; null where the process ended before.
 */
async function killedAt(url: string, processes: number, at: string): Promise<string[] | null> {
  const { path, file } = folder()
  await new AgentEngine({ ledger: { path: file } }).close()
  const args = [file, url, String(Date.now())]
  const env = { LD_PRELOAD: preload, KILL_FILE: `${path}/`, KILL_AT: at }
  const killed = killable(script, args, env)
  // The others begin when it has a message, so that it has something to do.
  const began = killed.line('receipt').catch(() => {})
  await Promise.race([began, killed.ended])
  const others = Array.from({ length: processes - 1 }, () => killable(script, args))
  const signal = await killed.ended
  const had = processes === 1 ? await reached(file) : []
  await Promise.all(others.map(({ ended }) => ended))
  const last = killable(script, args)
  expect(await last.line('ended')).toBe('ended')
  await last.ended
  const receipts = new Map<string, string>()
  for (const line of [killed, last, ...others].flatMap(({ lines }) => lines)) {
    const [, id, text] = /^receipt (\S+) (.+)$/.exec(line) ?? []
    if (id !== undefined && text !== undefined) receipts.set(id, text)
  }
  await check(file, receipts)
  return signal === 'SIGKILL' ? had : null
}

/**
 * The commits beside which the kills of a scan were, in its order: those that come next, or after a sync those that came last. Which of
 * two agents is first is open, so that one kill may be beside two commits.
 */
function besides(scan: readonly string[][], moment: string): string[] {
  return scan.flatMap((had, at) => {
    if (moment.startsWith('after')) {
      const earlier = scan.slice(0, at).findLast((it) => had.some((name) => !it.includes(name)))
      return had.filter((name) => !earlier?.includes(name))
    }
    const later = scan.slice(at + 1).find((it) => it.some((name) => !had.includes(name)))
    return later?.filter((name) => !had.includes(name)) ?? []
  })
}

/** Kills a process at each operation of a moment, until it has no more of them. Returns what the ledger had after each. */
async function scanned(url: string, processes: number, moment: string): Promise<string[][]> {
  const scan: string[][] = []
  let misses = 0
  // How many operations a process has differs: jobs that wait share a commit, and others may have done its part.
  for (let number = 1; misses < 5; number++) {
    const had = await killedAt(url, processes, `${moment} ${number}`)
    misses = had === null ? misses + 1 : 0
    if (had !== null) scan.push(had)
  }
  return scan
}

for (const processes of [1, 3]) {
  test.skipIf(!canPreload)(
    `a broker killed at its commits, beside ${processes - 1} others: all is done once (cc, Linux)`,
    { timeout: 14_400_000 },
    async () => {
      const server = await model()
      if (least === 0) {
        // Alone about where it takes its first message; beside others before they begin, because they might do the rest.
        const at = processes === 1 ? 'after sync 6' : 'after sync 2'
        expect(await killedAt(server.url, processes, at)).not.toBeNull()
        return
      }
      const kills = new Map(commits.map(([name]) => [name, 0]))
      let all = 0
      // Who of several does a step is open: their kills are only counted.
      const isEnough = () =>
        processes === 1
          ? [...kills.values()].every((count) => count >= least)
          : all >= least * commits.length
      while (!isEnough()) {
        for (const moment of moments) {
          const scan = await scanned(server.url, processes, moment)
          expect(scan.length).toBeGreaterThan(0)
          all += scan.length
          for (const name of besides(scan, moment)) kills.set(name, (kills.get(name) ?? 0) + 1)
          const byName = processes === 1 ? `, ${JSON.stringify(Object.fromEntries(kills))}` : ''
          console.log(`${processes} processes, ${moment}: ${all} kills so far${byName}`)
        }
      }
    },
  )
}
