// Runs on a ledger in PostgreSQL, through the API: the same rows as in a file, one session for many engines, take-over of a killed
// process, a server that ends its connections, and what is refused. It must never depend on a server of the machine's own.

import { spawnSync } from 'node:child_process'
import { expect, test } from 'vitest'
import {
  AgentEngine,
  type AgentEngineError,
  type AgentEngineOptions,
  type LedgerOptions,
  type PostgresLedgerOptions,
  salvageLedger,
} from '../../../index.js'
import { closing, folder } from '../../support/cleanup.js'
import { context, scriptedEngine, testModel } from '../../support/engine.js'
import { hasPostgres, postgresServer } from '../../support/ledger/postgres.js'
import { normal } from '../../support/ledger/sqlite3.js'
import { runFields, twoTools } from '../../support/ledger/two-tools.js'
import { price } from '../../support/values/prices.js'

const schema = postgresServer()
const live = test.skipIf(!hasPostgres)

const replies = [...twoTools, { text: 'and four' }, { text: 'on the side' }]

const withLedger = (ledger: LedgerOptions | PostgresLedgerOptions, script = replies) =>
  closing(scriptedEngine(script, { ledger, models: [{ ...testModel, cost: price }] }).engine)

/** Three turns in two sessions, and everything that a host can read of them. */
async function story(options: LedgerOptions | PostgresLedgerOptions) {
  const engine = withLedger(options)
  const { ledger } = engine
  const since = Date.now()
  const first = await engine.run(context(runFields)).result
  const second = await engine.run(context({ ...runFields, runId: 'run-2' })).result
  const fork = await ledger.fork(first.turnId, 'agent:main:side')
  await engine.run(context({ runId: 'run-3', sessionLabel: 'agent:main:side' })).result
  await ledger.archive('agent:main:side')
  const label = runFields.sessionLabel ?? ''
  const read = {
    first,
    second,
    fork,
    session: await ledger.session(label),
    nobody: await ledger.session('agent:main:nobody'),
    sessions: await ledger.sessions(),
    archived: await ledger.sessions({ status: 'archived' }),
    turns: [await ledger.turn(first.turnId), await ledger.turn(second.turnId)],
    listed: await ledger.turns({ sessionLabel: label }),
    history: await ledger.history(label),
    ancestry: await ledger.ancestry(second.turnId),
    children: await ledger.children(first.turnId),
    moves: (await ledger.sessionHistory(label)).items.map(({ threadId }) => threadId),
    calls: await ledger.toolCalls({ turnId: first.turnId }),
    refused: await Promise.all(
      [ledger.turn('none'), ledger.ancestry('none'), ledger.sessionHistory('none')].map((reading) =>
        reading.catch(({ code, message }) => ({ code, message })),
      ),
    ),
  }
  return normal(read, since)
}

live('everything that is read of runs equals what a ledger in a file has', async () => {
  expect(await story(schema())).toEqual(await story({ path: folder().file }))
})

live('a session continues in the engine of another machine, one turn after the other', async () => {
  const options = schema()
  const script = Array.from({ length: 8 }, (_, n) => ({ text: `answer ${n}` }))
  const [one, other] = [withLedger(options, script), withLedger(options, script)]
  const runs = Array.from({ length: 8 }, (_, n) =>
    (n % 2 ? one : other).run(context({ runId: `shared-${n}` })),
  )
  const results = await Promise.all(runs.map(({ result }) => result))
  expect(results.map(({ stopReason, persisted }) => [stopReason, persisted])).toEqual(
    Array.from({ length: 8 }, () => ['end_turn', true]),
  )
  const session = await one.ledger.session('agent:main:main')
  const { items } = await other.ledger.ancestry(session?.threadId ?? '')
  expect(items.map(({ depth }) => depth)).toEqual([7, 6, 5, 4, 3, 2, 1, 0])
  expect(new Set(items.map(({ runId }) => runId)).size).toBe(8)
})

