// Runs by their ids and as lists: during the run, after it, after a restart, from another process. It must never kill anything but
// its own children.

import { once } from 'node:events'
import { expect, test } from 'vitest'
import { AgentEngine, type AgentResult } from '../../index.js'
import { closing, folder, serving } from '../support/cleanup.js'
import { context, engineAt, readAll, scriptedEngine } from '../support/engine.js'
import { refusal } from '../support/ledger/sqlite3.js'
import { killable } from '../support/processes/killable.js'
import { anthropic } from '../support/servers/anthropic.js'
import { sse, status } from '../support/servers/server.js'

/** What the ledger stores of a result. */
function stored({ durationMs: _, tokenBudget: __, warnings: ___, ...rest }: AgentResult) {
  return { ...rest, warnings: [] }
}

test('a run has its turn once it is opened, and a session is visible during its first turn', async () => {
  const { file } = folder()
  const steps = [{ text: 'one' }, { gate: 'g' }]
  const { engine, provider } = scriptedEngine([{ steps }, 'two'], { ledger: { path: file } })
  closing(engine)
  const first = engine.run(context({ runId: 'first', sessionLabel: 'main' }))
  const second = engine.run(context({ runId: 'second', sessionLabel: 'main' }))
  for await (const { type } of first.events()) if (type === 'token') break
  expect((await engine.runInfo('first'))?.turnId).toBe(first.turnId)
  expect(await engine.ledger.session('main')).toMatchObject({ label: 'main', threadId: null })
  expect((await engine.ledger.sessions()).items.map(({ label }) => label)).toEqual(['main'])
  expect(await engine.ledger.history('main')).toEqual([])
  expect(second.turnId).toBeUndefined()
  expect(await engine.runInfo('second')).toMatchObject({ status: 'waiting', endedAt: null })
  provider.open('g')
  const [{ turnId }, other] = await Promise.all([first.result, second.result])
  expect([first.turnId, second.turnId]).toEqual([turnId, other.turnId])
  expect((await engine.ledger.session('main'))?.threadId).toBe(other.turnId)
})

test('a run is found while it runs, after its end and after a restart, with the same result', async () => {
  const { file } = folder()
  const server = await serving(sse(anthropic.answer('Eleven degrees.')))
  const engine = closing(engineAt(server.url, { ledger: { path: file } }))
  const run = engine.run(context({ runId: 'r', sessionLabel: 'main' }))
  const early = engine.resultOf('r')
  const events = await readAll(run)
  const result = await run.result
  expect(await early).toBe(result)
  expect(result.text).toBe('Eleven degrees.')
  const info = await engine.runInfo('r')
  expect(info).toEqual({
    runId: 'r',
    turnId: result.turnId,
    sessionLabel: 'main',
    status: 'completed',
    lastSeq: events.at(-1)?.seq,
    startedAt: expect.any(Number),
    endedAt: expect.any(Number),
    process: null,
  })
  expect(stored(await engine.resultOf('r'))).toEqual(stored(result))
  await engine.close()
  const again = closing(new AgentEngine({ ledger: { path: file } }))
  expect(await again.runInfo('r')).toEqual(info)
  expect(stored(await again.resultOf('r'))).toEqual(stored(result))
  expect(server.seen).toHaveLength(1)
})

test('a failed run is found with its error, and an unknown one is none', async () => {
  const { file } = folder()
  const server = await serving(status(400, { error: { message: 'no' } }))
  const engine = closing(engineAt(server.url, { ledger: { path: file } }))
  const result = await engine.run(context({ runId: 'bad' })).result
  expect(await engine.runInfo('bad')).toMatchObject({ status: 'failed' })
  expect(stored(await engine.resultOf('bad'))).toEqual(stored(result))
  expect(await engine.runInfo('other')).toBeNull()
  expect(await refusal(engine.resultOf('other'))).toEqual({ code: 'unknown_run' })
  expect(await refusal(engine.resultOf(''))).toEqual({ code: 'invalid_options', field: 'runId' })
})

test('a run whose events are not stored, or not any more, is still found', async () => {
  const { file } = folder()
  const { engine } = scriptedEngine(Array(70).fill('ok'), {
    ledger: { path: file, events: { keepTurns: 1 } },
  })
  closing(engine)
  const results: AgentResult[] = []
  for (let n = 0; n < 70; n++) {
    results.push(await engine.run(context({ runId: `r${n}` })).result)
  }
  await engine.close()
  const again = closing(new AgentEngine({ ledger: { path: file, events: false } }))
  const { rows } = await again.ledger.query('SELECT count(*) AS n FROM runs')
  expect(Number(rows[0]?.n)).toBeLessThan(10)
  expect(await again.runInfo('r0')).toMatchObject({
    turnId: results[0]?.turnId,
    status: 'completed',
    lastSeq: 0,
  })
  expect((await again.resultOf('r0')).text).toBe('ok')
  expect((await again.ledger.verify()).problems).toEqual([])
})

