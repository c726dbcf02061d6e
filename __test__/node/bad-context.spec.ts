// Wrong fields of a context: a synchronous AgentEngineError with a code and the field's path. It must never accept a refusal with an
// effect: after every test the server has received no request and the ledger has no turn.

import { describe, expect, test } from 'vitest'
import { context, readAll, scriptedEngine, testModel } from '../support/engine.js'
import { refusals, thrown } from '../support/refusals.js'
import { tool } from '../support/tools.js'

type Fields = Record<string, unknown>

const { engine, refusal } = refusals()

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
    const why = "`provider`: `tset` is not among the engine's providers (test)"
    expect(message).toBe(`${why} (docs/guide/errors.md#unknown_provider)`)
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

test('the error is an Error with a stack that begins at the call', () => {
  const error = thrown(() => engine().run(context({ model: '' })))
  expect(error).toBeInstanceOf(Error)
  expect(error.name).toBe('AgentEngineError')
  expect(error.stack).toContain('bad-context.spec')
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
