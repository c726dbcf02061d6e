// `memory.facts.extract`: a model finds facts in turns, behind them, through the engine's providers. It must never depend on how fast it does.

import { expect, test } from 'vitest'
import { AgentEngine, type AgentEngineOptions, type ExtractOptions } from '../../../index.js'
import { closing, folder, serving } from '../../support/cleanup.js'
import { thrown } from '../../support/refusals.js'
import { chat } from '../../support/servers/chat.js'
import { type Seen, sse, status } from '../../support/servers/server.js'
import { price } from '../../support/values/prices.js'

type Answer = string | { status: number; message: string } | Promise<never>

/** Whether a request is one for facts. */
const isExtraction = ({ body }: Seen) => body.response_format !== undefined

/** A server that answers runs with `Noted.`, and requests for facts with the next of these; the last one answers all further ones. */
async function server(...answers: Answer[]) {
  const queue = [...answers]
  const made = await serving(async (response, seen) => {
    if (!isExtraction(seen)) return sse(chat.answer('Noted.'))(response, seen)
    const answer = await (queue.length > 1 ? queue.shift() : queue[0])
    if (typeof answer === 'string') {
      const used = chat.finish('stop') + chat.usage(300, 40, 100) + chat.done()
      return sse(chat.text(answer), used)(response, seen)
    }
    const { status: code = 500, message = '' } = answer ?? {}
    return status(code, { error: { message, type: 'x' } })(response, seen)
  })
  return { url: made.url, extractions: () => made.seen.filter(isExtraction) }
}

function engineAt(
  url: string,
  extract: Partial<ExtractOptions> = {},
  options: Partial<AgentEngineOptions> = {},
) {
  return closing(
    new AgentEngine({
      providers: { o: { api: 'openai-chat', baseUrl: `${url}/v1` } },
      authProfiles: [{ id: 'k', provider: 'o', type: 'api_key', key: 'canary-key-0123456789' }],
      models: [{ provider: 'o', id: 'm', contextWindow: 100_000, cost: price }],
      defaults: { provider: 'o', model: 'm' },
      ledger: { path: folder().file },
      memory: { facts: { extract: { provider: 'o', model: 'm', ...extract } } },
      ...options,
    }),
  )
}

const found = (...facts: [string, string, string, Record<string, unknown>?][]) =>
  JSON.stringify({
    facts: facts.map(([entity, type, content, others]) => ({
      ...{ entity, type, content, confidence: 0.9, replaces: false },
      ...others,
    })),
  })
const extraction = (engine: AgentEngine) =>
  expect.poll(
    async () => {
      const { pendingTurns, extraction } = await engine.memory.stats()
      return { pendingTurns, ...extraction }
    },
    { timeout: 30_000, interval: 10 },
  )
const idle = (engine: AgentEngine, others: Record<string, unknown> = {}) =>
  extraction(engine).toMatchObject({ pendingTurns: 0, pending: 0, ...others })
const say = (engine: AgentEngine, text: string, session = 'main') =>
  engine.run(text, { session }).result
const listed = async (engine: AgentEngine) =>
  (await engine.memory.facts({ all: true, superseded: true })).items.map(
    ({ entity, type, content, validTo }) => [entity, type, content, validTo === null],
  )

test('a model finds the facts of a turn; they have its turn and its scope, and its call is in the usage', async () => {
  const { url, extractions } = await server(found(['Alice', 'Home Town', 'Alice lives in Rome.']))
  const engine = engineAt(url)
  const { turnId } = await say(engine, 'Alice lives in Rome.')
  await idle(engine, { skipped: 0, tokens: 340, problem: null })
  const { items } = await engine.memory.facts({ session: 'main' })
  expect(items).toMatchObject([
    {
      entity: 'Alice',
      type: 'home_town',
      content: 'Alice lives in Rome.',
      scope: { kind: 'session', id: 'main' },
      source: { turnId, callId: null },
      confidence: 0.9,
    },
  ])
  const [{ body }] = extractions()
  expect(body.response_format).toMatchObject({
    type: 'json_schema',
    json_schema: { name: 'facts' },
  })
  const asked = JSON.parse(body.messages.at(-1).content)
  expect(asked.turn).toEqual([
    { role: 'user', text: 'Alice lives in Rome.' },
    { role: 'assistant', text: 'Noted.' },
  ])
  const { hits } = await engine.memory.search('Rome', { session: 'main', kinds: ['fact'] })
  expect(hits).toMatchObject([{ fact: { content: 'Alice lives in Rome.' } }])
  await expect
    .poll(async () => (await engine.ledger.usage({ by: 'session' })).items)
    .toMatchObject([
      {
        key: 'main',
        turns: 1,
        usage: { totalTokens: 15 },
        memoryCalls: 1,
        memoryUsage: {
          inputTokens: 200,
          cachedInputTokens: 100,
          outputTokens: 40,
          totalTokens: 340,
        },
        memoryCost: expect.closeTo((200 * 1 + 100 * 0.5 + 40 * 10) / 1e6, 12),
      },
    ])
})

