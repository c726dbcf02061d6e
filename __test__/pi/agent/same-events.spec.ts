// The agent of `/pi-agent` emits what pi's own emits, of 0.54 and of 0.73, with the same messages and the same calls of the model. It must never
// compare what the package fixes: see fixed.spec.ts.

import { Agent as Agent054 } from '@mariozechner/pi-agent-core'
import { Agent as Agent073 } from 'pi-agent-core-073'
import { expect, test } from 'vitest'
import { Agent } from '../../../pi-agent.js'
import { type Answer, calls, model, playing, shapeOf, text, toolOf, user } from './script.js'

interface Scene {
  answers: () => Answer[]
  tools?: (agent: () => any) => any[]
  options?: object
  /** What happens; by default one prompt. */
  acts?: (agent: any) => Promise<unknown>
  /** Only of one version. */
  only?: '0.54' | '0.73'
}

const gate = () => {
  let open = () => {}
  const wait = new Promise<void>((resolve) => {
    open = resolve
  })
  return { wait, open }
}

const scenes: Record<string, Scene> = {
  'a text': { answers: () => [text('Hello.', 'Again.')] },
  'a prompt with images': {
    answers: () => [text('Seen.')],
    acts: (agent) => agent.prompt('look', [{ type: 'image', data: 'AAAA', mimeType: 'image/png' }]),
  },
  'messages of the host’s own role': {
    answers: () => [text('Hello.')],
    acts: (agent) => agent.prompt([{ role: 'note', text: 'for people' }, user('hi')]),
  },
  'tools, one answer after the other': {
    answers: () => [calls('a', 'b'), calls('a:again'), text('Done.')],
    tools: () => [toolOf('a'), toolOf('b')],
  },
  'tools that fail': {
    answers: () => [calls('a', 'missing', 'typed'), text('Done.')],
    tools: () => [
      toolOf('a', () => {
        throw new Error('no luck')
      }),
      toolOf('typed', undefined, {
        parameters: { type: 'object', properties: { n: { type: 'number' } }, required: ['n'] },
      }),
    ],
    only: '0.54',
  },
  'progress of a tool': {
    answers: () => [calls('a'), text('Done.')],
    tools: () => [
      toolOf('a', (_id, _args, _signal, onUpdate) => {
        onUpdate({ content: [{ type: 'text', text: 'half' }], details: 1 })
      }),
    ],
  },
  'a message that is steered during the first of three tools': {
    answers: () => [calls('a', 'b', 'c'), text('Done.')],
    tools: (agent) => [
      toolOf('a', () => void agent().steer(user('wait'))),
      toolOf('b', undefined, { executionMode: 'sequential' }),
      toolOf('c'),
    ],
  },
  'messages that are steered, one at a time': {
    answers: () => [text('One.'), text('Two.'), text('Three.')],
    acts: async (agent) => {
      agent.steer(user('first'))
      agent.steer(user('second'))
      await agent.prompt('hi')
    },
  },
  'messages that are steered, all at once': {
    answers: () => [text('One.'), text('Two.')],
    options: { steeringMode: 'all' },
    acts: async (agent) => {
      agent.steer(user('first'))
      agent.steer(user('second'))
      await agent.prompt('hi')
    },
  },
  'messages that follow': {
    answers: () => [calls('a'), text('One.'), text('Two.'), text('Three.')],
    tools: () => [toolOf('a')],
    acts: async (agent) => {
      agent.followUp(user('first'))
      agent.followUp(user('second'))
      await agent.prompt('hi')
    },
  },
  'an answer that fails, and is tried again': {
    answers: () => [
      { ...text('Hel'), stopReason: 'error', errorMessage: '529 overloaded' },
      text('Hello.'),
    ],
    acts: async (agent) => {
      await agent.prompt('hi')
      agent.state.messages = agent.state.messages.slice(0, -1)
      await agent.continue()
    },
  },
  'continue with what is queued': {
    answers: () => [text('One.'), text('Two.'), text('Three.')],
    acts: async (agent) => {
      await agent.prompt('hi')
      agent.followUp(user('follow'))
      agent.steer(user('steer'))
      await agent.continue()
    },
  },
  'continue after an answer, with nothing queued': {
    answers: () => [text('One.')],
    acts: async (agent) => {
      await agent.prompt('hi')
      await agent.continue().catch(({ message }: Error) => agent.steer(user(message)))
    },
  },
  'tools at the same time, in the order of their ends': {
    answers: () => [calls('slow', 'quick'), text('Done.')],
    tools: () => {
      const { wait, open } = gate()
      return [toolOf('slow', () => wait), toolOf('quick', open)]
    },
    only: '0.73',
  },
  'a tool that must run alone': {
    answers: () => [calls('a', 'b'), text('Done.')],
    tools: () => [toolOf('a', undefined, { executionMode: 'sequential' }), toolOf('b')],
    only: '0.73',
  },
  'tools that end the run': {
    answers: () => [calls('a', 'b')],
    tools: () => {
      const last = () => ({ content: [], details: {}, terminate: true })
      return [toolOf('a', last), toolOf('b', last)]
    },
    only: '0.73',
  },
  'hooks before and after tools': {
    answers: () => [calls('a', 'b'), text('Done.')],
    tools: () => [
      toolOf('a', (_id, args) => ({ content: [{ type: 'text', text: args.added }], details: {} })),
      toolOf('b'),
    ],
    options: {
      beforeToolCall: async ({ toolCall, args }: any) => {
        args.added = 'changed in place'
        return toolCall.name === 'b' ? { block: true, reason: 'not today' } : undefined
      },
      afterToolCall: async ({ result }: any) => ({ details: { was: result.details } }),
    },
    only: '0.73',
  },
}

async function played(Made: any, { answers, tools, options, acts }: Scene, extra: object) {
  const { streamFn, seen } = playing(...answers())
  let agent: any
  const list = tools?.(() => agent) ?? []
  agent = new Made({ initialState: { model, tools: list }, streamFn, ...options, ...extra })
  const events: unknown[] = []
  agent.subscribe((event: any) => void events.push(shapeOf(event)))
  await (acts?.(agent) ?? agent.prompt('hi'))
  const { messages, isStreaming, pendingToolCalls } = agent.state
  return {
    events,
    messages: shapeOf(messages),
    asked: seen.map(({ roles, tools }) => ({ roles, tools })),
    state: { isStreaming, pending: pendingToolCalls.size, queued: agent.hasQueuedMessages() },
  }
}

const of = (version: '0.54' | '0.73') =>
  Object.keys(scenes).filter((name) => (scenes[name]?.only ?? version) === version)

test.each(of('0.54'))('as pi 0.54: %s', async (name) => {
  const scene = scenes[name] as Scene
  const theirs = await played(Agent054, scene, {})
  expect(await played(Agent, scene, {})).toEqual(theirs)
  expect(theirs.events.length).toBeGreaterThan(3)
})

test.each(of('0.73'))('as pi 0.73: %s', async (name) => {
  const scene = scenes[name] as Scene
  const theirs = await played(Agent073, scene, {})
  expect(await played(Agent, scene, { semantics: '0.73' })).toEqual(theirs)
  expect(theirs.events.length).toBeGreaterThan(3)
})
