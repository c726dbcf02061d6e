// The short form of a run: a message with options, the engine's defaults, and a turn in no session. It must never depend on the order
// of concurrent runs.

import { join } from 'node:path'
import { describe, expect, test, vi } from 'vitest'
import {
  AgentEngine,
  type AgentEngineOptions,
  type AssembledContext,
  type Message,
  parseSessionKey,
  type RunOptions,
  scriptedProvider,
  type ToolCallInfo,
} from '../../index.js'
import { closing, folder } from '../support/cleanup.js'
import { context, readAll, testModel } from '../support/engine.js'
import { thrown } from '../support/refusals.js'
import { anthropic } from '../support/servers/anthropic.js'
import { sse } from '../support/servers/server.js'
import { serverPerTest } from '../support/servers/server-per-test.js'

const ULID = /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/
const RUN_LABEL = /^run:[0-7][0-9A-HJKMNP-TV-Z]{25}$/
const server = serverPerTest(() => sse(anthropic.answer('Hello.')))

/** An engine at the loopback server, with a ledger. */
function engineWith(options: AgentEngineOptions = {}): AgentEngine {
  const provider = { api: 'anthropic-messages', baseUrl: server.url } as const
  return closing(
    new AgentEngine({
      ledger: { path: folder().file },
      providers: { test: provider, other: provider },
      authProfiles: ['test', 'other'].map((name) => ({ id: name, provider: name, key: 'sk-k' })),
      models: [testModel, { ...testModel, provider: 'other', id: 'maker/model' }],
      ...options,
    }),
  )
}

describe('a message', () => {
  test('needs a model and nothing else, and its turn is in the ledger', async () => {
    const engine = engineWith()
    const run = engine.run('Hello?', { model: 'test/test-model' })
    const [start] = await readAll(run)
    const { stopReason, turnId, persisted } = await run.result
    expect({ stopReason, persisted }).toEqual({ stopReason: 'end_turn', persisted: true })
    expect(server.seen.map(({ body }) => body)).toEqual([
      {
        model: 'test-model',
        max_tokens: 8_192,
        messages: [
          {
            role: 'user',
            content: [{ type: 'text', text: 'Hello?', cache_control: { type: 'ephemeral' } }],
          },
        ],
        stream: true,
      },
    ])
    const turn = await engine.ledger.turn(turnId)
    expect(turn).toMatchObject({
      runId: expect.stringMatching(ULID),
      sessionLabel: expect.stringMatching(RUN_LABEL),
      parentTurnId: null,
      role: 'unified',
      toolsetName: 'default',
      toolsAvailable: [],
      permissionsGranted: [],
      workspacePath: process.cwd(),
      model: 'test-model',
      provider: 'test',
    })
    expect(turn?.messages.map(({ role, content }) => [role, content])).toEqual([
      ['user', 'Hello?'],
      ['assistant', 'Hello.'],
    ])
    expect(start).toMatchObject({ type: 'stream_start', sessionLabel: turn?.sessionLabel })
  })

  test.each<[string, string | Message]>([
    ['a text', 'Look.'],
    ['a message', { role: 'user', content: 'Look.' }],
    ['blocks', { role: 'user', content: [{ type: 'text', text: 'Look.' }] }],
    ['a message of pi', { role: 'user', content: 'Look.', timestamp: 7 }],
  ])('may be %s', async (_, message) => {
    const engine = engineWith({ defaults: { model: 'test/test-model' } })
    const { messages } = await engine.run(message).result
    expect(messages.map(({ role, content }) => [role, content])).toEqual([
      ['user', 'Look.'],
      ['assistant', 'Hello.'],
    ])
  })

  test('has every option of a context, and shorter names for the session and the signal', async () => {
    const engine = engineWith()
    const calls: ToolCallInfo[] = []
    const callbacks = { onPartialReply: vi.fn(), onAgentEvent: undefined }
    server.use(sse(anthropic.calls(['a', 'work', {}])), sse(anthropic.answer('Done.')))
    const options: RunOptions = {
      model: 'test-model',
      provider: 'test',
      session: 'main',
      systemPrompt: 'Be brief.',
      temperature: 0.5,
      runId: 'mine',
      signal: new AbortController().signal,
      tools: [{ name: 'work', run: (_, call) => void calls.push(call) }],
      callbacks,
      maxIterations: undefined,
    }
    const { turnId, stopReason } = await engine.run('Go.', options).result
    expect(stopReason).toBe('end_turn')
    expect(calls.map(({ runId, sessionLabel }) => [runId, sessionLabel])).toEqual([
      ['mine', 'main'],
    ])
    expect(callbacks.onPartialReply).toHaveBeenCalledWith(
      expect.objectContaining({ text: 'Done.' }),
    )
    expect(server.seen[0]?.body).toMatchObject({ temperature: 0.5 })
    expect((await engine.ledger.session('main'))?.threadId).toBe(turnId)
  })

  test('continues its session', async () => {
    const engine = engineWith({ defaults: { model: 'test/test-model', sessionLabel: 'main' } })
    await engine.run('One?').result
    await engine.run('Two?').result
    expect(server.seen[1]?.body.messages).toHaveLength(3)
    const aborted = engine.run('Three?', { signal: AbortSignal.abort() })
    expect((await aborted.result).stopReason).toBe('aborted')
  })

  test('is counted like it is run', async () => {
    const engine = engineWith({ defaults: { model: 'test/test-model' } })
    const whole = { systemPrompt: 'Be brief.', model: 'test-model', provider: 'test' }
    const short = await engine.countTokens('Hello?', { systemPrompt: 'Be brief.' })
    const currentMessage = { role: 'user', content: 'Hello?' } as const
    expect(short).toEqual(await engine.countTokens(context({ ...whole, currentMessage })))
    expect(short.messageTokens).toBeGreaterThan(0)
  })
})

