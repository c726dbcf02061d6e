// The error of a reader for a changed row: `ledger_corrupt`, with the row's key, and without its content. Another SQLite, in
// a process of its own, changes the row as a bad disk would. It must never change a row through the engine.

import { execFileSync } from 'node:child_process'
import { expect, test } from 'vitest'
import { AgentEngine, salvageLedger } from '../../../index.js'
import { closing, folder } from '../../support/cleanup.js'
import { firstVersion, settle } from '../../support/ledger/everything.js'
import { rows, sqlite3 } from '../../support/ledger/sqlite3.js'

const reads: [string, string, string, (engine: AgentEngine, id: string) => Promise<unknown>][] = [
  [
    'a turn',
    "UPDATE turn_rows SET attempts_json = replace(attempts_json, 'first', 'fjrst') WHERE id = '{id}'",
    "SELECT id FROM turns WHERE attempts_json LIKE '%first%' LIMIT 1",
    (engine, id) => engine.ledger.turn(id),
  ],
  [
    'a tool call',
    "UPDATE call_rows SET started_at = started_at + 1 WHERE id = '{id}'",
    "SELECT id FROM tool_calls WHERE result_json LIKE '%hall%' ORDER BY id LIMIT 1",
    (engine) => engine.ledger.toolCalls(),
  ],
  [
    'the events of a run',
    'UPDATE event_archive SET events = zeroblob(length(events)) WHERE key >> 20 = {id}',
    'SELECT key >> 20 AS id FROM event_archive LIMIT 1',
    async (engine, id) => {
      const [log] = (await engine.ledger.query('SELECT run_id FROM runs WHERE n = ?', [Number(id)]))
        .rows
      for await (const _ of engine.attach(String(log?.run_id)));
    },
  ],
  [
    'the context of an interrupted turn',
    "UPDATE run_contexts SET context_json = replace(context_json, 'You are', 'You ate') WHERE '{id}' <> ''",
    'SELECT turn_id AS id FROM runs WHERE ended_at IS NULL',
    (engine, id) => engine.resume(id),
  ],
  [
    'what an interrupted turn has recorded',
    "UPDATE journal SET entry = zeroblob(length(entry)) WHERE id = (SELECT n FROM runs WHERE turn_id = '{id}')",
    'SELECT turn_id AS id FROM runs WHERE ended_at IS NULL',
    (engine, id) => engine.resume(id),
  ],
]

test.skipIf(!sqlite3).each(reads)(
  '%s that was changed is refused (sqlite3)',
  async (what, change, find, read) => {
    const { path, file } = folder()
    firstVersion(file)
    await settle(file)
    // A migration leaves whole copies of rows in free pages, which salvage would use.
    execFileSync('sqlite3', [file, 'VACUUM'])
    const id = String(rows(file, find)[0]?.id)
    execFileSync('sqlite3', [file, change.replaceAll('{id}', id)])
    const engine = closing(new AgentEngine({ ledger: { path: file } }))
    const error = await read(engine, id).then(
      () => expect.fail('it was not refused'),
      (error: { code: string; message: string }) => error,
    )
    expect(error.code).toBe('ledger_corrupt')
    expect(error.message).toContain('written')
    if (!what.startsWith('the events')) expect(error.message).toContain(id)
    const { problems } = await engine.ledger.verify()
    expect(problems.map(({ check }) => check)).toContain('checksum')
    await engine.close()
    // The readable part is saved and reported.
    const saved = await salvageLedger(file, `${path}/saved.db`)
    if (what === 'a turn' || what === 'a tool call') {
      expect(saved.problems.map(({ message }) => message)).toContainEqual(
        expect.stringMatching(`${id}. is not as it was written`),
      )
    }
    const fresh = closing(new AgentEngine({ ledger: { path: `${path}/saved.db` } }))
    expect((await fresh.ledger.verify()).problems).toEqual([])
  },
)
