// Run ids are used once: a second run with the id of another is refused, or attaches to that. It must never kill anything but its own
// children.

import { expect, test } from 'vitest'
import { AgentEngine, type StreamEvent } from '../../index.js'
import { closing, folder, serving } from '../support/cleanup.js'
import { context, engineAt, readAll, scriptedEngine } from '../support/engine.js'
import { waitsEnd } from '../support/ledger/named.js'
import { refusal } from '../support/ledger/sqlite3.js'
import { type Killable, killable } from '../support/processes/killable.js'
import { anthropic } from '../support/servers/anthropic.js'
import { sse } from '../support/servers/server.js'

const refused = { code: 'duplicate_run', field: 'runId' }
/** The repetitions of the proof with two processes. */
const ROUNDS = Number(process.env.DUPLICATE_ROUNDS ?? 10)

test('a run id that the ledger has is refused, and nothing is sent or written', async () => {
  const { file } = folder()
  const server = await serving(sse(anthropic.answer('one')))
  const engine = closing(engineAt(server.url, { ledger: { path: file } }))
  const first = await engine.run(context({ runId: 'r' })).result
  const rows = () =>
    engine.ledger.query(
      'SELECT (SELECT count(*) FROM turns) AS turns, (SELECT count(*) FROM runs) AS runs',
    )
  const before = await rows()
  const again = engine.run(context({ runId: 'r', sessionLabel: 'other' }))
  expect(await refusal(again.result)).toEqual(refused)
  expect(await refusal(readAll(again))).toEqual(refused)
  expect([again.turnId, await again.next()]).toEqual([undefined, { value: undefined, done: true }])
  expect(await rows()).toEqual(before)
  expect(await engine.ledger.session('other')).toBeNull()
  expect(server.seen).toHaveLength(1)
  await engine.close()
  const later = closing(engineAt(server.url, { ledger: { path: file } }))
  expect(await refusal(later.run(context({ runId: 'r' })).result)).toEqual(refused)
  expect((await later.resultOf('r')).turnId).toBe(first.turnId)
  expect(server.seen).toHaveLength(1)
})

test('a run id is refused while the first run is under way, also in the session that it holds', async () => {
  const { file } = folder()
  const steps = [{ text: 'one' }, { gate: 'g' }]
  const { engine, provider } = scriptedEngine([{ steps }], { ledger: { path: file } })
  closing(engine)
  const first = engine.run(context({ runId: 'r' }))
  for await (const { type } of first.events()) if (type === 'token') break
  // Before the first has ended.
  expect(await refusal(engine.run(context({ runId: 'r' })).result)).toEqual(refused)
  provider.open('g')
  expect((await first.result).text).toBe('one')
  expect(provider.requests).toHaveLength(1)
})

test('with `attach` the same submit has the events and the result of the first run, during it and after it', async () => {
  const { file } = folder()
  const steps = [{ text: 'one ' }, { gate: 'g' }, { text: 'two' }]
  const { engine, provider } = scriptedEngine([{ steps }], { ledger: { path: file } })
  closing(engine)
  const submit = () => engine.run(context({ runId: 'r', onDuplicateRun: 'attach' }))
  const first = submit()
  for await (const { type } of first.events()) if (type === 'token') break
  const parts: string[] = []
  const during = engine.run(context({ runId: 'r', onDuplicateRun: 'attach' }), {
    onPartialReply: ({ text }) => parts.push(text),
  })
  const seen: StreamEvent[] = []
  during.stream.onEvent((event) => seen.push(event))
  // A reader that leaves aborts nothing.
  for await (const { type } of during) if (type === 'token') break
  expect([during.steer('x'), during.stream.isStreaming()]).toEqual([false, true])
  provider.open('g')
  const result = await first.result
  const events = await readAll(first)
  const other = await during.result
  expect([other.turnId, other.text, during.turnId]).toEqual([
    result.turnId,
    'one two',
    result.turnId,
  ])
  expect(seen).toEqual(events)
  expect(parts.join('')).toBe('one two')
  const after = submit()
  expect(await readAll(after)).toEqual(events)
  expect((await after.result).messages).toEqual(result.messages)
  expect(provider.requests).toHaveLength(1)
})

