// What another SQLite reads in a ledger with rows of every kind: each table row for row, the broker interface's `threads`, the
// invariants, and the rules of the schema. One turn in detail is in ledger/rows.spec.ts. It must never write except to copies.

import { spawnSync } from 'node:child_process'
import { copyFileSync } from 'node:fs'
import { beforeAll, describe, expect, test } from 'vitest'
import { AgentEngine, scriptedProvider, type TurnRow } from '../../index.js'
import { context, tempDir } from '../support/engine.js'
import { expectSound, INVARIANTS } from '../support/ledger/invariants.js'
import { rows, sqlite3 } from '../support/ledger/sqlite3.js'
import { killable } from '../support/processes/killable.js'
import { counter } from '../support/servers/effect-counter.js'

const SUMMARY = `## Goal\n${'Read the files. '.repeat(4)}`
const model = { provider: 'test', id: 'test-model', contextWindow: 100_000, maxOutputTokens: 1_000 }
const models = [model, { ...model, provider: 'small', id: 'tiny' }]
const long = (what: string) => `${what} ${'lorem ipsum '.repeat(140)}`
const userTurn = (content: string) => context({ currentMessage: { role: 'user', content } })

let folder: ReturnType<typeof tempDir>
/** The turns that the engine returns, by id, and those that it lists as interrupted. */
let turns: Map<string, TurnRow>
let interrupted: string[]

/** A ledger with every kind of turn: with tools, failed, aborted, compacted, forked, written by a broker, and interrupted. */
async function everything(file: string): Promise<AgentEngine> {
  const service = await counter()
  const stopAt = JSON.stringify({ stopAt: 'after reconcilable one' })
  const child = killable('recovery/recovery.mjs', [file, service.url, 'run', 'killed', stopAt])
  await child.line('at after reconcilable one')
  child.kill()
  await child.ended
  await service.close()
  const refused = { error: { status: 400, code: 'bad', message: 'no such thing' } }
  const provider = scriptedProvider([
    {
      thinking: 'hm',
      signature: 'c2ln',
      text: 'both',
      toolCalls: [{ name: 'read' }, { name: 'breaks' }],
    },
    long('answer 1'),
    { ...refused },
    { text: 'so far', ...refused },
    { steps: [{ text: 'half' }, { gate: 'never' }] },
    long('answer 2'),
    long('answer 3'),
    long('answer 4'),
    'after the summary',
    'on the side',
  ])
  const engine = new AgentEngine({
    providers: { test: provider, small: scriptedProvider([SUMMARY]) },
    models,
    ledger: { path: file },
    compaction: { provider: 'small', model: 'tiny' },
  })
  const breaks = () => {
    throw new Error('no such file')
  }
  const tools = [
    { name: 'read', run: () => ({ content: 'grüße 🙂' }) },
    { name: 'breaks', run: breaks },
  ]
  const first = await engine.run({ ...userTurn(long('question 1')), tools }).result
  for (const question of ['refused', 'broken']) await engine.run(userTurn(question)).result
  const aborted = engine.run(userTurn('stop'))
  for await (const event of aborted) if (event.type === 'token') aborted.abort()
  for (const n of [2, 3, 4]) await engine.run(userTurn(long(`question ${n}`))).result
  expect(await engine.compact('agent:main:main')).not.toBeNull()
  await engine.run(userTurn('go on')).result
  await engine.ledger.fork(first.turnId, 'side')
  await engine.run({ ...userTurn('elsewhere'), sessionLabel: 'side' }).result
  await engine.ledger.writeTurn(context({ sessionLabel: 'broker' }), {
    messages: [
      { role: 'user', content: 'hi', id: 'q', sequence: 0, createdAt: 1 },
      { role: 'assistant', content: 'ho', id: 'a', sequence: 1, createdAt: 2 },
    ],
    toolCalls: [],
    usage: {
      inputTokens: 1,
      outputTokens: 2,
      cachedInputTokens: 3,
      cacheWriteTokens: 4,
      reasoningTokens: 1,
      totalTokens: 10,
    },
    stopReason: 'end_turn',
    durationMs: 1,
  })
  return engine
}

