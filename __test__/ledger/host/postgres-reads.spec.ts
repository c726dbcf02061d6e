// What a host reads and sets of a ledger in PostgreSQL, through the API: the same answers as of a file, events and commands between two
// engines, and the host's own SQL. It must never depend on a server of the machine's own.

import { expect, test } from 'vitest'
import type { LedgerOptions, PostgresLedgerOptions, StreamEvent } from '../../../index.js'
import { closing, folder } from '../../support/cleanup.js'
import { context, scriptedEngine, testModel } from '../../support/engine.js'
import { hasPostgres, postgresServer } from '../../support/ledger/postgres.js'
import { normal } from '../../support/ledger/sqlite3.js'
import { runFields, twoTools } from '../../support/ledger/two-tools.js'
import { price } from '../../support/values/prices.js'

const schema = postgresServer()
const live = test.skipIf(!hasPostgres)

type Options = LedgerOptions | PostgresLedgerOptions
type Replies = Parameters<typeof scriptedEngine>[0]

const opened = (ledger: Options, replies: Replies) => {
  const { engine, provider } = scriptedEngine(replies, {
    ledger,
    models: [{ ...testModel, cost: price }],
  })
  return { engine: closing(engine), provider }
}

const code = (call: Promise<unknown>) => call.catch((error: { code: string }) => error.code)

/** Runs in three sessions, what a host sets on them, and everything that it asks of them; with what is left after deletions. */
async function story(options: Options) {
  const { engine } = opened(options, [...twoTools, 'und vier', 'aside', 'plain'])
  const { ledger } = engine
  const since = Date.now()
  const metadata = { user: 'u1', number: 7 }
  const first = await engine.run(context({ ...runFields, metadata })).result
  await engine.run(context({ ...runFields, runId: 'run-2' })).result
  await ledger.fork(first.turnId, 'agent:main:side')
  await engine.run(context({ runId: 'run-3', sessionLabel: 'agent:main:side' })).result
  await ledger.createSession('support:1', { metadata: { kind: 'mail' } })
  await ledger.updateSession('agent:main:side', { metadata: { kind: 'chat' } })
  await ledger.putPersona('nora')
  await ledger.alias('support', 'support:1')
  await ledger.alias('help', 'support')
  await engine.run(context({ runId: 'run-4', sessionLabel: 'help' })).result
  const sides = await ledger.turns({ sessionLabel: 'agent:main:side' })
  const own = await ledger.turns({ sessionLabel: runFields.sessionLabel ?? '' })
  const [a, b] = [own.items.at(-1)?.id ?? '', sides.items.at(-1)?.id ?? '']
  const found = async (text: string) =>
    (await ledger.search(text)).items.map(({ excerpt, role, turnId }) => ({
      excerpt,
      role,
      turnId,
    }))
  const usage = async (by: 'turn' | 'session' | 'agent' | 'model' | 'day' | 'metadata.user') =>
    (await ledger.usage({ by })).items
  const events: StreamEvent[] = []
  for await (const event of engine.attach('run-1')) events.push(event)
  const read = {
    resolved: await ledger.resolve('help'),
    aliases: await ledger.aliases(),
    circle: await code(ledger.alias('support:1', 'help')),
    persona: await ledger.persona('nora'),
    personas: await ledger.personas(),
    session: await ledger.session('help'),
    taken: await code(ledger.createSession('support')),
    byMetadata: [
      await ledger.turns({ metadata: { user: 'u1' } }),
      await ledger.turns({ metadata: { user: 'u2' } }),
      await ledger.sessions({ metadata: { kind: 'chat' } }),
    ],
    calls: await ledger.toolCalls({ toolName: 'add' }),
    found: [
      await found('adding'),
      await found('hi'),
      await found('it is 3'),
      await found('VIE*'),
      await found('none'),
    ],
    usage: [
      await usage('turn'),
      await usage('session'),
      await usage('agent'),
      await usage('model'),
      (await usage('day')).map(({ key: _, ...row }) => row),
      await usage('metadata.user'),
      (await ledger.usage({ by: 'session', limit: 1 })).next,
    ],
    diff: await ledger.diff(a, b),
    events,
    runs: (await engine.runs()).items.map(({ process: _, endedAt: __, lastSeq, ...run }) => [
      run,
      lastSeq > 0,
    ]),
    verified: (await ledger.verify()).problems,
    counted: ((stats) => [
      stats.sessions,
      stats.turns,
      stats.messages,
      stats.toolCalls,
      stats.usage,
      rounded(stats.cost),
    ])(await ledger.stats()),
    dry: await ledger.deleteSession('agent:main:side', { turns: true, dryRun: true }),
    deleted: await ledger.deleteSession('agent:main:side', { turns: true }),
    again: await code(ledger.deleteSession('agent:main:side')),
    followed: await ledger.deleteTurns({ ids: [first.turnId] }),
    head: await ledger.deleteTurns({ ids: [a] }),
    moved: (await ledger.session(runFields.sessionLabel ?? ''))?.threadId,
    pruned: await ledger.prune({ before: Date.now() + 1_000, keep: 1 }),
    left: [(await ledger.sessions()).items.length, (await ledger.turns()).items.length],
    sound: (await ledger.verify()).problems,
  }
  return normal(
    JSON.parse(
      JSON.stringify(read, (key, value) => (/cost/i.test(key) && value ? rounded(value) : value)),
    ),
    since,
  )
}