live('a turn whose process lost its lease is resumed by another engine', async () => {
  const options = schema({ leaseMs: 300 })
  let begun = () => {}
  const running = new Promise<void>((resolve) => {
    begun = resolve
  })
  const call = { text: 'I look', toolCalls: [{ id: 'c', name: 'look', arguments: {} }] }
  const look = (run: () => unknown) => ({
    name: 'look',
    description: 'Looks.',
    parameters: { type: 'object', properties: {} },
    replay: 'idempotent' as const,
    run,
  })
  const lost = withLedger(options, [call])
  let release = () => {}
  const hangs = look(() => {
    begun()
    return new Promise<void>((resolve) => {
      release = resolve
    })
  })
  const run = lost.run(context({ tools: [hangs], runId: 'taken' }))
  await running
  const next = withLedger(options, [{ text: 'seen' }])
  expect(await next.recover()).toEqual([])
  // Its lease ends without a heartbeat, and its rows are another's.
  sql(options, `update ${options.schema}.sessions set expires_at = 0, owner = 'killed'`)
  const [turn] = await next.recover()
  expect(turn).toMatchObject({ runId: 'taken', resumable: true, sessionLabel: 'agent:main:main' })
  // The former process goes on, and writes nothing more.
  release()
  const { persisted, persistError } = await run.result
  expect([persisted, persistError?.code]).toEqual([false, 'stale_writer'])
  const resumed = await (await next.resume(turn?.turnId ?? '', { tools: [look(() => 'a cat')] }))
    .result
  expect([resumed.stopReason, resumed.text, resumed.persisted]).toEqual(['end_turn', 'seen', true])
  const { items } = await next.ledger.turns()
  expect(items.map(({ runId, status }) => [runId, status])).toEqual([['taken', 'completed']])
})

live('a server that ends every connection loses and doubles no turn', async () => {
  const options = schema()
  const script = Array.from({ length: 12 }, (_, n) => ({ text: `answer ${n}` }))
  const engine = withLedger(options, script)
  for (let n = 0; n < 12; n++) {
    if (n % 3 === 1) {
      sql(
        options,
        "select pg_terminate_backend(pid) from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()",
      )
    }
    const { stopReason, persisted } = await engine.run(context({ runId: `cut-${n}` })).result
    expect([n, stopReason, persisted]).toEqual([n, 'end_turn', true])
  }
  const session = await engine.ledger.session('agent:main:main')
  const { items } = await engine.ledger.ancestry(session?.threadId ?? '')
  expect(items.map(({ runId }) => runId)).toEqual(
    Array.from({ length: 12 }, (_, n) => `cut-${11 - n}`),
  )
})

live('what a ledger in PostgreSQL does not have is refused with what to use instead', async () => {
  const engine = withLedger(schema())
  const { ledger } = engine
  const none = 'a ledger in PostgreSQL does not have'
  const refused = async (call: () => Promise<unknown>) => {
    const error = await call().catch((error: unknown) => error)
    const { code, message } = error as { code: string; message: string }
    return [code, message.replace(/ \(docs\/.*\)$/, '')]
  }
  expect(await refused(() => ledger.backup(`${folder().path}/copy`))).toEqual([
    'unsupported',
    `${none} \`backup\`; use \`pg_basebackup\` or \`pg_dump\``,
  ])
  expect(await refused(() => ledger.vacuum())).toEqual([
    'unsupported',
    `${none} \`vacuum\`; the server vacuums by itself; \`vacuum full\` returns space to its disk`,
  ])
  for (const [damaged, fresh] of [
    ['postgres://me:s3cret@host/db', `${folder().path}/fresh`],
    [`${folder().path}/damaged`, 'postgresql://me:s3cret@host/db'],
  ] as const)
    expect(await refused(() => salvageLedger(damaged, fresh))).toEqual([
      'unsupported',
      `${none} \`salvage\`; restore a backup, and check it by \`verify\``,
    ])
})

