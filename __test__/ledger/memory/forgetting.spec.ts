// What is forgotten is in no byte of the ledger's files: not its text, not its words, not its vector. It must never read the files while
// a write goes on.

import { existsSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { closing, folder } from '../../support/cleanup.js'
import { scriptedEngine } from '../../support/engine.js'

/** Where the bytes are: the file, its log, and the index of its log. */
const places = (path: string, bytes: Buffer | string) =>
  ['', '-wal', '-shm'].filter((suffix) => {
    const file = path + suffix
    return existsSync(file) && readFileSync(file).includes(bytes)
  })

test('a forgotten fact is found by a search of bytes in no file: neither its text nor its words nor its vector', async () => {
  const path = folder().file
  const embed = async (texts: string[]) =>
    texts.map((text) => Float32Array.of(text.length, 0.123_456, 7.654_321, 1))
  const memory = { embedder: { dimensions: 4, embed } }
  const engine = closing(scriptedEngine([], { ledger: { path }, memory }).engine)
  const scope = { kind: 'global' } as const
  const stays = await engine.memory.storeFact({ entity: 'bob', type: 'pet', content: 'cat', scope })
  const content = { nested: ['xylophone quagga'] }
  const { id } = await engine.memory.storeFact({
    entity: 'ann zebrafish',
    type: 'pet',
    content,
    scope,
  })
  await expect.poll(async () => (await engine.memory.stats()).pendingVectors).toBe(0)
  const { rows } = await engine.ledger.query(
    'SELECT v.vector FROM memory_vectors v JOIN memory_chunks c ON c.n = v.chunk WHERE c.fact_id = ?1',
    [id],
  )
  const vector = Buffer.from(String(rows[0]?.vector), 'hex')
  expect(vector).toHaveLength(16)
  const secrets = ['xylophone quagga', 'zebrafish', vector]
  for (const secret of secrets) expect(places(path, secret)).not.toEqual([])
  expect(await engine.memory.forget({ id })).toMatchObject({ facts: 1, overwritten: true })
  for (const secret of [...secrets, 'xylophone', 'quagga']) expect(places(path, secret)).toEqual([])
  expect((await engine.memory.facts({ all: true })).items).toEqual([stays])
  expect(await engine.ledger.verify()).toMatchObject({ ok: true })
})

test('vectors that were made anew leave no bytes of the former ones behind', async () => {
  const path = folder().file
  let version = 0.123_456
  const embed = async (texts: string[]) =>
    texts.map((text) => Float32Array.of(text.length, version, 7.654_321, 1))
  const memory = { embedder: { dimensions: 4, embed } }
  const engine = closing(scriptedEngine([], { ledger: { path }, memory }).engine)
  const scope = { kind: 'global' } as const
  const about = { entity: 'ann', type: 'pet', scope }
  const { id } = await engine.memory.storeFact({ ...about, content: 'a quagga' })
  const other = await engine.memory.storeFact({ ...about, content: 'a cat' })
  const done = async () =>
    expect.poll(async () => (await engine.memory.stats()).pendingVectors).toBe(0)
  await done()
  const { rows } = await engine.ledger.query('SELECT vector FROM memory_vectors')
  const former = rows.map(({ vector }) => Buffer.from(String(vector), 'hex'))
  expect(former).toHaveLength(2)
  for (const vector of former) expect(places(path, vector)).not.toEqual([])
  version = 0.765_432
  await engine.memory.reindex({ vectors: true })
  await done()
  await engine.memory.forget({ id })
  expect(await engine.memory.facts({ all: true })).toMatchObject({ items: [other] })
  for (const vector of former) expect(places(path, vector)).toEqual([])
})

test('a forgotten turn leaves no chunk, no word and no vector, and with the turn itself deleted no byte of its text', async () => {
  const path = folder().file
  const embed = async (texts: string[]) =>
    texts.map((text) => Float32Array.of(text.length, 0.765_432, 1.234_567, 1))
  const memory = { embedder: { dimensions: 4, embed } }
  const defaults = { model: 'test-model', provider: 'test' }
  const replies = [{ text: 'Noted, xylophone.' }, { text: 'Yes.' }]
  const engine = closing(scriptedEngine(replies, { ledger: { path }, memory, defaults }).engine)
  const { turnId } = await engine.run('The quagga sleeps.', { session: 'gone' }).result
  await engine.run('The cat sleeps.', { session: 'stays' }).result
  await engine.memory.search('quagga', { all: true })
  await expect.poll(async () => (await engine.memory.stats()).pendingVectors).toBe(0)
  const { rows } = await engine.ledger.query(
    'SELECT v.vector FROM memory_vectors v JOIN memory_chunks c ON c.n = v.chunk WHERE c.turn_id = ?1',
    [turnId],
  )
  const vectors = rows.map(({ vector }) => Buffer.from(String(vector), 'hex'))
  expect(vectors).toHaveLength(2)
  expect(await engine.memory.forget({ turnId })).toMatchObject({ turns: 1, chunks: 2 })
  for (const vector of vectors) expect(places(path, vector)).toEqual([])
  // The ledger's own turn stays until it is deleted.
  expect(places(path, 'quagga')).not.toEqual([])
  await engine.ledger.deleteSession('gone', { turns: true, secure: true })
  for (const secret of ['quagga', 'xylophone']) expect(places(path, secret)).toEqual([])
  const { hits } = await engine.memory.search('sleeps', { all: true })
  expect(hits[0]?.excerpt).toBe('The cat sleeps.')
  expect(hits.map(({ sessionLabel }) => sessionLabel)).not.toContain('gone')
})
