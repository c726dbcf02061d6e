// For any values and functions of a caller: the process lives, every accepted run settles, a healthy run beside it completes, and
// a refusal is typed, has a path, and repeats little of the value. It must never end the process. `npm run proof:hostile` runs
// 20,000 cases; `HOSTILE_SEED=<its seed> HOSTILE_CASES=1` repeats one.

import { inspect, types } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  AgentEngine,
  AgentEngineError,
  type AgentRun,
  type AgentTool,
  parseSessionKey,
  scriptedProvider,
} from '../../index.js'
import { context, tempDir, testModel } from '../support/engine.js'
import { ENGINE_OPTIONS } from '../support/values/engine-options.js'
import {
  hostile,
  hostileFunction,
  hostileSignal,
  MARK,
  Random,
  thenable,
  thrown,
} from '../support/values/hostile.js'

const CASES = Number(process.env.HOSTILE_CASES ?? 500)
const SEED = Number(process.env.HOSTILE_SEED ?? 1)
/** Longer than any operation here takes: one that is still open then hangs. */
const HANGS = 60_000

const stray: unknown[] = []
const onException = (exception: unknown) => void stray.push({ exception })
const onRejection = (rejection: unknown) => void stray.push({ rejection })
const silent = () => {}
const dir = tempDir()
const listeners = process.listeners('warning')
let engine: AgentEngine
let healthy: AgentEngine

/** Calls the tool `t`, then the tool `u` twice, then ends; repeatedly. */
const script = () =>
  scriptedProvider(
    [
      { text: 'a', toolCalls: [{ name: 't', arguments: { x: 1 } }] },
      {
        thinking: 'hm',
        toolCalls: [
          { name: 'u', arguments: {} },
          { name: 'u', arguments: {} },
        ],
      },
      { text: 'done', chunkSize: 1 },
    ],
    { repeat: true },
  )

beforeAll(() => {
  process.on('uncaughtException', onException)
  process.on('unhandledRejection', onRejection)
  // A throwing callback becomes a warning; thousands of them would only fill the log here.
  process.removeAllListeners('warning')
  process.on('warning', silent)
  const options = { models: [testModel], toolTimeoutMs: 250 }
  engine = new AgentEngine({
    ...options,
    providers: { test: script() },
    ledger: { path: dir.file },
  })
  healthy = new AgentEngine({ ...options, toolTimeoutMs: HANGS, providers: { test: script() } })
})

afterAll(async () => {
  await engine.close()
  await healthy.close()
  process.off('uncaughtException', onException)
  process.off('unhandledRejection', onRejection)
  process.off('warning', silent)
  for (const listener of listeners) process.on('warning', listener)
  dir.remove()
})

