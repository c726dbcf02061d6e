// createMemoryTools: what a model recalls, stores and forgets is bound to the session of its call. It must never reach another session.

import { expect, test } from 'vitest'
import { type AgentEngine, createMemoryTools, type ScriptedReply } from '../../../index.js'
import { closing, folder } from '../../support/cleanup.js'
import { scriptedEngine } from '../../support/engine.js'
import { thrown } from '../../support/refusals.js'

function remembering(replies: ScriptedReply[], path = folder().file) {
  const options = { ledger: { path }, memory: true }
  const defaults = { model: 'test-model', provider: 'test' }
  return closing(scriptedEngine(replies, { ...options, defaults }).engine)
}

/** A turn in which the model calls one tool; the text that it reads. */
async function called(engine: AgentEngine, session: string): Promise<string> {
  const tools = createMemoryTools(engine, { write: true })
  const { toolCalls, messages } = await engine.run('Go.', { session, tools }).result
  expect(toolCalls).toHaveLength(1)
  const result = messages.find(({ role }) => role === 'tool')
  return result?.content ?? ''
}

const call = (name: string, args: unknown): ScriptedReply => ({
  toolCalls: [{ id: 'c1', name, arguments: args as never }],
})

test('a model stores a fact, recalls it in a later session of its scope, and another session does not', async () => {
  const fact = { entity: 'alice', type: 'likes', content: 'green tea' }
  const engine = remembering([
    call('remember', fact),
    { text: 'Stored.' },
    call('recall', { query: 'tea' }),
    { text: 'Green tea.' },
    call('recall', { query: 'tea' }),
    { text: 'I do not know.' },
  ])
  expect(await called(engine, 'agent:atlas:main')).toMatch(/^Stored as [0-9A-Z]{26}\.$/)
  const { items } = await engine.memory.facts({ session: 'agent:atlas:main' })
  expect(items).toMatchObject([
    { ...fact, source: { turnId: expect.any(String), callId: expect.any(String) } },
  ])
  expect(await called(engine, 'agent:atlas:main')).toMatch(
    /^- \[fact since \d{4}-\d{2}-\d{2}\] alice, likes: "green tea"\n\nFacts by id:\n[0-9A-Z]{26}: alice, likes$/,
  )
  expect(await called(engine, 'agent:atlas:slack:group:g')).toBe(
    'Nothing about this is remembered.',
  )
})

test('a model forgets only what belongs to its session', async () => {
  const engine = remembering([
    call('forget', { entity: 'alice' }),
    { text: 'Done.' },
    call('forget', { entity: 'alice' }),
    { text: 'Done.' },
  ])
  const fact = { entity: 'alice', type: 'likes', content: 'tea' }
  await engine.memory.storeFact({ ...fact, session: 'one' })
  await engine.memory.storeFact({ ...fact, scope: { kind: 'global' } })
  expect(await called(engine, 'two')).toBe('Forgotten: 0 facts.')
  expect(await called(engine, 'one')).toBe('Forgotten: 1 fact.')
  const { items } = await engine.memory.facts({ all: true })
  expect(items.map(({ scope }) => scope.kind)).toEqual(['global'])
})

test('a fact is replaced by its id, and not one that the session does not see', async () => {
  const { file } = folder()
  const engine = remembering([], file)
  const about = { entity: 'alice', type: 'home' }
  const rome = await engine.memory.storeFact({ ...about, content: 'Rome', session: 'one' })
  const replies = [
    call('remember', { ...about, content: 'Oslo', supersedes: rome.id }),
    { text: 'Done.' },
  ]
  const other = remembering([...replies, ...replies], file)
  expect(await called(other, 'two')).toContain(`there is no fact ${rome.id}`)
  expect(await called(other, 'one')).toMatch(/^Stored as /)
  const { items } = await engine.memory.facts({ session: 'one', superseded: true })
  expect(items.map(({ content, supersededBy }) => [content, supersededBy !== null])).toEqual([
    ['Rome', true],
    ['Oslo', false],
  ])
})

test('without `write` there is only recall, and a wrong option is refused', () => {
  const engine = remembering([])
  expect(createMemoryTools(engine).map(({ name }) => name)).toEqual(['recall'])
  expect(thrown(() => createMemoryTools(engine, { write: 1 as never }))).toMatchObject({
    code: 'invalid_options',
    field: 'write',
  })
  const plain = closing(scriptedEngine([]).engine)
  expect(thrown(() => createMemoryTools(plain))).toMatchObject({ code: 'no_memory' })
})

test('the results of the named tools are facts of their turn, and those of others are not', async () => {
  const engine = closing(
    scriptedEngine(
      [
        {
          toolCalls: [
            { id: 'c1', name: 'crm_find', arguments: { name: 'Ann' } },
            { id: 'c2', name: 'crm_fail', arguments: {} },
            { id: 'c3', name: 'clock', arguments: {} },
          ],
        },
        { text: 'Found.' },
      ],
      {
        ledger: { path: folder().file },
        memory: { observations: ['crm_*'] },
        defaults: { model: 'test-model', provider: 'test' },
      },
    ).engine,
  )
  const fail = () => {
    throw new Error('no')
  }
  const tools = [
    { name: 'crm_find', description: 'Finds.', run: () => ({ phone: '555-0100' }) },
    { name: 'crm_fail', description: 'Fails.', run: fail },
    { name: 'clock', description: 'Tells the time.', run: () => 'noon' },
  ]
  const { turnId } = await engine.run('Find Ann.', { session: 'main', tools }).result
  const { hits } = await engine.memory.search('555 0100', { session: 'main' })
  expect(hits).toMatchObject([
    {
      kind: 'fact',
      fact: {
        entity: 'crm_find',
        type: 'tool_observation',
        source: { turnId, callId: expect.any(String) },
      },
    },
  ])
  const { items } = await engine.memory.facts({ session: 'main' })
  expect(items.map(({ entity }) => entity)).toEqual(['crm_find'])
})
