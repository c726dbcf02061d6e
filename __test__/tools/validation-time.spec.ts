// Checking arguments is bounded and can be stopped, for any schema: no pattern, keyword or size delays a run for long, or another
// run at all. It must never measure time: the order of events shows a delay.

import { expect, test } from 'vitest'
import {
  context,
  engineAt,
  readAll,
  scriptedEngine,
  tempDir,
  textOf as tokensOf,
} from '../support/engine.js'
import { anthropic } from '../support/servers/anthropic.js'
import { sse, testServer } from '../support/servers/server.js'
import { callTools, runTools, textOf, tool, toolResultsIn } from '../support/tools.js'
import { PATTERNS } from '../support/values/patterns.js'

/** Has back-references, so only its steps are limited: each letter can match in two ways. */
const EVIL = '^(x?)(?:a|a)*b\\1$'
const VICTIM = 'a'.repeat(3_000)

const withPattern = (pattern: string) => ({
  type: 'object',
  properties: { s: { type: 'string', pattern } },
})

/** What the model receives for one call with these arguments; undefined where the tool ran. */
async function resultOf(parameters: object, args: unknown) {
  let ran = false
  const { engine, provider } = scriptedEngine([callTools(['t', args]), 'done'])
  const tools = [
    tool(
      't',
      () => {
        ran = true
        return 'ran'
      },
      { parameters },
    ),
  ]
  const result = await engine.run(context({ tools })).result
  const [answer] = toolResultsIn(provider.requests[1]?.messages ?? [])
  await engine.close()
  expect(result.stopReason).toBe('end_turn')
  expect(answer?.isError).toBe(!ran)
  return ran ? undefined : textOf(answer)
}

test.each(PATTERNS)('%s: the pattern matches as in JavaScript', async (_, pattern, texts) => {
  const regex = (() => {
    try {
      return new RegExp(pattern, 'u')
    } catch {
      return new RegExp(pattern)
    }
  })()
  const wanted = texts.map((text) => regex.test(text))
  const got: boolean[] = []
  for (const s of texts) {
    const answer = await resultOf(withPattern(pattern), { s })
    if (answer !== undefined) expect(answer).toContain('s: must match pattern')
    got.push(answer === undefined)
  }
  expect(got).toEqual(wanted)
})

test.each([
  ['(?<!a+)b', false],
  ['(?=a*)b', false],
  ['(?<=a+)b', false],
  ['(?=.*b)c', false],
  ['^(?=(a+)+$)', true],
  ['^(?!(a|a)*b)', true],
  ['^(?=(a*)*$)(?<=^)a', true],
])('%s on 20,000 characters has its answer', async (pattern, fits) => {
  const answer = await resultOf(withPattern(pattern), { s: 'a'.repeat(20_000) })
  if (fits) expect(answer).toBeUndefined()
  else expect(answer).toContain('s: must match pattern')
})

test('a check that takes too long is reported to the model, and the run continues', async () => {
  const answer = await resultOf(withPattern(EVIL), { s: VICTIM })
  expect(answer).toContain(
    'root: checking the arguments against the tool’s schema takes too long'.replace('’', "'"),
  )
  expect(answer?.length).toBeLessThan(1_000)
  expect(await resultOf(withPattern(EVIL), { s: 'aab' })).toBeUndefined()
})

const deep = (levels: number, leaf: unknown): unknown =>
  Array.from({ length: levels }).reduce<unknown>((inner) => ({ all: inner }), leaf)

test.each<[string, object, unknown]>([
  [
    'names that a pattern with look-around has to judge',
    { type: 'object', patternProperties: { [EVIL]: { type: 'number' } } },
    { [VICTIM]: 1 },
  ],
  ['names of names', { type: 'object', propertyNames: { pattern: EVIL } }, { [VICTIM]: 1 }],
  [
    'a large enum over a large array',
    {
      type: 'object',
      properties: {
        v: {
          type: 'array',
          contains: { enum: Array.from({ length: 20_000 }, (_, n) => n + 0.5) },
        },
      },
    },
    { v: Array.from({ length: 100_000 }, () => 0) },
  ],
  [
    'alternatives over a large array',
    {
      type: 'object',
      properties: {
        v: {
          type: 'array',
          contains: { anyOf: Array.from({ length: 5_000 }, () => ({ type: 'string' })) },
        },
      },
    },
    { v: Array.from({ length: 100_000 }, () => 0) },
  ],
])('%s: the check ends', async (_, parameters, args) => {
  expect(await resultOf(parameters, args)).toContain('takes too long')
})

test('large, deep or recursive values within the limits are accepted', async () => {
  const tree = {
    type: 'object',
    properties: { v: { $ref: '#/$defs/f' } },
    $defs: {
      f: {
        anyOf: [
          { type: 'object', properties: { all: { $ref: '#/$defs/f' } }, required: ['all'] },
          {
            type: 'object',
            properties: { all: { $ref: '#/$defs/f' }, some: {} },
            required: ['some'],
          },
          { type: 'integer' },
        ],
      },
    },
  }
  expect(await resultOf(tree, { v: deep(60, 1) })).toBeUndefined()
  expect(await resultOf(tree, { v: deep(60, 'x') })).toContain('too deep to name the place')
  const unique = { type: 'object', properties: { v: { type: 'array', uniqueItems: true } } }
  const items = Array.from({ length: 50_000 }, (_, n) => [[n], `item ${n}`])
  expect(await resultOf(unique, { v: items })).toBeUndefined()
  expect(await resultOf(unique, { v: [...items.slice(0, 100), items[0]] })).toContain('unique')
  const long = { type: 'object', properties: { s: { type: 'string', pattern: '^[\\w\\s.,]*$' } } }
  expect(await resultOf(long, { s: 'word, '.repeat(600_000) })).toBeUndefined()
})