test('a wrong option is named, and no message has the password', () => {
  const wrong = (ledger: unknown) => {
    try {
      new AgentEngine({ ledger: ledger as PostgresLedgerOptions })
    } catch (error) {
      const { code, field, message } = error as { code: string; field: string; message: string }
      expect(message).not.toContain('s3cret')
      return [code, field]
    }
    return ['accepted']
  }
  const url = 'postgres://me:s3cret@host/db'
  for (const [ledger, paths] of [
    [{ url: 'mysql://me:s3cret@host/db' }, ['ledger.url']],
    [{ url: `${url}?sslmode=prefer&pw=s3cret` }, ['ledger.url']],
    [{ url, path: 'x.db' }, ['ledger.url']],
    [{ url, schema: '' }, ['ledger.schema']],
    [{ url, pool: 0 }, ['ledger.pool']],
    [{ url, synchronous: 'normal' }, ['ledger.synchronous']],
    [{ url, events: { keepTurns: 0 } }, ['ledger.events.keepTurns']],
    [{ url, leaseMs: 1 }, ['ledger.leaseMs']],
    [{ path: 'x.db', pool: 2 }, ['ledger.pool']],
    [{ url: `${url}?sslmode=disable`, ssl: { ca: '-----BEGIN' } }, ['ledger.ssl']],
    [{}, ['ledger.path']],
  ] as const) {
    expect([ledger, wrong(ledger)]).toEqual([ledger, ['invalid_options', ...paths]])
  }
})

test('a wrong URL is one problem, and is not also taken for a missing path or program', () => {
  const problems = (options: unknown) => {
    try {
      new AgentEngine(options as AgentEngineOptions)
    } catch (error) {
      return (error as AgentEngineError).issues.map(({ path }) => path)
    }
    return []
  }
  expect(problems({ ledger: { url: 'mysql://host/db', pool: 0 } })).toEqual([
    'ledger.url',
    'ledger.pool',
  ])
  expect(problems({ mcp: { a: { url: 'nowhere', timeoutMs: 0 } } })).toEqual([
    'mcp.a.url',
    'mcp.a.timeoutMs',
  ])
})

live('a role that only reads searches all turns, in the index or not, page by page', async () => {
  const options = schema()
  const script = Array.from({ length: 6 }, (_, n) => ({ text: `heron number ${n}` }))
  const engine = withLedger(options, script)
  const run = (n: number) => engine.run(context({ runId: `run-${n}` })).result
  for (let n = 0; n < 3; n++) await run(n)
  const first = await engine.ledger.search('heron')
  for (let n = 3; n < 6; n++) await run(n)
  const role = `reader_${process.pid}`
  sql(options, `create role ${role} login; grant usage on schema ${options.schema} to ${role}`)
  sql(options, `grant select on all tables in schema ${options.schema} to ${role}`)
  const reader = withLedger({ ...options, url: options.url.replace('agent@', `${role}@`) })
  const found: string[] = []
  let page = await reader.ledger.search('heron', { limit: 2 })
  for (;;) {
    found.push(...page.items.map(({ excerpt }) => excerpt))
    if (page.next === null) break
    page = await reader.ledger.search('heron', { limit: 2, after: page.next })
  }
  expect(found).toEqual([5, 4, 3, 2, 1, 0].map((n) => `heron number ${n}`))
  expect(await reader.ledger.search('nowhere')).toEqual({ items: [], next: null })
  // Written by a role that may, the index has them all.
  expect((await engine.ledger.search('heron')).items.slice(3)).toEqual(first.items)
  await reader.close()
  sql(options, `drop owned by ${role}; drop role ${role}`)
})

/** A statement by the server's own client. */
function sql({ url }: PostgresLedgerOptions, statement: string): void {
  const done = spawnSync('psql', [url, '-qc', statement], { encoding: 'utf8' })
  expect([done.status, done.stderr]).toEqual([0, ''])
}
