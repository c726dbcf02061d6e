// Tools made by `tool()`: the schema that the model gets, the validation of each library, defaults and transforms, results. It must
// never imitate a library: the published packages are tested.

import { Type } from '@sinclair/typebox'
import { toJsonSchema, toStandardJsonSchema } from '@valibot/to-json-schema'
import { type } from 'arktype'
import * as v from 'valibot'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { AgentEngineError, type AgentTool, tool } from '../../index.js'
import { context, engineAt, scriptedEngine } from '../support/engine.js'
import { anthropic } from '../support/servers/anthropic.js'
import { sse, testServer } from '../support/servers/server.js'
import { callTools, deferred, runTools, textOf } from '../support/tools.js'

const named = { name: 'heat', description: 'Heats a room.' }

/** A room in lower case, and 20 degrees where none are named: what `run` receives of it. */
const libraries: [library: string, make: (seen: unknown[]) => AgentTool, upper: string][] = [
  [
    'Zod',
    (seen) =>
      tool({
        ...named,
        inputSchema: z.object({
          room: z
            .string()
            .transform((room) => room.toLowerCase())
            .refine((room) => room !== 'attic', 'the attic has no heating'),
          celsius: z.number().max(25).default(20),
        }),
        run: ({ room, celsius }) => seen.push({ room, celsius }),
      }),
    'the attic has no heating',
  ],
  [
    'Valibot',
    (seen) =>
      tool({
        ...named,
        inputSchema: toStandardJsonSchema(
          v.object({
            room: v.pipe(
              v.string(),
              v.check((room) => room.toLowerCase() !== 'attic', 'the attic has no heating'),
            ),
            celsius: v.optional(v.pipe(v.number(), v.maxValue(25)), 20),
          }),
        ),
        jsonSchema: {
          type: 'object',
          properties: { room: { type: 'string' }, celsius: { type: 'number', maximum: 25 } },
          required: ['room'],
        },
        run: ({ room, celsius }) => seen.push({ room: room.toLowerCase(), celsius }),
      }),
    'the attic has no heating',
  ],
  [
    'ArkType',
    (seen) =>
      tool({
        ...named,
        inputSchema: type({
          room: type('string').narrow((room, ctx) => room !== 'Attic' || ctx.mustBe('heated')),
          celsius: 'number <= 25 = 20',
        }),
        jsonSchema: {
          type: 'object',
          properties: { room: { type: 'string' }, celsius: { type: 'number' } },
          required: ['room'],
        },
        run: ({ room, celsius }) => seen.push({ room: room.toLowerCase(), celsius }),
      }),
    'must be heated',
  ],
]

describe.each(libraries)('%s', (_, make, refusal) => {
  test('run receives what the schema makes of the arguments', async () => {
    const seen: unknown[] = []
    const { result } = await runTools([make(seen)], [callTools(['heat', { room: 'Cellar' }])])
    expect(seen).toEqual([{ room: 'cellar', celsius: 20 }])
    expect(result.toolCalls[0]).toMatchObject({ status: 'completed', params: { room: 'Cellar' } })
  })

  test('a value that only the library refuses is a failure that names the path', async () => {
    const seen: unknown[] = []
    const { toolResults, result } = await runTools(
      [make(seen)],
      [callTools(['heat', { room: 'Attic' }])],
    )
    expect(seen).toEqual([])
    expect(toolResults[0]?.isError).toBe(true)
    expect(textOf(toolResults[0])).toMatch(/^Validation failed for tool "heat":\n {2}- room: /)
    expect(textOf(toolResults[0])).toContain(refusal)
    expect(textOf(toolResults[0])).toMatch(/\n\nReceived arguments:\n\{"room":"Attic"\}$/)
    expect(result.stopReason).toBe('end_turn')
  })
})

