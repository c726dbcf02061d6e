// The subpath `/testing` as a test of a host uses it: replies as lists, gates, failures, and what the model was sent. It must never
// reach a real provider.

import { expect, test } from 'vitest'
import { AgentEngine, type AgentTool } from '../../index.js'
import {
  collect,
  disconnect,
  failure,
  gate,
  reasoning,
  scriptedProvider,
  type TestReply,
  toolCall,
  transcript,
  usage,
} from '../../testing.js'
import { closing } from '../support/cleanup.js'
import { context, testModel } from '../support/engine.js'

/** An engine whose model `test` answers with `replies`. */
function scripted(replies: readonly TestReply[], options: { repeat?: boolean } = {}) {
  const model = scriptedProvider(replies, options)
  const engine = closing(new AgentEngine({ providers: { test: model }, models: [testModel] }))
  return { engine, model }
}

const thermometer: AgentTool = { name: 'thermometer', run: () => '11' }

test('a reply is a list of texts, reasoning, calls and usage, in its order', async () => {
  const { engine, model } = scripted([
    [
      reasoning('I look.', 'signed'),
      'Let me ',
      'look.',
      toolCall('thermometer', { room: 'bath' }, { id: 'toolu_1' }),
      usage({ inputTokens: 100, outputTokens: 20 }),
    ],
    'Eleven degrees.',
  ])
  const { events, result, text } = await collect(engine.run(context({ tools: [thermometer] })))
  expect(transcript(result.messages)).toEqual([
    'user: hi',
    'reasoning: I look.',
    'assistant: Let me look.',
    'call: thermometer {"room":"bath"}',
    'result: 11',
    'assistant: Eleven degrees.',
  ])
  expect(result.toolCalls.map(({ id }) => id)).toEqual(['toolu_1'])
  expect(result.attempts[0]?.usage).toMatchObject({ inputTokens: 100, outputTokens: 20 })
  expect(text).toBe('Let me look.Eleven degrees.')
  expect(events.map(({ type }) => type)).toEqual([
    'stream_start',
    'reasoning',
    'token',
    'token',
    'usage',
    'stream_end',
    'tool_status',
    'tool_status',
    'token',
    'usage',
    'stream_end',
  ])
  model.verify()
})

test('a request is found by its number, and shows what the model was sent', async () => {
  const { engine, model } = scripted([[toolCall('thermometer')], 'Eleven.'])
  await collect(engine.run(context({ systemPrompt: 'Be brief.', tools: [thermometer] })))
  expect(model.request(0)).toMatchObject({ system: 'Be brief.', tools: ['thermometer'] })
  expect(transcript(model.request(0).messages)).toEqual(['user: hi'])
  expect(transcript(model.request(-1).messages)).toEqual([
    'user: hi',
    'call: thermometer {}',
    'result: 11',
  ])
  expect(() => model.request(2)).toThrow(
    new RangeError('there is no request `2`: the engine made 2 requests'),
  )
})

test('`verify` names the first reply that was not used, and a missing one', async () => {
  const { engine, model } = scripted(['One.', 'Two.'])
  expect(() => model.verify()).toThrow(
    new Error(
      'the script has 2 replies and the engine made 0 requests: the first unused reply is script[0]',
    ),
  )
  await collect(engine.run(context()))
  expect(() => model.verify()).toThrow(
    new Error(
      'the script has 2 replies and the engine made 1 request: the first unused reply is script[1]',
    ),
  )
  await collect(engine.run(context()))
  model.verify()
  const { result } = await collect(engine.run(context()))
  expect(result.error?.detail.code).toBe('script_exhausted')
  expect(() => model.verify()).toThrow(
    new Error(
      'the script has 2 replies and the engine made 3 requests: the last ones failed with `script_exhausted`',
    ),
  )
})

test('with `repeat` a script begins again, and `verify` wants each reply used once', async () => {
  const { engine, model } = scripted(['One.', 'Two.'], { repeat: true })
  const texts: string[] = []
  for (let run = 0; run < 3; run++) texts.push((await collect(engine.run(context()))).text)
  expect(texts).toEqual(['One.', 'Two.', 'One.'])
  model.verify()
})

test('a failure is of its kind, and one that is retried takes the next reply', async () => {
  const { engine, model } = scripted([
    [failure('overloaded')],
    [failure('network', { message: 'reset' })],
    'Here.',
    [failure('auth', { status: 401, message: 'no such key' })],
    ['Half an ans', failure('server_error')],
    ['Half an ans', disconnect()],
  ])
  const first = await collect(engine.run(context()))
  expect(first.text).toBe('Here.')
  expect(first.result.attempts.map(({ ok, reason }) => reason ?? ok)).toEqual([
    'overloaded',
    'network',
    true,
  ])
  const errors: unknown[] = []
  for (let run = 0; run < 3; run++) {
    const { result } = await collect(engine.run(context()))
    const { kind, detail } = result.error ?? {}
    errors.push([result.stopReason, kind, detail?.kind, detail?.status, detail?.code])
  }
  expect(errors).toEqual([
    ['error', 'auth_failure', 'auth', 401, undefined],
    ['error', 'model_error', 'server_error', undefined, 'scripted_error'],
    ['error', 'model_error', 'network', undefined, 'stream_truncated'],
  ])
  model.verify()
})

test('arguments that are no JSON reach the engine as they are', async () => {
  const { engine } = scripted([
    [toolCall('thermometer', undefined, { argumentsText: '{"room":' })],
    'I see.',
  ])
  const { result } = await collect(engine.run(context({ tools: [thermometer] })))
  expect(result.toolCalls).toMatchObject([{ toolName: 'thermometer', status: 'failed' }])
})

test('a reply waits at a gate until the test opens it', async () => {
  const door = gate()
  const { engine } = scripted([['It is ', door, 'eleven.']])
  const seen: string[] = []
  for await (const event of engine.run(context())) {
    if (event.type !== 'token') continue
    seen.push(`${event.text}|${door.isOpen}`)
    door.open()
  }
  expect(seen).toEqual(['It is |false', 'eleven.|true'])
})

test('one gate may be in several scripts, and one that is open already delays nothing', async () => {
  const door = gate()
  const first = scripted([[door, 'One.']])
  const second = scripted([[door, 'Two.']])
  const runs = [first, second].map(({ engine }) => collect(engine.run(context())))
  door.open()
  expect((await Promise.all(runs)).map(({ text }) => text)).toEqual(['One.', 'Two.'])
  const third = scripted([[door, 'Three.']])
  expect((await collect(third.engine.run(context()))).text).toBe('Three.')
})

test('replies of the engine’s own scripted provider are taken as well', async () => {
  const { engine } = scripted([{ text: 'One.', chunkSize: 2 }, { steps: [{ text: 'Two.' }] }])
  const first = await collect(engine.run(context()))
  expect(first.events.filter(({ type }) => type === 'token')).toHaveLength(2)
  expect((await collect(engine.run(context()))).text).toBe('Two.')
})

test('an entry of a reply that is nothing of the kind is refused with its path', () => {
  expect(() => scriptedProvider(['One.', ['Two.', 3 as never]])).toThrow(
    new TypeError('`script[1][1]`: is neither a text, a step nor a gate'),
  )
})
