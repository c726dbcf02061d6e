// The bytes of a stream of server-sent events: exact text, every way to cut it, heartbeats, errors, options. It must never need a network.

import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { AgentEngine, type StreamEvent } from '../../index.js'
import { toSSE } from '../../web.js'
import { closing, folder } from '../support/cleanup.js'
import { context, readAll, scriptedEngine } from '../support/engine.js'
import { asSent, EventStreamParser, parsedEvents } from '../support/event-stream.js'

const token = (seq: number, text = 'a') => ({
  type: 'token' as const,
  text,
  messageId: 'm',
  seq,
})

async function* events(...list: StreamEvent[]) {
  yield* list
}

async function bytesOf(stream: ReadableStream<Uint8Array>): Promise<Uint8Array> {
  return new Uint8Array(await new Response(stream).arrayBuffer())
}

async function textOf(stream: ReadableStream<Uint8Array>): Promise<string> {
  return new TextDecoder().decode(await bytesOf(stream))
}

test('a run is a stream of its events, each with its number, its type and its JSON', async () => {
  const { engine } = scriptedEngine([
    { thinking: 'Shall I?', text: 'Yes.\r\n\ndata: no', toolCalls: [{ name: 'slow' }] },
    'Done.',
  ])
  closing(engine)
  const slow = {
    name: 'slow',
    async *run() {
      yield 'half'
      return { whole: true }
    },
  }
  const run = engine.run(context({ runId: 'r', tools: [slow] }))
  const read = readAll(run)
  const text = await textOf(toSSE({ [Symbol.asyncIterator]: () => run.events() }))
  const frames = (await read).map(
    (event) => `id: ${event.seq}\nevent: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`,
  )
  expect(text).toBe([':\n\n', ...frames].join(''))
  expect(text).toContain('data: no')
  // One that is not stored has the number of the event before it, so that a client which reconnects misses no stored one.
  expect(text).toMatch(
    /id: (\d+)\nevent: tool_progress\ndata: .*"partial":"half","seq":\1,"sub":1\}\n\n/,
  )
  expect(text).toMatch(/event: tool_status\ndata: .*"params":\{\}\}/)
  expect(text).toMatch(/event: tool_status\ndata: .*"result":\{"whole":true\},"isError":false\}/)
  expect(text).toMatch(/event: stream_end\ndata: .*"stopReason":"end_turn".*\n\n$/)
})

test('a client reads the same events from every chunking of the bytes', async () => {
  const { file } = folder()
  const words = ['né', '🙂\u2028', '\r', '\n\n', 'data: x']
  const { engine } = scriptedEngine([{ steps: words.map((text) => ({ text })) }], {
    ledger: { path: file },
  })
  closing(engine)
  const sent = await readAll(engine.run(context({ runId: 'r' })))
  const bytes = await bytesOf(toSSE(engine.attach('r')))
  const expected = JSON.parse(JSON.stringify(sent)).map(asSent)
  for (let cut = 0; cut <= bytes.length; cut++) {
    const parser = new EventStreamParser()
    parser.push(bytes.subarray(0, cut))
    parser.push(bytes.subarray(cut))
    expect(parser.events).toEqual(expected)
  }
  for (const size of [1, 2, 3, 7]) {
    const parser = new EventStreamParser()
    for (let at = 0; at < bytes.length; at += size) parser.push(bytes.subarray(at, at + size))
    expect(parser.events).toEqual(expected)
  }
})

test('comments come while no event does, and no event is lost behind them', async () => {
  const { engine, provider } = scriptedEngine([{ steps: [{ gate: 'g' }, { text: 'late' }] }])
  closing(engine)
  const reader = toSSE(engine.run(context()), { heartbeatMs: 1, retryMs: 250 }).getReader()
  const parser = new EventStreamParser()
  for (;;) {
    const { value, done } = await reader.read()
    if (done) break
    parser.push(value)
    if (parser.comments.length === 3) provider.open('g')
  }
  expect(parser.retry).toBe(250)
  expect(parser.comments.length).toBeGreaterThanOrEqual(3)
  expect(parser.events.map(({ type, id }) => [id, type])).toEqual([
    ['1', 'stream_start'],
    ['2', 'token'],
    ['3', 'usage'],
    ['4', 'stream_end'],
  ])
})

test('nothing is read from a source before its stream is read, and then one event at a time', async () => {
  let read = 0
  async function* endless() {
    for (;;) yield token(++read)
  }
  const reader = toSSE(endless()).getReader()
  expect(read).toBe(0)
  const opened = await reader.read()
  expect([opened.value, read]).toEqual([new TextEncoder().encode(':\n\n'), 0])
  for (let event = 1; event <= 100; event++) {
    await reader.read()
    expect(read).toBe(event)
  }
  // Whatever else has to be done in the meantime: an unread stream reads nothing.
  await new Promise((resolve) => setImmediate(resolve))
  expect(read).toBe(100)
  await reader.cancel()
})

test('events that a client has are skipped, and those that `map` leaves out', async () => {
  const list = [token(1, 'a'), token(2, 'b'), token(3, 'c'), token(4, 'd')]
  const stream = toSSE(events(...list), {
    lastEventId: 2,
    map: (event) => (event.seq === 3 ? undefined : { only: event.seq }),
  })
  expect(parsedEvents(await bytesOf(stream))).toEqual([
    { id: '4', type: 'token', data: { only: 4 } },
  ])
})

