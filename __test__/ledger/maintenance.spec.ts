// The maintenance of a ledger: `verify`, `backup`, `stats` and `vacuum`. Damage is caused from outside: by another SQLite in its
// own process, or in the bytes of a closed file. It must never change a file that an engine has open.

import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { LedgerCheck, ScriptedReply } from '../../index.js'
import { closing, folder } from '../support/cleanup.js'
import { context, scriptedEngine } from '../support/engine.js'
import { refusal, rows, sqlite3 } from '../support/ledger/sqlite3.js'
import { compactedTurn } from '../support/ledger/turn-input.js'

const add = {
  name: 'add',
  parameters: { type: 'object', properties: { a: { type: 'number' } } },
  run: ({ a }: { a: number }) => ({ sum: a + 1 }),
}

const replies: ScriptedReply[] = [
  { text: 'asking', toolCalls: [{ id: 'call_0', name: 'add', arguments: { a: 1 } }] },
  'it is two',
  'the second answer',
  'the third answer',
]

function open(path: string, script: ScriptedReply[] = []) {
  const { engine } = scriptedEngine(script, { ledger: { path } })
  return closing(engine)
}

/** A closed ledger with a turn with a tool, two more, and a compaction written by a broker. */
async function written(path: string): Promise<string[]> {
  const engine = open(path, replies)
  const turns: string[] = []
  for (let i = 0; i < 3; i++) {
    const { turnId, persisted } = await engine.run(context({ tools: [add] })).result
    expect(persisted).toBe(true)
    turns.push(turnId)
  }
  const [first, second] = turns as [string, string]
  turns.push(
    await engine.ledger.writeTurn(
      context({ parentTurnId: turns[2] }),
      compactedTurn(first, second),
    ),
  )
  await engine.close()
  return turns
}

/** Changes the file with another SQLite, without the engine's rules. */
function damage(path: string, sql: string): void {
  const triggers = rows(path, "SELECT name FROM sqlite_schema WHERE type = 'trigger'")
  const without = triggers.map(({ name }) => `DROP TRIGGER ${name};`).join('')
  execFileSync('sqlite3', [path, `PRAGMA ignore_check_constraints = 1; ${without} ${sql}`])
}

async function checks(path: string): Promise<LedgerCheck[]> {
  const engine = open(path)
  const report = await engine.ledger.verify()
  await engine.close()
  expect(report.ok).toBe(report.problems.length === 0)
  return [...new Set(report.problems.map(({ check }) => check))]
}

