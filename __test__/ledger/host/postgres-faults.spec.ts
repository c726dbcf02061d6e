// What a server does to runs, through the API: processes and servers that are killed, stopped and paused, a standby that takes over, lost
// answers, a full disk, an expired password. Nothing is lost or doubled, and a run waits or ends typed. It must never use a server of the
// machine's own. `npm run proof:postgres` runs it at full size.

import { randomBytes } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { AgentEngine } from '../../../index.js'
import { afterwards, closing } from '../../support/cleanup.js'
import { context, scriptedEngine } from '../../support/engine.js'
import { Cluster, hasCluster, line, smallDisk } from '../../support/ledger/cluster.js'
import { ledgerAt } from '../../support/ledger/named.js'
import { type Killable, killable } from '../../support/processes/killable.js'

/** Kills, stops and pauses of processes and of the server, and the sessions of all processes. */
const kills = Number(process.env.POSTGRES_KILLS ?? 6)
const sessions = Number(process.env.POSTGRES_SESSIONS ?? 8)
const processes = Number(process.env.POSTGRES_PROCESSES ?? 3)
/** Turns of each test without kills. */
const turns = Number(process.env.POSTGRES_TURNS ?? 10)
const long = { timeout: Number(process.env.POSTGRES_KILLS ?? 0) > 0 ? 3_600_000 : 30_000 }

let primary: Cluster
beforeAll(async () => {
  if (hasCluster) primary = await new Cluster().start()
})
afterAll(() => primary?.end())
const live = test.skipIf(!hasCluster)

let schemas = 0
const fresh = (url = primary.url) => `${url}#faults_${++schemas}`

const engineOf = (name: string, replies = 1_000) =>
  scriptedEngine(
    Array.from({ length: replies }, () => ({ text: 'done' })),
    { ledger: ledgerAt(name) },
  ).engine

/** What must hold of the ledger after everything: acknowledged turns are there once, and each session is one chain. */
async function check(name: string, server: Cluster, acknowledged: readonly string[]) {
  const [, schema] = name.split('#')
  const ended = `from ${schema}.turns where n is not null and status = 'completed'`
  const stored = server.sql(`select run_id ${ended} and turn_type = 'normal' order by 1`)
  expect(new Set(stored).size).toBe(stored.length)
  expect(acknowledged.filter((run) => !stored.includes(run))).toEqual([])
  const forks = `select session_label ${ended} group by session_label, parent_turn_id having count(*) > 1`
  expect(server.sql(forks)).toEqual([])
  const engine = closing(new AgentEngine({ ledger: ledgerAt(`${server.url}#${schema}`) }))
  const { items: all } = await engine.ledger.sessions({ limit: 1_000 })
  for (const { label, threadId } of all) {
    const { items } = await engine.ledger.ancestry(threadId ?? '', { limit: 1_000 })
    const own = server.sql(`select count(*) ${ended} and session_label = '${label}'`)
    expect([label, items.length]).toEqual([label, Number(own[0])])
  }
  expect((await engine.ledger.verify()).problems).toEqual([])
}

const acks = (lines: readonly string[]) =>
  lines.filter((it) => it.startsWith('ack ')).map((it) => it.split(' ')[1] ?? '')

/** Processes that run turns in the same sessions until they are told to end, or are killed. */
class Workers {
  readonly name: string
  readonly all: Killable[] = []
  #begun = 0

  constructor(name: string) {
    this.name = name
  }

  begin(): Killable {
    const args = [this.name, `p${this.#begun++}`, String(sessions), '4']
    const child = killable('ledger/turns.mjs', args, { LEASE_MS: '500' })
    afterwards(() => child.kill('SIGKILL'))
    this.all.push(child)
    return child
  }

  acknowledged(): string[] {
    return this.all.flatMap(({ lines }) => acks(lines))
  }

