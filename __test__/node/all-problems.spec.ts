// An error lists every problem of an input, with its path. It must never be thrown after something was written or sent.

import { describe, expect, test } from 'vitest'
import {
  AgentEngine,
  AgentEngineError,
  type AgentEngineOptions,
  type AssembledContext,
  type RunOptions,
  scriptedProvider,
} from '../../index.js'
import { closing, folder } from '../support/cleanup.js'
import { context, scriptedEngine } from '../support/engine.js'
import { refusals, thrown } from '../support/refusals.js'
import { random } from '../support/values/random.js'

type Fields = Record<string, unknown>

const { engine } = refusals()

const paths = (error: AgentEngineError) => error.issues.map(({ path }) => path).sort()

const badBlock = { role: 'user', content: [{ type: 'sound' }] }

/** Independent mistakes of a context: the path of the problem, and how it is made. */
const mistakes: [string, (context: Fields) => Fields][] = [
  ['timeoutMs', (it) => ({ ...it, timeoutMs: 0 })],
  ['temperature', (it) => ({ ...it, temperature: Number.NaN })],
  ['maxIterations', (it) => ({ ...it, maxIterations: -1 })],
  ['runId', ({ runId: _, ...it }) => it],
  ['role', (it) => ({ ...it, role: 'boss' })],
  ['model', (it) => ({ ...it, model: 'no-such-model' })],
  ['sessionLabel', (it) => ({ ...it, sessionLabel: '' })],
  ['thinkingConfig.type', (it) => ({ ...it, thinkingConfig: { type: 'loud' } })],
  ['headers', (it) => ({ ...it, headers: ['x'] })],
  ['target.deep', (it) => ({ ...it, target: { deep: 5n } })],
  ['history[1].role', (it) => changed(it, 'history', 1, { role: 'boss' })],
  ['history[2].content[0].type', (it) => changed(it, 'history', 2, badBlock)],
  ['abortSignal', (it) => ({ ...it, abortSignal: {} })],
  ['onRequest', (it) => ({ ...it, onRequest: 'no' })],
  ['callbacks.onPartialReply', (it) => ({ ...it, callbacks: { onPartialReply: 5 } })],
  ['tools[0].needsApproval', (it) => changed(it, 'tools', 0, { needsApproval: true })],
  ['tools[1].name', (it) => changed(it, 'tools', 1, { name: 'a b' })],
  ['tools[2].parameters', (it) => changed(it, 'tools', 2, { parameters: 'none' })],
  ['tools[3].timeoutMs', (it) => changed(it, 'tools', 3, { timeoutMs: 0 })],
]

/** A context with changes of one item of a list. */
function changed(context: Fields, list: string, index: number, changes: Fields): Fields {
  const items = [...(context[list] as Fields[])]
  items[index] = { ...items[index], ...changes }
  return { ...context, [list]: items }
}

function mistaken(chosen: typeof mistakes): [Fields, unknown] {
  const tools = ['a', 'b', 'c', 'd'].map((name) => ({ name, run: () => '' }))
  const history = ['1', '2', '3'].map((content) => ({ role: 'user', content }))
  const whole: Fields = { ...context(), tools, history }
  const given = chosen.reduce((it, [, make]) => make(it), whole)
  const { callbacks, ...fields } = given
  return [fields, callbacks]
}

test.each(mistakes)('a mistake at `%s` is one problem', (path, make) => {
  const [fields, callbacks] = mistaken([[path, make]])
  const error = thrown(() => engine().run(fields as never, callbacks as never))
  expect(paths(error)).toEqual([path])
  expect(error).toMatchObject({ path, field: path })
})

test('k independent mistakes of a context are k problems, of which the first one is the error', () => {
  const next = random(7)
  for (let round = 0; round < 150; round++) {
    const chosen = mistakes.filter(() => next(10) < 3)
    if (chosen.length < 2) continue
    const [fields, callbacks] = mistaken(chosen)
    const error = thrown(() => engine().run(fields as never, callbacks as never))
    expect(paths(error)).toEqual(chosen.map(([path]) => path).sort())
    expect(error.path).toBe(error.issues[0]?.path)
    expect(error.message.split('\n')).toHaveLength(chosen.length)
  }
})

describe('an error', () => {
  test('names the allowed values, and the name that was meant', () => {
    const given = {
      ...context(),
      role: 'mangaer',
      toolChoice: 'requird',
      thinkingConfig: { type: 'adaptive', budgetTokns: 5 },
    }
    const { message, issues, code } = thrown(() => engine().run(given as never))
    expect(code).toBe('invalid_context')
    const lines = issues.map((issue) => `\`${issue.path}\`: ${issue.message}`).join('\n')
    expect(message).toBe(`${lines} (docs/guide/errors.md#invalid_context)`)
    expect(Object.fromEntries(issues.map((issue) => [issue.path, issue.message]))).toEqual({
      role: '`mangaer` is not known, expected one of `manager`, `worker`, `unified`; did you mean `manager`?',
      toolChoice: expect.stringContaining('did you mean `required`?'),
      'thinkingConfig.budgetTokns': expect.stringContaining('did you mean `budgetTokens`?'),
    })
  })

  test('of the short form lists its unknown fields too', () => {
    const options = { model: 'test/none', tempature: 1, sesion: 'main', timeoutMs: 0 } as RunOptions
    const error = thrown(() => engine().run('Hello?', options))
    expect(paths(error)).toEqual(['model', 'sesion', 'tempature', 'timeoutMs'])
    expect(error.message).toContain('did you mean `session`?')
  })

  test('of a count lists all problems as well', async () => {
    const error = await engine()
      .countTokens({ ...context(), temperature: 5, role: 'boss' } as never)
      .then(
        () => expect.fail('it was accepted'),
        (error: AgentEngineError) => error,
      )
    expect(error).toBeInstanceOf(AgentEngineError)
    expect(paths(error)).toEqual(['role', 'temperature'])
  })

  test('that is about no value has no problems', async () => {
    const closed = new AgentEngine({ providers: { test: scriptedProvider([]) } })
    await closed.close()
    const error = thrown(() => closed.run('Hello?', { model: 'test/m' }))
    expect({ code: error.code, issues: error.issues }).toEqual({
      code: 'engine_closed',
      issues: [],
    })
    expect('path' in error).toBe(false)
  })

  test('has the stack of the call', () => {
    const error = thrown(() => engine().run({ ...context(), role: 'x', temperature: 9 } as never))
    expect(error.stack).toContain('all-problems.spec')
    expect(error.stack?.startsWith(`AgentEngineError: ${error.message}`)).toBe(true)
  })

  test('is soon made, also of a long history', () => {
    const history = Array.from({ length: 2_000 }, (_, index) => ({
      role: 'user',
      content: `${index} ${'lorem '.repeat(200)}`,
    })) as unknown as Fields[]
    history[1_999] = { role: 'boss', content: 'x' }
    const given = { ...context(), history, temperature: 9 } as unknown as AssembledContext
    expect(paths(thrown(() => engine().run(given)))).toEqual(['history[1999].role', 'temperature'])
  })
})

