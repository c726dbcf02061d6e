// Wrong input: a synchronous AgentEngineError with a code and the field's path, before anything is written or sent.
// It must never accept a refusal with an effect: after every test the server has received no request and the ledger has no turn.

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  AgentEngine,
  AgentEngineError,
  type AgentEngineOptions,
  type AgentRun,
  type AssembledContext,
  scriptedProvider,
} from '../../index.js'
import {
  context,
  engineAt,
  readAll,
  scriptedEngine,
  tempDir,
  testModel,
} from '../support/engine.js'
import { anthropic } from '../support/servers/anthropic.js'
import { sse, type TestServer, testServer } from '../support/servers/server.js'
import { tool } from '../support/tools.js'

type Fields = Record<string, unknown>

let server: TestServer
let engine: AgentEngine
const dir = tempDir()

beforeAll(async () => {
  server = await testServer(sse(anthropic.answer('hi')))
  engine = engineAt(server.url, { ledger: { path: dir.file } })
})

afterAll(async () => {
  expect(await traces()).toEqual({ requests: 0, rows: [{ turns: 0, sessions: 0 }] })
  await engine.close()
  await server.close()
  dir.remove()
})

/** The error that a call throws synchronously. */
function thrown(call: () => unknown): AgentEngineError {
  try {
    call()
  } catch (error) {
    expect(error).toBeInstanceOf(AgentEngineError)
    return error as AgentEngineError
  }
  throw new Error('it was accepted')
}

/** The effects of the earlier refusals. */
async function traces() {
  const { rows } = await engine.ledger.query(
    'SELECT (SELECT count(*) FROM turns) AS turns, (SELECT count(*) FROM sessions) AS sessions',
  )
  return { requests: server.seen.length, rows }
}

/** The refusal of a context, which must have no effect. */
async function refusal(
  fields: unknown,
): Promise<{ code: string; field?: string; message: string }> {
  const given =
    fields !== null && typeof fields === 'object' && !Array.isArray(fields)
      ? Object.defineProperties(context(), Object.getOwnPropertyDescriptors(fields))
      : fields
  const before = await traces()
  const { code, field, message } = await thrownAsync(() => engine.run(given as AssembledContext))
  expect(await traces()).toEqual(before)
  return { code, field, message }
}

/** As {@link thrown}; a run that was accepted after all has ended before the test fails. */
async function thrownAsync(call: () => AgentRun): Promise<AgentEngineError> {
  let run: AgentRun
  try {
    run = call()
  } catch (error) {
    return thrown(() => {
      throw error
    })
  }
  run.abort()
  await run.result
  throw new Error('it was accepted')
}

const wrongs = {
  null: null,
  number: 5,
  boolean: true,
  object: { a: 1 },
  array: [1],
  function: () => 1,
  symbol: Symbol('s'),
}

describe('required fields', () => {
  const strings = [
    'systemPrompt',
    'model',
    'provider',
    'runId',
    'sessionLabel',
    'role',
    'toolsetName',
    'workspacePath',
  ]
  const codeOf = (field: string) => (field === 'sessionLabel' ? 'invalid_label' : 'invalid_context')

  test.each([...strings, 'currentMessage', 'tools', 'timeoutMs', 'permissionsGranted'])(
    '`%s` that is missing is refused by name',
    async (field) => {
      const { code, field: at, message } = await refusal({ [field]: undefined })
      expect([code, at]).toEqual([codeOf(field), field])
      expect(message).toContain(`\`${field}\``)
    },
  )

  test.each(strings)('`%s` is refused if it is no string', async (field) => {
    for (const wrong of Object.values(wrongs)) {
      const { code, field: at } = await refusal({ [field]: wrong })
      expect([code, at]).toEqual([codeOf(field), field])
    }
  })

  test.each<[string, Fields, string, string]>([
    ['an empty model', { model: '' }, 'invalid_context', 'model'],
    ['an empty provider', { provider: '' }, 'invalid_context', 'provider'],
    ['an empty run id', { runId: '' }, 'invalid_context', 'runId'],
    ['an unknown role', { role: 'boss' }, 'invalid_context', 'role'],
    ['a timeout of text', { timeoutMs: '5' }, 'invalid_context', 'timeoutMs'],
    ['a timeout of 0', { timeoutMs: 0 }, 'invalid_context', 'timeoutMs'],
    ['a negative timeout', { timeoutMs: -1 }, 'invalid_context', 'timeoutMs'],
    ['a fractional timeout', { timeoutMs: 1.5 }, 'invalid_context', 'timeoutMs'],
    ['a timeout of NaN', { timeoutMs: Number.NaN }, 'invalid_context', 'timeoutMs'],
    ['an endless timeout', { timeoutMs: Number.POSITIVE_INFINITY }, 'invalid_context', 'timeoutMs'],
    [
      'a timeout beyond 30 days',
      { timeoutMs: 31 * 24 * 3_600_000 },
      'invalid_context',
      'timeoutMs',
    ],
    [
      'permissions that are no list',
      { permissionsGranted: {} },
      'invalid_context',
      'permissionsGranted',
    ],
    ['permissions of null', { permissionsGranted: null }, 'invalid_context', 'permissionsGranted'],
    ['tools of null', { tools: null }, 'invalid_context', 'tools'],
    ['tools that are no list', { tools: {} }, 'invalid_context', 'tools'],
  ])('%s is refused', async (_, fields, code, field) => {
    expect(await refusal(fields)).toMatchObject({ code, field })
  })
})

