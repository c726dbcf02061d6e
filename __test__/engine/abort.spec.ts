// Aborts at every phase, the run's time limit, and steering. The limit of the time from abort to result is a rule
// (docs/rules/abort-usage.md#abort): the only time that this file asserts.

import { getEventListeners } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { describe, expect, test } from 'vitest'
import type { AgentEngine, AgentResult, AgentRun, PlainTool, StreamEvent } from '../../index.js'
import { afterwards, closing, folder, serving } from '../support/cleanup.js'
import { context, engineAt, readAll, scriptedEngine, textOf } from '../support/engine.js'
import { anthropic } from '../support/servers/anthropic.js'
import {
  gate,
  type Handler,
  sse,
  sseThenHold,
  status,
  type TestServer,
} from '../support/servers/server.js'

/** The maximum time from the abort to the result (docs/rules/abort-usage.md#abort). */
const ABORT_BOUND_MS = 250

interface Rig {
  server: TestServer
  engine: AgentEngine
  controller: AbortController
}

async function rig(...handlers: Handler[]): Promise<Rig> {
  const server = await serving(...handlers)
  const engine = closing(engineAt(server.url, { ledger: { path: folder().file } }))
  return { server, engine, controller: new AbortController() }
}

/** Aborts and checks the rules of every abort: in time, one terminal event, closed calls, a row in the ledger. */
async function aborts(engine: AgentEngine, run: AgentRun, abort: () => void): Promise<AgentResult> {
  const events = readAll(run)
  let settled = false
  const coming = run.result.finally(() => {
    settled = true
  })
  abort()
  const bound = new Promise((resolve) => setTimeout(resolve, ABORT_BOUND_MS))
  await Promise.race([coming, bound])
  // If this thread was blocked, the events that arrived meanwhile are handled first.
  for (let turn = 0; turn < 3 && !settled; turn++) await new Promise(setImmediate)
  expect(settled, `the result came within ${ABORT_BOUND_MS} ms`).toBe(true)
  const result = await coming
  expect(result).toMatchObject({ stopReason: 'aborted', persisted: true })
  expect(result.error).toBeUndefined()
  const rest = await events
  expect(rest.at(-1)).toMatchObject({ type: 'stream_end', final: true })
  expect(rest.filter((event) => event.type === 'stream_error')).toEqual([])
  const answered = new Set(result.messages.map((message) => message.toolCallId))
  for (const call of result.toolCalls) {
    expect(['completed', 'failed']).toContain(call.status)
    expect(answered).toContain(call.id)
  }
  expect(await engine.ledger.turn(result.turnId)).toMatchObject({
    status: 'aborted',
    stopReason: 'aborted',
    messages: result.messages,
  })
  return result
}

/** After the engine is closed it has no task that could still send a request. */
async function expectNoMoreThan(requests: number, { engine, server }: Rig): Promise<void> {
  await engine.close()
  expect(server.seen.length).toBe(requests)
}

/** Reads until an event matches. */
async function until(run: AgentRun, wanted: (event: StreamEvent) => boolean): Promise<void> {
  for (;;) {
    const { value, done } = await run.next()
    if (done) throw new Error('the run ended before')
    if (wanted(value)) return
  }
}

const isToken = (event: StreamEvent) => event.type === 'token'
const isStart = (event: StreamEvent) => event.type === 'tool_status' && event.status === 'started'
const halfText =
  anthropic.start() +
  anthropic.blockStart(0, { type: 'text', text: '' }) +
  anthropic.delta(0, { type: 'text_delta', text: 'half' })