describe('options', () => {
  const http = { api: 'anthropic-messages', baseUrl: 'http://127.0.0.1:1' }
  test.each<[unknown, string[]]>([
    [{ ledgr: {}, toolTimeoutMs: 0 }, ['ledgr', 'toolTimeoutMs']],
    [
      {
        providers: { p: { ...http, api: 'anthropic' }, q: { ...http, idleTimeoutMs: 0 } },
        authProfiles: [{ id: 'a', provider: 'q', type: 'api_ky', key: 'k' }],
      },
      ['authProfiles[0].type', 'providers.p.api', 'providers.q.idleTimeoutMs'],
    ],
    [
      {
        ledger: { path: '', leaseMs: 1 },
        contextGuard: { warnThreshold: 7 },
        recovery: 'maybe',
        onRequest: 5,
        defaults: { tempature: 1, temperature: 5, role: 'boss', tools: [{ name: 'a', run: 5 }] },
      },
      [
        'contextGuard.warnThreshold',
        'defaults.role',
        'defaults.temperature',
        'defaults.tempature',
        'defaults.tools[0].execute',
        'ledger.leaseMs',
        'ledger.path',
        'onRequest',
        'recovery',
      ],
    ],
    [
      {
        failover: { ladder: 'steep', maxWaitMs: -1 },
        budgets: [{ per: 'week', maxTokens: 5 }],
        pruning: 'yes',
      },
      ['budgets[0].per', 'failover.ladder', 'failover.maxWaitMs', 'pruning'],
    ],
    [
      {
        providers: { p: { ...http, baseUrl: 'nowhere' } },
        authProfiles: [{ id: 'a', provider: 'p', key: 'k' }],
      },
      ['providers.p.baseUrl'],
    ],
  ])('list all that is wrong: %j', (options, expected) => {
    const error = thrown(() => new AgentEngine(options as AgentEngineOptions))
    expect({ code: error.code, paths: paths(error) }).toEqual({
      code: 'invalid_options',
      paths: expected.sort(),
    })
  })

  test('never repeat a key', () => {
    const key = 'sk-canary-0123456789'
    const authProfiles = [{ id: 'a', provider: 'none', type: 'api_key', key }]
    const error = thrown(() => new AgentEngine({ authProfiles, toolTimeoutMs: 0 } as never))
    expect(paths(error)).toEqual(['authProfiles[0].provider', 'toolTimeoutMs'])
    expect(JSON.stringify([error.message, error.issues, error.stack])).not.toContain(key)
  })
})

describe('refused turns', () => {
  test('`writeTurn` lists all that is wrong in the context and in the result, and writes nothing', async () => {
    const { file } = folder()
    const { engine } = scriptedEngine([], { ledger: { path: file } })
    closing(engine)
    const wrong = [
      { ...context({ runId: '', timeoutMs: 0 }), role: 'boss' },
      { durationMs: -1, stopReason: 'done', usage: 5, messages: [], toolCalls: {} },
    ]
    const [given, result] = wrong as never[]
    const error = await engine.ledger.writeTurn(given as never, result as never).catch((it) => it)
    expect(error).toBeInstanceOf(AgentEngineError)
    expect({ code: error.code, field: error.field, paths: paths(error) }).toEqual({
      code: 'invalid_context',
      field: 'timeoutMs',
      paths: [
        'result.durationMs',
        'result.stopReason',
        'result.toolCalls',
        'result.usage',
        'role',
        'runId',
        'timeoutMs',
      ],
    })
    expect((await engine.runs()).items).toEqual([])
  })

  test('`resume` lists all that is wrong in its options', async () => {
    const { file } = folder()
    const { engine } = scriptedEngine([], { ledger: { path: file } })
    closing(engine)
    const options = {
      tools: [{ name: 'a b', run: () => '' }],
      timeoutMs: 0,
      model: 'another',
      callbacks: { onPartialReply: 5 },
      stopWhen: 'never',
    }
    const error = await engine.resume('01J', options as never).catch((it) => it)
    expect({ code: error.code, paths: paths(error) }).toEqual({
      code: 'invalid_context',
      paths: ['callbacks.onPartialReply', 'model', 'stopWhen', 'timeoutMs', 'tools[0].name'],
    })
  })
})
