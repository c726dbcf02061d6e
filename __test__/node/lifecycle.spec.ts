// The life of a process with an engine: when it may end, what it holds, and what it releases. The processes are children, because
// their end is tested. Workers have a file of their own. It must never end this process.

import { expect, test } from 'vitest'
import { closing, folder, serving } from '../support/cleanup.js'
import { context, engineAt, scriptedEngine } from '../support/engine.js'
import { child, clean } from '../support/processes/child.js'
import { anthropic } from '../support/servers/anthropic.js'
import { sse } from '../support/servers/server.js'

const MIB = 1024 * 1024

test.each([
  ['idle', 'made'],
  ['finished', 'end_turn'],
  ['left', 'left'],
  ['queried', '1'],
  ['closed', 'closed'],
])('a process whose engine is %s ends by itself', async (way, out) => {
  expect(await child('node/exit.mjs', [way, folder().file])).toEqual(clean(`${out}\n`))
})

test('a process without a ledger ends by itself too', async () => {
  expect(await child('node/exit.mjs', ['finished'])).toEqual(clean('end_turn\n'))
})

test.each(['unawaited', 'unawaitedTool', 'unawaitedClose'])(
  'a run that is not awaited holds the process until it has committed (%s)',
  async (way) => {
    const { file } = folder()
    expect(await child('node/exit.mjs', [way, file])).toEqual(clean(''))
    const { engine } = scriptedEngine([], { ledger: { path: file } })
    closing(engine)
    const { rows } = await engine.ledger.query('select run_id, stop_reason from turns')
    expect(rows).toEqual([{ run_id: 'unawaited', stop_reason: 'end_turn' }])
  },
)

test.each(['exit', 'exitInTool', 'exitInCallback', 'exitInCommit', 'exitAtOnce'])(
  'process.exit() in the middle of runs ends the process with its code (%s)',
  async (way) => {
    for (let n = 0; n < 5; n++) {
      const { file } = folder()
      expect(await child('node/exit.mjs', [way, file])).toEqual({
        code: 7,
        signal: null,
        out: '',
        err: '',
      })
      // Whatever was being written then: a turn is stored with its messages, or not at all.
      const { engine } = scriptedEngine([], { ledger: { path: file } })
      const { rows } = await engine.ledger.query(
        'select count(*) as n from turns where id not in (select turn_id from messages)',
      )
      await engine.close()
      expect(rows).toEqual([{ n: 0 }])
    }
  },
)

test('a closed engine holds no connection, and a server that waits for its clients can close', async () => {
  const server = await serving(sse(anthropic.answer('hi')))
  const engine = engineAt(server.url)
  await Promise.all(
    Array.from({ length: 20 }, (_, n) => engine.run(context({ sessionLabel: `s${n}` })).result),
  )
  const left = server.deserted()
  await engine.close()
  await left
})

test('an uncaught error of the host ends the process as it does without an engine', async () => {
  const ended = await child('node/exit.mjs', ['uncaught', folder().file])
  expect({ code: ended.code, signal: ended.signal }).toEqual({ code: 1, signal: null })
  expect(ended.err).toContain('the host fails')
})

test('dropped objects are collected', async () => {
  const ended = await child('node/collect.mjs', [], ['--expose-gc'])
  expect({ ...ended, out: JSON.parse(ended.out || 'null') }).toEqual({
    ...clean(''),
    out: { ended: 0, unread: 0, broken: 0, dropped: 0, refused: 0, engines: 0 },
  })
})

test.each([false, true])(
  'a thousand short runs leave the process where it was (ledger: %s)',
  async (ledger) => {
    const ended = await child('node/flat.mjs', ledger ? [folder().file] : [], ['--expose-gc'])
    expect({ code: ended.code, signal: ended.signal, err: ended.err }).toEqual({
      code: 0,
      signal: null,
      err: '',
    })
    const { heap, rss, resources } = JSON.parse(ended.out)
    // Detects a leak of 1 KiB per run: 600 runs are between the two medians.
    expect(heap).toBeLessThan(0.5 * MIB)
    // Detects a native leak of 14 KiB per run. Caches and compiled code use some 3 MiB.
    expect(rss).toBeLessThan(8 * MIB)
    expect(resources).toEqual([])
  },
)

test('a closed engine refuses runs, and closing again is the same close', async () => {
  const { engine } = scriptedEngine(['x'])
  const first = engine.close()
  expect(engine.close()).toBe(first)
  expect(() => engine.run(context())).toThrow(expect.objectContaining({ code: 'engine_closed' }))
  await first
})

test('close waits for the runs under way, and their ledger', async () => {
  const { file } = folder()
  const { engine, provider } = scriptedEngine([{ gate: 'go', text: 'done' }], {
    ledger: { path: file },
  })
  const run = engine.run(context())
  const order: string[] = []
  const closed = engine.close().then(() => order.push('closed'))
  run.result.then(() => order.push('result'))
  await run.next()
  provider.open('go')
  await closed
  expect(order).toEqual(['result', 'closed'])
  expect(await run.result).toMatchObject({ stopReason: 'end_turn', persisted: true })
})

test('two engines in one process share a ledger file and read each other’s turns', async () => {
  const { file } = folder()
  const one = closing(scriptedEngine(['from one'], { ledger: { path: file } }).engine)
  const two = closing(scriptedEngine(['from two'], { ledger: { path: file } }).engine)
  const first = await one.run(context({ sessionLabel: 's' })).result
  const second = await two.run(context({ sessionLabel: 's' })).result
  expect((await one.ledger.turn(second.turnId))?.parentTurnId).toBe(first.turnId)
  await one.close()
  expect((await two.ledger.turn(first.turnId))?.status).toBe('completed')
})

test('an unused engine opens no socket and does not hold the process', async () => {
  const before = process.getActiveResourcesInfo()
  const engine = engineAt('http://127.0.0.1:1')
  expect(process.getActiveResourcesInfo()).toEqual(before)
  await engine.close()
})