describe('optional fields', () => {
  test.each([
    ['history', 'null as text', 'null'],
    ['history', 'an object', {}],
    ['history', 'a function', () => []],
    ['history', 'a symbol', Symbol('h')],
    ['thinkingConfig', 'a text', 'high'],
    ['thinkingConfig', 'a list', ['enabled', 2048]],
    ['thinkingConfig', 'a function', () => 1],
    ['tokenBudget', 'a number', 5],
    ['tokenBudget', 'a list', [200_000]],
    ['maxResponseTokens', '0', 0],
    ['maxResponseTokens', 'a text', '100'],
    ['maxResponseTokens', 'NaN', Number.NaN],
    ['temperature', 'a text', 'hot'],
    ['temperature', 'above 2', 2.1],
    ['temperature', 'below 0', -0.1],
    ['temperature', 'NaN', Number.NaN],
    ['maxIterations', '0', 0],
    ['maxIterations', 'negative', -1],
    ['maxIterations', 'a fraction', 2.5],
    ['maxIterations', 'Infinity', Number.POSITIVE_INFINITY],
    ['maxIterations', 'a function', () => 3],
    ['toolTimeoutMs', '0', 0],
    ['toolTimeoutMs', 'a text', '5s'],
    ['toolTimeoutMs', 'Infinity', Number.POSITIVE_INFINITY],
    ['parentTurnId', 'an empty text', ''],
    ['parentTurnId', 'a number', 7],
    ['sourceEventId', 'a number', 7],
    ['coalesce', 'a text', 'false'],
    ['detached', 'a number', 1],
    ['abortSignal', 'an object', {}],
    ['abortSignal', 'a controller', new AbortController()],
    ['abortSignal', 'a text', 'signal'],
  ])('`%s` that is %s is refused', async (field, _, wrong) => {
    expect(await refusal({ [field]: wrong })).toMatchObject({ code: 'invalid_context', field })
  })

  test.each<[Fields, string]>([
    [{ thinkingConfig: { type: 'loud' } }, 'thinkingConfig.type'],
    [{ thinkingConfig: { budgetTokens: 'many' } }, 'thinkingConfig.budgetTokens'],
    [{ thinkingConfig: { budget: 5 } }, 'thinkingConfig.budget'],
    [{ tokenBudget: { available: 'all' } }, 'tokenBudget.available'],
  ])('inside an option, the very field is named: %j', async (fields, field) => {
    expect(await refusal(fields)).toMatchObject({ code: 'invalid_context', field })
  })
})

