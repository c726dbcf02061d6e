// Every way to iterate the events of a run, slow and fast readers, and runs in parallel. Aborts and the life of the process have files
// of their own. It must never assert on time.

import { setImmediate as turn } from 'node:timers/promises'
import { expect, onTestFinished, test, vi } from 'vitest'
import type { AgentRun, PlainTool, StreamEvent } from '../../index.js'
import { closing, serving } from '../support/cleanup.js'
import { context, engineAt, readAll, scriptedEngine, textOf } from '../support/engine.js'
import { expectGapless, isTerminal } from '../support/events.js'
import { anthropic } from '../support/servers/anthropic.js'
import { sse, sseThenHold } from '../support/servers/server.js'

const echo: PlainTool = { name: 'echo', run: (params) => params }

/** A script with an answer of `count` deltas of one character. */
function flood(count: number, character = 'x') {
  return scriptedEngine([{ text: character.repeat(count), chunkSize: 1 }])
}

/** Blocks this thread until the run has ended: nothing is drained meanwhile. */
function spinUntilEnded(run: AgentRun): void {
  while (run.stream.isStreaming());
}

test('several concurrent next() calls receive the events in order, and a late one receives the end', async () => {
  const server = await serving(
    sse(anthropic.start() + anthropic.text(0, 'a', 'b') + anthropic.end()),
  )
  const engine = closing(engineAt(server.url))
  const run = engine.run(context())
  const asked = Array.from({ length: 7 }, () => run.next())
  const got = await Promise.all(asked)
  expect(got.map(({ value, done }) => (done ? 'done' : `${value.seq}:${value.type}`))).toEqual([
    '1:stream_start',
    '2:token',
    '3:token',
    '4:usage',
    '5:stream_end',
    'done',
    'done',
  ])
  expect(await run.next()).toEqual({ value: undefined, done: true })
})

test('two loops over one run share its events and both end', async () => {
  const { engine } = flood(2_000)
  closing(engine)
  const run = engine.run(context())
  const [one, two] = await Promise.all([readAll(run), readAll(run)])
  const all = [...one, ...two].sort((a, b) => a.seq - b.seq)
  expectGapless(all)
  expect(textOf(all).length).toBe(2_000)
})

test('break aborts: the socket closes, the result is aborted and has the text', async () => {
  const server = await serving(
    sseThenHold(
      anthropic.start() +
        anthropic.blockStart(0, { type: 'text', text: '' }) +
        anthropic.delta(0, { type: 'text_delta', text: 'half' }),
    ),
  )
  const engine = closing(engineAt(server.url))
  const run = engine.run(context())
  for await (const event of run) if (event.type === 'token') break
  await server.seen[0].closed
  const result = await run.result
  expect(result.stopReason).toBe('aborted')
  expect(result.messages.at(-1)).toMatchObject({ role: 'assistant', content: 'half' })
  expect(await run.next()).toEqual({ value: undefined, done: true })
})

test('a throw inside the loop reaches the caller and aborts the run', async () => {
  const server = await serving(sseThenHold(anthropic.start() + anthropic.text(0, 'half')))
  const engine = closing(engineAt(server.url))
  const run = engine.run(context())
  const boom = new Error('boom')
  await expect(
    (async () => {
      for await (const event of run) if (event.type === 'token') throw boom
    })(),
  ).rejects.toBe(boom)
  await server.seen[0].closed
  expect((await run.result).stopReason).toBe('aborted')
})

test('throw() of the iterator rejects with its argument and aborts the run', async () => {
  const { engine } = scriptedEngine([{ gate: 'never', text: 'x' }])
  const run = closing(engine).run(context())
  const boom = new Error('boom')
  await expect(run.throw?.(boom)).rejects.toBe(boom)
  expect((await run.result).stopReason).toBe('aborted')
})

test('return() ends a waiting next()', async () => {
  const { engine } = scriptedEngine([{ gate: 'never', text: 'x' }])
  const run = closing(engine).run(context())
  await run.next()
  const waiting = run.next()
  expect(await run.return?.('bye')).toEqual({ value: 'bye', done: true })
  expect(await waiting).toEqual({ value: undefined, done: true })
  expect((await run.result).stopReason).toBe('aborted')
})

