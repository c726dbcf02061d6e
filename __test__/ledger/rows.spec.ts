// Owns the rows: what a run and `writeTurn` leave in the ledger, read by the API and by another SQLite.
// Which turns a later run sees is engine/history.spec.ts; files that are refused are ledger/refused-files.spec.ts.

import { describe, expect, test } from 'vitest'
import {
  AgentEngine,
  type AgentResultInput,
  type AssembledContext,
  type ScriptedReply,
  scriptedProvider,
} from '../../index.js'
import { afterwards, closing, folder, serving } from '../support/cleanup.js'
import { addTool as add } from '../support/described-tools.js'
import { context, engineAt, testModel } from '../support/engine.js'
import { scriptedLedger } from '../support/ledger/scripted-ledger.js'
import { normal, refusal, rows, sqlite3 } from '../support/ledger/sqlite3.js'
import { fullUsage as usage } from '../support/ledger/turn-input.js'
import { anthropic } from '../support/servers/anthropic.js'
import { sse } from '../support/servers/server.js'
import { price } from '../support/values/prices.js'

const scripted = (replies: ScriptedReply[] = []) =>
  scriptedLedger(replies, { models: [{ ...testModel, cost: price }] })

const fails = {
  name: 'fails',
  run: () => {
    throw new Error('no such file')
  },
}

const whole: Partial<AssembledContext> = {
  runId: 'run-1',
  sessionLabel: 'agent:main:dm:+1',
  role: 'manager',
  toolsetName: 'everyday',
  tools: [add, fails],
  permissionsGranted: [{ resource: 'fs', write: false }],
  sourceEventId: 'event-9',
  workspacePath: '/work/space',
}

const twoTools: ScriptedReply[] = [
  {
    thinking: 'both',
    signature: 'c2ln',
    text: 'adding',
    toolCalls: [
      { id: 'call_0', name: 'add', arguments: { a: '1', b: 2 } },
      { id: 'call_0', name: 'fails' },
    ],
    usage,
  },
  { text: 'it is 3', usage: { inputTokens: 10, outputTokens: 5 } },
]