describe('contexts that are no contexts', () => {
  test.each([
    ['undefined', undefined],
    ['null', null],
    ['a text', 'context'],
    ['a number', 5],
    ['a function', () => ({})],
  ])('%s is refused', async (_, value) => {
    expect(await refusal(value)).toMatchObject({ code: 'invalid_context', field: 'context' })
  })

  test('a list is refused', async () => {
    expect((await refusal([])).code).toBe('invalid_context')
  })

  const circular: { self?: unknown } = {}
  circular.self = circular
  const deep = (levels: number) => {
    let value: unknown = 'x'
    for (let i = 0; i < levels; i++) value = [value]
    return value
  }
  test.each<[string, Fields, string]>([
    ['a BigInt', { target: { id: 5n } }, 'target.id'],
    ['a circle', { target: circular }, 'target.self'],
    [
      'a circle in the history',
      { history: [{ role: 'user', content: 'x', extra: circular }] },
      'history[0].extra.self',
    ],
    ['100,000 levels', { target: deep(100_000) }, 'target'],
    ['200 levels in the target', { target: deep(200) }, 'target'],
    ['200 levels in the permissions', { permissionsGranted: deep(200) }, 'permissionsGranted'],
    [
      '200 levels in a message',
      { currentMessage: { role: 'user', content: 'x', more: deep(200) } },
      'currentMessage',
    ],
    [
      '200 levels in the history',
      { history: [{ role: 'user', content: deep(200) }] },
      'history[0]',
    ],
    [
      'a toJSON that throws',
      {
        target: {
          toJSON() {
            throw new Error('no')
          },
        },
      },
      'target',
    ],
    [
      'a getter that throws',
      {
        get target() {
          throw new Error('no')
        },
      },
      'target',
    ],
    [
      'a signal that cannot be read',
      {
        get abortSignal() {
          throw new Error('no')
        },
      },
      'abortSignal',
    ],
  ])('%s is refused', async (_, fields, field) => {
    expect(await refusal(fields)).toMatchObject({ code: 'invalid_context', field })
  })

  test('a refusal never repeats the value of a field', async () => {
    const secret = 'sk-canary-0123456789'
    for (const fields of [
      { timeoutMs: secret },
      { history: secret },
      { systemPrompt: { secret } },
      { thinkingConfig: { budgetTokens: secret } },
      { currentMessage: { role: 'user', content: [{ type: 'text', text: { secret } }] } },
    ]) {
      expect((await refusal(fields)).message).not.toContain(secret)
    }
  })
})

describe('provider, model, label, parent', () => {
  test('an unknown provider is refused with the known names', async () => {
    const { code, field, message } = await refusal({ provider: 'tset' })
    expect([code, field]).toEqual(['unknown_provider', 'provider'])
    expect(message).toBe("`provider`: `tset` is not among the engine's providers (test)")
  })

  test('a model without a window is refused, with advice', async () => {
    const { code, field, message } = await refusal({ model: 'nobody-knows' })
    expect([code, field]).toEqual(['unknown_model', 'model'])
    expect(message).toContain(
      '`nobody-knows` of `test` is not in the catalogue; declare its `contextWindow`',
    )
  })

  test.each([
    ['empty', ''],
    ['with a line break', 'agent:main\nmain'],
    ['with a tab', 'a\tb'],
    ['with NUL', 'a\0b'],
    ['with DEL', 'a\x7fb'],
    ['with a C1 control', 'a\x85b'],
    ['of 513 bytes', 'x'.repeat(513)],
    ['of 257 characters in 514 bytes', 'ä'.repeat(257)],
  ])('a label %s is refused', async (_, sessionLabel) => {
    expect(await refusal({ sessionLabel })).toMatchObject({
      code: 'invalid_label',
      field: 'sessionLabel',
    })
  })
})

