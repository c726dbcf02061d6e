// Embeddings of the engine's providers: the requests, the keys, and what a failing server costs. It must never call a real server.

import { expect, test } from 'vitest'
import { AgentEngine, type AgentEngineOptions } from '../../../index.js'
import { closing, folder, serving } from '../../support/cleanup.js'
import { thrown } from '../../support/refusals.js'
import { expectedSignature } from '../../support/servers/bedrock.js'
import { type Handler, status } from '../../support/servers/server.js'
import { hashed } from '../../support/values/hashing-embedder.js'
import { price } from '../../support/values/prices.js'

const fact = {
  entity: 'alice',
  type: 'likes',
  content: 'jasmine',
  scope: { kind: 'global' as const },
}

function engineAt(url: string, embedder: unknown, options: Partial<AgentEngineOptions> = {}) {
  return closing(
    new AgentEngine({
      providers: {
        openai: { baseUrl: `${url}/v1` },
        google: { baseUrl: url },
        ollama: { baseUrl: `${url}/v1` },
        anthropic: { baseUrl: url },
      },
      authProfiles: [
        { id: 'o', provider: 'openai', type: 'api_key', key: 'sk-openai-canary' },
        { id: 'g', provider: 'google', type: 'api_key', key: 'google-canary' },
      ],
      ledger: { path: folder().file },
      memory: { embedder: embedder as never },
      ...options,
    }),
  )
}

const stats = (engine: AgentEngine) => engine.memory.stats()
const polled = (engine: AgentEngine) =>
  expect.poll(() => stats(engine), { timeout: 30_000, interval: 10 })

const ofOpenai = (texts: string[]) =>
  status(200, {
    object: 'list',
    data: texts.map((text, index) => ({ index, embedding: [...hashed(text, 64)] })),
    usage: { prompt_tokens: 7, total_tokens: 7 },
  })

test('OpenAI’s embeddings are requested with the engine’s key, and their tokens are counted and priced', async () => {
  const server = await serving((response, seen) => ofOpenai(seen.body.input)(response, seen))
  const embedder = { provider: 'openai', model: 'my-embedding', dimensions: 64 }
  const models = [
    {
      provider: 'openai',
      id: 'my-embedding',
      contextWindow: 8_192,
      cost: { ...price, input: 2, output: 0 },
    },
  ]
  const engine = engineAt(server.url, embedder, { models })
  await engine.memory.storeFact(fact)
  await polled(engine).toMatchObject({ pendingVectors: 0, embeddedTokens: 7, problem: null })
  expect((await stats(engine)).cost).toBeCloseTo(14e-6, 12)
  const [{ path, headers, body }] = server.seen
  expect({ path, body, key: headers.authorization }).toEqual({
    path: '/v1/embeddings',
    body: { model: 'my-embedding', input: ['alice likes: jasmine'], dimensions: 64 },
    key: 'Bearer sk-openai-canary',
  })
  const { hits, model } = await engine.memory.search('favourite', { all: true })
  expect({ model, hits }).toMatchObject({
    model: 'openai/my-embedding',
    hits: [{ why: 'vector', fact: { content: 'jasmine' } }],
  })
})

test('Google’s embeddings are requested by their task', async () => {
  const server = await serving((response, seen) =>
    status(200, {
      embeddings: seen.body.requests.map(({ content }: any) => ({
        values: [...hashed(content.parts[0].text, 64)],
      })),
    })(response, seen),
  )
  const engine = engineAt(server.url, {
    provider: 'google',
    model: 'gemini-embedding-001',
    dimensions: 64,
  })
  await engine.memory.storeFact(fact)
  await polled(engine).toMatchObject({ pendingVectors: 0 })
  await engine.memory.search('jasmine', { all: true })
  expect(server.seen.map(({ path, body }) => [path, body.requests[0].taskType])).toEqual([
    ['/v1beta/models/gemini-embedding-001:batchEmbedContents', 'RETRIEVAL_DOCUMENT'],
    ['/v1beta/models/gemini-embedding-001:batchEmbedContents', 'RETRIEVAL_QUERY'],
  ])
})

