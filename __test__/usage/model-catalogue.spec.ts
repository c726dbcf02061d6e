// The model catalogue through the public API: limits, prices and names, and the defaults of an unknown model. It must never depend
// on the price of a model of the catalogue: those change.

import { describe, expect, test } from 'vitest'
import { AgentEngine, type AgentEngineError, type ModelDeclaration } from '../../index.js'
import { context, engineAt } from '../support/engine.js'
import { anthropic } from '../support/servers/anthropic.js'
import { sse } from '../support/servers/server.js'
import { serverPerTest } from '../support/servers/server-per-test.js'
import { price } from '../support/values/prices.js'

/** Prices of a declaration, none of them for cached tokens. */
const cost = { ...price, output: 3, cacheRead: null, cacheWrite: null }

const server = serverPerTest(() =>
  sse(anthropic.answer('ok', { input: 1_000_000, output: 1_000_000 })),
)

/** An engine with a loopback server as a provider of the catalogue. */
const known = (models: ModelDeclaration[] = []) =>
  new AgentEngine({
    providers: { anthropic: { baseUrl: server.url } },
    authProfiles: [{ id: 'p', provider: 'anthropic', key: 'sk-test-0123456789' }],
    models,
  })

function refusal(act: () => unknown): Pick<AgentEngineError, 'code' | 'field' | 'message'> {
  try {
    act()
  } catch (error) {
    const { code, field, message } = error as AgentEngineError
    return { code, field, message }
  }
  throw new Error('it was not refused')
}

test('a model of the catalogue is found by its name, a date or `-latest`; the requested name is sent', async () => {
  const engine = known()
  const names = ['claude-haiku-4-5', 'claude-haiku-4-5-20251001', 'claude-haiku-4-5-latest']
  const results = []
  for (const model of names) {
    results.push(await engine.run(context({ provider: 'anthropic', model })).result)
  }
  await engine.close()
  expect(server.seen.map(({ body }) => body.model)).toEqual(names)
  const costs = results.map(({ cost }) => cost)
  expect(costs[0]).toBeGreaterThan(0)
  expect(new Set(costs).size).toBe(1)
})

test('a temperature is left out for a model of the catalogue that refuses one', async () => {
  const engine = known()
  for (const model of ['claude-opus-4-8', 'claude-haiku-4-5']) {
    await engine.run(context({ provider: 'anthropic', model, temperature: 0.5 })).result
  }
  await engine.close()
  expect(server.seen.map(({ body }) => body.temperature)).toEqual([undefined, 0.5])
})

test('a declaration adds models to the catalogue and overrides its fields', async () => {
  const engine = known([
    { provider: 'anthropic', id: 'claude-haiku-4-5', maxOutputTokens: 777 },
    {
      provider: 'anthropic',
      id: 'own',
      contextWindow: 50_000,
      maxOutputTokens: 555,
      cost,
      aliases: ['mine'],
    },
  ])
  const costs = []
  for (const model of ['claude-haiku-4-5', 'own', 'mine', 'own-2026-01-31']) {
    costs.push((await engine.run(context({ provider: 'anthropic', model })).result).cost)
  }
  await engine.close()
  expect(server.seen.map(({ body }) => [body.model, body.max_tokens])).toEqual([
    ['claude-haiku-4-5', 777],
    ['own', 555],
    ['mine', 555],
    ['own-2026-01-31', 555],
  ])
  expect(costs[0]).toBeGreaterThan(0)
  expect(costs.slice(1)).toEqual([4, 4, 4])
})

test('a long prompt has the price of its tier, and a free model costs 0', async () => {
  const flat = { cacheRead: null, cacheWrite: null }
  const tiers = [{ inputTokensAbove: 200_000, input: 10, output: 20, ...flat, cacheWrite1h: null }]
  const window = { contextWindow: 2_000_000 }
  const engine = known([
    {
      provider: 'anthropic',
      id: 'steps',
      ...window,
      cost: { input: 1, output: 2, ...flat, cacheWrite1h: null, tiers },
    },
    {
      provider: 'anthropic',
      id: 'free',
      ...window,
      cost: { input: 0, output: 0, ...flat, cacheWrite1h: null, tiers: [] },
    },
    { provider: 'anthropic', id: 'unpriced', ...window },
  ])
  const costs = []
  for (const model of ['steps', 'free', 'unpriced']) {
    costs.push((await engine.run(context({ provider: 'anthropic', model })).result).cost)
  }
  await engine.close()
  expect(costs).toEqual([30, 0, null])
})