test('with `attach` another message or session is refused', async () => {
  const { file } = folder()
  const { engine } = scriptedEngine(['ok'], { ledger: { path: file } })
  closing(engine)
  await engine.run(context({ runId: 'r' })).result
  const currentMessage = { role: 'user' as const, content: 'something else' }
  for (const changes of [{ currentMessage }, { sessionLabel: 'other' }]) {
    const run = engine.run(context({ runId: 'r', onDuplicateRun: 'attach', ...changes }))
    expect(await refusal(run.result)).toEqual(refused)
  }
  expect(
    await refusal((async () => engine.run(context({ onDuplicateRun: 'x' as never })))()),
  ).toEqual({
    code: 'invalid_context',
    field: 'onDuplicateRun',
  })
})

test('aborting an attached run aborts the run', async () => {
  const { file } = folder()
  const steps = [{ text: 'one' }, { gate: 'never' }]
  const { engine } = scriptedEngine([{ steps }], { ledger: { path: file } })
  closing(engine)
  const first = engine.run(context({ runId: 'r' }))
  const { signal, abort } = ((controller) => ({
    signal: controller.signal,
    abort: () => controller.abort(),
  }))(new AbortController())
  const again = engine.run(context({ runId: 'r', onDuplicateRun: 'attach', abortSignal: signal }))
  for await (const { type } of again.events()) if (type === 'token') break
  abort()
  const [one, other] = await Promise.all([first.result, again.result])
  expect([one.stopReason, other.stopReason]).toEqual(['aborted', 'aborted'])
})

test('a submit whose process ended before it had its session runs again', {
  timeout: 60_000,
}, async () => {
  const { file } = folder()
  const steps = [{ text: 'one' }, { gate: 'g' }]
  const { engine, provider } = scriptedEngine([{ steps }, 'two'], { ledger: { path: file } })
  closing(engine)
  const first = engine.run(context({ sessionLabel: 'main' }))
  for await (const { type } of first.events()) if (type === 'token') break
  const child = killable('recovery/events.mjs', [file, 'run', JSON.stringify({ runId: 'r' })])
  while ((await engine.runInfo('r')) === null) await new Promise(setImmediate)
  expect(await engine.runInfo('r')).toMatchObject({
    status: 'waiting',
    process: { pid: child.process.pid, current: false },
  })
  expect(await refusal(engine.run(context({ runId: 'r' })).result)).toEqual(refused)
  child.kill('SIGKILL')
  await child.ended
  waitsEnd(file)
  const again = engine.run(context({ runId: 'r', sessionLabel: 'main' }))
  provider.open('g')
  expect((await again.result).text).toBe('two')
})

/** Two processes that submit the same ids at once, and print what came of each. */
async function submitters(
  file: string,
  onDuplicateRun: string,
): Promise<Record<string, unknown>[][]> {
  const start = (): Killable => killable('runs/submit.mjs', [file, String(ROUNDS), onDuplicateRun])
  const children = [start(), start()]
  await Promise.all(children.map((child) => child.line('ready')))
  for (let round = 0; round < ROUNDS; round++) {
    for (const child of children) child.process.stdin?.write('go\n')
    await Promise.all(children.map((child) => child.count(round + 2)))
  }
  await Promise.all(children.map(({ ended }) => ended))
  return children.map(({ lines }) => lines.slice(1).map((line) => JSON.parse(line)))
}

test(`of two processes that submit the same id at once, ${ROUNDS} times, one is refused, or both have one turn`, {
  timeout: 60_000 + ROUNDS * 2_000,
}, async () => {
  for (const mode of ['attach', 'refuse']) {
    const { file } = folder()
    const [one = [], other = []] = await submitters(file, mode)
    const engine = closing(new AgentEngine({ ledger: { path: file } }))
    const { rows } = await engine.ledger.query('SELECT run_id, id FROM turns ORDER BY id')
    expect(rows).toHaveLength(ROUNDS)
    for (let round = 0; round < ROUNDS; round++) {
      const { run_id: runId, id: turnId } = rows[round] ?? {}
      expect(runId).toBe(`round-${round}`)
      const both = [one[round], other[round]]
      const codes = both.map((each) => each?.code ?? null)
      expect(codes.toSorted()).toEqual(mode === 'attach' ? [null, null] : ['duplicate_run', null])
      const seen = both.filter((each) => each?.code === undefined)
      const expected = { turnId, text: 'one two', last: 'stream_end', gapless: true }
      for (const each of seen) expect(each).toEqual(expected)
      // Only one of them called its model.
    }
    const calls = [one, other].map((lines) => lines.length)
    expect(calls).toEqual([ROUNDS, ROUNDS])
    expect((await engine.ledger.usage({ by: 'session' })).items[0]?.turns).toBe(ROUNDS)
    expect((await engine.ledger.verify()).problems).toEqual([])
  }
})
