// Tool results over the limits of storage: cut and marked before they are read in full. It counts the work and must never measure
// time.

import { afterEach, expect, test, vi } from 'vitest'
import type { AgentResult } from '../../index.js'
import { boundedJson, fitting } from '../../lib/values/bounded-json.ts'
import { afterwards, closing } from '../support/cleanup.js'
import { context, scriptedEngine, tempDir } from '../support/engine.js'
import { callTools, runTools, textOf, tool, toolResultsIn } from '../support/tools.js'

const MAX_RESULT = 4 * 1024 * 1024

afterEach(() => {
  vi.restoreAllMocks()
})

/** Runs a tool that returns `value`, and reads back what the ledger stores of it. */
async function runWithResult(value: () => unknown) {
  const dir = tempDir()
  afterwards(dir.remove)
  const { engine, provider } = scriptedEngine([callTools(['big']), 'done'], {
    ledger: { path: dir.file },
  })
  closing(engine)
  const result: AgentResult = await engine.run(context({ tools: [tool('big', value)] })).result
  expect(result).toMatchObject({ stopReason: 'end_turn', persisted: true })
  const turn = await engine.ledger.turn(result.turnId)
  const [sent] = toolResultsIn(provider.requests.at(-1)?.messages ?? [])
  return { result, stored: turn?.toolCalls[0]?.result, sent: textOf(sent) }
}

test('the two ends of a text of 30 million characters are stored, and the rest is not read', async () => {
  const text = `begin${'x'.repeat(30_000_000)}end`
  const stringify = JSON.stringify
  let longest = 0
  vi.spyOn(JSON, 'stringify').mockImplementation((...args) => {
    if (typeof args[0] === 'string') longest = Math.max(longest, args[0].length)
    return stringify(...(args as Parameters<typeof stringify>))
  })
  const { result, stored, sent } = await runWithResult(() => text)
  expect(longest).toBeLessThanOrEqual(MAX_RESULT)
  expect(result.toolCalls[0]).toMatchObject({ status: 'completed' })
  // The caller has its own whole object.
  expect(result.toolCalls[0]?.result).toBe(text)
  expect(stored).toMatch(
    /^beginx+\n\[… \d+ of 30000008 characters were cut here: of one result 4194304 characters of JSON are stored …\]\nx+end$/,
  )
  expect(String(stored).length).toBeLessThanOrEqual(MAX_RESULT)
  expect(String(stored).length).toBeGreaterThan(MAX_RESULT - 1_000)
  expect(sent.length).toBeLessThanOrEqual(400_000)
  expect(sent).toMatch(/^beginx/)
  expect(sent).toMatch(/xend$/)
})

test('a text of control characters is limited by its JSON, with six characters each', async () => {
  const { stored } = await runWithResult(() => '\u0001'.repeat(5_000_000))
  expect(JSON.stringify(stored).length).toBeLessThanOrEqual(MAX_RESULT)
  expect(String(stored)).toMatch(/of 5000000 characters were cut here/)
})

test('a cut never splits a character', async () => {
  const { stored } = await runWithResult(() => '\u{1f600}'.repeat(3_000_000))
  expect(String(stored)).not.toMatch(/\p{Surrogate}/u)
  expect(String(stored)).not.toContain('\ufffd')
})

