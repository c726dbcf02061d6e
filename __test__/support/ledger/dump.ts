// The content of a ledger, read only through the API, so that two ledgers can be compared. It must leave out only the journal of
// running turns, and fields that each ledger creates itself.

import type { AgentEngine } from '../../../index.js'
import { onPostgres } from './on-postgres.js'

const TABLES: Record<string, string> = {
  sessions: 'SELECT * FROM sessions ORDER BY label',
  log: 'SELECT session_label, thread_id, changed_at FROM session_history ORDER BY session_label, id',
  turns: 'SELECT * FROM turns ORDER BY id',
  messages: 'SELECT * FROM messages ORDER BY turn_id, sequence',
  calls: `SELECT id, provider_call_id, turn_id, message_id, tool_name, status, spawned_session_label, started_at,
    completed_at, sequence, error, params_json, result_json FROM tool_calls ORDER BY turn_id, sequence`,
  compactions: 'SELECT * FROM compactions ORDER BY turn_id',
  approvals: 'SELECT * FROM approvals ORDER BY id',
}

/** The same of a server, whose rows have bodies: the turns and sessions as the API returns them. */
const SERVER_TABLES: Record<string, string> = {
  log: TABLES.log as string,
  layers:
    'SELECT turn_id, sequence, id, role, created_at, context_json FROM messages ORDER BY turn_id, sequence',
  approvals: 'SELECT * FROM approvals ORDER BY id',
}

async function readTurnsAndSessions({ ledger }: AgentEngine): Promise<Record<string, unknown[]>> {
  const { rows } = await ledger.query(
    "SELECT id FROM turns WHERE status <> 'streaming' ORDER BY id",
  )
  const turns = await Promise.all(rows.map(({ id }) => ledger.turn(String(id))))
  const { rows: labels } = await ledger.query('SELECT label FROM sessions ORDER BY label')
  const sessions = await Promise.all(labels.map(({ label }) => ledger.session(String(label))))
  // A lost child changes its parent in this field alone.
  return { turns: turns.map((turn) => ({ ...turn, hasChildren: undefined })), sessions }
}

/** Every row of every table that a turn leaves. */
export async function dump(engine: AgentEngine): Promise<Record<string, unknown[]>> {
  const dumped = onPostgres ? await readTurnsAndSessions(engine) : {}
  for (const [name, sql] of Object.entries(onPostgres ? SERVER_TABLES : TABLES)) {
    const { rows, truncated } = await engine.ledger.query(sql)
    if (truncated !== null) throw new Error(`\`${name}\` does not fit an answer`)
    // The checksum depends on the other fields, and on the parent of an imported turn. Each file numbers its own turns.
    dumped[name] = rows.map(({ row_checksum: _, n: _n, first_child: _child, ...row }) => row)
  }
  return dumped
}

/** The history of every session, by its label. */
export async function histories(engine: AgentEngine): Promise<Record<string, unknown[]>> {
  const { rows } = await engine.ledger.query('SELECT label FROM sessions ORDER BY label')
  const bySession: Record<string, unknown[]> = {}
  for (const { label } of rows)
    bySession[String(label)] = await engine.ledger.history(String(label))
  return bySession
}