describe('an AbortSignal', () => {
  test('that was aborted before sends no request', async () => {
    const all = await rig(sse(anthropic.answer('never')))
    // Many, because a wrong request would be a race.
    for (let n = 0; n < 50; n++) {
      const run = all.engine.run(context({ abortSignal: AbortSignal.abort() }))
      await aborts(all.engine, run, () => {})
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
    const result = await aborts(engine, run, () => controller.abort())
    await closed.wait
    expect(result.messages.map((message) => message.role)).toEqual(['user'])
    await engine.close()
    expect(sockets.length).toBe(1)
  })

  test('while waiting for headers', async () => {
    const asked = gate()
    const all = await rig(() => asked.open())
    const run = all.engine.run(context({ abortSignal: all.controller.signal }))
    await asked.wait
    await aborts(all.engine, run, () => all.controller.abort())
    await all.server.seen[0].closed
    await expectNoMoreThan(1, all)
  })

  test('before the first token', async () => {
    const written = gate()
    const all = await rig((response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(anthropic.start(), () => written.open())
    })
    const run = all.engine.run(context({ abortSignal: all.controller.signal }))
    await written.wait
    const result = await aborts(all.engine, run, () => all.controller.abort())
    await all.server.seen[0].closed
    expect(result.messages.map((message) => message.role)).toEqual(['user'])
    await expectNoMoreThan(1, all)
  })

  test('in the middle of the text, which is in the result', async () => {
    const all = await rig(sseThenHold(halfText))
    const run = all.engine.run(context({ abortSignal: all.controller.signal }))
    await until(run, isToken)
    const result = await aborts(all.engine, run, () => all.controller.abort())
    await all.server.seen[0].closed
    expect(result.messages.at(-1)).toMatchObject({ role: 'assistant', content: 'half' })
    await expectNoMoreThan(1, all)
  })

  test('in the middle of the reasoning', async () => {
    const all = await rig(
      sseThenHold(
        anthropic.start() +
          anthropic.blockStart(0, { type: 'thinking', thinking: '', signature: '' }) +
          anthropic.delta(0, { type: 'thinking_delta', thinking: 'hm' }),
      ),
    )
    const run = all.engine.run(context({ abortSignal: all.controller.signal }))
    await until(run, (event) => event.type === 'reasoning')
    await aborts(all.engine, run, () => all.controller.abort())
    await expectNoMoreThan(1, all)
  })

  test('in the middle of the arguments of a call, which is never run', async () => {
    const all = await rig(
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
    await until(run, isToken)
    const result = await aborts(all.engine, run, () => all.controller.abort())
    expect(result.toolCalls).toMatchObject([{ id: 'toolu_1', status: 'failed', error: 'aborted' }])
    expect(ran).toBe(0)
    await expectNoMoreThan(1, all)
  })

  test('while a tool runs that obeys its signal', async () => {
    const all = await rig(sse(anthropic.calls(['toolu_1', 'wait', {}])))
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
    const result = await aborts(all.engine, run, () => all.controller.abort())
    expect(received).toBe(true)
    expect(result.toolCalls).toMatchObject([{ id: 'toolu_1', status: 'failed', error: 'aborted' }])
    await expectNoMoreThan(1, all)
  })

  test('while a tool runs that ignores its signal: its late result is discarded', async () => {
    const all = await rig(sse(anthropic.calls(['toolu_1', 'deaf', {}], ['toolu_2', 'deaf', {}])))
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
    const result = await aborts(all.engine, run, () => all.controller.abort())
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
    const all = await rig(
      sse(anthropic.calls(['a', 'quick', {}], ['b', 'deaf', {}], ['c', 'quick', {}])),
    )
    const quick: PlainTool = { name: 'quick', run: () => 'done' }
    const deaf: PlainTool = { name: 'deaf', run: () => new Promise(() => {}) }
    const run = all.engine.run(
      context({ tools: [quick, deaf], abortSignal: all.controller.signal }),
    )
    await until(run, (event) => isStart(event) && 'toolCallId' in event && event.toolCallId === 'b')
    const result = await aborts(all.engine, run, () => all.controller.abort())
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
    const all = await rig((response, seen) => {
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
    const asked = all.server.seen.length
    const result = await aborts(all.engine, run, () => all.controller.abort())
    expect(result.attempts).toMatchObject([{ ok: false, status: 529 }])
    await expectNoMoreThan(asked, all)
  })

  test('while queued behind another run of its session: no request is sent, the other run continues', async () => {
    const held = gate()
    const asked = gate()
    const all = await rig(async (response, seen) => {
      asked.open()
      await held.wait
      await sse(anthropic.answer('first'))(response, seen)
    })
    const first = all.engine.run(context())
    await asked.wait
    const second = all.engine.run(context({ abortSignal: all.controller.signal }))
    const result = await aborts(all.engine, second, () => all.controller.abort())
    expect(result.messages.map((message) => message.role)).toEqual(['user'])
    held.open()
    const { stopReason, turnId } = await first.result
    expect(stopReason).toBe('end_turn')
    expect((await all.engine.ledger.session('agent:main:main'))?.threadId).toBe(turnId)
    await expectNoMoreThan(1, all)
  })

  test('after the end changes nothing, and leaves no listener behind', async () => {
    const all = await rig(sse(anthropic.answer('done')))
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
    const all = await rig(sseThenHold(halfText))
    const runs = Array.from({ length: 8 }, (_, n) =>
      all.engine.run(context({ sessionLabel: `s${n}`, abortSignal: all.controller.signal })),
    )
    await Promise.all(runs.map((run) => until(run, isToken)))
    all.controller.abort()
    const results = await Promise.all(runs.map((run) => run.result))
    expect(results.map((result) => result.stopReason)).toEqual(Array(8).fill('aborted'))
    expect(getEventListeners(all.controller.signal, 'abort')).toEqual([])
  })

  test('of AbortSignal.timeout ends a run that floods', async () => {
    const { engine } = scriptedEngine([{ text: 'x'.repeat(20_000_000), chunkSize: 1 }])
    const run = closing(engine).run(context({ abortSignal: AbortSignal.timeout(20) }))
    for await (const _ of run);
    expect((await run.result).stopReason).toBe('aborted')
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
  const all = await rig(sseThenHold(halfText), sse(anthropic.answer('second')))
  const first = all.engine.run(context())
  await until(first, isToken)
  const second = all.engine.run(context({ currentMessage: { role: 'user', content: 'again' } }))
  first.abort()
  const [one, two] = await Promise.all([first.result, second.result])
  expect([one.stopReason, two.stopReason]).toEqual(['aborted', 'end_turn'])
  expect((await all.engine.ledger.turn(two.turnId))?.parentTurnId).toBe(one.turnId)
  expect(JSON.stringify(all.server.seen[1].body.messages)).toContain('half')
})

test('an abort at the terminal event changes nothing', async () => {
  const all = await rig(sse(anthropic.answer('done')))
  const run = all.engine.run(context())
  run.stream.onEvent((event) => {
    if (event.type === 'stream_end') run.abort()
  })
  expect(await run.result).toMatchObject({ stopReason: 'end_turn', persisted: true })
})

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
    const all = await rig(...handlers)
    const run = all.engine.run(context({ timeoutMs: 300, ...changes }))
    const events = await readAll(run)
    const result = await run.result
    expect(result).toMatchObject({ stopReason: 'timeout', error: timedOut, persisted: true })
    expect(events.at(-1)).toEqual({
      type: 'stream_error',
      error: result.error?.message,
      partial: phase === 'in the middle of the text',
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
    const all = await rig(async (response, seen) => {
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

describe('steering', () => {
  test('reaches the model after the running tool; the calls after it are skipped', async () => {
    const all = await rig(
      sse(anthropic.calls(['a', 'work', {}], ['b', 'work', {}], ['c', 'work', {}])),
      sse(anthropic.answer('ok')),
    )
    let ran = 0
    let steered: boolean | undefined
    const work: PlainTool = {
      name: 'work',
      run: () => {
        ran++
        steered = run.steer('Stop that.')
        return 'done'
      },
    }
    const run = all.engine.run(context({ tools: [work] }))
    const events = await readAll(run)
    const result = await run.result
    expect({ ran, steered }).toEqual({ ran: 1, steered: true })
    expect(result.toolCalls.map(({ id, status: how, error }) => [id, how, error])).toEqual([
      ['a', 'completed', undefined],
      ['b', 'failed', 'Skipped due to queued user message.'],
      ['c', 'failed', 'Skipped due to queued user message.'],
    ])
    expect(result.messages.map(({ role, content, isError }) => [role, content, isError])).toEqual([
      ['user', 'hi', undefined],
      ['assistant', '', undefined],
      ['tool', 'done', false],
      ['tool', 'Skipped due to queued user message.', true],
      ['tool', 'Skipped due to queued user message.', true],
      ['user', 'Stop that.', undefined],
      ['assistant', 'ok', undefined],
    ])
    expect(JSON.stringify(all.server.seen[1].body.messages.at(-1))).toContain('Stop that.')
    expect(events.at(-1)).toMatchObject({ type: 'stream_end', final: true })
    expect(result.undeliveredSteering).toEqual([])
    await expectNoMoreThan(2, all)
  })

  test('during the last answer continues the same turn', async () => {
    const more = gate()
    const all = await rig(
      async (response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        response.write(halfText)
        await more.wait
        response.end(anthropic.blockStop(0) + anthropic.end())
      },
      sse(anthropic.answer('and that')),
    )
    const run = all.engine.run(context())
    await until(run, isToken)
    expect(run.stream.steer('And that?')).toBe(true)
    more.open()
    const events = await readAll(run)
    expect(events.map((event) => (event.type === 'stream_end' ? event.final : event.type))).toEqual(
      [false, 'token', true],
    )
    const result = await run.result
    expect(result.messages.map(({ role, content }) => [role, content])).toEqual([
      ['user', 'hi'],
      ['assistant', 'half'],
      ['user', 'And that?'],
      ['assistant', 'and that'],
    ])
    expect(result).toMatchObject({ stopReason: 'end_turn', undeliveredSteering: [] })
    const turns = await all.engine.ledger.query('select count(*) as n from turns')
    expect(turns.rows).toEqual([{ n: 1 }])
  })

  test('several messages arrive in order', async () => {
    const { engine, provider } = scriptedEngine([{ gate: 'go', text: 'one' }, 'two'])
    const run = closing(engine).run(context())
    await run.next()
    // The first request was sent: the messages cannot be part of it.
    while (provider.requests.length === 0) await new Promise(setImmediate)
    expect([run.steer('b'), run.steer('c')]).toEqual([true, true])
    provider.open('go')
    const { messages } = await run.result
    expect(messages.map(({ content }) => content)).toEqual(['hi', 'one', 'b', 'c', 'two'])
  })

  test('after the end is refused, as is anything but a text', async () => {
    const { engine } = scriptedEngine(['done'])
    const run = closing(engine).run(context())
    expect([run.steer(''), run.steer(undefined as never)]).toEqual([false, false])
    const result = await run.result
    expect(run.steer('late')).toBe(false)
    expect(result.undeliveredSteering).toEqual([])
  })

  test('from the callback of the terminal event is refused, and never accepted and lost', async () => {
    const { engine } = scriptedEngine(['done'])
    const run = closing(engine).run(context())
    let taken: boolean | undefined
    run.stream.onEvent((event) => {
      if (event.type === 'stream_end') taken = run.steer('late')
    })
    await run.result
    expect(taken).toBe(false)
  })

  test('is returned when the run is aborted before the model received it', async () => {
    const all = await rig(sse(anthropic.calls(['a', 'deaf', {}])))
    const deaf: PlainTool = { name: 'deaf', run: () => new Promise(() => {}) }
    const run = all.engine.run(context({ tools: [deaf] }))
    await until(run, isStart)
    expect([run.steer('one'), run.steer('two')]).toEqual([true, true])
    const result = await aborts(all.engine, run, () => run.abort())
    expect(result.undeliveredSteering).toEqual(['one', 'two'])
    expect(result.messages.filter((message) => message.role === 'user').length).toBe(1)
  })

  test('at any time, an accepted message is delivered or returned', async () => {
    for (let turns = 0; turns < 60; turns++) {
      const { engine } = scriptedEngine([{ text: 'one' }, 'two', 'three'])
      const run = engine.run(context())
      for (let n = 0; n < turns % 12; n++) await Promise.resolve()
      if (turns % 3 === 1) await run.next()
      if (turns % 3 === 2) await new Promise(setImmediate)
      const taken = run.steer('more')
      const result = await run.result
      const delivered = result.messages.some(
        ({ role, content }) => role === 'user' && content === 'more',
      )
      const back = result.undeliveredSteering.includes('more')
      expect(delivered !== back).toBe(taken)
      expect(delivered || back).toBe(taken)
      await engine.close()
    }
  })
})

test('partial text of an aborted run stays readable as text of its events', async () => {
  const all = await rig(sseThenHold(halfText))
  const run = all.engine.run(context())
  const events = readAll(run)
  run.stream.onEvent((event) => {
    if (isToken(event)) run.abort()
  })
  expect(textOf(await events)).toBe('half')
})
