// A killed process: every acknowledged turn is whole, no reader gets a partial one, the ledger opens. It must never kill anything
// but its own children.

import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { AgentEngine } from '../../index.js'
import { folder } from '../support/cleanup.js'
import { leasesEnd } from '../support/ledger/named.js'
import { rows, sqlite3 } from '../support/ledger/sqlite3.js'
import { childEnv } from '../support/processes/child.js'

const ROUNDS = Number(process.env.RECOVERY_KILLS ?? 16)
const child = fileURLToPath(new URL('../children/ledger/crash.mjs', import.meta.url))

const finished = "t.status <> 'streaming'"

/** Runs turns in a child and kills it at a random moment after it has acknowledged `least`. */
async function killed(file: string, journal: string, least: number): Promise<[string, string][]> {
  const running = spawn(process.execPath, [child, file, journal], {
    env: childEnv(),
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let out = ''
  let aimed = false
  const ended = new Promise<NodeJS.Signals | null>((resolve, reject) => {
    running.on('error', reject)
    running.on('close', (_code, signal) => resolve(signal))
  })
  running.stdout.on('data', (chunk: Buffer) => {
    out += chunk
    if (out.split('\n').length > least && !aimed) {
      aimed = true
      setTimeout(() => running.kill('SIGKILL'), Math.random() * 20)
    }
  })
  expect(await ended).toBe('SIGKILL')
  return out
    .split('\n')
    .slice(0, -1)
    .map((line) => line.split(' ') as [string, string])
}

const title = `${ROUNDS} kills lose no acknowledged turn and show no half of one, journal %s`

test.each(['full', 'final'])(title, { timeout: 180_000 }, async (journal) => {
  const { file } = folder()
  const acknowledged: [string, string][] = []
  const heads = new Map<string, string | null>()
  for (let round = 0; round < ROUNDS; round++) {
    const printed = await killed(file, journal, 1 + (round % 6))
    acknowledged.push(...printed)
    leasesEnd(file)
    const engine = new AgentEngine({ ledger: { path: file } })
    const query = async (sql: string) => (await engine.ledger.query(sql)).rows
    const stored = new Set((await query('SELECT id FROM turns')).map((row) => row.id))
    expect(acknowledged.filter(([, turn]) => !stored.has(turn))).toEqual([])
    expect({
      unfinished: await query(
        `SELECT id FROM turns t WHERE ${finished} AND (t.status <> 'completed' OR t.completed_at IS NULL)`,
      ),
      halves: await query(
        `SELECT t.id FROM turns t WHERE ${finished} AND
           (t.tool_call_count <> (SELECT count(*) FROM tool_calls c WHERE c.turn_id = t.id)
             OR 5 <> (SELECT count(*) FROM messages m WHERE m.turn_id = t.id))`,
      ),
      strayMessages: await query(
        'SELECT id FROM messages WHERE turn_id NOT IN (SELECT id FROM turns)',
      ),
      strayCalls: await query(
        `SELECT id FROM tool_calls WHERE turn_id NOT IN (SELECT id FROM turns)
           OR message_id NOT IN (SELECT id FROM messages)`,
      ),
      beside: await query(
        `SELECT t.id FROM turns t WHERE ${finished}
           AND NOT EXISTS (SELECT 1 FROM turns c WHERE c.parent_turn_id = t.id AND c.status <> 'streaming')
           AND t.id NOT IN (SELECT thread_id FROM sessions WHERE label = t.session_label)`,
      ),
      unlogged: await query(
        `SELECT id FROM turns t WHERE ${finished} AND id NOT IN (SELECT thread_id FROM session_history)`,
      ),
    }).toEqual({
      unfinished: [],
      halves: [],
      strayMessages: [],
      strayCalls: [],
      beside: [],
      unlogged: [],
    })
    // Interrupted turns are listed; with `final` no turn is written before it has ended.
    const open = await query(
      'SELECT turn_id AS id FROM runs WHERE ended_at IS NULL AND epoch IS NOT NULL ORDER BY turn_id',
    )
    const listed = await engine.recover()
    expect(listed.map((turn) => turn.turnId)).toEqual(open.map((row) => row.id))
    if (journal === 'final') expect(listed).toEqual([])
    for (const label of ['one', 'two']) {
      // The head is the newest acknowledged turn, or the one that was persisted after it but not printed.
      const own = printed.filter(([session]) => session === label)
      const newest = own.at(-1)?.[1] ?? heads.get(label) ?? null
      const head = (await engine.ledger.session(label))?.threadId ?? null
      const parent = head === null ? null : (await engine.ledger.turn(head))?.parentTurnId
      expect([head, parent]).toContain(newest)
      heads.set(label, head)
    }
    await engine.close()
  }
  expect(acknowledged.length).toBeGreaterThan(ROUNDS)
  if (sqlite3) {
    expect(rows(file, 'PRAGMA integrity_check')).toEqual([{ integrity_check: 'ok' }])
    expect(rows(file, 'PRAGMA foreign_key_check')).toEqual([])
  }
})
