// A copy of a ledger, between a file and PostgreSQL: whole, repeated, while turns run, after a kill, and the cut-over. Every turn that was
// acknowledged is in the copy once. It must never wait a fixed time.

import { expect, test } from 'vitest'
import { Broker, type Page, type TurnSummary } from '../../../index.js'
import { pending } from '../../support/approvals.js'
import { closing, folder } from '../../support/cleanup.js'
import { context, scriptedEngine } from '../../support/engine.js'
import { histories } from '../../support/ledger/dump.js'
import { refusal } from '../../support/ledger/sqlite3.js'
import { compactedTurn } from '../../support/ledger/turn-input.js'
import { child } from '../../support/processes/child.js'
import { directions, kindsOfLedgers, open, testOf } from './ledgers.js'

const kinds = kindsOfLedgers()

/** All items of a list. */
async function all(list: (after: string | undefined) => Promise<Page<TurnSummary>>) {
  const ids: string[] = []
  for (let after: string | null | undefined; after !== null; ) {
    const page: Page<TurnSummary> = await list(after)
    ids.push(...page.items.map(({ id }) => id))
    after = page.next
  }
  return ids
}

for (const [from, to] of directions) {
  const live = testOf(from, to)

  live(`${from} is copied to ${to} once, and what is new by the next call`, async () => {
    const source = open(kinds[from]())
    const target = kinds[to]()
    const run = async (sessionLabel: string) =>
      (await source.run(context({ sessionLabel, metadata: { k: 1 } })).result).turnId
    const first = await run('one')
    await run('one')
    await source.ledger.fork(first, 'branch')
    await run('branch')
    const head = (await source.ledger.session('one'))?.threadId as string
    const at = context({ sessionLabel: 'one', parentTurnId: head })
    await source.ledger.writeTurn(at, compactedTurn(first, head))
    await source.ledger.alias('uno', 'one')
    const seen: number[] = []
    const report = await source.ledger.copyTo(target, {
      onProgress: ({ turns }) => seen.push(turns),
    })
    expect(report).toEqual({
      turns: 5,
      skippedTurns: 0,
      comparedTurns: 5,
      sessions: 2,
      behind: 0,
      openTurns: 0,
      verified: true,
      moved: false,
      left: {},
      problems: [],
      truncated: false,
    })
    expect(seen.at(-1)).toBe(5)
    const copy = open(target)
    expect(await histories(copy)).toEqual(await histories(source))
    expect(await copy.ledger.verify()).toMatchObject({ ok: true, problems: [] })
    expect((await copy.ledger.session('uno'))?.label).toBe('one')
    await run('one')
    await run('new')
    expect(await source.ledger.copyTo(target)).toMatchObject({
      turns: 2,
      skippedTurns: 5,
      verified: true,
    })
    expect(await histories(copy)).toEqual(await histories(source))
    // A session that was used in the copy is not moved.
    await copy.run(context({ sessionLabel: 'new' })).result
    await run('new')
    const { problems, verified } = await source.ledger.copyTo(target)
    expect([problems.map(({ code }) => code), verified]).toEqual([['session_exists'], false])
    expect((await copy.ledger.verify()).ok).toBe(true)
  })

  live(`${from} moves to ${to} while four sessions run turns, and loses none`, async () => {
    const source = open(kinds[from](), 20_000, 20)
    const target = kinds[to]()
    const labels = ['s0', 's1', 's2', 's3']
    const acknowledged = new Map<string, string[]>(labels.map((label) => [label, []]))
    let begin = () => {}
    const begun = new Promise<void>((resolve) => {
      begin = resolve
    })
    const refused = labels.map(async (sessionLabel) => {
      const own = acknowledged.get(sessionLabel) as string[]
      for (;;) {
        const outcome = await source.run(context({ sessionLabel })).result.catch((error) => error)
        const code = outcome.code ?? outcome.persistError?.code
        if (code !== undefined) return code
        own.push(outcome.turnId)
        if (own.length === 3) begin()
      }
    })
    await begun
    const copied = await source.ledger.copyTo(target)
    expect(copied.problems).toEqual([])
    const moved = await source.ledger.copyTo(target, { cutOver: true })
    expect(moved).toMatchObject({
      moved: true,
      verified: true,
      behind: 0,
      openTurns: 0,
      problems: [],
    })
    expect(await Promise.all(refused)).toEqual(labels.map(() => 'ledger_moved'))
    const copy = open(target)
    for (const label of labels) {
      const head = (await copy.ledger.session(label))?.threadId as string
      const own = acknowledged.get(label) as string[]
      const chain = await all((after) => copy.ledger.ancestry(head, { after, limit: 1_000 }))
      expect(chain.sort()).toEqual([...own].sort())
      expect(head).toBe(own.at(-1))
      const listed = all((after) => copy.ledger.turns({ sessionLabel: label, after, limit: 1_000 }))
      expect((await listed).sort()).toEqual([...own].sort())
    }
    expect(await copy.ledger.verify()).toMatchObject({ ok: true, problems: [] })
    // Whatever is tried afterwards, the ledger that was moved stays closed.
    const elsewhere = source.ledger.copyTo({ path: folder().file }, { cutOver: true })
    expect((await refusal(elsewhere)).code).toBe('ledger_moved')
    const broker = new Broker(source, {
      agents: { main: { model: 'test-model', provider: 'test' } },
    })
    const head = (await copy.ledger.session('s0'))?.threadId as string
    const changes = [
      source.ledger.alias('a', 's0'),
      source.ledger.createSession('new'),
      source.ledger.fork(head, 'forked'),
      source.ledger.archive('s0'),
      source.ledger.updateSession('s0', { metadata: { a: 1 } }),
      source.ledger.moveSession('s0', acknowledged.get('s0')?.[0] as string),
      broker.send({ to: { session: 's0' }, message: 'a' }),
      broker.send({ to: { thread: head }, message: 'a' }),
      broker.fork(head),
    ]
    const codes = (await Promise.all(changes.map(refusal))).map(({ code }) => code)
    expect(codes).toEqual(changes.map(() => 'ledger_moved'))
    await broker.close()
    expect([await source.ledger.session('new'), await source.ledger.session('forked')]).toEqual([
      null,
      null,
    ])
    expect((await copy.run(context({ sessionLabel: 's0' })).result).persisted).toBe(true)
  })

  live(`a copy of ${from} to ${to} that is killed goes on`, async () => {
    const [path, target] = [kinds[from](), kinds[to]()]
    const source = open(path)
    for (let n = 0; n < 3; n += 1) await source.run(context({ sessionLabel: 'one' })).result
    await source.close()
    // After the turns, and after the ledger was closed for new ones.
    for (const progress of ['4', '5']) {
      const args = [JSON.stringify(path), JSON.stringify(target), progress]
      expect(await child('ledger/copy.mjs', args)).toMatchObject({ signal: 'SIGKILL', err: '' })
    }
    const again = open(path)
    expect((await refusal(again.ledger.alias('a', 'one'))).code).toBe('ledger_moved')
    const moved = await again.ledger.copyTo(target, { cutOver: true })
    expect(moved).toMatchObject({ turns: 0, skippedTurns: 3, moved: true, verified: true })
    expect(await histories(open(target))).toEqual(await histories(again))
  })
}

test('a ledger with an open turn is not moved, and goes on', async () => {
  const script = [{ toolCalls: [{ name: 'pay', arguments: {} }] }, 'free', 'done']
  const engine = closing(scriptedEngine(script, { ledger: { path: folder().file } }).engine)
  const pay = { name: 'pay', permission: 'ask' as const, run: () => 'paid' }
  const run = engine.run(context({ tools: [pay], sessionLabel: 'parked' }))
  const [approval] = await pending(engine)
  const target = { path: folder().file }
  const refused = await refusal(engine.ledger.copyTo(target, { cutOver: true, drainMs: 0 }))
  expect(refused.code).toBe('storage_locked')
  expect((await engine.run(context({ sessionLabel: 'free' })).result).persisted).toBe(true)
  await engine.deny(approval?.id as string)
  expect((await run.result).persisted).toBe(true)
  expect(await engine.ledger.copyTo(target, { cutOver: true })).toMatchObject({
    moved: true,
    turns: 2,
  })
  expect((await refusal(engine.ledger.copyTo({ path: '' }))).code).toBe('invalid_options')
  const wrong = engine.ledger.copyTo(target, { cutover: true } as never)
  expect((await refusal(wrong)).code).toBe('invalid_options')
})
