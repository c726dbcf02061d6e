// Embedders of the host that fail, are slow or return what cannot be used: words are searched meanwhile, and nothing is lost. It must never
// wait for a time limit of its own.

import { expect, test } from 'vitest'
import type { AgentEngine, EmbedFunction, HostEmbedder } from '../../../index.js'
import { closing, folder } from '../../support/cleanup.js'
import { scriptedEngine, testModel } from '../../support/engine.js'
import { hashed, hashingEmbedder } from '../../support/values/hashing-embedder.js'

function remembering(embedder: EmbedFunction | HostEmbedder, path = folder().file) {
  const defaults = { model: 'test-model', provider: 'test' }
  const replies = Array.from({ length: 10 }, () => ({ text: 'Noted.' }))
  const models = [{ ...testModel, contextWindow: 10_000_000 }]
  const options = { ledger: { path }, memory: { embedder }, defaults, models }
  return closing(scriptedEngine(replies, options).engine)
}

const stats = (engine: AgentEngine) => engine.memory.stats()
const polled = (engine: AgentEngine) =>
  expect.poll(() => stats(engine), { timeout: 30_000, interval: 10 })
const search = (engine: AgentEngine, query: string) =>
  engine.memory.search(query, { session: 'main' })

test('an embedder that fails is called again, and words are found meanwhile', async () => {
  let fails = true
  const engine = remembering(async (texts) => {
    if (fails) throw new Error('no connection')
    return texts.map((text) => hashed(text))
  })
  const { persisted } = await engine.run('Rosebud is here.', { session: 'main' }).result
  expect(persisted).toBe(true)
  const during = await search(engine, 'rosebud')
  expect(during).toMatchObject({ model: null, problem: 'the embedder failed: no connection' })
  expect(during.hits).toMatchObject([{ why: 'words' }])
  await polled(engine).toMatchObject({ problem: 'the embedder failed: no connection' })
  fails = false
  await polled(engine).toMatchObject({ pendingVectors: 0, problem: null })
  expect((await search(engine, 'rosebud')).hits).toMatchObject([{ why: 'both' }])
})

test('a vector with NaN, of other dimensions or missing is skipped and counted, and its text is found by words', async () => {
  const broken: Record<string, Float32Array | number[] | null> = {
    nan: new Float32Array(256).fill(Number.NaN),
    short: [1, 2, 3],
    none: null,
    zero: new Float32Array(256),
  }
  const engine = remembering(async (texts) =>
    texts.map((text) => {
      const [word] = text.split(' ')
      return word in broken ? broken[word] : hashed(text)
    }),
  )
  for (const word of Object.keys(broken)) {
    await engine.run(`${word} rosebud`, { session: 'main' }).result
  }
  await search(engine, 'rosebud')
  await polled(engine).toMatchObject({ pendingVectors: 0, skipped: 4, problem: null })
  expect((await stats(engine)).skippedProblem).toMatch(/^the vector /)
  expect((await search(engine, 'none')).hits.map(({ excerpt }) => excerpt)).toContain(
    'none rosebud',
  )
})

test('an embedder that is slow is given up after `timeoutMs` and called again, and words are found meanwhile', async () => {
  let isSlow = true
  const embed: EmbedFunction = (texts) =>
    isSlow ? new Promise(() => {}) : texts.map((text) => hashed(text))
  const engine = remembering({ embed, dimensions: 256, timeoutMs: 20 })
  expect((await engine.run('Rosebud is here.', { session: 'main' }).result).persisted).toBe(true)
  const problem = 'the embedder did not answer in 20 ms'
  const during = await search(engine, 'rosebud')
  expect(during).toMatchObject({ model: null, problem, hits: [{ why: 'words' }] })
  await polled(engine).toMatchObject({ problem, pendingVectors: 2 })
  isSlow = false
  await polled(engine).toMatchObject({ problem: null, pendingVectors: 0 })
  expect((await search(engine, 'rosebud')).hits).toMatchObject([{ why: 'both' }])
})

test('an answer that is no list of as many vectors is a failure that is shown', async () => {
  for (const [answer, problem] of [
    ['vectors', 'the embedder returned no list of vectors'],
    [[], 'the embedder returned 0 vectors for 1 texts'],
    [['x'], 'the embedder failed: its vector 0 is no list of numbers'],
  ]) {
    const engine = remembering({ dimensions: 256, embed: (async () => answer) as never })
    await engine.run('Rosebud.', { session: 'main' }).result
    expect((await search(engine, 'rosebud')).problem).toBe(problem)
  }
})

