// Kills at every write and every sync of all that a broker stores, before, in the middle of and after it: enqueue, claim, steer,
// dispatch, the end of a child, its delivery to the parent, the end of a turn, the outbox and schedules. A small library, preloaded
// into the child, ends it at the chosen operation. It must never ask a process that is killed for anything.

import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { AgentEngine } from '../../../index.js'
import { userTexts } from '../../support/broker.js'
import { folder, serving } from '../../support/cleanup.js'
import { addCommits, commitsOf, queryCopy } from '../../support/ledger/commits.js'
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

/** The commits that a copy of a ledger has, by name. */
function reached(copy: string): string[] {
  const select = commits.map(([, sql], at) => `EXISTS (${sql}) AS c${at}`).join(', ')
  const [row] = queryCopy(copy, `SELECT ${select}`)
  return commits.flatMap(([name], at) => (row?.[`c${at}`] === 1 ? [name] : []))
}

/**
 * The commits beside which a kill was, by name: at a sync those that the last commit of the log is, and at a write the first that the
 * ledger did not have. `copy` is the ledger at that moment; a name is only in `exact` where the kill was at its sync.
 */
function besides(copy: string, moment: string): { exact: string[]; next: string[] } {
  const found = commitsOf(`${copy}-wal`)
  addCommits(copy, found.slice(0, -1))
  const before = reached(copy)
  addCommits(copy, found.slice(-1))
  const had = reached(copy)
  if (moment.endsWith('sync')) return { exact: had.filter((it) => !before.includes(it)), next: [] }
  const next = commits.map(([name]) => name).find((name) => !had.includes(name))
  return { exact: [], next: next === undefined ? [] : [next] }
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
 * Kills a process at an operation, beside others that go on; then all is done to its end. Returns the commits beside which the kill was;
 * null where the process ended before.
 */
async function killedAt(
  url: string,
  processes: number,
  at: string,
): Promise<ReturnType<typeof besides> | null> {
  const { path, file } = folder()
  await new AgentEngine({ ledger: { path: file } }).close()
  const args = [file, url, String(Date.now())]
  // Outside of the files whose operations are counted.
  const copy = join(folder().path, 'copy.db')
  const kill = { KILL_FILE: `${path}/`, KILL_AT: at, KILL_LEDGER: file, KILL_COPY: copy }
  const killed = killable(script, args, { LD_PRELOAD: preload, ...kill })
  // The others begin when it has a message, so that it has something to do.
  const began = killed.line('receipt').catch(() => {})
  await Promise.race([began, killed.ended])
  const others = Array.from({ length: processes - 1 }, () => killable(script, args))
  const signal = await killed.ended
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
  return signal === 'SIGKILL' ? besides(copy, at.replace(/ \d+$/, '')) : null
}

/** The kills of a number of processes: how many were at each commit, and where each was met. */
class Kills {
  all = 0
  /** By name: at its sync, at a write before it, and the operations at which a kill was at its sync. */
  readonly at = new Map(commits.map(([name]) => [name, { exact: 0, next: 0, met: [] as string[] }]))
  #url: string
  #processes: number

  constructor(url: string, processes: number) {
    this.#url = url
    this.#processes = processes
  }

  /** Kills at an operation; false where the process has no such one. */
  async kill(point: string): Promise<boolean> {
    const found = await killedAt(this.#url, this.#processes, point)
    if (found === null) return false
    this.all++
    for (const name of found.exact) {
      const of = this.at.get(name)
      if (of === undefined) continue
      of.exact++
      of.met.push(point)
    }
    for (const name of found.next) {
      const of = this.at.get(name)
      if (of !== undefined) of.next++
    }
    return true
  }

  /** Kills at each operation of a moment, until the process has no more of them. */
  async scan(moment: string): Promise<void> {
    let misses = 0
    // How many operations a process has differs: jobs that wait share a commit, and others may have done its part.
    for (let number = 1; misses < 5; number++) {
      misses = (await this.kill(`${moment} ${number}`)) ? 0 : misses + 1
    }
  }

  /** The name that has the fewest kills at its sync. */
  rarest(): { name: string; exact: number; met: string[] } {
    const all = [...this.at].map(([name, of]) => ({ name, ...of }))
    return all.reduce((one, other) => (other.exact < one.exact ? other : one))
  }

  log(what: string): void {
    const names = [...this.at].map(([name, { exact, next }]) => `${name} ${exact} (${next})`)
    console.log(`${this.#processes} processes, ${what}: ${this.all} kills; ${names.join(', ')}`)
  }
}

for (const processes of [1, 3]) {
  test.skipIf(!canPreload || !sqlite3)(
    `a broker killed at its commits, beside ${processes - 1} others: all is done once (cc, sqlite3, Linux)`,
    { timeout: 14_400_000 },
    async () => {
      const server = await model()
      const kills = new Kills(server.url, processes)
      if (least === 0) {
        // Alone about where it takes its first message; beside others before they begin, because they might do the rest.
        expect(await kills.kill(processes === 1 ? 'after sync 6' : 'after sync 2')).toBe(true)
        return
      }
      for (const moment of moments) {
        await kills.scan(moment)
        kills.log(moment)
      }
      // Who of several does a step is open, so that a kill is beside its commit only with luck: those that were are tried again.
      for (let tries = 0; kills.rarest().exact < least; tries++) {
        const { name, exact, met } = kills.rarest()
        expect([name, tries < 40 * least]).toEqual([name, true])
        const again = met[tries % Math.max(met.length, 1)]
        // Which operation it is differs by a few from run to run.
        const points = commits.flatMap(([other]) => kills.at.get(other)?.met ?? [])
        await kills.kill(again ?? points[tries % points.length] ?? 'after sync 1')
        if (tries % 25 === 0) kills.log(`again at \`${name}\`, which has ${exact}`)
      }
      kills.log('all')
    },
  )
}
