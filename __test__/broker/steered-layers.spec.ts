// Messages that enter a running turn, and the host's function for the layers of a context. It must never wait for a time.

import { expect, test } from 'vitest'
import type { AgentEngine, ContextLayer, LayerChange } from '../../index.js'
import { askedServer, brokerAt } from '../support/broker.js'
import { waitingTool } from '../support/tools.js'

const to = { session: 'agent:main:main' }
const agent = { model: 'test-model', provider: 'test' }
const time = '2026-11-23T06:45:12+01:00'

/** The recorded layers of the user's messages, by name and source. */
async function recorded(engine: AgentEngine): Promise<unknown[]> {
  const { rows } = await engine.ledger.query(
    "SELECT turn_id, id, context_json FROM messages WHERE role = 'user' ORDER BY sequence",
  )
  const read = rows.map(async ({ turn_id, id, context_json }) => {
    const turn = await engine.ledger.turn(String(turn_id))
    const content = turn?.messages.find((it) => it.id === id)?.content
    const layers: ContextLayer[] | null = JSON.parse(String(context_json))
    return [content, layers?.map(({ name, source }) => [name, source]) ?? null]
  })
  return Promise.all(read)
}

/** The text of a tag, with its nonce as `N`. */
const plain = (text: string) => text.replaceAll(/nonce="[0-9a-f]{16}"/g, 'nonce="N"')

test('a message that is steered into a running turn passes `context.layers`, with its own layers only', async () => {
  const { server, next } = await askedServer()
  const { wait, begun, finish } = waitingTool()
  const seen: [string, string, LayerChange[]][] = []
  const { broker, engine } = brokerAt(server.url, {
    agents: { main: { ...agent, systemPrompt: 'You are Atlas.', toolset: 'house' } },
    toolsets: { house: [wait] },
    context: {
      layers: async (layers, { text, turnId }) => {
        seen.push([text, turnId, layers])
        return [...layers, { name: 'cortex', source: 'memory', text: `about ${text}` }]
      },
    },
  })
  const first = broker.execute({ to, message: 'a' })
  ;(await next()).calls(['c', 'wait', {}])
  await begun
  const steered = broker.execute({ to, message: 'b', mode: 'steer', event: { from: 'ann', time } })
  expect((await steered.receipt).disposition).toBe('steered')
  // The function has answered as soon as the call is skipped or ended by the message.
  while (seen.length < 2) await new Promise((resolve) => setImmediate(resolve))
  await new Promise((resolve) => setImmediate(resolve))
  finish()
  const asked = await next()
  const tag = (name: string, attributes: string, text: string) =>
    `<${name} nonce="N"${attributes}>${text}</${name} nonce="N">`
  expect(asked.texts.map(plain)).toEqual([
    tag('memory', ' source="memory"', '\nabout a\n'),
    'a',
    tag('memory', ' source="memory"', '\nabout b\n'),
    tag('event', ` from="ann" time="${time}"`, ''),
    'b',
  ])
  asked.answer('to both')
  const { turnId } = await first.result
  expect(seen.map(([text, turn, layers]) => [text, turn, layers.map(({ name }) => name)])).toEqual([
    ['a', turnId, ['persona', 'session']],
    ['b', turnId, ['event']],
  ])
  const turn = await engine.ledger.turn(turnId)
  const users = turn?.messages.filter(({ role }) => role === 'user') ?? []
  expect(users.map(({ content }) => content)).toEqual(['a', 'b'])
  expect(await recorded(engine)).toEqual([
    [
      'a',
      [
        ['persona', 'systemPrompt'],
        ['session', to.session],
        ['cortex', 'memory'],
      ],
    ],
    [
      'b',
      [
        ['event', 'message'],
        ['cortex', 'memory'],
      ],
    ],
  ])
})

test('the event of a steered message is recorded with it, and a message without one has no layers', async () => {
  const { server, next } = await askedServer()
  const { wait, begun, finish } = waitingTool()
  const { broker, engine } = brokerAt(server.url, {
    agents: { main: { ...agent, toolset: 'house' } },
    toolsets: { house: [wait] },
  })
  const first = broker.execute({ to, message: 'a' })
  ;(await next()).calls(['c', 'wait', {}])
  await begun
  for (const message of ['b', 'c']) {
    const event = message === 'b' ? { from: 'ann', time } : undefined
    const { receipt } = broker.execute({ to, message, mode: 'steer', event })
    expect((await receipt).disposition).toBe('steered')
  }
  finish()
  ;(await next()).answer('to all')
  await first.result
  const prompt = [
    ['persona', 'tools'],
    ['session', to.session],
  ]
  expect(await recorded(engine)).toEqual([
    ['a', prompt],
    ['b', [['event', 'message']]],
    ['c', null],
  ])
})

test('a steered message for which `context.layers` throws fails in a turn of its own, with the reason', async () => {
  const { server, next } = await askedServer()
  const { wait, begun, finish } = waitingTool()
  const { broker } = brokerAt(server.url, {
    agents: { main: { ...agent, toolset: 'house' } },
    toolsets: { house: [wait] },
    context: {
      layers: async (layers, { text }) => {
        if (text === 'b') throw new Error('no memory')
        return layers
      },
    },
  })
  const errors: string[] = []
  broker.on('error', ({ message }) => errors.push(message))
  const first = broker.execute({ to, message: 'a' })
  ;(await next()).calls(['c', 'wait', {}])
  await begun
  const steered = broker.execute({ to, message: 'b', mode: 'steer' })
  await steered.receipt
  finish()
  ;(await next()).answer('to a')
  expect((await first.result).text).toBe('to a')
  await expect(steered.result).rejects.toMatchObject({
    code: 'not_delivered',
    message: expect.stringContaining('no memory'),
  })
  expect(errors.length).toBeGreaterThan(0)
})
