// What callers of `/pi-ai` rely on: one message that grows, failures as messages, a payload that they may change. It must never wait for a time.

import { expect, test } from 'vitest'
import {
  type AssistantMessage,
  AssistantMessageEventStream,
  type Context,
  completeSimple,
  createAssistantMessageEventStream,
  EventStream,
  getApiProvider,
  type Message,
  type Model,
  registerApiProvider,
  resetApiProviders,
  stream,
  streamSimple,
  unregisterApiProviders,
} from '../../../pi-ai.js'
import { anthropic } from '../../support/servers/anthropic.js'
import { gate, type Handler, sse, sseThenHold, status } from '../../support/servers/server.js'
import { serverPerTest } from '../../support/servers/server-per-test.js'
import { modelAt, tool, wires } from './wires.js'

const server = serverPerTest(() => sse(wires.anthropic.full))
const apiKey = 'sk-x'

const model = (changes: Partial<Model> = {}) => modelAt(wires.anthropic, server.url, changes)
const user = (content: string): Message => ({ role: 'user', content, timestamp: 1 })
const context = (...messages: Message[]): Context => ({
  messages: messages.length > 0 ? messages : [user('hi')],
  tools: [tool],
})

async function drained<Event>(events: AsyncIterable<Event>): Promise<Event[]> {
  const all: Event[] = []
  for await (const event of events) all.push(event)
  return all
}

test('`partial` is one message for the whole stream, and the result', async () => {
  const answer = streamSimple(model(), context(), { apiKey })
  const events = await drained(answer)
  const messages = events.map((event: any) => event.partial ?? event.message)
  const result = await answer.result()
  expect(new Set(messages)).toEqual(new Set([result]))
  expect(events.at(-1)).toEqual({ type: 'done', reason: 'toolUse', message: result })
})

test('the call of `toolcall_end` is the one in the message, with its arguments', async () => {
  const answer = streamSimple(model(), context(), { apiKey })
  const events = await drained(answer)
  const calls = events.flatMap((event) => (event.type === 'toolcall_end' ? [event.toolCall] : []))
  const { content } = await answer.result()
  expect(calls[0]).toBe(content[2])
  expect(calls).toEqual([
    { type: 'toolCall', id: 'toolu_1', name: 't', arguments: { a: 'x' } },
    { type: 'toolCall', id: 'toolu_2', name: 't', arguments: {} },
  ])
})

test('the arguments of a call are readable while they arrive, also after a text', async () => {
  const { wait, open } = gate()
  const parts = ['{"path":"a.txt","text":"one', ' two","list":[1,{"deep":tr', 'ue}]}']
  const delta = (text: string) =>
    anthropic.delta(1, { type: 'input_json_delta', partial_json: text })
  server.use(async (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write(anthropic.start() + anthropic.text(0, 'I write.'))
    response.write(
      anthropic.blockStart(1, { type: 'tool_use', id: 'toolu_1', name: 't', input: {} }),
    )
    response.write(delta(parts[0]) + delta(parts[1]))
    await wait
    response.end(delta(parts[2]) + anthropic.blockStop(1) + anthropic.end('tool_use'))
  })
  const answer = streamSimple(model(), context(), { apiKey })
  const seen: unknown[] = []
  for await (const event of answer) {
    if (event.type !== 'toolcall_delta') continue
    const call = event.partial.content[event.contentIndex] as any
    seen.push(structuredClone(call.arguments))
    if (seen.length === 2) open()
  }
  expect(seen[1]).toEqual({ path: 'a.txt', text: 'one two', list: [1, { deep: true }] })
  expect(seen.at(-1)).toEqual({ path: 'a.txt', text: 'one two', list: [1, { deep: true }] })
  expect((await answer.result()).content).toEqual([
    { type: 'text', text: 'I write.' },
    {
      type: 'toolCall',
      id: 'toolu_1',
      name: 't',
      arguments: { path: 'a.txt', text: 'one two', list: [1, { deep: true }] },
    },
  ])
})

test('the result is there though nobody iterates', async () => {
  const { stopReason, usage } = await streamSimple(model(), context(), { apiKey }).result()
  expect(stopReason).toBe('toolUse')
  expect(usage).toMatchObject({ input: 10, output: 5, cacheRead: 3, totalTokens: 20 })
})

