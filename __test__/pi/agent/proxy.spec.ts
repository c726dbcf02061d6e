// `streamProxy` beside pi's own: the same requests, events and messages from the same server. It must never wait for a time.

import { streamProxy as pi054 } from '@mariozechner/pi-agent-core'
import { streamProxy as pi073 } from 'pi-agent-core-073'
import { expect, test } from 'vitest'
import { streamProxy } from '../../../pi-agent.js'
import { sse, sseThenHold, status } from '../../support/servers/server.js'
import { serverPerTest } from '../../support/servers/server-per-test.js'
import { model, shapeOf, user } from './script.js'

const usage = {
  input: 1,
  output: 2,
  cacheRead: 0,
  cacheWrite: 0,
  totalTokens: 3,
  cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 },
}
const lines = (...events: object[]) =>
  events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('')
const answer = lines(
  { type: 'start' },
  { type: 'thinking_start', contentIndex: 0 },
  { type: 'thinking_delta', contentIndex: 0, delta: 'hm' },
  { type: 'thinking_end', contentIndex: 0, contentSignature: 'sig' },
  { type: 'text_start', contentIndex: 1 },
  { type: 'text_delta', contentIndex: 1, delta: 'I look. ä' },
  { type: 'text_end', contentIndex: 1, contentSignature: 'text-sig' },
  { type: 'toolcall_start', contentIndex: 2, id: 'c', toolName: 'look' },
  { type: 'toolcall_delta', contentIndex: 2, delta: '{"at":"ho' },
  { type: 'toolcall_delta', contentIndex: 2, delta: 'me"}' },
  { type: 'toolcall_end', contentIndex: 2 },
  { type: 'done', reason: 'toolUse', usage },
)
const server = serverPerTest(() => sse(answer))
const options = (more: object = {}) => ({ authToken: 'secret', proxyUrl: server.url, ...more })
const context = { systemPrompt: 'Be brief.', messages: [user('hi')] }

/** The events, each as it was when it came, and the result. */
async function played(proxy: any, more: object = {}) {
  const stream = proxy(model, context, options(more))
  const events: unknown[] = []
  for await (const event of stream) events.push(shapeOf({ ...event, partial: undefined }))
  return { events, result: shapeOf(await stream.result()) }
}

test.each([
  ['0.54', pi054],
  ['0.73', pi073],
])('an answer is the same as with pi %s', async (_, pi) => {
  const [mine, theirs] = [await played(streamProxy), await played(pi)]
  expect(mine).toEqual(theirs)
  expect(server.seen[0]).toMatchObject({
    path: '/api/stream',
    headers: { authorization: 'Bearer secret' },
  })
})

test('the request is that of 0.73', async () => {
  await played(streamProxy, { reasoning: 'high', sessionId: 's', headers: { a: 'b' } })
  await played(pi073, { reasoning: 'high', sessionId: 's', headers: { a: 'b' } })
  expect(server.seen[0]?.body).toEqual(server.seen[1]?.body)
})

test('arguments can be read while they arrive', async () => {
  const read: unknown[] = []
  for await (const event of streamProxy(model, context, options())) {
    if (event.type === 'toolcall_delta') read.push((event.partial.content[2] as any).arguments)
  }
  expect(read).toEqual([{ at: 'home' }, { at: 'home' }])
})

test('a failure of the server is the message of the answer, as in pi', async () => {
  for (const handler of [
    status(500, { error: 'no budget' }),
    status(404, {}),
    sse(lines({ type: 'start' }, { type: 'text_delta', contentIndex: 0, delta: 'a' })),
    sse(lines({ type: 'start' }, { type: 'error', reason: 'error', errorMessage: 'no', usage })),
  ]) {
    server.use(handler)
    const [mine, theirs] = [await played(streamProxy), await played(pi054)]
    expect(mine).toEqual(theirs)
  }
})

test('a stream without an end is an error; pi’s result never comes', async () => {
  server.use(sse(lines({ type: 'start' })))
  const { result } = await played(streamProxy)
  expect(result).toMatchObject({
    stopReason: 'error',
    errorMessage: 'Proxy error: the stream ended without a result',
  })
})

test('an abort ends the stream and the request', async () => {
  server.use(sseThenHold(lines({ type: 'start' })))
  const controller = new AbortController()
  const stream = streamProxy(model, context, options({ signal: controller.signal }))
  for await (const { type } of stream) if (type === 'start') controller.abort()
  expect(await stream.result()).toMatchObject({ stopReason: 'aborted' })
  await server.seen[0]?.closed
})