describe('a model', () => {
  test.each<[string, AgentEngineOptions['defaults'], RunOptions, string[]]>([
    ['names its provider', {}, { model: 'test/test-model' }, ['test', 'test-model']],
    [
      'names it over the provider of the defaults',
      { provider: 'other' },
      { model: 'test/test-model' },
      ['test', 'test-model'],
    ],
    [
      'without a slash is of the provider of the defaults',
      { model: 'other/maker/model', provider: undefined },
      { model: 'maker/model', provider: 'other' },
      ['other', 'maker/model'],
    ],
    ['may have a slash itself', { model: 'other/maker/model' }, {}, ['other', 'maker/model']],
    [
      'of the options is of the provider of the defaults',
      { model: 'other/maker/model' },
      { provider: 'test', model: 'test-model' },
      ['test', 'test-model'],
    ],
  ])('%s', async (_, defaults, options, expected) => {
    const engine = engineWith({ defaults })
    const { turnId } = await engine.run('Hello?', options).result
    const turn = await engine.ledger.turn(turnId)
    expect([turn?.provider, turn?.model]).toEqual(expected)
  })

  test('that is missing is a refusal that says how to pass it', () => {
    const engine = engineWith()
    expect(thrown(() => engine.run('Hello?'))).toMatchObject({
      code: 'invalid_context',
      field: 'model',
    })
  })
})

describe('defaults', () => {
  test('fill what a whole context leaves out, and nothing else', async () => {
    const run = vi.fn(() => 'x')
    const defaults = { temperature: 0, systemPrompt: 'Never.', tools: [{ name: 'work', run }] }
    const engine = engineWith({ defaults })
    const { temperature: _, ...given } = context({ systemPrompt: 'Mine.' })
    await engine.run(given).result
    expect(server.seen[0]?.body).toMatchObject({
      temperature: 0,
      system: [{ type: 'text', text: 'Mine.' }],
    })
    expect(server.seen[0]?.body.tools).toBeUndefined()
    server.use(sse(anthropic.calls(['a', 'work', {}])), sse(anthropic.answer('Done.')))
    await engine.run('Go.', { model: 'test/test-model' }).result
    expect(run).toHaveBeenCalledOnce()
  })

  test.each<[string, unknown, string, string]>([
    ['a list', [], 'defaults', '`defaults`: is not an object'],
    [
      'an unknown field',
      { tempature: 1 },
      'defaults.tempature',
      '`defaults.tempature`: is not a field of a context; did you mean `temperature`?',
    ],
    [
      'a field of one run',
      { runId: 'r' },
      'defaults.runId',
      '`defaults.runId`: belongs to one run; pass it to `run`',
    ],
    [
      'NaN',
      { temperature: Number.NaN },
      'defaults.temperature',
      '`defaults.temperature`: is not a finite number; leave it out for the default',
    ],
  ])('of %s are refused', (_, defaults, field, message) => {
    const options = { defaults } as AgentEngineOptions
    expect(thrown(() => new AgentEngine(options))).toMatchObject({
      code: 'invalid_options',
      field,
      message: `${message} (docs/guide/errors.md#invalid_options)`,
    })
  })
})