test.each([
  [
    401,
    { type: 'error', error: { type: 'authentication_error', message: 'bad key' } },
    /401.*bad key/s,
  ],
  [
    400,
    { type: 'error', error: { type: 'invalid_request_error', message: 'no such field' } },
    /400.*no such field/s,
  ],
  [
    400,
    {
      type: 'error',
      error: { type: 'invalid_request_error', message: 'prompt is too long: 9 tokens > 8 maximum' },
    },
    /prompt is too long/,
  ],
])('a refused request is a message with the status (%i)', async (code, body, text) => {
  server.use(status(code, body))
  const answer = streamSimple(model(), context(), { apiKey })
  const events = await drained(answer)
  const result = await answer.result()
  expect(events.at(-1)).toEqual({ type: 'error', reason: 'error', error: result })
  expect(result).toMatchObject({ role: 'assistant', content: [], stopReason: 'error' })
  expect(result.errorMessage).toMatch(text)
  expect(result.errorMessage).not.toContain(apiKey)
})

test('a failure does not delay the next call', async () => {
  const limited = { type: 'error', error: { type: 'rate_limit_error', message: 'slow down' } }
  server.use(status(429, limited, { 'retry-after': '3600' }), sse(anthropic.answer('Hello.')))
  const first = await completeSimple(model(), context(), { apiKey })
  const second = await completeSimple(model(), context(), { apiKey })
  expect([first.stopReason, second.stopReason]).toEqual(['error', 'stop'])
  expect(server.seen).toHaveLength(2)
})

test('a stream that breaks off is a message with what had arrived', async () => {
  server.use((response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write(anthropic.start() + anthropic.blockStart(0, { type: 'text', text: '' }))
    response.write(anthropic.delta(0, { type: 'text_delta', text: 'Hel' }), () =>
      response.destroy(),
    )
  })
  const result = await streamSimple(model(), context(), { apiKey }).result()
  expect(result.content).toEqual([{ type: 'text', text: 'Hel' }])
  expect(result.stopReason).toBe('error')
})

test('an answer that begins again after a cut in the arguments of a call has nothing of the former one', async () => {
  const cuts = [gate(), gate()]
  const begin = (json: string) =>
    anthropic.start() +
    anthropic.blockStart(0, { type: 'tool_use', id: 'toolu_1', name: 't', input: {} }) +
    anthropic.delta(0, { type: 'input_json_delta', partial_json: json })
  const cut =
    ({ wait }: { wait: Promise<void> }): Handler =>
    async (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(begin('{"a":"one'))
      await wait
      response.destroy()
    }
  const whole = begin('{"a":"two"}') + anthropic.blockStop(0) + anthropic.end('tool_use')
  server.use(...cuts.map(cut), sse(whole))
  const answer = streamSimple(model(), context(), { apiKey, maxRetries: 2 })
  const seen: unknown[] = []
  for await (const event of answer) {
    if (event.type !== 'toolcall_delta') continue
    const calls = event.partial.content.map((part) => part.type === 'toolCall' && part.arguments)
    seen.push([event.delta, event.contentIndex, calls])
    cuts.shift()?.open()
  }
  const cutOff = ['{"a":"one', 0, [{ a: 'one' }]]
  expect(seen).toEqual([cutOff, cutOff, ['{"a":"two"}', 0, [{ a: 'two' }]]])
  const { content, stopReason } = await answer.result()
  expect([content, stopReason]).toEqual([
    [{ type: 'toolCall', id: 'toolu_1', name: 't', arguments: { a: 'two' } }],
    'toolUse',
  ])
})

test('an abort ends the stream with what had arrived, and the request', async () => {
  const half = anthropic.blockStart(0, { type: 'text', text: '' })
  server.use(
    sseThenHold(
      anthropic.start({ input: 7 }) + half,
      anthropic.delta(0, { type: 'text_delta', text: 'Hel' }),
    ),
  )
  const controller = new AbortController()
  const answer = streamSimple(model(), context(), { apiKey, signal: controller.signal })
  for await (const event of answer) if (event.type === 'text_delta') controller.abort()
  const result = await answer.result()
  expect(result).toMatchObject({
    content: [{ type: 'text', text: 'Hel' }],
    stopReason: 'aborted',
    errorMessage: 'Request was aborted',
  })
  await server.seen[0].closed
})

