// Clients that lose their connection: each event of a run arrives once, in order, whatever process runs it and whatever process
// answers. It must never skip or repeat a number itself.

import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { AgentEngine } from '../../index.js'
import { lastEventId, toResponse, writeSSE } from '../../web.js'
import { closing, folder } from '../support/cleanup.js'
import { context, scriptedEngine } from '../support/engine.js'
import { asSent, connect } from '../support/event-stream.js'
import { type Killable, killable } from '../support/processes/killable.js'
import { httpServer, send } from '../support/servers/http.js'

const open = (child: Killable, gate: string) => child.process.stdin?.write(`open ${gate}\n`)
const sentBy = (child: Killable) =>
  child.lines
    .map((line) => JSON.parse(line))
    .filter(({ seq }) => seq !== undefined)
    .map(asSent)

/** A run of another process, which waits at the gates `a` and `b`. */
async function elsewhere(file: string): Promise<Killable> {
  const replies = [
    {
      steps: [
        { text: 'one ' },
        { gate: 'a' },
        { text: 'two ' },
        { text: 'three ' },
        { gate: 'b' },
        { toolCall: { name: 'echo', arguments: { of: 1 } } },
      ],
    },
    { text: 'done and over', chunkSize: 2 },
  ]
  const child = killable('recovery/events.mjs', [
    file,
    'run',
    JSON.stringify({ replies, runId: 'there' }),
  ])
  child.process.stdin?.on('error', () => {})
  await child.line('{"type":"token"')
  return child
}

test.each(['toResponse', 'writeSSE'])(
  'a client that reconnects twice reads a run of another process exactly once (%s)',
  { timeout: 60_000 },
  async (way) => {
    const { file } = folder()
    const child = await elsewhere(file)
    const engine = closing(new AgentEngine({ ledger: { path: file } }))
    const { url, disconnect } = await httpServer((request, response) => {
      const source = engine.attach('there', { afterSeq: lastEventId(request) ?? 0 })
      return way === 'writeSSE' ? writeSSE(source, response) : send(toResponse(source), response)
    })
    // The client disconnects.
    const first = await connect(url)
    await first.until(({ data }) => data.text === 'one ')
    first.close()
    open(child, 'a')
    const second = await connect(url, first.parser.events.at(-1)?.id)
    await second.until(({ data }) => data.text === 'three ')
    // The server loses all its connections.
    disconnect()
    await expect(second.rest()).rejects.toThrow(TypeError)
    open(child, 'b')
    const third = await connect(url, second.parser.events.at(-1)?.id)
    await third.rest()
    await child.ended
    const read = [first, second, third].flatMap(({ parser }) => parser.events)
    expect(read).toEqual(sentBy(child))
    expect(read.map(({ id }) => Number(id))).toEqual(read.map((_, index) => index + 1))
    // What comes after the end is nothing.
    expect(await (await connect(url, read.at(-1)?.id)).rest()).toEqual([])
  },
)

test('a reader of the whole run is cut at every event, and continues at the next', async () => {
  const { file } = folder()
  const { engine } = scriptedEngine([{ text: 'a run of many pieces', chunkSize: 1 }], {
    ledger: { path: file },
  })
  closing(engine)
  await engine.run(context({ runId: 'r' })).result
  const { url } = await httpServer((request, response) =>
    writeSSE(engine.attach('r', { afterSeq: lastEventId(request) ?? 0 }), response),
  )
  const whole = await (await connect(url)).rest()
  expect(whole.length).toBe(23)
  for (const [index, { id }] of whole.entries()) {
    expect(await (await connect(url, id)).rest()).toEqual(whole.slice(index + 1))
  }
})

test('a client that leaves an attachment does not abort the run', async () => {
  const { file } = folder()
  const { engine, provider } = scriptedEngine(
    [{ steps: [{ text: 'one ' }, { gate: 'g' }, { text: 'two' }] }],
    { ledger: { path: file } },
  )
  closing(engine)
  const run = engine.run(context({ runId: 'r' }))
  const { url } = await httpServer((_, response) => writeSSE(engine.attach('r'), response))
  const client = await connect(url)
  await client.until(({ type }) => type === 'token')
  client.close()
  provider.open('g')
  expect(await run.result).toMatchObject({ stopReason: 'end_turn' })
})

test('an EventSource reconnects by itself and reads each event once', {
  timeout: 60_000,
}, async () => {
  const { file } = folder()
  const { engine, provider } = scriptedEngine(
    [
      {
        steps: [
          { text: 'one ' },
          { gate: 'a' },
          { text: 'two ' },
          { gate: 'b' },
          { text: 'three' },
        ],
      },
    ],
    { ledger: { path: file } },
  )
  closing(engine)
  const run = engine.run(context({ runId: 'r' }))
  const asked: (number | undefined)[] = []
  let cut = new AbortController()
  const { url } = await httpServer((request, response) => {
    const afterSeq = lastEventId(request)
    asked.push(afterSeq)
    cut = new AbortController()
    const source = engine.attach('r', { afterSeq: afterSeq ?? 0 })
    // Node's own reconnects after an end, and not after a broken connection; a browser does after both.
    return writeSSE(source, response, { retryMs: 1, signal: cut.signal })
  })
  const script = fileURLToPath(new URL('../children/web/event-source.mjs', import.meta.url))
  const flags = ['--experimental-eventsource', '--no-warnings']
  const child = spawn(process.execPath, [...flags, script, url], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const lines: string[] = []
  for await (const chunk of child.stdout) {
    lines.push(...String(chunk).trim().split('\n'))
    // Each connection is ended as soon as its token has arrived.
    if (lines.some((line) => line.includes('"one "')) && asked.length === 1) {
      cut.abort()
      provider.open('a')
    }
    if (lines.some((line) => line.includes('"two "')) && asked.length === 2) {
      cut.abort()
      provider.open('b')
    }
  }
  await run.result
  const events = lines.map((line) => JSON.parse(line))
  expect(events).toEqual(events.map(({ data }) => asSent(data)))
  expect(events.map(({ id, type, data }) => [id, type, data.text])).toEqual([
    ['1', 'stream_start', undefined],
    ['2', 'token', 'one '],
    ['3', 'token', 'two '],
    ['4', 'token', 'three'],
    ['6', 'stream_end', undefined],
  ])
  expect(asked).toEqual([undefined, 2, 3])
})