test('a fact that is known is not stored again, one that replaces others ends them, and one of less certainty stands beside them', async () => {
  const { url } = await server(
    found(['alice', 'home', 'Rome', { replaces: true }], ['alice', 'hobby', 'chess']),
    found(['Alice', 'home', 'rome', { replaces: true }], ['alice', 'hobby', 'tea']),
    found(['alice', 'home', 'Oslo', { replaces: true }]),
    found(['alice', 'home', 'Bonn', { replaces: true, confidence: 0.5 }]),
  )
  const engine = engineAt(url)
  for (const text of ['one', 'two', 'three', 'four']) await say(engine, text)
  await idle(engine)
  expect(await listed(engine)).toEqual([
    ['alice', 'home', 'Rome', false],
    ['alice', 'hobby', 'chess', true],
    ['alice', 'hobby', 'tea', true],
    ['alice', 'home', 'Oslo', true],
    ['alice', 'home', 'Bonn', true],
  ])
})

test('an answer that cannot be used is repaired once, with all its problems', async () => {
  const wrong = JSON.stringify({ facts: [{ entity: '', type: 'a', content: 1, confidence: 2 }] })
  const { url, extractions } = await server(wrong, found(['alice', 'home', 'Rome']))
  const engine = engineAt(url)
  await say(engine, 'Alice lives in Rome.')
  await idle(engine, { skipped: 0 })
  expect(await listed(engine)).toEqual([['alice', 'home', 'Rome', true]])
  const again: string = extractions()[1].body.messages.at(-1).content
  for (const field of ['entity', 'content', 'confidence'])
    expect(again).toContain(`facts[0].${field}`)
})

