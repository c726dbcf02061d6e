// `engine.memory`: what was said and what is known is found again, superseded, forgotten, exported. It must never depend on how fast the
// memory indexes.

import { expect, test } from 'vitest'
import type { AgentEngine, AgentEngineOptions, MemoryFact } from '../../../index.js'
import { closing, folder } from '../../support/cleanup.js'
import { scriptedEngine } from '../../support/engine.js'
import { ledgerAt, newLedger } from '../../support/ledger/named.js'
import { thrown } from '../../support/refusals.js'
import { hashingEmbedder } from '../../support/values/hashing-embedder.js'

/** An engine that remembers, and answers each message with the next of these texts. */
function remembering(answers: string[], memory: AgentEngineOptions['memory'] = true) {
  const options = { ledger: ledgerAt(newLedger()), memory }
  const defaults = { model: 'test-model', provider: 'test' }
  const replies = answers.map((text) => ({ text }))
  return closing(scriptedEngine(replies, { ...options, defaults }).engine)
}

async function say(engine: AgentEngine, session: string, text: string): Promise<string> {
  return (await engine.run(text, { session }).result).turnId
}

/** The error of a refused call. */
const refused = (promise: Promise<unknown>) =>
  promise.then(
    () => expect.fail('it was not refused'),
    ({ code, field, message }) => ({ code, field, message }),
  )

test('what was said is found by its words, with its turn, its role and the reason', async () => {
  const engine = remembering(['Noted.', 'It is sunny.'])
  const turnId = await say(engine, 'main', 'My favourite drink is green tea.')
  await say(engine, 'main', 'How is the weather?')
  const { hits, ...rest } = await engine.memory.search('green tea', { session: 'main' })
  expect(rest).toEqual({ model: null, problem: null })
  expect(hits).toEqual([
    {
      kind: 'turn',
      scope: { kind: 'session', id: 'main' },
      sessionLabel: 'main',
      turnId,
      role: 'user',
      excerpt: 'My favourite drink is green tea.',
      createdAt: expect.any(Number),
      score: expect.any(Number),
      why: 'words',
      fact: null,
      conflicts: [],
    },
  ])
  expect(await engine.memory.stats()).toMatchObject({
    turns: 2,
    chunks: 4,
    pendingTurns: 0,
    models: [],
    problem: null,
  })
})

test('a paraphrased question is found by its vector, and both reasons are named', async () => {
  const engine = remembering(['Noted.', 'Fine.'], { embedder: hashingEmbedder })
  await say(engine, 'main', 'Alice enjoys jasmine.')
  await say(engine, 'main', 'The meeting is on Tuesday.')
  await embedded(engine)
  const found = await engine.memory.search('What is preferred by alice?', { session: 'main' })
  expect(found).toMatchObject({ model: 'host', problem: null })
  expect(found.hits[0]).toMatchObject({ excerpt: 'Alice enjoys jasmine.', why: 'both' })
  const vector = await engine.memory.search('favourite', { session: 'main' })
  expect(vector.hits[0]).toMatchObject({ excerpt: 'Alice enjoys jasmine.', why: 'vector' })
  expect((await engine.memory.stats()).models).toEqual([
    {
      name: 'host',
      dimensions: 256,
      vectors: 4,
      current: true,
      search: 'scan',
      searchProblem: null,
    },
  ])
})

/** Waits until every chunk has its vector. */
async function embedded(engine: AgentEngine): Promise<void> {
  await engine.memory.search('.', { all: true })
  await expect
    .poll(async () => (await engine.memory.stats()).pendingVectors, {
      timeout: 30_000,
      interval: 10,
    })
    .toBe(0)
}

test('a session does not find what another one said', async () => {
  const engine = remembering(['Noted.', 'Noted.'])
  await say(engine, 'agent:atlas:main', 'The safe has the code rosebud.')
  await say(engine, 'agent:atlas:slack:group:g1', 'We talk about rosebud too.')
  const found = async (session: string) =>
    (await engine.memory.search('rosebud', { session })).hits.map(({ excerpt }) => excerpt)
  expect(await found('agent:atlas:slack:group:g1')).toEqual(['We talk about rosebud too.'])
  expect(await found('agent:atlas:main')).toEqual(['The safe has the code rosebud.'])
  expect(await found('agent:nova:main')).toEqual([])
  const all = await engine.memory.search('rosebud', { all: true })
  expect(all.hits).toHaveLength(2)
})