test('a long list is read only as far as it is stored', async () => {
  let reads = 0
  const list = new Proxy(new Array(1_000_000).fill(7), {
    get: (target, key, receiver) => {
      if (typeof key === 'string' && /^\d+$/.test(key)) reads++
      return Reflect.get(target, key, receiver)
    },
  })
  const { stored, sent } = await runWithResult(() => list)
  expect(reads).toBeLessThanOrEqual(200_001)
  expect(stored).toMatch(/^\[7,7,.*\n\[… the rest was cut here: /s)
  expect(sent).toMatch(/^\[7,7,/)
})

test.each<[string, () => unknown]>([
  ['a Buffer of 50 MB', () => Buffer.alloc(50 * 1024 * 1024)],
  ['a typed array of 50 MB', () => new Float64Array(50 * 128 * 1024)],
  [
    'a list that reports itself endless',
    () =>
      new Proxy([], {
        get: (target, key) => (key === 'length' ? 2 ** 52 : Reflect.get(target, key)),
      }),
  ],
  ['100 MB in a list of texts', () => new Array(100).fill('y'.repeat(1024 * 1024))],
  [
    'pi’s shape with 100 MB of text',
    () => ({ content: new Array(100).fill({ type: 'text', text: 'z'.repeat(1024 * 1024) }) }),
  ],
])('%s is cut, and the call is a success', async (_, value) => {
  const { result, stored, sent } = await runWithResult(value)
  expect(result.toolCalls[0]?.status).toBe('completed')
  expect(JSON.stringify(stored).length).toBeLessThanOrEqual(2 * MAX_RESULT)
  expect(sent.length).toBeLessThanOrEqual(400_000)
})

test('an error of a tool is limited as well', async () => {
  const { result } = await runTools(
    [
      tool('t', () => {
        throw { rows: new Array(1_000_000).fill('x') }
      }),
    ],
    [callTools(['t'])],
  )
  expect(result.toolCalls[0]?.error?.length).toBeLessThanOrEqual(65_536)
})

test('within the limit the JSON equals that of JSON.stringify, for any value', () => {
  let seed = 7
  const random = (below: number) => {
    seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0
    return Math.floor((seed / 2 ** 32) * below)
  }
  const leaves = [
    () => undefined,
    () => null,
    () => random(2) === 0,
    () => -0,
    () => Number.NaN,
    () => 1e21,
    () => random(1_000) / 7,
    () => 'text',
    () => '\u0000"\\\ud83d\u2028',
    () => Symbol('s'),
    () => () => 1,
    () => new Date(random(1e9)),
    () => new Map([[1, 2]]),
    () => Object(5),
    () => Object('boxed'),
    () => Object(false),
    () => /x/g,
    () => new Error('e'),
    () => Buffer.from([1, 2, 3]),
    () => new Uint16Array([1, 2]),
    () => new Float32Array([Number.NaN, 0.5]),
    () => new DataView(new ArrayBuffer(2)),
    () => ({ toJSON: (key: string) => `key:${key}` }),
    () => ({ toJSON: () => undefined }),
    () => Object.create({ inherited: 1 }, { hidden: { value: 1, enumerable: false } }),
    () => Object.assign(Object.create(null), { bare: 1 }),
    // biome-ignore lint/suspicious/noSparseArray: what a tool may return
    () => [1, , 3],
    () => Object.assign([1], { extra: 2 }),
  ]
  const make = (depth: number): unknown => {
    const pick = random(leaves.length + 12)
    if (pick < leaves.length || depth > 5) return leaves[pick % leaves.length]?.()
    if (pick % 2 === 0) return Array.from({ length: random(5) }, () => make(depth + 1))
    return Object.fromEntries(
      Array.from({ length: random(5) }, (_, n) => [`k${n}"`, make(depth + 1)]),
    )
  }
  for (let round = 0; round < 3_000; round++) {
    const value = make(0)
    const expected = JSON.stringify(value)
    expect(boundedJson(value, 1e9)).toEqual({ json: expected, cut: false })
    const limit = random(40)
    // Plain JSON is cut to a prefix. (A field without JSON is detected after its name.)
    const plain = expected === undefined ? null : JSON.parse(expected)
    const whole = JSON.stringify(plain)
    const { json, cut } = boundedJson(plain, limit)
    if (json === undefined) throw new Error(`no JSON of ${whole}`)
    expect(json.length).toBeLessThanOrEqual(limit)
    expect(cut).toBe(whole.length > limit)
    expect(whole.startsWith(json)).toBe(true)
  }
})

test('the longest part that fits is found from both ends', () => {
  for (const text of [
    'abc',
    'ab\u0001c',
    '\u{1f600}'.repeat(50),
    '"'.repeat(80),
    `${'\u0001'.repeat(40)}${'x'.repeat(40)}`,
  ]) {
    for (const limit of [2, 3, 9, 20, 60, 1_000]) {
      for (const end of [false, true]) {
        const part = fitting(text, limit, end)
        expect(JSON.stringify(part).length).toBeLessThanOrEqual(limit)
        expect(end ? text.endsWith(part) : text.startsWith(part)).toBe(true)
        expect(part).not.toMatch(/\p{Surrogate}/u)
      }
    }
  }
})
