// The persisted events of runs: attach during and after a run, from any number, in this and in other processes; retention. It
// must never kill anything but its own children.

import { spawn } from 'node:child_process'
import { expect, test } from 'vitest'
import { AgentEngine, type ScriptedReply, type StreamEvent } from '../../index.js'
import { afterwards, closing, folder } from '../support/cleanup.js'
import { begun, context, readAll, scriptedEngine } from '../support/engine.js'
import { leasesEnd } from '../support/ledger/named.js'
import { refusal, sqlite3 } from '../support/ledger/sqlite3.js'
import { killable } from '../support/processes/killable.js'

const loop: ScriptedReply[] = [
  {
    thinking: 'I think.',
    signature: 'c2ln',
    text: 'Wait: "ünï" \n\r 🙂 ',
    toolCalls: [{ name: 'echo', arguments: { of: 1 } }],
    chunkSize: 2,
  },
  { text: 'x'.repeat(9_000), chunkSize: 3 },
]
const tools = [
  {
    name: 'echo',
    description: 'Says it again.',
    parameters: { type: 'object' },
    run: ({ of }: { of?: unknown }) => `echo ${of}`,
  },
] as const

async function all<T>(events: AsyncIterable<T>): Promise<T[]> {
  const seen: T[] = []
  for await (const event of events) seen.push(event)
  return seen
}

const gapless = (events: StreamEvent[], first = 1) =>
  expect(events.map((event) => event.seq)).toEqual(events.map((_, index) => first + index))

const terminals = (events: StreamEvent[]) =>
  events.filter(
    (event) => event.type === 'stream_error' || (event.type === 'stream_end' && event.final),
  )

test('after the run, attach delivers exactly the events of its reader, from any number', async () => {
  const { file } = folder()
  const { engine } = scriptedEngine(loop, { ledger: { path: file } })
  closing(engine)
  const run = engine.run(context({ tools: [...tools], runId: 'r' }))
  const seen = await readAll(run)
  await run.result
  gapless(seen)
  expect(seen.length).toBeGreaterThan(3_000)
  expect(terminals(seen)).toHaveLength(1)
  expect(await all(engine.attach('r'))).toEqual(seen)
  for (const afterSeq of [1, 2, 5, 11, 12, 1_500, seen.length - 1, seen.length, seen.length + 7]) {
    expect(await all(engine.attach('r', { afterSeq }))).toEqual(seen.slice(afterSeq))
  }
  // Compact: a few bytes per delta, and not a row for each.
  const { rows } = await engine.ledger.query(
    'SELECT count(*) AS n, sum(length(entry)) AS bytes FROM journal WHERE kind = 0',
  )
  expect(Number(rows[0]?.n)).toBeLessThan(seen.length / 50)
  expect(Number(rows[0]?.bytes)).toBeLessThan(9_000 + 6 * seen.length)
  // Behind the commits they are compressed, and read as they were.
  await engine.close()
  const again = closing(new AgentEngine({ ledger: { path: file } }))
  const archived = await again.ledger.query(
    `SELECT (SELECT count(*) FROM journal WHERE kind = 0) <= 1 AS emptied,
       (SELECT sum(length(events)) FROM event_archive) AS bytes`,
  )
  expect(archived.rows[0]?.emptied).toBe(1)
  expect(Number(archived.rows[0]?.bytes)).toBeLessThan(Number(rows[0]?.bytes) / 2)
  expect(await all(again.attach('r'))).toEqual(seen)
  for (const afterSeq of [1, 1_500, seen.length]) {
    expect(await all(again.attach('r', { afterSeq }))).toEqual(seen.slice(afterSeq))
  }
})

test('during the run, many readers each receive every event once, from their number', async () => {
  const { file } = folder()
  const { engine, provider } = scriptedEngine(
    [
      {
        steps: [
          ...Array.from({ length: 40 }, (_, n) => ({ text: `a${n} ` })),
          { gate: 'half' },
          ...Array.from({ length: 700 }, (_, n) => ({ text: `b${n} ` })),
        ],
      } as ScriptedReply,
    ],
    { ledger: { path: file } },
  )
  closing(engine)
  const run = engine.run(context({ runId: 'live' }))
  const early = Array.from({ length: 10 }, () => all(engine.attach('live')))
  const seen: StreamEvent[] = []
  const middle: Promise<StreamEvent[]>[] = []
  for await (const event of run) {
    seen.push(event)
    if (event.seq === 30) {
      for (const afterSeq of [0, 10, 29, 30, 60])
        middle.push(all(engine.attach('live', { afterSeq })))
      provider.open('half')
    }
  }
  gapless(seen)
  for (const reader of early) expect(await reader).toEqual(seen)
  const later = await Promise.all(middle)
  expect(later).toEqual([0, 10, 29, 30, 60].map((after) => seen.slice(after)))
})