test('Bedrock’s models are called with signed requests: one text each for Titan, all of them for Cohere', async () => {
  const secretAccessKey = 'secret-canary-0123456789'
  const key = { accessKeyId: 'AKIDEXAMPLE', secretAccessKey }
  for (const [model, path, bodies] of [
    [
      'amazon.titan-embed-text-v2:0',
      '/model/amazon.titan-embed-text-v2%3A0/invoke',
      ['alice likes: jasmine', 'alice likes: chess', 'favourite'].map((inputText) => ({
        inputText,
        dimensions: 64,
      })),
    ],
    [
      'cohere.embed-english-v3',
      '/model/cohere.embed-english-v3/invoke',
      [
        [['alice likes: jasmine', 'alice likes: chess'], 'search_document'],
        [['favourite'], 'search_query'],
      ].map(([texts, input_type]) => ({ texts, input_type, truncate: 'END' })),
    ],
  ] as const) {
    const server = await serving((response, seen) => {
      const { inputText, texts } = seen.body
      const vector = (text: string) => [...hashed(text, 64)]
      const answer = texts
        ? { embeddings: texts.map(vector) }
        : { embedding: vector(inputText), inputTextTokenCount: 3 }
      return status(200, answer)(response, seen)
    })
    const at = folder().file
    const plain = engineAt(server.url, undefined, { ledger: { path: at }, memory: true })
    for (const content of ['jasmine', 'chess']) await plain.memory.storeFact({ ...fact, content })
    await plain.close()
    const engine = engineAt(
      server.url,
      { provider: 'aws', model, dimensions: 64 },
      {
        providers: {
          aws: { api: 'bedrock-converse', region: 'eu-west-1', baseUrl: server.url },
        },
        authProfiles: [{ id: 'a', provider: 'aws', type: 'aws', key }],
        ledger: { path: at },
      },
    )
    await polled(engine).toMatchObject({ pendingVectors: 0, problem: null })
    const { hits } = await engine.memory.search('favourite', { all: true })
    expect(hits[0]).toMatchObject({ why: 'vector' })
    expect(server.seen.map(({ path, body }) => [path, body])).toEqual(
      bodies.map((body) => [path, body]),
    )
    for (const seen of server.seen) {
      const wanted = expectedSignature(seen, 'AKIDEXAMPLE', secretAccessKey, 'eu-west-1')
      expect(seen.headers.authorization).toBe(wanted)
      expect(JSON.stringify(seen.headers) + seen.raw).not.toContain(secretAccessKey)
    }
    // Cohere does not report its tokens: they are estimated.
    expect((await stats(engine)).embeddedTokens).toBe(model.startsWith('amazon') ? 6 : 10)
  }
})

test('Vertex is called below the project of its base URL, with a bearer token', async () => {
  const project = '/v1/projects/p/locations/europe-west4'
  const server = await serving((response, seen) =>
    status(200, {
      predictions: seen.body.instances.map(({ content }: { content: string }) => ({
        embeddings: { values: [...hashed(content, 64)], statistics: { token_count: 3 } },
      })),
    })(response, seen),
  )
  const engine = engineAt(
    server.url,
    { provider: 'google', model: 'text-embedding-005', dimensions: 64 },
    {
      providers: { google: { baseUrl: `${server.url}${project}` } },
      authProfiles: [{ id: 'v', provider: 'google', type: 'token', key: 'ya29.canary-0123' }],
    },
  )
  await engine.memory.storeFact(fact)
  await polled(engine).toMatchObject({ pendingVectors: 0, embeddedTokens: 3, problem: null })
  const { hits } = await engine.memory.search('favourite', { all: true })
  expect(hits[0]).toMatchObject({ why: 'vector' })
  const parameters = { outputDimensionality: 64 }
  expect(server.seen.map(({ path, body, headers }) => [path, body, headers.authorization])).toEqual(
    [
      ['alice likes: jasmine', 'RETRIEVAL_DOCUMENT'],
      ['favourite', 'RETRIEVAL_QUERY'],
    ].map(([content, task_type]) => [
      `${project}/publishers/google/models/text-embedding-005:predict`,
      { instances: [{ content, task_type }], parameters },
      'Bearer ya29.canary-0123',
    ]),
  )
})

/** An engine that has these facts to embed, at a server that answers batches of texts so. */
async function embedding(contents: string[], answer: (texts: string[]) => Handler) {
  const sizes: number[] = []
  const server = await serving((response, seen) => {
    sizes.push(seen.body.input.length)
    return answer(seen.body.input)(response, seen)
  })
  const path = folder().file
  const plain = engineAt(server.url, undefined, { ledger: { path }, memory: true })
  for (const content of contents) await plain.memory.storeFact({ ...fact, content })
  await plain.close()
  const embedder = { provider: 'openai', model: 'm', dimensions: 64 }
  return { engine: engineAt(server.url, embedder, { ledger: { path } }), sizes }
}

