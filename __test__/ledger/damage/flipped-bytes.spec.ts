// Proves that `verify()` finds every changed byte of every readable value: bytes of the closed file, in the rows of every table
// and in every index. The full proof is `npm run proof:flips`. It must never flip a free byte, or one that no reader reads.
//
// One kind of value has more than one right content: in the list of pages of the index of words, any text between the last word
// of a page and the first of the next one separates them. A change there that `verify()` does not report is proven to change the
// answer to no search.

import { copyFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { AgentEngine } from '../../../index.js'
import { folder } from '../../support/cleanup.js'
import { tempDir } from '../../support/engine.js'
import { everything } from '../../support/ledger/everything.js'
import { type Live, live, NULL_TYPES } from '../../support/ledger/live-bytes.js'
import { random } from '../../support/values/random.js'

const FLIPS = Number(process.env.FLIPS ?? 60)
const SEED = Number(process.env.FLIPS_SEED ?? 1)

const dir = tempDir()
const whole = join(dir.path, 'whole.db')
let values: Live[] = []
/** What the unaltered ledger finds, and the changes of separators that `verify()` does not report. */
const separators = { answers: new Map<string, string[]>(), unseen: 0 }

beforeAll(async () => {
  await everything(whole)
  const engine = new AgentEngine({ ledger: { path: whole } })
  const columns = new Map<string, string[]>()
  const { rows } = await engine.ledger.query("SELECT name FROM sqlite_schema WHERE type = 'table'")
  for (const { name } of rows as { name: string }[]) {
    // The search index has its own rules.
    if (name === 'message_words') continue
    columns.set(name, (await engine.ledger.query(`SELECT * FROM "${name}" LIMIT 0`)).columns)
  }
  expect((await engine.ledger.verify()).problems).toEqual([])
  separators.answers = await answers(engine)
  expect(separators.answers.size).toBeGreaterThan(100)
  await engine.close()
  values = live(readFileSync(whole), (table) => columns.get(table) ?? []).filter(
    // No reader returns the times of a lease's heartbeat, nor what processes share of the limits of a provider.
    ({ name, at }) =>
      at.length > 0 && !/^(session_leases\.(expires|heartbeat)_at|rate_queues\.\w+)$/.test(name),
  )
  return () => dir.remove()
})

const SEPARATOR = 'message_words_idx.term'

/** What a search for each word of the ledger finds. */
async function answers(engine: AgentEngine): Promise<Map<string, string[]>> {
  const { rows } = await engine.ledger.query('SELECT content FROM messages')
  const words = rows.flatMap(({ content }) => String(content).match(/[\w\u0080-\uffff]+/g) ?? [])
  const found = new Map<string, string[]>()
  for (const word of new Set(words)) {
    const ids: string[] = []
    let after: number | undefined
    do {
      const page = await engine.ledger.search(word, { limit: 500, after })
      ids.push(...page.items.map(({ messageId }) => messageId))
      after = page.next ?? undefined
    } while (after !== undefined)
    found.set(word, ids)
  }
  return found
}

/** Whether `verify()`, or the refusal to open, reports the changed byte at `at`. */
async function found(name: string, at: number, change: number): Promise<boolean> {
  const { file } = folder()
  copyFileSync(whole, file)
  const bytes = readFileSync(file)
  bytes[at] = (bytes[at] ?? 0) ^ change
  writeFileSync(file, bytes)
  let engine: AgentEngine
  try {
    engine = new AgentEngine({ ledger: { path: file } })
  } catch (error) {
    expect(error).toMatchObject({ code: 'ledger_corrupt' })
    return true
  }
  try {
    if (!(await engine.ledger.verify()).ok) return true
    if (name !== SEPARATOR) return false
    separators.unseen++
    expect(await answers(engine)).toEqual(separators.answers)
    return true
  } catch (error) {
    // Damage is in the report: `verify()` does not reject because of it.
    console.error(at, change, error)
    return false
  } finally {
    await engine.close()
  }
}

test('every table of the schema has a live row, so that each of its columns is proven', () => {
  const tables = new Set(values.map(({ name }) => name.split('.')[0]))
  for (const table of [
    'schema_meta',
    'sessions',
    'turn_rows',
    'strings',
    'turn_branches',
    'turns_of_days',
    'turns_of_models',
    'turns_of_tools',
    'message_rows',
    'call_rows',
    'session_history',
    'compactions',
    'run_contexts',
    'runs',
    'journal',
    'session_leases',
    'session_aliases',
    'personas',
    'event_archive',
    'auth_profile_usage',
    'search_progress',
    'message_words_data',
    'cache_chains',
    'cache_links',
    'cache_breaks',
    'blobs',
    'model_calibration',
  ]) {
    expect(tables).toContain(table)
  }
})

test(`${FLIPS} single bytes of live values are changed, and verify() finds each`, {
  timeout: 3_600_000,
}, async () => {
  const next = random(SEED)
  const bytes = values.flatMap(({ name, at, nullAt }) =>
    at.map((at) => ({ name, at, isNull: at === nullAt })),
  )
  const names = new Map<string, typeof bytes>()
  for (const each of bytes) {
    const of = names.get(each.name)
    if (of === undefined) names.set(each.name, [each])
    else of.push(each)
  }
  const byName = [...names.values()]
  const missed: Record<string, number> = {}
  const counts = { flips: 0, missed: 0 }
  for (let flip = 0; flip < FLIPS; flip++) {
    // Every other one is chosen by its column, so that small columns are covered.
    const from = flip % 2 === 0 ? bytes : (byName[next(byName.length)] ?? [])
    const { name, at, isNull } = from[next(from.length)] as (typeof bytes)[number]
    let change = 1 + next(255)
    // NULL by another type is the same value.
    while (isNull && NULL_TYPES.includes(change)) change = 1 + next(255)
    counts.flips++
    if (!(await found(name, at, change))) {
      counts.missed++
      missed[`${name} at ${at} ^ ${change}`] = 1
    }
  }
  console.log(
    `${counts.flips} flips in ${bytes.length} live bytes of ${byName.length} columns, ${counts.missed} unseen, ` +
      `${separators.unseen} of separators that change no answer`,
  )
  expect(missed).toEqual({})
})
