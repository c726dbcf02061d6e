// `runEmbeddedPiAgent`: what callers of OpenClaw's function pass and read. It must never wait for a time.

import { join } from 'node:path'
import { expect, test } from 'vitest'
import {
  type RunEmbeddedPiAgentParams,
  runEmbeddedPiAgent,
  SessionManager,
} from '../../../pi-session.js'
import { folder } from '../../support/cleanup.js'
import { calls, model, playing, text, toolOf } from '../agent/script.js'

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
