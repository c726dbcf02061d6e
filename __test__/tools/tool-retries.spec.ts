// Time limits and retries of a tool: which are counted, and what a late result changes (nothing). It must never assert a duration.

import { expect, test } from 'vitest'
import type { PlainTool } from '../../index.js'
import { callTools, deferred, runTools, textOf, tool } from '../support/tools.js'

const text = (value: string) => [{ type: 'text', text: value }]

test.each<[string, Partial<PlainTool>, object, object]>([
  [
    "the tool's own timeoutMs",
    { timeoutMs: 30 },
    { toolTimeoutMs: 60_000 },
    { toolTimeoutMs: 60_000 },
  ],
  ["the context's toolTimeoutMs", {}, { toolTimeoutMs: 30 }, { toolTimeoutMs: 60_000 }],
  ["the engine's toolTimeoutMs", {}, {}, { toolTimeoutMs: 30 }],
])(
  '%s limits a tool that never answers; its signal is aborted and the run continues',
  async (_, policy, changes, options) => {
    let signal: AbortSignal | undefined
    const never = tool(
      'never',
      (_, call) => {
        signal = call.signal
        return new Promise(() => {})
      },
      policy,
    )
    const { result, toolResults, requests } = await runTools(
      [never],
      [callTools(['never'])],
      changes,
      options,
    )
    expect(requests).toBe(2)
    expect(toolResults[0]).toMatchObject({
      isError: true,
      content: text('Tool never timed out after 30 ms.'),
    })
    expect(result.toolCalls[0]).toMatchObject({
      status: 'failed',
      error: 'Tool never timed out after 30 ms.',
    })
    expect(result.stopReason).toBe('end_turn')
    expect(signal?.aborted).toBe(true)
  },
)

test("without a limit the run's remaining time bounds a tool, and the run ends as a timeout", async () => {
  const never = tool('never', () => new Promise(() => {}))
  const { result, requests, events } = await runTools([never], [callTools(['never'])], {
    timeoutMs: 60,
  })
  expect(result.stopReason).toBe('timeout')
  expect(requests).toBe(1)
  expect(result.toolCalls[0]).toMatchObject({ status: 'failed', error: 'interrupted' })
  expect(events.at(-1)?.type).toBe('stream_error')
})

test.each(['pure', 'idempotent'] as const)(
  'a %s tool is tried again as often as it declares, with the same idempotency key',
  async (replay) => {
    const keys: string[] = []
    const flaky = tool(
      'flaky',
      (_, call) => {
        keys.push(call.idempotencyKey)
        if (keys.length < 3) throw new Error(`try ${keys.length}`)
        return 'third time'
      },
      { replay, retries: 2 },
    )
    const { result, toolResults, events } = await runTools([flaky], [callTools(['flaky'])])
    expect(keys).toHaveLength(3)
    expect(new Set(keys)).toEqual(new Set([result.toolCalls[0]?.callId]))
    expect(textOf(toolResults[0])).toBe('third time')
    expect(toolResults[0]?.isError).toBe(false)
    expect(events.flatMap((event) => (event.type === 'tool_status' ? [event.status] : []))).toEqual(
      ['started', 'completed'],
    )
  },
)

test('retries end: the last failure is sent', async () => {
  let tries = 0
  const broken = tool(
    'broken',
    () => {
      throw new Error(`try ${++tries}`)
    },
    { replay: 'pure', retries: 2 },
  )
  const { toolResults } = await runTools([broken], [callTools(['broken'])])
  expect(tries).toBe(3)
  expect(toolResults[0]).toMatchObject({ isError: true, content: text('try 3') })
})

test('without retries a failing tool runs once', async () => {
  let tries = 0
  const broken = tool(
    'broken',
    () => {
      tries++
      throw new Error('no')
    },
    { replay: 'pure' },
  )
  await runTools([broken], [callTools(['broken'])])
  expect(tries).toBe(1)
})

test('a result after its own time limit is never the result of the retry', async () => {
  const first = deferred<string>()
  const second = deferred<string>()
  const signals: AbortSignal[] = []
  const slow = tool(
    'slow',
    (_, call) => {
      signals.push(call.signal)
      if (signals.length === 1) return first.promise
      // The first execution returns now, late; it must not replace the second.
      first.resolve('late')
      setImmediate(() => setImmediate(() => second.resolve('in time')))
      return second.promise
    },
    { replay: 'pure', retries: 1, timeoutMs: 100 },
  )
  const { result, toolResults } = await runTools([slow], [callTools(['slow'])])
  expect(textOf(toolResults[0])).toBe('in time')
  expect(result.toolCalls[0]?.result).toBe('in time')
  expect(signals.map((signal) => signal.aborted)).toEqual([true, false])
})

test('a late first result does not affect the signal of the retry', async () => {
  const first = deferred<string>()
  const signals: AbortSignal[] = []
  const aborted = deferred<void>()
  const slow = tool(
    'slow',
    (_, call) => {
      signals.push(call.signal)
      if (signals.length === 1) return first.promise
      first.resolve('late')
      call.signal.addEventListener('abort', () => aborted.resolve())
      return new Promise(() => {})
    },
    { replay: 'pure', retries: 1, timeoutMs: 80 },
  )
  const { toolResults } = await runTools([slow], [callTools(['slow'])])
  expect(toolResults[0]).toMatchObject({
    isError: true,
    content: text('Tool slow timed out after 80 ms.'),
  })
  await aborted.promise
  expect(signals.map((signal) => signal.aborted)).toEqual([true, true])
})
