// The provider's prompt cache: the engine never breaks it, and reports the cause of every break. The servers store prefixes as
// the providers do and report what they read. It must never wait for a cold cache: the tests set the servers' time, and another
// SQLite moves the ledger's last call into the past.

import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type {
  AgentEngine,
  AgentEngineOptions,
  AgentRun,
  AgentTool,
  AssembledContext,
  CacheBreak,
  MessageInput,
} from '../../index.js'
import { scriptedProvider } from '../../index.js'
import { context, engineAt, readAll, tempDir } from '../support/engine.js'
import { rows, sqlite3 } from '../support/ledger/sqlite3.js'
import { child } from '../support/processes/child.js'
import { type Answer, anthropicCache, openaiCache } from '../support/servers/prompt-cache.js'
import { type TestServer, testServer } from '../support/servers/server.js'
import { SUMMARY } from '../support/values/summary.js'

const priced = {
  provider: 'test',
  id: 'test-model',
  contextWindow: 24_000,
  maxOutputTokens: 2_000,
  reasoning: true,
  thinking: { adaptive: false, budget: true, efforts: [], canDisable: true },
  cost: { input: 3, output: 15, cacheRead: 0.3, cacheWrite: 3.75, cacheWrite1h: 6, tiers: [] },
}

const thinking = { type: 'enabled', budgetTokens: 1_024 } as const

let dir: ReturnType<typeof tempDir>
let server: TestServer
let engines: AgentEngine[]
beforeEach(async () => {
  dir = tempDir()
  engines = []
  server = await testServer()
})
afterEach(async () => {
  await Promise.all(engines.map((engine) => engine.close()))
  await server.close()
  dir.remove()
})

function open(options: AgentEngineOptions = {}, provider: Record<string, unknown> = {}) {
  const engine = engineAt(
    server.url,
    {
      models: [
        priced,
        { provider: 'small', id: 'tiny', contextWindow: 100_000, maxOutputTokens: 2_000 },
      ],
      ledger: { path: dir.file, synchronous: 'normal' },
      ...options,
    },
    provider,
  )
  engines.push(engine)
  return engine
}

/** Closes an engine and opens another on the same ledger, without the memory of the first. */
async function reopened(engine: AgentEngine, options: AgentEngineOptions = {}) {
  await engine.close()
  return open(options)
}

const tool = (name: string, parameters: object = { type: 'object' }): AgentTool => ({
  name,
  description: `${name}s what it is given`,
  parameters,
  executionMode: 'parallel',
  run: (params: any) => `${name} ${params.of ?? ''}: ${'result '.repeat(params.words ?? 10)}`,
})
const tools = [
  tool('read', {
    type: 'object',
    properties: { of: { type: 'string' }, words: { type: 'integer' } },
  }),
  tool('write'),
  tool('list'),
]
/** About 1,500 tokens: above the smallest cached prompt. */
const SYSTEM = `You are a test. ${'Keep the rules of the house. '.repeat(200)}`
const typesOf = (events: { type: string }[]) => events.map(({ type }) => type)

/** Calls the tools in the newest message (`call 3 read`), and then answers. */
const obedient: Answer = (body) => {
  const { content } = body.messages.at(-1)
  const last = content.at(-1)
  const [, count, name] = last.type === 'text' ? (/call (\d+) (\w+)/.exec(last.text) ?? []) : []
  const round = body.messages.length
  if (name === undefined) return `answer ${round}`
  return {
    thinks: `about ${round}`,
    calls: Array.from({ length: Number(count) }, (_, n) => [
      `toolu_${round}_${n}`,
      name,
      { of: `file ${n}`, words: 20 },
    ]),
  }
}

