// Aborts at every phase. The limit of the time from abort to result is a rule (docs/rules/abort-usage.md#abort): the only time that
// it asserts. Steering is engine/steering.spec.ts, the time limit engine/run-timeout.spec.ts.

import { getEventListeners } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { describe, expect, test } from 'vitest'
import type { PlainTool, StreamEvent } from '../../index.js'
import {
  abortable,
  expectAbort,
  expectNoMoreThan,
  halfText,
  isToken,
  isToolStart,
  readUntil,
} from '../support/abort.js'
import { afterwards, closing, folder } from '../support/cleanup.js'
import { context, engineAt, readAll, scriptedEngine, textOf } from '../support/engine.js'
import { anthropic } from '../support/servers/anthropic.js'
import { gate, sse, sseThenHold, status } from '../support/servers/server.js'

describe('an AbortSignal', () => {
  test('that was aborted before sends no request', async () => {
    const all = await abortable(sse(anthropic.answer('never')))
    // Many, because a wrong request would be a race.
    for (let n = 0; n < 50; n++) {
      const run = all.engine.run(context({ abortSignal: AbortSignal.abort() }))
      await expectAbort(all.engine, run, () => {})
    }
    await expectNoMoreThan(0, all)
    expect(all.server.connections()).toBe(0)
  })

  test('while connecting', async () => {
    const sockets: Socket[] = []
    const accepted = gate()
    const closed = gate()
    // It accepts the connection and never answers the TLS handshake.
    const black = createServer((socket) => {
      sockets.push(socket)
      socket.on('error', () => {})
      socket.on('close', closed.open)
      socket.resume()
      accepted.open()
    })
    await new Promise<void>((resolve) => black.listen(0, '127.0.0.1', resolve))
    afterwards(() => {
      for (const socket of sockets) socket.destroy()
      black.close()
    })
    const { port } = black.address() as { port: number }
    const engine = closing(
      engineAt(`https://127.0.0.1:${port}`, { ledger: { path: folder().file } }),
    )
    const controller = new AbortController()
    const run = engine.run(context({ abortSignal: controller.signal }))
    await accepted.wait
    const result = await expectAbort(engine, run, () => controller.abort())
    await closed.wait
    expect(result.messages.map((message) => message.role)).toEqual(['user'])
    await engine.close()
    expect(sockets.length).toBe(1)
  })

  test('while waiting for headers', async () => {
    const requested = gate()
    const all = await abortable(() => requested.open())
    const run = all.engine.run(context({ abortSignal: all.controller.signal }))
    await requested.wait
    await expectAbort(all.engine, run, () => all.controller.abort())
    await all.server.seen[0].closed
    await expectNoMoreThan(1, all)
  })

  test('before the first token', async () => {
    const written = gate()
    const all = await abortable((response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(anthropic.start(), () => written.open())
    })
    const run = all.engine.run(context({ abortSignal: all.controller.signal }))
    await written.wait
    const result = await expectAbort(all.engine, run, () => all.controller.abort())
    await all.server.seen[0].closed
    expect(result.messages.map((message) => message.role)).toEqual(['user'])
    await expectNoMoreThan(1, all)
  })

  test('in the middle of the text, which is in the result', async () => {
    const all = await abortable(sseThenHold(halfText))
    const run = all.engine.run(context({ abortSignal: all.controller.signal }))
    await readUntil(run, isToken)
    const result = await expectAbort(all.engine, run, () => all.controller.abort())
    await all.server.seen[0].closed
    expect(result.messages.at(-1)).toMatchObject({ role: 'assistant', content: 'half' })
    await expectNoMoreThan(1, all)
  })

  test('in the middle of the reasoning', async () => {
    const all = await abortable(
      sseThenHold(
        anthropic.start() +
          anthropic.blockStart(0, { type: 'thinking', thinking: '', signature: '' }) +
          anthropic.delta(0, { type: 'thinking_delta', thinking: 'hm' }),
      ),
    )
    const run = all.engine.run(context({ abortSignal: all.controller.signal }))
    await readUntil(run, (event) => event.type === 'reasoning')
    await expectAbort(all.engine, run, () => all.controller.abort())
    await expectNoMoreThan(1, all)
  })

  test('in the middle of the arguments of a call, which is never run', async () => {
    const all = await abortable(
      sseThenHold(
        anthropic.start() +
          anthropic.blockStart(0, { type: 'tool_use', id: 'toolu_1', name: 'rm', input: {} }) +
          anthropic.delta(0, { type: 'input_json_delta', partial_json: '{"path":"/home/u' }) +
          anthropic.blockStart(1, { type: 'text', text: '' }) +
          anthropic.delta(1, { type: 'text_delta', text: 'now the call has begun' }),
      ),
    )
    let ran = 0
    const rm: PlainTool = { name: 'rm', run: () => ++ran }
    const run = all.engine.run(context({ tools: [rm], abortSignal: all.controller.signal }))
    await readUntil(run, isToken)
    const result = await expectAbort(all.engine, run, () => all.controller.abort())
    expect(result.toolCalls).toMatchObject([{ id: 'toolu_1', status: 'failed', error: 'aborted' }])
    expect(ran).toBe(0)
    await expectNoMoreThan(1, all)
  })

  test('while a tool runs that obeys its signal', async () => {
    const all = await abortable(sse(anthropic.calls(['toolu_1', 'wait', {}])))
    let received: unknown
    const begun = gate()
    const wait: PlainTool = {
      name: 'wait',
      run: (_, { signal }) =>
        new Promise((_resolve, reject) => {
          begun.open()
          signal.addEventListener('abort', () => {
            received = signal.aborted
            reject(new Error('stopped'))
          })
        }),
    }
    const run = all.engine.run(context({ tools: [wait], abortSignal: all.controller.signal }))
    // `started` is emitted before the tool is called, and an abort between the two prevents the call.
    await begun.wait
    const result = await expectAbort(all.engine, run, () => all.controller.abort())
    expect(received).toBe(true)
    expect(result.toolCalls).toMatchObject([{ id: 'toolu_1', status: 'failed', error: 'aborted' }])
    await expectNoMoreThan(1, all)
  })

  test('while a tool runs that ignores its signal: its late result is discarded', async () => {
    const all = await abortable(
      sse(anthropic.calls(['toolu_1', 'deaf', {}], ['toolu_2', 'deaf', {}])),
    )
    const late = gate()
    const begun = gate()
    let calls = 0
    const deaf: PlainTool = {
      name: 'deaf',
      run: async () => {
        calls++
        begun.open()
        await late.wait
        return 'too late'
      },
    }
    const run = all.engine.run(context({ tools: [deaf], abortSignal: all.controller.signal }))
    const delivered: StreamEvent[] = []
    run.stream.onEvent((event) => delivered.push(event))
    // `started` is emitted before the tool is called, and an abort between the two prevents the call.
    await begun.wait
    const result = await expectAbort(all.engine, run, () => all.controller.abort())
    const before = delivered.length
    late.open()
    await new Promise(setImmediate)
    expect(delivered.length).toBe(before)
    expect(calls).toBe(1)
    expect(result.toolCalls).toMatchObject([
      { id: 'toolu_1', status: 'failed', error: 'aborted' },
      { id: 'toolu_2', status: 'failed', error: 'aborted' },
    ])
    expect(
      delivered.flatMap((event) =>
        event.type === 'tool_status' ? `${event.toolCallId}:${event.status}` : [],
      ),
    ).toEqual(['toolu_1:started', 'toolu_1:failed'])
    await expectNoMoreThan(1, all)
  })

  test('while some tools of a message have ended: their results are in the result', async () => {
    const all = await abortable(
      sse(anthropic.calls(['a', 'quick', {}], ['b', 'deaf', {}], ['c', 'quick', {}])),
    )
    const quick: PlainTool = { name: 'quick', run: () => 'done' }
    const deaf: PlainTool = { name: 'deaf', run: () => new Promise(() => {}) }
    const run = all.engine.run(
      context({ tools: [quick, deaf], abortSignal: all.controller.signal }),
    )
    await readUntil(
      run,
      (event) => isToolStart(event) && 'toolCallId' in event && event.toolCallId === 'b',
    )
    const result = await expectAbort(all.engine, run, () => all.controller.abort())
    expect(result.toolCalls.map(({ id, status: how, error }) => [id, how, error])).toEqual([
      ['a', 'completed', undefined],
      ['b', 'failed', 'aborted'],
      ['c', 'failed', 'aborted'],
    ])
    await expectNoMoreThan(1, all)
  })

  test('during the wait before a retry', async () => {
    const answered = gate()
    const overloaded = { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }
    const all = await abortable((response, seen) => {
      if (JSON.stringify(seen.body.messages).includes('The other one.'))
        return sse(anthropic.answer('other'))(response, seen)
      response.on('finish', answered.open)
      return status(529, overloaded, { 'retry-after': '30' })(response, seen)
    })
    const run = all.engine.run(context({ abortSignal: all.controller.signal, timeoutMs: 120_000 }))
    await answered.wait
    // When another connection was used and answered, the first run has read its refusal.
    const currentMessage = { role: 'user' as const, content: 'The other one.' }
    const other = await all.engine.run(context({ sessionLabel: 'other', currentMessage })).result
    expect(other.stopReason).toBe('end_turn')
    const requested = all.server.seen.length
    const result = await expectAbort(all.engine, run, () => all.controller.abort())
    expect(result.attempts).toMatchObject([{ ok: false, status: 529 }])
    await expectNoMoreThan(requested, all)
  })

  test('while queued behind another run of its session: no request is sent, the other run continues', async () => {
    const held = gate()
    const requested = gate()
    const all = await abortable(async (response, seen) => {
      requested.open()
      await held.wait
      await sse(anthropic.answer('first'))(response, seen)
    })
    const first = all.engine.run(context())
    await requested.wait
    const second = all.engine.run(context({ abortSignal: all.controller.signal }))
    const result = await expectAbort(all.engine, second, () => all.controller.abort())
    expect(result.messages.map((message) => message.role)).toEqual(['user'])
    held.open()
    const { stopReason, turnId } = await first.result
    expect(stopReason).toBe('end_turn')
    expect((await all.engine.ledger.session('agent:main:main'))?.threadId).toBe(turnId)
    await expectNoMoreThan(1, all)
  })

  test('after the end changes nothing, and leaves no listener behind', async () => {
    const all = await abortable(sse(anthropic.answer('done')))
    const { signal } = all.controller
    const seen: Error[] = []
    const listen = (warning: Error) => seen.push(warning)
    process.on('warning', listen)
    afterwards(() => process.off('warning', listen))
    const runs = Array.from({ length: 20 }, (_, n) =>
      all.engine.run(context({ sessionLabel: `s${n}`, abortSignal: signal })),
    )
    // Also with many runs: Node warns of a leak above ten listeners.
    expect(getEventListeners(signal, 'abort').length).toBe(1)
    const results = await Promise.all(runs.map((run) => run.result))
    expect(getEventListeners(signal, 'abort')).toEqual([])
    all.controller.abort()
    for (const run of runs) run.abort()
    expect(results.map((result) => result.stopReason)).toEqual(Array(20).fill('end_turn'))
    const rows = await all.engine.ledger.query(
      "select count(*) as n from turns where status = 'completed'",
    )
    expect(rows.rows).toEqual([{ n: 20 }])
    await new Promise(setImmediate)
    expect(seen).toEqual([])
    await expectNoMoreThan(20, all)
  })

  test('one signal ends all runs that share it', async () => {
    const all = await abortable(sseThenHold(halfText))
    const runs = Array.from({ length: 8 }, (_, n) =>
      all.engine.run(context({ sessionLabel: `s${n}`, abortSignal: all.controller.signal })),
    )
    await Promise.all(runs.map((run) => readUntil(run, isToken)))
    all.controller.abort()
    const results = await Promise.all(runs.map((run) => run.result))
    expect(results.map((result) => result.stopReason)).toEqual(Array(8).fill('aborted'))
    expect(getEventListeners(all.controller.signal, 'abort')).toEqual([])
  })

  test('of AbortSignal.timeout ends a run that floods', async () => {
    const { engine } = scriptedEngine([{ text: 'x'.repeat(20_000_000), chunkSize: 1 }])
    const run = closing(engine).run(context({ abortSignal: AbortSignal.timeout(20) }))
    for await (const _ of run);
    expect((await run.result).stopReason).toBe('timeout')
  })

  test('that is no signal is refused immediately', () => {
    const { engine } = scriptedEngine(['x'])
    closing(engine)
    expect(() => engine.run(context({ abortSignal: {} as AbortSignal }))).toThrow(
      expect.objectContaining({ code: 'invalid_context', field: 'abortSignal' }),
    )
  })

  test('of a context that is refused leaves no listener', () => {
    const { engine } = scriptedEngine(['x'])
    closing(engine)
    const { signal } = new AbortController()
    expect(() => engine.run(context({ provider: 'nobody', abortSignal: signal }))).toThrow()
    expect(getEventListeners(signal, 'abort')).toEqual([])
  })
})

