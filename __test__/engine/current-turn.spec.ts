// A turn whose tools the host runs itself: `currentTurn` before `currentMessage`. It must never store such a turn.

import { expect, test } from 'vitest'
import {
  AgentEngine,
  AgentEngineError,
  type AssembledContext,
  scriptedProvider,
} from '../../index.js'
import { folder } from '../support/cleanup.js'

const call = {
  role: 'assistant',
  content: [
    { type: 'text', text: 'I look.' },
    { type: 'tool_call', id: 'call_1', name: 'look', argumentsJson: '{}' },
  ],
} as const
const result = { role: 'tool', toolCallId: 'call_1', toolName: 'look', content: 'rain' } as const
const history = [{ role: 'user', content: 'How is it outside?' }] as const

const engineOf = () => {
  const model = scriptedProvider(['It rains.'], { repeat: true })
  return { model, engine: new AgentEngine({ providers: { demo: model } }) }
}
type Options = Partial<AssembledContext>
const options: Options = { provider: 'demo', model: 'scripted', history }

test('a run continues after the results of calls that the host has answered', async () => {
  const { model, engine } = engineOf()
  const { text, messages } = await engine.run(result, { ...options, currentTurn: [call] }).result
  const steered = [call, result]
  await engine.run('And now?', { ...options, currentTurn: steered }).result
  await engine.close()
  const sent = model.requests.map((request: any) =>
    request.messages.map(({ role, blocks }: any) => [role, blocks.map((block: any) => block.type)]),
  )
  expect(text).toBe('It rains.')
  expect(messages.map(({ role, sequence }) => [role, sequence])).toEqual([
    ['assistant', 0],
    ['tool', 1],
    ['assistant', 2],
  ])
  const turn = [
    ['user', ['text']],
    ['assistant', ['text', 'tool_call']],
    ['tool', ['tool_result']],
  ]
  expect(sent).toEqual([turn, [...turn, ['user', ['text']]]])
})

test('a history that ends with results goes on with the turn, and is closed before a question', async () => {
  const { model, engine } = engineOf()
  const looked = { ...options, history: [...history, call, result] }
  await engine.run(result, { ...looked, currentTurn: [call] }).result
  await engine.run('And now?', looked).result
  await engine.close()
  const roles = model.requests.map((request: any) =>
    request.messages.map(({ role }: any) => role).join(' '),
  )
  expect(roles).toEqual([
    'user assistant tool assistant tool',
    'user assistant tool assistant user',
  ])
})

test.each([
  ['currentMessage.role', result, {}, 'invalid_context'],
  ['currentTurn', 'Hello?', { currentTurn: 'no list' }, 'invalid_context'],
  ['currentTurn[0].role', result, { currentTurn: [result] }, 'invalid_context'],
  ['currentTurn[1].role', result, { currentTurn: [call, { role: 'nobody' }] }, 'invalid_context'],
])('what cannot be one is refused: %s', async (path, message, changes, code) => {
  const { model, engine } = engineOf()
  const refused = refusal(() => engine.run(message as any, { ...options, ...(changes as Options) }))
  expect([refused.code, refused.path]).toEqual([code, path])
  await engine.close()
  expect(model.requests).toEqual([])
})

test('it is refused with a ledger', async () => {
  const model = scriptedProvider([])
  const engine = new AgentEngine({ providers: { demo: model }, ledger: { path: folder().file } })
  const refused = refusal(() => engine.run(result, { ...options, currentTurn: [call] }))
  expect([refused.code, refused.path]).toEqual(['invalid_context', 'currentTurn'])
  await engine.close()
})

function refusal(run: () => unknown): AgentEngineError {
  try {
    run()
  } catch (error) {
    if (error instanceof AgentEngineError) return error
  }
  throw new Error('it was not refused')
}
