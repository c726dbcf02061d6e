// createMemoryTools: what a model recalls, stores and forgets is bound to the session of its call. It must never reach another session.

import { expect, test } from 'vitest'
import {
  type AgentEngine,
  createMemoryTools,
  type MemoryFact,
  type MemoryKind,
  type PlainTool,
  type ScriptedReply,
} from '../../../index.js'
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

test('a call that replaces a fact and runs again after a crash has the fact that it has stored', async () => {
  const engine = remembering([])
  const about = { entity: 'alice', type: 'home' }
  const rome = await engine.memory.storeFact({ ...about, content: 'Rome', session: 'one' })
  const [, remember] = createMemoryTools(engine, { write: true }) as PlainTool[]
  const calling = (supersedes: string, callId: string, sessionLabel = 'one') => {
    const call = { sessionLabel, turnId: 't1', callId, idempotencyKey: callId }
    return remember?.run?.({ ...about, content: 'Oslo', supersedes }, call as never)
  }
  const stored = await calling(rome.id, 'c1')
  expect(stored).toMatch(/^Stored as [0-9A-Z]{26}\.$/)
  expect(await calling(rome.id, 'c1')).toBe(stored)
  // Another call has not stored it.
  await expect(calling(rome.id, 'c2')).rejects.toThrow(`there is no fact ${rome.id}`)
  await expect(calling('none', 'c1')).rejects.toThrow('there is no fact none')
  const list = () => engine.memory.facts({ all: true, superseded: true })
  const [, oslo] = (await list()).items
  expect((await list()).items.map(({ content }) => content)).toEqual(['Rome', 'Oslo'])
  expect(stored).toBe(`Stored as ${oslo?.id}.`)
  // Also where the fact that it has stored does not hold any more.
  await engine.memory.supersede(oslo?.id ?? '', { ...about, content: 'Bern', session: 'one' })
  expect(await calling(rome.id, 'c1')).toBe(stored)
  // Without a call, it is the same mistake as ever.
  const bern = { ...about, content: 'Mars', session: 'one' }
  await expect(engine.memory.supersede(rome.id, bern)).rejects.toMatchObject({
    code: 'unknown_fact',
  })
})

test('a group ends no fact that others see as well: not a global one, nor one of its agent', async () => {
  const group = 'agent:atlas:slack:group:g'
  const { file } = folder()
  const about = { entity: 'office', type: 'address' }
  const host = remembering([], file)
  const scopes = [{ kind: 'global' }, { kind: 'agent', id: 'atlas' }] as const
  const known = [
    await host.memory.storeFact({ ...about, content: 'Rome', scope: scopes[0] }),
    await host.memory.storeFact({ ...about, content: 'Oslo', scope: scopes[1] }),
    await host.memory.storeFact({ ...about, content: 'Bern', session: 'agent:atlas:main' }),
  ]
  const replies = known.flatMap(({ id }) => [
    call('remember', { ...about, content: 'Mars', supersedes: id }),
    { text: 'Done.' },
  ])
  const engine = remembering(replies, file)
  for (const { id } of known) {
    expect(await called(engine, group)).toContain(`there is no fact ${id} that holds in this`)
  }
  expect((await engine.memory.facts({ all: true, superseded: true })).items).toEqual(known)
  // A host decides for itself, and may bind itself in the same way.
  const [rome, oslo] = known as [MemoryFact, MemoryFact]
  const mars = { ...about, content: 'Mars', session: group }
  const refused = engine.memory.supersede(oslo.id, mars, { within: group })
  await expect(refused).rejects.toMatchObject({ code: 'unknown_fact' })
  expect(await engine.memory.supersede(rome.id, mars)).toMatchObject({ content: 'Mars' })
})

test('observations of a tool are no conflicts of each other: a context has each that is found, on a line of its own', async () => {
  const count = 8
  const calls = Array.from({ length: count }, (_, n) => ({
    id: `c${n}`,
    name: 'look',
    arguments: { at: n },
  }))
  const options = { ledger: { path: folder().file }, memory: { observations: ['look'] } }
  const defaults = { model: 'test-model', provider: 'test' }
  const replies = [{ toolCalls: calls }, { text: 'Seen.' }]
  const engine = closing(scriptedEngine(replies, { ...options, defaults }).engine)
  const seen = 'kites ships trains planes clouds rivers bridges towers'.split(' ')
  const run = ({ at }: { at: number }) =>
    `I have looked for a long time and what I saw there were ${seen[at]} and nothing else`
  const tools = [{ name: 'look', description: 'Looks.', run: run as never }]
  await engine.run('Look.', { session: 'main', tools }).result
  const kinds: MemoryKind[] = ['fact']
  const wanted = { session: 'main', kinds, tokens: 1_000, limit: 20 }
  const { text, hits } = await engine.memory.context('What did you look at?', wanted)
  expect(hits.map(({ conflicts }) => conflicts)).toEqual(hits.map(() => []))
  expect(text.split('\n')).toHaveLength(count)
  for (const word of seen) expect(text.split(word)).toHaveLength(2)
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
