// The return values of a tool, and the two shapes of a tool: plain and pi's. It must never test the order of calls: tools/tool-order.spec.ts does.

import { Type } from '@sinclair/typebox'
import { expect, test } from 'vitest'
import { context, scriptedEngine } from '../support/engine.js'
import { callTools, outline, runTools, textOf, tool } from '../support/tools.js'

const text = (value: string) => [{ type: 'text', text: value }]

test('a string is sent as text, and the call has the string', async () => {
  const { result, toolResults, requests } = await runTools(
    [tool('clock', () => 'noon')],
    [callTools(['clock', { zone: 'UTC' }])],
  )
  expect(result.stopReason).toBe('end_turn')
  expect(requests).toBe(2)
  expect(toolResults).toEqual([
    { toolCallId: 'call_1', toolName: 'clock', content: text('noon'), isError: false },
  ])
  expect(result.toolCalls.map(outline)).toEqual([
    {
      id: 'call_1',
      toolName: 'clock',
      params: { zone: 'UTC' },
      result: 'noon',
      error: undefined,
      status: 'completed',
      sequence: 0,
    },
  ])
})

test.each<[string, unknown, string]>([
  ['an object', { a: [1, { b: null }] }, '{"a":[1,{"b":null}]}'],
  ['an array', [1, 'two', false], '[1,"two",false]'],
  ['a number', 42.5, '42.5'],
  ['false', false, 'false'],
  ['null', null, 'null'],
  ['a date', new Date(0), '"1970-01-01T00:00:00.000Z"'],
])('%s is sent as JSON, and the call has the same value', async (_, value, json) => {
  const { result, toolResults } = await runTools([tool('t', () => value)], [callTools(['t'])])
  expect(toolResults).toEqual([
    { toolCallId: 'call_1', toolName: 't', content: text(json), isError: false },
  ])
  expect(result.toolCalls[0]?.status).toBe('completed')
  expect(result.toolCalls[0]?.result).toBe(value)
})

test("a result in pi's shape is sent as its content; the same object, details included, is in the result", async () => {
  const details = { handle: () => 1, big: 5n, self: {} as unknown }
  details.self = details
  const value = {
    content: [
      { type: 'text' as const, text: 'a picture' },
      { type: 'image' as const, data: 'iVBORw0=', mimeType: 'image/png' },
    ],
    details,
  }
  const { result, toolResults } = await runTools([tool('t', async () => value)], [callTools(['t'])])
  expect(toolResults[0]?.content).toEqual([
    { type: 'text', text: 'a picture' },
    { type: 'image', mimeType: 'image/png', data: 'iVBORw0=' },
  ])
  expect(result.toolCalls[0]?.result).toBe(value)
  expect((result.toolCalls[0]?.result as typeof value).details).toBe(details)
})

test('a pi result with isError is a failure for the model, and the call has the object with its details', async () => {
  const value = {
    content: [{ type: 'text', text: 'no such row' }],
    details: { row: 7 },
    isError: true,
  }
  const { result, toolResults } = await runTools([tool('t', () => value)], [callTools(['t'])])
  expect(toolResults).toEqual([
    { toolCallId: 'call_1', toolName: 't', content: text('no such row'), isError: true },
  ])
  expect(result.stopReason).toBe('end_turn')
  expect(result.toolCalls[0]).toMatchObject({ status: 'failed', error: 'no such row' })
  expect(result.toolCalls[0]?.result).toBe(value)
})

test.each([
  ['no blocks', []],
  ['an empty text', [{ type: 'text', text: '' }]],
])('a result with %s is a completed call, and the run continues', async (_, content) => {
  const { result, requests } = await runTools([tool('t', () => ({ content }))], [callTools(['t'])])
  expect(requests).toBe(2)
  expect(result.stopReason).toBe('end_turn')
  expect(result.toolCalls[0]?.status).toBe('completed')
})

test("a tool in pi's shape gets the provider's call id, its arguments, a signal, onUpdate, and its idempotency key", async () => {
  const seen: unknown[][] = []
  const updates: unknown[] = []
  const partial = { content: [], details: { done: 0.5 } }
  const pi = {
    name: 'pi_tool',
    label: 'A label for people',
    description: 'Does it.',
    parameters: Type.Object({ n: Type.Number(), s: Type.Optional(Type.String()) }),
    async execute(...args: unknown[]) {
      seen.push(args)
      ;(args[3] as (partial: unknown) => void)(partial)
      return { content: [{ type: 'text', text: 'ok' }], details: undefined }
    },
  }
  const { engine } = scriptedEngine([
    { toolCalls: [{ id: 'toolu_7', name: 'pi_tool', arguments: { n: 1 } }] },
    'done',
  ])
  const run = engine.run(context({ tools: [pi] }), {
    onToolUpdate: (payload) => updates.push(payload),
  })
  const result = await run.result
  await engine.close()
  const info = {
    runId: result.runId,
    turnId: result.turnId,
    sessionLabel: 'agent:main:main',
    messageId: result.toolCalls[0]?.messageId,
    toolCallId: 'toolu_7',
    idempotencyKey: result.toolCalls[0]?.callId,
    signal: expect.any(AbortSignal),
    onUpdate: expect.any(Function),
  }
  expect(seen).toEqual([['toolu_7', { n: 1 }, expect.any(AbortSignal), expect.any(Function), info]])
  expect((seen[0]?.[2] as AbortSignal).aborted).toBe(false)
  expect(updates).toEqual([{ toolCallId: 'toolu_7', toolName: 'pi_tool', partial }])
  expect((updates[0] as { partial: unknown }).partial).toBe(partial)
  expect(result.toolCalls[0]).toMatchObject({ id: 'toolu_7', status: 'completed' })
})

test('a method is called with its `this`', async () => {
  class Counter {
    name = 'counter'
    description = ''
    parameters = { type: 'object' }
    count = 41
    async execute() {
      return String(++this.count)
    }
  }
  const { toolResults } = await runTools([new Counter()], [callTools(['counter'])])
  expect(textOf(toolResults[0])).toBe('42')
})
