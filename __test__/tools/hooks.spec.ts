// The hooks of a run: what decides about calls, what replaces results, what ends a run, and how many tools run at once. A hook must never
// let a tool run by failing.

import { expect, test } from 'vitest'
import type { RunStep, ToolCallRequest } from '../../index.js'
import { closing, folder } from '../support/cleanup.js'
import { context, readAll, scriptedEngine } from '../support/engine.js'

const calls = (...names: string[]) => ({
  toolCalls: names.map((name, n) => ({ name, arguments: { n } })),
})

/** A tool that counts in `ran` what it received. */
function counting(ran: unknown[]) {
  const parameters = {
    type: 'object',
    properties: { n: { type: 'integer', maximum: 9 } },
    required: ['n'],
  }
  return { name: 'count', parameters, run: (params: unknown) => ran.push(params) }
}

test.each([
  ['deny', 'The call of `count` was denied.'],
  [{ deny: 'not on Sundays' }, 'not on Sundays'],
])('a call that is denied with %j does not run, and the model reads why', async (verdict, why) => {
  const ran: unknown[] = []
  const { engine, provider } = scriptedEngine([calls('count'), 'I see.'])
  closing(engine)
  const seen: ToolCallRequest[] = []
  const run = engine.run(
    context({
      tools: [counting(ran)],
      beforeToolCall: async (call) => {
        seen.push(call)
        return verdict as 'deny'
      },
    }),
  )
  const result = await run.result
  const [call] = result.toolCalls
  expect(ran).toEqual([])
  expect(call).toMatchObject({ status: 'failed', error: why })
  expect(JSON.stringify(provider.requests[1])).toContain(JSON.stringify(why).slice(1, -1))
  expect(seen).toEqual([
    {
      toolName: 'count',
      params: { n: 0 },
      toolCallId: call?.id,
      idempotencyKey: call?.callId,
      runId: result.runId,
      turnId: result.turnId,
      sessionLabel: 'agent:main:main',
      messageId: call?.messageId,
      signal: expect.any(AbortSignal),
    },
  ])
})

test.each<[string, () => unknown]>([
  [
    'throws',
    () => {
      throw new Error('broken gate')
    },
  ],
  ['rejects', () => Promise.reject(new Error('broken gate'))],
  ['returns nothing', () => undefined],
  ['returns true', () => true],
  ['returns an unknown object', () => ({ allow: true })],
  ['returns two decisions', () => ({ deny: 'no', params: { n: 1 } })],
  ['returns params without JSON', () => ({ params: () => 1 })],
  [
    'returns circular params',
    () => {
      const params: Record<string, unknown> = {}
      params.of = params
      return { params }
    },
  ],
])('a gate that %s is a deny', async (_, gate) => {
  const ran: unknown[] = []
  const { engine } = scriptedEngine([calls('count'), 'ok'])
  const run = closing(engine).run(
    context({ tools: [counting(ran)], beforeToolCall: gate as never }),
  )
  const result = await run.result
  expect([ran, result.stopReason]).toEqual([[], 'end_turn'])
  expect(result.toolCalls[0]).toMatchObject({
    status: 'failed',
    error: expect.stringContaining('was denied'),
  })
})

test('changed params are validated, reach the tool, and are those of the events and the ledger', async () => {
  const ran: unknown[] = []
  const { file } = folder()
  const { engine } = scriptedEngine([calls('count', 'count'), 'ok'], { ledger: { path: file } })
  closing(engine)
  const run = engine.run(
    context({
      tools: [counting(ran)],
      beforeToolCall: ({ params }) => ({ params: { n: params.n === 0 ? '7' : 70 } }),
    }),
  )
  const events = await readAll(run)
  const result = await run.result
  expect(ran).toEqual([{ n: 7 }])
  expect(result.toolCalls).toMatchObject([
    { status: 'completed', params: { n: 7 } },
    { status: 'failed', error: expect.stringContaining('must be <= 9') },
  ])
  const started = events.filter((event) => event.type === 'tool_status' && event.params)
  expect(started).toMatchObject([{ params: { n: 7 } }])
  expect((await engine.ledger.turn(result.turnId))?.toolCalls).toMatchObject([
    { params: { n: 7 } },
    { status: 'failed' },
  ])
})

test('the engine has hooks for all runs, and a context replaces them one by one', async () => {
  const ran: unknown[] = []
  const options = {
    beforeToolCall: () => 'deny' as const,
    afterToolCall: () => 'of the engine',
  }
  const { engine } = scriptedEngine([calls('count'), 'a', calls('count'), 'b'], options)
  closing(engine)
  const tools = [counting(ran)]
  const denied = await engine.run(context({ tools })).result
  const allowed = await engine.run(context({ tools, beforeToolCall: () => 'allow' })).result
  expect(denied.toolCalls).toMatchObject([{ status: 'failed' }])
  expect(allowed.toolCalls).toMatchObject([{ status: 'completed', result: 'of the engine' }])
  expect(ran).toHaveLength(1)
})

