// Which turns are remembered, however they come into a ledger, and which never are: those that were forgotten while they ran. It must never
// depend on how fast the memory indexes.

import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { AgentEngine, ScriptedReply } from '../../../index.js'
import { closing, folder } from '../../support/cleanup.js'
import { context, scriptedEngine } from '../../support/engine.js'
import { ledgerAt, newLedger } from '../../support/ledger/named.js'
import { fullUsage as usage } from '../../support/ledger/turn-input.js'
import { SUMMARY } from '../../support/values/summary.js'

function remembering(replies: ScriptedReply[], memory: true | undefined = true) {
  const defaults = { model: 'test-model', provider: 'test' }
  const made = scriptedEngine(replies, { ledger: ledgerAt(newLedger()), memory, defaults })
  closing(made.engine)
  return made
}

const found = async (engine: AgentEngine, query: string) =>
  (await engine.memory.search(query, { all: true })).hits.map(({ excerpt }) => excerpt)
const say = (engine: AgentEngine, session: string, text: string) =>
  engine.run(text, { session }).result

test('a turn that a host writes is remembered', async () => {
  const { engine } = remembering([])
  await engine.ledger.writeTurn(context({ runId: 'r', sessionLabel: 'main' }), {
    messages: [
      { id: 'm-1', role: 'user', content: 'The code is rosebud.', sequence: 0, createdAt: 1_000 },
      { id: 'm-2', role: 'assistant', content: 'Noted.', sequence: 1, createdAt: 2_000 },
    ],
    toolCalls: [],
    usage: { ...usage, totalTokens: 3_600 },
    stopReason: 'end_turn',
    durationMs: 50,
  })
  // Without a search, which would index it.
  await expect.poll(async () => (await engine.memory.stats()).turns).toBe(1)
  expect(await found(engine, 'rosebud')).toEqual(['The code is rosebud.'])
})

test('turns that are imported are remembered, but those that were forgotten are not', async () => {
  const { engine: from } = remembering([{ text: 'Noted.' }, { text: 'Noted.' }])
  await say(from, 'one', 'The code is rosebud.')
  const { turnId } = await say(from, 'two', 'The word is quagga.')
  const file = join(folder().path, 'all.jsonl')
  await from.ledger.export(file)
  const { engine } = remembering([])
  await engine.memory.forget({ turnId })
  expect(await engine.ledger.import(file)).toMatchObject({ turns: 2, problems: [] })
  await expect.poll(async () => (await engine.memory.stats()).turns).toBe(1)
  expect(await found(engine, 'rosebud')).toEqual(['The code is rosebud.'])
  expect(await found(engine, 'quagga')).toEqual([])
  expect(await engine.memory.reindex()).toEqual({ turns: 0, chunks: 0 })
})

test('a turn that is forgotten while it runs is not remembered when it ends, nor by indexing anew', async () => {
  const { engine, provider } = remembering([
    { gate: 'a', text: 'Noted, quagga.' },
    { gate: 'b', text: 'Noted, okapi.' },
    { text: 'Noted.' },
  ])
  const runs = ['one', 'two'].map((session) => {
    const run = engine.run(`The word of ${session} is rosebud.`, { session })
    return { run, session }
  })
  await expect.poll(() => provider.requests.length).toBe(2)
  // By its session, and by its id.
  expect(await engine.memory.forget({ session: 'one' })).toMatchObject({ turns: 1 })
  const { items } = await engine.runs({ session: 'two' })
  expect(await engine.memory.forget({ turnId: items[0]?.turnId ?? '' })).toMatchObject({ turns: 1 })
  provider.open('a')
  provider.open('b')
  for (const { run } of runs) expect((await run.result).persisted).toBe(true)
  await say(engine, 'three', 'The word of three is rosebud.')
  expect(await found(engine, 'rosebud')).toEqual(['The word of three is rosebud.'])
  expect(await engine.memory.reindex()).toEqual({ turns: 0, chunks: 0 })
  for (const word of ['quagga', 'okapi']) expect(await found(engine, word)).toEqual([])
})

test('the summaries of all compactions that may quote a forgotten turn are listed, also of a session that was forked', async () => {
  const summary = (about: string) => ({ text: `${SUMMARY}\nIt is about ${about}.` })
  const noted = (count: number) => Array.from({ length: count }, () => ({ text: 'Noted.' }))
  const { engine } = remembering([...noted(6), summary('zebras'), summary('quaggas'), ...noted(1)])
  const long = (n: number) => `Turn ${n}. ${'It goes on. '.repeat(60)}`
  const turns: string[] = []
  for (let n = 0; n < 6; n++) turns.push((await say(engine, 'main', long(n))).turnId)
  await engine.ledger.fork(turns[5] as string, 'side')
  const compacted: string[] = []
  for (const session of ['main', 'side']) {
    expect(await engine.compact(session)).toMatchObject({ turnsSummarized: expect.any(Number) })
    compacted.push((await engine.ledger.session(session))?.threadId ?? '')
  }
  await say(engine, 'other', 'Another session.')
  const { summaries } = await engine.memory.forget({ turnId: turns[0] as string })
  expect(summaries).toEqual(compacted.sort())
  expect((await engine.memory.search('zebras', { all: true })).hits).toEqual([])
})
