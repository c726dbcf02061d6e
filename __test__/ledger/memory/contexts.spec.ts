// What a broker's turns get of the memory: a marked block of the message and a layer that is recorded, and nothing that the context has
// anyway. It must never be in the system prompt.

import { expect, test } from 'vitest'
import {
  type AgentEngineOptions,
  Broker,
  type BrokerOptions,
  type ContextLayer,
} from '../../../index.js'
import { askedServer, brokerAt } from '../../support/broker.js'
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

test('a message records what it got of the memory: the ids, why each was found, and why vectors were not searched', async () => {
  const embed = async () => Promise.reject(new Error('no connection'))
  const at = broker({ memory: { scope: 'agent', embedder: { embed } } })
  const home = { entity: 'Home of Ann', type: 'place', session: 'agent:atlas:main' }
  const rome = await at.engine.memory.storeFact({ ...home, content: 'Rome' })
  const oslo = await at.engine.memory.storeFact({ ...home, content: 'Oslo' })
  const { turnId } = await at.broker.execute({
    to: { session: 'agent:atlas:main' },
    message: 'My favourite drink is jasmine.',
  }).result
  const layers = async (text: string) => {
    await asked(at, 'agent:atlas:dm:bob', text)
    const { rows } = await at.engine.ledger.query(
      "SELECT context_json FROM messages WHERE role = 'user' ORDER BY created_at DESC, id DESC LIMIT 1",
    )
    const all: ContextLayer[] = JSON.parse(String(rows[0]?.context_json))
    return all.filter(({ name }) => name === 'cortex')
  }
  const problem = expect.stringMatching(/^the embedder failed: no connection/)
  const why = 'words'
  expect(await layers('Which drink, jasmine?')).toMatchObject([
    { source: 'memory', recalled: { hits: [{ kind: 'turn', id: turnId, why }], problem } },
  ])
  // The second fact is a conflict of the first, and comes with it.
  const [{ recalled }] = (await layers('And the place of Rome?')) as [ContextLayer]
  expect(recalled?.hits.filter(({ kind }) => kind === 'fact')).toEqual(
    [rome, oslo].map(({ id }) => ({ kind: 'fact', id, why })),
  )
  expect(await layers('Zzz.')).toMatchObject([
    { source: 'memory', tokens: 0, recalled: { hits: [], problem } },
  ])
})

test('a layer of the memory that `context.layers` leaves as it was is recorded with what was found, and a changed one without', async () => {
  for (const isChanged of [false, true]) {
    const change = (layers: ContextLayer[]) =>
      layers.map((it) => (isChanged && it.name === 'cortex' ? { ...it, text: 'Nothing.' } : it))
    const at = broker({ memory: { scope: 'agent' } }, { context: { layers: change } })
    await asked(at, 'agent:atlas:main', 'My favourite drink is jasmine.')
    const sent = await asked(at, 'agent:atlas:dm:bob', 'Which drink, jasmine?')
    expect(sent.includes('Nothing.')).toBe(isChanged)
    const { rows } = await at.engine.ledger.query(
      "SELECT m.context_json FROM messages m JOIN turns t ON t.id = m.turn_id WHERE m.role = 'user' AND t.session_label LIKE '%bob'",
    )
    const all: ContextLayer[] = JSON.parse(String(rows[0]?.context_json))
    const cortex = all.filter(({ name }) => name === 'cortex')
    expect(cortex.map(({ recalled }) => recalled?.hits.length)).toEqual([isChanged ? undefined : 1])
  }
})

test('a subagent gets what its parent may see, and its texts are remembered where those of its parent are', async () => {
  const { server, next } = await askedServer()
  const model = { model: 'test-model', provider: 'test' }
  const agents = { main: { ...model, subagents: { allowAgents: ['coder'] } }, coder: model }
  const options = { agents, defaultAgent: 'main' }
  const at = brokerAt(server.url, options, { memory: true })
  const { memory } = at.engine
  const session = 'agent:main:main'
  const about = { entity: 'word', type: 'is' }
  await memory.storeFact({ ...about, content: 'a private lemur', session })
  const { result } = at.broker.execute({ to: { session }, message: 'Begin.' })
  ;(await next()).calls([
    'c',
    'spawn_agent',
    { agent: 'coder', task: 'The word: a lemur of tasks.' },
  ])
  const child = await next()
  expect(child.seen.raw).toContain('a private lemur')
  child.answer('It is an okapi.')
  ;(await next()).answer('Done.')
  const { toolCalls } = await result
  const worker = toolCalls[0]?.spawnedSessionLabel ?? ''
  const { hits } = await memory.search('okapi', { session })
  expect(hits).toMatchObject([{ sessionLabel: worker, scope: { kind: 'persona', id: 'main' } }])
  const other = await memory.search('okapi lemur', { session: 'agent:main:slack:group:g' })
  expect(other.hits).toEqual([])
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