test('200 turns with tools, compactions and restarts: no break, and every call reads what the previous one has cached', async () => {
  const cache = anthropicCache(obedient)
  server.use(cache.handler)
  const small = scriptedProvider(Array.from({ length: 60 }, () => SUMMARY))
  const options: AgentEngineOptions = {
    providers: {
      test: { api: 'anthropic-messages', baseUrl: server.url },
      small,
    },
    compaction: { provider: 'small', model: 'tiny' },
  }
  let engine = open(options)
  const breaks: unknown[] = []
  let compactions = 0
  for (let n = 1; n <= 200; n++) {
    if (n % 67 === 0) engine = await reopened(engine, options)
    // A tool loop in some turns, and in a few one with more blocks than a provider looks back.
    const userText =
      n % 40 === 0 ? 'call 15 read' : n % 3 === 0 ? `call ${1 + (n % 4)} read` : 'go on'
    const first = cache.calls.length
    const run = engine.run(
      context({
        systemPrompt: SYSTEM,
        tools,
        thinkingConfig: thinking,
        currentMessage: {
          role: 'user',
          content: `question ${n}: ${'lorem '.repeat(120)} ${userText}`,
        },
      }),
    )
    const events = await readAll(run)
    const result = await run.result
    expect([n, result.stopReason, result.error]).toEqual([n, 'end_turn', undefined])
    breaks.push(...result.cacheBreaks, ...events.filter(({ type }) => type === 'cache_break'))
    if (result.compaction) compactions++
    expect(cache.calls.length - first).toBe(userText === 'go on' ? 1 : 2)
  }
  expect(breaks).toEqual([])
  expect(compactions).toBeGreaterThan(4)
  // The server's own record, independent of the engine.
  const begins = (at: number) => cache.calls[at]?.seen.body.messages[0].content[0].text
  const [unlike, summarised] = [[], []] as [number[], number[]]
  for (let at = 1; at < cache.calls.length; at++) {
    const [before, now] = [cache.calls[at - 1], cache.calls[at]]
    if (now?.read !== (before?.read ?? 0) + (before?.written ?? 0)) unlike.push(at)
    if (begins(at) !== begins(at - 1)) summarised.push(at)
  }
  expect(unlike).toEqual(summarised)
  expect(summarised.length).toBe(compactions)
  await engine.close()
  if (sqlite3) {
    expect(rows(dir.file, 'SELECT count(*) AS n FROM cache_breaks')).toEqual([{ n: 0 }])
    const [chain] = rows(
      dir.file,
      'SELECT messages, comparable, length(tail) AS tail FROM cache_chains',
    )
    expect(chain).toMatchObject({ comparable: chain?.messages })
  }
})