test('the model gets the JSON Schema of what the library takes', async () => {
  const room = (properties: object, required = ['room']) => ({
    type: 'object',
    properties: { room: { type: 'string' }, ...properties },
    required,
  })
  const run = () => 'ok'
  const made = [
    tool({
      ...named,
      inputSchema: z.object({ room: z.string(), n: z.string().transform(Number) }),
      run,
    }),
    tool({ ...named, inputSchema: toStandardJsonSchema(v.object({ room: v.string() })), run }),
    tool({ ...named, inputSchema: type({ room: 'string', 'n?': 'number' }), run }),
    tool({ ...named, inputSchema: Type.Object({ room: Type.String() }), run }),
    tool({ ...named, inputSchema: room({}), run }),
    tool({ ...named, run }),
  ]
  expect(JSON.parse(JSON.stringify(made.map(({ parameters }) => parameters)))).toEqual([
    room({ n: { type: 'string' } }, ['room', 'n']),
    room({}),
    room({ n: { type: 'number' } }),
    room({}),
    room({}),
    { type: 'object', properties: {} },
  ])
  const server = await testServer(sse(anthropic.answer('ok')))
  const engine = engineAt(server.url)
  await engine.run(context({ tools: [made[0] as AgentTool] })).result
  await engine.close()
  await server.close()
  expect(server.seen[0]?.body.tools).toMatchObject([
    { ...named, input_schema: room({ n: { type: 'string' } }, ['room', 'n']) },
  ])
})

test('a Zod without Standard JSON Schema is asked by its own method, an ArkType too', () => {
  const zod = z.object({ n: z.string().transform(Number) })
  const { jsonSchema: _, ...standard } = zod['~standard'] as unknown as Record<string, unknown>
  const older = {
    '~standard': standard as unknown as (typeof zod)['~standard'],
    toJSONSchema: (options: object) => zod.toJSONSchema(options),
  }
  expect(tool({ ...named, inputSchema: older, run: () => '' }).parameters).toEqual({
    type: 'object',
    properties: { n: { type: 'string' } },
    required: ['n'],
  })
  const ark = type({ n: 'string.numeric.parse' })
  const { jsonSchema: __, ...plain } = ark['~standard'] as unknown as Record<string, unknown>
  const olderArk = { '~standard': plain as unknown as (typeof ark)['~standard'], in: ark.in }
  expect(tool({ ...named, inputSchema: olderArk, run: () => '' }).parameters).toMatchObject({
    properties: { n: { type: 'string' } },
  })
})

test('a Valibot schema works with its JSON Schema beside it', async () => {
  const inputSchema = v.object({ room: v.string(), digits: v.optional(v.number(), 1) })
  const { toolResults } = await runTools(
    [
      tool({
        ...named,
        inputSchema,
        jsonSchema: toJsonSchema(inputSchema),
        run: (params) => params,
      }),
    ],
    [callTools(['heat', { room: 'cellar' }])],
  )
  expect(textOf(toolResults[0])).toBe('{"room":"cellar","digits":1}')
})

test('asynchronous validation is awaited, and run is not called after an abort meanwhile', async () => {
  const begun = deferred<void>()
  const go = deferred<boolean>()
  let ran = false
  const inputSchema = z.object({ room: z.string() }).refine(() => {
    begun.resolve()
    return go.promise
  })
  const { engine } = scriptedEngine([callTools(['heat', { room: 'cellar' }])])
  const run = engine.run(
    context({
      tools: [
        tool({
          ...named,
          inputSchema,
          run: () => {
            ran = true
          },
        }),
      ],
    }),
  )
  await begun.promise
  run.abort()
  const { stopReason } = await run.result
  go.resolve(true)
  await new Promise((resolve) => setImmediate(resolve))
  await engine.close()
  expect([stopReason, ran]).toEqual(['aborted', false])
})

describe('outputSchema', () => {
  const schemas: [library: string, schema: any][] = [
    ['Zod', z.object({ celsius: z.number() })],
    ['Valibot', v.object({ celsius: v.number() })],
    ['ArkType', type({ celsius: 'number' })],
    ['TypeBox', Type.Object({ celsius: Type.Number() })],
    [
      'JSON Schema',
      { type: 'object', properties: { celsius: { type: 'number' } }, required: ['celsius'] },
    ],
  ]
  test.each(schemas)(
    'of %s: a result that fits is passed on, another is a failure',
    async (_, outputSchema) => {
      const results: unknown[] = [{ celsius: 11.5 }, { celsius: '11.5' }, 'warm']
      const { toolResults, result } = await runTools(
        [tool({ ...named, outputSchema, run: () => results.shift() })],
        [callTools(['heat'], ['heat'], ['heat'])],
      )
      expect(toolResults.map((each) => each.isError)).toEqual([false, true, true])
      expect(result.toolCalls[0]?.result).toEqual({ celsius: 11.5 })
      const about = 'The result of tool "heat" does not fit its outputSchema:\n  - '
      expect(textOf(toolResults[1]).startsWith(`${about}celsius: `)).toBe(true)
      expect(textOf(toolResults[2]).startsWith(`${about}root: `)).toBe(true)
    },
  )

  test('its transforms make the result', async () => {
    const made = tool({
      ...named,
      outputSchema: z.object({ celsius: z.number() }).transform(({ celsius }) => `${celsius} °C`),
      run: async function* () {
        yield 'measuring'
        return { celsius: 11.5 }
      },
    })
    const { toolResults } = await runTools([made], [callTools(['heat'])])
    expect(textOf(toolResults[0])).toBe('11.5 °C')
  })
})