test('where the vectors of a batch are larger than an answer may be, half of the texts are requested', async () => {
  const { engine, sizes } = await embedding(['tea', 'chess', 'go', 'rain', 'sun'], (texts) => {
    const blanks = texts.length > 2 ? ' '.repeat(17 * 1024 * 1024) : ''
    return (response, seen) => {
      const vectors = texts.map((text, index) => ({ index, embedding: [...hashed(text, 64)] }))
      const data = JSON.stringify({ object: 'list', data: vectors })
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(`${blanks}${data}`)
      void seen
    }
  })
  await polled(engine).toMatchObject({ pendingVectors: 0, skipped: 0, problem: null })
  expect(sizes).toEqual([5, 2, 3, 1, 2])
})

test('a text that is refused without a reason is skipped, and the others are not', async () => {
  const { engine } = await embedding(['tea', 'poison', 'chess'], (texts) =>
    texts.some((text) => text.includes('poison')) ? status(400, '') : ofOpenai(texts),
  )
  await polled(engine).toMatchObject({ pendingVectors: 0, skipped: 1, problem: null })
  expect((await stats(engine)).models).toMatchObject([{ vectors: 2 }])
})

test('a server that refuses every text skips none: all are embedded once it does not', async () => {
  let refuses = true
  const { engine } = await embedding(['tea', 'chess'], (texts) =>
    refuses
      ? status(400, { error: { message: 'unknown field', type: 'invalid_request_error' } })
      : ofOpenai(texts),
  )
  await polled(engine).toMatchObject({ problem: expect.stringContaining('unknown field') })
  refuses = false
  await polled(engine).toMatchObject({ pendingVectors: 0, skipped: 0, problem: null })
  expect((await stats(engine)).models).toMatchObject([{ vectors: 2 }])
})

test('Ollama’s own API is called, with all texts of a batch and without a key', async () => {
  const server = await serving((response, seen) =>
    status(200, {
      model: seen.body.model,
      embeddings: seen.body.input.map((text: string) => [...hashed(text, 64)]),
      prompt_eval_count: 5,
    })(response, seen),
  )
  const memory = { embedder: { provider: 'ollama', model: 'nomic-embed-text', dimensions: 64 } }
  const path = folder().file
  const plain = engineAt(server.url, undefined, { ledger: { path }, memory: true })
  for (const content of ['jasmine', 'chess']) await plain.memory.storeFact({ ...fact, content })
  await plain.close()
  const engine = engineAt(server.url, undefined, { ledger: { path }, memory })
  await polled(engine).toMatchObject({ pendingVectors: 0, embeddedTokens: 5, problem: null })
  const { hits, model } = await engine.memory.search('favourite', { all: true })
  expect(model).toBe('ollama/nomic-embed-text')
  expect(hits[0]).toMatchObject({ why: 'vector' })
  expect(server.seen.map(({ path, body, headers }) => [path, body, headers.authorization])).toEqual(
    [['alice likes: jasmine', 'alice likes: chess'], ['favourite']].map((input) => [
      '/api/embed',
      { model: 'nomic-embed-text', input, truncate: true, dimensions: 64 },
      undefined,
    ]),
  )
})

test('an error of Ollama is shown, and vectors of another length than it was asked for are skipped', async () => {
  let answer = status(404, { error: 'model "m" not found, try pulling it first' })
  const server = await serving((response, seen) => answer(response, seen))
  const embedder = { provider: 'ollama', model: 'm', dimensions: 64 }
  const engine = engineAt(server.url, embedder)
  await engine.memory.storeFact(fact)
  await expect
    .poll(async () => (await stats(engine)).problem, { timeout: 30_000 })
    .toContain('not found')
  answer = status(200, { embeddings: [[1, 2, 3]] })
  await polled(engine).toMatchObject({ pendingVectors: 0, skipped: 1, problem: null })
  expect((await stats(engine)).skippedProblem).toBe(
    "the vector has 3 dimensions, and the model's have 64",
  )
})