test('a pattern of names with look-around matches names as in JavaScript', async () => {
  const parameters = {
    type: 'object',
    patternProperties: {
      '^(?!x-)[a-z]+$': { type: 'number' },
      '^x-': {},
      '^(?=x-).*\\$$': { type: 'null' },
    },
    additionalProperties: false,
  }
  expect(await resultOf(parameters, { a: 1, 'x-a': 'any' })).toBeUndefined()
  expect(await resultOf(parameters, { a: 'text' })).toContain('a: must be number')
  expect(await resultOf(parameters, { 'x-$': 1 })).toContain('x-$: must be null')
  expect(await resultOf(parameters, { B: 1 })).toContain(
    "must NOT have additional properties ('B')",
  )
  expect(await resultOf(parameters, {})).toBeUndefined()
})

test('a schema with too large patterns is refused before anything is sent', () => {
  const { engine } = scriptedEngine(['done'])
  const properties = Object.fromEntries(
    Array.from({ length: 200 }, (_, n) => [`p${n}`, { pattern: `^${n}(?:abcdefghij){1,999}$` }]),
  )
  expect(() =>
    engine.run(
      context({ tools: [tool('t', () => '', { parameters: { type: 'object', properties } })] }),
    ),
  ).toThrow(expect.objectContaining({ code: 'invalid_tool', field: 'tools[0].parameters' }))
  return engine.close()
})

test('runs with expensive patterns in every call do not delay a run beside them', async () => {
  const server = await testServer()
  const dir = tempDir()
  let rounds = 0
  server.use((response, seen) => {
    const user = JSON.stringify(seen.body.messages[0])
    const round = seen.body.messages.length
    if (user.includes('evil')) {
      rounds++
      const calls = Array.from({ length: 8 }, (_, n): [string, string, unknown] => [
        `toolu_${round}_${n}`,
        't',
        { s: VICTIM },
      ])
      return sse(anthropic.calls(...calls))(response, seen)
    }
    return round < 7
      ? sse(anthropic.calls([`toolu_${round}`, 'fine', { s: 'abc' }]))(response, seen)
      : sse(anthropic.answer('healthy'))(response, seen)
  })
  const engine = engineAt(server.url, { ledger: { path: dir.file } })
  const evil = Array.from({ length: 8 }, (_, n) =>
    engine.run(
      context({
        sessionLabel: `agent:main:worker:evil-${n}`,
        currentMessage: { role: 'user', content: 'evil' },
        tools: [tool('t', () => 'ran', { parameters: withPattern(EVIL) })],
        maxIterations: 1_000,
        timeoutMs: 600_000,
      }),
    ),
  )
  let settled = 0
  for (const run of evil) void run.result.then(() => settled++)
  await expect.poll(() => rounds).toBeGreaterThanOrEqual(8)
  const fine: string[] = []
  const healthy = engine.run(
    context({
      currentMessage: { role: 'user', content: 'fine' },
      tools: [
        tool(
          'fine',
          ({ s }) => {
            fine.push(String(s))
            return s
          },
          { parameters: withPattern('^(?!b)[a-z]+$') },
        ),
      ],
    }),
  )
  expect(tokensOf(await readAll(healthy))).toBe('healthy')
  expect(fine).toEqual(['abc', 'abc', 'abc'])
  expect((await healthy.result).persisted).toBe(true)
  expect(settled).toBe(0)
  for (const run of evil) run.abort()
  const results = await Promise.all(evil.map((run) => run.result))
  expect(results.map((result) => result.stopReason)).toEqual(results.map(() => 'aborted'))
  await engine.close()
  await server.close()
  dir.remove()
})

test('an abort ends the wait for a check: no call of the batch is checked after it', {
  timeout: 300_000,
}, async () => {
  // Enough calls that a slow machine aborts before they are all checked.
  const calls = Array.from({ length: 1_000 }, (): [string, unknown] => ['t', { s: VICTIM }])
  const { engine, provider } = scriptedEngine([callTools(...calls), 'done'])
  const run = engine.run(
    context({
      tools: [tool('t', () => 'ran', { parameters: withPattern(EVIL) })],
      // Only the abort may end it, however slow the machine is.
      timeoutMs: 240_000,
    }),
    {
      onAgentEvent: (event) => {
        if (event.phase === 'tool_use') run.abort()
      },
    },
  )
  const result = await run.result
  expect(result.stopReason).toBe('aborted')
  // The calls checked before the abort, and then only aborted ones.
  const errors = result.toolCalls.map((call) => call.error)
  const judged = errors.indexOf('aborted')
  expect(errors.length).toBe(calls.length)
  expect(judged).toBeGreaterThanOrEqual(0)
  expect(errors.slice(judged).filter((error) => error !== 'aborted')).toEqual([])
  expect(result.toolCalls.filter((call) => call.status !== 'failed').length).toBe(0)
  expect(provider.requests.length).toBe(1)
  await engine.close()
})

test('the run’s time ends the wait for a check', async () => {
  const calls = Array.from({ length: 400 }, (): [string, unknown] => ['t', { s: VICTIM }])
  const { result } = await runTools(
    [tool('t', () => 'ran', { parameters: withPattern(EVIL) })],
    [callTools(...calls)],
    { timeoutMs: 300 },
  )
  expect(result.stopReason).toBe('timeout')
  expect(result.toolCalls.map((call) => call.status)).toEqual(calls.map(() => 'failed'))
  expect(result.toolCalls.at(-1)?.error).toBe('interrupted')
})