describe('twelve mutations', () => {
  const png = (data: string) => ({ type: 'image', data, mimeType: 'image/png' }) as const
  const history: MessageInput[] = [
    { id: 'm0', role: 'user', content: `first question ${'lorem '.repeat(300)}` },
    { id: 'm1', role: 'assistant', content: 'first answer' },
    { id: 'm2', role: 'user', content: [{ type: 'text', text: 'look' }, png('AAAA')] },
    {
      id: 'm3',
      role: 'assistant',
      content: [{ type: 'toolCall', id: 'call_a', name: 'read', arguments: { of: 'x' } }],
    },
    { id: 'm4', role: 'tool', toolCallId: 'call_a', toolName: 'read', content: 'what stands in x' },
    { id: 'm5', role: 'assistant', content: 'second answer' },
    { id: 'm6', role: 'user', content: 'third question' },
    { id: 'm7', role: 'assistant', content: 'third answer' },
  ]
  const changed = (at: number, changes: Partial<MessageInput>) =>
    history.map((message, n) => (n === at ? { ...message, ...changes } : message))
  const base: Partial<AssembledContext> = {
    systemPrompt: SYSTEM,
    tools,
    history,
    currentMessage: { id: 'm8', role: 'user', content: 'fourth question' } as MessageInput,
  }

  /** One run, then, in another engine, the next one with a mutated context. */
  async function second(mutation: Partial<AssembledContext>) {
    const cache = anthropicCache(() => 'fourth answer')
    server.use(cache.handler)
    let engine = open()
    const first = await engine.run(context(base)).result
    expect(first).toMatchObject({ stopReason: 'end_turn', cacheBreaks: [] })
    engine = await reopened(engine)
    const next = mutation.history ?? history
    const run = engine.run(
      context({
        ...base,
        ...mutation,
        history: [...next, ...first.messages],
        currentMessage: { role: 'user', content: 'fifth question' },
      }),
    )
    const events = await readAll(run)
    const result = await run.result
    expect(result.stopReason).toBe('end_turn')
    await engine.close()
    return { events, result, calls: cache.calls }
  }

  test('without one, no break is reported and everything is read', async () => {
    const { events, result, calls } = await second({})
    expect(result.cacheBreaks).toEqual([])
    expect(typesOf(events)).not.toContain('cache_break')
    expect(calls[1]?.read).toBe((calls[0]?.read ?? 0) + (calls[0]?.written ?? 0))
  })

  const [read, write, list] = tools as [AgentTool, AgentTool, AgentTool]
  const message = (change: string, index: number, role: string, messageId: string | null) => ({
    part: 'message',
    change,
    name: null,
    index,
    role,
    messageId,
  })
  const ofTool = (change: string, name: string, index: number) => ({
    part: 'tool',
    change,
    name,
    index,
    role: null,
    messageId: null,
  })
  const mutations: [string, Partial<AssembledContext>, object][] = [
    [
      'a clock in the system prompt',
      { systemPrompt: `${SYSTEM} It is 12:01.` },
      { part: 'system', change: 'changed', name: null, index: null, role: null, messageId: null },
    ],
    ['tools in another order', { tools: [write, read, list] }, ofTool('reordered', 'write', 0)],
    [
      'a description',
      { tools: [read, { ...write, description: 'writes it all' }, list] },
      ofTool('changed', 'write', 1),
    ],
    ['one more tool', { tools: [...tools, tool('find')] }, ofTool('inserted', 'find', 3)],
    ['one tool less', { tools: [read, list] }, ofTool('removed', 'write', 1)],
    [
      'another order of keys in a schema',
      {
        tools: [
          tool('read', {
            properties: { of: { type: 'string' }, words: { type: 'integer' } },
            type: 'object',
          }),
          write,
          list,
        ],
      },
      ofTool('changed', 'read', 0),
    ],
    [
      'an edited question',
      { history: changed(6, { content: 'third question, edited' }) },
      message('changed', 6, 'user', 'm6'),
    ],
    [
      'a question and its answer dropped',
      { history: [...history.slice(0, 6), ...history.slice(8)] },
      message('removed', 6, 'user', null),
    ],
    [
      'a question and its answer put in',
      {
        history: [
          ...history.slice(0, 2),
          { id: 'n0', role: 'user', content: 'another question' },
          { id: 'n1', role: 'assistant', content: 'another answer' },
          ...history.slice(2),
        ],
      },
      message('inserted', 2, 'user', 'n0'),
    ],
    [
      'another tool result',
      { history: changed(4, { content: 'what stands in x now' }) },
      message('changed', 4, 'tool', 'm4'),
    ],
    [
      'a call id made anew',
      {
        history: changed(3, {
          content: [{ type: 'toolCall', id: 'call_b', name: 'read', arguments: { of: 'x' } }],
        }).map((it) => (it.id === 'm4' ? { ...it, toolCallId: 'call_b' } : it)),
      },
      message('changed', 3, 'assistant', 'm3'),
    ],
    [
      'another image',
      { history: changed(2, { content: [{ type: 'text', text: 'look' }, png('AAAB')] }) },
      message('changed', 2, 'user', 'm2'),
    ],
  ]

  test.each(mutations)('%s is named', async (_, mutation, wanted) => {
    const { events, result, calls } = await second(mutation)
    const [before, now] = calls as [(typeof calls)[0], (typeof calls)[0]]
    const expected = before.read + before.written
    const tokens = expected - now.read
    expect(result.cacheBreaks).toEqual([
      {
        attempt: 1,
        cause: 'prefix',
        ...wanted,
        expectedTokens: expected,
        readTokens: now.read,
        tokens,
        cost: expect.closeTo((tokens * priced.cost.cacheWrite) / 1e6, 12),
        idleMs: expect.any(Number),
      },
    ])
    const [cacheBreak] = events.filter(({ type }) => type === 'cache_break')
    expect(cacheBreak).toMatchObject({ cacheBreak: result.cacheBreaks[0] })
    expect(typesOf(events).indexOf('cache_break')).toBeGreaterThan(typesOf(events).indexOf('token'))
    if (sqlite3) {
      const storedBreaks = rows(dir.file, 'SELECT * FROM cache_breaks')
      const { messageId, index, ...rest } = result.cacheBreaks[0] as CacheBreak
      expect(storedBreaks).toEqual([
        {
          turn_id: result.turnId,
          attempt: 1,
          cause: 'prefix',
          part: rest.part,
          change: rest.change,
          name: rest.name,
          position: index,
          message_id: messageId,
          role: rest.role,
          expected_tokens: rest.expectedTokens,
          read_tokens: rest.readTokens,
          tokens: rest.tokens,
          cost: rest.cost,
          idle_ms: rest.idleMs,
        },
      ])
    }
  })
})