test('closing an attachment does not affect the run, and an unread run is persisted whole', async () => {
  const { file } = folder()
  const { engine, provider } = scriptedEngine([{ gate: 'g', text: 'said', chunkSize: 1 }], {
    ledger: { path: file },
  })
  closing(engine)
  const run = engine.run(context({ runId: 'alone' }))
  for await (const event of engine.attach('alone')) if (event.type === 'stream_start') break
  const waiting = engine.attach('alone', { afterSeq: 1 })
  const next = waiting.next()
  await waiting.return?.()
  expect(await next).toEqual({ value: undefined, done: true })
  provider.open('g')
  expect(await run.result).toMatchObject({ stopReason: 'end_turn', persisted: true })
  const replayed = await all(engine.attach('alone'))
  gapless(replayed)
  expect(replayed.map((event) => event.type)).toEqual([
    'stream_start',
    ...Array(4).fill('token'),
    'usage',
    'stream_end',
  ])
})

test('failed, aborted and queued runs end with their one terminal event', async () => {
  const { file } = folder()
  const { engine, provider } = scriptedEngine(
    [
      { text: 'part', error: { kind: 'format', message: 'no' } } as ScriptedReply,
      { gate: 'never', text: 'x' },
    ],
    { ledger: { path: file } },
  )
  closing(engine)
  const seen = new Map<string, StreamEvent[]>()
  const failed = engine.run(context({ runId: 'failed' }))
  seen.set('failed', await readAll(failed))
  const held = engine.run(context({ runId: 'aborted' }))
  const queued = engine.run(context({ runId: 'queued' }))
  const reading = [readAll(held), readAll(queued)]
  await held.next
  queued.abort()
  await queued.result
  held.abort()
  await held.result
  const [one = [], two = []] = await Promise.all(reading)
  seen.set('aborted', one)
  seen.set('queued', two)
  for (const [runId, events] of seen) {
    gapless(events)
    expect(terminals(events)).toHaveLength(1)
    expect(await all(engine.attach(runId))).toEqual(events)
  }
  provider.open('never')
})

test('another process follows a run while it is under way, and reads it after', {
  timeout: 60_000,
}, async () => {
  const { file } = folder()
  const steps = [
    ...Array.from({ length: 30 }, (_, n) => ({ text: `a${n} ` })),
    { gate: 'half' },
    ...Array.from({ length: 300 }, (_, n) => ({ text: `b${n} ` })),
  ]
  const { engine, provider } = scriptedEngine([{ steps } as ScriptedReply], {
    ledger: { path: file },
  })
  closing(engine)
  const run = engine.run(context({ runId: 'shared' }))
  const reading = readAll(run)
  await begun(run)
  const children = [0, 7, 30].map((afterSeq) => ({
    afterSeq,
    child: killable('recovery/events.mjs', [
      file,
      'attach',
      JSON.stringify({ runId: 'shared', afterSeq }),
    ]),
  }))
  // Each has received the last event before the gate, and follows from there.
  for (const { child } of children) await child.line('{"type":"token","text":"a29 "')
  provider.open('half')
  const seen = await reading
  for (const { afterSeq, child } of children) {
    expect(await child.ended).toBeNull()
    const replayed = child.lines.map((line) => JSON.parse(line))
    expect(replayed).toEqual(['attaching', ...seen.slice(afterSeq), 'over'])
  }
  const after = killable('recovery/events.mjs', [
    file,
    'attach',
    JSON.stringify({ runId: 'shared' }),
  ])
  await after.ended
  expect(after.lines.map((line) => JSON.parse(line))).toEqual(['attaching', ...seen, 'over'])
})