describe('verify', () => {
  test('finds nothing wrong with a ledger of runs, and counts what it read', async () => {
    const { file } = folder()
    await written(file)
    const engine = open(file)
    expect(await engine.ledger.verify()).toEqual({
      ok: true,
      problems: [],
      truncated: false,
      checked: { sessions: 1, turns: 5, messages: 11, toolCalls: 1, blobs: 0 },
      durationMs: expect.any(Number),
    })
  })

  test('finds nothing wrong while turns run', async () => {
    const { file } = folder()
    const { engine, provider } = scriptedEngine([{ gate: 'go', text: 'x' }], {
      ledger: { path: file },
    })
    closing(engine)
    const run = engine.run(context())
    await expect.poll(() => provider.requests.length).toBe(1)
    expect(await engine.ledger.verify()).toMatchObject({ ok: true, checked: { turns: 1 } })
    provider.open('go')
    await run.result
  })

  const first = '(SELECT id FROM turns WHERE parent_turn_id IS NULL)'
  const damages: [string, LedgerCheck[], string][] = [
    [
      'a changed text',
      ['checksum'],
      "UPDATE message_rows SET content = 'it is three' WHERE content = 'it is two'",
    ],
    [
      'a changed model',
      ['checksum'],
      "UPDATE message_rows SET model = model + 99 WHERE content = 'it is two'",
    ],
    [
      'blocks that are no JSON',
      ['checksum'],
      "UPDATE message_rows SET blocks_json = '[' WHERE blocks_json IS NOT NULL",
    ],
    [
      'a wrong depth',
      ['tree'],
      `UPDATE turn_rows SET depth = 7 WHERE depth = (SELECT max(depth) FROM turns)`,
    ],
    [
      'a circle of parents',
      ['tree', 'thread_tokens'],
      `UPDATE turn_rows SET total_tokens = 5, parent = (SELECT n FROM turns WHERE depth = 1) WHERE depth = 0`,
    ],
    [
      'wrong thread tokens',
      ['thread_tokens'],
      'UPDATE turn_rows SET thread_tokens = thread_tokens + 1 WHERE depth = 4',
    ],
    [
      'a parent that forgot',
      ['children'],
      `UPDATE turn_rows SET first_child = NULL WHERE id = ${first}`,
    ],
    ['a childless parent', ['children'], 'UPDATE turn_rows SET first_child = n WHERE depth = 4'],
    ['a pointer without a log', ['pointer'], `UPDATE sessions SET thread_id = ${first}`],
    ['a lost log', ['pointer'], 'DELETE FROM session_history'],
    [
      'a turn that runs without a journal',
      ['pointer', 'open_turns'],
      'UPDATE turn_rows SET status = 1 WHERE depth = 4',
    ],
    [
      'an end without a time',
      ['open_turns'],
      'UPDATE turn_rows SET completed_at = NULL WHERE depth = 1',
    ],
    [
      'an answer that is not there',
      ['messages'],
      "UPDATE turn_rows SET response_message_id = 'gone' WHERE depth = 1",
    ],
    [
      'a question that is not there',
      ['messages'],
      `UPDATE turn_rows SET query_message_ids = '["gone"]' WHERE depth = 1`,
    ],
    [
      'a wrong count of calls',
      ['tool_calls'],
      'UPDATE turn_rows SET tool_call_count = 3 WHERE depth = 0',
    ],
    [
      'arguments that are no JSON',
      ['tool_calls'],
      "UPDATE call_rows SET block = NULL, params_json = '{'",
    ],
    ['a call of a message that is not there', ['references'], 'UPDATE call_rows SET message = 999'],
    [
      'a message of no turn',
      ['references'],
      'UPDATE message_rows SET key = key + (1000 << 20) WHERE key = (SELECT max(key) FROM message_rows)',
    ],
    [
      'two messages of one id',
      ['references'],
      'UPDATE message_rows SET id = (SELECT id FROM message_rows WHERE key = 1 << 20) WHERE key >> 20 = 1',
    ],
    ['a compaction without its row', ['compactions'], 'DELETE FROM compactions'],
    [
      'a turn that is gone',
      ['references', 'tree', 'thread_tokens'],
      `DELETE FROM turn_rows WHERE depth = 0`,
    ],
    ['a status that is none', ['open_turns'], 'UPDATE turn_rows SET status = 9 WHERE depth = 1'],
  ]

  test.skipIf(!sqlite3).each(damages)('finds %s (sqlite3)', async (_name, found, sql) => {
    const { file } = folder()
    await written(file)
    expect(await checks(file)).toEqual([])
    damage(file, `${sql};`)
    const reported = await checks(file)
    for (const check of found) expect(reported).toContain(check)
  })

  test('finds one changed bit in a message, and names the message', async () => {
    const { file } = folder()
    await written(file)
    const bytes = readFileSync(file)
    const at = bytes.indexOf('the second answer')
    expect(at).toBeGreaterThan(0)
    bytes[at] = (bytes[at] ?? 0) ^ 1
    writeFileSync(file, bytes)
    const engine = open(file)
    const { messages } = (
      await engine.ledger.query(
        "SELECT json_group_array(id) AS messages FROM messages WHERE content = 'uhe second answer'",
      )
    ).rows[0] as { messages: string }
    const { ok, problems } = await engine.ledger.verify()
    expect({ ok, problems }).toEqual({
      ok: false,
      problems: [
        {
          check: 'checksum',
          subject: JSON.parse(messages)[0],
          message: expect.stringContaining('does not have the content'),
        },
      ],
    })
    // No text of a message is in the report.
    expect(JSON.stringify(problems)).not.toContain('second answer')
  })

  test.each([
    ['zeroed', (page: Buffer) => page.fill(0)],
    ['noise', (page: Buffer) => page.fill(0xa5)],
    ['cut in half', (page: Buffer) => page.fill(0, 2048)],
  ])('finds a page that was %s, and still reads the rest', async (_name, break_) => {
    const { file } = folder()
    await written(file)
    const bytes = readFileSync(file)
    const page = Math.floor(bytes.indexOf('the second answer') / 4096)
    break_(bytes.subarray(page * 4096, (page + 1) * 4096))
    writeFileSync(file, bytes)
    const engine = open(file)
    const { ok, problems, checked } = await engine.ledger.verify()
    expect(ok).toBe(false)
    expect(problems.some(({ check }) => check === 'integrity')).toBe(true)
    expect(checked.turns).toBe(5)
  })

  test('a file that was destroyed under an open ledger is a report, not an exception', async () => {
    const { file } = folder()
    await written(file)
    const engine = open(file)
    await engine.ledger.stats()
    writeFileSync(file, Buffer.alloc(statSync(file).size, 0x20), { flag: 'r+' })
    const { ok, problems } = await engine.ledger.verify()
    expect(ok).toBe(false)
    expect(problems[0]?.check).toBe('integrity')
  })
})