describe('a turn with tools', () => {
  test('is read back equal to the result', async () => {
    const { engine, ledger } = scripted(twoTools)
    const since = Date.now()
    const result = await engine.run(context(whole)).result
    const turn = await ledger.turn(result.turnId)
    if (turn === null) throw new Error('the turn is not there')
    const { messages, toolCalls, attempts, ...columns } = turn
    expect({ messages, toolCalls, attempts }).toEqual({
      messages: result.messages,
      toolCalls: result.toolCalls,
      attempts: result.attempts,
    })
    const [query, , , , answer] = result.messages
    expect(columns.queryMessageIds).toEqual([query?.id])
    expect(columns.responseMessageId).toBe(answer?.id)
    expect(normal(columns, since)).toEqual({
      id: '#1',
      parentTurnId: null,
      turnType: 'normal',
      status: 'completed',
      sessionLabel: 'agent:main:dm:+1',
      runId: 'run-1',
      depth: 0,
      hasChildren: false,
      startedAt: 'now',
      completedAt: 'now',
      model: 'test-model',
      provider: 'test',
      role: 'manager',
      toolsetName: 'everyday',
      toolsAvailable: ['add', 'fails'],
      permissionsGranted: [{ resource: 'fs', write: false }],
      permissionsUsed: null,
      usage: {
        inputTokens: 1010,
        outputTokens: 105,
        cachedInputTokens: 2000,
        cacheWriteTokens: 500,
        reasoningTokens: 40,
        totalTokens: 3615,
      },
      usageEstimated: false,
      threadTokens: 3615,
      contextTokens: 15,
      cost: result.cost,
      queryMessageIds: ['#2'],
      responseMessageId: '#3',
      toolCallCount: 2,
      sourceEventId: 'event-9',
      workspacePath: '/work/space',
      stopReason: 'end_turn',
      error: null,
      compaction: null,
    })
  })

  test.skipIf(!sqlite3)(
    'has the columns of the broker interface, read by another SQLite (sqlite3)',
    async () => {
      const { engine, file } = scripted(twoTools)
      const since = Date.now()
      const result = await engine.run(context(whole)).result
      await engine.close()
      const [query, asking, added, failed, answer] = result.messages
      const [addCall, failsCall] = result.toolCalls
      const turns = rows(file, 'SELECT * FROM turns')
      expect(normal(turns, since)).toEqual([
        {
          id: '#1',
          parent_turn_id: null,
          turn_type: 'normal',
          status: 'completed',
          has_children: 0,
          depth: 0,
          thread_tokens: 3615,
          session_label: 'agent:main:dm:+1',
          run_id: 'run-1',
          started_at: 'now',
          completed_at: 'now',
          model: 'test-model',
          provider: 'test',
          role: 'manager',
          toolset_name: 'everyday',
          tools_available: '["add","fails"]',
          permissions_granted: '[{"resource":"fs","write":false}]',
          permissions_used: null,
          input_tokens: 1010,
          output_tokens: 105,
          cached_input_tokens: 2000,
          cache_write_tokens: 500,
          reasoning_tokens: 40,
          total_tokens: 3615,
          usage_estimated: 0,
          context_tokens: 15,
          cost: result.cost,
          query_message_ids: `["${query?.id}"]`,
          response_message_id: '#2',
          tool_call_count: 2,
          source_event_id: 'event-9',
          workspace_path: '/work/space',
          stop_reason: 'end_turn',
          error_kind: null,
          error_message: null,
          error_retryable: null,
          attempts_json: JSON.stringify(result.attempts),
          error_code: null,
        },
      ])
      expect([turns[0]?.id, turns[0]?.response_message_id]).toEqual([result.turnId, answer?.id])
      expect(
        rows(
          file,
          `SELECT id, turn_id, role, content, thinking, sequence, created_at, tool_call_id, is_error, provider, api,
           model, response_id, stop_reason FROM messages ORDER BY sequence`,
        ),
      ).toEqual(
        [query, asking, added, failed, answer].map((message, sequence) => ({
          id: message?.id,
          turn_id: result.turnId,
          role: ['user', 'assistant', 'tool', 'tool', 'assistant'][sequence],
          content: ['hi', 'adding', '{"sum":3}', 'no such file', 'it is 3'][sequence],
          thinking: message === asking ? 'both' : null,
          sequence,
          created_at: message?.createdAt,
          tool_call_id: message?.role === 'tool' ? 'call_0' : null,
          is_error: message?.role === 'tool' ? Number(message === failed) : null,
          provider: message?.role === 'assistant' ? 'test' : null,
          api: message?.role === 'assistant' ? 'scripted' : null,
          model: message?.role === 'assistant' ? 'test-model' : null,
          response_id: [null, 'scripted_1', null, null, 'scripted_2'][sequence],
          stop_reason: [null, 'tool_use', null, null, 'end_turn'][sequence],
        })),
      )
      expect(
        rows(
          file,
          `SELECT id, provider_call_id, turn_id, message_id, tool_name, status, spawned_session_label, started_at,
           completed_at, sequence, error, params_json, result_json FROM tool_calls ORDER BY sequence`,
        ),
      ).toEqual([
        {
          id: addCall?.callId,
          provider_call_id: 'call_0',
          turn_id: result.turnId,
          message_id: asking?.id,
          tool_name: 'add',
          status: 'completed',
          spawned_session_label: null,
          started_at: addCall?.startedAt,
          completed_at: addCall?.completedAt,
          sequence: 0,
          error: null,
          params_json: '{"a":1,"b":2}',
          result_json: '{"sum":3}',
        },
        {
          id: failsCall?.callId,
          provider_call_id: 'call_0',
          turn_id: result.turnId,
          message_id: asking?.id,
          tool_name: 'fails',
          status: 'failed',
          spawned_session_label: null,
          started_at: failsCall?.startedAt,
          completed_at: failsCall?.completedAt,
          sequence: 1,
          error: 'no such file',
          params_json: '{}',
          result_json: null,
        },
      ])
      expect(rows(file, 'SELECT * FROM threads')).toEqual([
        {
          turn_id: result.turnId,
          ancestry: `["${result.turnId}"]`,
          total_tokens: 3615,
          depth: 0,
          persona_id: 'default',
          thread_key: `agent:main:dm:+1/${result.turnId}`,
        },
      ])
      expect(normal(rows(file, 'SELECT * FROM sessions'), since)).toEqual([
        {
          label: 'agent:main:dm:+1',
          thread_id: '#1',
          persona_id: 'default',
          is_subagent: 0,
          parent_session_label: null,
          parent_turn_id: null,
          spawn_tool_call_id: null,
          task_description: null,
          task_status: null,
          routing_key: null,
          origin: null,
          origin_session_id: null,
          created_at: 'now',
          updated_at: 'now',
          status: 'active',
          opening: 0,
          agent_id: 'main',
        },
      ])
      expect(rows(file, 'SELECT session_label, thread_id FROM session_history')).toEqual([
        { session_label: 'agent:main:dm:+1', thread_id: result.turnId },
      ])
      expect(rows(file, 'PRAGMA integrity_check')).toEqual([{ integrity_check: 'ok' }])
      expect(rows(file, 'PRAGMA foreign_key_check')).toEqual([])
      expect(rows(file, 'PRAGMA journal_mode')).toEqual([{ journal_mode: 'wal' }])
    },
  )
})

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
    message: 'the run reached `timeoutMs`; raise it, or ask for less',
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
    const { engine, ledger } = scripted(['before', ...replies])
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
    const { engine, ledger } = scripted([never, silently])
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
    const { engine, ledger, provider } = scripted(['before', { gate: 'go', text: 'ok' }])
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
    const { engine, ledger } = scripted([refused, 'ok'])
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
    const { engine, ledger } = scripted([refused, 'ok', 'again'])
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