test('a follower of a killed process ends, and the resumed turn continues with the same numbers', {
  timeout: 60_000,
}, async () => {
  const { file } = folder()
  const replies = [{ steps: [{ text: 'one ' }, { text: 'two ' }, { gate: 'never' }] }]
  const child = killable('recovery/events.mjs', [
    file,
    'run',
    JSON.stringify({ replies, runId: 'torn' }),
  ])
  await child.line('{"type":"token","text":"two "')
  const { engine } = scriptedEngine(['whole'], { ledger: { path: file } })
  closing(engine)
  const following = all(engine.attach('torn'))
  child.kill()
  await child.ended
  const before = await following
  expect(before.slice(0, child.lines.length)).toEqual(child.lines.map((line) => JSON.parse(line)))
  expect(terminals(before)).toEqual([])
  const [turn] = await engine.recover()
  const run = await engine.resume(turn?.turnId ?? '')
  const after = await readAll(run)
  expect(await run.result).toMatchObject({ stopReason: 'end_turn' })
  gapless(after, before.length + 1)
  const replayed = await all(engine.attach('torn'))
  // Once per run, however often it is resumed.
  const starts = replayed.filter((event) => event.type === 'stream_start')
  expect(starts).toMatchObject([{ runId: 'torn', seq: 1 }])
  expect(replayed).toEqual([...before, ...after])
  expect(terminals(replayed)).toHaveLength(1)
})

test('a turn that is discarded gets its terminal event', { timeout: 60_000 }, async () => {
  const { file } = folder()
  const replies = [{ steps: [{ text: 'one ' }, { gate: 'never' }] }]
  const child = killable('recovery/events.mjs', [
    file,
    'run',
    JSON.stringify({ replies, runId: 'gone' }),
  ])
  await child.line('{"type":"token"')
  child.kill()
  await child.ended
  leasesEnd(file)
  const { engine } = scriptedEngine([], { ledger: { path: file } })
  closing(engine)
  const [turn] = await engine.recover()
  await engine.discard(turn?.turnId ?? '')
  const replayed = await all(engine.attach('gone'))
  gapless(replayed)
  expect(replayed.map((event) => event.type)).toEqual(['stream_start', 'token', 'stream_error'])
  expect(replayed.at(-1)).toMatchObject({
    partial: true,
    error: expect.stringContaining('discarded'),
  })
})

test('events are retained for the number of runs and the time in the options', async () => {
  const { file } = folder()
  const { engine } = scriptedEngine(['1', '2', '3', '4', '5'], {
    ledger: { path: file, events: { keepTurns: 2 } },
  })
  for (const n of [1, 2, 3, 4, 5]) await engine.run(context({ runId: `r${n}` })).result
  await engine.close()
  const again = new AgentEngine({ ledger: { path: file } })
  for (const n of [1, 2, 3]) {
    expect(await refusal(again.attach(`r${n}`).next())).toEqual({ code: 'events_expired' })
  }
  for (const n of [4, 5]) expect(await all(again.attach(`r${n}`))).toHaveLength(4)
  await again.close()
  const { engine: brief } = scriptedEngine(
    [{ text: 'y'.repeat(2_000_000), chunkSize: 500 }, 'last'],
    {
      ledger: { path: file, events: { keepMs: 0 } },
    },
  )
  await brief.run(context({ runId: 'big' })).result
  await brief.run(context({ runId: 'last' })).result
  await brief.close()
  const last = closing(new AgentEngine({ ledger: { path: file } }))
  const { rows } = await last.ledger.query(
    `SELECT (SELECT count(*) FROM runs) AS runs, (SELECT count(*) FROM event_archive) AS pieces,
       (SELECT count(*) FROM journal) AS entries`,
  )
  // The newest entry stays, so that its number is not used again.
  expect(rows).toEqual([{ runs: 0, pieces: 0, entries: 1 }])
})