test('afterToolCall replaces what the model reads and the result has; a throw leaves it', async () => {
  const { engine, provider } = scriptedEngine([calls('say', 'say', 'say'), 'ok'])
  closing(engine)
  const warnings: string[] = []
  const warned = (warning: Error & { code?: string }) => warnings.push(warning.code ?? '')
  process.on('warning', warned)
  const say = { name: 'say', run: ({ n }: { n: number }) => `secret ${n}` }
  const run = engine.run(
    context({
      tools: [say],
      afterToolCall: (call, result) => {
        if (call.params.n === 0) return { redacted: String(result).length }
        if (call.params.n === 1) throw new Error('broken hook')
      },
    }),
  )
  const result = await run.result
  await new Promise((resolve) => setImmediate(resolve))
  process.off('warning', warned)
  expect(result.toolCalls.map((call) => call.result)).toEqual([
    { redacted: 8 },
    'secret 1',
    'secret 2',
  ])
  expect(JSON.stringify(provider.requests[1])).not.toContain('secret 0')
  expect(warnings).toEqual(['AGENT_ENGINE_CALLBACK'])
})

test('an abort ends a gate that does not answer, and its signal', async () => {
  const { engine } = scriptedEngine([calls('count'), 'never said'])
  let answer: (signal: AbortSignal) => void = () => {}
  const asked = new Promise<AbortSignal>((resolve) => {
    answer = resolve
  })
  const run = closing(engine).run(
    context({
      tools: [counting([])],
      beforeToolCall: (call) => {
        answer(call.signal)
        return new Promise(() => {})
      },
    }),
  )
  const signal = await asked
  run.abort()
  const result = await run.result
  expect([result.stopReason, signal.aborted]).toEqual(['aborted', true])
  expect(result.toolCalls).toMatchObject([{ status: 'failed', error: 'aborted' }])
})

test('stopWhen ends the run after the answer that it names, completed, with every result', async () => {
  const ran: unknown[] = []
  const { engine, provider } = scriptedEngine([
    { text: 'one', ...calls('count') },
    { text: 'two', ...calls('count', 'count') },
    'never said',
  ])
  closing(engine)
  const steps: RunStep[] = []
  const run = engine.run(
    context({
      tools: [counting(ran)],
      stopWhen: (step) => {
        steps.push(step)
        return step.toolCalls.length === 2
      },
    }),
  )
  const events = await readAll(run)
  const result = await run.result
  expect([result.stopReason, ran.length, provider.requests.length]).toEqual(['tool_use', 3, 2])
  expect(events.at(-1)).toMatchObject({ type: 'stream_end', final: true, stopReason: 'tool_use' })
  const answers = result.messages.filter(({ role }) => role === 'assistant')
  const of = (at: number) => ({
    runId: result.runId,
    turnId: result.turnId,
    sessionLabel: 'agent:main:main',
    step: at + 1,
    messageId: answers[at]?.id,
    text: answers[at]?.content,
    toolCalls: result.toolCalls.filter((call) => call.messageId === answers[at]?.id),
    usage: expect.objectContaining({ totalTokens: expect.any(Number) }),
  })
  expect(steps).toEqual([of(0), of(1)])
})

test('a stopWhen that throws, or answers something else than true, stops nothing', async () => {
  for (const stopWhen of [
    () => {
      throw new Error('no')
    },
    () => 'yes',
    async () => 1,
  ]) {
    const { engine } = scriptedEngine([calls('count'), 'the end'])
    const run = closing(engine).run(context({ tools: [counting([])], stopWhen: stopWhen as never }))
    expect((await run.result).stopReason).toBe('end_turn')
  }
})

test.each([
  [undefined, 8],
  [1, 1],
  [3, 3],
])(
  'with `maxParallelTools: %j` at most %i parallel tools run at once',
  async (maxParallelTools, most) => {
    let running = 0
    let highest = 0
    const slow = {
      name: 'slow',
      executionMode: 'parallel' as const,
      run: async () => {
        highest = Math.max(highest, ++running)
        await new Promise((resolve) => setTimeout(resolve, 5))
        running--
        return 'done'
      },
    }
    const { engine } = scriptedEngine([calls(...Array<string>(12).fill('slow')), 'ok'])
    const run = closing(engine).run(context({ tools: [slow], maxParallelTools }))
    const result = await run.result
    expect(result.toolCalls.map(({ status }) => status)).toEqual(Array(12).fill('completed'))
    expect(highest).toBe(most)
  },
)

test.each(['beforeToolCall', 'afterToolCall', 'stopWhen'])(
  '`%s` that is no function is refused',
  (field) => {
    const { engine } = scriptedEngine(['a'])
    closing(engine)
    const refused = (code: string) => expect.objectContaining({ code, field })
    expect(() => engine.run(context({ [field]: 'yes' }))).toThrow(refused('invalid_context'))
    expect(() => scriptedEngine(['a'], { [field]: 7 })).toThrow(refused('invalid_options'))
  },
)