/** Each table and view of the file except the search index, which cannot be read row by row, with an expression for its row as text. */
function tables(file: string): { name: string; sql: string }[] {
  const names = rows(
    file,
    `SELECT name FROM sqlite_schema
     WHERE type IN ('table', 'view') AND name NOT LIKE 'message_words%' ORDER BY name`,
  )
  return names.map(({ name }) => {
    const columns = rows(file, `PRAGMA table_info("${name}")`).map(
      (column) => `quote("${column.name}")`,
    )
    return {
      name: String(name),
      sql: `SELECT ${columns.join(" || ', ' || ")} AS row FROM "${name}" ORDER BY row`,
    }
  })
}

describe.skipIf(!sqlite3)('read by the sqlite3 command line', () => {
  /** The rows of every table, read by the engine, and by another SQLite while the engine has the file open. */
  const engines = new Map<string, unknown[]>()
  const whileOpen = new Map<string, unknown[]>()
  beforeAll(async () => {
    folder = tempDir()
    const engine = await everything(folder.file)
    const { rows: ids } = await engine.ledger.query('SELECT id FROM turns ORDER BY id')
    const apiTurns = await Promise.all(
      ids.map(async ({ id }) => await engine.ledger.turn(String(id))),
    )
    turns = new Map(apiTurns.flatMap((turn) => (turn === null ? [] : [[turn.id, turn]])))
    interrupted = (await engine.recover()).map((turn) => turn.turnId)
    for (const { name, sql } of tables(folder.file)) {
      engines.set(name, (await engine.ledger.query(sql)).rows)
      whileOpen.set(name, rows(folder.file, sql))
    }
    await engine.close()
    return () => folder.remove()
  })

  test('both read the same from the search index', async () => {
    const { file, remove } = tempDir()
    const engine = new AgentEngine({ ledger: { path: file } })
    // Enough messages for a search to index some of them.
    const messages = Array.from({ length: 400 }, (_, n) => ({
      role: 'user' as const,
      content: `question ${n % 4}`,
      id: `q${n}`,
      sequence: n,
      createdAt: n,
    }))
    await engine.ledger.writeTurn(context(), {
      messages,
      toolCalls: [],
      usage: {
        inputTokens: 1,
        outputTokens: 0,
        cachedInputTokens: 0,
        cacheWriteTokens: 0,
        reasoningTokens: 0,
        totalTokens: 1,
      },
      stopReason: 'end_turn',
      durationMs: 1,
    })
    expect((await engine.ledger.search('question')).items.length).toBe(100)
    const FOUND =
      "SELECT rowid FROM message_words WHERE message_words MATCH 'question AND 3' ORDER BY rowid"
    const words = (await engine.ledger.query(FOUND)).rows
    expect(words.length).toBe(64)
    expect(rows(file, FOUND)).toEqual(words)
    await engine.close()
    expect(rows(file, FOUND)).toEqual(words)
    expect(rows(file, 'PRAGMA integrity_check')).toEqual([{ integrity_check: 'ok' }])
    remove()
  })

  test('every table has the rows that the engine reads, byte for byte, while the ledger is open and after it is closed', () => {
    expect(whileOpen).toEqual(engines)
    const closed = tables(folder.file).map(({ name, sql }) => [name, rows(folder.file, sql)])
    // Closing moves what ended runs have in the journal into the archive.
    const moved = ['event_archive', 'journal', 'runs']
    const stays = ([name]: readonly unknown[]) => !moved.includes(String(name))
    expect(closed.filter(stays)).toEqual([...engines].filter(stays))
    const some = [...engines].map(([name, found]) => [name, found.length > 0])
    expect(Object.fromEntries(some)).toMatchObject({
      compactions: true,
      journal: true,
      messages: true,
      run_contexts: true,
      runs: true,
      schema_meta: true,
      session_history: true,
      session_leases: true,
      sessions: true,
      threads: true,
      tool_calls: true,
      turns: true,
    })
  })

  test('the ledger has every kind of turn', () => {
    const kinds = rows(
      folder.file,
      'SELECT turn_type, status, count(*) AS n FROM turns GROUP BY turn_type, status ORDER BY turn_type, status',
    )
    expect(kinds).toEqual([
      { turn_type: 'compaction', status: 'completed', n: 1 },
      { turn_type: 'normal', status: 'aborted', n: 1 },
      { turn_type: 'normal', status: 'completed', n: 7 },
      { turn_type: 'normal', status: 'failed', n: 2 },
    ])
    const open = 'SELECT turn_id FROM runs WHERE ended_at IS NULL AND epoch IS NOT NULL'
    expect(rows(folder.file, open)).toEqual(interrupted.map((turn_id) => ({ turn_id })))
  })

  test('every turn, message and call equals the API’s', () => {
    const messages = rows(
      folder.file,
      `SELECT turn_id, id, role, sequence, created_at, tool_call_id, is_error, content, thinking
       FROM messages ORDER BY turn_id, sequence`,
    )
    const calls = rows(
      folder.file,
      `SELECT turn_id, id, provider_call_id, message_id, tool_name, status, started_at, completed_at, sequence, error,
         params_json, result_json FROM tool_calls ORDER BY turn_id, sequence`,
    )
    const heads = rows(
      folder.file,
      'SELECT id, parent_turn_id, status, depth, total_tokens, thread_tokens, stop_reason, cost FROM turns ORDER BY id',
    )
    const all = [...turns.values()].filter((turn) => turn.status !== 'streaming')
    expect(heads).toEqual(
      all.map((turn) => ({
        id: turn.id,
        parent_turn_id: turn.parentTurnId,
        status: turn.status,
        depth: turn.depth,
        total_tokens: turn.usage.totalTokens,
        thread_tokens: turn.threadTokens,
        stop_reason: turn.stopReason,
        cost: turn.cost,
      })),
    )
    expect(messages).toEqual(
      all.flatMap((turn) =>
        turn.messages.map((message) => ({
          turn_id: turn.id,
          id: message.id,
          role: message.role,
          sequence: message.sequence,
          created_at: message.createdAt,
          tool_call_id: message.toolCallId ?? null,
          is_error: message.isError === undefined ? null : Number(message.isError),
          content: message.content,
          thinking: message.thinking ?? null,
        })),
      ),
    )
    expect(
      calls.map((call) => ({
        ...call,
        params_json: JSON.parse(String(call.params_json)),
        result_json: call.result_json === null ? undefined : JSON.parse(String(call.result_json)),
      })),
    ).toEqual(
      all.flatMap((turn) =>
        turn.toolCalls.map((call) => ({
          turn_id: turn.id,
          id: call.callId,
          provider_call_id: call.id,
          message_id: call.messageId,
          tool_name: call.toolName,
          status: call.status,
          started_at: call.startedAt,
          completed_at: call.completedAt ?? null,
          sequence: call.sequence,
          error: call.error ?? null,
          params_json: call.params,
          result_json: call.result,
        })),
      ),
    )
    expect([messages.length, calls.length]).toEqual([23, 2])
  })

  test('threads follows the broker interface: every ended turn, with its ancestors', () => {
    const chain = (id: string | null): string[] => {
      const turn = id === null ? undefined : turns.get(id)
      return turn === undefined ? [] : [...chain(turn.parentTurnId), turn.id]
    }
    const ended = [...turns.values()].filter((turn) => turn.status !== 'streaming')
    expect(rows(folder.file, 'SELECT * FROM threads ORDER BY turn_id')).toEqual(
      ended.map((turn) => ({
        turn_id: turn.id,
        ancestry: JSON.stringify(chain(turn.id)),
        total_tokens: chain(turn.id)
          .map((id) => turns.get(id)?.usage.totalTokens ?? 0)
          .reduce((sum, tokens) => sum + tokens, 0),
        depth: chain(turn.id).length - 1,
        persona_id: 'default',
        thread_key: `${turn.sessionLabel}/${turn.id}`,
      })),
    )
  })

  test('every invariant holds', () => expectSound(folder.file))

  /** A copy changed by another SQLite, without triggers, references and CHECKs. */
  function changed(sql: string): string {
    const copy = `${folder.path}/copy-${Math.random()}.db`
    copyFileSync(folder.file, copy)
    const triggers = rows(copy, "SELECT name FROM sqlite_schema WHERE type = 'trigger'")
    const drop = triggers.map(({ name }) => `DROP TRIGGER "${name}";`).join('')
    rows(copy, `PRAGMA ignore_check_constraints = ON; ${drop} ${sql}`)
    return copy
  }

  const one =
    "(SELECT max(id) FROM turns WHERE status = 'completed' AND turn_type = 'normal' AND depth > 0)"
  const queued = (status: string) =>
    `INSERT INTO queue_items (id, session_label, source, mode, principal, is_system, message_json, request_json, status, tries,
       failures, not_before, turn_id, is_summarized, created_at)
     VALUES ('i', 's', 'user', 'queue', 'p', 0, '{}', '{}', ${status}, 0, 0, 0, 'nowhere', 0, 0)`
  const dispatched = (kind: string, status: string) =>
    `INSERT INTO dispatches (id, kind, status, parent_session, parent_turn_id, root_turn_id, session_label, agent_id, is_new, depth,
       hops, is_detached, principal, request_json, created_at)
     VALUES ('d', '${kind}', '${status}', 's', 't', 't', 'w', 'a', 0, 1, 0, 0, '{}', '{}', 0)`
  const last = (table: string, where = '1') =>
    `rowid = (SELECT max(rowid) FROM ${table} WHERE ${where})`
  test.each([
    [
      'a turn is one deeper than its parent',
      `UPDATE turn_rows SET depth = depth + 1 WHERE id = ${one}`,
    ],
    [
      'has_children is whether a turn has one',
      `UPDATE turn_rows SET first_child = iif(first_child IS NULL, 1, NULL) WHERE id = ${one}`,
    ],
    [
      'no turn follows one that runs',
      `UPDATE turn_rows SET id = (SELECT turn_id FROM runs WHERE ended_at IS NULL)
        WHERE n = (SELECT parent FROM turn_rows WHERE id = ${one})`,
    ],
    [
      'the tokens of a thread are those of its turns',
      `UPDATE turn_rows SET thread_tokens = 0 WHERE id = ${one}`,
    ],
    [
      'total_tokens is the sum of the four',
      `UPDATE turn_rows SET output_tokens = output_tokens + 1 WHERE id = ${one}`,
    ],
    [
      'an ended turn has its time and reason',
      `UPDATE turn_rows SET stop_reason = NULL WHERE id = ${one}`,
    ],
    [
      'what has not ended is in the journal alone',
      `UPDATE turn_rows SET status = 1 WHERE id = ${one}`,
    ],
    ['a run that has not ended has its first entry', 'DELETE FROM journal'],
    [
      'a failed turn has its error, and no other',
      'UPDATE turn_rows SET error_kind = NULL WHERE status = 4',
    ],
    [
      'messages are numbered without a gap',
      `UPDATE message_rows SET key = key + 99 WHERE ${last('message_rows')}`,
    ],
    [
      'calls are numbered without a gap',
      `UPDATE call_rows SET key = key + 99 WHERE ${last('call_rows')}`,
    ],
    [
      'a turn that has ended counts its calls',
      'UPDATE turn_rows SET tool_call_count = 9 WHERE status = 3',
    ],
    [
      'every call of a turn that has ended has ended',
      `UPDATE call_rows SET status = 1 WHERE ${last('call_rows', 'status = 2')}`,
    ],
    [
      'a failed call has its error, and no other',
      'UPDATE call_rows SET error = NULL WHERE status = 3',
    ],
    [
      'every call of a turn that has ended is answered once',
      `DELETE FROM message_rows WHERE ${last('message_rows', 'role = 3')}`,
    ],
    [
      'a call belongs to an answer of its turn',
      `UPDATE call_rows SET message = 0 WHERE ${last('call_rows')}`,
    ],
    [
      'the ids of questions are messages of the user',
      `UPDATE turn_rows SET query_message_ids = '["x"]' WHERE id = ${one}`,
    ],
    [
      'the id of the answer is the last answer',
      `UPDATE turn_rows SET response_message_id = NULL WHERE id = ${one}`,
    ],
    ['a compaction has its row, and no other turn', 'DELETE FROM compactions'],
    [
      'a session points at a turn that has ended',
      `UPDATE turn_rows SET status = 1 WHERE id = (SELECT thread_id FROM sessions WHERE label = 'side')`,
    ],
    [
      'a session is where it last moved to',
      'DELETE FROM session_history WHERE id = (SELECT max(id) FROM session_history)',
    ],
    [
      'a session is unseen only while its first turn is open',
      "UPDATE sessions SET opening = 1 WHERE label = 'broker'",
    ],
    ['an open turn was opened under a lease there was', 'DELETE FROM session_leases'],
    ['a message of a queue that a turn has taken is in an open turn', queued("'processing'")],
    ['a delivered message of a queue has its turn', queued("'delivered'")],
    [
      'a dispatch is active as long as its message waits or is in a turn',
      dispatched('spawn', 'active'),
    ],
    [
      'an ended dispatch has its result as a message, unless a call waits for it',
      dispatched('dispatch', 'ok'),
    ],
    [
      'threads has every turn that has ended, from its root',
      'DROP VIEW threads; CREATE VIEW threads (turn_id, ancestry, total_tokens, depth, persona_id, thread_key) AS' +
        " SELECT id, '[]', thread_tokens, depth, 'default', session_label || '/' || id FROM turns",
    ],
  ])('and where it does not, it is found: %s', (name, sql) => {
    expect(rows(changed(sql), INVARIANTS[name] ?? '')).not.toEqual([])
  })

  test('each invariant was broken once', () => {
    const tried = 28
    expect(Object.keys(INVARIANTS)).toHaveLength(tried)
  })

  const numbers =
    'thread_tokens, session_label, run_id, started_at, usage_estimated, tool_call_count, input_tokens, output_tokens,' +
    ' cached_input_tokens, cache_write_tokens, reasoning_tokens, total_tokens'
  const zeros = "0, 'side', 1, 1, 0, 0, 0, 0, 0, 0, 0, 0"
  test.each([
    [
      'a turn one too deep',
      `INSERT INTO turn_rows (id, depth, ${numbers}) VALUES (1, 5, ${zeros})`,
      /one deeper than its parent/,
    ],
    [
      'a turn whose parent is not there',
      `INSERT INTO turn_rows (id, parent, depth, ${numbers}) VALUES (1, 999, 1, ${zeros})`,
      /one deeper than its parent/,
    ],
    [
      'a parent under its child',
      'UPDATE turn_rows SET parent = (SELECT max(n) FROM turn_rows), depth = depth WHERE depth = 0 AND first_child > 0',
      /keeps its parent/,
    ],
    [
      'a turn that is its own parent',
      `INSERT INTO turn_rows (n, id, parent, depth, ${numbers}) VALUES (999, 'x', 999, 0, ${zeros})`,
      /one deeper than its parent|CHECK/,
    ],
    [
      'a parent that is none any more',
      'UPDATE turn_rows SET first_child = NULL WHERE first_child > 0',
      /stays one/,
    ],
    ['a status of no kind', 'UPDATE turn_rows SET status = 9', /CHECK/],
    ['a role of no kind', 'UPDATE message_rows SET role = 9', /CHECK/],
    ['two messages at one position', 'UPDATE message_rows SET key = 1048576', /UNIQUE/],
    ['two calls at one position', 'UPDATE call_rows SET key = 1048576', /UNIQUE/],
    ['a session at a turn that is not there', "UPDATE sessions SET thread_id = 'x'", /FOREIGN KEY/],
    ['a session without a label', "UPDATE sessions SET label = '' WHERE label = 'broker'", /CHECK/],
    ['a turn that is gone while it is needed', 'DELETE FROM turn_rows', /FOREIGN KEY/],
    [
      'a text where a number is',
      "UPDATE turn_rows SET depth = 'deep'",
      /cannot store TEXT|one deeper|keeps its parent/,
    ],
    ['JSON that is none', "UPDATE run_contexts SET context_json = '['", /CHECK/],
    [
      'an epoch that goes back',
      'UPDATE session_leases SET epoch = epoch - 1 WHERE epoch > 1; UPDATE session_leases SET epoch = 0',
      /only grows|CHECK/,
    ],
    ['two identities', "INSERT INTO schema_meta VALUES (2, 'x', 1, '1', 0)", /CHECK/],
  ])('the schema refuses %s', (_what, sql, why) => {
    const copy = `${folder.path}/copy-${Math.random()}.db`
    copyFileSync(folder.file, copy)
    const tried = spawnSync('sqlite3', ['-bail', copy, `PRAGMA foreign_keys = ON; ${sql};`], {
      encoding: 'utf8',
    })
    expect({ status: tried.status === 0, why: tried.stderr }).toEqual({
      status: false,
      why: expect.stringMatching(why),
    })
  })
})
