// What a broker's turns get of the memory: a marked block of the message and a layer that is recorded, and nothing that the context has
// anyway. It must never be in the system prompt.

import { expect, test } from 'vitest'
import { type AgentEngineOptions, Broker, type BrokerOptions } from '../../../index.js'
import { afterwards, closing, folder } from '../../support/cleanup.js'
import { scriptedEngine } from '../../support/engine.js'

const agent = { model: 'test-model', provider: 'test', systemPrompt: 'Be brief.' }

function broker(options: AgentEngineOptions = {}, changes: Partial<BrokerOptions> = {}) {
  const replies = Array.from({ length: 10 }, () => ({ text: 'Noted.' }))
  const ledger = { path: folder().file }
  const { engine, provider } = scriptedEngine(replies, { ledger, memory: true, ...options })
  closing(engine)
  const made = new Broker(engine, { agents: { atlas: agent }, ...changes })
  afterwards(() => made.close())
  return { engine, provider, broker: made }
}

/** Sends a message, and the text of the last user message that the model got. */
async function asked(at: ReturnType<typeof broker>, session: string, text: string) {
  const { broker, provider } = at
  await broker.execute({ to: { session }, message: text }).result
  const { messages } = provider.requests.at(-1) ?? { messages: [] }
  return JSON.stringify(messages.at(-1))
}

test('a turn gets what another session of its persona said, quoted in a block before its text', async () => {
  const at = broker({ memory: { scope: 'agent' } })
  await asked(at, 'agent:atlas:main', 'My favourite drink is green tea.')
  const sent = await asked(at, 'agent:atlas:slack:group:g', 'Which drink do I like?')
  expect(sent).toContain('user in agent:atlas:main')
  expect(sent).toContain('My favourite drink is green tea.')
  expect(sent.indexOf('green tea')).toBeLessThan(sent.indexOf('Which drink do I like?'))
  const { items } = await at.engine.ledger.sessions({})
  expect(items).toHaveLength(2)
  const rows = await at.engine.ledger.query(
    'SELECT context_json FROM messages WHERE context_json IS NOT NULL ORDER BY created_at DESC LIMIT 1',
  )
  expect(JSON.stringify(rows.rows)).toContain('cortex')
  expect(JSON.stringify(rows.rows)).toContain('memory')
})

test('what the context has anyway is not in it twice', async () => {
  const at = broker()
  await asked(at, 'agent:atlas:main', 'My favourite drink is green tea.')
  const sent = await asked(at, 'agent:atlas:main', 'Which drink do I like?')
  expect(sent).not.toContain('green tea')
})

test('a group gets nothing of a private conversation, and `context.memory: false` turns it off', async () => {
  const at = broker()
  await asked(at, 'agent:atlas:main', 'The code is rosebud.')
  expect(await asked(at, 'agent:atlas:slack:group:g', 'What is rosebud?')).not.toContain('code is')
  const off = broker({ memory: { scope: 'agent' } }, { context: { memory: false } })
  await asked(off, 'agent:atlas:main', 'The code is rosebud.')
  expect(await asked(off, 'agent:atlas:dm:bob', 'What is rosebud?')).not.toContain('code is')
})

test('a context has the system prompt, the recent turns, and then what is remembered before the request', async () => {
  const at = broker({ memory: { scope: 'agent' } })
  await asked(at, 'agent:atlas:main', 'The code is rosebud.')
  await asked(at, 'agent:atlas:dm:bob', 'A recent turn.')
  await asked(at, 'agent:atlas:dm:bob', 'What is rosebud?')
  const { system, messages } = at.provider.requests.at(-1) as {
    system: string
    messages: unknown[]
  }
  expect(system).toBe('Be brief.')
  const [first, , last] = messages.map((message) => JSON.stringify(message))
  expect(messages).toHaveLength(3)
  expect(first).toContain('A recent turn.')
  expect(last.indexOf('code is rosebud')).toBeGreaterThan(0)
  expect(last.indexOf('code is rosebud')).toBeLessThan(last.indexOf('What is rosebud?'))
})

test('after a compaction a context has the summary, the recent turns, what is remembered, and then the request', async () => {
  const at = broker({ memory: { scope: 'agent' } })
  const session = 'agent:atlas:main'
  await asked(at, 'agent:atlas:dm:bob', 'The code is rosebud.')
  for (const about of ['kites', 'ships', 'trains', 'planes', 'clouds']) {
    await asked(at, session, `A turn about ${about}. ${'It goes on. '.repeat(40)}`)
  }
  expect(await at.engine.compact(session)).toMatchObject({ turnsSummarized: expect.any(Number) })
  const last = await asked(at, session, 'What is rosebud?')
  const { system, messages } = at.provider.requests.at(-1) as {
    system: string
    messages: unknown[]
  }
  expect(system).toBe('Be brief.')
  const first = JSON.stringify(messages[0])
  expect(first).toContain('[Previous conversation summary]:')
  expect(first).not.toContain('rosebud')
  const block = last.indexOf('The code is rosebud.')
  expect(block).toBeGreaterThan(0)
  expect(block).toBeLessThan(last.indexOf('What is rosebud?'))
})
