// Tools that are generators: yields are progress, the return value is the result, and an abort or a time limit closes them. It must
// never test what a result may be: tools/tool-results.spec.ts does.

import { expect, test } from 'vitest'
import type { ToolCallInfo } from '../../index.js'
import { context, scriptedEngine, tempDir } from '../support/engine.js'
import { callTools, deferred, runTools, textOf, tool } from '../support/tools.js'
import { expectNothingStray } from '../support/uncaught.js'

expectNothingStray()

test.each([
  [
    'an asynchronous',
    async function* () {
      yield 'one'
      yield { percent: 50 }
      return 'done'
    },
  ],
  [
    'a synchronous',
    function* () {
      yield 'one'
      yield Promise.resolve({ percent: 50 })
      return 'done'
    },
  ],
])('%s generator reports its yields, and ends with what it returns', async (_, run) => {
  const updates: unknown[] = []
  const { engine } = scriptedEngine([callTools(['t']), 'end'])
  const { toolCalls } = await engine.run(context({ tools: [tool('t', run)] }), {
    onToolUpdate: ({ toolName, partial }) => updates.push([toolName, partial]),
  }).result
  await engine.close()
  expect(updates).toEqual([
    ['t', 'one'],
    ['t', { percent: 50 }],
  ])
  expect(toolCalls[0]).toMatchObject({ status: 'completed', result: 'done' })
})

test('a throw of a generator is a failure, and so is a returned error; a rejected yield closes it', async () => {
  let closed = false
  const tools = [
    tool('throws', async function* () {
      yield 1
      throw new Error('the valve is stuck')
    }),
    tool('returns', function* () {
      yield 1
      return new TypeError('no valve')
    }),
    tool('rejects', function* () {
      try {
        yield Promise.reject(new Error('the yield'))
      } finally {
        closed = true
      }
    }),
  ]
  const { toolResults } = await runTools(tools, [callTools(['throws'], ['returns'], ['rejects'])])
  expect(toolResults.map((each) => [each.isError, textOf(each)])).toEqual([
    [true, 'the valve is stuck'],
    [true, 'no valve'],
    [true, 'the yield'],
  ])
  expect(closed).toBe(true)
})

test('a generator that returns nothing is a failure that says what to return', async () => {
  const { toolResults } = await runTools(
    [
      tool('t', async function* () {
        yield 1
      }),
    ],
    [callTools(['t'])],
  )
  expect(textOf(toolResults[0])).toBe(
    'the tool returned undefined; return a string, JSON, or { content: [...] }',
  )
})

/** A generator without end, whose `finally` resolves `closed` with the number of its steps. */
function endless() {
  const started = deferred<void>()
  const closed = deferred<number>()
  let steps = 0
  const asynchronous = async function* () {
    try {
      for (;;) {
        yield ++steps
        started.resolve()
      }
    } finally {
      closed.resolve(steps)
    }
  }
  const synchronous = function* () {
    try {
      for (;;) {
        yield ++steps
        started.resolve()
      }
    } finally {
      closed.resolve(steps)
    }
  }
  return { asynchronous, synchronous, started: started.promise, closed: closed.promise }
}

test.each(['asynchronous', 'synchronous'] as const)(
  'an abort closes an endless %s generator: its finally runs',
  async (kind) => {
    const generator = endless()
    const { engine } = scriptedEngine([callTools(['t'])])
    const run = engine.run(context({ tools: [tool('t', generator[kind])] }))
    await generator.started
    run.abort()
    const { stopReason, toolCalls } = await run.result
    expect(await generator.closed).toBeGreaterThan(0)
    await engine.close()
    expect(stopReason).toBe('aborted')
    expect(toolCalls[0]?.error).toBe('aborted')
  },
)

test('a time limit closes an endless generator, and the run continues', async () => {
  const generator = endless()
  const { toolResults, result } = await runTools(
    [tool('t', generator.asynchronous, { timeoutMs: 50 })],
    [callTools(['t'])],
  )
  expect(await generator.closed).toBeGreaterThan(0)
  expect(textOf(toolResults[0])).toBe('Tool t timed out after 50 ms.')
  expect(result.stopReason).toBe('end_turn')
})

test('a generator that waits when it is closed is closed after its step, and its finally may still wait', async () => {
  const started = deferred<void>()
  const closed = deferred<string>()
  const waits = async function* (_: unknown, { signal }: ToolCallInfo) {
    try {
      started.resolve()
      await new Promise((resolve) => signal.addEventListener('abort', resolve))
      yield 'never reported'
    } finally {
      await null
      closed.resolve('closed')
    }
  }
  const updates: unknown[] = []
  const { engine } = scriptedEngine([callTools(['t'])])
  const run = engine.run(context({ tools: [tool('t', waits)] }), {
    onToolUpdate: (update) => updates.push(update),
  })
  await started.promise
  run.abort()
  await run.result
  expect(await closed.promise).toBe('closed')
  await engine.close()
  expect(updates).toEqual([])
})

test('a throw in the finally of a closed generator harms nobody', async () => {
  const started = deferred<void>()
  const { engine } = scriptedEngine([callTools(['t'])])
  const run = engine.run(
    context({
      tools: [
        tool('t', function* () {
          try {
            for (;;) {
              yield 1
              started.resolve()
            }
          } finally {
            // biome-ignore lint/correctness/noUnsafeFinally: it is the test
            throw new Error('not closed')
          }
        }),
      ],
    }),
  )
  await started.promise
  run.abort()
  expect((await run.result).stopReason).toBe('aborted')
  await engine.close()
})

test('a call names its run, its turn, its session and its message', async () => {
  const dir = tempDir()
  const seen: ToolCallInfo[] = []
  const { engine } = scriptedEngine([callTools(['t']), 'end'], { ledger: { path: dir.file } })
  await engine.ledger.alias('support', 'agent:main:main')
  const { toolCalls, turnId } = await engine.run(
    context({
      runId: 'run-of-the-call',
      sessionLabel: 'support',
      tools: [tool('t', (_, call) => String(seen.push(call)))],
    }),
  ).result
  await engine.close()
  dir.remove()
  expect(seen).toEqual([
    {
      runId: 'run-of-the-call',
      turnId,
      sessionLabel: 'agent:main:main',
      messageId: toolCalls[0]?.messageId,
      toolCallId: 'call_1',
      idempotencyKey: toolCalls[0]?.callId,
      signal: expect.any(AbortSignal),
      onUpdate: expect.any(Function),
    },
  ])
  expect(seen[0]?.messageId).toMatch(/^[0-9A-Z]{26}$/)
})
