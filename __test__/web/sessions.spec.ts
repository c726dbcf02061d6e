// The events of a session over HTTP: all its runs, and a client that comes back. It must never skip or repeat an event itself.

import { expect, test } from 'vitest'
import { lastSessionEvent, toResponse, toSSE, WebRequestError, writeSSE } from '../../web.js'
import { closing, folder } from '../support/cleanup.js'
import { context, scriptedEngine } from '../support/engine.js'
import { connect } from '../support/event-stream.js'
import { httpServer, send } from '../support/servers/http.js'

const LABEL = 'agent:main:main'

test.each(['toResponse', 'writeSSE'])(
  'a client reads the runs of a session, and after a lost connection the rest of the run under way and the next one (%s)',
  async (way) => {
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
        'four',
      ],
      { ledger: { path: file } },
    )
    closing(engine)
    const { url } = await httpServer((request, response) => {
      const last = lastSessionEvent(request)
      const source = engine.ledger.watch(LABEL)
      return way === 'writeSSE'
        ? writeSSE(source, response, { lastEventId: last })
        : send(toResponse(source, { lastEventId: last }), response)
    })
    const run = engine.run(context({ runId: 'a b/1', sessionLabel: LABEL }))
    const first = await connect(url)
    await first.until(({ data }) => data.event.text === 'one ')
    first.close()
    const last = first.parser.events.at(-1)
    expect(last).toMatchObject({ id: '2:a%20b%2F1', type: 'token', data: { runId: 'a b/1' } })

    const second = await connect(url, last?.id)
    provider.open('a')
    await second.until(({ data }) => data.event.text === 'two ')
    provider.open('b')
    await run.result
    await engine.run(context({ runId: 'second', sessionLabel: LABEL })).result
    await second.until(({ data }) => data.runId === 'second' && data.event.type === 'stream_end')
    second.close()
    const all = [...first.parser.events, ...second.parser.events]
    expect(all.map(({ id, type }) => `${id} ${type}`)).toEqual([
      '1:a%20b%2F1 stream_start',
      '2:a%20b%2F1 token',
      '3:a%20b%2F1 token',
      '4:a%20b%2F1 token',
      '5:a%20b%2F1 usage',
      '6:a%20b%2F1 stream_end',
      '1:second stream_start',
      '2:second token',
      '3:second usage',
      '4:second stream_end',
    ])
    const { turnId } = await run.result
    expect(all[2]?.data).toEqual({
      runId: 'a b/1',
      turnId,
      event: { type: 'token', text: 'two ', messageId: expect.any(String), seq: 3 },
    })
  },
)

test('a client that leaves a session aborts none of its runs', async () => {
  const { file } = folder()
  const { engine, provider } = scriptedEngine([{ steps: [{ text: 'one ' }, { gate: 'g' }] }], {
    ledger: { path: file },
  })
  closing(engine)
  const { url } = await httpServer((_, response) => writeSSE(engine.ledger.watch(LABEL), response))
  const run = engine.run(context({ sessionLabel: LABEL }))
  const client = await connect(url)
  await client.until(({ type }) => type === 'token')
  client.close()
  provider.open('g')
  expect(await run.result).toMatchObject({ stopReason: 'end_turn' })
})

test('`map` decides what a client gets of each event of a session', async () => {
  async function* source() {
    const token = { type: 'token' as const, text: 'a', messageId: 'm' }
    yield { runId: 'r', turnId: 't', event: { ...token, seq: 1 } }
    yield { runId: 'r', turnId: 't', event: { ...token, seq: 2 } }
  }
  const stream = toSSE(source(), { map: ({ event }) => (event.seq === 2 ? event.seq : undefined) })
  expect(await new Response(stream).text()).toBe(':\n\nid: 2:r\nevent: token\ndata: 2\n\n')
})

test('a session’s stream ends with the code when the engine closes', async () => {
  const { file } = folder()
  const { engine } = scriptedEngine([], { ledger: { path: file } })
  const text = new Response(toSSE(engine.ledger.watch(LABEL))).text()
  await engine.close()
  expect(await text).toBe(':\n\nevent: error\ndata: {"type":"error","code":"engine_closed"}\n\n')
})

test.each([
  ['5', 'the number of a run’s event'],
  ['5:', 'no run'],
  ['x:r', 'no number'],
  ['5:r:s', 'more than a number and a run'],
  ['99999999999999999999:r', 'a number that is none'],
  ['5:%', 'an escape that is none'],
])('a `Last-Event-ID` that is no event of a session is refused: %s (%s)', (id) => {
  const request = new Request('http://host', { headers: { 'last-event-id': id } })
  const refused = { status: 400, code: 'invalid_last_event_id' }
  expect(() => lastSessionEvent(request)).toThrow(expect.objectContaining(refused))
  expect(() => lastSessionEvent(request)).toThrow(WebRequestError)
})

test('a request without `Last-Event-ID` has no last event', () => {
  expect(lastSessionEvent(new Request('http://host'))).toBeUndefined()
})

test('options that do not fit a session are refused before it is read', () => {
  let read = 0
  const source: any = {
    [Symbol.asyncIterator]() {
      read += 1
      throw new Error('read')
    },
  }
  const wrong: [object, string][] = [
    [{ onDisconnect: 'abort' }, '`onDisconnect`'],
    [{ lastEventId: { runId: 5, seq: 1 } }, '`lastEventId.runId`'],
    [{ lastEventId: { runId: 'r', seq: -1 } }, '`lastEventId.seq`'],
  ]
  for (const [options, name] of wrong) expect(() => toSSE(source, options)).toThrow(name)
  expect(read).toBe(0)
})
