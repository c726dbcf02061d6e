// The maintenance of a ledger with faults: a full disk, a folder without rights, a lock of another process, a clock that was set
// back. It must never mount over, fill or lock anything but a folder of its own.

import { execFileSync, spawn, spawnSync } from 'node:child_process'
import {
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { salvageLedger } from '../../index.js'
import { afterwards, closing, folder } from '../support/cleanup.js'
import { context, scriptedEngine } from '../support/engine.js'
import { dump } from '../support/ledger/dump.js'
import { refusal, sqlite3 } from '../support/ledger/sqlite3.js'
import { noise } from '../support/values/incompressible.js'

/** Mounts a file system over `path` until the test ends; false where that is not allowed. */
function mounted(path: string, ...options: string[]): boolean {
  if (process.getuid?.() !== 0 || process.platform !== 'linux') return false
  if (spawnSync('mount', [...options, path]).status !== 0) return false
  afterwards(() => execFileSync('umount', ['--lazy', path]))
  return true
}

/** Writes until nothing more fits. */
function fill(path: string): void {
  const file = openSync(path, 'w')
  try {
    for (const size of [65_536, 512, 1]) {
      try {
        for (;;) writeSync(file, Buffer.alloc(size))
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
      }
    }
  } finally {
    closeSync(file)
  }
}

/** An engine with a ledger of some hundred kilobytes. */
async function filled(file: string) {
  const { engine } = scriptedEngine(
    [`xxxxxx${noise('long', 70_000)}`, 'second', 'third', 'fourth'],
    {
      ledger: { path: file },
    },
  )
  closing(engine)
  expect((await engine.run(context()).result).persisted).toBe(true)
  expect((await engine.run(context()).result).persisted).toBe(true)
  return engine
}

describe('a full disk', () => {
  test('leaves no partial copy, export or salvaged ledger, and each works when space is available again', async ({
    skip,
  }) => {
    const { path, file } = folder()
    const small = join(path, 'small')
    mkdirSync(small)
    if (!mounted(small, '-t', 'tmpfs', '-o', 'size=4m', 'tmpfs')) skip('mounting needs root')
    const engine = await filled(file)
    const ballast = join(small, 'ballast')
    fill(ballast)
    const to = (name: string) => join(small, name)
    // The message depends on which byte did not fit.
    const full = { code: expect.stringMatching(/^storage_(full|io)$/) }
    expect(await refusal(engine.ledger.backup(to('copy.db')))).toEqual(full)
    expect(await refusal(engine.ledger.export(to('all.jsonl')))).toEqual(full)
    await engine.close()
    expect(await refusal(salvageLedger(file, to('saved.db')))).toEqual(full)
    expect(readdirSync(small)).toEqual(['ballast'])
    rmSync(ballast)
    const { turns } = await salvageLedger(file, to('saved.db'))
    expect(turns).toBe(2)
    rmSync(to('saved.db'))
    const { engine: again } = scriptedEngine([], { ledger: { path: file } })
    closing(again)
    await again.ledger.backup(to('copy.db'))
    expect(readdirSync(small)).toEqual(['copy.db'])
  })

  test('stops an import and a vacuum with its own code; the ledger is whole, and both work when space is available again', async ({
    skip,
  }) => {
    const { path, file } = folder()
    const source = await filled(join(path, 'source.db'))
    const lines = join(path, 'all.jsonl')
    await source.ledger.export(lines)
    const small = join(path, 'small')
    mkdirSync(small)
    if (!mounted(small, '-t', 'tmpfs', '-o', 'size=4m', 'tmpfs')) skip('mounting needs root')
    const { engine } = scriptedEngine(['here', 'again'], { ledger: { path: join(small, 'a.db') } })
    closing(engine)
    const first = await engine.run(context({ sessionLabel: 'own' })).result
    const before = await dump(engine)
    fill(join(small, 'ballast'))
    expect(await refusal(engine.ledger.import(lines))).toEqual({ code: 'storage_full' })
    expect(await refusal(engine.ledger.vacuum())).toEqual({ code: 'storage_full' })
    // Nothing of the import is visible, and reads work.
    expect(await dump(engine)).toEqual(before)
    expect(await engine.ledger.verify()).toMatchObject({ ok: true })
    rmSync(join(small, 'ballast'))
    expect(await engine.ledger.import(lines)).toMatchObject({ turns: 2, problems: [] })
    await engine.ledger.vacuum()
    expect(await engine.ledger.verify()).toMatchObject({ ok: true, checked: { turns: 3 } })
    const next = await engine.run(context({ sessionLabel: 'own' })).result
    expect(await engine.ledger.turn(next.turnId)).toMatchObject({ parentTurnId: first.turnId })
    expect(file).toContain(path)
  })

  test('does not affect a search: messages that cannot be indexed are scanned', async ({
    skip,
  }) => {
    const { path } = folder()
    const small = join(path, 'small')
    mkdirSync(small)
    if (!mounted(small, '-t', 'tmpfs', '-o', 'size=4m', 'tmpfs')) skip('mounting needs root')
    const { engine } = scriptedEngine(['here'], { ledger: { path: join(small, 'a.db') } })
    closing(engine)
    const usage = { inputTokens: 1, outputTokens: 1, totalTokens: 2 }
    const content = (n: number) =>
      Array.from({ length: 60 }, (_, word) => `w${n}x${word}`).join(' ')
    await engine.ledger.writeTurn(context(), {
      messages: Array.from({ length: 600 }, (_, n) => ({
        role: 'user' as const,
        content: `${content(n)} alike`,
        id: `m${n}`,
        sequence: n,
        createdAt: n,
      })),
      toolCalls: [],
      usage: { ...usage, cachedInputTokens: 0, cacheWriteTokens: 0, reasoningTokens: 0 },
      stopReason: 'end_turn',
      durationMs: 1,
    })
    fill(join(small, 'ballast'))
    const hits = async (text: string) =>
      (await engine.ledger.search(text, { limit: 1_000 })).items.map((hit) => hit.messageId)
    const progress = 'SELECT indexed_through FROM search_progress'
    expect([(await hits('alike')).length, await hits('w599x7')]).toEqual([600, ['m599']])
    expect((await engine.ledger.query(progress)).rows).toEqual([{ indexed_through: 0 }])
    rmSync(join(small, 'ballast'))
    expect([(await hits('alike')).length, await hits('w0x7 alike')]).toEqual([600, ['m0']])
    expect((await engine.ledger.query(progress)).rows).not.toEqual([{ indexed_through: 0 }])
  })
})

test('a backup into a folder that cannot be written fails with its reason', async ({ skip }) => {
  const { path, file } = folder()
  const readOnly = join(path, 'ro')
  mkdirSync(readOnly)
  if (!mounted(readOnly, '-t', 'tmpfs', '-o', 'ro', 'tmpfs')) skip('mounting needs root')
  const engine = await filled(file)
  const refused = { code: 'storage_read_only' }
  expect(await refusal(engine.ledger.backup(join(readOnly, 'copy.db')))).toEqual(refused)
  expect(await refusal(engine.ledger.export(join(readOnly, 'a.jsonl')))).toEqual(refused)
  await engine.close()
  expect(await refusal(salvageLedger(file, join(readOnly, 'saved.db')))).toEqual(refused)
})

test.skipIf(!sqlite3)(
  'a lock of another process stops a vacuum, and nothing else (sqlite3)',
  async () => {
    const { path, file } = folder()
    const engine = await filled(file)
    const other = spawn('sqlite3', [file], { stdio: ['pipe', 'pipe', 'inherit'] })
    const ended = new Promise((resolve) => other.on('close', resolve))
    afterwards(() => other.kill())
    const holds = new Promise((resolve) => other.stdout.once('data', resolve))
    other.stdin.write("BEGIN IMMEDIATE; SELECT 'locked';\n")
    await holds
    expect(await refusal(engine.ledger.vacuum())).toEqual({ code: 'storage_locked' })
    expect(await engine.ledger.verify()).toMatchObject({ ok: true })
    await engine.ledger.backup(join(path, 'copy.db'))
    other.stdin.end('ROLLBACK;\n')
    await ended
    await engine.ledger.vacuum()
    expect((await engine.run(context()).result).persisted).toBe(true)
  },
)

test('a clock that was set back by years: threads, histories, copies and checks are correct', async () => {
  const { path, file } = folder()
  const engine = await filled(file)
  await engine.ledger.export(join(path, 'now.jsonl'))
  const { rows } = await engine.ledger.query('SELECT id FROM turns ORDER BY id')
  // The same turns, written while the clock was far ahead: ids and times of a later day.
  let text = readFileSync(join(path, 'now.jsonl'), 'utf8')
  for (const { id } of rows) text = text.replaceAll(String(id), `7${String(id).slice(1)}`)
  text = text.replace(
    /"(startedAt|completedAt|createdAt|updatedAt|changedAt)":(\d+)/g,
    (_, name, at) => {
      return `"${name}":${Number(at) + 20 * 365 * 86_400_000}`
    },
  )
  writeFileSync(join(path, 'later.jsonl'), text)
  const { engine: back, provider } = scriptedEngine(['third', 'fourth'], {
    ledger: { path: join(path, 'back.db') },
  })
  closing(back)
  expect(await back.ledger.import(join(path, 'later.jsonl'))).toMatchObject({ problems: [] })
  const third = await back.run(context()).result
  const fourth = await back.run(context()).result
  const [, second] = rows.map(({ id }) => `7${String(id).slice(1)}`)
  expect(third.turnId < (second as string)).toBe(true)
  expect(await back.ledger.turn(third.turnId)).toMatchObject({ parentTurnId: second, depth: 2 })
  expect(await back.ledger.turn(fourth.turnId)).toMatchObject({
    parentTurnId: third.turnId,
    depth: 3,
  })
  const contents = (await back.ledger.history('agent:main:main')).map(({ content }) =>
    content.slice(0, 6),
  )
  expect(contents).toEqual(['hi', 'xxxxxx', 'hi', 'second', 'hi', 'third', 'hi', 'fourth'])
  const requested = JSON.stringify(provider.requests[1])
  expect(requested.indexOf('second')).toBeLessThan(requested.indexOf('third'))
  expect(await back.ledger.verify()).toMatchObject({ ok: true, problems: [] })
  await back.ledger.export(join(path, 'again.jsonl'))
  await back.close()
  await salvageLedger(join(path, 'back.db'), join(path, 'saved.db'))
  for (const from of ['saved.db', 'again.jsonl']) {
    const copy = from.endsWith('.db') ? join(path, from) : join(path, 'third.db')
    const { engine } = scriptedEngine([], { ledger: { path: copy } })
    closing(engine)
    if (from.endsWith('.jsonl')) await engine.ledger.import(join(path, from))
    const there = (await engine.ledger.history('agent:main:main')).map(({ content }) =>
      content.slice(0, 6),
    )
    expect({ from, there }).toEqual({ from, there: contents })
    expect(await engine.ledger.verify()).toMatchObject({ ok: true, problems: [] })
  }
})
