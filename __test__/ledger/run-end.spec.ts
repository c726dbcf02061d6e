// The row of a turn for every end of a run: status, stop reason, error, pointer. The result's fields are engine/result.spec.ts; it
// must never compare those.

import { describe, expect, test } from 'vitest'
import type { AssembledContext, ScriptedReply } from '../../index.js'
import { addTool as add } from '../support/described-tools.js'
import { context } from '../support/engine.js'
import { onPostgres } from '../support/ledger/on-postgres.js'
import { fails, pricedLedger } from '../support/ledger/two-tools.js'

describe('the end of a run', () => {
  const never: ScriptedReply = { steps: [{ text: 'so far' }, { gate: 'never' }] }
  const callAdd: ScriptedReply = {
    toolCalls: [{ id: 'a', name: 'add', arguments: { a: 1, b: 1 } }],
  }
  const refused: ScriptedReply = { error: { status: 400, code: 'bad', message: 'no such thing' } }
  const formatError = {
    kind: 'model_error',
    message: 'no such thing',
    retryable: false,
    code: 'bad',
  }
  const timedOut = {
    kind: 'timeout',
    message: 'the run reached `timeoutMs`; raise it, or request less',
    retryable: true,
    code: 'run_timeout',
  }
  const cases: [string, ScriptedReply[], Partial<AssembledContext>, object][] = [
    ['an answer', ['ok'], {}, { status: 'completed', stopReason: 'end_turn', moved: true }],
    [
      'the output cap',
      [{ text: 'cut', stopReason: 'max_tokens' }],
      {},
      { status: 'completed', stopReason: 'max_tokens', moved: true },
    ],
    [
      'the iteration cap',
      [callAdd],
      { tools: [add], maxIterations: 1 },
      { status: 'completed', stopReason: 'tool_use', moved: true },
    ],
    [
      'an error with nothing said',
      [refused],
      {},
      { status: 'failed', stopReason: 'error', error: formatError, moved: false },
    ],
    [
      'an error after a text',
      [{ text: 'so far', error: { status: 400, code: 'bad', message: 'no such thing' } }],
      {},
      { status: 'failed', stopReason: 'error', error: formatError, moved: true },
    ],
    [
      'an error after a tool ran',
      [callAdd, refused],
      { tools: [add] },
      { status: 'failed', stopReason: 'error', error: formatError, moved: true },
    ],
    [
      'an error after a tool ran and failed',
      [{ toolCalls: [{ id: 'a', name: 'fails' }] }, refused],
      { tools: [fails] },
      { status: 'failed', stopReason: 'error', error: formatError, moved: true },
    ],
    [
      'an error after a call of a tool that is not there',
      [{ toolCalls: [{ id: 'a', name: 'nowhere' }] }, refused],
      {},
      { status: 'failed', stopReason: 'error', error: formatError, moved: false },
    ],
    [
      'the time limit with nothing said',
      [{ gate: 'never' }],
      { timeoutMs: 100 },
      { status: 'failed', stopReason: 'timeout', error: timedOut, moved: false },
    ],
    [
      'the time limit after a text',
      [never],
      { timeoutMs: 100 },
      { status: 'failed', stopReason: 'timeout', error: timedOut, moved: true },
    ],
  ]

  test.each(cases)('%s', async (_name, replies, changes, expected) => {
    const { engine, ledger } = pricedLedger(['before', ...replies])
    const before = await engine.run(context()).result
    const result = await engine.run(context(changes)).result
    const turn = await ledger.turn(result.turnId)
    const head = (await ledger.session('agent:main:main'))?.threadId
    expect([before.turnId, result.turnId]).toContain(head)
    expect({
      status: turn?.status,
      stopReason: turn?.stopReason,
      ...(turn?.error === null ? {} : { error: turn?.error }),
      moved: head === result.turnId,
    }).toEqual(expected)
    expect([turn?.parentTurnId, turn?.depth]).toEqual([before.turnId, 1])
    expect(turn?.attempts).toEqual(result.attempts)
    // A server has them in the body of the turn.
    if (onPostgres) return
    const { rows } = await ledger.query(
      'SELECT stop_reason, error_kind, error_message, error_retryable, attempts_json FROM turns WHERE id = ?',
      [result.turnId],
    )
    expect(rows).toEqual([
      {
        stop_reason: result.stopReason,
        error_kind: result.error?.kind ?? null,
        error_message: result.error?.message ?? null,
        error_retryable: result.error === undefined ? null : Number(result.error.retryable),
        attempts_json: JSON.stringify(result.attempts),
      },
    ])
  })

  test('an abort moves the pointer, with and without a text', async () => {
    const silently: ScriptedReply = { steps: [{ thinking: 'hm' }, { gate: 'never' }] }
    const { engine, ledger } = pricedLedger([never, silently])
    const results = []
    for (const first of ['token', 'reasoning']) {
      const run = engine.run(context())
      for await (const event of run) if (event.type === first) run.abort()
      results.push(await run.result)
    }
    const turns = await Promise.all(results.map(({ turnId }) => ledger.turn(turnId)))
    expect(turns.map((turn) => [turn?.status, turn?.stopReason, turn?.error])).toEqual([
      ['aborted', 'aborted', null],
      ['aborted', 'aborted', null],
    ])
    expect(turns[1]?.parentTurnId).toBe(results[0]?.turnId)
    expect((await ledger.session('agent:main:main'))?.threadId).toBe(results[1]?.turnId)
  })

  test('an abort while another run has the session is persisted beside the thread', async () => {
    const { engine, ledger, provider } = pricedLedger(['before', { gate: 'go', text: 'ok' }])
    const before = await engine.run(context()).result
    const running = engine.run(context())
    const waiting = engine.run(context())
    waiting.abort()
    const aborted = await waiting.result
    provider.open('go')
    const done = await running.result
    const turn = await ledger.turn(aborted.turnId)
    expect([turn?.status, turn?.parentTurnId, turn?.messages]).toEqual([
      'aborted',
      before.turnId,
      aborted.messages,
    ])
    expect([done.persisted, (await ledger.session('agent:main:main'))?.threadId]).toEqual([
      true,
      done.turnId,
    ])
  })

  test('a first turn that fails leaves a session without a turn, and the next one is a root', async () => {
    const { engine, ledger } = pricedLedger([refused, 'ok'])
    const failed = await engine.run(context()).result
    expect((await ledger.session('agent:main:main'))?.threadId).toBeNull()
    expect(await ledger.history('agent:main:main')).toEqual([])
    const result = await engine.run(context()).result
    const [one, two] = await Promise.all([failed, result].map(({ turnId }) => ledger.turn(turnId)))
    expect([one?.parentTurnId, one?.depth, two?.parentTurnId, two?.depth]).toEqual([
      null,
      0,
      null,
      0,
    ])
    const history = await ledger.query('SELECT thread_id FROM session_history ORDER BY id')
    expect(history.rows).toEqual([{ thread_id: result.turnId }])
  })

  test('a message that is sent again with the host’s id is persisted in every turn', async () => {
    const { engine, ledger } = pricedLedger([refused, 'ok', 'again'])
    const currentMessage = { id: 'message-7', role: 'user' as const, content: 'hi' }
    const turns = []
    for (let run = 0; run < 3; run++) {
      const result = await engine.run(context({ currentMessage })).result
      expect([result.persisted, result.persistError]).toEqual([true, undefined])
      turns.push(await ledger.turn(result.turnId))
    }
    expect(turns.map((turn) => [turn?.queryMessageIds, turn?.messages[0]?.id])).toEqual([
      [['message-7'], 'message-7'],
      [['message-7'], 'message-7'],
      [['message-7'], 'message-7'],
    ])
  })
})