test('cached tokens without a price make the cost unknown', async () => {
  server.use(sse(anthropic.answer('ok', { input: 10, cached: 5, output: 10 })))
  const engine = known([{ provider: 'anthropic', id: 'own', contextWindow: 50_000, cost }])
  const result = await engine.run(context({ provider: 'anthropic', model: 'own' })).result
  await engine.close()
  expect(result.cost).toBeNull()
})

test('an unknown model and an unknown provider are refused before anything is sent', async () => {
  const engine = engineAt(server.url)
  const model = refusal(() => engine.run(context({ model: 'nobody-knows-it' })))
  const provider = refusal(() => engine.run(context({ provider: 'nobody' })))
  await engine.close()
  expect([model.code, model.field]).toEqual(['unknown_model', 'model'])
  expect(model.message).toContain('`nobody-knows-it`')
  expect([provider.code, provider.field]).toEqual(['unknown_provider', 'provider'])
  expect(server.connections()).toBe(0)
})

test.each([
  [{ id: 'x' }, 'models[0].provider'],
  [{ provider: 'anthropic', id: 'nobody-knows-it' }, 'models[0].contextWindow'],
  [{ provider: 'anthropic', id: 'x', contextWindow: 0 }, 'models[0].contextWindow'],
  [{ provider: 'anthropic', id: '', contextWindow: 9 }, 'models[0].id'],
  [{ provider: 'anthropic', id: 'x', contextWindow: 100_000, window: 1 }, 'models[0].window'],
])('the declaration %j is refused at its field', (declaration, field) => {
  const refused = refusal(() => known([declaration as ModelDeclaration]))
  expect([refused.code, refused.field]).toEqual(['invalid_options', field])
})

describe('models()', () => {
  test('lists the catalogue by provider and name, declared models replacing built-in ones', async () => {
    const engine = known([
      { provider: 'anthropic', id: 'claude-haiku-4-5', maxOutputTokens: 777 },
      { provider: 'zebra', id: 'own', contextWindow: 50_000 },
    ])
    const models = engine.models()
    const names = models.map(({ provider, id }) => `${provider} ${id}`)
    expect(names).toEqual([...names].sort((a, b) => (a < b ? -1 : 1)))
    expect(new Set(names).size).toBe(names.length)
    expect(models.at(-1)).toMatchObject({ provider: 'zebra', id: 'own', source: 'declared' })
    expect(
      models.find(({ id, provider }) => `${provider}/${id}` === 'anthropic/claude-haiku-4-5'),
    ).toMatchObject({
      maxOutputTokens: 777,
      api: 'anthropic-messages',
    })
    await engine.close()
  })

  test('lists the models that match a filter', async () => {
    const engine = known([{ provider: 'zebra', id: 'own', contextWindow: 50_000 }])
    const all = engine.models()
    expect(engine.models({ provider: 'zebra' }).map(({ id }) => id)).toEqual(['own'])
    expect(engine.models({ provider: 'nobody' })).toEqual([])
    expect(engine.models({ provider: 'anthropic', reasoning: true, input: 'image' })).toEqual(
      all.filter(
        ({ provider, reasoning, input }) =>
          provider === 'anthropic' && reasoning && input.includes('image'),
      ),
    )
    expect(engine.models({ api: 'openai-chat' })).toEqual(
      all.filter(({ api }) => api === 'openai-chat'),
    )
    const refusals = [{ provider: 7 }, { colour: 'red' }, { api: 'none' }, [], null].map((filter) =>
      refusal(() => engine.models(filter as never)),
    )
    expect(refusals.map(({ code, field }) => `${code} ${field}`)).toEqual([
      'invalid_options filter.provider',
      'invalid_options filter.colour',
      'invalid_options filter.api',
      'invalid_options filter',
      'invalid_options filter',
    ])
    await engine.close()
  })
})
