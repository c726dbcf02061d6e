// Salvage: readable rows of a damaged file are saved unchanged, lost ones are reported, and it must never change the damaged
// file.

import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { type AgentEngine, salvageLedger } from '../../index.js'
import { closing, folder } from '../support/cleanup.js'
import { context, scriptedEngine } from '../support/engine.js'
import { dump, histories } from '../support/ledger/dump.js'
import { refusal } from '../support/ledger/sqlite3.js'
import { compactedTurn } from '../support/ledger/turn-input.js'

const TURNS = 30
const PAGE = 4096
/** With `SALVAGE_PAGES=all` each page is damaged, else each of the first and some of the others. */
const ALL_PAGES = process.env.SALVAGE_PAGES === 'all'

function open(path: string): AgentEngine {
  return closing(scriptedEngine([], { ledger: { path } }).engine)
}

/** Turns of four messages, some longer than a page, in three sessions, one of them forked; a compaction. */
async function fill(path: string, turns = TURNS): Promise<AgentEngine> {
  const replies = Array.from({ length: TURNS }, (_, n) => [
    {
      text: `asking ${n} ${'x'.repeat(n % 5 === 0 ? 9000 : 50)}`,
      toolCalls: [{ id: 'c', name: 'echo', arguments: { n } }],
    },
    `answer ${n}`,
  ]).flat()
  const { engine } = scriptedEngine(replies, {
    ledger: { path, synchronous: 'normal', events: false },
  })
  closing(engine)
  const tools = [
    { name: 'echo', run: ({ n }: { n: number }) => ({ n, long: 'y'.repeat(n * 100) }) },
  ]
  const ids: string[] = []
  for (let n = 0; n < turns; n++) {
    const sessionLabel = n % 3 === 0 ? 'one' : 'two'
    const { turnId, persisted } = await engine.run(context({ sessionLabel, tools, history: [] }))
      .result
    expect(persisted).toBe(true)
    ids.push(turnId)
  }
  await engine.ledger.fork(ids[3] as string, 'branch')
  const head = (await engine.ledger.session('two'))?.threadId as string
  await engine.ledger.writeTurn(
    context({ sessionLabel: 'two', parentTurnId: head }),
    compactedTurn(ids[1] as string, ids[2] as string, {
      messages: [{ id: 'q', role: 'user', content: 'on', sequence: 0, createdAt: 1 }],
    }),
  )
  return engine
}

/** A closed ledger of turns in a folder of its own below `path`, and the rows of its tables. */
async function closedLedger() {
  const { path } = folder()
  mkdirSync(join(path, 'damaged'))
  const file = join(path, 'damaged', 'agent.db')
  const engine = await fill(file)
  const was = await dump(engine)
  await engine.close()
  return { path, file, was }
}

/** Every file of a folder with its bytes. */
const bytes = (path: string): Record<string, string> =>
  Object.fromEntries(
    readdirSync(path).map((name) => [name, readFileSync(join(path, name)).toString('base64')]),
  )

/** Rows by their key, without fields that depend on lost rows. */
function byKey(rows: unknown[] | undefined, ...keys: string[]): Map<string, unknown> {
  const free = [
    'parent_turn_id',
    'depth',
    'thread_tokens',
    'has_children',
    'query_message_ids',
    'response_message_id',
    'tool_call_count',
  ]
  return new Map(
    (rows as Record<string, unknown>[]).map((row) => [
      keys.map((key) => row[key]).join(' '),
      Object.fromEntries(Object.entries(row).filter(([name]) => !free.includes(name))),
    ]),
  )
}