test('reconcile receives what the schema makes of the arguments', async () => {
  const made = tool({
    ...named,
    inputSchema: z.object({ room: z.string().default('cellar') }),
    replay: 'reconcilable',
    reconcile: (key, { room }) => ({ outcome: 'done', result: `${key} ${room}` }),
    run: () => '',
  })
  expect(await made.reconcile?.('key', {}, {} as never)).toEqual({
    outcome: 'done',
    result: 'key cellar',
  })
})

describe('a definition that cannot be used is refused by tool()', () => {
  const run = () => ''
  const cases: [what: string, definition: any, field: string, message: string][] = [
    ['no object', 7, 'tool', 'is not an object; pass `{ name, description, inputSchema, run }`'],
    [
      'no name',
      { description: 'd', run },
      'tool.name',
      'is missing; write what the model calls it by',
    ],
    ['no description', { name: 'n', run }, 'tool.description', 'is missing; write what it does'],
    ['no run', { ...named }, 'tool.run', 'is not a function; write `run: (params, call) => …`'],
    [
      'execute',
      { ...named, execute: run },
      'tool.execute',
      'is not a field of `tool()`; did you mean `run`?',
    ],
    [
      'parameters',
      { ...named, run, parameters: {} },
      'tool.parameters',
      'is not a field of `tool()`; did you mean `inputSchema`?',
    ],
    [
      'a typing error',
      { ...named, run, timeoutMS: 5 },
      'tool.timeoutMS',
      'is not a field of `tool()`; did you mean `timeoutMs`?',
    ],
    [
      'a field of nobody',
      { ...named, run, needsApproval: true },
      'tool.needsApproval',
      'is not a field of `tool()`; its fields are name, label,',
    ],
    [
      'Valibot alone',
      { ...named, run, inputSchema: v.object({}) },
      'tool.inputSchema',
      'has no JSON Schema of its own; pass `toStandardJsonSchema(schema)` of `@valibot/to-json-schema` instead',
    ],
    [
      'what Zod cannot write',
      { ...named, run, inputSchema: z.object({ at: z.date() }) },
      'tool.inputSchema',
      'cannot be turned into JSON Schema (Date cannot be represented in JSON Schema); pass the JSON Schema for the model as `jsonSchema`',
    ],
    [
      'the schema of a text',
      { ...named, run, inputSchema: z.string() },
      'tool.inputSchema',
      'is not the schema of an object',
    ],
    [
      'JSON Schema of a text',
      { ...named, run, inputSchema: { type: 'string' } },
      'tool.inputSchema',
      'is not the schema of an object',
    ],
    [
      'an object of schemas',
      { ...named, run, inputSchema: { room: z.string() } },
      'tool.inputSchema',
      'is an object of schemas; wrap it: `z.object({ … })`',
    ],
    [
      'two JSON Schemas',
      { ...named, run, inputSchema: {}, jsonSchema: {} },
      'tool.jsonSchema',
      'is for a schema of a library',
    ],
    [
      'jsonSchema alone',
      { ...named, run, jsonSchema: {} },
      'tool.jsonSchema',
      'is beside no `inputSchema`; pass it as that',
    ],
    ['no schema', { ...named, run, inputSchema: 'room' }, 'tool.inputSchema', 'is no schema'],
    [
      'an unusable outputSchema',
      { ...named, run, outputSchema: { type: 'objekt' } },
      'tool.outputSchema',
      'is not',
    ],
  ]
  test.each(cases)('%s', (_, definition, field, message) => {
    let thrown: unknown
    try {
      tool(definition)
    } catch (error) {
      thrown = error
    }
    expect(thrown).toBeInstanceOf(AgentEngineError)
    expect(thrown).toMatchObject({ code: 'invalid_tool', field })
    expect((thrown as Error).message).toContain(`\`${field}\`: ${message}`)
  })
})
