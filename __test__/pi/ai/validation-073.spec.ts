// `validateToolArguments` with the semantics of 0.73 beside that of pi 0.73 itself: the same coercions, refusals and texts, for plain schemas, for those of TypeBox
// 1 and for those of its predecessor. It must never call a model.

import { Type as Old } from '@sinclair/typebox'
import { validateToolArguments as theirs } from 'pi-ai-073'
import * as TypeBox from 'typebox'
import { expect, test } from 'vitest'
import { Agent } from '../../../pi-agent.js'
import { validateToolArguments } from '../../../pi-ai.js'
import { calls, model, playing, text } from '../agent/script.js'

const Type: any = TypeBox.Type ?? TypeBox
const ours = (tool: any, call: any) => validateToolArguments(tool, call, { semantics: '0.73' })

/** What a validation comes to. */
function outcome(validate: (tool: any, call: any) => unknown, parameters: unknown, args: unknown) {
  const tool = { name: 't', description: '', parameters }
  const call = { type: 'toolCall', id: 'c', name: 't', arguments: args }
  try {
    return { value: validate(tool, call) }
  } catch (error) {
    return { error: (error as Error).message }
  }
}

const values = [
  null,
  true,
  false,
  0,
  1,
  5,
  5.5,
  -3,
  0.3,
  1e21,
  '',
  ' ',
  '0',
  '1',
  '5',
  ' 5 ',
  '5.5',
  '1e3',
  '0x10',
  '7n',
  'true',
  'False',
  'null',
  'undefined',
  'abc',
  'x',
  'Infinity',
  '2026-11-23T10:00:00Z',
  [],
  [1],
  [1, 1],
  ['1', '2', '3'],
  [null],
  [[1]],
  {},
  { a: 1 },
  { a: '1' },
  { a: null, b: 2 },
  { a: '1', b: 'two', 'c/d': 3 },
  { d: '2026-11-23T10:00:00Z' },
  { __proto__x: 1 },
]

const plain: Record<string, any> = {
  any: {},
  no: false,
  number: { type: 'number' },
  integer: { type: 'integer', minimum: 3, exclusiveMaximum: 6 },
  step: { type: 'number', multipleOf: 0.1, maximum: 5, exclusiveMinimum: 0 },
  boolean: { type: 'boolean' },
  string: { type: 'string' },
  limited: { type: 'string', minLength: 2, maxLength: 3, pattern: '^a' },
  time: { type: 'string', format: 'date-time' },
  null: { type: 'null' },
  several: { type: ['integer', 'null'] },
  'several, text first': { type: ['string', 'number'] },
  list: { type: 'array', items: { type: 'integer' }, minItems: 1, maxItems: 2, uniqueItems: true },
  'list of texts': { type: 'array', items: { type: 'string' } },
  tuple: { type: 'array', items: [{ type: 'number' }, { type: 'string' }], additionalItems: false },
  prefix: { type: 'array', prefixItems: [{ type: 'string' }], items: { type: 'number' } },
  containing: { type: 'array', contains: { type: 'string' } },
  object: { type: 'object', properties: { a: { type: 'number' } }, required: ['a', 'b'] },
  closed: { type: 'object', properties: { a: { type: 'number' } }, additionalProperties: false },
  open: {
    type: 'object',
    properties: { a: { type: 'string' } },
    additionalProperties: { type: 'number' },
  },
  patterns: {
    type: 'object',
    patternProperties: { '^a': { type: 'string' } },
    additionalProperties: false,
  },
  names: { type: 'object', propertyNames: { pattern: '^a' }, minProperties: 1, maxProperties: 1 },
  dependent: { type: 'object', dependentRequired: { a: ['b', 'z'] } },
  enum: { enum: ['x', 1, null] },
  const: { const: 5 },
  'const of a type': { type: 'number', const: 5 },
  anyOf: { anyOf: [{ type: 'number' }, { type: 'null' }] },
  'anyOf objects': {
    anyOf: [
      { type: 'object', required: ['a'] },
      { type: 'array', items: { type: 'string' } },
    ],
  },
  oneOf: { oneOf: [{ type: 'integer' }, { type: 'number' }] },
  allOf: { allOf: [{ type: 'number' }, { minimum: 3 }] },
  not: { not: { type: 'string' } },
  if: { if: { type: 'number' }, then: { minimum: 3 }, else: { type: 'string', minLength: 2 } },
  many: { allOf: Array.from({ length: 12 }, (_, at) => ({ type: 'number', minimum: at })) },
}

test.each(Object.keys(plain))('a plain schema: %s', (name) => {
  const parameters = { type: 'object', properties: { v: plain[name] }, required: ['v'] }
  for (const v of values) {
    const args = { v, more: 1 }
    expect({ v, ...outcome(ours, parameters, args) }).toEqual({
      v,
      ...outcome(theirs, parameters, args),
    })
  }
})

