// Sessions: what a run on a label continues, what it sends, and the order of the runs of one session. It must never read
// columns: ledger/rows.spec.ts does.

import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import type { AgentEngine, ScriptedProvider, ScriptedReply } from '../../index.js'
import { closing, folder, serving } from '../support/cleanup.js'
import { context, engineAt, readAll, scriptedEngine, testModel } from '../support/engine.js'
import { scriptedLedger } from '../support/ledger/scripted-ledger.js'
import { normal, refusal } from '../support/ledger/sqlite3.js'
import { anthropic } from '../support/servers/anthropic.js'
import { chat } from '../support/servers/chat.js'
import { sse } from '../support/servers/server.js'

const scripted = (replies: ScriptedReply[], path?: string) =>
  scriptedLedger(replies, path === undefined ? {} : { ledger: { path } })

const userMessage = (content: string) => ({ currentMessage: { role: 'user' as const, content } })

/** `role: text` of every message of every request. */
function asked(provider: ScriptedProvider): string[][] {
  return provider.requests.map((request) =>
    (request.messages as { role: string; blocks: any[] }[]).map(
      ({ role, blocks }) =>
        `${role}: ${blocks.map((block) => block.text ?? block.content?.[0].text ?? block.name).join(' ')}`,
    ),
  )
}

async function runTurn(
  engine: AgentEngine,
  content: string,
  changes: object = {},
): Promise<string> {
  const result = await engine.run(context({ ...userMessage(content), ...changes })).result
  expect([result.stopReason, result.persisted]).toEqual(['end_turn', true])
  return result.turnId
}