  /** Waits until so many more turns are acknowledged, by any process. */
  async more(count: number): Promise<void> {
    const least = this.acknowledged().length + count
    while (this.acknowledged().length < least)
      await new Promise((resolve) => setTimeout(resolve, 5))
  }

  /** Ends the processes that live, and returns the turns that were acknowledged. */
  async end(living: readonly Killable[]): Promise<string[]> {
    for (const child of living) child.process.stdin?.end()
    await Promise.all(living.map((child) => child.line('ended')))
    return this.acknowledged()
  }
}

/** So long a server or a process is paused: longer than the leases. */
const pause = () => new Promise((resolve) => setTimeout(resolve, 700))

/** Each way in which the server or a process fails; what is returned takes the place of the process. */
const faults: Record<string, (child: Killable, workers: Workers) => Promise<Killable>> = {
  'server killed': async (child) => {
    await primary.crash()
    await primary.start()
    return child
  },
  'process killed': async (child, workers) => {
    child.kill('SIGKILL')
    await child.ended
    return workers.begin()
  },
  'process paused': async (child, workers) => {
    child.kill('SIGSTOP')
    await workers.more(sessions)
    child.kill('SIGCONT')
    return child
  },
  'server paused': async (child) => {
    const goOn = primary.pause()
    await pause()
    goOn()
    return child
  },
  'process stopped': async (child, workers) => {
    child.process.stdin?.end()
    await child.line('ended')
    return workers.begin()
  },
  'server stopped': async (child) => {
    await primary.stop()
    await primary.start()
    return child
  },
}

live(
  'processes and the server are killed, stopped and paused under load: no acknowledged turn is lost or doubled, and each session is one chain',
  long,
  async () => {
    const workers = new Workers(fresh())
    const living = Array.from({ length: processes }, () => workers.begin())
    const done: Record<string, number> = {}
    for (let number = 0; number < kills; number++) {
      await workers.more(sessions)
      const kinds = Object.keys(faults)
      const kind = kinds[number % kinds.length] as keyof typeof faults
      // Each kind hits each process.
      const at = (number + Math.floor(number / kinds.length)) % processes
      living[at] = (await faults[kind]?.(living[at] as Killable, workers)) as Killable
      done[kind] = (done[kind] ?? 0) + 1
    }
    await workers.more(sessions)
    const acknowledged = await workers.end(living)
    const unstored = workers.all.flatMap(({ lines }) =>
      lines.filter((it) => it.startsWith('lost ')),
    )
    console.log(
      `${JSON.stringify(done)}: ${acknowledged.length} turns acknowledged, ${unstored.length} refused`,
    )
    expect(Object.values(done).reduce((sum, count) => sum + count, 0)).toBe(kills)
    await check(workers.name, primary, acknowledged)
  },
)

live(
  'transactions that the server cannot serialise are tried again, and lose nothing',
  long,
  async () => {
    const isolation = '-c%20default_transaction_isolation%3Dserializable'
    const workers = new Workers(fresh(`${primary.url}&options=${isolation}`))
    const undone = () => Number(primary.sql('select sum(xact_rollback) from pg_stat_database')[0])
    const living = Array.from({ length: processes }, () => workers.begin())
    await workers.more(turns)
    const before = undone()
    do await workers.more(turns)
    while (undone() === before)
    const acknowledged = await workers.end(living)
    const refused = workers.all.flatMap(({ lines }) => lines.filter((it) => it.startsWith('lost ')))
    expect(refused).toEqual([])
    await check(workers.name, primary, acknowledged)
  },
)

live('a standby that takes over under load has every acknowledged turn', long, async () => {
  const first = await new Cluster().start()
  afterwards(() => first.end())
  const standby = await new Cluster(first).start()
  afterwards(() => standby.end())
  first.sql(
    `alter system set synchronous_standby_names = '*'; alter system set synchronous_commit = 'remote_apply'`,
  )
  first.reload()
  const hosts = `postgres://agent@/postgres?host=${first.folder},${standby.folder}`
  const workers = new Workers(fresh(hosts))
  const living = Array.from({ length: processes }, () => workers.begin())
  await workers.more(sessions)
  await first.crash()
  standby.promote()
  await workers.more(sessions)
  await check(workers.name, standby, await workers.end(living))
})