test('turns form a thread: parent, depth, tokens of the thread, ancestry and the log of the pointer', async () => {
  const { engine, ledger } = scripted(
    [1, 2, 3].map((n) => ({ text: `${n}`, usage: { inputTokens: 1, outputTokens: n } })),
  )
  const ids = []
  for (let run = 0; run < 3; run++) ids.push((await engine.run(context()).result).turnId)
  const [a, b, c] = ids
  const { rows } = await ledger.query(
    `SELECT t.id, t.parent_turn_id, t.depth, t.has_children, v.ancestry, v.total_tokens, v.depth AS thread_depth
     FROM turns t JOIN threads v ON v.turn_id = t.id ORDER BY t.depth`,
  )
  expect(rows.map((row) => ({ ...row, ancestry: JSON.parse(String(row.ancestry)) }))).toEqual([
    {
      id: a,
      parent_turn_id: null,
      depth: 0,
      has_children: 1,
      ancestry: [a],
      total_tokens: 2,
      thread_depth: 0,
    },
    {
      id: b,
      parent_turn_id: a,
      depth: 1,
      has_children: 1,
      ancestry: [a, b],
      total_tokens: 5,
      thread_depth: 1,
    },
    {
      id: c,
      parent_turn_id: b,
      depth: 2,
      has_children: 0,
      ancestry: [a, b, c],
      total_tokens: 9,
      thread_depth: 2,
    },
  ])
  const moves = await ledger.query(
    'SELECT session_label, thread_id FROM session_history ORDER BY id',
  )
  expect(moves.rows).toEqual(
    ids.map((thread_id) => ({ session_label: 'agent:main:main', thread_id })),
  )
  expect([...ids].sort()).toEqual(ids)
})