describe('backup', () => {
  test('is a whole ledger that only its owner can read, with the same content', async () => {
    const { path, file } = folder()
    const turns = await written(file)
    const engine = open(file)
    const to = join(path, 'sub', 'copy.db')
    const { bytes, ...copy } = await engine.ledger.backup(to)
    expect(copy).toEqual({ path: to })
    expect(bytes).toBe(statSync(to).size)
    if (process.platform !== 'win32') expect(statSync(to).mode & 0o777).toBe(0o600)
    const other = open(to)
    expect(await other.ledger.verify()).toMatchObject({ ok: true, checked: { turns: 5 } })
    for (const id of turns) {
      expect(await other.ledger.turn(id)).toEqual(await engine.ledger.turn(id))
    }
    expect(await other.ledger.history('agent:main:main')).toEqual(
      await engine.ledger.history('agent:main:main'),
    )
    await other.close()
    // No other file remains beside it.
    expect(readdirSync(join(path, 'sub'))).toEqual(['copy.db'])
  })

  test('never overwrites, and never leaves a partial file', async () => {
    const { path, file } = folder()
    await written(file)
    const engine = open(file)
    writeFileSync(join(path, 'there'), 'mine')
    expect(await refusal(engine.ledger.backup(join(path, 'there')))).toEqual({
      code: 'storage_exists',
      field: 'path',
    })
    expect(await refusal(engine.ledger.backup(file))).toEqual({
      code: 'storage_exists',
      field: 'path',
    })
    expect(readFileSync(join(path, 'there'), 'utf8')).toBe('mine')
    expect(readdirSync(path).filter((name) => name.includes('.new-'))).toEqual([])
  })

  test('while runs commit, has every turn that was persisted before it, each whole', async () => {
    const { path, file } = folder()
    const { engine } = scriptedEngine([], { ledger: { path: file } })
    await engine.close()
    const busy = (() => {
      const { engine } = scriptedEngine(
        Array.from({ length: 4000 }, () => 'x'.repeat(3000)),
        { ledger: { path: file, synchronous: 'normal' } },
      )
      return closing(engine)
    })()
    const persistedTurns: string[] = []
    let going = true
    const loop = async (sessionLabel: string) => {
      while (going) {
        const { turnId, persisted } = await busy.run(context({ sessionLabel, history: [] })).result
        expect(persisted).toBe(true)
        persistedTurns.push(turnId)
      }
    }
    const loops = [loop('one'), loop('two')]
    await expect.poll(() => persistedTurns.length, { timeout: 30_000 }).toBeGreaterThan(40)
    const copies: { before: string[]; to: string }[] = []
    for (let i = 0; i < 5; i++) {
      const before = [...persistedTurns]
      const to = join(path, `copy-${i}.db`)
      await busy.ledger.backup(to)
      copies.push({ before, to })
    }
    going = false
    await Promise.all(loops)
    for (const { before, to } of copies) {
      const copy = open(to)
      expect(await copy.ledger.verify()).toMatchObject({ ok: true })
      const { rows } = await copy.ledger.query(
        "SELECT id, (SELECT count(*) FROM messages WHERE turn_id = t.id) AS n FROM turns t WHERE status = 'completed'",
      )
      expect(new Set(rows.map(({ n }) => n))).toEqual(new Set([2]))
      const held = new Set(rows.map(({ id }) => id))
      expect(before.filter((id) => !held.has(id))).toEqual([])
      await copy.close()
    }
  })
})

