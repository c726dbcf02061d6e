// Arguments and schemas: coercion as in pi (docs/rules/pi.md#validation-and-coercion), refused arguments, and the error for the
// model. A tool must never run with arguments that its schema refuses.

import { type TSchema, Type } from '@sinclair/typebox'
import { expect, test } from 'vitest'
import { context, scriptedEngine } from '../support/engine.js'
import { textOf, tool, toolResultsIn } from '../support/tools.js'

interface Checked {
  /** The arguments of the tool; undefined if it was not run. */
  got: unknown
  /** The error for the model if it was not run. */
  refusal: string | undefined
  /** The call's record. */
  params: unknown
}

/** Calls a tool of this schema once with these arguments (text is sent as it is). */
async function check(parameters: unknown, args: unknown): Promise<Checked> {
  let got: unknown
  const { engine, provider } = scriptedEngine([
    {
      toolCalls: [
        typeof args === 'string'
          ? { name: 't', argumentsText: args }
          : { name: 't', arguments: args },
      ],
    },
    'done',
  ])
  const result = await engine.run(
    context({
      tools: [
        tool(
          't',
          (params) => {
            got = params
            return 'ran'
          },
          { parameters },
        ),
      ],
    }),
  ).result
  const refusal = toolResultsIn(provider.requests[1]?.messages ?? [])[0]
  await engine.close()
  expect(result.stopReason).toBe('end_turn')
  expect(refusal?.isError).toBe(got === undefined)
  return {
    got,
    refusal: refusal?.isError ? textOf(refusal) : undefined,
    params: result.toolCalls[0]?.params,
  }
}

const object = (properties: Record<string, unknown>, more: object = {}) => ({
  type: 'object',
  properties,
  ...more,
})

test.each<[string, TSchema, unknown, unknown]>([
  ['"5" becomes 5', Type.Number(), '5', 5],
  ['"-1.5e2" becomes -150', Type.Number(), '-1.5e2', -150],
  ['"5" becomes 5 for an integer', Type.Integer(), '5', 5],
  ['true becomes 1', Type.Number(), true, 1],
  ['null becomes 0', Type.Number(), null, 0],
  ['"true" becomes true', Type.Boolean(), 'true', true],
  ['"false" becomes false', Type.Boolean(), 'false', false],
  ['1 becomes true', Type.Boolean(), 1, true],
  ['0 becomes false', Type.Boolean(), 0, false],
  ['null becomes false', Type.Boolean(), null, false],
  ['7 becomes "7"', Type.String(), 7, '7'],
  ['true becomes "true"', Type.String(), true, 'true'],
  ['null becomes ""', Type.String(), null, ''],
  ['"" becomes null', Type.Null(), '', null],
  ['5.0 is an integer', Type.Integer(), 5.0, 5],
])('%s, with TypeBox and with plain JSON Schema', async (_, schema, given, wanted) => {
  const parameters = Type.Object({ v: schema })
  for (const one of [parameters, JSON.parse(JSON.stringify(parameters))]) {
    const { got, params } = await check(one, { v: given })
    expect(got).toEqual({ v: wanted })
    expect(params).toEqual({ v: wanted })
  }
})

test.each<[string, TSchema, unknown, string]>([
  ['"abc" for a number', Type.Number(), 'abc', 'v: must be number'],
  ['"" for a number', Type.Number(), '', 'v: must be number'],
  ['5.5 for an integer', Type.Integer(), 5.5, 'v: must be integer'],
  ['"5.5" for an integer', Type.Integer(), '5.5', 'v: must be integer'],
  ['"yes" for a boolean', Type.Boolean(), 'yes', 'v: must be boolean'],
  ['2 for a boolean', Type.Boolean(), 2, 'v: must be boolean'],
  ['an object for a string', Type.String(), {}, 'v: must be string'],
  ['a scalar for an array', Type.Array(Type.String()), 'one', 'v: must be array'],
  ['0 under a minimum of 1', Type.Number({ minimum: 1 }), 0, 'v: must be >= 1'],
  ['"0" under a minimum of 1', Type.Number({ minimum: 1 }), '0', 'v: must be >= 1'],
  ['a text off its pattern', Type.String({ pattern: '^a+$' }), 'b', 'v: must match pattern "^a+$"'],
  ['a text off its format', Type.String({ format: 'email' }), 'b', 'v: must match format "email"'],
])('%s is refused', async (_, schema, given, line) => {
  const { refusal, got, params } = await check(Type.Object({ v: schema }), { v: given })
  expect(got).toBeUndefined()
  expect(refusal).toBe(
    `Validation failed for tool "t":\n  - ${line}\n\nReceived arguments:\n${JSON.stringify({ v: given })}`,
  )
  expect(params).toEqual({})
})