test('provider data is persisted byte for byte', async () => {
  // Key order, spacing, escapes, a large integer and a number that JavaScript cannot represent: none survives a parse.
  const raw =
    '{"type":"server_tool_use","id":"srv_1","name":"web","input":{ "z":1,"a":"\\u00e9\\/","n":12345678901234567890,"f":1.0 }}'
  const args = '{ "b" : 2.50, "a":"\\u0041" }'
  const server = await serving(
    sse(
      anthropic.start(),
      anthropic.thinking(0, 'hm ü', 'RXhhY3Q='),
      anthropic.blockStart(1, { type: 'redacted_thinking', data: 'b3BhcXVl+/==' }),
      anthropic.blockStop(1),
      `event: content_block_start\ndata: {"type":"content_block_start","index":2,"content_block":${raw}}\n\n`,
      anthropic.blockStop(2),
      anthropic.blockStart(3, { type: 'tool_use', id: 'toolu_1', name: 'take', input: {} }),
      anthropic.delta(3, { type: 'input_json_delta', partial_json: args.slice(0, 9) }),
      anthropic.delta(3, { type: 'input_json_delta', partial_json: args.slice(9) }),
      anthropic.blockStop(3),
      anthropic.end('tool_use'),
    ),
    sse(anthropic.answer('done')),
  )
  const { file } = folder()
  const engine = closing(engineAt(server.url, { ledger: { path: file } }))
  const take = { name: 'take', run: () => 'taken' }
  const result = await engine.run(context({ tools: [take] })).result
  const blocks = [
    { type: 'thinking', thinking: 'hm ü', signature: 'RXhhY3Q=' },
    { type: 'redacted_thinking', data: 'b3BhcXVl+/==' },
    { type: 'opaque', rawJson: raw },
    { type: 'tool_call', id: 'toolu_1', name: 'take', argumentsJson: args },
  ]
  const turn = await engine.ledger.turn(result.turnId)
  expect([result.messages[1]?.blocks, turn?.messages[1]?.blocks]).toEqual([blocks, blocks])
  const sent = server.seen[1]?.raw ?? ''
  expect([sent.includes(raw), sent.includes(args)]).toEqual([true, true])
})

