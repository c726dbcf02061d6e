// Wrong options of the constructor, and calls of a closed engine: an AgentEngineError with a code, before anything is written or sent.
// It must never repeat a key in an assertion's message.

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { AgentEngine, type AgentEngineOptions, scriptedProvider } from '../../index.js'
import { folder } from '../support/cleanup.js'
import { context, scriptedEngine } from '../support/engine.js'
import { refusals, thrown } from '../support/refusals.js'

type Fields = Record<string, unknown>

const { engine, refusal } = refusals()

describe('options', () => {
  const http = (more: Fields = {}) => ({
    api: 'anthropic-messages',
    baseUrl: 'http://127.0.0.1:1',
    ...more,
  })
  test.each<[string, unknown, string]>([
    ['null', null, 'options'],
    ['a text', 'options', 'options'],
    ['a list', [], 'options'],
    ['an unknown option', { provider: {} }, 'provider'],
    ['a BigInt', { toolTimeoutMs: 5n }, 'toolTimeoutMs'],
    ['a tool limit of 0', { toolTimeoutMs: 0 }, 'toolTimeoutMs'],
    ['a tool limit of text', { toolTimeoutMs: '5' }, 'toolTimeoutMs'],
    ['an endless tool limit', { toolTimeoutMs: Number.POSITIVE_INFINITY }, 'toolTimeoutMs'],
    ['providers of a list', { providers: [] }, 'providers'],
    ['a provider of a list', { providers: { p: ['anthropic-messages'] } }, 'providers.p'],
    ['a provider of text', { providers: { p: 'anthropic' } }, 'providers.p'],
    ['a provider of null', { providers: { p: null } }, 'providers.p'],
    [
      'a provider without an API',
      { providers: { p: { baseUrl: 'http://127.0.0.1:1' } } },
      'providers.p.api',
    ],
    [
      'a provider without a URL',
      { providers: { p: { api: 'openai-chat' } } },
      'providers.p.baseUrl',
    ],
    ['an unknown API', { providers: { p: http({ api: 'anthropic' }) } }, 'providers.p.api'],
    [
      'a mistyped field of a provider',
      { providers: { p: http({ baseURL: 'x' }) } },
      'providers.p.baseURL',
    ],
    [
      'a URL that is none',
      { providers: { p: http({ baseUrl: 'localhost' }) } },
      'providers.p.baseUrl',
    ],
    [
      'plain http to another machine',
      { providers: { p: http({ baseUrl: 'http://example.com' }) } },
      'providers.p.baseUrl',
    ],
    [
      'a header with a line break',
      { providers: { p: http({ headers: { 'x-a': 'b\r\nc: d' } }) } },
      'providers.p.headers.x-a',
    ],
    ['a limit of 0', { providers: { p: http({ idleTimeoutMs: 0 }) } }, 'providers.p.idleTimeoutMs'],
    ['profiles of an object', { providers: { p: http() }, authProfiles: {} }, 'authProfiles'],
    [
      'a profile of a list',
      { providers: { p: http() }, authProfiles: [['a', 'p']] },
      'authProfiles[0]',
    ],
    [
      'a profile of an unknown provider',
      {
        providers: { p: http() },
        authProfiles: [{ id: 'a', provider: 'q', type: 'api_key', key: 'k' }],
      },
      'authProfiles[0].provider',
    ],
    [
      'a key from a variable that is not set',
      {
        providers: { p: http() },
        authProfiles: [
          {
            id: 'a',
            provider: 'p',
            type: 'api_key',
            key: { env: 'AGENT_ENGINE_NO_SUCH_VARIABLE' },
          },
        ],
      },
      'authProfiles[0].key.env',
    ],
    [
      'an empty key',
      {
        providers: { p: http() },
        authProfiles: [{ id: 'a', provider: 'p', type: 'api_key', key: '' }],
      },
      'authProfiles[0].key',
    ],
    [
      'a profile without an id',
      { providers: { p: http() }, authProfiles: [{ provider: 'p', type: 'api_key', key: 'k' }] },
      'authProfiles[0].id',
    ],
    ['a model without an id', { models: [{ provider: 'p', contextWindow: 5 }] }, 'models[0].id'],
    ['a model of a list', { models: [['p', 'm', 5]] }, 'models[0]'],
    ['a ledger of text', { ledger: 'agent.db' }, 'ledger'],
    ['a ledger of a list', { ledger: ['agent.db'] }, 'ledger'],
    ['a ledger that is true', { ledger: true }, 'ledger'],
    ['an empty path', { ledger: { path: '' } }, 'ledger.path'],
    ['no path', { ledger: {} }, 'ledger.path'],
    ['a mistyped field of the ledger', { ledger: { path: 'x.db', sync: 'full' } }, 'ledger.sync'],
    [
      'an unknown synchronous',
      { ledger: { path: 'x.db', synchronous: 'off' } },
      'ledger.synchronous',
    ],
    [
      'a mistyped step of a script',
      { providers: { p: scriptedProvider([{ txet: 'x' } as never]) } },
      'providers.p.script.replies[0].txet',
    ],
  ])('%s is refused', (_, options, field) => {
    const refused = thrown(() => new AgentEngine(options as AgentEngineOptions))
    expect(refused.code).toBe('invalid_options')
    expect(refused.field).toBe(field)
  })

  test('a wrong option beside a ledger leaves no file', () => {
    const path = join(folder().path, 'never.db')
    const refused = thrown(
      () => new AgentEngine({ ledger: { path }, providers: { p: http({ headers: 5 }) } } as never),
    )
    expect(refused.code).toBe('invalid_options')
    expect(existsSync(path)).toBe(false)
  })

  test('a refusal never repeats a key', () => {
    const key = 'sk-canary-0123456789'
    const providers = { p: http() }
    for (const options of [
      { providers, authProfiles: [{ id: 'a', provider: 'q', type: 'api_key', key }] },
      { providers, authProfiles: [{ id: 'a', provider: 'p', type: 'api_key', key: [key] }] },
      { providers, authProfiles: key, ledger: key },
      { ledger: key },
      { providers, authProfiles: [key] },
      { providers: { p: http({ headers: { authorization: `${key}\n` } }) } },
      { providers: { p: http({ headers: key }) } },
    ]) {
      const refused = thrown(() => new AgentEngine(options as never))
      expect(refused.code).toBe('invalid_options')
      expect(refused.message).not.toContain(key)
    }
  })

  test('a script that is no list is refused at its constructor', () => {
    const refused = thrown(() => scriptedProvider('hello' as never))
    expect([refused.code, refused.field]).toEqual(['invalid_options', 'script'])
  })

  test('without a ledger, `engine.ledger` is refused', async () => {
    const { engine: bare } = scriptedEngine([])
    expect(thrown(() => bare.ledger)).toMatchObject({ code: 'no_ledger', field: 'ledger' })
    await bare.close()
  })
})

describe('a closed engine', () => {
  test('refuses runs immediately, also while it closes; closing twice is the same close', async () => {
    const { engine: closing } = scriptedEngine(['hi'], {
      ledger: { path: join(folder().path, 'closed.db') },
    })
    const running = closing.run(context())
    const first = closing.close()
    expect(thrown(() => closing.run(context())).code).toBe('engine_closed')
    expect(closing.close()).toBe(first)
    expect((await running.result).persisted).toBe(true)
    await first
    expect(thrown(() => closing.run(context())).code).toBe('engine_closed')
    await expect(closing.ledger.session('agent:main:main')).rejects.toMatchObject({
      name: 'AgentEngineError',
      code: 'ledger_closed',
    })
  })
})
