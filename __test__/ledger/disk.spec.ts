// A full or a locked disk, and the state of the ledger after `close`. It must never mount over, fill or lock anything but a folder of
// its own.

import { spawn } from 'node:child_process'
import { copyFileSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { afterwards, folder } from '../support/cleanup.js'
import { context } from '../support/engine.js'
import { closedLedger, mountOver, openError, openLedger } from '../support/ledger/ledger-file.js'
import { refusal, rows, sqlite3 } from '../support/ledger/sqlite3.js'
import { noUsage } from '../support/ledger/turn-input.js'

describe('the disk', () => {
  test('a full one: the result is delivered but not persisted, and the ledger works again when space is available', async ({
    skip,
  }) => {
    const { path } = folder()
    if (!mountOver(path, '-t', 'tmpfs', '-o', 'size=4m', 'tmpfs')) skip('mounting needs root')
    const file = join(path, 'agent.db')
    const long = 'x'.repeat(300_000)
    const { engine, ledger } = openLedger(file, ['kept', long, long, 'after'])
    const first = await engine.run(context()).result
    const ballast = join(path, 'ballast')
    fill(ballast)
    const lost = await engine.run(context()).result
    expect([lost.stopReason, lost.persisted, lost.persistError?.code]).toEqual([
      'end_turn',
      false,
      'storage_full',
    ])
    expect(lost.blocks).toEqual([{ type: 'text', text: long }])
    expect([
      await ledger.turn(lost.turnId),
      (await ledger.session('agent:main:main'))?.threadId,
      (await ledger.query('SELECT count(*) AS n FROM messages')).rows,
    ]).toEqual([null, first.turnId, [{ n: 2 }]])
    rmSync(ballast)
    const stored = await engine.run(context()).result
    expect([stored.persisted, (await ledger.turn(stored.turnId))?.parentTurnId]).toEqual([
      true,
      first.turnId,
    ])
    await engine.close()
    const again = openLedger(file)
    expect((await again.ledger.session('agent:main:main'))?.threadId).toBe(stored.turnId)
  })

  test('a full one cannot have a new ledger, and nothing remains of the attempt', ({ skip }) => {
    const { path } = folder()
    if (!mountOver(path, '-t', 'tmpfs', '-o', 'size=1m', 'tmpfs')) skip('mounting needs root')
    fill(join(path, 'ballast'))
    expect(openError(join(path, 'agent.db')).code).toMatch(/^storage_(full|io)$/)
    expect(readdirSync(path)).toEqual(['ballast'])
  })

  test.skipIf(!sqlite3)('the engine waits for a lock of another process', async () => {
    const { file } = folder()
    const { engine } = openLedger(file, ['ok'])
    const lock = await locked(file)
    const run = engine.run(context())
    for await (const event of run) if (event.type === 'token') lock.release()
    expect((await run.result).persisted).toBe(true)
  })

  test.skipIf(!sqlite3)(
    'a lock that lasts is reported as such, and later turns are persisted',
    async () => {
      const { file } = folder()
      const { engine, ledger } = openLedger(file, ['lost', 'kept'])
      const lock = await locked(file)
      const lost = await engine.run(context()).result
      expect([lost.stopReason, lost.persisted, lost.persistError?.code]).toEqual([
        'end_turn',
        false,
        'storage_locked',
      ])
      // Reads never wait for a writer.
      expect(await ledger.turn(lost.turnId)).toBeNull()
      await lock.release()
      const stored = await engine.run(context()).result
      expect([stored.persisted, (await ledger.turn(stored.turnId))?.parentTurnId]).toEqual([
        true,
        null,
      ])
    },
  )
})

describe('close', () => {
  test.skipIf(!sqlite3)(
    'waits for the running turns, then the file is whole and free (sqlite3)',
    async () => {
      const { path, file } = folder()
      const { engine, provider } = openLedger(file, [{ gate: 'go', text: 'late' }])
      const run = engine.run(context())
      const closing = engine.close()
      provider.open('go')
      await closing
      const result = await run.result
      expect(result.persisted).toBe(true)
      expect(readdirSync(path)).toEqual(['agent.db'])
      expect(rows(file, 'SELECT id FROM turns')).toEqual([{ id: result.turnId }])
      expect(rows(file, 'PRAGMA integrity_check')).toEqual([{ integrity_check: 'ok' }])
      // It is free now: another process can lock it exclusively.
      rows(file, 'PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; COMMIT')
    },
  )

  test('refuses new runs, may be called again, and refuses the ledger afterwards', async () => {
    const { file } = folder()
    const { engine, ledger } = openLedger(file)
    const closed = engine.close()
    expect(() => engine.run(context())).toThrow(expect.objectContaining({ code: 'engine_closed' }))
    await Promise.all([closed, engine.close()])
    await engine.close()
    expect([
      await refusal(ledger.turn('t')),
      await refusal(ledger.session('s')),
      await refusal(ledger.history('s')),
      await refusal(ledger.fork('t')),
      await refusal(ledger.query('SELECT 1')),
      await refusal(
        ledger.writeTurn(context(), {
          messages: [],
          toolCalls: [],
          usage: noUsage,
          stopReason: 'end_turn',
          durationMs: 0,
        }),
      ),
    ]).toEqual(Array(6).fill({ code: 'ledger_closed' }))
  })

  test('completes earlier calls of the ledger', async () => {
    const { file } = folder()
    const turnId = await closedLedger(file)
    for (let round = 0; round < 20; round++) {
      const { engine, ledger } = openLedger(file)
      const reads = Array.from({ length: 8 }, () => ledger.turn(turnId))
      const fork = ledger.fork(turnId, `side ${round}`)
      await engine.close()
      expect((await Promise.all(reads)).map((turn) => turn?.id)).toEqual(Array(8).fill(turnId))
      expect((await fork).label).toBe(`side ${round}`)
    }
  })

  test('a hundred openings and closings of one file lose no turn', async () => {
    const { path, file } = folder()
    for (let round = 0; round < 100; round++) await closedLedger(file)
    expect(readdirSync(path)).toEqual(['agent.db'])
    const { ledger } = openLedger(file)
    expect((await ledger.query('SELECT max(depth) AS depth FROM turns')).rows).toEqual([
      { depth: 99 },
    ])
  })

  test('a copy of a closed ledger is a ledger of its own', async () => {
    const { path, file } = folder()
    const turnId = await closedLedger(file)
    mkdirSync(join(path, 'copy'))
    const copy = join(path, 'copy', 'agent.db')
    copyFileSync(file, copy)
    const one = openLedger(file, ['one'])
    const two = openLedger(copy, ['two'])
    const results = await Promise.all([one, two].map(({ engine }) => engine.run(context()).result))
    const parents = await Promise.all(
      results.map(({ turnId: id }, n) => [one, two][n]?.ledger.turn(id)),
    )
    expect(parents.map((turn) => turn?.parentTurnId)).toEqual([turnId, turnId])
    expect(await one.ledger.turn(results[1]?.turnId ?? '')).toBeNull()
  })
})

/** Writes until the disk has no room. */
function fill(path: string): void {
  writeFileSync(path, '')
  for (const size of [65_536, 4096, 512]) {
    try {
      for (;;) writeFileSync(path, Buffer.alloc(size, 0x61), { flag: 'a' })
    } catch (error) {
      expect(error).toMatchObject({ code: 'ENOSPC' })
    }
  }
}

/** The write lock of the file, held by the sqlite3 command line. */
async function locked(file: string): Promise<{ release: () => Promise<void> }> {
  const child = spawn('sqlite3', [file], { stdio: ['pipe', 'pipe', 'inherit'] })
  const ended = new Promise<void>((resolve) => child.on('close', () => resolve()))
  child.stdin.write("BEGIN IMMEDIATE;\nSELECT 'held';\n")
  await new Promise<void>((resolve) => child.stdout.once('data', () => resolve()))
  const release = () => {
    if (!child.stdin.writableEnded) child.stdin.end('ROLLBACK;\n')
    return ended
  }
  afterwards(() => (child.exitCode === null ? release() : undefined))
  return { release }
}