test('every failing path is reported, with the received value', async () => {
  const parameters = Type.Object({
    path: Type.String(),
    limit: Type.Integer(),
    edits: Type.Array(Type.Object({ line: Type.Integer() })),
  })
  const { refusal } = await check(parameters, {
    limit: 'many',
    edits: [{ line: 1 }, { line: 'x' }],
  })
  expect(refusal?.split('\n').slice(0, 1)).toEqual(['Validation failed for tool "t":'])
  expect(refusal).toContain("\n  - path: must have required property 'path'")
  expect(refusal).toContain('\n  - limit: must be integer')
  expect(refusal).toContain('\n  - edits/1/line: must be integer')
  expect(refusal).toContain(
    '\n\nReceived arguments:\n{"limit":"many","edits":[{"line":1},{"line":"x"}]}',
  )
})

test('the report of refused arguments is short, however long they are', async () => {
  const { refusal } = await check(Type.Object({ n: Type.Number() }), { n: 'x'.repeat(1_000_000) })
  expect(refusal?.length).toBeLessThan(1_000)
})

test('nested values and the items of arrays are coerced in place', async () => {
  const parameters = Type.Object({
    outer: Type.Object({ inner: Type.Array(Type.Object({ n: Type.Number(), b: Type.Boolean() })) }),
    pair: Type.Tuple([Type.Number(), Type.String()]),
    map: Type.Record(Type.String(), Type.Integer()),
  })
  const { got } = await check(parameters, {
    outer: {
      inner: [
        { n: '1', b: 'true' },
        { n: 2, b: 0 },
      ],
      more: 'kept',
    },
    pair: ['3', 4],
    map: { a: '5' },
  })
  expect(got).toEqual({
    outer: {
      inner: [
        { n: 1, b: true },
        { n: 2, b: false },
      ],
      more: 'kept',
    },
    pair: [3, '4'],
    map: { a: 5 },
  })
})

test('a valid value is never changed, whatever else is coerced', async () => {
  const { got } = await check(
    object({ either: { type: ['string', 'number'] }, n: { type: 'number' } }),
    { either: '5', n: '6', extra: { kept: ['7'] } },
  )
  expect(got).toEqual({ either: '5', n: 6, extra: { kept: ['7'] } })
})

test('extra keys are passed on; with additionalProperties false they are refused', async () => {
  const args = { n: 1, extra: true }
  expect((await check(Type.Object({ n: Type.Number() }), args)).got).toEqual(args)
  const { refusal } = await check(
    Type.Object({ n: Type.Number() }, { additionalProperties: false }),
    args,
  )
  expect(refusal).toContain("root: must NOT have additional properties ('extra')")
})

test('keys have the order in which the model wrote them', async () => {
  const { got } = await check(object({ z: {}, a: {} }), '{"z":1,"m":2,"a":3}')
  expect(Object.keys(got as object)).toEqual(['z', 'm', 'a'])
})

test('$defs and $ref are followed, also if they are recursive', async () => {
  const parameters = object(
    { tree: { $ref: '#/$defs/node' } },
    {
      $defs: {
        node: object(
          { n: { type: 'integer' }, next: { $ref: '#/$defs/node' } },
          { required: ['n'] },
        ),
      },
      required: ['tree'],
    },
  )
  expect((await check(parameters, { tree: { n: '1', next: { n: '2' } } })).got).toEqual({
    tree: { n: 1, next: { n: 2 } },
  })
  const { refusal } = await check(parameters, { tree: { n: 1, next: {} } })
  expect(refusal).toContain("tree/next: must have required property 'n'")
})

test("TypeBox's recursive schema works", async () => {
  const Node = Type.Recursive((Self) =>
    Type.Object({ id: Type.Number(), children: Type.Array(Self) }),
  )
  const { got } = await check(Node, { id: '1', children: [{ id: '2', children: [] }] })
  expect(got).toEqual({ id: 1, children: [{ id: 2, children: [] }] })
})

test('anyOf, oneOf, enum and const: a valid value is accepted, another is coerced if possible and refused otherwise', async () => {
  const either = Type.Object({ v: Type.Union([Type.Number(), Type.Null()]) })
  expect((await check(either, { v: '5' })).got).toEqual({ v: 5 })
  expect((await check(either, { v: null })).got).toEqual({ v: null })
  expect((await check(either, { v: 'x' })).refusal).toContain(
    'v: must match one of the alternatives',
  )
  const literals = Type.Object({ v: Type.Union([Type.Literal('a'), Type.Literal(2)]) })
  expect((await check(literals, { v: '2' })).got).toEqual({ v: 2 })
  expect((await check(literals, { v: 'b' })).got).toBeUndefined()
  const shapes = object({
    v: {
      oneOf: [
        object({ kind: { const: 'a' }, n: { type: 'number' } }, { required: ['kind', 'n'] }),
        object({ kind: { const: 'b' }, s: { type: 'string' } }, { required: ['kind', 's'] }),
      ],
    },
  })
  expect((await check(shapes, { v: { kind: 'a', n: '1' } })).got).toEqual({
    v: { kind: 'a', n: 1 },
  })
  expect((await check(shapes, { v: { kind: 'c' } })).got).toBeUndefined()
  const { refusal } = await check(object({ v: { enum: ['x', 'y'] } }), { v: 'z' })
  expect(refusal).toContain('v: must be equal to one of the allowed values: ["x","y"]')
})