/** Moves the last call of every session so far into the past. */
const idle = (ms: number) => rows(dir.file, `UPDATE cache_chains SET called_at = called_at - ${ms}`)

const plain = { systemPrompt: SYSTEM, tools }
const userTurn = (content: string, changes: Partial<AssembledContext> = {}) =>
  context({ ...plain, currentMessage: { role: 'user', content }, ...changes })

test('a paused answer is continued from the cache, and so is the conversation after it', async () => {
  const pauses = ['one', 'two', 'three']
  const cache = anthropicCache(() => {
    const text = pauses.shift()
    return text === undefined ? 'done' : { pauses: text }
  })
  server.use(cache.handler)
  const engine = open()
  const results = [
    await engine.run(userTurn('go on')).result,
    await engine.run(userTurn('go on')).result,
  ]
  expect(results.map(({ cacheBreaks }) => cacheBreaks)).toEqual([[], []])
  expect(cache.calls.length).toBe(5)
  const read = cache.calls.slice(1).map(({ read }) => read)
  const left = cache.calls.slice(0, -1).map(({ read, written }) => read + written)
  expect(read).toEqual(left)
})

describe('a drop without a change', () => {
  test.runIf(sqlite3)('is expired after five minutes, and unexplained before', async () => {
    const cache = anthropicCache(obedient)
    server.use(cache.handler)
    let engine = open()
    await engine.run(userTurn('one')).result
    await engine.close()
    cache.now += 300_001
    idle(300_001)
    engine = open()
    const late = await engine.run(userTurn('two')).result
    expect(late.cacheBreaks).toMatchObject([
      { cause: 'expired', part: null, change: null, readTokens: 0, messageId: null },
    ])
    expect(late.cacheBreaks[0]?.idleMs).toBeGreaterThan(300_000)
    // The provider drops its cache.
    cache.now += 300_001
    const lost = await engine.run(userTurn('three')).result
    expect(lost.cacheBreaks).toMatchObject([{ cause: 'unexplained', part: null, readTokens: 0 }])
    // Still cached although the time has passed: nothing to report.
    await engine.close()
    idle(300_001)
    engine = open()
    expect((await engine.run(userTurn('four')).result).cacheBreaks).toEqual([])
  })

  test('has a changed setting of the host as its cause', async () => {
    const cache = anthropicCache(obedient)
    server.use(cache.handler)
    const engine = open()
    await engine.run(userTurn(`one ${'lorem '.repeat(800)}`)).result
    const { cacheBreaks } = await engine.run(userTurn('two', { thinkingConfig: thinking })).result
    expect(cacheBreaks).toMatchObject([
      { cause: 'prefix', part: 'setting', change: 'changed', name: 'thinkingConfig' },
    ])
  })
})

test('two processes compare with each other’s last call', async () => {
  const cache = anthropicCache(obedient)
  server.use(cache.handler)
  const engine = open()
  const same = { ...userTurn('one'), tools: [] }
  expect((await engine.run(same).result).cacheBreaks).toEqual([])
  const { runId: _, ...next } = { ...same, model: 'test-model' }
  const clock = { ...next, systemPrompt: `${SYSTEM} It is 12:01.` }
  const { code, out } = await child('providers/cache.mjs', [
    dir.file,
    server.url,
    JSON.stringify([next, clock]),
  ])
  const [goesOn, broken] = out
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  expect([code, goesOn]).toEqual([0, []])
  expect(broken).toMatchObject([{ cause: 'prefix', part: 'system', change: 'changed' }])
  // It continues from the other's chain.
  expect((await engine.run({ ...clock, runId: 'r4' }).result).cacheBreaks).toEqual([])
  expect((await engine.run({ ...next, runId: 'r5' }).result).cacheBreaks).toMatchObject([
    { cause: 'prefix', part: 'system', change: 'changed' },
  ])
})

