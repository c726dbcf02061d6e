// The fields of a tool, and results without JSON: what is refused, what is a warning, and what either says. It must never test
// values of known fields: node/unusable-values.spec.ts does.

import { expect, test } from 'vitest'
import { z } from 'zod'
import { AgentEngineError, type AgentTool } from '../../index.js'
import { context, scriptedEngine } from '../support/engine.js'
import { callTools, runTools, textOf, tool } from '../support/tools.js'

async function refusalOf(...tools: any[]): Promise<AgentEngineError> {
  const { engine } = scriptedEngine(['done'])
  try {
    await engine.run(context({ tools })).result
  } catch (error) {
    if (error instanceof AgentEngineError) return error
    throw error
  } finally {
    await engine.close()
  }
  throw new Error('it was not refused')
}

const run = () => 'ok'

test.each<[string, object, string, string]>([
  [
    'a typing error',
    { run, excutionMode: 'parallel' },
    'excutionMode',
    'is not a field of a tool; did you mean `executionMode`?',
  ],
  [
    'an incomplete name',
    { run, timeout: 5 },
    'timeout',
    'is not a field of a tool; did you mean `timeoutMs`?',
  ],
  [
    'another library’s name',
    { run, handler: run },
    'handler',
    'is not a field of a tool; did you mean `run`?',
  ],
  [
    'a field that nobody knows',
    { run, needsApproval: true },
    'needsApproval',
    'is not a field of a tool; its fields are name, label, description, parameters, run, executionMode, timeoutMs, maxResultChars, replay, retries, permission, reconcile, guidelines',
  ],
  [
    'what tool() reads',
    { run, inputSchema: {} },
    'inputSchema',
    'is read by `tool()` only: pass `tool({ … })` instead of the object itself',
  ],
  [
    'run and execute',
    { run, execute: run },
    'execute',
    'is there beside `run`; give one: `run(params, call)`, or `execute(toolCallId, params, signal, onUpdate)` as pi has it',
  ],
  [
    'a schema of Zod',
    { run, parameters: z.object({}) },
    'parameters',
    'is a schema of zod, and JSON Schema is needed; pass `tool({ …, inputSchema })` instead',
  ],
])('%s on a plain tool is refused', async (_, fields, field, why) => {
  const { code, field: at, message } = await refusalOf({ name: 'a', run }, { name: 't', ...fields })
  expect([code, at, message]).toEqual([
    'invalid_tool',
    `tools[1].${field}`,
    `\`tools[1].${field}\`: ${why} (docs/guide/errors.md#invalid_tool)`,
  ])
})

test('the state of an instance is its own, and so is a field that is undefined', async () => {
  class Counter {
    name = 'counter'
    count = 41
    run() {
      return String(++this.count)
    }
  }
  const { toolResults } = await runTools(
    [new Counter(), { name: 't', run, note: undefined } as AgentTool],
    [callTools(['counter'], ['t'])],
  )
  expect(toolResults.map(textOf)).toEqual(['42', 'ok'])
})

test('unknown fields of a tool in pi’s shape are one warning a tool; those of pi are none', async () => {
  const warnings: [string | undefined, string][] = []
  const listener = (warning: Error & { code?: string }) =>
    warnings.push([warning.code, warning.message])
  process.on('warning', listener)
  const pi = (name: string, more: object): AgentTool => ({
    name,
    label: 'x',
    description: '',
    parameters: { type: 'object' },
    execute: run,
    ...more,
  })
  const tools = [
    pi('unusual', { needsApproval: true, timeoutMS: 5 }),
    pi('usual', {
      renderCall: run,
      renderResult: run,
      promptSnippet: '',
      executionMode: 'parallel',
    }),
  ]
  await runTools(tools, [])
  await runTools(tools, [])
  await new Promise((resolve) => setImmediate(resolve))
  process.off('warning', listener)
  expect(warnings).toEqual([
    [
      'AGENT_ENGINE_TOOL_FIELDS',
      'the tool `unusual` has fields that are not known and have no effect: `needsApproval`, `timeoutMS` (did you mean `timeoutMs`?)',
    ],
  ])
})

class Sensor {
  #celsius = 11.5
  read() {
    return this.#celsius
  }
}

test.each<[string, unknown, string]>([
  [
    'a function',
    () => 1,
    'the tool returned a function; return a string, JSON, or { content: [...] }',
  ],
  [
    'a symbol',
    Symbol('s'),
    'the tool returned a symbol; return a string, JSON, or { content: [...] }',
  ],
  ['an error', new RangeError('too warm'), 'too warm'],
  [
    'a Map',
    new Map([['a', 1]]),
    'the result is an instance of Map, which has no JSON form; return `Object.fromEntries(map)` or `[...map]`',
  ],
  [
    'a Set in a list',
    { rooms: [{ open: new Set([1]) }] },
    '`rooms[0].open` of the result is an instance of Set, which has no JSON form; return `[...set]`',
  ],
  [
    'an error in an object',
    { error: new TypeError('x') },
    '`error` of the result is an instance of TypeError, which has no JSON form; return its data in a plain object, or give it a `toJSON`',
  ],
  [
    'an instance with private data',
    new Sensor(),
    'the result is an instance of Sensor, which has no JSON form; return its data in a plain object, or give it a `toJSON`',
  ],
  [
    'an object of functions',
    { read: () => 1 },
    'the result has functions only, which have no JSON form; return data',
  ],
])('%s is a failure with its reason', async (_, value, message) => {
  const { toolResults } = await runTools([tool('t', () => value)], [callTools(['t'])])
  expect([toolResults[0]?.isError, textOf(toolResults[0])]).toEqual([true, message])
})

class Reading {
  celsius = 11.5
}

test.each<[string, unknown, string]>([
  ['an instance with data', new Reading(), '{"celsius":11.5}'],
  ['an empty object', {}, '{}'],
  ['an empty object without a prototype', Object.create(null), '{}'],
  ['an object of undefined', { a: undefined }, '{}'],
  ['data beside a function', { a: 1, read: () => 1 }, '{"a":1}'],
  ['a URL', new URL('https://example.com/a'), '"https://example.com/a"'],
])('%s has JSON', async (_, value, json) => {
  const { toolResults } = await runTools([tool('t', () => value)], [callTools(['t'])])
  expect([toolResults[0]?.isError, textOf(toolResults[0])]).toEqual([false, json])
})
