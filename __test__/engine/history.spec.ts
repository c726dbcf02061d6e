// Sessions: what a run on a label continues, what it sends, and forks. The order of the runs of a session is
// engine/session-order.spec.ts. It must never read columns: ledger/rows.spec.ts does.

import { describe, expect, test } from 'vitest'
import { closing, folder, serving } from '../support/cleanup.js'
import { context, engineAt, testModel } from '../support/engine.js'
import { normal, refusal } from '../support/ledger/sqlite3.js'
import { anthropic } from '../support/servers/anthropic.js'
import { chat } from '../support/servers/chat.js'
import { sse } from '../support/servers/server.js'
import { requestTexts, runTurn, scriptedSession, userMessage } from '../support/session-turns.js'

describe('without a history in the context', () => {
  test('a run is sent the earlier messages of its session, tools included', async () => {
    const { engine, provider } = scriptedSession([
      { text: 'looking', toolCalls: [{ id: 'a', name: 'look' }] },
      'one',
      'two',
      'three',
    ])
    await runTurn(engine, 'first', { tools: [{ name: 'look', run: () => 'seen' }] })
    await runTurn(engine, 'second')
    await runTurn(engine, 'third')
    expect(requestTexts(provider).slice(2)).toEqual([
      ['user: first', 'assistant: looking look', 'tool: seen', 'assistant: one', 'user: second'],
      [
        'user: first',
        'assistant: looking look',
        'tool: seen',
        'assistant: one',
        'user: second',
        'assistant: two',
        'user: third',
      ],
    ])
  })

  test('another engine on the same file continues the session', async () => {
    const first = scriptedSession(['one'])
    await runTurn(first.engine, 'first')
    await first.engine.close()
    const second = scriptedSession(['two'], first.file)
    await runTurn(second.engine, 'second')
    expect(requestTexts(second.provider)).toEqual([
      ['user: first', 'assistant: one', 'user: second'],
    ])
  })

  test('a session with another label has nothing of it', async () => {
    const { engine, provider } = scriptedSession(['one', 'two'])
    await runTurn(engine, 'first')
    await runTurn(engine, 'second', { sessionLabel: 'agent:main:Main' })
    expect(requestTexts(provider)[1]).toEqual(['user: second'])
  })

  test('the request of the next turn begins with the bytes of this one', async () => {
    const server = await serving(
      sse(anthropic.calls(['t1', 'look', {}])),
      sse(anthropic.answer('one')),
      sse(anthropic.answer('two')),
    )
    const { file } = folder()
    const engine = closing(engineAt(server.url, { ledger: { path: file } }))
    const tools = [{ name: 'look', run: () => 'seen' }]
    await runTurn(engine, 'first', { tools })
    await runTurn(engine, 'second', { tools })
    const bare = server.seen.map(({ body }) => body.messages.map(withoutMarks))
    expect(bare[1]).toEqual([...bare[0], ...bare[1].slice(bare[0].length)])
    expect(bare[2]).toEqual([...bare[1], ...bare[2].slice(bare[1].length)])
    expect(bare[2].map((message: any) => message.role)).toEqual([
      'user',
      'assistant',
      'user',
      'assistant',
      'user',
    ])
  })

  test('a session that changes its provider is projected for the new one', async () => {
    const server = await serving(
      sse(
        anthropic.start(),
        anthropic.thinking(0, 'hm', 'c2ln'),
        anthropic.toolUse(1, 'toolu_1', 'look', { at: 'x' }),
        anthropic.end('tool_use'),
      ),
      sse(anthropic.answer('one')),
      sse(chat.answer('two')),
    )
    const { file } = folder()
    const engine = closing(
      engineAt(server.url, {
        ledger: { path: file },
        providers: {
          test: { api: 'anthropic-messages', baseUrl: server.url },
          other: { api: 'openai-chat', baseUrl: server.url },
        },
        models: [testModel, { ...testModel, provider: 'other' }],
      }),
    )
    const tools = [{ name: 'look', run: () => 'seen' }]
    await runTurn(engine, 'first', { tools })
    await runTurn(engine, 'second', { tools, provider: 'other' })
    expect(server.seen[2]?.body.messages).toEqual([
      { role: 'system', content: 'You are a test.' },
      { role: 'user', content: 'first' },
      {
        role: 'assistant',
        content: null,
        tool_calls: [
          { id: 'toolu_1', type: 'function', function: { name: 'look', arguments: '{"at":"x"}' } },
        ],
      },
      { role: 'tool', tool_call_id: 'toolu_1', content: 'seen' },
      { role: 'assistant', content: 'one' },
      { role: 'user', content: 'second' },
    ])
  })

  test('an aborted turn stays with its question and its partial text', async () => {
    const { engine, provider } = scriptedSession([
      { steps: [{ text: 'half an' }, { gate: 'never' }] },
      'whole',
    ])
    const run = engine.run(context(userMessage('first')))
    for await (const event of run) if (event.type === 'token') run.abort()
    await run.result
    await runTurn(engine, 'second')
    expect(requestTexts(provider)[1]).toEqual(['user: first', 'assistant: half an', 'user: second'])
  })
})

