// What a client does to a run: it disconnects, it reads slowly, it reads to the end. Over `node:http`, with a WHATWG response and with one
// of Node.js. It must never assert a time.

import { EventEmitter } from 'node:events'
import type { ServerResponse } from 'node:http'
import { setImmediate as turn } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import type { AgentRun, StreamEvent } from '../../index.js'
import { type EventStream, type ResponseOptions, toResponse, writeSSE } from '../../web.js'
import { closing } from '../support/cleanup.js'
import { context, scriptedEngine } from '../support/engine.js'
import { asSent, connect } from '../support/event-stream.js'
import { httpServer, send } from '../support/servers/http.js'
import { gate } from '../support/servers/server.js'

type Answer = (source: EventStream, response: ServerResponse, options?: ResponseOptions) => unknown

const ways: [string, Answer][] = [
  ['toResponse', (source, response, options) => send(toResponse(source, options), response)],
  ['writeSSE', writeSSE],
]

/** A run that emits a word, waits at the gate `g` and emits another; its server, and when its one response closed. */
async function served(answer: Answer, changes: object, options: ResponseOptions = {}) {
  const { engine, provider } = scriptedEngine([
    { steps: [{ text: 'one ' }, { gate: 'g' }, { text: 'two' }] },
  ])
  closing(engine)
  const run = engine.run(context(changes))
  const closed = gate()
  const { url } = await httpServer((_, response) => {
    response.on('close', () => closed.open())
    return answer(run, response, options)
  })
  return { run, url, open: () => provider.open('g'), closed: closed.wait }
}

const outcome = async (run: AgentRun) => {
  const { stopReason, messages } = await run.result
  return [stopReason, messages.at(-1)?.content]
}

describe.each(ways)('%s', (_, answer) => {
  test('answers with the headers of an event stream, and the run to its end', async () => {
    const { run, url, open } = await served(answer, {}, { headers: { 'X-Run': '7' } })
    const client = await connect(url)
    const { headers, status } = client.response
    expect([
      status,
      ...['content-type', 'cache-control', 'x-accel-buffering', 'x-run'].map((name) =>
        headers.get(name),
      ),
    ]).toEqual([200, 'text/event-stream; charset=utf-8', 'no-store', 'no', '7'])
    open()
    const sent = await client.rest()
    expect(sent).toEqual(sent.map(({ data }) => asSent(data)))
    expect(sent.map(({ id, data }) => [id, data.type, data.text])).toEqual([
      ['1', 'stream_start', undefined],
      ['2', 'token', 'one '],
      ['3', 'token', 'two'],
      ['4', 'usage', undefined],
      ['5', 'stream_end', undefined],
    ])
    expect(await outcome(run)).toEqual(['end_turn', 'one two'])
  })

  test('a client that disconnects aborts the run', async () => {
    const { run, url } = await served(answer, {})
    const client = await connect(url)
    await client.until(({ type }) => type === 'token')
    client.close()
    expect(await outcome(run)).toEqual(['aborted', 'one '])
  })

  test('a client that disconnects does not abort a detached run', async () => {
    const { run, url, open, closed } = await served(answer, { detached: true })
    const client = await connect(url)
    await client.until(({ type }) => type === 'token')
    client.close()
    await closed
    open()
    expect(await outcome(run)).toEqual(['end_turn', 'one two'])
  })

  test('`onDisconnect: abort` aborts a detached run too', async () => {
    const { run, url } = await served(answer, { detached: true }, { onDisconnect: 'abort' })
    const client = await connect(url)
    await client.until(({ type }) => type === 'token')
    client.close()
    expect(await outcome(run)).toEqual(['aborted', 'one '])
  })

  test('`onDisconnect: continue` lets a run go on that waits for its reader', async () => {
    const { run, url, open, closed } = await served(
      answer,
      { coalesce: false },
      { onDisconnect: 'continue' },
    )
    const client = await connect(url)
    await client.until(({ type }) => type === 'token')
    client.close()
    await closed
    open()
    expect(await outcome(run)).toEqual(['end_turn', 'one two'])
  })

  test('a signal ends the stream as a client that disconnects does', async () => {
    const controller = new AbortController()
    const { run, url } = await served(answer, {}, { signal: controller.signal })
    const client = await connect(url)
    await client.until(({ type }) => type === 'token')
    controller.abort()
    expect((await client.rest()).map(({ type }) => type)).toEqual(['stream_start', 'token'])
    expect(await outcome(run)).toEqual(['aborted', 'one '])
  })

  test('a client that does not read holds up its source, and loses nothing', async () => {
    const last = 1024
    const text = 'x'.repeat(64 * 1024)
    let produced = 0
    async function* source(): AsyncGenerator<StreamEvent> {
      while (produced < last) yield { type: 'token', text, messageId: 'm', seq: ++produced }
    }
    const { url } = await httpServer((request, response) =>
      request.url === '/ping' ? response.end('pong') : answer(source(), response),
    )
    const client = await connect(url)
    // The time that the server has meanwhile: other requests come and go.
    for (let ping = 0; ping < 100; ping++) await (await fetch(`${url}/ping`)).text()
    // What the sockets' buffers take is a few megabytes; without the client all 64 would be there.
    expect(produced).toBeLessThan(last / 2)
    const read = await client.rest()
    expect(read.map(({ id }) => Number(id))).toEqual(
      Array.from({ length: last }, (_, index) => index + 1),
    )
  })
})