describe('writeTurn', () => {
  const plain: AgentResultInput = {
    messages: [
      { id: 'm-1', role: 'user', content: 'hi', sequence: 0, createdAt: 1000 },
      { id: 'm-2', role: 'assistant', content: 'hello', sequence: 1, createdAt: 2000 },
    ],
    toolCalls: [],
    usage: { ...usage, totalTokens: 3600 },
    stopReason: 'end_turn',
    durationMs: 50,
  }

  test("accepts a result of the broker interface, and the session's next run continues from it", async () => {
    const { engine, ledger, provider } = scripted(['ok'])
    const since = Date.now()
    const id = await ledger.writeTurn(context({ runId: 'r' }), plain)
    const turn = await ledger.turn(id)
    expect([turn?.startedAt, turn?.completedAt]).toEqual([
      (turn?.completedAt ?? 0) - 50,
      turn?.completedAt,
    ])
    expect(normal({ ...turn, startedAt: 0 }, since)).toEqual({
      id: '#1',
      parentTurnId: null,
      turnType: 'normal',
      status: 'completed',
      sessionLabel: 'agent:main:main',
      runId: 'r',
      depth: 0,
      hasChildren: false,
      startedAt: 0,
      completedAt: 'now',
      model: 'test-model',
      provider: 'test',
      role: 'unified',
      toolsetName: 'test',
      toolsAvailable: [],
      permissionsGranted: [],
      permissionsUsed: null,
      usage: plain.usage,
      usageEstimated: false,
      threadTokens: 3600,
      contextTokens: null,
      cost: null,
      queryMessageIds: ['m-1'],
      responseMessageId: 'm-2',
      toolCallCount: 0,
      sourceEventId: null,
      workspacePath: '/tmp',
      stopReason: 'end_turn',
      error: null,
      attempts: [],
      compaction: null,
      messages: plain.messages.map((message) => ({
        ...message,
        blocks: [{ type: 'text', text: message.content }],
      })),
      toolCalls: [],
    })
    const next = await engine.run(context()).result
    expect((await ledger.turn(next.turnId))?.parentTurnId).toBe(id)
    expect(provider.requests[0]?.messages).toMatchObject([
      { id: 'm-1' },
      { id: 'm-2' },
      { role: 'user' },
    ])
  })

  test('accepts a whole result of a run and reads back the same', async () => {
    const other = new AgentEngine({ providers: { test: scriptedProvider(twoTools) } })
    afterwards(() => other.close())
    const result = await other.run(context(whole)).result
    expect(result.persisted).toBe(false)
    const { ledger } = scripted()
    expect(await ledger.writeTurn(context(whole), result)).toBe(result.turnId)
    const turn = await ledger.turn(result.turnId)
    expect({
      messages: turn?.messages,
      toolCalls: turn?.toolCalls,
      usage: turn?.usage,
      attempts: turn?.attempts,
      contextTokens: turn?.contextTokens,
      cost: turn?.cost,
      stopReason: turn?.stopReason,
    }).toEqual({
      messages: result.messages,
      toolCalls: result.toolCalls,
      usage: result.usage,
      attempts: result.attempts,
      contextTokens: result.contextTokens,
      cost: result.cost,
      stopReason: result.stopReason,
    })
  })

  test('a tool result of the flat form is sent to the next provider after its call', async () => {
    const server = await serving(sse(anthropic.answer('ok')))
    const { file } = folder()
    const engine = closing(engineAt(server.url, { ledger: { path: file } }))
    await engine.ledger.writeTurn(context({ tools: [add] }), {
      ...plain,
      messages: [
        { id: 'm-1', role: 'user', content: 'add', sequence: 0, createdAt: 1 },
        { id: 'm-2', role: 'assistant', content: 'adding', sequence: 1, createdAt: 2 },
        { id: 'm-3', role: 'tool', content: '3', toolCallId: 'c1', sequence: 2, createdAt: 3 },
        { id: 'm-4', role: 'assistant', content: 'it is 3', sequence: 3, createdAt: 4 },
      ],
      toolCalls: [
        {
          id: 'c1',
          toolName: 'add',
          params: { a: 1, b: 2 },
          result: 3,
          status: 'completed',
          startedAt: 2,
          completedAt: 3,
          sequence: 0,
        },
      ],
    })
    await engine.run(context({ tools: [add] })).result
    expect(JSON.parse(JSON.stringify(server.seen[0]?.body.messages), dropCacheMarks)).toEqual([
      { role: 'user', content: [{ type: 'text', text: 'add' }] },
      {
        role: 'assistant',
        content: [
          { type: 'text', text: 'adding' },
          { type: 'tool_use', id: 'c1', name: 'add', input: { a: 1, b: 2 } },
        ],
      },
      {
        role: 'user',
        content: [
          { type: 'tool_result', tool_use_id: 'c1', content: [{ type: 'text', text: '3' }] },
        ],
      },
      { role: 'assistant', content: [{ type: 'text', text: 'it is 3' }] },
      { role: 'user', content: [{ type: 'text', text: 'hi' }] },
    ])
  })

  test('follows the head without a named parent, and refuses a stale or unknown one', async () => {
    const { ledger } = scripted()
    const first = await ledger.writeTurn(context(), plain)
    const second = await ledger.writeTurn(context(), plain)
    const third = await ledger.writeTurn(context({ parentTurnId: second }), plain)
    expect(await refusal(ledger.writeTurn(context({ parentTurnId: first }), plain))).toEqual({
      code: 'stale_head',
    })
    expect(await refusal(ledger.writeTurn(context({ parentTurnId: 'nowhere' }), plain))).toEqual({
      code: 'stale_head',
    })
    const elsewhere = { sessionLabel: 'another', parentTurnId: 'nowhere' }
    expect(await refusal(ledger.writeTurn(context(elsewhere), plain))).toEqual({
      code: 'unknown_turn',
    })
    expect(await ledger.session('another')).toBeNull()
    expect((await ledger.session('agent:main:main'))?.threadId).toBe(third)
    const branch = await ledger.writeTurn(
      context({ sessionLabel: 'another', parentTurnId: first }),
      plain,
    )
    expect((await ledger.turn(branch))?.depth).toBe(1)
    expect((await ledger.query('SELECT count(*) AS turns FROM turns')).rows).toEqual([{ turns: 4 }])
  })

  test('refuses an existing turn id, and writes nothing of it', async () => {
    const { ledger } = scripted()
    const turnId = await ledger.writeTurn(context(), { ...plain, turnId: 'turn-1' })
    expect(turnId).toBe('turn-1')
    const again = ledger.writeTurn(context({ sessionLabel: 'b' }), { ...plain, turnId })
    expect(await refusal(again)).toEqual({ code: 'storage_constraint' })
    expect(await ledger.session('b')).toBeNull()
  })

  test('a failed result without output leaves the pointer, and one with output moves it', async () => {
    const { ledger } = scripted()
    const first = await ledger.writeTurn(context(), plain)
    const error = { kind: 'rate_limit', message: 'slow down', retryable: true } as const
    const [query] = plain.messages
    if (query === undefined) throw new Error('no message')
    const silent = await ledger.writeTurn(context(), {
      ...plain,
      messages: [query],
      stopReason: 'error',
      error: error as AgentResultInput['error'],
    })
    expect((await ledger.session('agent:main:main'))?.threadId).toBe(first)
    const spoken = await ledger.writeTurn(context(), { ...plain, stopReason: 'timeout' })
    expect((await ledger.session('agent:main:main'))?.threadId).toBe(spoken)
    const turns = await Promise.all([silent, spoken].map((id) => ledger.turn(id)))
    expect(turns.map((turn) => [turn?.status, turn?.error, turn?.parentTurnId])).toEqual([
      ['failed', { ...error, code: null }, first],
      ['failed', null, first],
    ])
  })

  test('a compaction in the result is a turn of its own, and the next run begins with its summary', async () => {
    const { engine, ledger, provider } = scripted(['ok'])
    const turnOf = (text: string) => ({
      ...plain,
      messages: plain.messages.map((message) => ({
        ...message,
        content: `${text} ${message.role}`,
      })),
    })
    const one = await ledger.writeTurn(context(), turnOf('one'))
    const two = await ledger.writeTurn(context(), turnOf('two'))
    const compaction = {
      summary: 'They said one.',
      summarizedThroughTurnId: one,
      firstKeptTurnId: two,
      turnsSummarized: 1,
      model: 'small',
      provider: 'test',
      tokensBefore: 900,
      tokensAfter: 100,
      summaryTokens: 20,
      summarizationInputTokens: 500,
      summarizationOutputTokens: 20,
      durationMs: 5,
      trigger: 'context_limit' as const,
    }
    const three = await ledger.writeTurn(context(), { ...turnOf('three'), compaction })
    const parent = (await ledger.turn(three))?.parentTurnId ?? ''
    const turn = await ledger.turn(parent)
    expect([turn?.turnType, turn?.parentTurnId, turn?.compaction]).toEqual([
      'compaction',
      two,
      { ...compaction, compactionType: 'summary' },
    ])
    await engine.run(context()).result
    const sent = provider.requests[0]?.messages as { blocks: { text: string }[] }[]
    expect(sent.map((message) => message.blocks.map((block) => block.text))).toEqual([
      ['[Previous conversation summary]:\n\nThey said one.\n\ntwo user'],
      ['two assistant'],
      ['three user'],
      ['three assistant'],
      ['hi'],
    ])
  })

  test.each<[string, (result: any) => void]>([
    ['result.stopReason', (result) => delete result.stopReason],
    ['result.stopReason', (result) => (result.stopReason = 'done')],
    ['result.durationMs', (result) => (result.durationMs = 'soon')],
    ['result.durationMs', (result) => (result.durationMs = -1)],
    ['result.usage', (result) => delete result.usage],
    ['result.usage.inputTokens', (result) => (result.usage.inputTokens = 1.5)],
    ['result.messages', (result) => delete result.messages],
    ['result.messages', (result) => (result.messages = {})],
    ['result.messages[0]', (result) => (result.messages[0] = 'hi')],
    ['result.messages[0].id', (result) => delete result.messages[0].id],
    ['result.messages[1].id', (result) => (result.messages[1].id = 'm-1')],
    ['result.messages[1].role', (result) => (result.messages[1].role = 'robot')],
    ['result.messages[1].content', (result) => delete result.messages[1].content],
    ['result.messages[1].sequence', (result) => (result.messages[1].sequence = 0)],
    ['result.messages[1].createdAt', (result) => delete result.messages[1].createdAt],
    [
      'result.messages[1].blocks[0].type',
      (result) => (result.messages[1].blocks = [{ type: 'x' }]),
    ],
    ['result.toolCalls', (result) => delete result.toolCalls],
    ['result.toolCalls[0].params', (result) => (result.toolCalls = [{ ...call, params: [] }])],
    ['result.toolCalls[0].status', (result) => (result.toolCalls = [{ ...call, status: 'ok' }])],
    ['result.toolCalls[1].sequence', (result) => (result.toolCalls = [call, call])],
    ['result.error.kind', (result) => (result.error = { kind: 'x', message: '', retryable: true })],
    ['result.turnId', (result) => (result.turnId = '')],
    ['result.cost', (result) => (result.cost = 'free')],
    ['result.compaction.trigger', (result) => (result.compaction = { trigger: 1 })],
  ])('names `%s` when it is wrong', async (field, spoil) => {
    const { ledger } = scripted()
    const result = structuredClone(plain)
    spoil(result)
    expect(await refusal(ledger.writeTurn(context(), result))).toEqual({
      code: 'invalid_context',
      field,
    })
    expect((await ledger.query('SELECT count(*) AS turns FROM turns')).rows).toEqual([{ turns: 0 }])
  })

  test('names the wrong field of the context, as a run does', async () => {
    const { ledger } = scripted()
    const wrong = (changes: object) => refusal(ledger.writeTurn(context(changes), plain))
    expect([
      await wrong({ sessionLabel: 'a\nb' }),
      await wrong({ parentTurnId: '' }),
      await wrong({ tools: [{}] }),
      await wrong({ runId: 7 }),
      await refusal(ledger.writeTurn(null as never, plain)),
      await refusal(ledger.writeTurn(context(), undefined as never)),
    ]).toEqual([
      { code: 'invalid_label', field: 'sessionLabel' },
      { code: 'invalid_context', field: 'parentTurnId' },
      { code: 'invalid_tool', field: 'tools[0].name' },
      { code: 'invalid_context', field: 'runId' },
      { code: 'invalid_context', field: 'context' },
      { code: 'invalid_context', field: 'result' },
    ])
  })

  const call = {
    id: 'c',
    toolName: 'add',
    params: {},
    status: 'completed',
    startedAt: 1,
    sequence: 0,
  }
})