test('a server that refuses is called again, a text that it refuses is skipped, and no key is shown', async () => {
  let answer: 'down' | 'picky' = 'down'
  const server = await serving((response, seen) => {
    const texts: string[] = seen.body.input
    if (answer === 'down') {
      return status(503, { error: { message: 'overloaded sk-openai-canary', type: 'x' } })(
        response,
        seen,
      )
    }
    if (texts.some((text) => text.includes('poison'))) {
      return status(400, {
        error: { message: 'the input is invalid', type: 'invalid_request_error' },
      })(response, seen)
    }
    return ofOpenai(texts)(response, seen)
  })
  const engine = engineAt(server.url, { provider: 'openai', model: 'm', dimensions: 64 })
  for (const content of ['jasmine', 'poison', 'chess'])
    await engine.memory.storeFact({ ...fact, content })
  await expect.poll(async () => (await stats(engine)).problem, { timeout: 30_000 }).not.toBe(null)
  expect((await stats(engine)).problem).not.toContain('canary')
  answer = 'picky'
  // Its failures have cooled the key.
  await engine.resetProfile('o')
  await polled(engine).toMatchObject({ pendingVectors: 0, skipped: 1, problem: null })
  expect((await stats(engine)).models).toMatchObject([{ vectors: 2 }])
})

test('an embedder of an unknown provider, or of one without embeddings, is refused', () => {
  const at = (embedder: unknown) => thrown(() => engineAt('http://127.0.0.1:9', embedder))
  expect(at({ provider: 'nobody', model: 'm' })).toMatchObject({
    code: 'invalid_options',
    field: 'memory.embedder.provider',
  })
  expect(at({ provider: 'anthropic', model: 'm' })).toMatchObject({
    field: 'memory.embedder.provider',
  })
  expect(at({ provider: 'openai' })).toMatchObject({ field: 'memory.embedder.model' })
  expect(at({ provider: 'openai', model: 'm', embed: () => [] })).toMatchObject({
    field: 'memory.embedder.embed',
  })
})

test('the calls for vectors are in the usage of the ledger, searches included, and budgets limit them', async () => {
  const server = await serving((response, seen) => ofOpenai(seen.body.input)(response, seen))
  const models = [
    { provider: 'openai', id: 'e', contextWindow: 8_192, cost: { ...price, input: 2, output: 0 } },
  ]
  const budgets = [{ per: 'session', only: 'system:memory', maxTokens: 1_000 } as const]
  const embedder = { provider: 'openai', model: 'e', dimensions: 64 }
  const engine = engineAt(server.url, embedder, { models, budgets })
  await engine.memory.storeFact(fact)
  await polled(engine).toMatchObject({ pendingVectors: 0 })
  await engine.memory.search('favourite', { all: true })
  const used = (by: 'session' | 'model' | 'day' | 'agent' | 'turn', filter = {}) =>
    engine.ledger.usage({ by, ...filter })
  const of = { turns: 0, memoryCalls: 2, memoryUsage: { inputTokens: 14, totalTokens: 14 } }
  await expect.poll(async () => (await used('session')).items[0]?.memoryCalls).toBe(2)
  for (const [by, key] of [
    ['session', 'system:memory'],
    ['model', 'openai/e'],
    ['day', new Date().toISOString().slice(0, 10)],
  ] as const) {
    const { items } = await used(by)
    expect(items).toMatchObject([{ key, ...of, cost: null }])
    expect(items[0]?.memoryCost).toBeCloseTo(28e-6, 12)
  }
  expect((await used('agent')).items).toEqual([])
  expect((await used('turn')).items).toEqual([])
  expect((await used('day', { since: Date.now() + 2 * 86_400_000 })).items).toEqual([])
  expect((await used('model', { after: 'openai/e' })).items).toEqual([])
  expect(engine.budgets()).toMatchObject([{ key: 'system:memory', usedTokens: 14 }])
  const poor = engineAt(server.url, embedder, { models, budgets: [{ per: 'day', maxTokens: 1 }] })
  const { problem } = await poor.memory.search('favourite', { all: true })
  expect(problem).toContain('budget')
})

test('`onRequest` of the engine sees the requests for vectors, and what it returns is sent', async () => {
  const server = await serving((response, seen) => ofOpenai(seen.body.input)(response, seen))
  const seen: unknown[] = []
  const embedder = { provider: 'openai', model: 'e', dimensions: 64 }
  const engine = engineAt(server.url, embedder, {
    onRequest: ({ purpose, runId, provider, model, url, body }) => {
      seen.push({ purpose, runId, provider, model, path: new URL(url).pathname })
      return { ...body, user: 'ann' }
    },
  })
  await engine.memory.storeFact(fact)
  await polled(engine).toMatchObject({ pendingVectors: 0 })
  const path = '/v1/embeddings'
  const call = { purpose: 'embed', runId: 'system:memory', provider: 'openai', model: 'e', path }
  expect(seen).toEqual([call])
  expect(server.seen.map(({ body }) => body.user)).toEqual(['ann'])
})
