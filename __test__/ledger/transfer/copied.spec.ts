// What a copy takes beside the turns, and what it makes of a session that changed after it was copied. It must never wait a fixed time.

import { expect } from 'vitest'
import { type AgentEngine, Broker } from '../../../index.js'
import { context } from '../../support/engine.js'
import { compactedTurn, plainTurn } from '../../support/ledger/turn-input.js'
import { directions, kindsOfLedgers, open, testOf } from './ledgers.js'

const kinds = kindsOfLedgers()
const agents = { main: { model: 'test-model', provider: 'test' } }

/** The log of a session. */
async function log(engine: AgentEngine, kind: string, label: string): Promise<unknown[]> {
  const table = kind === 'a file' ? 'session_history' : 'session_moves'
  const { rows } = await engine.ledger.query(`SELECT * FROM ${table} ORDER BY changed_at, id`)
  const own = rows.filter((row) => row.session_label === label)
  return own.map((row) => [row.thread_id, row.changed_at])
}

for (const [from, to] of directions) {
  const live = testOf(from, to)

  live(
    `what was forgotten in ${from} is in no search of ${to}, whenever it was copied`,
    async () => {
      const source = open(kinds[from](), 20, 0, { memory: true })
      const target = kinds[to]()
      const say = (content: string) =>
        source.run(context({ sessionLabel: 'one', currentMessage: { role: 'user', content } }))
          .result
      const { turnId } = await say('the quagga sleeps')
      const later = (await say('the quagga wakes')).turnId
      await say('the zebra runs')
      await source.memory.forget({ turnId })
      const copy = open(target, 20, 0, { memory: true })
      await source.ledger.copyTo(target)
      await copy.memory.reindex()
      const found = async (words: string) =>
        (await copy.memory.search(words, { all: true })).hits.map((hit) => hit.turnId)
      expect(await found('quagga')).toEqual([later])
      await source.memory.forget({ turnId: later })
      expect(await source.ledger.copyTo(target, { cutOver: true })).toMatchObject({ moved: true })
      expect(await found('quagga')).toEqual([])
      await copy.memory.reindex()
      expect(await found('quagga')).toEqual([])
      expect(await found('zebra')).toHaveLength(1)
      expect(await copy.ledger.verify()).toMatchObject({ ok: true, problems: [] })
    },
  )

  live(
    `an event that ${from} has answered is a duplicate in ${to}, and suspended queues stay suspended`,
    async () => {
      const source = open(kinds[from]())
      const target = kinds[to]()
      const broker = new Broker(source, { agents })
      const event = { to: { session: 'one' }, message: 'hi', eventId: 'e1' }
      const { turnId } = await broker.execute(event).result
      await broker.suspendQueue('one')
      await broker.suspendQueue('two')
      // A cut-over that fails has copied the suspensions of that time.
      const failed = source.ledger.copyTo(target, {
        cutOver: true,
        onProgress({ comparedTurns }) {
          if (comparedTurns > 0) throw new Error('stop')
        },
      })
      await expect(failed).rejects.toThrow('stop')
      await broker.resumeQueue('one')
      await broker.close()
      expect(await source.ledger.copyTo(target, { cutOver: true })).toMatchObject({ moved: true })
      const copy = open(target)
      const moved = new Broker(copy, { agents })
      expect((await moved.send(event)).disposition).toBe('duplicate')
      expect((await copy.ledger.session('one'))?.threadId).toBe(turnId)
      const waiting = moved.execute({ to: { session: 'two' }, message: 'hi' })
      await waiting.receipt
      // By then the queue of the other session has run its message.
      const next = moved.execute({ to: { session: 'one' }, message: 'hi' })
      expect((await next.result).stopReason).toBe('end_turn')
      expect(await moved.queue('two')).toHaveLength(1)
      await moved.resumeQueue('two')
      expect((await waiting.result).stopReason).toBe('end_turn')
      await moved.close()
      expect(await copy.ledger.verify()).toMatchObject({ ok: true, problems: [] })
    },
  )

  live(`a session that went back in ${from} after it was copied moves to ${to}`, async () => {
    const source = open(kinds[from]())
    const target = kinds[to]()
    const run = async (sessionLabel: string) =>
      (await source.run(context({ sessionLabel })).result).turnId
    const first = await run('cut')
    const second = await run('cut')
    const at = context({ sessionLabel: 'cut', parentTurnId: second })
    const back = [await run('back'), await run('back')]
    await source.ledger.copyTo(target)
    // The pointer goes to a compaction and back.
    await source.ledger.writeTurn(at, compactedTurn(first, second))
    await source.ledger.uncompact('cut')
    for (const turn of back) await source.ledger.moveSession('back', turn)
    expect(await source.ledger.copyTo(target)).toMatchObject({ verified: true, problems: [] })
    expect(await source.ledger.copyTo(target, { cutOver: true })).toMatchObject({ moved: true })
    const copy = open(target)
    for (const label of ['cut', 'back']) {
      const logged = await log(source, from, label)
      expect(logged.length).toBeGreaterThanOrEqual(4)
      expect(await log(copy, to, label)).toEqual(logged)
    }
    expect(await copy.ledger.verify()).toMatchObject({ ok: true, problems: [] })
  })

  live(`turns of many megabytes in ${from} are copied to ${to}`, async () => {
    const source = open(kinds[from]())
    const target = kinds[to]()
    for (const n of [0, 1, 2]) {
      const messages = plainTurn.messages.map((message) => ({
        ...message,
        id: `${message.id}${n}`,
        content: 'lorem ipsum '.repeat(message.role === 'user' || n === 2 ? 1 : 750_000),
      }))
      await source.ledger.writeTurn(context({ sessionLabel: `s${n}` }), { ...plainTurn, messages })
    }
    expect(await source.ledger.copyTo(target, { cutOver: true })).toMatchObject({
      turns: 3,
      comparedTurns: 3,
      moved: true,
    })
  })
}
