// The ledger's lists and the names of sessions: their results after real runs, and the errors with their field. Which index a
// list uses is tested in the core. It must never read a table.

import { describe, expect, test } from 'vitest'
import {
  type AgentEngine,
  parseSessionKey,
  type ScriptedProvider,
  type ScriptedReply,
} from '../../index.js'
import { context, testModel } from '../support/engine.js'
import { scriptedLedger } from '../support/ledger/scripted-ledger.js'
import { refusal } from '../support/ledger/sqlite3.js'
import { price } from '../support/values/prices.js'

const scripted = (replies: ScriptedReply[] = []) =>
  scriptedLedger(replies, { models: [testModel, { ...testModel, id: 'priced', cost: price }] })

async function runTurn(engine: AgentEngine, content: string, changes: object = {}) {
  const currentMessage = { role: 'user' as const, content }
  const result = await engine.run(context({ currentMessage, ...changes })).result
  expect([result.stopReason, result.persisted]).toEqual(['end_turn', true])
  return result
}

/** `role: text` of every message of the last request. */
function requested(provider: ScriptedProvider): string[] {
  const request = provider.requests.at(-1)
  return (request?.messages as { role: string; blocks: any[] }[]).map(
    ({ role, blocks }) =>
      `${role}: ${blocks.map((it) => it.text ?? it.content?.[0].text ?? it.name).join(' ')}`,
  )
}

/** Every item of a list, two at a time. */
async function all<Item, After>(
  list: (page: { after?: any; limit: number }) => Promise<{ items: Item[]; next: After | null }>,
): Promise<Item[]> {
  const items: Item[] = []
  let after: After | undefined
  for (;;) {
    const page = await list({ ...(after === undefined ? {} : { after }), limit: 2 })
    items.push(...page.items)
    expect(page.items.length).toBeLessThanOrEqual(2)
    if (page.next === null) return items
    after = page.next
  }
}

const look = { name: 'look', run: ({ at }: { at: string }) => `seen ${at}` }
const looking = (...targets: string[]): ScriptedReply => ({
  text: 'looking',
  toolCalls: targets.map((at) => ({ id: `call-${at}`, name: 'look', arguments: { at } })),
})