live(
  'answers that are lost after the server has written lose and double no turn',
  long,
  async () => {
    const proxy = await line(primary)
    afterwards(proxy.end)
    const name = fresh(proxy.url)
    const engine = closing(engineOf(name))
    // Opened before the first answer is lost.
    await engine.ledger.sessions()
    const acknowledged: string[] = []
    for (let n = 0; n < turns; n++) {
      await proxy.set({ loseEvery: 5 + (n % 5) })
      const { runId, persisted, stopReason } = await engine.run(context({ runId: `lost-${n}` }))
        .result
      expect([n, stopReason, persisted]).toEqual([n, 'end_turn', true])
      acknowledged.push(runId)
    }
    expect(proxy.lost()).toBeGreaterThanOrEqual(turns / 2)
    await proxy.set({ delayMs: 20 })
    const slow = await engine.run(context({ runId: 'slow' })).result
    expect([slow.stopReason, slow.persisted]).toEqual(['end_turn', true])
    await proxy.set({})
    await check(name, primary, [...acknowledged, 'slow'])
  },
)

live(
  'an expired password ends runs typed, and they go on once it is valid again',
  long,
  async () => {
    const rules = join(primary.folder, 'data', 'pg_hba.conf')
    const trusted = readFileSync(rules, 'utf8')
    writeFileSync(rules, `local all expiring scram-sha-256\n${trusted}`)
    afterwards(() => {
      writeFileSync(rules, trusted)
      primary.reload()
    })
    primary.sql(`create role expiring login superuser password 's3cret'`)
    primary.reload()
    const name = fresh(primary.url.replace('agent@', 'expiring:s3cret@'))
    const engine = closing(engineOf(name))
    const run = (runId: string) => engine.run(context({ runId })).result
    const cut = `select pg_terminate_backend(pid) from pg_stat_activity where usename = 'expiring'`
    expect((await run('before')).persisted).toBe(true)
    primary.sql(`alter role expiring valid until '2020-01-01'; ${cut}`)
    const refused = await run('refused')
    expect([refused.stopReason, refused.persisted]).toEqual(['error', false])
    expect(refused.error?.message).toContain('28P01')
    expect(JSON.stringify(refused)).not.toContain('s3cret')
    primary.sql(`alter role expiring valid until 'infinity'`)
    expect((await run('after')).persisted).toBe(true)
    await check(name, primary, ['before', 'after'])
  },
)

live('a full disk ends runs typed, and they go on once there is space', long, async () => {
  const disk = smallDisk('6m')
  if (disk === undefined) return
  afterwards(disk.end)
  primary.sql(`create tablespace small location '${disk.at}'`)
  const name = fresh(`${primary.url}&options=-c%20default_tablespace%3Dsmall`)
  const engine = closing(engineOf(name))
  const acknowledged: string[] = []
  let full = ''
  for (let n = 0; full === ''; n++) {
    const content = randomBytes(150_000).toString('base64')
    const currentMessage = { role: 'user' as const, content }
    const { runId, persisted, persistError, error } = await engine.run(
      context({ runId: `full-${n}`, sessionLabel: `full-${n}`, currentMessage }),
    ).result
    if (persisted) acknowledged.push(runId)
    else full = String(persistError?.code ?? error?.detail.code)
  }
  expect(full).toBe('storage_full')
  expect(acknowledged.length).toBeGreaterThan(0)
  disk.grow('64m')
  const after = await engine.run(context({ runId: 'after' })).result
  expect([after.stopReason, after.persisted]).toEqual(['end_turn', true])
  await check(name, primary, [...acknowledged, 'after'])
  primary.sql(`drop schema ${name.split('#')[1]} cascade; drop tablespace small`)
})