test('runs are listed by session and status, the newest first, in pages', async () => {
  const { file } = folder()
  const { engine, provider } = scriptedEngine(
    ['a', 'b', { error: { kind: 'format' } }, { steps: [{ text: 'x' }, { gate: 'g' }] }],
    { ledger: { path: file } },
  )
  closing(engine)
  await engine.run(context({ runId: 'r1', sessionLabel: 'one' })).result
  await engine.run(context({ runId: 'r2', sessionLabel: 'two' })).result
  await engine.run(context({ runId: 'r3', sessionLabel: 'one' })).result
  const open = engine.run(context({ runId: 'r4', sessionLabel: 'one' }))
  await open.next()
  await open.next()
  const ids = async (filter?: Parameters<AgentEngine['runs']>[0]) =>
    (await engine.runs(filter)).items.map(({ runId }) => runId)
  expect(await ids()).toEqual(['r4', 'r3', 'r2', 'r1'])
  expect(await ids({ session: 'one' })).toEqual(['r4', 'r3', 'r1'])
  expect(await ids({ status: 'running' })).toEqual(['r4'])
  expect(await ids({ status: 'completed', session: 'one' })).toEqual(['r1'])
  expect(await ids({ status: 'failed' })).toEqual(['r3'])
  const paged: string[] = []
  let cursor: string | undefined
  do {
    const page = await engine.runs({ limit: 1, cursor })
    paged.push(...page.items.map(({ runId }) => runId))
    cursor = page.next ?? undefined
  } while (cursor !== undefined)
  expect(paged).toEqual(['r4', 'r3', 'r2', 'r1'])
  expect((await engine.runs({ status: 'running' })).items[0]?.process).toEqual({
    pid: process.pid,
    current: true,
  })
  for (const wrong of [{ limit: 0 }, { status: 'gone' }, { sessionLabel: 'one' }]) {
    expect(await refusal(engine.runs(wrong as never))).toMatchObject({ code: 'invalid_query' })
  }
  provider.open('g')
  await open.result
})

test('a run of another process is found, awaited, and reported as interrupted when that process is killed', {
  timeout: 60_000,
}, async () => {
  const { file } = folder()
  const replies = [{ steps: [{ text: 'one ' }, { gate: 'g' }, { text: 'two' }] }]
  const there = (runId: string) =>
    killable('recovery/events.mjs', [file, 'run', JSON.stringify({ replies, runId, label: runId })])
  const engine = closing(new AgentEngine({ ledger: { path: file } }))
  const [ends, dies] = [there('ends'), there('dies')]
  await Promise.all([ends.line('{"type":"token"'), dies.line('{"type":"token"')])
  expect(await engine.runInfo('ends')).toMatchObject({
    status: 'running',
    process: { pid: ends.process.pid, current: false },
  })
  const result = engine.resultOf('ends')
  const lost = refusal(engine.resultOf('dies'))
  const left = new AbortController()
  const leaving = engine.resultOf('ends', { signal: left.signal })
  left.abort('enough')
  await expect(leaving).rejects.toBe('enough')
  ends.process.stdin?.write('open g\n')
  expect((await result).text).toBe('one two')
  dies.kill('SIGKILL')
  await once(dies.process, 'exit')
  expect(await lost).toEqual({ code: 'run_interrupted' })
  expect(await engine.runInfo('dies')).toMatchObject({ status: 'interrupted', process: null })
})

test('a run on an alias that ends before its turn is opened is found by a watch of the session', async () => {
  const { file } = folder()
  const steps = [{ text: 'one' }, { gate: 'g' }]
  const { engine, provider } = scriptedEngine([{ steps }], { ledger: { path: file } })
  closing(engine)
  await engine.ledger.alias('support', 'main')
  const first = engine.run(context({ runId: 'first', sessionLabel: 'main' }))
  for await (const { type } of first.events()) if (type === 'token') break
  const watched: string[] = []
  const watching = engine.ledger.watch('main')
  let begin = () => {}
  const begun = new Promise<void>((resolve) => {
    begin = resolve
  })
  const ended = (async () => {
    for await (const { runId, event } of watching) {
      watched.push(`${runId} ${event.type}`)
      begin()
      if (runId === 'second' && event.type === 'stream_end') return
    }
  })()
  // It is awaited at the end: where the test has failed by then, the engine is closed under it.
  ended.catch(() => {})
  // A watch begins with the runs that are open when it first reads.
  await begun
  const second = engine.run(context({ runId: 'second', sessionLabel: 'support' }))
  while ((await engine.runInfo('second')) === null) await new Promise(setImmediate)
  expect((await engine.runs({ session: 'main' })).items.map(({ runId }) => runId)).toEqual([
    'second',
    'first',
  ])
  second.abort()
  expect((await second.result).stopReason).toBe('aborted')
  provider.open('g')
  await first.result
  await ended
  expect(watched.filter((line) => line.startsWith('second'))).toEqual([
    'second stream_start',
    'second stream_end',
  ])
})
