// The rows of a run, read by the API and by another SQLite. How a run's end is stored is ledger/run-end.spec.ts, the host's own
// turns are ledger/write-turn.spec.ts. Which turns a later run sees is engine/history.spec.ts; it must never test that.

import { describe, expect, test } from 'vitest'
import { closing, folder, serving } from '../support/cleanup.js'
import { context, engineAt } from '../support/engine.js'
import { normal, rows, sqlite3 } from '../support/ledger/sqlite3.js'
import { pricedLedger, runFields, twoTools } from '../support/ledger/two-tools.js'
import { anthropic } from '../support/servers/anthropic.js'
import { sse } from '../support/servers/server.js'

describe('a turn with tools', () => {
  test('is read back equal to the result', async () => {
    const { engine, ledger } = pricedLedger(twoTools)
    const since = Date.now()
    const result = await engine.run(context(runFields)).result
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
      metadata: null,
      stopReason: 'end_turn',
      error: null,
      compaction: null,
    })
  })

  test.skipIf(!sqlite3)(
    'has the columns of the broker interface, read by another SQLite (sqlite3)',
    async () => {
      const { engine, file } = pricedLedger(twoTools)
      const since = Date.now()
      const result = await engine.run(context(runFields)).result
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
          n: 1,
          first_child: null,
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

test('turns form a thread: parent, depth, tokens of the thread, ancestry and the log of the pointer', async () => {
  const { engine, ledger } = pricedLedger(
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