/** Salvages `path`, and lists the lost messages and turns of `was`; the others are unchanged. */
async function saved(path: string, to: string, was: Record<string, unknown[]>) {
  const dir = join(path, '..')
  const before = bytes(dir)
  const report = await salvageLedger(path, to)
  expect(bytes(dir)).toEqual(before)
  const engine = open(to)
  expect(await engine.ledger.verify()).toMatchObject({ ok: true, problems: [] })
  const now = await dump(engine)
  const lost: Record<string, number> = {}
  for (const [table, ...keys] of [
    ['turns', 'id'],
    ['messages', 'turn_id', 'id'],
  ] as const) {
    const [old, left] = [byKey(was[table], ...keys), byKey(now[table], ...keys)]
    let gone = 0
    for (const [key, row] of old) {
      if (left.has(key)) {
        const moved = (left.get(key) as any).session_label === 'salvaged'
        if (!moved) expect(left.get(key)).toEqual(row)
      } else gone++
    }
    // A lost summary message is restored from its compaction.
    for (const key of left.keys()) expect(old.has(key) || key.endsWith('-summary')).toBe(true)
    lost[table] = gone
  }
  return { report, lost, engine, now }
}

describe('salvage', () => {
  test('of a whole ledger gives the same one, row for row', async () => {
    const { path } = folder()
    mkdirSync(join(path, 'damaged'))
    const file = join(path, 'damaged', 'agent.db')
    const engine = await fill(file)
    const [was, historyBefore] = [await dump(engine), await histories(engine)]
    await engine.close()
    const { report, now, engine: fresh } = await saved(file, join(path, 'fresh.db'), was)
    expect(report).toEqual({
      path: join(path, 'fresh.db'),
      pages: readFileSync(file).length / PAGE,
      lostRows: 0,
      sessions: 3,
      turns: TURNS + 2,
      messages: was.messages?.length,
      toolCalls: TURNS,
      facts: 0,
      indexedTurns: 0,
      problems: [],
      truncated: false,
    })
    expect(now).toEqual(was)
    expect(await histories(fresh)).toEqual(historyBefore)
    await fresh.close()
    // No temporary file remains beside it.
    expect(readdirSync(path).sort()).toEqual(['damaged', 'fresh.db'])
  })

  test('reads rows that are only in the log', async () => {
    const { path } = folder()
    mkdirSync(join(path, 'damaged'))
    const engine = await fill(join(path, 'live.db'))
    const was = await dump(engine)
    for (const suffix of ['', '-wal']) {
      copyFileSync(join(path, `live.db${suffix}`), join(path, 'damaged', `agent.db${suffix}`))
    }
    expect(existsSync(join(path, 'damaged', 'agent.db-wal'))).toBe(true)
    const { now, report } = await saved(
      join(path, 'damaged', 'agent.db'),
      join(path, 'fresh.db'),
      was,
    )
    expect(report.problems).toEqual([])
    expect(now).toEqual(was)
  })

  const pageOf = (file: Buffer, text: string) => Math.floor(file.indexOf(text) / PAGE)
  const page = (file: Buffer, number: number) => file.subarray(number * PAGE, (number + 1) * PAGE)
  const filled = (file: Buffer, fill: () => unknown) => {
    fill()
    return file
  }
  const ways: [string, (file: Buffer) => Buffer, { turns: number; messages: number }][] = [
    [
      'an overwritten header',
      (file) => filled(file, () => file.fill(0x20, 0, 100)),
      { turns: 0, messages: 0 },
    ],
    [
      'a first page that is zero',
      (file) => filled(file, () => page(file, 0).fill(0)),
      { turns: 0, messages: 0 },
    ],
    [
      'a page of noise',
      (file) => filled(file, () => page(file, pageOf(file, 'answer 7')).fill(0xa5)),
      { turns: 6, messages: 24 },
    ],
    [
      'a page that is zero',
      (file) => filled(file, () => page(file, pageOf(file, 'answer 11')).fill(0)),
      { turns: 6, messages: 24 },
    ],
    [
      'a changed bit in a message',
      (file) => {
        file[file.indexOf('answer 12')] = 0x62
        return file
      },
      { turns: 0, messages: 1 },
    ],
    [
      'every branch of every tree',
      (file) => {
        for (let at = 1; at < file.length / PAGE; at++) {
          if (file[at * PAGE] === 5 || file[at * PAGE] === 2) page(file, at).fill(0)
        }
        return file
      },
      { turns: 0, messages: 0 },
    ],
  ]

  test.each(ways)('of %s loses no more than that', async (_name, damage, most) => {
    const { path, file, was } = await closedLedger()
    writeFileSync(file, damage(readFileSync(file)))
    const { report, lost } = await saved(file, join(path, 'fresh.db'), was)
    expect(lost.turns).toBeLessThanOrEqual(most.turns)
    expect(lost.messages).toBeLessThanOrEqual(most.messages)
    if (most.messages > 0) {
      expect(lost.messages).toBeGreaterThan(0)
      expect(report.problems.length).toBeGreaterThan(0)
    }
    expect(JSON.stringify(report)).not.toContain('answer')
  })

  test('of a truncated file saves the rows before the cut', async () => {
    const { path, file, was } = await closedLedger()
    truncateSync(file, Math.floor((readFileSync(file).length * 0.8) / PAGE) * PAGE + 1000)
    const { lost, report } = await saved(file, join(path, 'fresh.db'), was)
    expect(lost.messages).toBeGreaterThan(0)
    expect(lost.messages).toBeLessThan(was.messages?.length ?? 0)
    expect(report.turns).toBeGreaterThan(0)
  })

  test('with any damaged page gives a whole ledger and does not change the damaged one', {
    timeout: 240_000,
  }, async () => {
    const { path } = folder()
    mkdirSync(join(path, 'damaged'))
    const file = join(path, 'damaged', 'agent.db')
    const engine = await fill(file, 9)
    const was = await dump(engine)
    await engine.close()
    const whole = readFileSync(file)
    const pages = whole.length / PAGE
    // The first pages have the schema and the roots.
    for (let at = 0; at < pages; at += ALL_PAGES || at < 8 ? 1 : 3) {
      const hurt = Buffer.from(whole)
      // A linear congruential generator: enough noise, and the same everywhere.
      let state = at
      for (let byte = 0; byte < PAGE; byte += 7) {
        state = (Math.imul(state, 1664525) + 1013904223) >>> 0
        hurt[at * PAGE + byte] = state >>> 24
      }
      // No valid type of page: rows have no checksum of their own, so a page that looks valid is read.
      hurt[at * PAGE + (at === 0 ? 100 : 0)] = 0xa5
      writeFileSync(file, hurt)
      const { engine } = await saved(file, join(path, `fresh-${at}.db`), was)
      await engine.close()
    }
  })

  test('refuses invalid arguments, and leaves no file', async () => {
    const { path, file } = folder()
    const engine = await fill(file)
    const to = join(path, 'fresh.db')
    const of = (field: string) => ({ code: 'invalid_import', field })
    expect(await refusal(salvageLedger(file, to))).toEqual({ code: 'ledger_in_use' })
    await engine.close()
    expect(await refusal(salvageLedger(join(path, 'none'), to))).toEqual(of('damaged'))
    expect(await refusal(salvageLedger(path, to))).toEqual(of('damaged'))
    writeFileSync(join(path, 'html'), '<html>'.repeat(9000))
    expect(await refusal(salvageLedger(join(path, 'html'), to))).toEqual(of('damaged'))
    writeFileSync(join(path, 'empty'), '')
    expect(await refusal(salvageLedger(join(path, 'empty'), to))).toEqual(of('damaged'))
    expect(await refusal(salvageLedger(file, join(path, 'html')))).toEqual({
      code: 'storage_exists',
      field: 'fresh',
    })
    expect(await refusal(salvageLedger(file, 5 as never))).toEqual({
      code: 'invalid_options',
      field: 'fresh',
    })
    expect(readdirSync(path).sort()).toEqual(['agent.db', 'empty', 'html'])
  })
})