describe('an unknown field', () => {
  test.each<[Record<string, unknown>, string, string]>([
    [{ tempature: 1 }, 'tempature', 'did you mean `temperature`?'],
    [{ maxTokens: 5 }, 'maxTokens', 'did you mean `maxResponseTokens`?'],
    [{ sessionId: 'main' }, 'sessionId', 'did you mean `session`?'],
    [{ currentMessage: 'x' }, 'currentMessage', 'is not a field of a run'],
    [{ session: 'a', sessionLabel: 'b' }, 'session', 'pass one of them'],
  ])('%o of the short form is refused', (options, field, part) => {
    const engine = engineWith({ defaults: { model: 'test/test-model' } })
    const error = thrown(() => engine.run('Hello?', options as RunOptions))
    expect(error).toMatchObject({ code: 'invalid_context', field })
    expect(error.message).toContain(part)
    expect(server.connections()).toBe(0)
  })

  test('of a whole context is one warning of the process', async () => {
    const engine = engineWith()
    const warning = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
    try {
      const extended = { ...context(), tempature: 1, hostsOwn: {} } as AssembledContext
      await engine.run(extended).result
      await engine.run({ ...extended, runId: 'another' }).result
      expect(warning.mock.calls).toEqual([
        [
          'the context has a field that is not known and has no effect: `tempature`; did you mean `temperature`?',
          { code: 'AGENT_ENGINE_CONTEXT_FIELDS' },
        ],
        [
          'the context has a field that is not known and has no effect: `hostsOwn`',
          { code: 'AGENT_ENGINE_CONTEXT_FIELDS' },
        ],
      ])
    } finally {
      warning.mockRestore()
    }
  })
})

describe('a turn in no session', () => {
  test('is read, counted, exported and checked, and no session has it', async () => {
    const engine = engineWith({ defaults: { model: 'test/test-model' } })
    const results = await Promise.all(['One?', 'Two?', 'Three?'].map((it) => engine.run(it).result))
    const { ledger } = engine
    const turns = await Promise.all(results.map(({ turnId }) => ledger.turn(turnId)))
    const labels = turns.map((turn) => turn?.sessionLabel ?? '')
    expect(new Set(labels).size).toBe(3)
    expect(labels.map((label) => parseSessionKey(label).kind)).toEqual(['run', 'run', 'run'])
    expect((await ledger.sessions()).items).toEqual([])
    expect(await ledger.session(labels[0] ?? '')).toBeNull()
    expect(await ledger.stats()).toMatchObject({ sessions: 0, turns: { completed: 3 } })
    expect((await ledger.usage({ by: 'turn' })).items).toHaveLength(3)
    expect((await ledger.search('two')).items.map(({ turnId }) => turnId)).toEqual([
      results[1]?.turnId,
    ])
    expect(await ledger.history(results[0]?.turnId ?? '')).toHaveLength(2)
    expect(await ledger.verify()).toMatchObject({ ok: true, problems: [] })
    const file = join(folder().path, 'all.jsonl')
    expect(await ledger.export(file)).toMatchObject({ turns: 3, problems: [] })
    const copy = engineWith()
    expect(await copy.ledger.import(file)).toMatchObject({ turns: 3, problems: [] })
    expect(await copy.ledger.turn(results[2]?.turnId ?? '')).toEqual(turns[2])
    expect((await copy.ledger.sessions()).items).toEqual([])
  })

  test('becomes a session by a fork', async () => {
    const engine = engineWith({ defaults: { model: 'test/test-model' } })
    const { turnId } = await engine.run('One?').result
    await engine.ledger.fork(turnId, 'main')
    await engine.run('Two?', { session: 'main' }).result
    expect(server.seen[1]?.body.messages).toHaveLength(3)
  })

  test('runs beside any number of others, without a ledger as well', async () => {
    const gates = Array.from({ length: 20 }, (_, index) => ({
      steps: [{ gate: 'all' }, { text: String(index) }],
    }))
    const provider = scriptedProvider(gates as never)
    const engine = closing(
      new AgentEngine({
        ledger: { path: folder().file },
        providers: { demo: provider },
        defaults: { model: 'demo/scripted' },
      }),
    )
    const runs = gates.map((_, index) => engine.run(`${index}?`))
    await vi.waitFor(() => expect(provider.requests).toHaveLength(20))
    provider.open('all')
    const reasons = await Promise.all(runs.map(async (run) => (await run.result).stopReason))
    expect(new Set(reasons)).toEqual(new Set(['end_turn']))
  })
})
