// Several processes on one ledger: one runs a session at a time, the others wait; a process that lost it can write nothing. It
// must never stop or kill anything but its own children.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { AgentEngine } from '../../index.js'
import { closing, folder } from '../support/cleanup.js'
import { context, scriptedEngine } from '../support/engine.js'
import { child, clean } from '../support/processes/child.js'
import { type Killable, killable } from '../support/processes/killable.js'

/** How often several processes open a new path together; the full proof is `LEDGER_OPENS=100`. */
const OPENS = Number(process.env.LEDGER_OPENS ?? 3)
/** Messages of each of eight processes to one session; the full proof is `LEDGER_MESSAGES=500`. */
const MESSAGES = Number(process.env.LEDGER_MESSAGES ?? 25)

const results = (child: Killable) =>
  child.lines
    .filter((line) => line.startsWith('result '))
    .map((line) => JSON.parse(line.slice('result '.length)))

test('two processes on one session alternate: every turn is persisted, in one thread', {
  timeout: 60_000,
}, async () => {
  const { file } = folder()
  // Created before, so that neither process has to.
  await new AgentEngine({ ledger: { path: file } }).close()
  const children = ['left', 'right'].map((name) => killable('ledger/lease.mjs', [file, name, '20']))
  for (const each of children) expect(await each.ended).toBeNull()
  const reported = children.flatMap(results)
  expect(reported).toHaveLength(40)
  expect(reported.filter((result) => !result.persisted)).toEqual([])
  const engine = closing(new AgentEngine({ ledger: { path: file } }))
  const head = (await engine.ledger.session('shared'))?.threadId
  const { rows } = await engine.ledger.query('SELECT ancestry FROM threads WHERE turn_id = ?', [
    head ?? '',
  ])
  const chain = JSON.parse(String(rows[0]?.ancestry))
  expect([...chain].sort()).toEqual(reported.map((result) => result.turnId).sort())
  // The messages of each are in its own order.
  const prompts = (await engine.ledger.history('shared'))
    .filter((message) => message.role === 'user')
    .map((message) => message.content)
  for (const name of ['left', 'right']) {
    expect(prompts.filter((text) => text.startsWith(name))).toEqual(
      Array.from({ length: 20 }, (_, turn) => `${name} ${turn}`),
    )
  }
})

test(`eight processes with ${MESSAGES} messages each for one session: a linear thread, none lost, none duplicated, FIFO`, {
  timeout: 60_000 + MESSAGES * 8 * 500,
}, async () => {
  const { file } = folder()
  await new AgentEngine({ ledger: { path: file } }).close()
  // Without the history before it, so that the cost of a message does not depend on the length of the thread.
  const changes = JSON.stringify({ atOnce: true, timeoutMs: 3_600_000, history: [] })
  const names = Array.from({ length: 8 }, (_, n) => `p${n}`)
  const children = names.map((name) =>
    killable('ledger/lease.mjs', [file, name, `${MESSAGES}`, changes]),
  )
  for (const each of children) expect(await each.ended).toBeNull()
  const reported = children.map(results)
  expect(reported.flat().filter((result) => !result.persisted)).toEqual([])
  const engine = closing(new AgentEngine({ ledger: { path: file } }))
  const head = (await engine.ledger.session('shared'))?.threadId ?? ''
  // From the head to the root by the parents, which is every turn: none is beside the thread.
  const chain = await engine.ledger.query(
    `WITH RECURSIVE up (id, parent, depth, at) AS (
       SELECT id, parent_turn_id, depth, 0 FROM turns WHERE id = ?
       UNION ALL SELECT t.id, t.parent_turn_id, t.depth, at + 1 FROM up JOIN turns t ON t.id = up.parent)
     SELECT id, depth FROM up ORDER BY at DESC`,
    [head],
  )
  expect(chain.truncated).toBe(null)
  const ids = chain.rows.map((row) => row.id)
  expect(chain.rows.map((row) => row.depth)).toEqual(ids.map((_, depth) => depth))
  const count =
    'SELECT (SELECT count(*) FROM turns) AS turns, count(*) AS moves FROM session_history'
  expect((await engine.ledger.query(count)).rows).toEqual([
    { turns: 8 * MESSAGES, moves: 8 * MESSAGES },
  ])
  const moved = await engine.ledger.query('SELECT thread_id FROM session_history ORDER BY id')
  expect(moved.rows.map((row) => row.thread_id)).toEqual(ids)
  const asked = (await engine.ledger.history('shared')).filter(({ role }) => role === 'user')
  // Each process's messages, in its own order, under the ids of its results.
  names.forEach((name, n) => {
    const own = asked.flatMap(({ content }, at) => (content.startsWith(`${name} `) ? [at] : []))
    expect(own.map((at) => asked[at]?.content)).toEqual(
      reported[n]?.map((_, turn) => `${name} ${turn}`),
    )
    expect(own.map((at) => ids[at])).toEqual(reported[n]?.map((result) => result.turnId))
  })
  expect(reported.map((each) => each.length)).toEqual(names.map(() => MESSAGES))
  expect(await engine.recover()).toEqual([])
})