test('what the engine refuses is an event with its code, and then the end', async () => {
  const { file } = folder()
  const engine = closing(new AgentEngine({ ledger: { path: file } }))
  const errors: unknown[] = []
  const stream = toSSE(engine.attach('nobody'), { onError: (error) => errors.push(error) })
  expect(await textOf(stream)).toBe(
    ':\n\nevent: error\ndata: {"type":"error","code":"unknown_run"}\n\n',
  )
  expect(errors).toMatchObject([{ name: 'AgentEngineError', code: 'unknown_run' }])
})

test.each([
  ['an error', Object.assign(new Error('the key sk-secret'), { code: 'sk-secret' })],
  ['a text', 'sk-secret'],
  [
    'an error whose code would begin a line',
    Object.assign(new Error(''), { name: 'AgentEngineError', code: 'a\n\nid: 9' }),
  ],
])(
  '%s that a source throws reaches the host whole, and a client without its words',
  async (_, thrown) => {
    async function* failing() {
      yield token(1)
      throw thrown
    }
    const errors: unknown[] = []
    const text = await textOf(toSSE(failing(), { onError: (error) => errors.push(error) }))
    expect(text).toBe(
      ':\n\nid: 1\nevent: token\ndata: {"type":"token","text":"a","messageId":"m","seq":1}\n\n' +
        'event: error\ndata: {"type":"error","code":"internal"}\n\n',
    )
    expect(errors).toEqual([thrown])
  },
)

test('an event that cannot be written ends the stream, and its source is left', async () => {
  const cases: [StreamEvent, object][] = [
    [{ ...token(1), type: 'a\ndata: b' as 'token' }, {}],
    [token(1), { map: () => () => {} }],
    [token(1), { map: () => ({ big: 1n }) }],
    [
      token(1),
      {
        map: () => {
          throw new Error('sk-secret')
        },
      },
    ],
  ]
  for (const [event, options] of cases) {
    let left = false
    async function* source() {
      try {
        for (;;) yield event
      } finally {
        left = true
      }
    }
    expect(await textOf(toSSE(source(), options))).toBe(
      ':\n\nevent: error\ndata: {"type":"error","code":"internal"}\n\n',
    )
    expect(left).toBe(true)
  }
})

test('an event without a number has no id', async () => {
  const list = [
    token(1),
    { ...token(0), seq: '3\nid: 4' as never },
    { ...token(0), seq: undefined as never },
  ]
  const parsed = parsedEvents(await bytesOf(toSSE(events(...list))))
  expect(parsed.map(({ id }) => id)).toEqual(['1', '1', '1'])
})

test('wrong options are refused before the source is read', () => {
  const source = events(token(1))
  const refused = (options: object, given: unknown = source) => {
    try {
      toSSE(given as never, options)
    } catch (error) {
      return (error as TypeError).message
    }
    return undefined
  }
  expect([
    refused({ heartbeat: 5 }),
    refused({ heartbeatMs: -1 }),
    refused({ heartbeatMs: 2 ** 31 }),
    refused({ retryMs: 0.5 }),
    refused({ lastEventId: '4' }),
    refused({ onDisconnect: 'detach' }),
    refused({ onDisconnect: 'abort' }),
    refused({ map: 'x' }),
    refused({ onError: 1 }),
    refused({ signal: {} }),
    refused({}, [token(1)]),
    refused({}, null),
  ]).toEqual([
    '`heartbeat`: is not an option',
    '`heartbeatMs`: is not a whole number from 0 to 2147483647',
    '`heartbeatMs`: is not a whole number from 0 to 2147483647',
    '`retryMs`: is not a whole number from 0 to 2147483647',
    '`lastEventId`: is not a whole number from 0 to 9007199254740991',
    '`onDisconnect`: is not `abort` or `continue`',
    '`onDisconnect`: an attachment cannot abort its run; call `engine.abortSession`',
    '`map`: is not a function',
    '`onError`: is not a function',
    '`signal`: is not an AbortSignal',
    '`source`: is neither a run nor an async iterable of events',
    '`source`: is neither a run nor an async iterable of events',
  ])
})

/** Runs a script with `web` as the module; what it printed. */
function child(script: string): string {
  const path = fileURLToPath(new URL('../../web.js', import.meta.url))
  const whole = `const web = require(${JSON.stringify(path)});\n${script}`
  return execFileSync(process.execPath, ['-e', whole], { encoding: 'utf8', timeout: 30_000 })
}

test('the module loads neither the addon nor any other file', () => {
  const loaded = child('console.log(JSON.stringify(Object.keys(require.cache)))')
  expect(JSON.parse(loaded).map((path: string) => path.split(/[\\/]/).at(-1))).toEqual(['web.js'])
})

test('a stream that waits, with its heartbeat, holds no process', () => {
  const script = `
    const source = { [Symbol.asyncIterator]: () => ({ next: () => new Promise(() => {}) }) }
    const reader = web.toSSE(source, { heartbeatMs: 600000 }).getReader()
    reader.read().then(() => { console.log('opened'); return reader.read() })`
  expect(child(script)).toBe('opened\n')
})