test.skipIf(!sqlite3)('a locked file delays no reader for long, and loses no event', async () => {
  const { file } = folder()
  const later = Array.from({ length: 10 }, (_, n) => ({ text: `b${n}` }))
  const { engine, provider } = scriptedEngine(
    [{ steps: [{ text: 'a' }, { gate: 'g' }, ...later, { gate: 'h' }, { text: 'c' }] }],
    { ledger: { path: file } },
  )
  closing(engine)
  const run = engine.run(context({ runId: 'locked' }))
  const locker = spawn('sqlite3', [file], { stdio: ['pipe', 'pipe', 'inherit'] })
  afterwards(() => locker.kill())
  const seen: StreamEvent[] = []
  const entries = async () =>
    (await engine.ledger.query('SELECT count(*) AS n FROM journal WHERE kind = 0')).rows
  let stored: unknown
  for await (const event of run) {
    seen.push(event)
    if (event.type === 'token' && event.text === 'a') {
      stored = await entries()
      locker.stdin.write("BEGIN IMMEDIATE;\nSELECT 'locked';\n")
      await new Promise((resolve) => locker.stdout.once('data', resolve))
      provider.open('g')
    }
    if (event.type === 'token' && event.text === 'b9') {
      // Delivered although it cannot be stored yet.
      expect(await entries()).toEqual(stored)
      locker.stdin.end('COMMIT;\n')
      provider.open('h')
    }
  }
  expect(await run.result).toMatchObject({ persisted: true })
  gapless(seen)
  expect(await all(engine.attach('locked'))).toEqual(seen)
})

test('without a ledger, with `final` or with `events: false` no event is persisted, and attach is refused', async () => {
  const none = closing(scriptedEngine(['a']).engine)
  expect(await refusal(none.attach('r').next())).toEqual({ code: 'no_ledger' })
  for (const ledger of [{ journal: 'final' as const }, { events: false as const }]) {
    const { file } = folder()
    const { engine } = scriptedEngine(['a'], { ledger: { path: file, ...ledger } })
    closing(engine)
    expect(await readAll(engine.run(context({ runId: 'r' })))).toHaveLength(4)
    expect(await refusal(engine.attach('r').next())).toEqual({ code: 'events_expired' })
    expect(await refusal(engine.attach('other').next())).toEqual({ code: 'unknown_run' })
    const { rows } = await engine.ledger.query(
      `SELECT (SELECT count(*) FROM runs WHERE keeps_events = 1) AS runs,
         (SELECT count(*) FROM journal WHERE kind = 0) AS entries`,
    )
    expect(rows).toEqual([{ runs: 0, entries: 0 }])
  }
})

test('wrong arguments are refused immediately', async () => {
  const { file } = folder()
  const { engine } = scriptedEngine([], { ledger: { path: file } })
  closing(engine)
  const thrown = (call: () => unknown) => refusal(Promise.resolve().then(call))
  for (const runId of ['', 7, null, undefined]) {
    expect(await thrown(() => engine.attach(runId as string))).toEqual({
      code: 'invalid_options',
      field: 'runId',
    })
  }
  for (const afterSeq of [-1, 1.5, Number.NaN, '3', null]) {
    const options = { afterSeq: afterSeq as number }
    expect(await thrown(() => engine.attach('r', options))).toEqual({
      code: 'invalid_options',
      field: 'afterSeq',
    })
  }
  expect(await thrown(() => engine.attach('r', { since: 3 } as object))).toEqual({
    code: 'invalid_options',
    field: 'since',
  })
  for (const events of [{ keepTurns: 0 }, { keepMs: -1 }, { keep: 3 }, 'yes', [1]]) {
    const options = { ledger: { path: file, events: events as object } }
    expect((await thrown(() => new AgentEngine(options))).code).toBe('invalid_options')
  }
})

test('a waiting attachment fails when the engine closes', async () => {
  const { file } = folder()
  const child = killable('recovery/events.mjs', [
    file,
    'run',
    JSON.stringify({ replies: [{ gate: 'never', text: 'x' }], runId: 'other' }),
  ])
  await child.line('{"type":"stream_start"')
  const { engine } = scriptedEngine([], { ledger: { path: file } })
  const attached = engine.attach('other', { afterSeq: 1 })
  // One reads before the engine closes, one after close() was called.
  expect((await engine.attach('other').next()).value).toMatchObject({ type: 'stream_start' })
  const waits = refusal(attached.next())
  const closed = engine.close()
  const late = refusal(engine.attach('other', { afterSeq: 1 }).next())
  await closed
  for (const replayed of [waits, late, refusal(engine.attach('other').next())]) {
    expect(await replayed).toEqual({ code: 'engine_closed' })
  }
  child.kill()
  await child.ended
})