test('a run waits for the process that runs its session, and no longer than its time', async () => {
  const { file } = folder()
  const first = killable('ledger/lease.mjs', [file, 'first', '1', JSON.stringify({ tool: true })])
  first.process.stdin?.on('error', () => {})
  await first.line('waiting')
  const { engine } = scriptedEngine(['second', 'third'], { ledger: { path: file } })
  closing(engine)
  const requested = { sessionLabel: 'shared' }
  const late = await engine.run(context({ ...requested, timeoutMs: 200 })).result
  expect(late).toMatchObject({ stopReason: 'timeout', messages: [{ role: 'user' }] })
  const waits = engine.run(context(requested))
  first.process.stdin?.write('go on\n')
  await first.ended
  const [done] = results(first)
  expect(done).toMatchObject({ persisted: true, stopReason: 'end_turn' })
  const second = await waits.result
  expect(second).toMatchObject({ persisted: true, stopReason: 'end_turn' })
  expect((await engine.ledger.turn(second.turnId))?.parentTurnId).toBe(done.turnId)
})

test('a process that waits for a session has it before the next turn of the process that ran it', async () => {
  const { file } = folder()
  const first = killable('ledger/lease.mjs', [file, 'first', '2', JSON.stringify({ tool: true })])
  first.process.stdin?.on('error', () => {})
  await first.line('waiting')
  const { engine } = scriptedEngine(['between'], { ledger: { path: file } })
  closing(engine)
  const waits = engine.run(context({ sessionLabel: 'shared' }))
  while ((await engine.ledger.query('SELECT * FROM session_waits')).rows.length === 0) {}
  // The child starts its second turn as soon as the first has ended.
  first.process.stdin?.write('go on\ngo on\n')
  expect(await first.ended).toBeNull()
  const [one, three] = results(first)
  const two = await waits.result
  const moved = await engine.ledger.query('SELECT thread_id FROM session_history ORDER BY id')
  expect(moved.rows.map((row) => row.thread_id)).toEqual([one.turnId, two.turnId, three.turnId])
  expect((await engine.ledger.query('SELECT * FROM session_waits')).rows).toEqual([])
})

test('a run that was aborted while it waited for a session delays nobody', async () => {
  const { file } = folder()
  const changes = JSON.stringify({ tool: true, leaseMs: 600_000 })
  const first = killable('ledger/lease.mjs', [file, 'first', '2', changes])
  first.process.stdin?.on('error', () => {})
  await first.line('waiting')
  const { engine } = scriptedEngine(['never asked'], { ledger: { path: file, leaseMs: 600_000 } })
  closing(engine)
  const waits = engine.run(context({ sessionLabel: 'shared' }))
  while ((await engine.ledger.query('SELECT * FROM session_waits')).rows.length === 0) {}
  waits.abort()
  expect((await waits.result).stopReason).toBe('aborted')
  first.process.stdin?.write('go on\ngo on\n')
  expect(await first.ended).toBeNull()
  expect(results(first).map((result) => result.persisted)).toEqual([true, true])
})

