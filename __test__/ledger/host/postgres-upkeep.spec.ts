// What a ledger in PostgreSQL does beside the turns, through the API: heartbeats, waits, deletion of events, the index of a search, the
// limits of a query. None of them holds up a turn, and none stops for good. It must never use a server of the machine's own.

import { createServer } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { AgentEngine, AgentEngineError, PostgresLedgerOptions } from '../../../index.js'
import { afterwards, closing } from '../../support/cleanup.js'
import { context, scriptedEngine } from '../../support/engine.js'
import { Cluster, hasCluster, line } from '../../support/ledger/cluster.js'
import { plainTurn } from '../../support/ledger/turn-input.js'
import { killable } from '../../support/processes/killable.js'

const live = test.skipIf(!hasCluster)
let server: Cluster
beforeAll(async () => {
  if (hasCluster)
    server = await new Cluster().start(['shared_preload_libraries=pg_stat_statements'])
})
afterAll(() => server?.end())

let schemas = 0
const fresh = (options: Partial<PostgresLedgerOptions> = {}) => ({
  url: server.url,
  schema: `upkeep_${++schemas}`,
  pool: 4,
  ...options,
})

const replies = (count: number) => Array.from({ length: count }, () => ({ text: 'done' }))
const engineOf = (ledger: PostgresLedgerOptions, count = 200) =>
  closing(scriptedEngine(replies(count), { ledger }).engine)
const gated = (ledger: PostgresLedgerOptions) =>
  scriptedEngine([{ steps: [{ text: 'a' }, { gate: 'g' }, { text: 'b' }] }], { ledger })

/** Waits until the model is asked. */
const asked = async (provider: { readonly requests: readonly unknown[] }) => {
  while (provider.requests.length === 0) await new Promise((resolve) => setTimeout(resolve, 5))
}

const ended = async (engine: AgentEngine, fields: object = {}) => {
  const { stopReason, persisted } = await engine.run(context(fields)).result
  return [stopReason, persisted]
}
const failure = (call: Promise<unknown>) =>
  call.then(
    () => ({ code: 'no error', message: '' }),
    ({ code, message }: AgentEngineError) => ({ code, message }),
  )

live(
  'a call that waits for the server holds up no run, and no list of interrupted turns',
  async () => {
    const options = fresh({ timeoutMs: 60_000 })
    const engine = engineOf(options)
    expect(await ended(engine)).toEqual(['end_turn', true])
    const release = await server.locks(`${options.schema}.approvals`)
    const waits = engine.approvals()
    await server.waiting(1)
    expect(await engine.recover()).toEqual([])
    expect(await ended(engine)).toEqual(['end_turn', true])
    await server.waiting(1)
    release()
    expect((await waits).items).toEqual([])
  },
)

live('the leases are renewed while every connection of the pool waits', async () => {
  const options = fresh({ timeoutMs: 60_000, pool: 1, leaseMs: 900 })
  const { engine, provider } = gated(options)
  closing(engine)
  const run = engine.run(context({ runId: 'held' }))
  await server.has(
    `select count(*) from pg_tables where schemaname = '${options.schema}' and tablename = 'approvals'`,
    '1',
  )
  const lease = `select expires_at from ${options.schema}.sessions where running is not null`
  await server.has(`select count(*) from (${lease}) as held`, '1')
  const release = await server.locks(`${options.schema}.approvals`)
  const waits = engine.approvals()
  await server.waiting(1)
  for (let renewed = 0; renewed < 6; renewed++) {
    const [now] = server.sql(lease)
    await server.has(`select (${lease}) > ${now}`, 't')
  }
  const other = engineOf({ ...options, pool: 2 })
  expect(await other.recover()).toEqual([])
  release()
  await waits
  provider.open('g')
  expect((await run.result).persisted).toBe(true)
})

live(
  'a run that waits for a session of another machine asks rarely, and begins when it is free',
  async () => {
    const options = fresh({ leaseMs: 900 })
    const { engine: holder, provider } = gated(options)
    closing(holder)
    const held = holder.run(context({ runId: 'held', sessionLabel: 's0' }))
    await asked(provider)
    server.sql('create extension pg_stat_statements; select pg_stat_statements_reset()')
    afterwards(() => server.sql('drop extension pg_stat_statements'))
    // In a process of its own: within one, nothing is asked.
    const args = [`${options.url}#${options.schema}`, 'waits', '1', '1']
    const waits = killable('ledger/turns.mjs', args, { LEASE_MS: '900' })
    afterwards(() => waits.kill('SIGKILL'))
    await waits.line('open')
    const calls = (text: string) =>
      Number(
        server.sql(
          `select coalesce(sum(calls), 0) from pg_stat_statements where query like '${text}'`,
        )[0],
      )
    // The heartbeat of the holder is the clock: three in a lease.
    while (calls('update % set expires_at = % from unnest%') < 9)
      await new Promise((resolve) => setTimeout(resolve, 50))
    const looks = calls('%insert into %sessions as s%')
    expect(looks).toBeGreaterThan(0)
    expect(looks).toBeLessThan(3 * calls('update % set expires_at = % from unnest%'))
    provider.open('g')
    expect((await held.result).persisted).toBe(true)
    waits.process.stdin?.end()
    await waits.line('ended')
    expect(waits.lines).toContain('ack waits-1 s0')
  },
)