const made: Record<string, any> = {
  number: Type.Number(),
  integer: Type.Integer({ minimum: 3 }),
  boolean: Type.Boolean(),
  string: Type.String({ minLength: 1 }),
  null: Type.Null(),
  list: Type.Array(Type.String()),
  'list of lists': Type.Array(Type.Array(Type.Number())),
  tuple: Type.Tuple([Type.Number(), Type.String()]),
  object: Type.Object({ a: Type.Number(), b: Type.Optional(Type.Array(Type.Number())) }),
  closed: Type.Object({ a: Type.Number() }, { additionalProperties: false }),
  record: Type.Record(Type.String(), Type.Number()),
  union: Type.Union([Type.Number(), Type.Null()]),
  literals: Type.Union([Type.Literal('x'), Type.Literal(5), Type.Literal(true)]),
  literal: Type.Literal(5),
  enum: Type.Enum(['x', '5']),
  intersection: Type.Intersect([
    Type.Object({ a: Type.Number() }),
    Type.Object({ b: Type.Optional(Type.String()) }),
  ]),
  unknown: Type.Unknown(),
  unsafe: Type.Unsafe({ type: 'string', enum: ['x', '5'] }),
  refined: Type.Refine(
    Type.Number(),
    (value: any) => value > 3,
    () => 'must be more than 3',
  ),
}

test.each(Object.keys(made))('a schema of TypeBox 1: %s', (name) => {
  const parameters = Type.Object({ v: made[name] })
  for (const v of values) {
    const args = { v, more: 1 }
    expect({ v, ...outcome(ours, parameters, args) }).toEqual({
      v,
      ...outcome(theirs, parameters, args),
    })
  }
})

const tree = Type.Cyclic(
  { Node: Type.Object({ n: Type.Number(), next: Type.Optional(Type.Array(Type.Ref('Node'))) }) },
  'Node',
)

test.each([
  [Type.Object({ v: Type.Array(Type.String()) }), { v: 'one' }, { value: { v: ['one'] } }],
  [Old.Object({ v: Old.Array(Old.String()) }), { v: 'one' }, undefined],
  [
    Old.Object({ n: Old.Number(), b: Old.Optional(Old.Boolean()) }),
    { n: '5', b: 'true' },
    undefined,
  ],
  [Old.Object({ n: Old.Number() }), { n: 5 }, { value: { n: 5 } }],
  [Type.Object({ a: Type.Number(), b: Type.Number() }), {}, undefined],
  [Type.Object({ a: Type.Optional(Type.Number()) }), { a: undefined }, undefined],
  [Type.Object({ root: tree }), { root: { n: '1', next: { n: '2' } } }, undefined],
  [{ type: 'array', items: { type: 'number' } }, ['1'], undefined],
  [{ type: 'number' }, '5', { value: 5 }],
  [{ type: 'number' }, 'five', undefined],
  [
    { $defs: { n: { type: 'number' } }, properties: { v: { $ref: '#/$defs/n' } } },
    { v: 'x' },
    undefined,
  ],
  [
    { $defs: { n: { type: 'number' } }, properties: { v: { $ref: '#/$defs/n' } } },
    { v: 1 },
    undefined,
  ],
  [
    { type: 'object', properties: { 'a/b': { type: 'object', required: ['c'] } } },
    { 'a/b': {} },
    undefined,
  ],
])('whole arguments: %j with %j', (parameters: any, args: any, expected: any) => {
  const mine = outcome(ours, parameters, args)
  expect(mine).toEqual(outcome(theirs, parameters, args))
  if (expected !== undefined) expect(mine).toEqual(expected)
})

test('a validation does not change the arguments of the call', () => {
  const args = { v: 'one', n: '5' }
  const parameters = Type.Object({ v: Type.Array(Type.String()), n: Type.Number() })
  expect(outcome(ours, parameters, args)).toEqual({ value: { v: ['one'], n: 5 } })
  expect(args).toEqual({ v: 'one', n: '5' })
})

test('deep arguments of a schema that refers to itself end with an error', () => {
  const node = { type: 'object', properties: { next: { $ref: '#/$defs/node' } } }
  const parameters = { type: 'object', properties: { root: node }, $defs: { node } }
  let deep: object = {}
  for (let depth = 0; depth < 300; depth++) deep = { next: deep }
  expect(outcome(ours, parameters, { root: deep })).toEqual({
    error: expect.stringContaining('nested too deeply'),
  })
})

test('an agent validates by its semantics', async () => {
  for (const [semantics, expected] of [
    ['0.54', undefined],
    ['0.73', ['one']],
  ] as const) {
    const seen: any[] = []
    const tool: any = {
      name: 'a',
      label: 'a',
      description: '',
      parameters: Type.Object({ v: Type.Array(Type.String()) }),
      execute: async (_: string, args: any) => {
        seen.push(args.v)
        return { content: [], details: {} }
      },
    }
    const answer = calls('a')
    Object.assign(answer.parts[0] as object, { args: { v: 'one' } })
    const { streamFn } = playing(answer, text('Done.'))
    const agent = new Agent({ initialState: { model, tools: [tool] }, streamFn, semantics })
    await agent.prompt('hi')
    expect(seen[0]).toEqual(expected)
  }
})
