// The events and the messages of `/pi-ai` are those of pi's own, of the same bytes. It must never compare what pi makes of chance: ids and times.

import * as pi from '@mariozechner/pi-ai'
import { expect, test } from 'vitest'
import * as ours from '../../../pi-ai.js'
import { sse } from '../../support/servers/server.js'
import { serverPerTest } from '../../support/servers/server-per-test.js'
import { modelAt, tool, wires } from './wires.js'

const server = serverPerTest(() => sse())

type Event = ours.AssistantMessageEvent
type Call = (model: any, context: any, options: any) => any

/** What happened, without the messages. Pieces without text, and the line break that pi adds after a summary, are left out. */
function shape(event: Event): object | undefined {
  const { partial, message, error, ...rest } = event as any
  if (rest.delta === '' || rest.delta === '\n\n') return undefined
  // The object of the message, which gets its signature with the end of the answer: whether it has it yet is chance.
  if (rest.toolCall) {
    const { thoughtSignature, ...call } = rest.toolCall
    rest.toolCall = callOf(call)
  }
  return rest
}

/** A call without its id, which Google has none of, and which pi joins with that of its item at OpenAI. */
function callOf({ id, partialJson, ...call }: any): object {
  return call
}

function messageOf({ timestamp, responseId, ...message }: any): object {
  const content = message.content.map((part: any) =>
    part.type === 'toolCall' ? callOf(part) : part,
  )
  return { ...message, content }
}

async function collected(call: Call, model: ours.Model, options = {}) {
  const messages = [{ role: 'user', content: 'hi', timestamp: 1 }]
  const stream = call(
    model,
    { systemPrompt: 'Be brief.', messages, tools: [tool] },
    {
      apiKey: 'sk-x',
      ...options,
    },
  )
  const events: (object | undefined)[] = []
  for await (const event of stream) events.push(shape(event))
  return {
    events: events.filter((event) => event !== undefined),
    message: messageOf(await stream.result()),
  }
}

test.each(Object.keys(wires))('an answer with thinking, text and calls (%s)', async (name) => {
  const wire = wires[name]
  server.use(sse(wire.full))
  const model = modelAt(wire, server.url)
  const theirs = await collected(pi.streamSimple, model)
  expect(await collected(ours.streamSimple, model)).toEqual(theirs)
  expect(theirs.events.length).toBeGreaterThan(10)
})

test.each(Object.keys(wires))('an answer with a text (%s)', async (name) => {
  const wire = wires[name]
  server.use(sse(wire.text('Hello.')))
  const model = modelAt(wire, server.url)
  const theirs = await collected(pi.stream, model)
  expect(await collected(ours.stream, model)).toEqual(theirs)
  expect(theirs.message).toMatchObject({ content: [{ text: 'Hello.' }], stopReason: 'stop' })
})

test.each(['minimal', 'low', 'medium', 'high'])(
  'the request for thinking has the same settings (%s)',
  async (reasoning) => {
    for (const wire of Object.values(wires)) {
      server.use(sse(wire.text('Hello.')))
      const model = modelAt(wire, server.url)
      await collected(pi.streamSimple, model, { reasoning })
      await collected(ours.streamSimple, model, { reasoning })
      const [theirs, own] = server.seen.splice(0).map(({ body }) => settings(body))
      expect(own).toEqual(theirs)
    }
  },
)

/** The settings of a request. */
function settings(body: any): object {
  const { thinking, reasoning, reasoning_effort, generationConfig } = body
  const most = body.max_tokens ?? body.max_completion_tokens ?? body.max_output_tokens
  return { most, thinking, reasoning, reasoning_effort, generationConfig }
}