/** Sums of prices are added in another order by each backend. */
const rounded = (price: number) => Number(price.toPrecision(12))

live('everything that a host reads and sets equals what a ledger in a file has', async () => {
  expect(await story(schema())).toEqual(await story({ path: folder().file }))
})

const gated: Replies = [
  {
    steps: [{ text: 'one ' }, { gate: 'g' }, { toolCall: { name: 'echo', arguments: { of: 1 } } }],
  },
  'done',
]
const echo = { name: 'echo', run: ({ of }: { of: number }) => `echo ${of}` }

/** The events of a run, and its first one. */
function readFrom(run: AsyncIterable<StreamEvent>): [Promise<StreamEvent[]>, Promise<void>] {
  let begin = () => {}
  const begun = new Promise<void>((resolve) => {
    begin = resolve
  })
  const reading = async () => {
    const events: StreamEvent[] = []
    for await (const event of run) {
      events.push(event)
      begin()
    }
    return events
  }
  return [reading(), begun]
}

live('a run is followed, watched and steered by the engine of another machine', async () => {
  const options = schema()
  const { engine: here, provider } = opened(options, gated)
  const { engine: there } = opened(options, [])
  const run = here.run(context({ runId: 'far', sessionLabel: 'main', tools: [echo] }))
  const [own, begun] = readFrom(run)
  const followed: StreamEvent[] = []
  const watched: string[] = []
  const watch = there.ledger.watch('main')
  const watching = (async () => {
    for await (const { event } of watch) {
      watched.push(event.type)
      if (event.type === 'stream_end' && event.final) break
    }
  })()
  // It is awaited at the end: where the test has failed by then, the engines are closed under it.
  for (const reading of [own, watching]) reading.catch(() => {})
  let steered = false
  // An event is delivered once it is stored: from then on the other machine knows the run.
  await begun
  for await (const event of there.attach('far')) {
    followed.push(event)
    if (event.type === 'token' && !steered) {
      steered = true
      if (await there.steerSession('main', 'and more')) provider.open('g')
    }
  }
  const { messages, stopReason } = await run.result
  await watching
  expect(stopReason).toBe('end_turn')
  expect(messages.filter(({ role }) => role === 'user').map(({ content }) => content)).toEqual([
    'hi',
    'and more',
  ])
  expect(followed).toEqual(await own)
  expect(watched).toEqual(followed.map(({ type }) => type))
})

live('a run is aborted by the engine of another machine, and its session is free', async () => {
  const options = schema()
  const { engine: here } = opened(options, gated)
  const { engine: there } = opened(options, ['next'])
  const run = here.run(context({ runId: 'far', sessionLabel: 'main', tools: [echo] }))
  let begun = () => {}
  const begins = new Promise<void>((resolve) => {
    begun = resolve
  })
  const events = (async () => {
    for await (const event of run) if (event.type === 'token') begun()
  })()
  await begins
  await there.abortSession('main')
  expect((await run.result).stopReason).toBe('aborted')
  await events
  expect(await code(there.abortSession('main'))).toBe('not_running')
  const next = await there.run(context({ runId: 'next', sessionLabel: 'main' })).result
  expect([next.stopReason, next.persisted]).toEqual(['end_turn', true])
})

live("the host's own SQL reads within its limits, and does nothing else", async () => {
  const { engine } = opened(schema(), ['one', 'two'])
  const { ledger } = engine
  for (const runId of ['a', 'b']) await engine.run(context({ runId })).result
  expect(
    await ledger.query(
      'select run_id, depth, 9007199254740993 as large, null as none from turns where depth >= $1 order by n',
      [0],
    ),
  ).toEqual({
    columns: ['run_id', 'depth', 'large', 'none'],
    rows: [
      { run_id: 'a', depth: 0, large: '9007199254740993', none: null },
      { run_id: 'b', depth: 1, large: '9007199254740993', none: null },
    ],
    truncated: null,
  })
  const { rows, truncated } = await ledger.query('select * from generate_series(1, 20000) as n')
  expect([rows.length, truncated]).toEqual([10_000, 'rows'])
  for (const wrong of [
    'delete from turns',
    'with gone as (delete from turns returning 1) select * from gone',
    'select 1; select 2',
    'select nothing from turns',
    "select nextval('turn_numbers')",
  ]) {
    expect([wrong, await code(ledger.query(wrong))]).toEqual([wrong, 'invalid_query'])
  }
  expect((await ledger.turns()).items.length).toBe(2)
})
