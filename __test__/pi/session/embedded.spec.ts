// `runEmbeddedPiAgent`: what callers of OpenClaw's function pass and read. It must never wait for a time.

import { join } from 'node:path'
import { expect, test } from 'vitest'
import { createAssistantMessageEventStream } from '../../../pi-ai.js'
import {
  type RunEmbeddedPiAgentParams,
  runEmbeddedPiAgent,
  SessionManager,
} from '../../../pi-session.js'
import { folder, serving } from '../../support/cleanup.js'
import { sse, status } from '../../support/servers/server.js'
import { calls, model, playing, text, toolOf } from '../agent/script.js'
import { modelAt, wires } from '../ai/wires.js'

function paramsOf(changes: Partial<RunEmbeddedPiAgentParams>): RunEmbeddedPiAgentParams {
  const { path } = folder()
  return {
    sessionId: 's-1',
    sessionKey: 'agent:main:main',
    sessionFile: join(path, 'session.jsonl'),
    workspaceDir: path,
    prompt: 'hi',
    model,
    timeoutMs: 60_000,
    runId: 'r-1',
    ...changes,
  }
}

test('a prompt has payloads, usage and a session file, and the next one continues it', async () => {
  const first = playing(calls('look'), text('It rains.'))
  const params = paramsOf({
    streamFn: first.streamFn,
    tools: [toolOf('look')],
    extraSystemPrompt: 'Be brief.',
  })
  const result = await runEmbeddedPiAgent(params)
  expect(result).toEqual({
    payloads: [{ text: 'It rains.' }],
    meta: {
      durationMs: expect.any(Number),
      agentMeta: {
        sessionId: 's-1',
        provider: 'demo',
        model: 'm',
        compactionCount: 0,
        usage: { input: 2, output: 2, cacheRead: 0, cacheWrite: 0, total: 4 },
        lastCallUsage: { input: 1, output: 1, cacheRead: 0, cacheWrite: 0, total: 2 },
      },
      aborted: false,
      stopReason: 'stop',
    },
  })
  expect(first.seen[0]?.context.systemPrompt).toBe('Be brief.')
  const second = playing(text('Still.'))
  await runEmbeddedPiAgent({ ...params, streamFn: second.streamFn, prompt: 'and now?' })
  expect(second.seen[0]?.roles).toEqual(['user', 'assistant', 'toolResult', 'assistant', 'user'])
  const roles = SessionManager.open(params.sessionFile).buildSessionContext().messages
  expect(roles.map(({ role }) => role)).toEqual([
    'user',
    'assistant',
    'toolResult',
    'assistant',
    'user',
    'assistant',
  ])
})

test('callbacks hear texts, tools and events, and a throw of one reaches nobody else', async () => {
  const heard: unknown[] = []
  const hear =
    (name: string) =>
    (payload: any): void =>
      void heard.push(payload?.text === undefined ? name : [name, payload.text])
  const warned = new Promise<string>((resolve) => {
    process.once('warning', ({ message }) => resolve(message))
  })
  const { streamFn } = playing(
    { parts: [{ text: 'I look.' }, { call: 'look' }] },
    text('It rains.'),
  )
  const agentEvents: unknown[] = []
  await runEmbeddedPiAgent(
    paramsOf({
      streamFn,
      tools: [toolOf('look')],
      onAssistantMessageStart: () => hear('start')(undefined),
      onPartialReply: hear('partial'),
      onBlockReply: hear('block'),
      onBlockReplyFlush: () => hear('flush')(undefined),
      onToolResult: hear('tool'),
      onAgentEvent: ({ stream, data }) => {
        agentEvents.push(`${stream} ${data.phase ?? data.delta}`)
        if (data.phase === 'result') throw new Error('my fault')
      },
    }),
  )
  expect(heard).toEqual([
    'start',
    ['partial', 'I look.'],
    ['block', 'I look.'],
    'flush',
    ['tool', 'did look'],
    'start',
    ['partial', 'It rains.'],
    ['block', 'It rains.'],
  ])
  expect(agentEvents).toEqual([
    'lifecycle start',
    'assistant I look.',
    'tool start',
    'tool result',
    'assistant It rains.',
    'lifecycle end',
  ])
  expect(await warned).toContain('my fault')
})

test('a call that the caller answers ends the run, and is pending', async () => {
  const { streamFn, seen } = playing(calls('ask'), text('never'))
  const { meta } = await runEmbeddedPiAgent(
    paramsOf({ streamFn, clientTools: [{ function: { name: 'ask', description: 'asks' } }] }),
  )
  expect(seen).toHaveLength(1)
  expect(seen[0]?.tools).toEqual(['ask'])
  expect([meta.stopReason, meta.pendingToolCalls]).toEqual([
    'tool_calls',
    [{ id: 'id-ask', name: 'ask', arguments: '{}' }],
  ])
})

