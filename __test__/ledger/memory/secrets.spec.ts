// Keys in what is said: the memory stores none of them, in no row and in no byte that only it writes. It must never look at the messages
// of the ledger, which have what was said.

import { existsSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { AgentEngine, type AgentEngineOptions, scriptedProvider } from '../../../index.js'
import { closing, folder } from '../../support/cleanup.js'
import { testModel } from '../../support/engine.js'
import { onPostgres } from '../../support/ledger/named.js'

const KEY = 'canary-of-a-profile-1234567'
const LOOKS = 'sk-looks-like-a-key-7654321'

function engineAt(path: string, memory: AgentEngineOptions['memory'], texts: string[]) {
  return closing(
    new AgentEngine({
      providers: {
        test: scriptedProvider(texts.map((text) => ({ text }))),
        o: { api: 'openai-chat', baseUrl: 'http://127.0.0.1:9' },
      },
      authProfiles: [{ id: 'k', provider: 'o', type: 'api_key', key: KEY }],
      models: [testModel],
      defaults: { provider: 'test', model: 'test-model' },
      ledger: { path },
      memory,
    }),
  )
}

/** Whether the files of a ledger have a text. */
const isInFiles = (path: string, text: string) =>
  [path, `${path}-wal`].some((file) => existsSync(file) && readFileSync(file).includes(text))

test('no row of the memory has a key of a profile, or what looks like one, that was said in a turn', async () => {
  const path = folder().file
  const embedded: string[] = []
  const embed = async (texts: string[]) => {
    embedded.push(...texts)
    return texts.map(() => Float32Array.of(1, 2, 3))
  }
  const memory = { embedder: { dimensions: 3, embed }, observations: ['vault'] }
  const engine = engineAt(path, memory, [`Stored ${LOOKS} and ${KEY}.`])
  await engine.run(`My key is ${KEY}, the other one ${LOOKS} here. Rosebud.`, { session: 'main' })
    .result
  await engine.memory.search('rosebud', { session: 'main' })
  await expect.poll(async () => (await engine.memory.stats()).pendingVectors).toBe(0)
  const { rows } = await engine.ledger.query(
    onPostgres
      ? "SELECT tablename AS name FROM pg_tables WHERE schemaname = current_schema AND tablename LIKE 'memory_%'"
      : "SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'memory_%' AND name NOT LIKE 'memory_words%'",
  )
  expect(rows.length).toBeGreaterThan(8)
  for (const { name } of rows) {
    const table = JSON.stringify((await engine.ledger.query(`SELECT * FROM ${name}`)).rows)
    expect(table).not.toMatch(/canary|looks-like/)
  }
  expect(embedded.join()).toContain('My key is [***]')
  expect(embedded.join()).not.toMatch(/canary|looks-like/)
  const { hits } = await engine.memory.search('rosebud', { session: 'main' })
  expect(hits[0]?.excerpt).toBe('My key is [***], the other one [***] here. Rosebud.')
  for (const word of ['canary', 'looks']) {
    const { hits } = await engine.memory.search(word, { session: 'main' })
    expect(hits.filter(({ why }) => why !== 'vector')).toEqual([])
  }
})

test('an embedder gets no key of a search either', async () => {
  const embedded: string[] = []
  const embed = async (texts: string[]) => {
    embedded.push(...texts)
    return texts.map(() => Float32Array.of(1, 2, 3))
  }
  const engine = engineAt(folder().file, { embedder: { dimensions: 3, embed } }, [])
  const options = { session: 'main', limit: 1 }
  await engine.memory.search(`Is ${KEY} or ${LOOKS} my key?`, options)
  await engine.memory.context(`${KEY} ${'word '.repeat(3_000)} ${LOOKS}`, options)
  expect(embedded[0]).toBe('Is [***] or [***] my key?')
  expect(embedded).toHaveLength(2)
  expect(embedded[1]?.length).toBeLessThanOrEqual(8_192)
  expect(embedded.join()).not.toMatch(/canary|looks-like/)
})

test('a key in a fact is in no byte of the file or its log, however the fact comes', async () => {
  const path = folder().file
  const engine = engineAt(path, true, [])
  const scope = { kind: 'global' } as const
  const fact = {
    entity: `vault ${KEY}`,
    type: 'secret',
    content: { deep: [`x${KEY}x`, LOOKS] },
    scope,
  }
  const stored = await engine.memory.storeFact(fact)
  expect(stored).toMatchObject({ entity: 'vault [***]', content: { deep: ['x[***]x', '[***]'] } })
  const imported = {
    ...stored,
    id: 'other',
    entity: 'b',
    content: KEY,
    scope: { ...scope, id: '' },
  }
  expect(await engine.memory.import([imported])).toEqual({ facts: 1, skipped: 0 })
  await engine.memory.supersede(stored.id, { ...fact, content: `now ${LOOKS}` })
  for (const text of [KEY, LOOKS]) expect(isInFiles(path, text)).toBe(false)
  // What is not secret is found by the same search of bytes.
  expect(isInFiles(path, 'vault [***]')).toBe(true)
})