test.each<[string, string]>([
  ['no text at all', ''],
  ['white space', ' \n'],
  ['null', 'null'],
])('%s as arguments is an empty object', async (_, text) => {
  expect((await check(object({}), text)).got).toEqual({})
})

test.each<[string, string, string]>([
  ['cut JSON', '{"command":"rm -rf /home/u', 'the arguments are not valid JSON'],
  ['plain text', 'ls -la', 'the arguments are not valid JSON'],
  ['two objects', '{}{}', 'the arguments are not valid JSON'],
  ['an array', '[1]', 'the arguments are not a JSON object'],
  ['a string', '"x"', 'the arguments are not a JSON object'],
  ['200 levels', `${'{"a":'.repeat(200)}1${'}'.repeat(200)}`, 'the arguments are not valid JSON'],
  [
    '10,001 keys',
    JSON.stringify(Object.fromEntries(Array.from({ length: 10_001 }, (_, n) => [`k${n}`, 0]))),
    'the arguments have more than 10000 keys',
  ],
])(
  '%s as arguments is an error result for the model; the tool is not run',
  async (_, text, why) => {
    const { got, refusal, params } = await check(object({}), text)
    expect(got).toBeUndefined()
    expect(refusal).toContain(`Validation failed for tool "t":\n  - root: ${why}`)
    expect(refusal?.length).toBeLessThan(1_000)
    expect(params).toEqual({})
  },
)

test('a lone surrogate in the arguments becomes U+FFFD', async () => {
  expect((await check(object({}), '{"s":"\\ud83d!"}')).got).toEqual({ s: '\ufffd!' })
})

test('large integers of the model reach the tool as JavaScript reads them', async () => {
  const { got } = await check(
    object({}),
    '{"exact":9007199254740991,"beyond":12345678901234567890}',
  )
  // biome-ignore lint/correctness/noPrecisionLoss: that is how JavaScript reads it
  expect(got).toEqual({ exact: 9_007_199_254_740_991, beyond: 12_345_678_901_234_567_890 })
  const { refusal } = await check(object({}), '{"f":1e400}')
  expect(refusal).toContain('root: the arguments are not valid JSON: number out of range')
})

test('an exponential pattern is bounded, and the run continues', async () => {
  const { got, refusal } = await check(Type.Object({ s: Type.String({ pattern: '^(a+)+$' }) }), {
    s: `${'a'.repeat(60)}!`,
  })
  expect(got).toBeUndefined()
  expect(refusal).toContain('must match pattern')
})

test('a pattern with look-around works', async () => {
  const parameters = Type.Object({ s: Type.String({ pattern: '^(?!\\.).+$' }) })
  expect((await check(parameters, { s: 'ok' })).got).toEqual({ s: 'ok' })
  expect((await check(parameters, { s: '.hidden' })).got).toBeUndefined()
})

test('a tool without parameters accepts any object; `true`-like subschemas accept everything', async () => {
  expect((await check(undefined, { a: [1] })).got).toEqual({ a: [1] })
  expect((await check(object({ any: {}, yes: true }), { any: '5', yes: null })).got).toEqual({
    any: '5',
    yes: null,
  })
})

test('the coercions equal those of pi 0.54.0, value by value, except that no valid value is changed', async () => {
  const { validateToolArguments } = await import('@mariozechner/pi-ai')
  const schemas = {
    number: Type.Number(),
    integer: Type.Integer(),
    boolean: Type.Boolean(),
    string: Type.String(),
    null: Type.Null(),
    strings: Type.Array(Type.String()),
    optional: Type.Optional(Type.Number()),
    union: Type.Union([Type.Number(), Type.Boolean()]),
    nullable: Type.Union([Type.String(), Type.Null()]),
  }
  const values = [
    '5',
    ' 5 ',
    '5.5',
    '',
    'abc',
    'true',
    'false',
    0,
    1,
    7,
    5.5,
    true,
    false,
    null,
    [],
    ['a', 1],
    {},
  ]
  const differences: string[] = []
  for (const [name, schema] of Object.entries(schemas)) {
    for (const v of values) {
      const parameters = Type.Object({ v: schema })
      let theirs: unknown
      try {
        theirs = validateToolArguments(
          { name: 't', description: '', parameters },
          { type: 'toolCall', id: 'c', name: 't', arguments: { v: structuredClone(v) as unknown } },
        )
      } catch {
        theirs = undefined
      }
      const { got } = await check(parameters, { v })
      if (JSON.stringify(theirs) !== JSON.stringify(got)) {
        differences.push(
          `${name} ${JSON.stringify(v)}: pi ${JSON.stringify(theirs)}, here ${JSON.stringify(got)}`,
        )
      }
    }
  }
  // pi changes valid values: the first alternative of a union coerces a value that is valid for a later one.
  expect(differences).toEqual([
    'union true: pi {"v":1}, here {"v":true}',
    'union false: pi {"v":0}, here {"v":false}',
    'nullable null: pi {"v":""}, here {"v":null}',
  ])
})
