// An abort while a function of the host is pending, limits that would stop every run, and failures of subscribers: a run always settles, and what it had
// is in its result. It must never wait for a time that a test asserts.

import { expect, test } from 'vitest'
import { Agent, agentLoop } from '../../../pi-agent.js'
import { calls, model, playing, text, toolOf, user } from './script.js'

const both = ['0.54', '0.73'] as const
const never = new Promise<never>(() => {})

/** Where a run waits for a function of the host, and what its last message is after an abort there. */
const beforeTheModel = ['getApiKey', 'streamFn', 'transformContext', 'convertToLlm']
const atTheCall = ['beforeToolCall', 'afterToolCall']

function abortingAt(name: string, semantics: string, answers = [calls('a'), text('never')]) {
  const { streamFn, seen } = playing(...answers)
  const ran: string[] = []
  const agent: Agent = new Agent({
    initialState: { model, tools: [toolOf('a', () => void ran.push('a'))] },
    streamFn,
    semantics,
    abortGraceMs: 1,
    [name]: () => {
      agent.abort()
      return never
    },
  } as any)
  return { agent, seen, ran }
}

test.each(both.flatMap((semantics) => beforeTheModel.map((name) => [semantics, name] as const)))(
  'an abort settles a run that waits for a function of the host (%s, %s)',
  async (semantics, name) => {
    const { agent, seen } = abortingAt(name, semantics)
    await agent.prompt('hi')
    await agent.waitForIdle()
    expect(agent.state.messages.map(({ role }) => role)).toEqual(['user', 'assistant'])
    expect(agent.state.messages[1]).toMatchObject({ stopReason: 'aborted' })
    expect([agent.state.isStreaming, seen]).toEqual([false, []])
  },
)

test.each(both.flatMap((semantics) => atTheCall.map((name) => [semantics, name] as const)))(
  'an abort settles a run that waits for a hook of a call (%s, %s)',
  async (semantics, name) => {
    const { agent, seen, ran } = abortingAt(name, semantics)
    await agent.prompt('hi')
    expect(agent.state.messages.map(({ role }) => role)).toEqual([
      'user',
      'assistant',
      'toolResult',
      'assistant',
    ])
    expect(agent.state.messages.at(-1)).toMatchObject({ stopReason: 'aborted' })
    expect([ran, seen.length]).toEqual([name === 'beforeToolCall' ? [] : ['a'], 1])
  },
)

test.each(['getSteeringMessages', 'shouldStopAfterTurn', 'getFollowUpMessages'])(
  'an abort settles a loop that waits for `%s`',
  async (name) => {
    const controller = new AbortController()
    const { streamFn } = playing(text('Hello.'))
    const config: any = {
      model,
      convertToLlm: (messages: any[]) => messages,
      abortGraceMs: 1,
      [name]: () => {
        controller.abort()
        return never
      },
    }
    const context = { systemPrompt: '', messages: [] }
    const loop = agentLoop([user('hi')], context, config, controller.signal, streamFn)
    const [asked, answer]: any[] = await loop.result()
    expect(asked).toEqual(user('hi'))
    expect(answer.stopReason).toBe(name === 'getSteeringMessages' ? 'aborted' : 'stop')
  },
)

test.each(both)(
  'a model is not called, and a tool does not start, where a hook ends after the abort (%s)',
  async (semantics) => {
    for (const name of ['transformContext', 'beforeToolCall']) {
      const { streamFn, seen } = playing(calls('a'), text('never'))
      const ran: string[] = []
      const agent: Agent = new Agent({
        initialState: { model, tools: [toolOf('a', () => void ran.push('a'))] },
        streamFn,
        semantics,
        [name]: async (given: any) => {
          agent.abort()
          return name === 'transformContext' ? given : undefined
        },
      } as any)
      await agent.prompt('hi')
      expect([name, ran, seen.length]).toEqual([name, [], name === 'transformContext' ? 0 : 1])
      expect(agent.state.messages.at(-1)).toMatchObject({ stopReason: 'aborted' })
    }
  },
)

test('limits that would stop every run are refused', async () => {
  const refused: [string, number][] = [
    ['maxParallelTools', 0],
    ['maxParallelTools', Number.NaN],
    ['toolTimeoutMs', Number.NaN],
    ['abortGraceMs', -1],
  ]
  for (const [name, value] of refused) {
    expect(() => new Agent({ [name]: value } as any)).toThrow(`\`${name}\` is ${value}`)
    const config: any = { model, convertToLlm: (messages: any[]) => messages, [name]: value }
    const loop = agentLoop([user('hi')], { systemPrompt: '', messages: [] }, config)
    const result: any[] = await loop.result()
    expect(result.at(-1).errorMessage).toContain(`\`${name}\` is ${value}`)
  }
})

test('a limit that no timer can have is none', async () => {
  const { streamFn } = playing(calls('a'), text('Done.'))
  const tool = toolOf('a', () => new Promise<void>((resolve) => setTimeout(resolve, 20)))
  const options: any = { streamFn, toolTimeoutMs: Number.POSITIVE_INFINITY }
  const agent = new Agent({ initialState: { model, tools: [tool] }, ...options })
  await agent.prompt('hi')
  expect(agent.state.messages[2]).toMatchObject({ role: 'toolResult', isError: false })
})

test('a subscriber that rejects while a tool still runs ends the run, and is no unhandled rejection', async () => {
  const unhandled: unknown[] = []
  const note = (error: unknown) => void unhandled.push(error)
  process.on('unhandledRejection', note)
  try {
    const { streamFn } = playing(calls('a'), text('never'))
    const tool = toolOf('a', async (_id, _args, _signal, onUpdate) => {
      onUpdate({ content: [], details: {} })
      // Rejections are reported before the next timer.
      await new Promise((resolve) => setTimeout(resolve, 5))
    })
    const agent = new Agent({ initialState: { model, tools: [tool] }, streamFn, semantics: '0.73' })
    agent.subscribe(async (event) => {
      if (event.type === 'tool_execution_update') throw new Error('my fault')
    })
    await agent.prompt('hi')
    expect(agent.state.error).toBe('my fault')
    expect(unhandled).toEqual([])
  } finally {
    process.off('unhandledRejection', note)
  }
})

test('a throw between two answers leaves the prompts and the answers in the result', async () => {
  const { streamFn } = playing(calls('a'), text('Hello.'))
  const config: any = {
    model,
    convertToLlm: (messages: any[]) => messages,
    getFollowUpMessages: () => {
      throw new Error('it broke')
    },
  }
  const context = { systemPrompt: '', messages: [], tools: [toolOf('a')] }
  const loop = agentLoop([user('hi')], context, config, undefined, streamFn)
  let ended: unknown[] = []
  for await (const event of loop) if (event.type === 'agent_end') ended = event.messages
  const result = await loop.result()
  expect(result.map(({ role, stopReason }: any) => stopReason ?? role)).toEqual([
    'user',
    'toolUse',
    'toolResult',
    'stop',
    'error',
  ])
  expect(ended).toEqual(result)
})