describe('without a history in the context', () => {
  test('a run is sent the earlier messages of its session, tools included', async () => {
    const { engine, provider } = scripted([
      { text: 'looking', toolCalls: [{ id: 'a', name: 'look' }] },
      'one',
      'two',
      'three',
    ])
    await runTurn(engine, 'first', { tools: [{ name: 'look', run: () => 'seen' }] })
    await runTurn(engine, 'second')
    await runTurn(engine, 'third')
    expect(asked(provider).slice(2)).toEqual([
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
    const first = scripted(['one'])
    await runTurn(first.engine, 'first')
    await first.engine.close()
    const second = scripted(['two'], first.file)
    await runTurn(second.engine, 'second')
    expect(asked(second.provider)).toEqual([['user: first', 'assistant: one', 'user: second']])
  })

  test('a session with another label has nothing of it', async () => {
    const { engine, provider } = scripted(['one', 'two'])
    await runTurn(engine, 'first')
    await runTurn(engine, 'second', { sessionLabel: 'agent:main:Main' })
    expect(asked(provider)[1]).toEqual(['user: second'])
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
    const { engine, provider } = scripted([
      { steps: [{ text: 'half an' }, { gate: 'never' }] },
      'whole',
    ])
    const run = engine.run(context(userMessage('first')))
    for await (const event of run) if (event.type === 'token') run.abort()
    await run.result
    await runTurn(engine, 'second')
    expect(asked(provider)[1]).toEqual(['user: first', 'assistant: half an', 'user: second'])
  })
})

describe('with a history in the context', () => {
  test('it is sent, and the turn still follows the head', async () => {
    const { engine, ledger, provider } = scripted(['one', 'two', 'three'])
    const first = await runTurn(engine, 'first')
    const second = await runTurn(engine, 'second', {
      history: [
        { role: 'user', content: 'other' },
        { role: 'assistant', content: 'words' },
      ],
    })
    await runTurn(engine, 'third')
    expect(asked(provider).slice(1)).toEqual([
      ['user: other', 'assistant: words', 'user: second'],
      ['user: first', 'assistant: one', 'user: second', 'assistant: two', 'user: third'],
    ])
    expect((await ledger.turn(second))?.parentTurnId).toBe(first)
  })

  test('an empty history counts as one', async () => {
    const { engine, provider } = scripted(['one', 'two'])
    await runTurn(engine, 'first')
    await runTurn(engine, 'second', { history: [] })
    expect(asked(provider)[1]).toEqual(['user: second'])
  })
})

describe('concurrently', () => {
  test('two runs on one session run in sequence, and the second has the first in its context', async () => {
    const { engine, provider } = scripted([{ gate: 'go', text: 'one' }, 'two'])
    const first = engine.run(context(userMessage('first')))
    const second = engine.run(context(userMessage('second')))
    expect((await second.next()).value).toMatchObject({ type: 'stream_start', seq: 1 })
    while (provider.requests.length === 0) await new Promise((resolve) => setImmediate(resolve))
    expect(asked(provider)).toEqual([['user: first']])
    provider.open('go')
    const results = await Promise.all([first.result, second.result])
    expect(results.map((result) => result.persisted)).toEqual([true, true])
    expect(asked(provider)[1]).toEqual(['user: first', 'assistant: one', 'user: second'])
  })

  test('twenty runs on one session follow each other in the order they were started', async () => {
    const replies = Array.from({ length: 20 }, (_, n): ScriptedReply => ({ text: `answer ${n}` }))
    const { engine, ledger, provider } = scripted(replies)
    const runs = replies.map((_, n) => engine.run(context(userMessage(`question ${n}`))))
    const results = await Promise.all(runs.map((run) => run.result))
    expect(results.map((result) => [result.persisted, result.blocks])).toEqual(
      replies.map((_, n) => [true, [{ type: 'text', text: `answer ${n}` }]]),
    )
    expect(asked(provider).at(-1)).toEqual([
      ...Array.from({ length: 19 }, (_, n) => [
        `user: question ${n}`,
        `assistant: answer ${n}`,
      ]).flat(),
      'user: question 19',
    ])
    const turns = await Promise.all(results.map(({ turnId }) => ledger.turn(turnId)))
    expect(turns.map((turn) => turn?.parentTurnId)).toEqual([
      null,
      ...results.slice(0, -1).map(({ turnId }) => turnId),
    ])
  })

  test('ten sessions run in parallel', async () => {
    const { file } = folder()
    const { engine, provider } = scriptedEngine(
      Array.from({ length: 10 }, () => ({ gate: 'all', text: 'ok' })),
      { ledger: { path: file } },
    )
    closing(engine)
    const asking: Promise<unknown>[] = []
    const runs = Array.from({ length: 10 }, (_, n) =>
      engine.run(context({ sessionLabel: `session ${n}` })),
    )
    for (const run of runs) asking.push(run.next())
    await Promise.all(asking)
    // All ten requests are sent before one is answered: no run waits for another session.
    while (provider.requests.length < 10) await new Promise((resolve) => setImmediate(resolve))
    provider.open('all')
    const results = await Promise.all(runs.map((run) => run.result))
    expect(results.map((result) => result.persisted)).toEqual(Array(10).fill(true))
    const sessions = await Promise.all(runs.map((_, n) => engine.ledger.session(`session ${n}`)))
    expect(sessions.map((session) => session?.threadId)).toEqual(
      results.map(({ turnId }) => turnId),
    )
  })

  test('the next run of a session starts after an aborted one, and has its output in the context', async () => {
    const { engine, provider } = scripted([{ steps: [{ text: 'half' }, { gate: 'never' }] }, 'two'])
    const first = engine.run(context(userMessage('first')))
    const second = engine.run(context(userMessage('second')))
    for await (const event of first) if (event.type === 'token') first.abort()
    expect((await second.result).stopReason).toBe('end_turn')
    expect(asked(provider)[1]).toEqual(['user: first', 'assistant: half', 'user: second'])
  })
})

describe('a named parent', () => {
  const code = (result: { error?: { detail: { code?: string } } }) => result.error?.detail.code

  test('may be the head', async () => {
    const { engine, ledger, provider } = scripted(['one', 'two'])
    const first = await runTurn(engine, 'first')
    const second = await runTurn(engine, 'second', { parentTurnId: first })
    expect((await ledger.turn(second))?.parentTurnId).toBe(first)
    expect(asked(provider)[1]).toEqual(['user: first', 'assistant: one', 'user: second'])
  })

  test.each([[undefined], [[]]])(
    'that is stale is told, with nothing sent (history %j)',
    async (history) => {
      const { engine, ledger, provider } = scripted(['one', 'two'])
      const first = await runTurn(engine, 'first')
      const second = await runTurn(engine, 'second')
      const run = engine.run(context({ ...userMessage('third'), parentTurnId: first, history }))
      const events = await readAll(run)
      const result = await run.result
      expect([result.stopReason, code(result), result.error?.retryable]).toEqual([
        'error',
        'stale_head',
        false,
      ])
      expect(events.map((event) => event.type)).toEqual(['stream_start', 'stream_error'])
      expect(provider.requests).toHaveLength(2)
      expect((await ledger.session('agent:main:main'))?.threadId).toBe(second)
      // The attempt is persisted, as every turn, beside the thread.
      const turn = await ledger.turn(result.turnId)
      expect([turn?.status, turn?.parentTurnId, result.persisted]).toEqual(['failed', first, true])
    },
  )

  test.each([[undefined], [[]]])(
    'that is not there is told, with nothing sent (history %j)',
    async (history) => {
      const { engine, ledger, provider } = scripted(['one'])
      await runTurn(engine, 'first')
      const results = []
      for (const sessionLabel of ['agent:main:main', 'a new one']) {
        const run = engine.run(context({ sessionLabel, parentTurnId: 'nowhere', history }))
        results.push(await run.result)
      }
      expect(results.map((result) => [result.stopReason, code(result), result.persisted])).toEqual([
        ['error', 'stale_head', false],
        ['error', 'unknown_turn', false],
      ])
      expect(results.map((result) => result.persistError?.code)).toEqual([
        'unknown_turn',
        'unknown_turn',
      ])
      expect(provider.requests).toHaveLength(1)
      expect(await ledger.session('a new one')).toBeNull()
    },
  )

  test('on a new label is where that session begins', async () => {
    const { engine, ledger, provider } = scripted(['one', 'two', 'branch', 'again'])
    const first = await runTurn(engine, 'first')
    const second = await runTurn(engine, 'second')
    const branch = await runTurn(engine, 'other', { sessionLabel: 'branch', parentTurnId: first })
    await runTurn(engine, 'more', { sessionLabel: 'branch' })
    expect(asked(provider).slice(2)).toEqual([
      ['user: first', 'assistant: one', 'user: other'],
      ['user: first', 'assistant: one', 'user: other', 'assistant: branch', 'user: more'],
    ])
    expect((await ledger.turn(branch))?.parentTurnId).toBe(first)
    expect((await ledger.session('agent:main:main'))?.threadId).toBe(second)
  })

  test.each(['', 7, {}])('that is %j is refused immediately', (parentTurnId) => {
    const { engine } = scripted([])
    const run = () => engine.run(context({ parentTurnId } as never))
    expect(run).toThrow(expect.objectContaining({ code: 'invalid_context', field: 'parentTurnId' }))
  })
})

test('a session whose head moved during a run has the new head: the answer is persisted beside the thread, and marked so', async () => {
  const first = scripted([{ gate: 'go', text: 'late' }])
  const run = first.engine.run(context(userMessage('first')))
  await run.next()
  while (first.provider.requests.length === 0) await new Promise((resolve) => setImmediate(resolve))
  // A commit of the broker does not queue behind runs, just as one of another process.
  const head = await first.ledger.writeTurn(
    context({ ...userMessage('second'), parentTurnId: null }),
    {
      messages: [],
      toolCalls: [],
      usage: (await scripted(['x']).engine.run(context()).result).usage,
      stopReason: 'end_turn',
      durationMs: 1,
    },
  )
  first.provider.open('go')
  const result = await run.result
  expect([result.stopReason, result.persisted, result.persistError?.code]).toEqual([
    'end_turn',
    false,
    'stale_head',
  ])
  expect(result.blocks).toEqual([{ type: 'text', text: 'late' }])
  expect((await first.ledger.session('agent:main:main'))?.threadId).toBe(head)
  const turn = await first.ledger.turn(result.turnId)
  expect([turn?.status, turn?.parentTurnId, turn?.messages.length]).toEqual(['completed', null, 2])
})

test('two processes on one session never fork it: the thread has every turn that was committed in time', async () => {
  const { ledger, file } = scripted([])
  const child = fileURLToPath(new URL('../children/ledger/session.mjs', import.meta.url))
  const outputs = await Promise.all(
    ['a', 'b'].map(
      (name) =>
        new Promise<string[]>((resolve, reject) => {
          const process_ = spawn(process.execPath, [child, file, name, '25'])
          let out = ''
          process_.stdout.on('data', (chunk) => {
            out += chunk
          })
          process_.stderr.pipe(process.stderr)
          process_.on('error', reject)
          process_.on('close', (code) => {
            if (code === 0) resolve(out.trim().split('\n'))
            else reject(new Error(`the child ended with ${code}`))
          })
        }),
    ),
  )
  const head = (await ledger.session('shared'))?.threadId ?? ''
  const { rows } = await ledger.query('SELECT ancestry FROM threads WHERE turn_id = ?', [head])
  const chain = JSON.parse(String(rows[0]?.ancestry))
  expect(outputs.flat().length).toBeGreaterThanOrEqual(26)
  expect([...chain].sort()).toEqual(outputs.flat().sort())
  const all = await ledger.query('SELECT count(*) AS turns FROM turns')
  // Late turns are beside the thread: nothing is lost.
  expect(all.rows).toEqual([{ turns: 50 }])
})

describe('history', () => {
  test('of a label and of a turn is what the next call would have', async () => {
    const { engine, ledger } = scripted(['one', 'two'])
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
    const { engine, ledger } = scripted(['one', 'two'])
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
    const { engine, ledger, provider } = scripted(['one', 'two', 'three', 'branch', 'tip'])
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
    })
    expect(branch.threadId).toBe(first)
    const tip = await ledger.fork(third)
    expect([tip.label, tip.threadId]).toEqual([expect.stringMatching(/^fork-[0-9A-Z]{26}$/), third])
    await runTurn(engine, 'aside', { sessionLabel: 'branch' })
    await runTurn(engine, 'ahead', { sessionLabel: tip.label })
    expect(asked(provider).slice(3)).toEqual([
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
    const { engine, ledger, provider } = scripted([
      'one',
      { error: { status: 400, message: 'no' } },
      'two',
    ])
    await runTurn(engine, 'first')
    const failed = await engine.run(context(userMessage('second'))).result
    await ledger.fork(failed.turnId, 'retry')
    await runTurn(engine, 'once more', { sessionLabel: 'retry' })
    expect(asked(provider)[2]).toEqual([
      'user: first',
      'assistant: one',
      'user: second\n\nonce more',
    ])
  })

  test('refuses a label that exists or is unusable, and an unknown turn', async () => {
    const { engine, ledger } = scripted(['one'])
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