describe('reading', () => {
  test('a thread is read from any turn, up and down, page by page', async () => {
    const { engine, ledger } = scripted(['1', '2', '3', '4'])
    const turns = []
    for (const text of ['one', 'two', 'three']) turns.push((await runTurn(engine, text)).turnId)
    const [first, second, third] = turns as [string, string, string]
    await ledger.fork(first, 'side')
    const beside = (await runTurn(engine, 'four', { sessionLabel: 'side' })).turnId
    const up = await all((page) => ledger.ancestry(third, page))
    expect(up.map(({ id, depth }) => [id, depth])).toEqual([
      [third, 2],
      [second, 1],
      [first, 0],
    ])
    const down = await all((page) => ledger.children(first, page))
    expect(down.map(({ id, sessionLabel }) => [id, sessionLabel])).toEqual([
      [second, 'agent:main:main'],
      [beside, 'side'],
    ])
    const moves = await all((page) => ledger.sessionHistory('agent:main:main', page))
    expect(moves.map(({ threadId }) => threadId)).toEqual(turns)
    const then = await ledger.asOf('agent:main:main', new Date(moves[2]?.changedAt ?? 0))
    expect(then?.threadId).toBe(third)
    expect(await ledger.asOf('agent:main:main', (moves[0]?.changedAt ?? 0) - 1)).toBeNull()
  })

  test('a search finds messages of users and models, and no tool results', async () => {
    const { engine, ledger } = scripted([
      looking('Überlingen'),
      'The Invoice is overdue, 上下文过长',
      'no',
    ])
    const found = await runTurn(engine, 'what of invoice 42?', { tools: [look] })
    await runTurn(engine, 'and now?', { sessionLabel: 'other' })
    const hits = await all((page) => ledger.search('invoice', page))
    expect(hits.map(({ role, turnId, excerpt }) => [role, turnId, excerpt])).toEqual([
      ['assistant', found.turnId, 'The Invoice is overdue, 上下文过长'],
      ['user', found.turnId, 'what of invoice 42?'],
    ])
    expect(hits[0]?.messageId).toBe(found.messages.at(-1)?.id)
    const count = async (text: string) => (await ledger.search(text)).items.length
    expect([await count('overd*'), await count('下文'), await count('42 INVOICE')]).toEqual([
      1, 1, 1,
    ])
    expect([await count('seen'), await count('überlingen'), await count('"')]).toEqual([0, 0, 0])
    expect((await ledger.search('now', { sessionLabel: 'agent:main:main' })).items).toEqual([])
  })

  test('a running turn is in no list, and its session is in that of sessions', async () => {
    const { engine, ledger, provider } = scripted([looking('a'), { gate: 'go', text: 'done' }])
    const run = engine.run(context({ tools: [look] }))
    for await (const event of run) {
      if (event.type !== 'tool_status' || event.status === 'started') continue
      const { items } = await ledger.sessions()
      expect(items.map(({ label, threadId }) => [label, threadId])).toEqual([
        ['agent:main:main', null],
      ])
      const lists = [ledger.toolCalls(), ledger.search('hi')]
      lists.push(ledger.usage({ by: 'session' }) as never)
      for (const list of await Promise.all(lists)) expect(list).toEqual({ items: [], next: null })
      provider.open('go')
    }
    expect((await ledger.search('hi')).items.length).toBe(1)
    expect((await ledger.toolCalls()).items.length).toBe(1)
  })

  test('usage is summed by session, agent, model and day, with unknown prices separate', async () => {
    const usage = { inputTokens: 1_000_000, outputTokens: 100_000 }
    const { engine, ledger } = scripted([
      { text: 'a', usage },
      { text: 'b', usage },
    ])
    await runTurn(engine, 'x', { sessionLabel: 'agent:a:main', model: 'priced' })
    await runTurn(engine, 'y', { sessionLabel: 'agent:a:dm:you' })
    const used = {
      inputTokens: 2_000_000,
      outputTokens: 200_000,
      cachedInputTokens: 0,
      cacheWriteTokens: 0,
      reasoningTokens: 0,
      totalTokens: 2_200_000,
    }
    const { items } = await ledger.usage({ by: 'agent' })
    expect(items).toEqual([
      {
        key: 'a',
        turns: 2,
        usage: used,
        estimatedTurns: 0,
        cost: 2,
        unpricedTurns: 1,
        compactions: 0,
        compactionUsage: Object.fromEntries(Object.keys(used).map((key) => [key, 0])),
        compactionCost: null,
        memoryCalls: 0,
        memoryUsage: Object.fromEntries(Object.keys(used).map((key) => [key, 0])),
        memoryCost: null,
      },
    ])
    const usageRows = async (by: 'session' | 'model' | 'day') =>
      (await all((page) => ledger.usage({ by, ...page }))).map(({ key, cost }) => [key, cost])
    expect(await usageRows('session')).toEqual([
      ['agent:a:dm:you', null],
      ['agent:a:main', 2],
    ])
    expect(await usageRows('model')).toEqual([
      ['test/priced', 2],
      ['test/test-model', null],
    ])
    const since = (await ledger.sessionHistory('agent:a:main')).items[0]?.changedAt ?? 0
    const later = await ledger.usage({ by: 'day', since: since + 86_400_000 })
    expect(later).toEqual({ items: [], next: null })
    expect((await usageRows('day')).map(([, cost]) => cost)).toEqual([2])
  })

  test('usage is listed by request, and call by call within one', async () => {
    const calls = [
      { toolCalls: [{ name: 'look' }], usage: { inputTokens: 1_000_000, outputTokens: 100_000 } },
      { text: 'a', usage: { inputTokens: 3_000_000, outputTokens: 200_000 } },
    ]
    const { engine, ledger } = scripted([...calls, { text: 'b' }, { text: 'c' }])
    const one = await runTurn(engine, 'x', { tools: [look], model: 'priced' })
    const two = await runTurn(engine, 'y')
    const three = await runTurn(engine, 'z', { sessionLabel: 'other' })
    const usageRows = await all((page) => ledger.usage({ by: 'turn', ...page }))
    expect(usageRows.map(({ key, usage, cost }) => [key, usage, cost])).toEqual(
      [one, two, three].map(({ turnId, usage, cost }) => [turnId, usage, cost]),
    )
    const label = { by: 'turn', sessionLabel: 'other' } as const
    expect((await ledger.usage(label)).items.map(({ key }) => key)).toEqual([three.turnId])

    const { attempts } = (await ledger.turn(one.turnId)) ?? { attempts: [] }
    expect(
      attempts.map(({ usage, cost }) => [usage?.inputTokens, usage?.outputTokens, cost]),
    ).toEqual([
      [1_000_000, 100_000, 2],
      [3_000_000, 200_000, 5],
    ])
    expect(attempts).toEqual(one.attempts)
  })

  test('tool calls are listed by session, turn, tool and status', async () => {
    const fails = {
      name: 'fails',
      run: () => {
        throw new Error('no')
      },
    }
    const calls: ScriptedReply = { toolCalls: [{ id: 'x', name: 'fails' }] }
    const { engine, ledger } = scripted([looking('a', 'b'), 'ok', calls, 'ok'])
    const tools = [look, fails]
    const first = await runTurn(engine, '1', { tools })
    const second = await runTurn(engine, '2', { tools, sessionLabel: 'other' })
    const listed = await all((page) => ledger.toolCalls(page))
    expect(listed.map(({ callId, turnId, status }) => [callId, turnId, status])).toEqual([
      ...first.toolCalls.map(({ callId }) => [callId, first.turnId, 'completed']),
      ...second.toolCalls.map(({ callId }) => [callId, second.turnId, 'failed']),
    ])
    const of = async (filter: object) =>
      (await ledger.toolCalls(filter)).items.map(({ sessionLabel, toolName }) => [
        sessionLabel,
        toolName,
      ])
    expect(await of({ status: 'failed' })).toEqual([['other', 'fails']])
    expect(await of({ sessionLabel: 'other' })).toEqual([['other', 'fails']])
    expect(await of({ turnId: first.turnId, toolName: 'look' })).toHaveLength(2)
    expect(await of({ toolName: 'nothing' })).toEqual([])
  })

  test('a wrong argument is refused with its field', async () => {
    const { engine, ledger } = scripted(['ok'])
    await runTurn(engine, 'x')
    const anything = ledger as any
    const cases: [() => Promise<unknown>, string, string?][] = [
      [() => ledger.ancestry('none'), 'unknown_turn'],
      [() => anything.ancestry(1), 'invalid_context', 'turnId'],
      [() => ledger.children('none'), 'unknown_turn'],
      [() => ledger.sessions({ limit: 0 }), 'invalid_query', 'filter.limit'],
      [() => ledger.sessions({ limit: 1001 }), 'invalid_query', 'filter.limit'],
      [() => anything.sessions({ colour: 1 }), 'invalid_query', 'filter.colour'],
      [() => anything.sessions({ status: 'gone' }), 'invalid_query', 'filter.status'],
      [() => anything.sessions([]), 'invalid_query', 'filter'],
      [() => anything.usage(), 'invalid_query', 'filter'],
      [() => anything.usage({ by: 'moon' }), 'invalid_query', 'filter.by'],
      [() => ledger.usage({ by: 'model', after: 'x' }), 'invalid_query', 'filter.after'],
      [() => ledger.usage({ by: 'day', since: 1.5 }), 'invalid_query', 'filter.since'],
      [() => ledger.toolCalls({ after: 'x' }), 'invalid_query', 'filter.after'],
      [() => anything.search(7), 'invalid_query', 'text'],
      [() => anything.search('x', { after: 'y' }), 'invalid_query', 'options.after'],
      [() => ledger.sessionHistory('none'), 'unknown_session'],
      [
        () => ledger.sessionHistory('agent:main:main', { after: '77' }),
        'invalid_query',
        'page.after',
      ],
      [() => anything.asOf('agent:main:main', 'noon'), 'invalid_query', 'time'],
      [() => ledger.asOf('agent:main:main', new Date(Number.NaN)), 'invalid_query', 'time'],
    ]
    for (const [asking, code, field] of cases) {
      expect(await refusal(asking())).toEqual(field === undefined ? { code } : { code, field })
    }
  })
})