describe('history and message', () => {
  const user = { role: 'user', content: 'hi' }
  test.each<[string, unknown, string]>([
    ['a message that is no object', 'hi', 'history[1]'],
    ['null', null, 'history[1]'],
    ['no role', { content: 'x' }, 'history[1].role'],
    ['an unknown role', { role: 'robot', content: 'x' }, 'history[1].role'],
    ['no content', { role: 'user' }, 'history[1].content'],
    ['content of a number', { role: 'user', content: 5 }, 'history[1].content'],
    ['content of an object', { role: 'user', content: {} }, 'history[1].content'],
    [
      'a block without a type',
      { role: 'user', content: [{ text: 'x' }] },
      'history[1].content[0].type',
    ],
    [
      'an unknown block',
      { role: 'user', content: [{ type: 'video' }] },
      'history[1].content[0].type',
    ],
    ['a block of text', { role: 'user', content: ['x'] }, 'history[1].content[0].type'],
    [
      'a text block without text',
      { role: 'user', content: [{ type: 'text' }] },
      'history[1].content[0].text',
    ],
    [
      'the second of two blocks',
      {
        role: 'user',
        content: [
          { type: 'text', text: 'x' },
          { type: 'image', data: 5, mimeType: 'a' },
        ],
      },
      'history[1].content[1].data',
    ],
    ['a result without its call', { role: 'tool', content: 'x' }, 'history[1].toolCallId'],
    ["pi's result without its call", { role: 'toolResult', content: [] }, 'history[1].toolCallId'],
    [
      'a call without a name',
      { role: 'assistant', content: [{ type: 'toolCall', id: 'c', arguments: {} }] },
      'history[1].content[0].name',
    ],
    [
      'a call without an id',
      { role: 'assistant', content: [{ type: 'tool_call', name: 't', argumentsJson: '{}' }] },
      'history[1].content[0].id',
    ],
    [
      'a call whose arguments are text',
      {
        role: 'assistant',
        content: [{ type: 'toolCall', id: 'c', name: 't', arguments: '{"a":1}' }],
      },
      'history[1].content[0].arguments',
    ],
    [
      'a call in a message of the user',
      { role: 'user', content: [{ type: 'toolCall', id: 'c', name: 't', arguments: {} }] },
      'history[1].content[0].type',
    ],
    [
      'a result in a message of the assistant',
      { role: 'assistant', content: [{ type: 'tool_result', toolCallId: 'c', content: 'x' }] },
      'history[1].content[0].type',
    ],
    [
      'a result inside a result',
      {
        role: 'tool',
        content: [
          {
            type: 'tool_result',
            toolCallId: 'c',
            content: [{ type: 'tool_result', toolCallId: 'd', content: 'x' }],
          },
        ],
      },
      'history[1].content[0].content[0].type',
    ],
    [
      'an opaque block that is no JSON',
      { role: 'assistant', content: [{ type: 'opaque', rawJson: '}, {' }] },
      'history[1].content[0].rawJson',
    ],
    ['an id of a number', { id: 5, role: 'user', content: 'x' }, 'history[1].id'],
    ['a time of text', { role: 'user', content: 'x', createdAt: 'now' }, 'history[1].createdAt'],
    [
      'thinking of a number',
      { role: 'assistant', content: 'x', thinking: 5 },
      'history[1].thinking',
    ],
    [
      'isError of text',
      { role: 'tool', toolCallId: 'c', toolName: 't', content: 'x', isError: 'false' },
      'history[1].isError',
    ],
  ])('%s is refused at its path', async (_, message, field) => {
    const refused = await refusal({ history: [user, message] })
    expect(refused.code).toBe('invalid_context')
    expect(refused.field).toBe(field)
  })

  test.each<[string, unknown, string]>([
    ['a text', 'hi', 'currentMessage'],
    ['of the assistant', { role: 'assistant', content: 'x' }, 'currentMessage.role'],
    ['of the system', { role: 'system', content: 'x' }, 'currentMessage.role'],
    ['of a tool', { role: 'tool', toolCallId: 'c', content: 'x' }, 'currentMessage.role'],
    ['without content', { role: 'user' }, 'currentMessage.content'],
  ])('a current message that is %s is refused', async (_, currentMessage, field) => {
    expect(await refusal({ currentMessage })).toMatchObject({ code: 'invalid_context', field })
  })
})