describe('stats and vacuum', () => {
  test('counts sessions, turns, messages and sizes', async () => {
    const { file } = folder()
    await written(file)
    const engine = open(file)
    const stats = await engine.ledger.stats()
    const { createdAt, firstTurnAt, lastTurnAt, ...rest } = stats
    expect(rest).toEqual({
      ledgerId: expect.stringMatching(/^[0-9A-Z]{26}$/),
      engineVersion: '0.1.0',
      schemaVersion: expect.any(Number),
      path: file,
      fileBytes: statSync(file).size,
      logBytes: 0,
      // Pages of tables that a migration has removed, for the next rows.
      freeBytes: expect.any(Number),
      sessions: 1,
      turns: { completed: 4, aborted: 0, failed: 0, open: 0, compactions: 1 },
      messages: 11,
      toolCalls: 1,
      blobs: { count: 0, bytes: 0, storedBytes: 0, savedBytes: 0 },
      usage: (
        await engine.ledger.query(
          `SELECT sum(input_tokens) AS inputTokens, sum(output_tokens) AS outputTokens,
           sum(cached_input_tokens) AS cachedInputTokens, sum(cache_write_tokens) AS cacheWriteTokens,
           sum(reasoning_tokens) AS reasoningTokens, sum(total_tokens) AS totalTokens FROM turns`,
        )
      ).rows[0],
      cost: 0,
      unpricedTurns: expect.any(Number),
    })
    expect(createdAt).toBeLessThanOrEqual(firstTurnAt ?? 0)
    expect(firstTurnAt).toBeLessThanOrEqual(lastTurnAt ?? 0)
  })

  test('an empty ledger has counts of zero', async () => {
    const { file } = folder()
    expect(await open(file).ledger.stats()).toMatchObject({
      sessions: 0,
      turns: { completed: 0, aborted: 0, failed: 0, open: 0, compactions: 0 },
      firstTurnAt: null,
      lastTurnAt: null,
    })
  })

  test.skipIf(!sqlite3)('vacuum frees pages, between runs that commit (sqlite3)', async () => {
    const { file } = folder()
    const turns = await written(file)
    execFileSync('sqlite3', [
      file,
      'CREATE TABLE ballast (x); WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500) INSERT INTO ballast SELECT zeroblob(4000) FROM n; DROP TABLE ballast;',
    ])
    const engine = open(file, ['more', 'and more', 'and more'])
    const before = await engine.ledger.stats()
    expect(before.freeBytes).toBeGreaterThan(1_000_000)
    const runs = [1, 2, 3].map((n) => engine.run(context({ sessionLabel: `other-${n}` })).result)
    const { bytesBefore, bytesAfter } = await engine.ledger.vacuum()
    expect(bytesBefore).toBeGreaterThan(1_000_000)
    expect(bytesAfter).toBeLessThan(bytesBefore - 1_000_000)
    for (const { persisted } of await Promise.all(runs)) expect(persisted).toBe(true)
    expect(await engine.ledger.stats()).toMatchObject({ freeBytes: 0 })
    expect(await engine.ledger.verify()).toMatchObject({ ok: true, checked: { turns: 8 } })
    expect(await engine.ledger.turn(turns[0] as string)).not.toBeNull()
    // The connection is unchanged: no file can be attached.
    expect(await refusal(engine.ledger.query("ATTACH ':memory:' AS other"))).toEqual({
      code: 'invalid_query',
    })
  })
})

describe('arguments', () => {
  test('an invalid path is named', async () => {
    const { file } = folder()
    const { ledger } = open(file)
    const wrong = { code: 'invalid_options', field: 'path' }
    expect(await refusal(ledger.backup(undefined as never))).toEqual(wrong)
    expect(await refusal(ledger.backup(''))).toEqual(wrong)
    expect(await refusal(ledger.backup('a\0b'))).toEqual(wrong)
  })

  test('after close, each is refused', async () => {
    const { path, file } = folder()
    const engine = open(file)
    const { ledger } = engine
    await engine.close()
    const closed = { code: 'ledger_closed' }
    expect(await refusal(ledger.verify())).toEqual(closed)
    expect(await refusal(ledger.stats())).toEqual(closed)
    expect(await refusal(ledger.vacuum())).toEqual(closed)
    expect(await refusal(ledger.backup(join(path, 'x')))).toEqual(closed)
    expect(readdirSync(path)).toEqual(['agent.db'])
  })
})