describe('names of sessions', () => {
  test('a run on an alias belongs to its session, in the order it was started', async () => {
    const { engine, ledger, provider } = scripted(['0', { gate: 'go', text: '1' }, '2', '3'])
    const runInSession = (content: string, sessionLabel: string) =>
      engine.run(context({ currentMessage: { role: 'user', content }, sessionLabel }))
    await runInSession('zero', 'real').result
    await ledger.alias('nick', 'real')
    const runs = [
      runInSession('one', 'real'),
      runInSession('two', 'nick'),
      runInSession('three', 'nick'),
    ]
    provider.open('go')
    const results = await Promise.all(runs.map((run) => run.result))
    expect(results.map(({ stopReason, persisted }) => [stopReason, persisted])).toEqual(
      runs.map(() => ['end_turn', true]),
    )
    expect(requested(provider)).toEqual([
      'user: zero',
      'assistant: 0',
      'user: one',
      'assistant: 1',
      'user: two',
      'assistant: 2',
      'user: three',
    ])
    expect((await ledger.sessions()).items.map(({ label }) => label)).toEqual(['real'])
    expect(await ledger.session('nick')).toEqual(await ledger.session('real'))
    expect((await ledger.turn(results[2]?.turnId ?? ''))?.sessionLabel).toBe('real')
  })

  test('an abort before a run on an alias began creates no session for the alias', async () => {
    const { engine, ledger } = scripted(['0'])
    await runTurn(engine, 'zero', { sessionLabel: 'real' })
    await ledger.alias('nick', 'real')
    const run = engine.run(context({ sessionLabel: 'nick', abortSignal: AbortSignal.abort() }))
    expect((await run.result).stopReason).toBe('aborted')
    expect((await ledger.sessions()).items.map(({ label }) => label)).toEqual(['real'])
    expect(await ledger.resolve('nick')).toBe('real')
  })

  test('an alias of a session that does not exist yet creates it', async () => {
    const { engine, ledger } = scripted(['0'])
    await ledger.alias('nick', 'later')
    await runTurn(engine, 'zero', { sessionLabel: 'nick' })
    expect((await ledger.sessions()).items.map(({ label }) => label)).toEqual(['later'])
    expect(await engine.countTokens(context({ sessionLabel: 'nick' }))).toEqual(
      await engine.countTokens(context({ sessionLabel: 'later' })),
    )
  })

  test('a run makes an archived session active again; an alias with its name wins', async () => {
    const { engine, ledger } = scripted(['1', '2', '3'])
    await runTurn(engine, 'a', { sessionLabel: 'one' })
    expect((await ledger.archive('one')).status).toBe('archived')
    expect((await ledger.sessions({ status: 'active' })).items).toEqual([])
    await runTurn(engine, 'b', { sessionLabel: 'one' })
    expect((await ledger.session('one'))?.status).toBe('active')
    await ledger.archive('one')
    await ledger.alias('one', 'two')
    await runTurn(engine, 'c', { sessionLabel: 'one' })
    expect((await ledger.sessions()).items.map(({ label, status }) => [label, status])).toEqual([
      ['one', 'archived'],
      ['two', 'active'],
    ])
    await ledger.removeAlias('one')
    expect((await ledger.unarchive('one')).status).toBe('active')
  })

  test('personas have a main session, which is created on first use', async () => {
    const { engine, ledger } = scripted(['1'])
    const persona = await ledger.putPersona('atlas')
    expect(persona).toMatchObject({ id: 'atlas', mainSessionLabel: 'agent:atlas:main' })
    await runTurn(engine, 'a', { sessionLabel: persona.mainSessionLabel })
    expect(await ledger.session('agent:atlas:main')).toMatchObject({
      personaId: 'atlas',
      agentId: 'atlas',
    })
    expect(await ledger.personas()).toEqual({ items: [persona], next: null })
    expect([await ledger.persona('atlas'), await ledger.persona('x')]).toEqual([persona, null])
  })

  test('an invalid name is refused with its field', async () => {
    const { engine, ledger } = scripted(['ok'])
    await runTurn(engine, 'x')
    const anything = ledger as any
    await ledger.alias('a', 'b')
    const cases: [() => Promise<unknown>, string, string][] = [
      [() => ledger.alias('', 'b'), 'invalid_label', 'alias'],
      [() => ledger.alias('x', 'a\nb'), 'invalid_label', 'label'],
      [() => anything.alias('x'), 'invalid_label', 'label'],
      [() => ledger.alias('x'.repeat(513), 'b'), 'invalid_label', 'alias'],
      [() => ledger.alias('b', 'a'), 'storage_constraint', 'label'],
      [() => ledger.alias('agent:main:main', 'b'), 'storage_constraint', 'alias'],
      [() => ledger.putPersona('p'.repeat(510)), 'invalid_label', 'id'],
      [
        () => ledger.putPersona('p', { mainSessionLabel: '' }),
        'invalid_label',
        'options.mainSessionLabel',
      ],
      [() => anything.putPersona('p', { name: 'x' }), 'invalid_query', 'options.name'],
    ]
    for (const [asking, code, field] of cases)
      expect(await refusal(asking())).toEqual({ code, field })
    expect(await refusal(ledger.archive('none'))).toEqual({ code: 'unknown_session' })
  })

  test('a fork at a tool call continues from its results and does not change its turn', async () => {
    const { engine, ledger, provider } = scripted([
      'hello',
      looking('a', 'b'),
      looking('c'),
      'found it',
      'again',
    ])
    await runTurn(engine, 'hi')
    const result = await runTurn(engine, 'look', { tools: [look] })
    const before = await ledger.turn(result.turnId)
    const [first] = result.toolCalls
    const session = await ledger.fork(result.turnId, { atToolCall: first?.callId ?? '' })
    expect(session.label).toMatch(/^fork-/)
    await runTurn(engine, 'another way', { tools: [look], sessionLabel: session.label })
    expect(requested(provider)).toEqual([
      'user: hi',
      'assistant: hello',
      'user: look',
      'assistant: looking look look',
      'tool: seen a',
      'tool: seen b',
      // As after every turn that ends with results.
      'assistant: [This turn ended here, without an answer.]',
      'user: another way',
    ])
    expect(await ledger.turn(result.turnId)).toEqual(before)
    const used = await ledger.usage({ by: 'session', sessionLabel: session.label })
    expect(used.items.map(({ turns }) => turns)).toEqual([2])
    expect(await refusal(ledger.fork(result.turnId, { atToolCall: 'none' }))).toEqual({
      code: 'unknown_tool_call',
      field: 'options.atToolCall',
    })
    expect(await refusal(ledger.fork(result.turnId, session.label))).toEqual({
      code: 'storage_constraint',
      field: 'label',
    })
  })

  test('labels are read and never refused', () => {
    expect(parseSessionKey('agent:atlas:telegram:group:-1:2:thread:7')).toEqual({
      kind: 'group',
      agentId: 'atlas',
      platform: 'telegram',
      container: '-1:2',
      peer: null,
      threadId: '7',
      personaId: null,
      id: null,
    })
    expect(parseSessionKey('dm:me:persona:p')).toMatchObject({
      kind: 'dm',
      peer: 'me',
      personaId: 'p',
    })
    expect(['', 'x', ':::', 'agent:'].map((label) => parseSessionKey(label).kind)).toEqual(
      Array(4).fill('unknown'),
    )
  })
})
