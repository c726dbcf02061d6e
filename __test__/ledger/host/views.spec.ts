// The views under the names of the broker interface, over the rows of real runs: by the API's own SQL and by another SQLite. It must
// never read a table.

import { expect, test } from 'vitest'
import { context } from '../../support/engine.js'
import { scriptedLedger } from '../../support/ledger/scripted-ledger.js'
import { rows, sqlite3 } from '../../support/ledger/sqlite3.js'

const tools = [{ name: 'look', run: ({ at }: { at: string }) => `seen ${at}` }]
const looking = {
  text: 'looking',
  toolCalls: [{ id: 'call', name: 'look', arguments: { at: 'x' } }],
}
const QUERIES = [
  'SELECT label, thread_id IS NOT NULL AS points, metadata FROM agent_sessions ORDER BY label',
  'SELECT session_label, status, stop_reason, tool_call_count, metadata FROM agent_turns ORDER BY id',
  "SELECT m.role, m.content FROM agent_messages m JOIN agent_turns t ON t.id = m.turn_id WHERE t.session_label = 'main' ORDER BY m.sequence",
  'SELECT tool_name, status, params_json, result_json FROM agent_tool_calls',
]
const EXPECTED = [
  [{ label: 'main', points: 1, metadata: '{"owner":"me"}' }],
  [
    {
      session_label: 'main',
      status: 'completed',
      stop_reason: 'end_turn',
      tool_call_count: 1,
      metadata: '{"userId":"u1"}',
    },
    expect.objectContaining({ tool_call_count: 0, metadata: null }),
  ],
  [
    { role: 'user', content: 'hi' },
    { role: 'assistant', content: 'looking' },
    { role: 'tool', content: 'seen x' },
    { role: 'assistant', content: 'done' },
  ],
  [{ tool_name: 'look', status: 'completed', params_json: '{"at":"x"}', result_json: '"seen x"' }],
]

test('sessions, turns, messages and tool calls are read under the names of the broker interface', async () => {
  const { engine, ledger, file } = scriptedLedger([looking, 'done', 'alone'])
  const metadata = { userId: 'u1' }
  await engine.run(context({ sessionLabel: 'main', tools, metadata })).result
  await engine.run('Hello?', { provider: 'test', model: 'test-model' }).result
  await ledger.updateSession('main', { metadata: { owner: 'me' } })
  const found = []
  for (const sql of QUERIES) found.push((await ledger.query(sql)).rows)
  expect(found).toEqual(EXPECTED)
  if (sqlite3) expect(QUERIES.map((sql) => rows(file, sql))).toEqual(EXPECTED)
  expect((await ledger.verify()).problems).toEqual([])
})