const epochs = async (engine: AgentEngine) =>
  (await engine.ledger.query('SELECT epoch FROM session_leases')).rows.map((row) => row.epoch)

test('a session goes from process to process 200 times, each time at once, and its lease stays where it is used', {
  timeout: 120_000,
}, async () => {
  const { file } = folder()
  const replies = Array.from({ length: 110 }, () => 'ok')
  const { engine } = scriptedEngine(replies, { ledger: { path: file, leaseMs: 600_000 } })
  closing(engine)
  const changes = JSON.stringify({ stepwise: true, leaseMs: 600_000, timeoutMs: 600_000 })
  const child = killable('ledger/lease.mjs', [file, 'child', '100', changes])
  child.process.stdin?.on('error', () => {})
  const turns: string[] = []
  const run = async (history: [] | undefined) => {
    const { turnId, persisted } = await engine.run(context({ sessionLabel: 'shared', history }))
      .result
    expect(persisted).toBe(true)
    turns.push(turnId)
  }
  for (let round = 1; round <= 100; round++) {
    await run([])
    child.process.stdin?.write('next\n')
    // `ready` and `result` alternate.
    await Promise.race([child.count(2 * round), child.ended])
    const { turnId, persisted } = results(child)[round - 1]
    expect(persisted).toBe(true)
    turns.push(turnId)
  }
  expect(await epochs(engine)).toEqual([200])
  for (let round = 0; round < 5; round++) await run([])
  expect(await epochs(engine)).toEqual([201])
  const moved = await engine.ledger.query('SELECT thread_id FROM session_history ORDER BY id')
  expect(moved.rows.map((row) => row.thread_id)).toEqual(turns)
  expect(await child.ended).toBeNull()
})

test.each(['SIGKILL', 'SIGSTOP'] as const)(
  'a process between two turns that gets a %s delays no other',
  async (signal) => {
    const { file } = folder()
    const changes = JSON.stringify({ stepwise: true, leaseMs: 600_000 })
    const child = killable('ledger/lease.mjs', [file, 'child', '2', changes])
    child.process.stdin?.on('error', () => {})
    child.process.stdin?.write('next\n')
    await child.count(3)
    child.kill(signal)
    if (signal === 'SIGKILL') expect(await child.ended).toBe('SIGKILL')
    const { engine } = scriptedEngine(['next'], { ledger: { path: file } })
    closing(engine)
    expect(await engine.recover()).toEqual([])
    const next = await engine.run(context({ sessionLabel: 'shared' })).result
    expect(next).toMatchObject({ persisted: true, stopReason: 'end_turn' })
    expect(await epochs(engine)).toEqual([2])
    const turns = [results(child)[0]?.turnId, next.turnId]
    if (signal === 'SIGSTOP') {
      // It continues after the other process's turn, under a new lease.
      child.kill('SIGCONT')
      child.process.stdin?.write('next\n')
      expect(await child.ended).toBeNull()
      turns.push(results(child)[1]?.turnId)
      expect(await epochs(engine)).toEqual([3])
    }
    const moved = await engine.ledger.query('SELECT thread_id FROM session_history ORDER BY id')
    expect(moved.rows.map((row) => row.thread_id)).toEqual(turns)
  },
)

test('a session of a process that has closed its ledger is free immediately', async () => {
  const { file } = folder()
  const options = { ledger: { path: file, leaseMs: 600_000 } }
  const { engine: first } = scriptedEngine(['one'], options)
  await first.run(context({ sessionLabel: 'shared' })).result
  await first.close()
  const child = killable('ledger/lease.mjs', [file, 'child', '1'])
  expect(await child.ended).toBeNull()
  expect(results(child)).toMatchObject([{ persisted: true }])
  const { engine } = scriptedEngine(['three'], options)
  closing(engine)
  expect((await engine.run(context({ sessionLabel: 'shared' })).result).persisted).toBe(true)
  expect(await epochs(engine)).toEqual([3])
})

