// The run's own time limit (`timeoutMs`) at every phase. It must never assert how long a run took.

import { describe, expect, test } from 'vitest'
import { abortable, expectNoMoreThan, halfText } from '../support/abort.js'
import { context, readAll } from '../support/engine.js'
import { anthropic } from '../support/servers/anthropic.js'
import { gate, type Handler, sse, sseThenHold } from '../support/servers/server.js'

describe('timeoutMs', () => {
  const timedOut = { kind: 'timeout', detail: { kind: 'timeout' } }

  test.each<[string, Handler[], Partial<Parameters<typeof context>[0]>]>([
    ['waiting for headers', [() => {}], {}],
    ['in the middle of the text', [sseThenHold(halfText)], {}],
    [
      'while a tool runs',
      [sse(anthropic.calls(['toolu_1', 'deaf', {}]))],
      { tools: [{ name: 'deaf', run: () => new Promise(() => {}) }] },
    ],
  ])('%s ends the run as timeout', async (phase, handlers, changes) => {
    const all = await abortable(...handlers)
    const run = all.engine.run(context({ timeoutMs: 300, ...changes }))
    const events = await readAll(run)
    const result = await run.result
    expect(result).toMatchObject({ stopReason: 'timeout', error: timedOut, persisted: true })
    expect(events.at(-1)).toEqual({
      type: 'stream_error',
      error: result.error?.message,
      partial: phase === 'in the middle of the text',
      stopReason: 'timeout',
      turnId: result.turnId,
      usage: result.usage,
      persisted: true,
      kind: 'timeout',
      retryable: true,
      seq: events.length,
    })
    expect(events.some((event) => event.type === 'stream_end' && event.final)).toBe(false)
    for (const call of result.toolCalls) expect(call.status).toBe('failed')
    expect(await all.engine.ledger.turn(result.turnId)).toMatchObject({
      status: 'failed',
      stopReason: 'timeout',
    })
    await expectNoMoreThan(1, all)
  })

  test('ends a queued run without a request, and the other run continues', async () => {
    const held = gate()
    const all = await abortable(async (response, seen) => {
      await held.wait
      await sse(anthropic.answer('first'))(response, seen)
    })
    const first = all.engine.run(context())
    const second = await all.engine.run(context({ timeoutMs: 100 })).result
    expect(second).toMatchObject({ stopReason: 'timeout', error: timedOut, attempts: [] })
    held.open()
    expect((await first.result).stopReason).toBe('end_turn')
    await expectNoMoreThan(1, all)
  })
})
