// The order of the runs of one session, parents that the context names, and two processes on one session. It must never read columns:
// ledger/rows.spec.ts does.

import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import type { ScriptedReply } from '../../index.js'
import { closing, folder } from '../support/cleanup.js'
import { context, readAll, scriptedEngine } from '../support/engine.js'
import { requestTexts, runTurn, scriptedSession, userMessage } from '../support/session-turns.js'

describe('concurrently', () => {
  test('two runs on one session run in sequence, and the second has the first in its context', async () => {
    const { engine, provider } = scriptedSession([{ gate: 'go', text: 'one' }, 'two'])
    const first = engine.run(context(userMessage('first')))
    const second = engine.run(context(userMessage('second')))
    expect((await second.next()).value).toMatchObject({ type: 'stream_start', seq: 1 })
    while (provider.requests.length === 0) await new Promise((resolve) => setImmediate(resolve))
    expect(requestTexts(provider)).toEqual([['user: first']])
    provider.open('go')
    const results = await Promise.all([first.result, second.result])
    expect(results.map((result) => result.persisted)).toEqual([true, true])
    expect(requestTexts(provider)[1]).toEqual(['user: first', 'assistant: one', 'user: second'])
  })

  test('twenty runs on one session follow each other in the order they were started', async () => {
    const replies = Array.from({ length: 20 }, (_, n): ScriptedReply => ({ text: `answer ${n}` }))
    const { engine, ledger, provider } = scriptedSession(replies)
    const runs = replies.map((_, n) => engine.run(context(userMessage(`question ${n}`))))
    const results = await Promise.all(runs.map((run) => run.result))
    expect(results.map((result) => [result.persisted, result.blocks])).toEqual(
      replies.map((_, n) => [true, [{ type: 'text', text: `answer ${n}` }]]),
    )
    expect(requestTexts(provider).at(-1)).toEqual([
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
    const { engine, provider } = scriptedSession([
      { steps: [{ text: 'half' }, { gate: 'never' }] },
      'two',
    ])
    const first = engine.run(context(userMessage('first')))
    const second = engine.run(context(userMessage('second')))
    for await (const event of first) if (event.type === 'token') first.abort()
    expect((await second.result).stopReason).toBe('end_turn')
    expect(requestTexts(provider)[1]).toEqual(['user: first', 'assistant: half', 'user: second'])
  })
})

describe('a named parent', () => {
  const code = (result: { error?: { detail: { code?: string } } }) => result.error?.detail.code

  test('may be the head', async () => {
    const { engine, ledger, provider } = scriptedSession(['one', 'two'])
    const first = await runTurn(engine, 'first')
    const second = await runTurn(engine, 'second', { parentTurnId: first })
    expect((await ledger.turn(second))?.parentTurnId).toBe(first)
    expect(requestTexts(provider)[1]).toEqual(['user: first', 'assistant: one', 'user: second'])
  })

  test.each([[undefined], [[]]])(
    'that is stale is an error, with nothing sent (history %j)',
    async (history) => {
      const { engine, ledger, provider } = scriptedSession(['one', 'two'])
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
    'that does not exist is an error, with nothing sent (history %j)',
    async (history) => {
      const { engine, ledger, provider } = scriptedSession(['one'])
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
    const { engine, ledger, provider } = scriptedSession(['one', 'two', 'branch', 'again'])
    const first = await runTurn(engine, 'first')
    const second = await runTurn(engine, 'second')
    const branch = await runTurn(engine, 'other', { sessionLabel: 'branch', parentTurnId: first })
    await runTurn(engine, 'more', { sessionLabel: 'branch' })
    expect(requestTexts(provider).slice(2)).toEqual([
      ['user: first', 'assistant: one', 'user: other'],
      ['user: first', 'assistant: one', 'user: other', 'assistant: branch', 'user: more'],
    ])
    expect((await ledger.turn(branch))?.parentTurnId).toBe(first)
    expect((await ledger.session('agent:main:main'))?.threadId).toBe(second)
  })

  test.each(['', 7, {}])('that is %j is refused immediately', (parentTurnId) => {
    const { engine } = scriptedSession([])
    const run = () => engine.run(context({ parentTurnId } as never))
    expect(run).toThrow(expect.objectContaining({ code: 'invalid_context', field: 'parentTurnId' }))
  })
})

test('a session whose head moved during a run has the new head: the answer is persisted beside the thread, and marked so', async () => {
  const first = scriptedSession([{ gate: 'go', text: 'late' }])
  const run = first.engine.run(context(userMessage('first')))
  await run.next()
  while (first.provider.requests.length === 0) await new Promise((resolve) => setImmediate(resolve))
  // A commit of the broker does not queue behind runs, just as one of another process.
  const head = await first.ledger.writeTurn(
    context({ ...userMessage('second'), parentTurnId: null }),
    {
      messages: [],
      toolCalls: [],
      usage: (await scriptedSession(['x']).engine.run(context()).result).usage,
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
  const { ledger, file } = scriptedSession([])
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