test('a fact is stored once, superseded with its dates, and conflicting ones are shown together', async () => {
  const engine = remembering([])
  const home = { entity: 'alice', type: 'home', scope: { kind: 'global' as const } }
  const rome = await engine.memory.storeFact({ ...home, content: 'Rome', validFrom: 1_000 })
  expect(rome).toMatchObject({ ...home, content: 'Rome', confidence: 1, validTo: null })
  expect(await engine.memory.storeFact({ ...home, content: 'Rome' })).toEqual(rome)
  const oslo = await engine.memory.storeFact({ ...home, content: { city: 'Oslo' } })
  const { hits } = await engine.memory.search('Oslo', { session: 'any' })
  expect(hits).toHaveLength(1)
  expect(hits[0]).toMatchObject({ kind: 'fact', fact: oslo, conflicts: [rome] })
  const next = await engine.memory.supersede(rome.id, {
    ...home,
    content: 'Bern',
    validFrom: 5_000,
  })
  const listed = await engine.memory.facts({ all: true, entity: 'alice', superseded: true })
  expect(
    listed.items.map(({ id, validTo, supersededBy }) => ({ id, validTo, supersededBy })),
  ).toEqual([
    { id: rome.id, validTo: 5_000, supersededBy: next.id },
    { id: oslo.id, validTo: null, supersededBy: null },
    { id: next.id, validTo: null, supersededBy: null },
  ])
  expect(
    await refused(engine.memory.supersede(rome.id, { ...home, content: 'Paris' })),
  ).toMatchObject({
    code: 'unknown_fact',
  })
})

test('an entity is the same whatever the case of its letters: in lists, conflicts, what is known and what is forgotten', async () => {
  const engine = remembering([])
  const scope = { kind: 'global' as const }
  const about = { type: 'home', scope }
  const rome = await engine.memory.storeFact({ ...about, entity: 'Alice', content: 'Rome' })
  expect(await engine.memory.storeFact({ ...about, entity: 'ALICE', content: 'Rome' })).toEqual(
    rome,
  )
  const oslo = await engine.memory.storeFact({ ...about, entity: 'alice', content: 'Oslo' })
  await engine.memory.storeFact({ ...about, entity: 'alicia', content: 'Bern' })
  const { hits } = await engine.memory.search('Oslo', { all: true })
  expect(hits).toMatchObject([{ fact: oslo, conflicts: [rome] }])
  const { items } = await engine.memory.facts({ all: true, entity: 'aLiCe' })
  expect(items).toEqual([rome, oslo])
  const named = await engine.memory.facts({ all: true, id: rome.id, entity: 'aLiCe' })
  expect(named.items).toEqual([rome])
  expect(await engine.memory.forget({ entity: 'ALICE' })).toMatchObject({ facts: 2 })
  expect((await engine.memory.facts({ all: true })).items).toMatchObject([{ entity: 'alicia' }])
})

test('a text without words is indexed, and a search without words finds nothing', async () => {
  const engine = remembering(['…'], { embedder: hashingEmbedder })
  await say(engine, 'main', '…!')
  await engine.memory.storeFact({ entity: '!', type: '?', content: '', session: 'main' })
  await embedded(engine)
  for (const query of ['. .', '!?', '…']) {
    const { hits, problem } = await engine.memory.search(query, { session: 'main', minScore: 0 })
    expect(hits.filter(({ why }) => why !== 'vector')).toEqual([])
    expect(problem).toBe(null)
  }
  expect(await engine.memory.stats()).toMatchObject({ turns: 1, facts: 1, pendingTurns: 0 })
})

test('a fact of a session is seen where the session is seen', async () => {
  const engine = remembering([])
  const fact = { entity: 'bob', type: 'likes', content: 'chess' }
  await engine.memory.storeFact({ ...fact, session: 'agent:atlas:main' })
  const count = async (session: string) => (await engine.memory.facts({ session })).items.length
  expect(await count('agent:atlas:main')).toBe(1)
  expect(await count('agent:atlas:slack:group:g')).toBe(0)
})

test('what is forgotten is not found, not indexed and not imported again', async () => {
  const engine = remembering(['Noted.', 'Noted.'])
  const turnId = await say(engine, 'main', 'The code is rosebud.')
  const scope = { kind: 'session' as const, id: 'main' }
  const source = { turnId }
  const fact = { entity: 'code', type: 'value', content: 'rosebud', scope, source }
  await engine.memory.storeFact(fact)
  const saved: MemoryFact[] = []
  for await (const each of engine.memory.export()) saved.push(each)
  expect(saved).toMatchObject([{ entity: 'code', source: { turnId } }])
  await engine.memory.search('rosebud', { session: 'main' })
  expect(await engine.memory.forget({ turnId })).toEqual({
    turns: 1,
    facts: 1,
    chunks: 3,
    summaries: [],
    overwritten: true,
  })
  expect((await engine.memory.search('rosebud', { session: 'main' })).hits).toEqual([])
  expect(await engine.memory.reindex()).toEqual({ turns: 0, chunks: 0 })
  expect(await engine.memory.import(saved)).toEqual({ facts: 0, skipped: 1 })
  expect(await engine.memory.stats()).toMatchObject({ forgotten: 2, facts: 0, chunks: 0 })
})

test('facts are imported into another memory with their ids', async () => {
  const [from, to] = [remembering([]), remembering([])]
  const scope = { kind: 'agent' as const, id: 'atlas' }
  for (const content of [1, 2, 3]) {
    await from.memory.storeFact({ entity: 'n', type: 'is', content, scope })
  }
  expect(await to.memory.import(from.memory.export())).toEqual({ facts: 3, skipped: 0 })
  expect(await to.memory.import(from.memory.export())).toEqual({ facts: 0, skipped: 3 })
  const all = { all: true, entity: 'n' }
  expect((await to.memory.facts(all)).items).toEqual((await from.memory.facts(all)).items)
})