describe('query', () => {
  test('binds values of every kind, and returns SQLite’s conversion', async () => {
    const { ledger } = scripted()
    const answer = await ledger.query(
      `SELECT ? AS text, ? AS whole, ? AS part, ? AS yes, ? AS no, ? AS none, typeof(?) AS kind, ? AS big`,
      ["it's; --", 42, 0.5, true, false, null, 1, Number.MAX_SAFE_INTEGER],
    )
    const columns = ['text', 'whole', 'part', 'yes', 'no', 'none', 'kind', 'big']
    expect(answer).toEqual({
      columns,
      rows: [
        {
          text: "it's; --",
          whole: 42,
          part: 0.5,
          yes: 1,
          no: 0,
          none: null,
          kind: 'integer',
          big: Number.MAX_SAFE_INTEGER,
        },
      ],
      truncated: null,
    })
  })

  test('numbers beyond 2^53 are text, blobs are hex, and a repeated column has a number', async () => {
    const { ledger } = scripted()
    expect(await ledger.query("SELECT 9007199254740993 AS a, x'00ff' AS a, 1e999 AS c")).toEqual({
      columns: ['a', 'a_2', 'c'],
      rows: [{ a: '9007199254740993', a_2: '00ff', c: 'inf' }],
      truncated: null,
    })
  })

  test('reports when rows are left out', async () => {
    const { ledger } = scripted()
    const counting =
      'WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) SELECT i FROM n'
    const many = await ledger.query(counting, [10_001])
    expect([many.rows.length, many.truncated]).toEqual([10_000, 'rows'])
    const wide = await ledger.query(`SELECT hex(zeroblob(4000000)) AS h FROM (${counting})`, [9])
    expect([wide.rows.length < 9, wide.truncated]).toEqual([true, 'bytes'])
  })

  test.each([
    "INSERT INTO sessions (label, created_at, updated_at) VALUES ('x', 1, 1)",
    'UPDATE turns SET status = status',
    'DELETE FROM turns',
    'DROP TABLE turns',
    'CREATE TABLE t (x)',
    'CREATE TEMP TABLE t (x)',
    'PRAGMA user_version',
    'PRAGMA journal_mode = DELETE',
    "ATTACH ':memory:' AS other",
    'VACUUM',
    "VACUUM INTO '/tmp/agent-engine-copy.db'",
    'BEGIN IMMEDIATE',
    'SELECT 1; SELECT 2',
    "SELECT load_extension('x')",
    "SELECT writefile('/tmp/x', 'y')",
    'SELECT * FROM nowhere',
    'SELECT * FROM turns WHERE id = "x"',
    'EXPLAIN DELETE FROM turns',
    'SELEC 1',
    '',
    '-- nothing',
  ])('refuses `%s`', async (sql) => {
    const { ledger } = scripted()
    expect(await refusal(ledger.query(sql))).toEqual({ code: 'invalid_query' })
  })

  test('refuses values that SQLite or JSON cannot represent, and wrong counts of parameters', async () => {
    const { ledger } = scripted()
    const bad = (params: unknown[]) => refusal(ledger.query('SELECT ?', params as never))
    const at = (field: string) => ({ code: 'invalid_query', field })
    expect([
      await bad([1n]),
      await bad([undefined]),
      await bad([{}]),
      await bad([new Date()]),
      await bad([Number.NaN]),
      await bad([Number.POSITIVE_INFINITY]),
      await bad(['a', Symbol('b')]),
      await bad('a' as never),
      await bad([]),
      await bad([1, 2]),
      await refusal(ledger.query(undefined as never)),
    ]).toEqual([
      at('params[0]'),
      at('params[0]'),
      at('params[0]'),
      at('params[0]'),
      at('params[0]'),
      at('params[0]'),
      at('params[1]'),
      at('params'),
      { code: 'invalid_query' },
      { code: 'invalid_query' },
      at('sql'),
    ])
  })

  test('an endless query is stopped, and others continue meanwhile', async () => {
    const { engine, ledger } = scripted(['ok'])
    const endless = refusal(
      ledger.query(
        'WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n',
      ),
    )
    const result = await engine.run(context()).result
    expect((await ledger.turn(result.turnId))?.status).toBe('completed')
    expect(await endless).toEqual({ code: 'invalid_query' })
  })
})