test('nothing is sent with a signal that was aborted before', async () => {
  const answer = streamSimple(model(), context(), { apiKey, signal: AbortSignal.abort() })
  expect((await answer.result()).stopReason).toBe('aborted')
  expect(server.seen).toEqual([])
})

test('without a key the call throws, and `complete` rejects', async () => {
  const unknown = model({ provider: 'nowhere' })
  expect(() => streamSimple(unknown, context())).toThrow('No API key for provider: nowhere')
  await expect(completeSimple(unknown, context())).rejects.toThrow('No API key')
})

test('a context that cannot be sent is a message', async () => {
  const { stopReason, errorMessage } = await completeSimple(model(), { messages: [] }, { apiKey })
  expect([stopReason, errorMessage]).toEqual(['error', expect.stringContaining('no message')])
  expect(server.seen).toEqual([])
})

test('`onPayload` may change the body in place', async () => {
  const onPayload = (payload: any) => {
    payload.service_tier = 'standard_only'
    delete payload.tools
  }
  await streamSimple(model(), context(), { apiKey, onPayload }).result()
  expect(server.seen[0].body).toMatchObject({ service_tier: 'standard_only', stream: true })
  expect(server.seen[0].body).not.toHaveProperty('tools')
})

test('`onPayload` may return another body, also later, and gets the model', async () => {
  const models: unknown[] = []
  const onPayload = async (payload: any, about: any) => {
    models.push(about.id)
    return { ...payload, max_tokens: 7 }
  }
  await streamSimple(model(), context(), { apiKey, onPayload }).result()
  expect(server.seen[0].body.max_tokens).toBe(7)
  expect(models).toEqual(['claude-sonnet-4-5'])
})

test('a throw in `onPayload` is a message, and nothing is sent', async () => {
  const onPayload = () => {
    throw new Error('not this prompt')
  }
  const { stopReason } = await streamSimple(model(), context(), { apiKey, onPayload }).result()
  expect(stopReason).toBe('error')
  expect(server.seen).toEqual([])
})

test('key, headers, session and metadata are sent', async () => {
  await streamSimple(model({ headers: { 'x-team': 'house' } }), context(), {
    apiKey: 'sk-mine',
    headers: { 'x-call': 'one' },
    metadata: { user_id: 'user-17', other: 1 },
    temperature: 0.5,
    maxTokens: 99,
    cacheRetention: 'none',
  }).result()
  const { headers, body, raw } = server.seen[0]
  expect(headers).toMatchObject({ 'x-api-key': 'sk-mine', 'x-team': 'house', 'x-call': 'one' })
  expect(body).toMatchObject({ temperature: 0.5, max_tokens: 99, metadata: { user_id: 'user-17' } })
  expect(raw).not.toContain('cache_control')
})

test.each(Object.keys(wires))(
  'results of calls go back with what the provider signed (%s)',
  async (name) => {
    const wire = wires[name]
    server.use(sse(wire.full), sse(wire.text('Done.')))
    const at = modelAt(wire, server.url)
    const first = await completeSimple(at, context(), { apiKey, reasoning: 'low' })
    const results: Message[] = first.content
      .filter((part) => part.type === 'toolCall')
      .map(({ id, name }) => ({
        role: 'toolResult',
        toolCallId: id,
        toolName: name,
        content: [{ type: 'text', text: `result of ${id}` }],
        details: { neverSent: () => {} },
        isError: false,
        timestamp: 3,
      }))
    // As it is after a restart.
    const stored = JSON.parse(JSON.stringify(first)) as AssistantMessage
    const second = await completeSimple(at, context(user('hi'), stored, ...results), {
      apiKey,
      reasoning: 'low',
    })
    expect(second.content).toMatchObject([{ type: 'text', text: 'Done.' }])
    expect(sent[name](server.seen[1].body)).toMatchSnapshot()
  },
)

/** The messages of a request, without the places for the provider's cache. */
const sent: Record<string, (body: any) => unknown> = {
  anthropic: (body) =>
    JSON.parse(
      JSON.stringify(body.messages, (key, value) => (key === 'cache_control' ? undefined : value)),
    ),
  'openai-completions': (body) => body.messages,
  'openai-responses': (body) => body.input,
  google: (body) => body.contents,
}

