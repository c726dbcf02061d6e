// The end of all runs of an engine: `abortAll`, and `close` with a grace or at once. It must never assert on time.

import { describe, expect, test } from 'vitest'
import type { CloseOptions } from '../../index.js'
import { closing, folder } from '../support/cleanup.js'
import { context, readAll, scriptedEngine } from '../support/engine.js'

const gated = [{ gate: 'never', text: 'x' }]

function running(count: number) {
  const replies = Array.from({ length: count }, () => gated).flat()
  const { engine, provider } = scriptedEngine(replies, { ledger: { path: folder().file } })
  closing(engine)
  const runs = replies.map((_, index) => engine.run(context({ sessionLabel: `s${index}` })))
  return { engine, provider, runs }
}

const reasons = (runs: { result: Promise<{ stopReason: string }> }[]) =>
  Promise.all(runs.map(async ({ result }) => (await result).stopReason))

test('`abortAll` ends all runs of the engine, which stays usable', async () => {
  const { engine, provider, runs } = running(3)
  await engine.abortAll()
  expect(await reasons(runs)).toEqual(['aborted', 'aborted', 'aborted'])
  await engine.abortAll()
  provider.open('never')
  expect(await reasons([engine.run(context({ sessionLabel: 'new' }))])).not.toEqual(['aborted'])
})

describe('`close`', () => {
  test.each<[string, CloseOptions]>([
    ['with `abort` ends the running runs', { abort: true }],
    ['ends those that still run after the grace', { graceMs: 5 }],
  ])('%s, and each is in the ledger', async (_, options) => {
    const { engine, runs } = running(2)
    await engine.close(options)
    const results = await Promise.all(runs.map(({ result }) => result))
    expect(results.map(({ stopReason, persisted }) => [stopReason, persisted])).toEqual([
      ['aborted', true],
      ['aborted', true],
    ])
  })

  test('waits without options, and aborts when it is called again with `abort`', async () => {
    const { engine, runs } = running(1)
    const closed = engine.close()
    await engine.close({ abort: true })
    await closed
    expect(await reasons(runs)).toEqual(['aborted'])
  })

  test('ends no run that ends within the grace', async () => {
    const { engine, provider, runs } = running(1)
    const closed = engine.close({ graceMs: 600_000 })
    provider.open('never')
    await closed
    expect(await reasons(runs)).toEqual(['end_turn'])
  })

  test.each<[unknown, string]>([
    [null, 'options'],
    [{ graceMs: -1 }, 'graceMs'],
    [{ graceMs: Number.NaN }, 'graceMs'],
    [{ abort: 'yes' }, 'abort'],
    [{ timeout: 5 }, 'timeout'],
  ])('refuses %j', (options, field) => {
    const { engine } = scriptedEngine([])
    closing(engine)
    expect(() => engine.close(options as CloseOptions)).toThrow(
      expect.objectContaining({ code: 'invalid_options', field }),
    )
  })

  test('is what `await using` does', async () => {
    const { engine } = scriptedEngine(['ok'])
    expect((await engine.run(context()).result).text).toBe('ok')
    await engine[Symbol.asyncDispose]()
    expect(() => engine.run(context())).toThrow(expect.objectContaining({ code: 'engine_closed' }))
  })
})

test('a run has the id of its context, and its result the text of its answer', async () => {
  const { engine } = scriptedEngine([{ text: 'Hello.' }, { text: 'Again.' }])
  closing(engine)
  const mine = engine.run(context({ runId: 'mine' }))
  expect(mine.id).toBe('mine')
  expect((await mine.result).text).toBe('Hello.')
  const own = engine.run('Hello?', { model: 'test/test-model' })
  await readAll(own)
  expect(await own.result).toMatchObject({ runId: own.id, text: 'Again.' })
})