test('a turn whose answers cannot be used is skipped after three attempts, and the next one is not', async () => {
  const { url, extractions } = await server(
    ...Array.from({ length: 6 }, () => 'I cannot do that.'),
    found(['bob', 'pet', 'a cat']),
  )
  const engine = engineAt(url)
  await say(engine, 'First.')
  await idle(engine, { skipped: 1 })
  const { extraction } = await engine.memory.stats()
  expect(extraction?.skippedProblem).toMatch(/^the model's answer could not be used: /)
  await say(engine, 'Bob has a cat.')
  await idle(engine, { skipped: 1, problem: null })
  expect(await listed(engine)).toEqual([['bob', 'pet', 'a cat', true]])
  expect(extractions()).toHaveLength(7)
})

test('a service that fails is called again, its failure is shown without a key, and no turn waits for it', async () => {
  const down = { status: 503, message: 'overloaded canary-key-0123456789' }
  const { url } = await server(down, found(['alice', 'home', 'Rome']))
  const engine = engineAt(url)
  const { persisted, stopReason } = await say(engine, 'Alice lives in Rome.')
  expect({ persisted, stopReason }).toEqual({ persisted: true, stopReason: 'end_turn' })
  // Its failure has cooled the key.
  await extraction(engine).toMatchObject({ pending: 1, problem: expect.any(String) })
  expect(JSON.stringify(await engine.memory.stats())).not.toContain('canary')
  await engine.resetProfile('k')
  await idle(engine, { problem: null })
  expect(await listed(engine)).toHaveLength(1)
})

test('a slow model delays neither a turn nor the end of the engine, and the next engine extracts the turn', async () => {
  const path = folder().file
  const slow = await server(new Promise(() => {}))
  const first = engineAt(slow.url, {}, { ledger: { path } })
  await say(first, 'Alice lives in Rome.')
  await extraction(first).toMatchObject({ pending: 1 })
  await expect.poll(() => slow.extractions().length).toBe(1)
  await first.close()
  const { url } = await server(found(['alice', 'home', 'Rome']))
  const second = engineAt(url, {}, { ledger: { path } })
  await idle(second)
  expect(await listed(second)).toEqual([['alice', 'home', 'Rome', true]])
})

test('a model that does not answer in time is called again, five times, and then the turn is skipped, until it is indexed anew', async () => {
  const silent = Array.from({ length: 5 }, () => new Promise<never>(() => {}))
  const { url, extractions } = await server(...silent, found(['alice', 'home', 'Rome']))
  const engine = engineAt(url, { timeoutMs: 400 })
  await say(engine, 'Alice lives in Rome.')
  await idle(engine, { skipped: 1 })
  expect((await engine.memory.stats()).extraction?.skippedProblem).toContain('400')
  expect(extractions()).toHaveLength(5)
  expect(await engine.memory.reindex()).toEqual({ turns: 0, chunks: 0 })
  const done = async () => (await engine.memory.facts({ all: true })).items.length
  // A time-out of this test's own machine counts as well: then it is tried anew.
  await expect
    .poll(
      async () => {
        await engine.memory.reindex()
        return done()
      },
      { timeout: 30_000, interval: 1_000 },
    )
    .toBe(1)
})

test('no call begins once the budget of the day is used up, and the turns wait', async () => {
  const { url, extractions } = await server(found(['alice', 'home', 'Rome']))
  const engine = engineAt(url, { budget: { maxTokens: 10 } })
  await say(engine, 'One.')
  await idle(engine)
  await say(engine, 'Two.')
  await extraction(engine).toMatchObject({ pending: 1, problem: expect.stringContaining('budget') })
  expect(extractions()).toHaveLength(1)
})

test('the budgets of the engine count the calls for facts', async () => {
  const { url } = await server(found(['alice', 'home', 'Rome']))
  const engine = engineAt(url, {}, { budgets: [{ per: 'session', maxTokens: 1_000_000 }] })
  await say(engine, 'One.')
  await idle(engine)
  await expect
    .poll(() => engine.budgets())
    .toMatchObject([{ per: 'session', key: 'main', usedTokens: 355, heldTokens: 0 }])
})

test('`onRequest` of the engine sees the calls for facts, and may refuse them', async () => {
  const { url, extractions } = await server(found(['alice', 'home', 'Rome']))
  const purposes: string[] = []
  const engine = engineAt(
    url,
    {},
    {
      onRequest: ({ purpose, runId }) => {
        purposes.push(purpose === 'extract' ? `${purpose} ${runId}` : purpose)
        if (purpose === 'extract') throw new Error('not this one')
      },
    },
  )
  await say(engine, 'One.')
  await extraction(engine).toMatchObject({
    pending: 1,
    problem: expect.stringContaining('not this'),
  })
  expect(purposes.slice(0, 2)).toEqual(['run', 'extract system:memory'])
  expect(extractions()).toEqual([])
})

test('what was forgotten is not extracted, and the facts of a turn go with it', async () => {
  const { url } = await server(found(['alice', 'home', 'Rome']))
  const engine = engineAt(url)
  const { turnId } = await say(engine, 'Alice lives in Rome.')
  await idle(engine)
  expect(await engine.memory.forget({ turnId })).toMatchObject({ turns: 1, facts: 1 })
  expect(await engine.memory.reindex()).toEqual({ turns: 0, chunks: 0 })
  await idle(engine)
  expect(await listed(engine)).toEqual([])
})

test('wrong options are refused by their paths, and an engine without extraction shows none', async () => {
  const at = (extract: unknown) => thrown(() => engineAt('http://127.0.0.1:9', extract as never))
  expect(at({ provider: 'nobody' })).toMatchObject({
    code: 'invalid_options',
    field: 'memory.facts.extract.provider',
  })
  expect(at({ model: '' })).toMatchObject({ field: 'memory.facts.extract.model' })
  expect(at({ timeoutMs: 0 })).toMatchObject({ field: 'memory.facts.extract.timeoutMs' })
  expect(at({ budget: { maxCost: -1 } })).toMatchObject({
    field: 'memory.facts.extract.budget.maxCost',
  })
  const engine = engineAt('http://127.0.0.1:9', {}, { memory: true })
  expect((await engine.memory.stats()).extraction).toBe(null)
})
