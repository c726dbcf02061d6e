// Who closes a ledger, and what that refuses: only the call of `copyTo` that has closed it finishes the move or opens it again, and a
// ledger is never moved to itself. It must never wait a fixed time.

import { symlinkSync } from 'node:fs'
import { expect, test } from 'vitest'
import { type AgentEngine, Broker, type LedgerCopy } from '../../../index.js'
import { closing, folder } from '../../support/cleanup.js'
import { context, scriptedEngine } from '../../support/engine.js'
import { histories } from '../../support/ledger/dump.js'
import { refusal } from '../../support/ledger/sqlite3.js'
import { compactedTurn } from '../../support/ledger/turn-input.js'
import { directions, kindsOfLedgers, open, testOf } from './ledgers.js'

type Target = Parameters<AgentEngine['ledger']['copyTo']>[0]

const kinds = kindsOfLedgers()

/** A session with a turn under way that waits for `end`. */
async function withOpenTurn(ledger: Target) {
  const script = [{ toolCalls: [{ name: 'wait', arguments: {} }] }, 'done', 'more']
  const engine = closing(scriptedEngine(script, { ledger }).engine)
  let end = () => {}
  const ended = new Promise<string>((resolve) => {
    end = () => resolve('ended')
  })
  let begin = () => {}
  const begun = new Promise<void>((resolve) => {
    begin = resolve
  })
  const run = () => {
    begin()
    return ended
  }
  const { result } = engine.run(context({ sessionLabel: 'one', tools: [{ name: 'wait', run }] }))
  await begun
  return { engine, end, result }
}

/** A cut-over that waits for a turn under way; `closed` resolves when it has closed the ledger. */
function cutOver(engine: AgentEngine, target: Target) {
  const abort = new AbortController()
  let close = () => {}
  const closed = new Promise<void>((resolve) => {
    close = resolve
  })
  let reports = 0
  const options = {
    cutOver: true,
    signal: abort.signal,
    // One for each part: the target is another ledger, what is open, notes, turns, and the ledger is closed.
    onProgress() {
      reports += 1
      if (reports === 5) close()
    },
  }
  const outcome: Promise<LedgerCopy | Error> = engine.ledger
    .copyTo(target, options)
    .catch((error) => error)
  return { outcome, closed, abort }
}

/** Two cut-overs of a ledger whose open turn they wait for, the second of which has closed it last. */
async function twoCutOvers(from: Target, target: Target) {
  const { engine, end, result } = await withOpenTurn(from)
  const first = cutOver(engine, target)
  await first.closed
  const second = cutOver(engine, target)
  await second.closed
  return { engine, end, result, first, second }
}

for (const [from, to] of directions) {
  const live = testOf(from, to)

  live(
    `${from} that a second call has closed stays closed when the first one ends, and moves to ${to}`,
    async () => {
      const target = kinds[to]()
      const { engine, end, result, first, second } = await twoCutOvers(kinds[from](), target)
      first.abort.abort()
      expect(await first.outcome).toMatchObject({ name: 'AbortError' })
      expect((await refusal(engine.ledger.alias('uno', 'one'))).code).toBe('ledger_moved')
      end()
      expect((await result).persisted).toBe(true)
      expect(await second.outcome).toMatchObject({ moved: true, verified: true, turns: 1 })
      expect((await refusal(engine.ledger.alias('uno', 'one'))).code).toBe('ledger_moved')
      expect(await histories(open(target))).toEqual(await histories(engine))
    },
  )

  live(
    `a call whose closed ledger in ${from} was opened again moves nothing to ${to}`,
    async () => {
      const target = kinds[to]()
      const { engine, end, result, first, second } = await twoCutOvers(kinds[from](), target)
      second.abort.abort()
      expect(await second.outcome).toMatchObject({ name: 'AbortError' })
      end()
      expect((await result).persisted).toBe(true)
      expect(await first.outcome).toMatchObject({
        code: 'storage_locked',
        message: expect.stringContaining('another call of `copyTo`'),
      })
      // The ledger is open, and another call moves what was added.
      expect((await engine.run(context({ sessionLabel: 'two' })).result).persisted).toBe(true)
      expect(await engine.ledger.copyTo(target, { cutOver: true })).toMatchObject({ moved: true })
      expect(await histories(open(target))).toEqual(await histories(engine))
    },
  )
}

for (const kind of ['a file', 'PostgreSQL'] as const) {
  testOf(kind)(`a ledger in ${kind} is not copied to itself, and stays open`, async () => {
    const options = kinds[kind]()
    const engine = open(options)
    await engine.run(context()).result
    const others = []
    if ('path' in options) {
      const link = folder().file
      symlinkSync(options.path, link)
      others.push({ path: link })
    } else {
      const url = `${options.url}${options.url.includes('?') ? '&' : '?'}application_name=other`
      others.push({ ...options, url })
    }
    for (const target of [options, ...others]) {
      for (const cutOver of [true, false]) {
        const refused = await refusal(engine.ledger.copyTo(target, { cutOver }))
        expect([refused.code, refused.field]).toEqual(['invalid_options', 'target'])
      }
    }
    expect((await engine.run(context()).result).persisted).toBe(true)
  })

  testOf(kind)(
    `a run of ${kind} without a journal is not waited for, and its turn is refused`,
    async () => {
      const { engine, end, result } = await withOpenTurn({ ...kinds[kind](), journal: 'final' })
      const moved = engine.ledger.copyTo({ path: folder().file }, { cutOver: true })
      expect(await moved).toMatchObject({ moved: true, turns: 0 })
      end()
      const { persisted, persistError } = await result
      expect([persisted, persistError?.code]).toEqual([false, 'ledger_moved'])
    },
  )

  testOf(kind)(
    `a ledger in ${kind} that was moved is neither compacted nor uncompacted`,
    async () => {
      const engine = open(kinds[kind]())
      const run = async () => (await engine.run(context({ sessionLabel: 'one' })).result).turnId
      const first = await run()
      const second = await run()
      const at = context({ sessionLabel: 'one', parentTurnId: second })
      await engine.ledger.writeTurn(at, compactedTurn(first, second))
      for (let n = 0; n < 6; n += 1) await run()
      const broker = new Broker(engine, {
        agents: { main: { model: 'test-model', provider: 'test' } },
      })
      await broker.suspendQueue('two')
      const before = await engine.ledger.session('one')
      await engine.ledger.copyTo({ path: folder().file }, { cutOver: true })
      const changes = [
        engine.compact('one'),
        engine.ledger.uncompact('one'),
        broker.suspendQueue('one'),
        broker.resumeQueue('two'),
      ]
      const codes = (await Promise.all(changes.map(refusal))).map(({ code }) => code)
      expect(codes).toEqual(changes.map(() => 'ledger_moved'))
      await broker.close()
      expect(await engine.ledger.session('one')).toEqual(before)
    },
  )
}

test('a backup of the ledger has its id, and is another ledger', async () => {
  const engine = open({ path: folder().file })
  await engine.run(context()).result
  const { file: path } = folder()
  await engine.ledger.backup(path)
  await engine.run(context()).result
  expect(await engine.ledger.copyTo({ path }, { cutOver: true })).toMatchObject({
    turns: 1,
    moved: true,
  })
})
