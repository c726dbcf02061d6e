// `prepareStep`: the model, the tools and the tool choice of the next answer. What is wrong with its changes must change nothing, and never
// fail a run.

import { expect, test } from 'vitest'
import type { NextStep } from '../../../index.js'
import { answering } from '../../support/approvals.js'
import { closing } from '../../support/cleanup.js'
import { context, engineAt, readAll, testModel } from '../../support/engine.js'

const look = { name: 'look', description: '', run: () => 'seen' }
const pay = { name: 'pay', description: '', run: () => 'paid' }
const small = { ...testModel, id: 'small-model' }

async function running(prepareStep: (step: NextStep) => never, fields: object = {}) {
  const server = await answering([['toolu_1', 'look', {}]], [['toolu_2', 'pay', {}]])
  const engine = closing(engineAt(server.url, { models: [testModel, small] }))
  const run = engine.run(
    context({ tools: [look, pay], prepareStep: prepareStep as never, ...fields }),
  )
  const events = await readAll(run)
  return { server, events, result: await run.result }
}

const offered = (body: { tools?: { name: string }[] }) => body.tools?.map(({ name }) => name)

test('each answer is called for with the tools and the choice that the hook gives', async () => {
  const steps: NextStep[] = []
  const { server, result } = await running((step) => {
    steps.push(step)
    if (step.step === 1) return { tools: ['look'], toolChoice: 'required' } as never
    return (step.step === 2 ? { tools: ['look'] } : undefined) as never
  })
  expect(server.seen.map(({ body }) => offered(body))).toEqual([
    ['look'],
    ['look'],
    ['look', 'pay'],
  ])
  expect(server.seen[0]?.body.tool_choice).toEqual({ type: 'any' })
  expect(server.seen[1]?.body.tool_choice).toBeUndefined()
  // A tool that is not on offer does not run.
  expect(result.toolCalls).toMatchObject([
    { toolName: 'look', status: 'completed' },
    { toolName: 'pay', status: 'failed', error: expect.stringContaining('not offered') },
  ])
  expect(steps.map(({ step, model, provider, tools }) => [step, provider, model, tools])).toEqual(
    [1, 2, 3].map((step) => [step, 'test', 'test-model', ['look', 'pay']]),
  )
  expect(steps.map(({ last }) => last?.toolCalls.map(({ toolName }) => toolName))).toEqual([
    undefined,
    ['look'],
    ['pay'],
  ])
  expect(result.warnings).toEqual([])
})

test('a model of the run is called from the step on that names it', async () => {
  const { server, events, result } = await running(
    ({ step }) => (step === 2 ? { model: 'test/small-model' } : undefined) as never,
    { fallbacks: ['small-model'] },
  )
  expect(server.seen.map(({ body }) => body.model)).toEqual([
    'test-model',
    'small-model',
    'small-model',
  ])
  expect(events.filter(({ type }) => type === 'model_switch')).toEqual([
    {
      type: 'model_switch',
      from: { provider: 'test', model: 'test-model' },
      to: { provider: 'test', model: 'small-model' },
      seq: expect.any(Number),
    },
  ])
  expect(result.stopReason).toBe('end_turn')
})

test.each([1, 2])('a model that is named for answer %i has each message once', async (at) => {
  const { server } = await running(
    ({ step }) => (step === at ? { model: 'test/small-model' } : undefined) as never,
    { fallbacks: ['small-model'] },
  )
  type Sent = { role: string; content: string | { type: string; text?: string }[] }
  const shapes = server.seen.map(({ body }) =>
    (body.messages as Sent[]).map(({ role, content }) => [
      role,
      ...(typeof content === 'string' ? [content] : content.map((it) => it.text ?? it.type)),
    ]),
  )
  const question = ['user', 'hi']
  const round = [
    ['assistant', 'tool_use'],
    ['user', 'tool_result'],
  ]
  // What another model has begun is closed for the one that goes on.
  const closed = [
    ['assistant', '[The results above were requested earlier.]'],
    ['user', '(Go on.)'],
  ]
  const first = at === 1 ? round : [...round, ...closed]
  expect(shapes).toEqual([[question], [question, ...first], [question, ...first, ...round]])
})

test.each<[string, unknown, string]>([
  ['a tool that the run does not have', { tools: ['look', 'fly'] }, 'prepareStep.tools[1]'],
  ['a model that is not one of the run', { model: 'huge' }, 'prepareStep.model'],
  [
    'a choice of a tool that is not offered',
    { tools: ['look'], toolChoice: { name: 'pay' } },
    'prepareStep.toolChoice.name',
  ],
  ['an unknown field', { system: 'x' }, 'prepareStep.system'],
  ['a list of tools that is none', { tools: 'look' }, 'prepareStep.tools'],
])('%s is a warning, and nothing is changed', async (_, changes, field) => {
  const { server, result } = await running(() => changes as never)
  expect(server.seen.map(({ body }) => [body.model, offered(body)])).toEqual(
    [1, 2, 3].map(() => ['test-model', ['look', 'pay']]),
  )
  expect(result.stopReason).toBe('end_turn')
  expect(new Set(result.warnings.map(({ code, field }) => `${code} ${field}`))).toEqual(
    new Set([`prepare_step ${field}`]),
  )
})

test('a hook that throws changes nothing', async () => {
  const warnings: string[] = []
  const listen = (warning: Error & { code?: string }) => warnings.push(String(warning.code))
  process.on('warning', listen)
  try {
    const { server, result } = await running(() => {
      throw new Error('broken')
    })
    expect(result.stopReason).toBe('end_turn')
    expect(offered(server.seen[0]?.body)).toEqual(['look', 'pay'])
    await new Promise((resolve) => setImmediate(resolve))
    expect(warnings).toEqual(['AGENT_ENGINE_CALLBACK'])
  } finally {
    process.off('warning', listen)
  }
})