test('an embedder whose queries fail is not asked at each search: the searches say so, and those after its next answer have vectors', async () => {
  let isSilent = true
  let queries = 0
  const embed: EmbedFunction = (texts, { isQuery }) => {
    if (isQuery) queries++
    return isSilent ? new Promise(() => {}) : texts.map((text) => hashed(text))
  }
  const engine = remembering({ embed, dimensions: 256, timeoutMs: 20 })
  await engine.run('Rosebud is here.', { session: 'main' }).result
  const problem = 'the embedder did not answer in 20 ms'
  expect((await search(engine, 'rosebud')).problem).toBe(problem)
  expect(queries).toBe(1)
  // A search that finds the pause over asks, and begins a longer one.
  await expect
    .poll(async () => {
      const before = queries
      const found = await search(engine, 'rosebud')
      return { asked: queries - before, problem: found.problem, hits: found.hits.length }
    })
    .toEqual({ asked: 0, problem: `${problem}; it is asked again after a pause`, hits: 1 })
  isSilent = false
  await polled(engine).toMatchObject({ pendingVectors: 0, problem: null })
  expect(await search(engine, 'rosebud')).toMatchObject({ problem: null, hits: [{ why: 'both' }] })
})

test('vectors of another model are not compared, and are made anew', async () => {
  const path = folder().file
  const first = remembering({ model: 'one', embed: hashingEmbedder }, path)
  await first.run('Alice enjoys jasmine.', { session: 'main' }).result
  await search(first, 'jasmine')
  await polled(first).toMatchObject({ pendingVectors: 0 })
  await first.close()
  let isOpen = false
  let open = () => {}
  const gate = new Promise<void>((resolve) => {
    open = resolve
  })
  const embed: EmbedFunction = async (texts, { isQuery }) => {
    if (!isQuery && !isOpen) await gate
    return texts.map((text) => hashed(text, 128))
  }
  const second = remembering({ model: 'two', dimensions: 128, embed }, path)
  expect((await search(second, 'favourite')).hits).toEqual([])
  isOpen = true
  open()
  await polled(second).toMatchObject({ pendingVectors: 0 })
  expect((await search(second, 'favourite')).hits).toMatchObject([{ why: 'vector' }])
  expect((await stats(second)).models).toEqual([
    {
      name: 'one',
      dimensions: 256,
      vectors: 2,
      current: false,
      search: 'scan',
      searchProblem: null,
    },
    {
      name: 'two',
      dimensions: 128,
      vectors: 2,
      current: true,
      search: 'scan',
      searchProblem: null,
    },
  ])
  expect(await second.memory.reindex({ vectors: true })).toEqual({ turns: 0, chunks: 2 })
  await polled(second).toMatchObject({ pendingVectors: 0 })
  expect((await stats(second)).models.map(({ vectors }) => vectors)).toEqual([0, 2])
})

test('the vectors of a former model are deleted by indexing anew, once the new ones are there, and made again where it is used again', async () => {
  const path = folder().file
  const first = remembering({ model: 'one', embed: hashingEmbedder }, path)
  await first.run('Alice enjoys jasmine.', { session: 'main' }).result
  await search(first, 'jasmine')
  await polled(first).toMatchObject({ pendingVectors: 0 })
  await first.close()
  let fails = true
  const embed: EmbedFunction = async (texts) => {
    if (fails) throw new Error('no connection')
    return texts.map((text) => hashed(text, 128))
  }
  const vectors = async (engine: AgentEngine) =>
    (await stats(engine)).models.map(({ name, vectors }) => `${name} ${vectors}`)
  const second = remembering({ model: 'two', dimensions: 128, embed }, path)
  await polled(second).toMatchObject({ pendingVectors: 2, problem: expect.any(String) })
  expect(await second.memory.reindex()).toEqual({ turns: 0, chunks: 0 })
  expect(await vectors(second)).toEqual(['one 2', 'two 0'])
  fails = false
  await polled(second).toMatchObject({ pendingVectors: 0 })
  await second.memory.reindex()
  expect(await vectors(second)).toEqual(['one 0', 'two 2'])
  await second.close()
  const third = remembering({ model: 'one', embed: hashingEmbedder }, path)
  await polled(third).toMatchObject({ pendingVectors: 0 })
  expect((await search(third, 'favourite')).hits).toMatchObject([{ why: 'vector' }])
  expect(await vectors(third)).toEqual(['one 2', 'two 2'])
})

test('a text of more than 1 MB is indexed in bounds', async () => {
  const engine = remembering(hashingEmbedder)
  await engine.run('needle '.repeat(250_000), { session: 'main' }).result
  // A search waits for 3 s at most; the indexer goes on.
  await polled(engine).toMatchObject({ chunks: 768, clippedTurns: 1, turns: 1, pendingTurns: 0 })
})

test('an engine closes while its embedder is silent', async () => {
  const engine = remembering(() => new Promise(() => {}))
  await engine.run('Rosebud.', { session: 'main' }).result
  await engine.close()
})
