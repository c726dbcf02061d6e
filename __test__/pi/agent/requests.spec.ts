// What the rounds of a tool loop send: each request begins with the one before it, so that a provider's prompt cache holds. It must never compare what
// marks a cache.

import { expect, test } from 'vitest'
import { agentLoop } from '../../../pi-agent.js'
import { sse } from '../../support/servers/server.js'
import { serverPerTest } from '../../support/servers/server-per-test.js'
import { modelAt, tool, wires } from '../ai/wires.js'

const server = serverPerTest(() => sse())
const ROUNDS = 5

/** The conversation of a request, without the marks of a cache. */
function conversation(body: any): unknown[] {
  const messages = body.messages ?? body.input ?? body.contents
  return JSON.parse(JSON.stringify(messages), (name, value) =>
    name === 'cache_control' ? undefined : value,
  )
}

const roleOf = (message: any) => message.role ?? message.type

test.each(Object.keys(wires))(
  'each request of a loop is the one before, the answer and its results (%s)',
  async (name) => {
    const wire = wires[name]
    server.use(...Array(ROUNDS).fill(sse(wire.full)), sse(wire.text('Done.')))
    const config = {
      apiKey: 'sk-x',
      model: modelAt(wire, server.url),
      convertToLlm: (all: any) => all,
    }
    const execute = async () => ({
      content: [{ type: 'text' as const, text: 'seen' }],
      details: {},
    })
    const tools = [{ ...tool, label: 'T', execute }] as any
    const prompt = { role: 'user' as const, content: 'Look.', timestamp: 1 }
    const loop = agentLoop([prompt], { systemPrompt: '', messages: [], tools }, config)
    const messages = await loop.result()
    expect(messages.at(-1)).toMatchObject({ stopReason: 'stop' })
    const sent = server.seen.map(({ body }) => conversation(body))
    expect(sent).toHaveLength(ROUNDS + 1)
    const growth = sent.slice(1).map((next, at) => {
      expect(next.slice(0, sent[at].length)).toEqual(sent[at])
      return next.slice(sent[at].length).map(roleOf)
    })
    // No line of ours is between an answer and what came before it.
    expect(growth).toEqual(Array(ROUNDS).fill(growth[0]))
  },
)