test('the next run of the session waits until the aborted one has committed, and has it in its context', async () => {
  const all = await abortable(sseThenHold(halfText), sse(anthropic.answer('second')))
  const first = all.engine.run(context())
  await readUntil(first, isToken)
  const second = all.engine.run(context({ currentMessage: { role: 'user', content: 'again' } }))
  first.abort()
  const [one, two] = await Promise.all([first.result, second.result])
  expect([one.stopReason, two.stopReason]).toEqual(['aborted', 'end_turn'])
  expect((await all.engine.ledger.turn(two.turnId))?.parentTurnId).toBe(one.turnId)
  expect(JSON.stringify(all.server.seen[1].body.messages)).toContain('half')
})

test('an abort at the terminal event changes nothing', async () => {
  const all = await abortable(sse(anthropic.answer('done')))
  const run = all.engine.run(context())
  run.stream.onEvent((event) => {
    if (event.type === 'stream_end') run.abort()
  })
  expect(await run.result).toMatchObject({ stopReason: 'end_turn', persisted: true })
})

test('partial text of an aborted run stays readable as text of its events', async () => {
  const all = await abortable(sseThenHold(halfText))
  const run = all.engine.run(context())
  const events = readAll(run)
  run.stream.onEvent((event) => {
    if (isToken(event)) run.abort()
  })
  expect(textOf(await events)).toBe('half')
})