describe('with a history in the context', () => {
  test('it is sent, and the turn still follows the head', async () => {
    const { engine, ledger, provider } = scriptedSession(['one', 'two', 'three'])
    const first = await runTurn(engine, 'first')
    const second = await runTurn(engine, 'second', {
      history: [
        { role: 'user', content: 'other' },
        { role: 'assistant', content: 'words' },
      ],
    })
    await runTurn(engine, 'third')
    expect(requestTexts(provider).slice(1)).toEqual([
      ['user: other', 'assistant: words', 'user: second'],
      ['user: first', 'assistant: one', 'user: second', 'assistant: two', 'user: third'],
    ])
    expect((await ledger.turn(second))?.parentTurnId).toBe(first)
  })

  test('an empty history counts as one', async () => {
    const { engine, provider } = scriptedSession(['one', 'two'])
    await runTurn(engine, 'first')
    await runTurn(engine, 'second', { history: [] })
    expect(requestTexts(provider)[1]).toEqual(['user: second'])
  })
})

describe('history', () => {
  test('of a label and of a turn is what the next call would have', async () => {
    const { engine, ledger } = scriptedSession(['one', 'two'])
    const since = Date.now()
    const first = await runTurn(engine, 'first')
    await runTurn(engine, 'second')
    const whole = await ledger.history('agent:main:main')
    expect(normal(whole, since)).toEqual(
      ['first', 'one', 'second', 'two'].map((content, n) => ({
        turnId: n < 2 ? '#1' : '#4',
        id: ['#2', '#3', '#5', '#6'][n],
        role: n % 2 === 0 ? 'user' : 'assistant',
        content,
        sequence: n % 2,
        createdAt: 'now',
        blocks: [{ type: 'text', text: content }],
        ...(n % 2 === 0
          ? {}
          : {
              provenance: {
                provider: 'test',
                api: 'scripted',
                model: 'test-model',
                responseId: `scripted_${(n + 1) / 2}`,
              },
              providerStopReason: 'end_turn',
            }),
      })),
    )
    expect(await ledger.history(first)).toEqual(whole.slice(0, 2))
  })

  test('a label that resembles a turn id is looked up as a label first', async () => {
    const { engine, ledger } = scriptedSession(['one', 'two'])
    const first = await runTurn(engine, 'first')
    await runTurn(engine, 'second', { sessionLabel: first })
    expect((await ledger.history(first)).map((message) => message.content)).toEqual([
      'second',
      'two',
    ])
  })
})

describe('fork', () => {
  test('begins at any turn, with or without children, and does not change the original', async () => {
    const { engine, ledger, provider } = scriptedSession(['one', 'two', 'three', 'branch', 'tip'])
    const first = await runTurn(engine, 'first')
    await runTurn(engine, 'second')
    const third = await runTurn(engine, 'third')
    const since = Date.now()
    const branch = await ledger.fork(first, 'branch')
    expect(normal(branch, since)).toEqual({
      label: 'branch',
      agentId: 'main',
      threadId: '#1',
      personaId: 'default',
      isSubagent: false,
      parentSessionLabel: null,
      parentTurnId: null,
      spawnToolCallId: null,
      taskDescription: null,
      taskStatus: null,
      routingKey: null,
      origin: null,
      originSessionId: null,
      createdAt: 'now',
      updatedAt: 'now',
      status: 'active',
      metadata: null,
    })
    expect(branch.threadId).toBe(first)
    const tip = await ledger.fork(third)
    expect([tip.label, tip.threadId]).toEqual([expect.stringMatching(/^fork-[0-9A-Z]{26}$/), third])
    await runTurn(engine, 'aside', { sessionLabel: 'branch' })
    await runTurn(engine, 'ahead', { sessionLabel: tip.label })
    expect(requestTexts(provider).slice(3)).toEqual([
      ['user: first', 'assistant: one', 'user: aside'],
      [
        'user: first',
        'assistant: one',
        'user: second',
        'assistant: two',
        'user: third',
        'assistant: three',
        'user: ahead',
      ],
    ])
    expect((await ledger.session('agent:main:main'))?.threadId).toBe(third)
    expect((await ledger.history('agent:main:main')).map((message) => message.content)).toEqual([
      'first',
      'one',
      'second',
      'two',
      'third',
      'three',
    ])
  })

  test('of a failed turn beside the thread continues from it', async () => {
    const { engine, ledger, provider } = scriptedSession([
      'one',
      { error: { status: 400, message: 'no' } },
      'two',
    ])
    await runTurn(engine, 'first')
    const failed = await engine.run(context(userMessage('second'))).result
    await ledger.fork(failed.turnId, 'retry')
    await runTurn(engine, 'once more', { sessionLabel: 'retry' })
    expect(requestTexts(provider)[2]).toEqual([
      'user: first',
      'assistant: one',
      'user: second\n\nonce more',
    ])
  })

  test('refuses a label that exists or is unusable, and an unknown turn', async () => {
    const { engine, ledger } = scriptedSession(['one'])
    const first = await runTurn(engine, 'first')
    expect([
      await refusal(ledger.fork(first, 'agent:main:main')),
      await refusal(ledger.fork(first, '')),
      await refusal(ledger.fork(first, 'a\u0007b')),
      await refusal(ledger.fork(first, 'ä'.repeat(257))),
      await refusal(ledger.fork('nowhere', 'free')),
    ]).toEqual([
      { code: 'storage_constraint', field: 'label' },
      { code: 'invalid_label', field: 'label' },
      { code: 'invalid_label', field: 'label' },
      { code: 'invalid_label', field: 'label' },
      { code: 'unknown_turn' },
    ])
    expect(await ledger.session('free')).toBeNull()
    expect((await ledger.fork(first, 'ä'.repeat(256))).label).toBe('ä'.repeat(256))
  })
})

function withoutMarks(message: unknown): unknown {
  return JSON.parse(
    JSON.stringify(message, (key, value) => (key === 'cache_control' ? undefined : value)),
  )
}