test.each([true, false])(
  'a detached run continues after a break (coalesce %s)',
  async (coalesce) => {
    const { engine, provider } = scriptedEngine([
      { steps: [{ text: 'a' }, { gate: 'more' }, { text: 'x'.repeat(20_000) }], chunkSize: 1 },
    ])
    const run = closing(engine).run(context({ detached: true, coalesce }))
    for await (const event of run) if (event.type === 'token') break
    expect(run.stream.isStreaming()).toBe(true)
    provider.open('more')
    const result = await run.result
    expect(result.stopReason).toBe('end_turn')
    expect(result.messages.at(-1)?.content.length).toBe(20_001)
  },
)

test.each([true, false])(
  'a run that is not iterated ends, and its events can be read then (coalesce %s)',
  async (coalesce) => {
    const { engine } = flood(10_000, '😀')
    const run = closing(engine).run(context({ coalesce }))
    const result = await run.result
    expect(result.stopReason).toBe('end_turn')
    const events = await readAll(run)
    expectGapless(events)
    expect(textOf(events)).toBe('😀'.repeat(10_000))
    expect(events.filter(isTerminal)).toEqual([events.at(-1)])
    expect(events.length < 10_000).toBe(coalesce)
  },
)

test('a reader far behind receives merged deltas and every character', async () => {
  const { engine } = flood(20_000, 'é')
  const run = closing(engine).run(context())
  await run.next()
  await run.result
  const events = await readAll(run)
  expect(events.length).toBeLessThan(10_000)
  expect(events.some((event) => 'seqFrom' in event)).toBe(true)
  expectGapless([{ type: 'stream_end', runId: '', final: false, seq: 1 }, ...events])
  expect(textOf(events)).toBe('é'.repeat(20_000))
})

test('deltas merge only with deltas of their kind and message, for the reader and for listeners', async () => {
  const { engine } = scriptedEngine([
    {
      steps: [
        { thinking: '上'.repeat(6_000) },
        { text: '😀'.repeat(6_000) },
        { toolCall: { name: 'echo' } },
      ],
      chunkSize: 1,
    },
    { text: 'z'.repeat(6_000), chunkSize: 1 },
  ])
  const run = closing(engine).run(context({ tools: [echo] }))
  const types: string[] = []
  const seen: StreamEvent[] = []
  run.stream.onEvent((event) => {
    seen.push(event)
    if (types.at(-1) !== event.type) types.push(event.type)
  })
  await run.result
  const events = await readAll(run)
  for (const delivered of [seen, events]) {
    expectGapless(delivered)
    const text = (type: string) =>
      delivered.map((event) => (event.type === type && 'text' in event ? event.text : '')).join('')
    expect(text('reasoning')).toBe('上'.repeat(6_000))
    expect(text('token')).toBe('😀'.repeat(6_000) + 'z'.repeat(6_000))
    const ids = new Set(
      delivered.flatMap((event) => (event.type === 'token' ? [event.messageId] : [])),
    )
    expect(ids.size).toBe(2)
    for (const event of delivered)
      if (event.type === 'token') expect(event.text).toMatch(/^(😀+|z+)$/u)
  }
  expect(types).toEqual([
    'stream_start',
    'reasoning',
    'token',
    'usage',
    'stream_end',
    'tool_status',
    'token',
    'usage',
    'stream_end',
  ])
})

test('a thread that was blocked for the whole run loses nothing', async () => {
  const { engine } = flood(50_000, '😀')
  const run = closing(engine).run(context())
  spinUntilEnded(run)
  const events = await readAll(run)
  expectGapless(events)
  expect(textOf(events)).toBe('😀'.repeat(50_000))
  expect(events.length).toBeLessThan(5_000)
  expect(events.at(-1)).toMatchObject({ type: 'stream_end', final: true })
})

