// What a host relies on around the calls of a run: the result of `transformContext` is what the model reads, and no listener stays on the host's signal. It must
// never wait for a time.

import { getEventListeners } from 'node:events'
import { expect, test } from 'vitest'
import { Agent, agentLoop } from '../../../pi-agent.js'
import { completeSimple, streamSimple } from '../../../pi-ai.js'
import { sse } from '../../support/servers/server.js'
import { serverPerTest } from '../../support/servers/server-per-test.js'
import { modelAt, wires } from '../ai/wires.js'
import { calls, model, playing, text, toolOf, user } from './script.js'

const server = serverPerTest(() => sse(wires.anthropic.text('Hello.')))
const convertToLlm = (messages: any[]) => messages

test.each(['0.54', '0.73'] as const)(
  'the model reads what `transformContext` returns, and the state stays whole (%s)',
  async (semantics) => {
    const { streamFn, seen } = playing(calls('a'), text('Done.'))
    const given: number[] = []
    const note = user('only this')
    const agent = new Agent({
      initialState: { model, tools: [toolOf('a')], messages: [user('old')] },
      streamFn,
      semantics,
      transformContext: async (messages, signal) => {
        given.push(messages.length)
        expect(signal).toBe(agent.signal)
        return [note, ...messages.slice(-1)]
      },
    })
    await agent.prompt('hi')
    expect(given).toEqual([2, 4])
    expect(seen.map(({ context }) => context.messages.map(({ role }: any) => role))).toEqual([
      ['user', 'user'],
      ['user', 'toolResult'],
    ])
    expect(seen[0]?.context.messages[0]).toBe(note)
    expect(agent.state.messages.map(({ role }) => role)).toEqual([
      'user',
      'user',
      'assistant',
      'toolResult',
      'assistant',
    ])
  },
)

test('no call leaves a listener on the signal of the host', async () => {
  const { signal } = new AbortController()
  const messages = [user('hi')]
  const at = modelAt(wires.anthropic, server.url)
  const options = { apiKey: 'sk-x', signal }
  await completeSimple(at, { messages }, options)
  for await (const _ of streamSimple(at, { messages }, options));
  await completeSimple(modelAt(wires.anthropic, 'http://127.0.0.1:1'), { messages }, options)
  const { streamFn } = playing(calls('a'), text('Done.'))
  const config: any = {
    model,
    convertToLlm,
    beforeToolCall: async () => undefined,
    afterToolCall: async () => undefined,
    getSteeringMessages: async () => [],
    getFollowUpMessages: async () => [],
    toolTimeoutMs: 60_000,
  }
  const context = { systemPrompt: '', messages: [], tools: [toolOf('a')] }
  await agentLoop([user('hi')], context, config, signal, streamFn).result()
  await agentLoop(
    [user('hi')],
    { systemPrompt: '', messages: [] },
    { ...config, model: at, apiKey: 'sk-x' },
    signal,
  ).result()
  expect(getEventListeners(signal, 'abort')).toEqual([])
})
