// Processes that share a ledger: watching a session, aborting and steering its run from another process. It must never kill
// anything but its own children.

import { expect, test } from 'vitest'
import { AgentEngine, type SessionEvent } from '../../index.js'
import { closing, folder } from '../support/cleanup.js'
import { context, readAll, scriptedEngine } from '../support/engine.js'
import { refusal } from '../support/ledger/sqlite3.js'
import { type Killable, killable } from '../support/processes/killable.js'

const parsed = (child: Killable) => child.lines.map((line) => JSON.parse(line))
const send = (child: Killable, line: string) => child.process.stdin?.write(`${line}\n`)

/** A run of another process that emits some text and then waits at the gate `g`. */
async function elsewhere(file: string, changes = {}): Promise<Killable> {
  const replies = [
    {
      steps: [
        { text: 'one ' },
        { gate: 'g' },
        { toolCall: { name: 'echo', arguments: { of: 1 } } },
      ],
    },
    'done',
  ]
  const child = killable('recovery/events.mjs', [
    file,
    'run',
    JSON.stringify({ replies, runId: 'there', ...changes }),
  ])
  child.process.stdin?.on('error', () => {})
  await child.line('{"type":"token"')
  return child
}

test('a run of another process is aborted by its session', { timeout: 60_000 }, async () => {
  const { file } = folder()
  const child = await elsewhere(file)
  const engine = closing(new AgentEngine({ ledger: { path: file } }))
  await engine.abortSession('main')
  await child.ended
  expect(parsed(child).at(-2)).toMatchObject({ type: 'stream_end', final: true })
  expect(parsed(child).at(-1)).toMatchObject({ stopReason: 'aborted' })
  const { rows } = await engine.ledger.query(
    'SELECT status, (SELECT count(*) FROM session_commands) AS left FROM turns',
  )
  expect(rows).toEqual([{ status: 'aborted', left: 0 }])
  expect(await refusal(engine.abortSession('main'))).toEqual({ code: 'not_running' })
})

test('a run of another process is steered by its session, each message once and in order', {
  timeout: 60_000,
}, async () => {
  const { file } = folder()
  const child = await elsewhere(file)
  const engine = closing(new AgentEngine({ ledger: { path: file } }))
  const texts = ['first', 'sécond 🙂', 'third']
  for (const text of texts) expect(await engine.steerSession('main', text)).toBe(true)
  send(child, 'open g')
  await child.ended
  expect(parsed(child).at(-1)).toEqual({
    stopReason: 'end_turn',
    users: ['hi', ...texts],
    undeliveredSteering: [],
  })
  expect(await refusal(engine.steerSession('main', 'late'))).toEqual({ code: 'not_running' })
  // A steered message is only in the turn of its run.
  const { rows } = await engine.ledger.query('SELECT count(*) AS n FROM session_commands')
  expect(rows).toEqual([{ n: 0 }])
})

test('a run of this process is aborted and steered by its session too', async () => {
  const { file } = folder()
  const { engine, provider } = scriptedEngine(
    [{ steps: [{ text: 'a' }, { gate: 'g' }, { stop: 'end_turn' }] }, { gate: 'never', text: 'b' }],
    { ledger: { path: file } },
  )
  closing(engine)
  const run = engine.run(context({ sessionLabel: 's' }))
  for await (const event of engine.ledger.watch('s')) if (event.event.type === 'token') break
  expect(await engine.steerSession('s', 'and?')).toBe(true)
  provider.open('g')
  // The steered message is answered by the second reply, which waits.
  for await (const { event } of engine.ledger.watch('s')) if (event.type === 'stream_end') break
  await engine.abortSession('s')
  expect(await run.result).toMatchObject({
    stopReason: 'aborted',
    messages: [{ content: 'hi' }, { content: 'a' }, { content: 'and?' }],
  })
})

