// What is around a call: another copy of pi beside ours, tokens of subscriptions, a proxy of the environment, usage with cached tokens. It must never call
// another machine.

import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import * as pi from '@mariozechner/pi-ai'
import { expect, test } from 'vitest'
import { Agent } from '../../../pi-agent.js'
import * as ours from '../../../pi-ai.js'
import { serving } from '../../support/cleanup.js'
import { anthropic } from '../../support/servers/anthropic.js'
import { sse, sseThenHold } from '../../support/servers/server.js'
import { serverPerTest } from '../../support/servers/server-per-test.js'
import { modelAt, wires } from './wires.js'

const server = serverPerTest(() => sse(anthropic.answer('Hello.')))
const model = (changes: Partial<ours.Model> = {}) => modelAt(wires.anthropic, server.url, changes)
const context = { messages: [{ role: 'user' as const, content: 'hi', timestamp: 1 }] }

test("our agent reads the streams of pi's own class, which is another one than ours", async () => {
  const streams: object[] = []
  const agent = new Agent({
    initialState: { model: model() },
    streamFn: (...call) => {
      const stream = pi.streamSimple(...(call as unknown as Parameters<typeof pi.streamSimple>))
      streams.push(stream)
      return stream as unknown as ours.AssistantMessageEventStream
    },
    getApiKey: () => 'sk-x',
  })
  await agent.prompt('hi')
  expect(streams[0]?.constructor).toBe(pi.createAssistantMessageEventStream().constructor)
  expect(streams[0]).not.toBeInstanceOf(ours.AssistantMessageEventStream)
  expect(agent.state.messages.at(-1)).toMatchObject({ content: [{ text: 'Hello.' }] })
})

test('a provider that is registered here is not registered with pi, and the other way round', () => {
  const none = () => ours.createAssistantMessageEventStream()
  ours.registerApiProvider({ api: 'only-ours', stream: none, streamSimple: none })
  const theirs = { api: 'only-theirs', stream: pi.stream, streamSimple: pi.streamSimple }
  pi.registerApiProvider(theirs as Parameters<typeof pi.registerApiProvider>[0], 'test')
  try {
    const found = (of: (api: any) => unknown) =>
      ['only-ours', 'only-theirs'].map((api) => of(api) !== undefined)
    expect(found(ours.getApiProvider)).toEqual([true, false])
    expect(found(pi.getApiProvider)).toEqual([false, true])
  } finally {
    ours.resetApiProviders()
    pi.unregisterApiProviders('test')
  }
})

test('a token of a subscription is sent as one, without the identity of another program', async () => {
  const apiKey = 'sk-ant-oat-canary'
  await ours.completeSimple(model(), { ...context, systemPrompt: 'Be brief.' }, { apiKey })
  const [{ headers, body }] = server.seen as [(typeof server.seen)[0]]
  expect(headers.authorization).toBe(`Bearer ${apiKey}`)
  expect(headers['x-api-key']).toBeUndefined()
  expect(JSON.stringify([headers, body])).not.toMatch(/claude.code|claude-cli/i)
  expect(body.system.map(({ text }: { text: string }) => text)).toEqual(['Be brief.'])
})

test('a proxy of the environment is used', async () => {
  const proxy = await serving(sse(anthropic.answer('Through it.')))
  const child = fileURLToPath(new URL('../../children/pi/proxied.mjs', import.meta.url))
  const env = { PATH: process.env.PATH, HTTP_PROXY: proxy.url, http_proxy: proxy.url }
  const { stdout } = await promisify(execFile)(process.execPath, [child], { env })
  expect(stdout).toBe('Through it.')
  expect(proxy.seen.map(({ path }) => path)).toEqual(['http://model.invalid/v1/messages'])
})

test('an answer that was aborted has the usage that came with its beginning', async () => {
  server.use(
    sseThenHold(
      anthropic.start({ input: 17, cached: 5 }),
      anthropic.blockStart(0, { type: 'text', text: '' }),
      anthropic.delta(0, { type: 'text_delta', text: 'Hel' }),
    ),
  )
  const controller = new AbortController()
  const options = { apiKey: 'sk-x', signal: controller.signal }
  const stream = ours.streamSimple(model(), context, options)
  for await (const { type } of stream) if (type === 'text_delta') controller.abort()
  const { stopReason, usage } = await stream.result()
  expect([stopReason, usage.input, usage.cacheRead]).toEqual(['aborted', 17, 5])
})

test('cached tokens are beside the input, at Google too', async () => {
  const usageMetadata = {
    promptTokenCount: 20,
    cachedContentTokenCount: 8,
    candidatesTokenCount: 6,
    totalTokenCount: 26,
  }
  const content = { role: 'model', parts: [{ text: 'Hello.' }] }
  const chunk = { candidates: [{ index: 0, content, finishReason: 'STOP' }], usageMetadata }
  server.use(sse(`data: ${JSON.stringify(chunk)}\n\n`))
  const at = modelAt(wires.google, server.url)
  const { usage } = await ours.completeSimple(at, context, { apiKey: 'sk-x' })
  expect(usage).toMatchObject({ input: 12, cacheRead: 8, output: 6, totalTokens: 26 })
})