describe('tools', () => {
  const run = () => 'x'
  const revoked = Proxy.revocable({}, {})
  revoked.revoke()
  test.each<[string, unknown, string]>([
    ['null', null, 'tools[1]'],
    ['a function', run, 'tools[1]'],
    ['no name', { run }, 'tools[1].name'],
    ['a name of a number', { name: 5, run }, 'tools[1].name'],
    ['an empty name', { name: '', run }, 'tools[1].name'],
    ['a name with a space', { name: 'my tool', run }, 'tools[1].name'],
    ['a name with a dot', { name: 'my.tool', run }, 'tools[1].name'],
    ['a name beyond ASCII', { name: 'werkzeugä', run }, 'tools[1].name'],
    ['a name of 65 characters', { name: 'x'.repeat(65), run }, 'tools[1].name'],
    ['a name that is there twice', { name: 'first', run }, 'tools[1].name'],
    ['no function', { name: 't' }, 'tools[1].execute'],
    ['a function of text', { name: 't', run: 'x' }, 'tools[1].execute'],
    ['a description of a number', { name: 't', run, description: 5 }, 'tools[1].description'],
    ['a schema of text', { name: 't', run, parameters: 'object' }, 'tools[1].parameters'],
    ['a schema of a list', { name: 't', run, parameters: [] }, 'tools[1].parameters'],
    ['a schema of a function', { name: 't', run, parameters: () => ({}) }, 'tools[1].parameters'],
    [
      'a schema with a BigInt',
      { name: 't', run, parameters: { const: 5n } },
      'tools[1].parameters.const',
    ],
    ['an unknown type', { name: 't', run, parameters: { type: 'strnig' } }, 'tools[1].parameters'],
    [
      'properties of a list',
      { name: 't', run, parameters: { properties: [] } },
      'tools[1].parameters',
    ],
    [
      'a pattern that does not compile',
      { name: 't', run, parameters: { properties: { a: { type: 'string', pattern: '(' } } } },
      'tools[1].parameters',
    ],
    [
      'a remote $ref',
      { name: 't', run, parameters: { $ref: 'https://example.com/schema.json' } },
      'tools[1].parameters',
    ],
    [
      'a $ref to a file',
      { name: 't', run, parameters: { $ref: 'file:///etc/passwd' } },
      'tools[1].parameters',
    ],
    [
      'a $ref to nothing',
      { name: 't', run, parameters: { $ref: '#/$defs/none' } },
      'tools[1].parameters',
    ],
    [
      'a schema of 300 KB',
      { name: 't', run, parameters: { description: 'x'.repeat(300_000) } },
      'tools[1].parameters',
    ],
    [
      'an unknown execution mode',
      { name: 't', run, executionMode: 'Parallel' },
      'tools[1].executionMode',
    ],
    ['a limit of 0', { name: 't', run, timeoutMs: 0 }, 'tools[1].timeoutMs'],
    ['a limit of text', { name: 't', run, timeoutMs: '5' }, 'tools[1].timeoutMs'],
    [
      'an endless limit',
      { name: 't', run, timeoutMs: Number.POSITIVE_INFINITY },
      'tools[1].timeoutMs',
    ],
    ['an unknown replay', { name: 't', run, replay: 'maybe' }, 'tools[1].replay'],
    ['retries without replay', { name: 't', run, retries: 1 }, 'tools[1].retries'],
    [
      'retries of an unsafe tool',
      { name: 't', run, retries: 1, replay: 'unsafe' },
      'tools[1].retries',
    ],
    ['negative retries', { name: 't', run, retries: -1, replay: 'pure' }, 'tools[1].retries'],
    [
      'a name that cannot be read',
      {
        run,
        get name() {
          throw new Error('no')
        },
      },
      'tools[1].name',
    ],
    ['a revoked Proxy', revoked.proxy, 'tools[1].name'],
  ])('%s is refused at its path', async (_, wrong, field) => {
    expect(await refusal({ tools: [tool('first', run), wrong] })).toMatchObject({
      code: 'invalid_tool',
      field,
    })
  })

  test('a schema that is too deep is refused', async () => {
    let parameters: unknown = { type: 'string' }
    for (let i = 0; i < 130; i++) parameters = { type: 'object', properties: { a: parameters } }
    expect(await refusal({ tools: [tool('t', run, { parameters })] })).toMatchObject({
      code: 'invalid_tool',
      field: 'tools[0].parameters',
    })
  })
})

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
    const path = join(dir.path, 'never.db')
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
      ledger: { path: join(dir.path, 'closed.db') },
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

test('the error is an Error with a stack that begins at the call', () => {
  const error = thrown(() => engine.run(context({ model: '' })))
  expect(error).toBeInstanceOf(Error)
  expect(error.name).toBe('AgentEngineError')
  expect(error.stack).toContain('bad-input.spec')
})

test('unusual but valid input is accepted: lone surrogates as U+FFFD, unknown fields, nulls, 512 bytes of label', async () => {
  const { engine: other, provider } = scriptedEngine(['ok'])
  const run = other.run(
    context({
      systemPrompt: 'cut \ud83d',
      currentMessage: { role: 'user', content: 'half \udc00 \u{1f600}' },
      sessionLabel: 'ä'.repeat(256),
      parentTurnId: null,
      ...({ history: null, thinkingConfig: null, temperature: null, abortSignal: null } as object),
      ...({ hostField: { deep: () => 1 }, 'host-other': Symbol('x') } as object),
    }),
  )
  const events = await readAll(run)
  expect((await run.result).stopReason).toBe('end_turn')
  const request = provider.requests[0]
  await other.close()
  expect(request?.system).toBe('cut \ufffd')
  expect(JSON.stringify(request?.messages)).toContain('half \ufffd \u{1f600}')
  expect(events[0]).toMatchObject({ type: 'stream_start', sessionLabel: 'ä'.repeat(256) })
})

test('a refused context is unchanged, and the engine stays usable', async () => {
  const { engine: other } = scriptedEngine(['ok'])
  const given = Object.freeze(
    context({ tools: Object.freeze([Object.freeze(tool('t', () => ''))]) }),
  )
  expect(thrown(() => other.run({ ...given, model: '' })).field).toBe('model')
  expect((await other.run(given).result).stopReason).toBe('end_turn')
  await other.close()
})

test('the test model has the properties that these tests assume', async () => {
  const { engine: other } = scriptedEngine(['ok'], { models: [testModel] })
  expect((await other.run(context()).result).stopReason).toBe('end_turn')
  await other.close()
})
