// Salvage of a ledger with a memory: facts are saved as they were, what was forgotten stays so, and turns are indexed anew. It must never
// write to the damaged file.

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { type AgentEngine, type MemoryFact, salvageLedger } from '../../../index.js'
import { closing, folder } from '../../support/cleanup.js'
import { scriptedEngine } from '../../support/engine.js'
import { hashingEmbedder } from '../../support/values/hashing-embedder.js'

function remembering(path: string) {
  const replies = Array.from({ length: 10 }, () => ({ text: 'Noted.' }))
  const options = { ledger: { path }, memory: { embedder: { embed: hashingEmbedder } } }
  const defaults = { model: 'test-model', provider: 'test' }
  return closing(scriptedEngine(replies, { ...options, defaults }).engine)
}

const all = async (engine: AgentEngine): Promise<MemoryFact[]> => {
  const facts: MemoryFact[] = []
  for await (const fact of engine.memory.export()) facts.push(fact)
  return facts
}
const found = async (engine: AgentEngine, query: string) =>
  (await engine.memory.search(query, { all: true })).hits
    .filter(({ why }) => why !== 'vector')
    .map(({ kind, excerpt }) => [kind, excerpt])

/** A closed ledger with facts and turns, one of each forgotten; its file, and the facts that it has. */
async function filled(path: string) {
  const engine = remembering(path)
  const { memory } = engine
  const global = { kind: 'global' } as const
  const group = { kind: 'session', id: 'group' } as const
  const rome = await memory.storeFact({
    entity: 'ann',
    type: 'home',
    content: 'Rome',
    scope: global,
  })
  const oslo = { entity: 'ann', type: 'home', content: { city: 'Oslo', since: 2 }, scope: global }
  await memory.supersede(rome.id, { ...oslo, confidence: 0.5 })
  await memory.storeFact({ entity: 'bob', type: 'pet', content: 'zebra', scope: group })
  const gone = await memory.storeFact({
    entity: 'bob',
    type: 'car',
    content: 'quagga',
    scope: group,
  })
  await engine.run('The code is rosebud.', { session: 'main' }).result
  const { turnId } = await engine.run('Forget the xylophone.', { session: 'main' }).result
  await memory.forget({ id: gone.id })
  await memory.forget({ turnId })
  expect(await found(engine, 'rosebud')).toEqual([['turn', 'The code is rosebud.']])
  const facts = await all(engine)
  expect(facts).toHaveLength(3)
  await engine.close()
  return { facts, gone, oslo }
}

test('facts are salvaged as they were, what was forgotten stays so, and turns are indexed and embedded anew', async () => {
  const { path, file } = folder()
  const { facts, gone } = await filled(file)
  const to = join(path, 'fresh.db')
  expect(await salvageLedger(file, to)).toMatchObject({
    turns: 2,
    facts: 3,
    indexedTurns: 1,
    problems: [],
  })
  const engine = remembering(to)
  expect(await all(engine)).toEqual(facts)
  expect(await found(engine, 'rosebud')).toEqual([['turn', 'The code is rosebud.']])
  expect(await found(engine, 'zebra')).toEqual([['fact', 'bob pet: zebra']])
  expect(await found(engine, 'oslo')).toHaveLength(1)
  // One that was superseded, and what was forgotten.
  for (const word of ['rome', 'quagga', 'xylophone']) expect(await found(engine, word)).toEqual([])
  await expect.poll(async () => (await engine.memory.stats()).pendingVectors).toBe(0)
  expect(await engine.memory.reindex()).toEqual({ turns: 0, chunks: 0 })
  expect(await engine.memory.import([gone])).toEqual({ facts: 0, skipped: 1 })
  expect(await engine.ledger.verify()).toMatchObject({ ok: true, problems: [] })
})

test('a fact that is not as it was written is lost and reported, and the others are saved', async () => {
  const { path, file } = folder()
  const { facts } = await filled(file)
  const bytes = readFileSync(file)
  // In every copy: the fact's content, and the text that is searched.
  for (let at = bytes.indexOf('zebra'); at >= 0; at = bytes.indexOf('zebra', at + 1)) {
    bytes.write('zebro', at)
  }
  writeFileSync(file, bytes)
  const to = join(path, 'fresh.db')
  const saved = await salvageLedger(file, to)
  const [, , zebra] = facts
  expect(saved).toMatchObject({ facts: 2, indexedTurns: 1 })
  expect(saved.problems.map(({ message }) => message)).toEqual([
    `fact \`${zebra?.id}\` is not as it was written, or its scope is lost`,
  ])
  expect(await all(remembering(to))).toEqual(facts.slice(0, 2))
})