test('without merging the socket waits for a slow reader, and every delta is an event', async () => {
  const total = 20_000
  // Less text than the limit of an answer; with the comments, which are no text, more bytes than the sockets' buffers: a receive
  // buffer grows to 32 MiB here while its reader is slow.
  const text = 'y'.repeat(500)
  const padding = `: ${'.'.repeat(4_000)}\n\n`
  let sent = 0
  let blocked = 0
  const server = await serving(async (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write(anthropic.start() + anthropic.blockStart(0, { type: 'text', text: '' }))
    const delta = padding + anthropic.delta(0, { type: 'text_delta', text })
    while (sent < total) {
      sent++
      if (response.write(delta)) continue
      blocked++
      await new Promise((resolve) => response.once('drain', resolve))
    }
    response.end(anthropic.blockStop(0) + anthropic.end())
  })
  const engine = closing(engineAt(server.url))
  const run = engine.run(context({ coalesce: false }))
  let read = 0
  let furthest = 0
  let merged = 0
  for await (const event of run) {
    if (event.type !== 'token') continue
    read++
    if ('seqFrom' in event) merged++
    furthest = Math.max(furthest, sent - read)
    // The server can run before the next event is requested.
    await turn()
  }
  expect({ read, merged }).toEqual({ read: total, merged: 0 })
  expect(blocked).toBeGreaterThan(0)
  // The content of the queue and the sockets, not the whole answer.
  expect(furthest).toBeLessThan(total - 5_000)
})

test('without merging, many messages and tools never cause a wait', async () => {
  // Each round has records that are no events; if they counted as unread, the socket would wait forever.
  const rounds = 1_200
  const { engine } = scriptedEngine([
    ...Array.from({ length: rounds }, () => ({ text: 't', toolCalls: [{ name: 'echo' }] })),
    { text: 'end' },
  ])
  const run = closing(engine).run(
    context({ coalesce: false, tools: [echo], maxIterations: rounds + 1, timeoutMs: 120_000 }),
  )
  const events = await readAll(run)
  expectGapless(events)
  expect(textOf(events)).toBe(`${'t'.repeat(rounds)}end`)
  expect((await run.result).stopReason).toBe('end_turn')
})

/** The clock advances ten milliseconds at each read: every slice ends at its first check. */
function everySliceIsOver(): void {
  let now = performance.now()
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => (now += 10))
  onTestFinished(() => clock.mockRestore())
}

/** Counts the turns of the event loop until `stop`. */
function eventLoopTurns(): { stop: () => number } {
  let turns = 0
  let counting = true
  const count = () => {
    if (!counting) return
    turns++
    setImmediate(count)
  }
  setImmediate(count)
  return {
    stop: () => {
      counting = false
      return turns
    },
  }
}

test('a flood that is read continuously yields to the event loop every 256 buffered events', async () => {
  const { engine } = flood(200_000)
  const run = closing(engine).run(context())
  everySliceIsOver()
  const loop = eventLoopTurns()
  const events = await readAll(run)
  const turns = loop.stop()
  // An event that the reader waited for had its own turn of the event loop; the others were in the buffer.
  const buffered = events.length - turns
  expect(turns).toBeGreaterThanOrEqual(Math.floor(buffered / 256))
  expectGapless(events)
})

test('reading buffered events yields to the event loop every 256 events', async () => {
  const { engine } = flood(20_000)
  const run = closing(engine).run(context({ coalesce: false }))
  await run.result
  everySliceIsOver()
  const loop = eventLoopTurns()
  const events = await readAll(run)
  expect(loop.stop()).toBeGreaterThanOrEqual(Math.floor(events.length / 256))
  expect(events.length).toBeGreaterThan(20_000)
  expectGapless(events)
})

test('a flood and a short run beside it are both whole', async () => {
  const { engine } = scriptedEngine([
    { text: 'x'.repeat(100_000), chunkSize: 1 },
    { text: 'short' },
  ])
  closing(engine)
  const runs = ['long', 'short'].map((sessionLabel) => engine.run(context({ sessionLabel })))
  const [long, short] = await Promise.all(runs.map(readAll))
  for (const events of [long, short]) expectGapless(events)
  expect(textOf([...long, ...short]).length).toBe(100_000 + 5)
})

test('five hundred concurrent runs each receive their own events whole', async () => {
  const server = await serving((response, seen) =>
    sse(
      anthropic.answer(
        `you are ${seen.body.messages.at(-1).content[0]?.text ?? seen.body.messages.at(-1).content}`,
      ),
    )(response, seen),
  )
  const engine = closing(engineAt(server.url))
  const answers = await Promise.all(
    Array.from({ length: 500 }, async (_, n) => {
      const currentMessage = { role: 'user' as const, content: `n${n}` }
      const run = engine.run(context({ currentMessage, sessionLabel: `s${n}` }))
      const events = await readAll(run)
      expectGapless(events)
      return textOf(events)
    }),
  )
  expect(answers).toEqual(Array.from({ length: 500 }, (_, n) => `you are n${n}`))
})