describe('the other reads', () => {
  test('an unknown row is null, or an error with its code', async () => {
    const { ledger } = scripted()
    expect([await ledger.turn('nowhere'), await ledger.session('nowhere')]).toEqual([null, null])
    expect(await refusal(ledger.history('nowhere'))).toEqual({ code: 'unknown_session' })
    expect(await refusal(ledger.fork('nowhere'))).toEqual({ code: 'unknown_turn' })
  })

  test('an argument of a wrong type is named', async () => {
    const { ledger } = scripted()
    expect([
      await refusal(ledger.turn(1 as never)),
      await refusal(ledger.session(null as never)),
      await refusal(ledger.history(undefined as never)),
      await refusal(ledger.fork({} as never)),
      await refusal(ledger.fork('t', 1 as never)),
    ]).toEqual([
      { code: 'invalid_context', field: 'id' },
      { code: 'invalid_label', field: 'label' },
      { code: 'invalid_context', field: 'labelOrTurnId' },
      { code: 'invalid_context', field: 'turnId' },
      { code: 'invalid_label', field: 'label' },
    ])
  })

  test('half a surrogate pair is refused in a label and an id, and is U+FFFD in stored texts', async () => {
    const { engine, ledger } = scripted(['ok'])
    const half = 'half \ud83d'
    expect(() => engine.run(context({ sessionLabel: half }))).toThrow(
      expect.objectContaining({ code: 'invalid_label', field: 'sessionLabel' }),
    )
    expect([
      await refusal(ledger.session(half)),
      await refusal(ledger.turn(half)),
      await refusal(ledger.query('SELECT ?1', [half])),
      await refusal(ledger.sessions({ labelPrefix: half } as never)),
    ]).toEqual([
      { code: 'invalid_label', field: 'label' },
      { code: 'invalid_context', field: 'id' },
      { code: 'invalid_query', field: 'params[0]' },
      { code: 'invalid_query', field: 'filter.labelPrefix' },
    ])
    const written = await ledger.writeTurn(context(), {
      messages: [{ id: 'a', role: 'user', content: '\ude00', sequence: 0, createdAt: 1 }],
      toolCalls: [],
      usage: { ...usage, totalTokens: 1 },
      stopReason: 'end_turn',
      durationMs: 0,
    })
    expect((await ledger.turn(written))?.messages[0]?.content).toBe('\ufffd')
  })

  test('without a ledger, reading `ledger` names the option to pass', () => {
    const engine = new AgentEngine({ providers: { test: scriptedProvider([]) } })
    closing(engine)
    expect(() => engine.ledger).toThrow(
      expect.objectContaining({ code: 'no_ledger', field: 'ledger' }),
    )
  })
})

function dropCacheMarks(this: unknown, key: string, value: unknown): unknown {
  return key === 'cache_control' ? undefined : value
}