test('a user message may follow the results of calls, and nothing is put between', async () => {
  server.use(sse(wires.anthropic.full), sse(anthropic.answer('Done.')))
  const first = await completeSimple(model(), context(), { apiKey })
  const calls = first.content.filter((part) => part.type === 'toolCall')
  const results = calls.map(
    ({ id }): Message => ({
      role: 'toolResult',
      toolCallId: id,
      toolName: 't',
      content: [{ type: 'text', text: 'r' }],
      isError: false,
      timestamp: 3,
    }),
  )
  await completeSimple(model(), context(user('hi'), first, ...results, user('and now?')), {
    apiKey,
  })
  const roles = server.seen[1].body.messages.map((message: any) => message.role)
  expect(roles).toEqual(['user', 'assistant', 'user'])
  const last = server.seen[1].body.messages[2].content
  expect(last.map((part: any) => part.type)).toEqual(['tool_result', 'tool_result', 'text'])
})

test('failed answers are left out, with the results of their calls', async () => {
  server.use(sse(anthropic.answer('Done.')))
  const failed = {
    ...(await streamSimple(model(), context(), { apiKey }).result()),
    stopReason: 'aborted' as const,
  }
  server.use(sse(anthropic.answer('Done.')))
  const orphan: Message = {
    role: 'toolResult',
    toolCallId: 'toolu_1',
    toolName: 't',
    content: [{ type: 'text', text: 'too late' }],
    isError: false,
    timestamp: 3,
  }
  await completeSimple(model(), context(user('hi'), failed, orphan, user('again')), { apiKey })
  expect(server.seen.at(-1)?.raw).not.toContain('too late')
})

test('a registered provider is called instead, until it is unregistered', async () => {
  const calls: unknown[] = []
  const mine = (at: Model, _: Context, options: unknown) => {
    calls.push(options)
    const answer = createAssistantMessageEventStream()
    const message = { ...empty(at), content: [{ type: 'text' as const, text: 'mine' }] }
    answer.push({ type: 'done', reason: 'stop', message })
    answer.end()
    return answer
  }
  registerApiProvider({ api: 'anthropic-messages', stream: mine, streamSimple: mine }, 'test')
  try {
    const { content } = await stream(model(), context(), { own: true }).result()
    expect([content, calls]).toEqual([[{ type: 'text', text: 'mine' }], [{ own: true }]])
    const wrong = model({ api: 'other' })
    expect(() => getApiProvider('anthropic-messages')?.stream(wrong, context())).toThrow(
      'Mismatched api: other expected anthropic-messages',
    )
    unregisterApiProviders('test')
    expect(() => stream(model(), context(), { apiKey })).toThrow(
      'No API provider registered for api: anthropic-messages',
    )
  } finally {
    resetApiProviders()
  }
  expect((await stream(model(), context(), { apiKey }).result()).stopReason).toBe('toolUse')
})

function empty(at: Model): AssistantMessage {
  const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 }
  const usage = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0, cost }
  const { api, provider, id } = at
  const about = { api, provider, model: id, timestamp: 0 }
  return { role: 'assistant', content: [], ...about, usage, stopReason: 'stop' }
}

test('a stream shares its events among its iterations, and keeps none that was taken', async () => {
  const events = new EventStream<number, string>(
    (event) => event < 0,
    (event) => `ended with ${event}`,
  )
  const first = events[Symbol.asyncIterator]()
  const second = events[Symbol.asyncIterator]()
  const waiting = [first.next(), second.next()]
  for (let at = 0; at < 5_000; at++) events.push(at)
  events.push(-1)
  events.push(9)
  expect(await Promise.all(waiting)).toEqual([
    { value: 0, done: false },
    { value: 1, done: false },
  ])
  expect(await drained(events)).toEqual([...Array(4_998).keys()].map((at) => at + 2).concat(-1))
  expect(await events.result()).toBe('ended with -1')
  expect(await first.next()).toEqual({ value: undefined, done: true })
})

test('a stream that ends without a terminal event has the result that it ends with', async () => {
  const answer = new AssistantMessageEventStream()
  const waiting = answer[Symbol.asyncIterator]().next()
  answer.end(empty(model()))
  expect(await waiting).toEqual({ value: undefined, done: true })
  expect(await answer.result()).toEqual(empty(model()))
})