test('a run whose signal was aborted before is answered with an empty stream', async () => {
  const { engine } = scriptedEngine([{ steps: [{ gate: 'never' }] }])
  closing(engine)
  const run = engine.run(context())
  const response = toResponse(run, { signal: AbortSignal.abort() })
  expect(await response.text()).toBe('')
  expect((await run.result).stopReason).toBe('aborted')
})

test('a status or a header that a response cannot have is refused, and the run goes on', async () => {
  const { engine } = scriptedEngine([{ text: 'unharmed' }])
  closing(engine)
  const run = engine.run(context())
  expect(() => toResponse(run, { status: 99 })).toThrow(RangeError)
  expect(() => toResponse(run, { headers: { 'x-a': 'b\r\nset-cookie: c' } })).toThrow(TypeError)
  const { url } = await httpServer(async (_, response) => {
    const refused = await writeSSE(run, response, { headers: { 'x-a': 'b\r\nc: d' } }).catch(
      (error: NodeJS.ErrnoException) => error.code,
    )
    response.end(refused)
  })
  expect(await (await fetch(url)).text()).toBe('ERR_INVALID_CHAR')
  expect(await outcome(run)).toEqual(['end_turn', 'unharmed'])
})

test('a response whose headers were sent already is refused, and the run goes on', async () => {
  const { engine } = scriptedEngine([{ text: 'unharmed' }])
  closing(engine)
  const run = engine.run(context())
  const { url } = await httpServer(async (_, response) => {
    response.write('first ')
    const refused = await writeSSE(run, response).catch((error: Error) => error.message)
    response.end(refused)
  })
  expect(await (await fetch(url)).text()).toBe(
    'first `response`: its headers have been sent already',
  )
  expect(await outcome(run)).toEqual(['end_turn', 'unharmed'])
})

test('the promise of `writeSSE` shows whether the client got all', async () => {
  const { engine } = scriptedEngine([{ text: 'all' }, { steps: [{ text: 'a' }, { gate: 'no' }] }])
  closing(engine)
  const outcomes: Promise<boolean>[] = []
  const { url } = await httpServer((_, response) => {
    const written = writeSSE(engine.run(context()), response)
    outcomes.push(written)
    return written
  })
  await (await connect(url)).rest()
  const client = await connect(url)
  await client.until(({ type }) => type === 'token')
  client.close()
  expect(await Promise.all(outcomes)).toEqual([true, false])
})

/** A response whose client takes nothing until `drain`. */
class StuckResponse extends EventEmitter {
  destroyed = false
  headersSent = false
  writableFinished = false
  statusCode = 0
  written: string[] = []
  setHeader(): void {}
  flushHeaders(): void {}
  write(chunk: string): boolean {
    this.written.push(chunk)
    return false
  }
  end(): void {
    this.writableFinished = true
  }
}

test('after each write that a response cannot take, the next waits for its drain', async () => {
  async function* source(): AsyncGenerator<StreamEvent> {
    for (const seq of [1, 2]) yield { type: 'token', text: 'a', messageId: 'm', seq }
  }
  const response = new StuckResponse()
  const written = writeSSE(source(), response)
  const counts: number[] = []
  for (let drain = 0; drain < 3; drain++) {
    for (let idle = 0; idle < 20; idle++) await turn()
    counts.push(response.written.length)
    response.emit('drain')
  }
  expect(await written).toBe(true)
  expect([counts, response.writableFinished]).toEqual([[1, 2, 3], true])
  // Nothing is left behind but the listener that makes a late error of the socket harmless.
  expect(response.eventNames()).toEqual(['error'])
})

test('a client that disconnects while its response is full ends the writing', async () => {
  const { engine } = scriptedEngine([{ steps: [{ text: 'a' }, { gate: 'never' }] }])
  closing(engine)
  const run = engine.run(context())
  const response = new StuckResponse()
  const written = writeSSE(run, response)
  for (let idle = 0; idle < 20; idle++) await turn()
  response.destroyed = true
  response.emit('close')
  expect(await written).toBe(false)
  expect((await run.result).stopReason).toBe('aborted')
})