test.each([
  ['prompt is too long: 9 tokens > 8 maximum', 'context_overflow'],
  ['messages: roles must alternate between "user" and "assistant"', 'role_ordering'],
  ['529 overloaded', undefined],
])('a failure is a payload, and known ones have a kind: %s', async (errorMessage, kind) => {
  const { streamFn } = playing({ parts: [], stopReason: 'error', errorMessage })
  const { payloads, meta } = await runEmbeddedPiAgent(paramsOf({ streamFn }))
  expect(payloads).toEqual([{ text: errorMessage, isError: true }])
  expect(meta.error?.kind).toBe(kind)
})

test('the handle steers and aborts, and so does the signal of the caller', async () => {
  const { streamFn, seen } = playing(calls('look'), text('Steered.'))
  let handle: any
  const tool = toolOf('look', () => handle.queueMessage('wait'))
  const steered = await runEmbeddedPiAgent(
    paramsOf({
      streamFn,
      tools: [tool],
      onHandle: (given) => {
        handle = given
      },
    }),
  )
  expect(seen[1]?.roles).toEqual(['user', 'assistant', 'toolResult', 'user'])
  expect([steered.payloads, handle.isStreaming()]).toEqual([[{ text: 'Steered.' }], false])
  await expect(handle.queueMessage('late')).rejects.toThrow('the run has ended')
  const controller = new AbortController()
  const aborting = toolOf('look', () => controller.abort())
  const { meta } = await runEmbeddedPiAgent(
    paramsOf({
      streamFn: playing(calls('look'), text('never')).streamFn,
      tools: [aborting],
      abortSignal: controller.signal,
    }),
  )
  expect([meta.aborted, meta.stopReason]).toEqual([true, 'aborted'])
})

test('runs wait in the lane of the caller, and an unknown model is refused', async () => {
  const order: string[] = []
  const { payloads } = await runEmbeddedPiAgent(
    paramsOf({
      streamFn: playing(text('Hello.')).streamFn,
      enqueue: async (task) => {
        order.push('waited')
        return task()
      },
    }),
  )
  expect([order, payloads]).toEqual([['waited'], [{ text: 'Hello.' }]])
  const unknown = runEmbeddedPiAgent(paramsOf({ provider: 'nobody', model: 'none' }))
  await expect(unknown).rejects.toThrow('Unknown model: nobody/none')
})

const thinking = (text: string, thought: string) => () => {
  const stream = createAssistantMessageEventStream()
  const content = [
    { type: 'thinking' as const, thinking: thought },
    { type: 'text' as const, text },
  ]
  const { api, provider, id } = model
  const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 }
  const usage = { input: 1, output: 1, cacheRead: 0, cacheWrite: 0, totalTokens: 2, cost }
  const common = { role: 'assistant' as const, api, provider, model: id, usage, timestamp: 1 }
  const message = { ...common, content, stopReason: 'stop' as const }
  const partial = message
  const half = thought.length / 2
  stream.push({ type: 'start', partial })
  stream.push({ type: 'thinking_start', contentIndex: 0, partial })
  for (const delta of [thought.slice(0, half), thought.slice(half)]) {
    stream.push({ type: 'thinking_delta', contentIndex: 0, delta, partial })
  }
  stream.push({ type: 'thinking_end', contentIndex: 0, content: thought, partial })
  stream.push({ type: 'text_start', contentIndex: 1, partial })
  stream.push({ type: 'text_delta', contentIndex: 1, delta: text, partial })
  stream.push({ type: 'text_end', contentIndex: 1, content: text, partial })
  stream.push({ type: 'done', reason: 'stop', message })
  return stream
}

test('reasoning is heard as it grows, and its end once', async () => {
  const heard: unknown[] = []
  await runEmbeddedPiAgent(
    paramsOf({
      streamFn: thinking('It rains.', 'hmm?'),
      onReasoningStream: ({ text }) => void heard.push(text),
      onReasoningEnd: () => void heard.push('end'),
      onBlockReply: ({ text }) => void heard.push(['block', text]),
    }),
  )
  expect(heard).toEqual(['hm', 'hmm?', 'end', ['block', 'It rains.']])
})

