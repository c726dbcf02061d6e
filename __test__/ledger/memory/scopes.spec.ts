// Scopes over random sessions, facts and searches: a session finds all that it may see and nothing else, by words, by vectors, in lists, in
// contexts and through its tools. It must never decide by the order of the hits.

import { expect, test } from 'vitest'
import { createMemoryTools, type MemoryScope, type PlainTool } from '../../../index.js'
import { closing, folder } from '../../support/cleanup.js'
import { scriptedEngine } from '../../support/engine.js'
import { hashingEmbedder } from '../../support/values/hashing-embedder.js'
import { random } from '../../support/values/random.js'

const agents = ['atlas', 'nova']
const kinds = ['main', 'dm:ann', 'dm:bob', 'slack:group:g1', 'slack:group:g2']
const sessions = [
  ...agents.flatMap((agent) => kinds.map((kind) => `agent:${agent}:${kind}`)),
  'support',
  'sales',
]
const owners = ['ann']

/** What a session belongs to, as the guide says it. */
function scopeOf(session: string): MemoryScope {
  const [, agent, kind, peer] = session.split(':')
  const isPrivate = kind === 'main' || (kind === 'dm' && peer === 'ann')
  return isPrivate ? { kind: 'persona', id: agent } : { kind: 'session', id: session }
}

/** The scopes that a session sees, as texts. */
function visible(session: string): Set<string> {
  const [, agent] = session.split(':')
  const own = scopeOf(session)
  const all: MemoryScope[] = [own, { kind: 'session', id: session }, { kind: 'global', id: '' }]
  all.push({ kind: 'agent', id: agent ?? 'default' })
  return new Set(all.map(textOf))
}

const textOf = ({ kind, id }: MemoryScope) => `${kind} ${id ?? ''}`

test('over random scopes no search, list or context of a session has what belongs to another, and none misses what is its own', async () => {
  const seed = Number(process.env.SCOPE_SEED ?? 11)
  const below = random(seed)
  const pick = <T>(list: readonly T[]): T => list[below(list.length)] as T
  const memory = { embedder: { embed: hashingEmbedder }, owners }
  const defaults = { model: 'test-model', provider: 'test' }
  const replies = Array.from({ length: 60 }, () => ({ text: 'Yes.' }))
  const ledger = { path: folder().file, synchronous: 'normal' as const }
  const engine = closing(scriptedEngine(replies, { ledger, memory, defaults }).engine)
  /** Where each text belongs. */
  const texts = new Map<string, string>()
  for (let n = 0; n < 60; n++) {
    const session = pick(sessions)
    const text = `Jasmine number n${n} of word${below(9)}.`
    texts.set(text, textOf(scopeOf(session)))
    await engine.run(text, { session }).result
  }
  const facts = new Map<number, string>()
  for (let n = 0; n < 60; n++) {
    const session = pick(sessions)
    const scope = pick<MemoryScope>([
      scopeOf(session),
      { kind: 'session', id: session },
      { kind: 'agent', id: pick(agents) },
      { kind: 'global' },
    ])
    facts.set(n, textOf(scope))
    await engine.memory.storeFact({ entity: `jasmine ${n}`, type: 'is', content: n, scope })
  }
  await engine.memory.search('x', { all: true })
  await expect.poll(async () => (await engine.memory.stats()).pendingVectors).toBe(0)
  let found = 0
  for (const session of sessions) {
    const sees = visible(session)
    const foreign = (scope: MemoryScope) => !sees.has(textOf(scope))
    for (const query of ['jasmine', `n${below(60)} jasmine`, 'favourite', `word${below(9)}`]) {
      const { hits } = await engine.memory.search(query, { session, limit: 100 })
      expect(hits.filter(({ scope }) => foreign(scope)).map(({ excerpt }) => excerpt)).toEqual([])
      for (const { kind, excerpt, role, fact, conflicts } of hits) {
        if (kind === 'turn' && role === 'user')
          expect(sees.has(texts.get(excerpt) ?? '')).toBe(true)
        if (fact !== null) expect(sees.has(facts.get(fact.content as number) ?? '')).toBe(true)
        expect(conflicts.filter(({ scope }) => foreign(scope))).toEqual([])
      }
      found += hits.length
      const context = await engine.memory.context(query, { session, limit: 100, tokens: 10_000 })
      expect(context.hits.filter(({ scope }) => foreign(scope))).toEqual([])
    }
    // What its model gets: the same, and it can end or forget nothing but what is its session's own.
    const [recall, remember, forget] = createMemoryTools(engine, { write: true }) as PlainTool[]
    const call = { sessionLabel: session, turnId: 'x', idempotencyKey: 'x' } as never
    const text = String(await recall?.run({ query: 'jasmine', limit: 20 }, call))
    for (const [, n] of text.matchAll(/jasmine (\d+), is/g)) {
      expect(sees.has(facts.get(Number(n)) ?? '')).toBe(true)
    }
    for (const [, n] of text.matchAll(/number (n\d+) of/g)) {
      const [, scope] = [...texts].find(([said]) => said.includes(` ${n} `)) ?? []
      expect(sees.has(scope ?? '')).toBe(true)
    }
    const all = (await engine.memory.facts({ all: true, limit: 1_000 })).items
    const others = all.filter(({ scope }) => textOf(scope) !== textOf(scopeOf(session)))
    for (const { id } of Array.from({ length: 3 }, () => pick(others))) {
      const next = { entity: 'x', type: 'is', content: 'x', supersedes: id }
      await expect(remember?.run(next, call)).rejects.toThrow(`there is no fact ${id}`)
      expect(await forget?.run({ id }, call)).toBe('Forgotten: 0 facts.')
    }
    const { items } = await engine.memory.facts({ session, limit: 1_000 })
    const own = [...facts].filter(([, scope]) => sees.has(scope)).map(([n]) => n)
    expect(items.map(({ content }) => content)).toEqual(own)
  }
  expect(found).toBeGreaterThan(200)
})