/** Settles with `promise`, or fails if it never does. */
async function settles<T>(promise: Promise<T>, what: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const never = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} hangs`)), HANGS)
  })
  try {
    return await Promise.race([promise, never])
  } finally {
    clearTimeout(timer)
  }
}

/** Checks the properties of every refusal. */
function checkRefusal(error: unknown, what: string) {
  if (types.isProxy(error) || !(error instanceof AgentEngineError)) {
    throw new Error(`${what} threw ${inspect(error, { showProxy: true }).slice(0, 2_000)}`)
  }
  expect(error.code, `${what}: ${error.message}`).not.toBe('internal')
  for (const message of [error.message.split('\n')[0], ...error.issues.map((it) => it.message)]) {
    expect((message ?? '').split(MARK).length - 1, what).toBeLessThanOrEqual(200)
  }
  expect(error.message.length, what).toBeLessThanOrEqual(4_000)
  if (/^invalid_(options|context|tool|label|query)$/.test(error.code)) {
    expect(error.field, `${what}: ${error.message}`).toEqual(expect.any(String))
  }
  expect((error.field ?? '').length, what).toBeLessThanOrEqual(200)
}

/** Calls a function that may refuse. Its result is awaited, except a run. */
async function attempt(what: string, call: () => unknown): Promise<unknown> {
  try {
    return await settles(Promise.resolve(call()), what)
  } catch (error) {
    checkRefusal(error, what)
    return undefined
  }
}

const FIELDS = [
  'systemPrompt',
  'history',
  'currentMessage',
  'tools',
  'model',
  'provider',
  'fallbacks',
  'authProfileId',
  'thinkingConfig',
  'toolChoice',
  'parallelToolCalls',
  'responseFormat',
  'output',
  'outputRetries',
  'stopSequences',
  'promptCache',
  'metadata',
  'requestMetadata',
  'headers',
  'providerTools',
  'maxResponseTokens',
  'temperature',
  'tokenBudget',
  'timeoutMs',
  'runId',
  'sessionLabel',
  'parentTurnId',
  'role',
  'toolsetName',
  'permissionsGranted',
  'sourceEventId',
  'workspacePath',
  'target',
  'maxIterations',
  'toolTimeoutMs',
  'coalesce',
  'detached',
  'onRequest',
  'hostField',
]
const CALLBACKS = [
  'onPartialReply',
  'onReasoningStream',
  'onToolResult',
  'onAgentEvent',
  'onToolUpdate',
]

/** A tool with a hostile result: it returns, throws, rejects, or misuses its arguments. */
function hostileTool(random: Random, name: string): AgentTool {
  const run = random.pick<() => (params: any, call: any) => unknown>([
    () => () => 'fine',
    () => () => hostile(random),
    () => async () => hostile(random),
    () => () => thenable(random),
    () => () => {
      throw thrown(random)
    },
    () => () => ({ content: hostile(random), details: hostile(random), isError: hostile(random) }),
    () => () => ({ content: [hostile(random), { type: 'text', text: hostile(random) }] }),
    () => (params, call) => {
      call.onUpdate(hostile(random))
      call.signal.addEventListener('abort', hostileFunction(random))
      call.signal.onabort = hostileFunction(random)
      call.signal.addEventListener('abort', { handleEvent: hostile(random) })
      delete params.x
      // Until its time has ended.
      return new Promise(() => {})
    },
    () => () => hostileFunction(random),
  ])()
  const tool: Record<string, unknown> = { name, run }
  if (random.once(6)) {
    const field = random.pick([
      'name',
      'description',
      'parameters',
      'executionMode',
      'timeoutMs',
      'replay',
      'retries',
      'execute',
      'run',
    ])
    const value = hostile(random)
    if (random.once(3)) {
      Object.defineProperty(tool, field, { get: hostileFunction(random), enumerable: true })
    } else {
      tool[field] = value
    }
  }
  return tool as unknown as AgentTool
}

function hostileContext(random: Random): Record<string, unknown> {
  const fields: Record<string, unknown> = {
    ...context({ sessionLabel: `session:${random.int(8)}`, timeoutMs: 30_000 }),
    tools: [hostileTool(random, 't'), hostileTool(random, 'u')],
  }
  for (let changes = random.int(3); changes > 0; changes--) {
    const field = random.pick(FIELDS)
    if (random.once(4)) {
      const get = hostileFunction(random)
      Object.defineProperty(fields, field, { get, enumerable: true, configurable: true })
    } else {
      const value = field === 'onRequest' ? hostileFunction(random) : hostile(random)
      Object.defineProperty(fields, field, { value, enumerable: true, configurable: true })
    }
  }
  if (random.once(3)) fields.abortSignal = hostileSignal(random)
  return random.once(10) ? Object.freeze(fields) : fields
}

function hostileCallbacks(random: Random): unknown {
  if (random.once(10)) return hostile(random)
  const callbacks = {}
  for (const name of CALLBACKS) {
    if (random.once(2)) continue
    if (random.once(12)) {
      Object.defineProperty(callbacks, name, { get: hostileFunction(random), enumerable: true })
    } else {
      Object.assign(callbacks, { [name]: hostileFunction(random) })
    }
  }
  return callbacks
}

/** Reads, steers and aborts a run in a random way, and waits for its result. */
async function finish(random: Random, run: AgentRun) {
  // A tool whose functions are absent is one that is answered from outside: nobody does.
  run.stream.onEvent((event) => {
    if (event.type === 'approval') run.abort()
  })
  const listened = random.once(2) ? hostileFunction(random) : hostile(random)
  await attempt('onEvent', () => run.stream.onEvent(listened as never))
  if (random.once(4)) await attempt('steer', () => run.steer(hostile(random) as never))
  if (random.once(6)) run.abort()
  if (random.once(3)) {
    let events = 0
    for await (const event of run) {
      if (event.seq === -1 || (random.once(20) && ++events > 2)) break
    }
  }
  const result = await settles(run.result, 'a run')
  expect(result.stopReason).toMatch(/^(end_turn|aborted|error|timeout|tool_use|max_tokens)$/)
}

type Case = (random: Random) => unknown

const cases: Record<string, Case> = {
  async run(random) {
    const given = random.once(20) ? hostile(random) : hostileContext(random)
    const callbacks = random.once(2) ? hostileCallbacks(random) : undefined
    const run = await attempt('run', () => {
      const begun = engine.run(given as never, callbacks as never)
      // In a list: a run is no thenable, and must not become one by accident.
      return [begun]
    })
    if (run !== undefined) await finish(random, (run as [AgentRun])[0])
  },

  async options(random) {
    const options: Record<string, unknown> = {
      providers: { test: script() },
      models: [testModel],
      authProfiles: [{ id: 'p', provider: 'test', type: 'api_key', key: 'k' }],
    }
    const field = random.pick([...ENGINE_OPTIONS, MARK.repeat(1_000)])
    const value = hostile(random)
    if (random.once(4)) {
      Object.defineProperty(options, field, { get: hostileFunction(random), enumerable: true })
    } else if (random.once(2)) {
      options[field] = value
    } else {
      options[field] = random.pick<() => unknown>([
        () => ({ test: value }),
        () => [value],
        () => ({ [MARK.repeat(random.int(2_000))]: value }),
        () => ({ path: typeof value === 'string' ? `${dir.path}/${value}` : value }),
        () => [{ id: value, provider: 'test', type: 'api_key', key: 'k' }],
        () => ({ test: { api: 'openai-chat', baseUrl: value, headers: value } }),
      ])()
    }
    const opened = await attempt('new AgentEngine', () => [
      new AgentEngine((random.once(20) ? value : options) as never),
    ])
    if (opened !== undefined) {
      await settles((opened as [AgentEngine])[0].close(), 'close')
    }
  },

  async ledger(random) {
    const { ledger } = engine
    const some = (valid: unknown) => (random.once(2) ? valid : hostile(random)) as never
    const page = () =>
      some(random.once(2) ? { limit: hostile(random) } : { after: hostile(random) })
    // A text would be a path of a file.
    const path = () => {
      const value = hostile(random)
      return (typeof value === 'string' ? `${dir.path}/${value}` : value) as never
    }
    const [name, call] = random.pick<[string, () => unknown]>([
      ['session', () => ledger.session(some('session:1'))],
      ['history', () => ledger.history(some('session:1'))],
      ['turn', () => ledger.turn(some('t'))],
      ['ancestry', () => ledger.ancestry(some('t'), page())],
      ['children', () => ledger.children(some('t'), page())],
      ['sessionHistory', () => ledger.sessionHistory(some('session:1'), page())],
      ['asOf', () => ledger.asOf(some('session:1'), some(5))],
      ['search', () => ledger.search(some('done'), page())],
      ['usage', () => ledger.usage(some({ by: hostile(random) }))],
      ['sessions', () => ledger.sessions(page())],
      ['toolCalls', () => ledger.toolCalls(page())],
      ['fork', () => ledger.fork(some('t'), some({ atToolCall: hostile(random) }))],
      ['resolve', () => ledger.resolve(some('session:1'))],
      ['alias', () => ledger.alias(some('other'), some('session:1'))],
      ['removeAlias', () => ledger.removeAlias(some('other'))],
      ['aliases', () => ledger.aliases(page())],
      ['archive', () => ledger.archive(hostile(random) as never)],
      ['unarchive', () => ledger.unarchive(hostile(random) as never)],
      ['persona', () => ledger.persona(some('p'))],
      ['personas', () => ledger.personas(page())],
      ['putPersona', () => ledger.putPersona(some('p'), some({ name: hostile(random) }))],
      [
        'moveSession',
        () => ledger.moveSession(some('session:1'), some('t'), some({ expectedHead: 't' })),
      ],
      ['uncompact', () => ledger.uncompact(some('session:1'))],
      ['query', () => ledger.query(some('SELECT ?1'), some([hostile(random)]))],
      ['backup', () => ledger.backup(path())],
      ['export', () => ledger.export(path(), some({ format: hostile(random) }))],
      ['import', () => ledger.import(path(), some({ session: hostile(random) }))],
      [
        'writeTurn',
        () =>
          ledger.writeTurn(hostileContext(random) as never, some({ messages: hostile(random) })),
      ],
      ['watch', async () => await ledger.watch(hostile(random) as never).return?.()],
    ])
    await attempt(`ledger.${name}`, call)
  },

  async methods(random) {
    const value = () => hostile(random) as never
    const [name, call] = random.pick<[string, () => unknown]>([
      ['models', () => engine.models(value())],
      ['models', () => engine.models({ provider: value() })],
      ['countTokens', () => engine.countTokens(hostileContext(random) as never, { exact: false })],
      ['countTokens', () => engine.countTokens(context(), value())],
      ['compact', () => engine.compact(value(), value())],
      ['compact', () => engine.compact('session:none', { signal: hostileSignal(random) as never })],
      ['resume', () => engine.resume(value(), value())],
      ['resume', () => engine.resume('t', { callbacks: hostileCallbacks(random) as never })],
      ['discard', () => engine.discard(value())],
      ['resetProfile', () => engine.resetProfile(value())],
      ['attach', async () => await engine.attach(value(), value()).next()],
      ['attach', async () => await engine.attach('none', { afterSeq: value() }).next()],
      ['abortSession', () => engine.abortSession(value())],
      ['steerSession', () => engine.steerSession(random.once(2) ? value() : 'none', value())],
      ['parseSessionKey', () => parseSessionKey(value())],
      ['scriptedProvider', () => [scriptedProvider(value(), value())]],
      ['scriptedProvider.open', () => scriptedProvider([]).open(value())],
    ])
    try {
      await attempt(name, call)
    } catch (error) {
      // An aborted compaction rejects with its signal's reason, which may be anything.
      if (name !== 'compact') throw error
    }
  },
}

/** A healthy run in the same process. */
async function wellBeside() {
  const run = healthy.run(
    context({
      sessionLabel: 'healthy',
      tools: ['t', 'u'].map((name) => ({ name, run: () => 'fine' })),
    }),
  )
  let text = ''
  for await (const event of run) if (event.type === 'token') text += event.text
  expect(text).toBe('adone')
  const result = await run.result
  expect(result.stopReason).toBe('end_turn')
  expect(result.toolCalls.map((call) => call.status)).toEqual([
    'completed',
    'completed',
    'completed',
  ])
}

test(`${CASES} hostile cases from seed ${SEED}`, { timeout: 600_000 + CASES * 1_000 }, async () => {
  const names = Object.keys(cases)
  for (let index = 0; index < CASES; index++) {
    const seed = SEED + index
    const random = new Random(seed)
    const name = random.once(2) ? 'run' : random.pick(names)
    try {
      const beside = settles(wellBeside(), 'a healthy run')
      await Promise.all([cases[name]?.(random), beside])
      await new Promise((resolve) => setImmediate(resolve))
      if (stray.length > 0) throw stray[0]
    } catch (error) {
      const why = inspect(error, { showProxy: true }).slice(0, 4_000)
      throw new Error(
        `case \`${name}\` of seed ${seed} failed (HOSTILE_SEED=${seed} HOSTILE_CASES=1): ${why}`,
      )
    }
    if (CASES > 1_000 && (index + 1) % 1_000 === 0) {
      process.stderr.write(`hostile: ${index + 1} of ${CASES} cases\n`)
    }
  }
})