test('a session of a killed process is free immediately', async () => {
  const { file } = folder()
  const changes = JSON.stringify({ tool: true, leaseMs: 600_000 })
  const first = killable('ledger/lease.mjs', [file, 'first', '1', changes])
  await first.line('waiting')
  first.kill()
  await first.ended
  const { engine } = scriptedEngine(['next'], { ledger: { path: file } })
  closing(engine)
  const next = await engine.run(context({ sessionLabel: 'shared' })).result
  expect(next).toMatchObject({ persisted: true, stopReason: 'end_turn' })
})

test('a stopped process whose session was taken over can write nothing when it continues', async () => {
  const { file } = folder()
  const changes = JSON.stringify({ tool: true, leaseMs: 400 })
  const stopped = killable('ledger/lease.mjs', [file, 'stopped', '1', changes])
  await stopped.line('waiting')
  stopped.kill('SIGSTOP')
  const { engine } = scriptedEngine(['taken over'], { ledger: { path: file } })
  closing(engine)
  const next = await engine.run(context({ sessionLabel: 'shared' })).result
  expect(next).toMatchObject({ persisted: true, stopReason: 'end_turn' })
  const before = (await engine.ledger.query('SELECT * FROM turns ORDER BY id')).rows
  stopped.kill('SIGCONT')
  stopped.process.stdin?.write('go on\n')
  expect(await stopped.ended).toBeNull()
  const [reported] = results(stopped)
  expect(reported).toMatchObject({ persisted: false })
  expect([reported.code, reported.persistCode]).toContain('stale_writer')
  const { rows } = await engine.ledger.query('SELECT * FROM turns ORDER BY id')
  expect(rows).toEqual(before)
  expect((await engine.ledger.session('shared'))?.threadId).toBe(next.turnId)
  expect((await engine.recover()).map((turn) => [turn.turnId, turn.resumable])).toEqual([
    [reported.turnId, false],
  ])
})

test('the heartbeat renews a lease, however long a tool takes', async () => {
  const { file } = folder()
  const changes = JSON.stringify({ tool: true, leaseMs: 400 })
  const first = killable('ledger/lease.mjs', [file, 'first', '1', changes])
  await first.line('waiting')
  const { engine } = scriptedEngine(['never asked'], { ledger: { path: file } })
  closing(engine)
  // Five times the lease: otherwise it would have been taken over.
  const late = await engine.run(context({ sessionLabel: 'shared', timeoutMs: 2_000 })).result
  expect(late.stopReason).toBe('timeout')
  first.process.stdin?.write('go on\n')
  await first.ended
  expect(results(first)).toMatchObject([{ persisted: true, stopReason: 'end_turn' }])
})

test(`${OPENS} times six processes that open a new path together create one ledger`, {
  timeout: 60_000 + OPENS * 9_000,
}, async () => {
  const schemas = new Set<string>()
  for (let round = 0; round < OPENS; round++) {
    const path = mkdtempSync(join(tmpdir(), 'agent-engine-six-'))
    const file = join(path, 'fresh.db')
    const six = Array.from({ length: 6 }, (_, n) =>
      child('ledger/session.mjs', [file, `${n}`, '1']),
    )
    const ended = await Promise.all(six)
    expect(ended.map(({ code, signal, err }) => ({ code, signal, err }))).toEqual(
      ended.map(() => ({ code: clean('').code, signal: null, err: '' })),
    )
    const engine = new AgentEngine({ ledger: { path: file } })
    const { rows } = await engine.ledger.query(
      'SELECT (SELECT count(*) FROM schema_meta) AS ledgers, (SELECT count(*) FROM turns) AS turns',
    )
    const schema = await engine.ledger.query(
      'SELECT type, name, sql FROM sqlite_schema ORDER BY name',
    )
    await engine.close()
    rmSync(path, { recursive: true, force: true })
    expect(rows).toEqual([{ ledgers: 1, turns: 6 }])
    schemas.add(JSON.stringify(schema.rows))
    expect(schemas.size).toBe(1)
  }
})