test('with `blockReplyBreak: message_end` a message is one block', async () => {
  for (const [blockReplyBreak, expected] of [
    ['message_end', ['One.Two.', 'Done.']],
    ['text_end', ['One.', 'Two.', 'Done.']],
  ] as const) {
    const blocks: (string | undefined)[] = []
    const { streamFn } = playing(
      { parts: [{ text: 'One.' }, { text: 'Two.' }, { call: 'look' }] },
      text('Done.'),
    )
    const onBlockReply = ({ text }: { text?: string }) => void blocks.push(text)
    await runEmbeddedPiAgent(
      paramsOf({ streamFn, tools: [toolOf('look')], blockReplyBreak, onBlockReply }),
    )
    expect(blocks).toEqual(expected)
  }
})

test('images, levels, parameters and keys reach the model, and `disableTools` leaves the tools out', async () => {
  const { streamFn, seen } = playing(text('A cat.'), text('No tools.'))
  const image = { type: 'image' as const, data: 'aGk=', mimeType: 'image/png' }
  const asked: string[] = []
  const params = paramsOf({
    streamFn,
    tools: [toolOf('look')],
    images: [image],
    thinkLevel: 'high',
    streamParams: { temperature: 0.5, maxTokens: 77 },
    apiKey: 'sk-fixed',
    getApiKey: (provider) => {
      asked.push(provider)
      return 'sk-of-the-caller'
    },
  })
  await runEmbeddedPiAgent(params)
  expect(seen[0]?.context.messages[0].content).toEqual([{ type: 'text', text: 'hi' }, image])
  expect(seen[0]?.options).toMatchObject({
    reasoning: 'high',
    temperature: 0.5,
    maxTokens: 77,
    apiKey: 'sk-of-the-caller',
    sessionId: 's-1',
  })
  expect([asked, seen[0]?.tools]).toEqual([['demo'], ['look']])
  await runEmbeddedPiAgent({ ...params, disableTools: true, thinkLevel: 'off' })
  expect([seen[1]?.tools, seen[1]?.options.reasoning]).toEqual([[], undefined])
})

/** A model that answers when its signal is aborted. */
const waiting = (_model: unknown, _context: unknown, { signal }: any): any => {
  const stream = createAssistantMessageEventStream()
  const failed = () => stream.end({ ...failedAnswer, stopReason: 'aborted' } as never)
  if (signal.aborted) failed()
  else signal.addEventListener('abort', failed, { once: true })
  return stream
}
const failedAnswer = {
  role: 'assistant',
  content: [],
  usage: {
    input: 0,
    output: 0,
    cacheRead: 0,
    cacheWrite: 0,
    totalTokens: 0,
    cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 },
  },
}

test('`timeoutMs` aborts a run; without one a run goes on, and what is no time is refused', async () => {
  const late = await runEmbeddedPiAgent(paramsOf({ streamFn: waiting, timeoutMs: 1 }))
  expect(late.meta).toMatchObject({ aborted: true, stopReason: 'aborted' })
  const { timeoutMs: _, ...unlimited } = paramsOf({})
  // Longer than any timer that fires at once.
  const slow = toolOf('look', () => new Promise<void>((resolve) => setTimeout(resolve, 30)))
  for (const changes of [{}, { timeoutMs: Number.POSITIVE_INFINITY }]) {
    const { streamFn } = playing(calls('look'), text('Done.'))
    const params = { ...unlimited, ...changes, streamFn, tools: [slow] }
    expect((await runEmbeddedPiAgent(params)).meta).toMatchObject({ aborted: false })
  }
  for (const timeoutMs of [Number.NaN, -1]) {
    await expect(runEmbeddedPiAgent(paramsOf({ timeoutMs }))).rejects.toThrow('`timeoutMs` is')
  }
})

test('an image that is too large has a kind of its own', async () => {
  const errorMessage = '400 messages.0.content.1.image.source.base64: image exceeds 5 MB maximum'
  const { streamFn } = playing({ ...text(''), stopReason: 'error', errorMessage })
  const { meta } = await runEmbeddedPiAgent(paramsOf({ streamFn }))
  expect(meta.error).toEqual({ kind: 'image_size', message: errorMessage })
})

test('a call that fails is sent again twice, or as often as `streamParams` says', async () => {
  const busy = status(529, {}, { 'retry-after-ms': '1' })
  for (const [maxRetries, requests, stopReason] of [
    [undefined, 3, 'stop'],
    [0, 1, 'error'],
  ] as const) {
    const server = await serving(busy, busy, sse(wires.anthropic.text('Hello.')))
    const { meta } = await runEmbeddedPiAgent(
      paramsOf({
        model: modelAt(wires.anthropic, server.url),
        apiKey: 'sk-x',
        ...(maxRetries !== undefined && { streamParams: { maxRetries } }),
      }),
    )
    expect([meta.stopReason, server.seen.length]).toEqual([stopReason, requests])
  }
})