describe('no false alarm', () => {
  const clocks = (n: number) => ({ systemPrompt: `${SYSTEM} It is ${n}.` })

  test('if a provider reports no cache, or the prompt is too short for one', async () => {
    const silent: Answer = () => 'ok'
    const cache = anthropicCache(silent)
    server.use(cache.handler)
    const engine = open()
    for (const n of [1, 2, 3]) {
      const short = { systemPrompt: `It is ${n}.`, tools: [] }
      expect((await engine.run(userTurn('hi', short)).result).cacheBreaks).toEqual([])
    }
    for (const n of [1, 2, 3]) {
      const off = { ...clocks(n), promptCache: { ttl: 'off' as const }, sessionLabel: 'off' }
      expect((await engine.run(userTurn('hi', off)).result).cacheBreaks).toEqual([])
    }
    expect(cache.calls.every(({ read, written }) => read + written === 0)).toBe(true)
  })

  test('for a switch of model, of profile, or of the cache’s lifetime', async () => {
    const cache = anthropicCache(obedient)
    server.use(cache.handler)
    const engine = open({
      models: [priced, { ...priced, id: 'other-model' }],
      authProfiles: [
        { id: 'p1', provider: 'test', type: 'api_key', key: 'sk-one-0123456789' },
        { id: 'p2', provider: 'test', type: 'api_key', key: 'sk-two-0123456789' },
      ],
    })
    const switches: Partial<AssembledContext>[] = [
      { authProfileId: 'p1' },
      { authProfileId: 'p1', model: 'other-model', systemPrompt: `${SYSTEM} Other.` },
      { authProfileId: 'p2', model: 'other-model', systemPrompt: `${SYSTEM} Third.` },
      { authProfileId: 'p2', model: 'other-model', promptCache: { ttl: '1h' } },
    ]
    for (const changes of switches) {
      expect((await engine.run(userTurn('hi', changes)).result).cacheBreaks).toEqual([])
    }
  })

  test('if results are truncated to fit, without a compaction', async () => {
    const cache = anthropicCache(obedient)
    server.use(cache.handler)
    const engine = open({ compaction: { strategies: ['tool_result_truncation'] } })
    const big = { ...tool('look'), run: () => 'result '.repeat(1_400) }
    const breaks: CacheBreak[] = []
    for (let n = 0; n < 12; n++) {
      const result = await engine.run(userTurn(`${n} call 1 look`, { tools: [...tools, big] }))
        .result
      expect(result.stopReason).toBe('end_turn')
      breaks.push(...result.cacheBreaks)
    }
    const cut = cache.calls.map(({ seen }) => seen.raw.includes('characters left out'))
    expect(new Set(cut)).toEqual(new Set([false, true]))
    expect(breaks).toEqual([])
  })

  test('after an interrupted turn, whose thinking is left out by rule', async () => {
    const cache = anthropicCache(obedient)
    server.use(cache.handler)
    const engine = open()
    const run: AgentRun = engine.run(
      userTurn(`${'lorem '.repeat(900)} call 1 stop`, {
        thinkingConfig: thinking,
        tools: [...tools, { ...tool('stop'), run: () => run.abort() }],
      }),
    )
    expect((await run.result).stopReason).toBe('aborted')
    const next = await engine.run(
      userTurn('go on', {
        thinkingConfig: thinking,
        tools: [...tools, tool('stop')],
      }),
    ).result
    expect(next.cacheBreaks).toEqual([])
    // The messages before the interrupted turn are still compared.
    const clock = await engine.run(
      userTurn('go on', {
        systemPrompt: `${SYSTEM}!`,
        thinkingConfig: thinking,
        tools: [...tools, tool('stop')],
      }),
    ).result
    expect(clock.cacheBreaks).toMatchObject([{ cause: 'prefix', part: 'system' }])
  })

  test('for the steps of OpenAI’s reads; a changed prefix is reported there too', async () => {
    const cache = openaiCache(() => 'ok')
    server.use(cache.handler)
    const engine = open({}, { api: 'openai-chat' })
    for (let n = 0; n < 12; n++) {
      const { cacheBreaks } = await engine.run(userTurn(`${n} ${'lorem '.repeat(n * 7)}`)).result
      expect(cacheBreaks).toEqual([])
    }
    const before = cache.calls.at(-1)
    const { cacheBreaks } = await engine.run(userTurn('hi', { tools: tools.slice(1) })).result
    const prompt = (before?.read ?? 0) + (before?.input ?? 0)
    expect(cacheBreaks).toMatchObject([
      {
        cause: 'prefix',
        part: 'tool',
        change: 'removed',
        name: 'read',
        index: 0,
        expectedTokens: prompt - (prompt % 128),
        readTokens: 0,
      },
    ])
  })
})