test('turns from before an engine had a memory are indexed when that is asked for', async () => {
  const ledger = ledgerAt(newLedger())
  const defaults = { model: 'test-model', provider: 'test' }
  const plain = scriptedEngine([{ text: 'Noted.' }], { ledger, defaults }).engine
  await say(plain, 'main', 'An old secret: rosebud.')
  await plain.close()
  const engine = closing(scriptedEngine([], { ledger, defaults, memory: true }).engine)
  const search = async () => (await engine.memory.search('rosebud', { session: 'main' })).hits
  expect(await search()).toEqual([])
  expect(await engine.memory.reindex()).toEqual({ turns: 1, chunks: 0 })
  expect(await search()).toHaveLength(1)
})

test('a turn that a process left behind is indexed by the next one', async () => {
  const ledger = ledgerAt(newLedger())
  const defaults = { model: 'test-model', provider: 'test' }
  const options = { ledger, defaults, memory: true }
  const first = scriptedEngine([{ text: 'Noted.' }], options).engine
  await say(first, 'main', 'Remember rosebud.')
  await first.close()
  const second = closing(scriptedEngine([], options).engine)
  expect((await second.memory.search('rosebud', { session: 'main' })).hits).toHaveLength(1)
  expect((await second.memory.stats()).turns).toBe(1)
})

test('a context has lines with date and source, of at most five turns of 200 characters', async () => {
  const engine = remembering(Array.from({ length: 8 }, () => 'Noted.'))
  for (let n = 0; n < 8; n++) await say(engine, 'main', `Rosebud ${n}: ${`word${n} `.repeat(100)}`)
  const { text, hits } = await engine.memory.context('rosebud', { session: 'main', limit: 20 })
  const lines = text.split('\n')
  expect(lines).toHaveLength(5)
  expect(hits).toHaveLength(5)
  expect(lines[0]).toMatch(/^- \[\d{4}-\d{2}-\d{2}, user in main\] "Rosebud \d: [^"]+…"$/)
  expect(Math.max(...lines.map(({ length }) => length))).toBeLessThan(250)
  const short = await engine.memory.context('rosebud', { session: 'main', tokens: 70 })
  expect(short.text.split('\n')).toHaveLength(1)
  expect(await engine.memory.context('nothing', { session: 'other' })).toMatchObject({ text: '' })
})

test('a wrong option, filter or fact is refused by its path, and nothing is written', async () => {
  const path = folder().file
  const at = (memory: unknown) =>
    thrown(() => scriptedEngine([], { ledger: { path }, memory: memory as never }))
  expect(at({ scope: 'all' })).toMatchObject({ code: 'invalid_options', field: 'memory.scope' })
  expect(at({ embedder: {} })).toMatchObject({ field: 'memory.embedder.embed' })
  expect(at({ embedder: { embed: () => [], dimensions: 0 } })).toMatchObject({
    field: 'memory.embedder.dimensions',
  })
  expect(at([])).toMatchObject({ field: 'memory' })
  expect(thrown(() => scriptedEngine([], { memory: true }))).toMatchObject({ field: 'memory' })
  const plain = closing(scriptedEngine([]).engine)
  expect(thrown(() => plain.memory)).toMatchObject({ code: 'no_memory' })
  const { memory } = remembering([])
  const session = { session: 's' }
  for (const [call, field] of [
    [() => memory.search('x', {}), 'session'],
    [() => memory.search('x', { ...session, all: true }), 'session'],
    [() => memory.search('x', { ...session, limit: 0 }), 'limit'],
    [() => memory.search('x', { ...session, minScore: 2 }), 'minScore'],
    [() => memory.search('x', { ...session, kinds: ['note' as never] }), 'kinds[0]'],
    [() => memory.search('x', { ...session, depth: 1 } as never), 'depth'],
    [() => memory.search(7 as never, session), 'query'],
    [() => memory.context('x', { ...session, tokens: 0 }), 'tokens'],
    [() => memory.forget({}), 'options'],
    [() => memory.forget({ id: 'a', entity: 'b' }), 'options'],
    [() => memory.storeFact({ entity: '', type: 't', content: 1, session: 's' }), 'entity'],
    [() => memory.storeFact({ entity: 'e', type: 't', content: 1 }), 'scope'],
    [
      () => memory.storeFact({ entity: 'e', type: 't', content: 1, session: 's', confidence: 2 }),
      'confidence',
    ],
    [
      () => memory.storeFact({ entity: 'e', type: 't', content: 'x'.repeat(70_000), session: 's' }),
      'content',
    ],
    [() => memory.summary('s', { now: true } as never), 'now'],
  ] as const) {
    const error = await refused(call())
    expect({ code: error.code, field: error.field }).toEqual({ code: 'invalid_options', field })
  }
  expect(await memory.stats()).toMatchObject({ facts: 0, turns: 0 })
})