live('events are deleted after their time, also behind runs that nobody goes on with', async () => {
  const options = fresh()
  const first = engineOf(options)
  for (const runId of ['r1', 'r2', 'r3']) await ended(first, { runId })
  await first.close()
  server.sql(`insert into ${options.schema}.turns select (jsonb_populate_record(t, jsonb_build_object('id', 'left-' || i,
      'run_id', 'left-' || i, 'status', 'streaming', 'completed_at', null, 'n', null, 'run_number', -i))).*
    from ${options.schema}.turns t, generate_series(1, 120) i where t.run_id = 'r1'`)
  const brief = engineOf({ ...options, events: { keepTurns: 2 } })
  // What is retained is looked at after each second turn.
  for (const runId of ['r4', 'r5', 'r6', 'r7']) await ended(brief, { runId })
  const stored = `select string_agg(distinct run_id, ' ' order by run_id) from ${options.schema}.turns
    join ${options.schema}.events on turn_id = id`
  await server.has(stored, 'r6 r7')
  for (const runId of ['r1', 'r5'])
    expect((await failure(brief.attach(runId).next())).code).toBe('events_expired')
  const seen: string[] = []
  for await (const { type } of brief.attach('r7')) seen.push(type)
  expect(seen.at(-1)).toBe('stream_end')
})

live('messages are in the index of the search before anyone searches', async () => {
  const options = fresh()
  const engine = engineOf(options)
  const sessions = Array.from({ length: 8 }, (_, n) => `s${n}`)
  for (let n = 0; n < 8; n++)
    await Promise.all(sessions.map((sessionLabel) => ended(engine, { sessionLabel })))
  await server.has(`select count(*) > 0 from ${options.schema}.turns where indexed`, 't')
})

live('no part of a password among the parameters of a URL is in a message or a row', async () => {
  const [from, to] = [fresh(), fresh()]
  const engine = engineOf(from)
  await ended(engine)
  const url = `${to.url}&password=pa@s3cret`
  expect(await engine.ledger.copyTo({ ...to, url }, { cutOver: true })).toMatchObject({
    moved: true,
  })
  const { code, message } = await failure(engine.ledger.alias('late', 'agent:main:main'))
  expect(code).toBe('ledger_moved')
  const [row] = server.sql(`select moved_to from ${from.schema}.ledger`)
  expect(`${message} ${row}`).not.toContain('s3cret')
  expect(row).toBe(`the schema \`${to.schema}\` of \`/postgres\``)
})

live('a query ends within its limits of bytes and of time, typed', async () => {
  const engine = engineOf(fresh({ timeoutMs: 60_000 }))
  const large = "select repeat('x', 6000000) as value from generate_series(1, 5)"
  const { rows, truncated } = await engine.ledger.query(large)
  expect([rows.length, truncated]).toEqual([2, 'bytes'])
  const one = await engine.ledger.query("select repeat('x', 20000000) as value")
  expect([one.rows, one.truncated]).toEqual([[], 'bytes'])
  // Each fetch is within the server's own limit, and all together are not.
  const slow = "select pg_sleep(0.004), repeat('x', 900) from generate_series(1, 8000)"
  const { code, message } = await failure(engine.ledger.query(slow))
  expect(code).toBe('invalid_query')
  expect(message).toContain('the query ran longer than `5000` ms')
  expect((await engine.ledger.query('select 1 as one')).rows).toEqual([{ one: 1 }])
})

live('a host that is silent is asked once, and not for each connection', async () => {
  let asked = 0
  const silent = createServer((socket) => {
    asked += 1
    afterwards(() => socket.destroy())
  })
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
  afterwards(() => silent.close())
  const { port } = silent.address() as { port: number }
  const url = `postgres://agent@/postgres?host=127.0.0.1,${server.folder}&port=${port},5432`
  const options = fresh({ url, timeoutMs: 60_000 })
  const engine = engineOf({ ...options, url: `${url}&connect_timeout=1` })
  await engine.ledger.sessions()
  expect(asked).toBe(1)
  const release = await server.locks(`${options.schema}.approvals`)
  const waits = Array.from({ length: 4 }, () => engine.approvals())
  await server.waiting(4)
  release()
  await Promise.all(waits)
  expect(asked).toBe(1)
})

live('a turn that became a branch says so when the answer to its commit was lost', async () => {
  const proxy = await line(server)
  afterwards(proxy.end)
  const options = fresh({ url: proxy.url, journal: 'final' })
  const { ledger } = engineOf({ ...options, url: server.url })
  for (let answer = 1; answer < 7; answer++) {
    await ledger.writeTurn(context(), plainTurn)
    const { engine, provider } = gated(options)
    const run = engine.run(context({ runId: `beside-${answer}` }))
    await asked(provider)
    await ledger.writeTurn(context(), plainTurn)
    await proxy.set({ loseAt: answer })
    provider.open('g')
    const { persisted, persistError, turnId } = await run.result
    expect([answer, persisted, persistError?.code]).toEqual([answer, false, 'stale_head'])
    expect((await ledger.turn(turnId))?.status).toBe('completed')
    await proxy.set({})
    await engine.close()
  }
  expect(proxy.lost()).toBeGreaterThan(0)
  expect((await ledger.verify()).problems).toEqual([])
})