test('without a run under way, or after its process was killed, a command is refused', {
  timeout: 60_000,
}, async () => {
  const { file } = folder()
  const engine = closing(new AgentEngine({ ledger: { path: file } }))
  expect(await refusal(engine.abortSession('nobody'))).toEqual({ code: 'not_running' })
  expect(await refusal(engine.steerSession('nobody', 'x'))).toEqual({ code: 'not_running' })
  const child = await elsewhere(file)
  child.kill('SIGSTOP')
  const requested = refusal(engine.abortSession('main'))
  child.kill()
  await child.ended
  expect(await requested).toEqual({ code: 'not_running' })
  expect(await refusal(engine.abortSession('main'))).toEqual({ code: 'not_running' })
  expect(await refusal(engine.abortSession('a\nb'))).toEqual({
    code: 'invalid_label',
    field: 'label',
  })
  expect(await refusal(engine.abortSession(7 as never))).toEqual({
    code: 'invalid_label',
    field: 'label',
  })
  expect(await refusal(engine.steerSession('main', ''))).toEqual({
    code: 'invalid_options',
    field: 'text',
  })
  const none = closing(new AgentEngine())
  expect(await refusal(none.abortSession('main'))).toEqual({ code: 'no_ledger' })
})

test('watch delivers the runs of a session in order, from any process', {
  timeout: 60_000,
}, async () => {
  const { file } = folder()
  const { engine } = scriptedEngine(
    [
      { text: 'here it is', chunkSize: 2 },
      { text: 'not for this watch' },
      { text: 'again', chunkSize: 1 },
    ],
    { ledger: { path: file } },
  )
  closing(engine)
  const first = await elsewhere(file)
  const seen: SessionEvent[] = []
  let begun = () => {}
  const begins = new Promise<void>((resolve) => {
    begun = resolve
  })
  const watching = (async () => {
    let left = 3
    for await (const event of engine.ledger.watch('main')) {
      seen.push(event)
      begun()
      if (event.event.type === 'stream_end' && event.event.final && --left === 0) break
    }
  })()
  // The run under way is delivered from its start; the next one waits for its session.
  await begins
  const second = engine.run(context({ runId: 'here', sessionLabel: 'main' }))
  const secondSeen = readAll(second)
  send(first, 'open g')
  await first.ended
  await second.result
  await engine.run(context({ runId: 'apart', sessionLabel: 'other' })).result
  const third = engine.run(context({ runId: 'last', sessionLabel: 'main' }))
  await third.result
  await watching
  const of = (runId: string) => seen.filter((it) => it.runId === runId).map((it) => it.event)
  expect(of('there')).toEqual(parsed(first).slice(0, -1))
  expect(of('here')).toEqual(await secondSeen)
  expect(of('apart')).toEqual([])
  const ends = seen.filter(({ event }) => event.type === 'stream_end' && event.final)
  expect(ends.map(({ runId }) => runId)).toEqual(['there', 'here', 'last'])
  // Only the start of a waiting run is delivered before the end of the previous one.
  const order = seen.filter(({ event }) => event.type !== 'stream_start').map(({ runId }) => runId)
  expect(order.filter((runId, index) => runId !== order[index - 1])).toEqual([
    'there',
    'here',
    'last',
  ])
})

test('another process watches this one', { timeout: 60_000 }, async () => {
  const { file } = folder()
  const { engine, provider } = scriptedEngine(
    [{ gate: 'g', text: 'one two', chunkSize: 1 }, { text: 'three' }],
    { ledger: { path: file } },
  )
  closing(engine)
  const child = killable('recovery/events.mjs', [file, 'watch'])
  child.process.stdin?.on('error', () => {})
  // A run under way is delivered from its start, whenever the watch begins.
  const first = readAll(engine.run(context({ runId: 'a', sessionLabel: 'main' })))
  await child.line('{"runId":"a"')
  provider.open('g')
  const a = (await first).map((event) => ({ runId: 'a', event }))
  const second = await readAll(engine.run(context({ runId: 'b', sessionLabel: 'main' })))
  await child.ended
  const b = second.map((event) => ({ runId: 'b', event }))
  expect(parsed(child)).toEqual(['watching', ...a, ...b])
})

test('a watch alone does not hold the process', { timeout: 60_000 }, async () => {
  const { file } = folder()
  await new AgentEngine({ ledger: { path: file } }).close()
  const child = killable('recovery/events.mjs', [file, 'idle'])
  expect(await child.ended).toBeNull()
  expect(parsed(child)).toEqual(['watching'])
})
