// The ledger's file: which files are refused and unchanged, who may have one open, a full or a locked disk, and the state after
// `close`. It must never mount over, fill or lock anything but a folder of its own.

import { execFileSync, spawn, spawnSync } from 'node:child_process'
import {
  chmodSync,
  closeSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { AgentEngine, type AgentEngineError, type ScriptedReply } from '../../index.js'
import { afterwards, closing, folder } from '../support/cleanup.js'
import { context, scriptedEngine } from '../support/engine.js'
import { refusal, rows, sqlite3 } from '../support/ledger/sqlite3.js'
import { noUsage } from '../support/ledger/turn-input.js'

function open(path: string, replies: ScriptedReply[] = []) {
  const made = scriptedEngine(replies, { ledger: { path } })
  closing(made.engine)
  return { ...made, ledger: made.engine.ledger }
}

/** A ledger with one turn in it, closed. */
async function written(path: string): Promise<string> {
  const { engine } = scriptedEngine(['ok'], { ledger: { path } })
  const { turnId, persisted } = await engine.run(context()).result
  expect(persisted).toBe(true)
  await engine.close()
  return turnId
}

function refused(path: string): { code: string; message: string } {
  try {
    new AgentEngine({ ledger: { path } })
  } catch (error) {
    const { name, code, message } = error as AgentEngineError
    expect(name).toBe('AgentEngineError')
    return { code, message }
  }
  return expect.fail(`\`${path}\` was opened`)
}

/** Every file of a folder with its bytes. */
function bytes(path: string): Record<string, string> {
  return Object.fromEntries(
    readdirSync(path).map((name) => [name, readFileSync(join(path, name)).toString('base64')]),
  )
}

const root = process.getuid?.() === 0
const linux = process.platform === 'linux'

/** Mounts a file system over `path` until the test ends; false where that is not allowed. */
function mounted(path: string, ...options: string[]): boolean {
  if (!root || !linux) return false
  if (spawnSync('mount', [...options, path]).status !== 0) return false
  afterwards(() => execFileSync('umount', ['--lazy', path]))
  return true
}

describe('an unusable file is refused with its code and is unchanged byte for byte', () => {
  const foreign = (path: string) => writeFileSync(path, '<!doctype html><html></html>'.repeat(200))
  const cases: [string, string, (path: string) => unknown][] = [
    ['HTML', 'ledger_foreign', foreign],
    ['a short text', 'ledger_foreign', (path) => writeFileSync(path, 'hi')],
    ['noise', 'ledger_foreign', (path) => writeFileSync(path, Buffer.alloc(8192, 0xa5))],
    ['zero length', 'ledger_corrupt', (path) => writeFileSync(path, '')],
    [
      'the SQLite file of another application',
      'ledger_foreign',
      // A whole and valid SQLite file of one page, from any SQLite.
      (path) => writeFileSync(path, emptySqlite()),
    ],
    [
      'a newer ledger',
      'ledger_newer',
      async (path) => {
        await written(path)
        patch(path, 60, 99)
      },
    ],
    [
      'half a header',
      'ledger_corrupt',
      async (path) => {
        await written(path)
        truncateSync(path, 50)
      },
    ],
    [
      'a header and nothing else',
      'ledger_corrupt',
      async (path) => {
        await written(path)
        truncateSync(path, 100)
      },
    ],
    [
      'all but the last page',
      'ledger_corrupt',
      async (path) => {
        await written(path)
        truncateSync(path, statSync(path).size - 4096)
      },
    ],
    [
      'an overwritten header',
      'ledger_foreign',
      async (path) => {
        await written(path)
        const whole = readFileSync(path)
        whole.fill(0x20, 0, 100)
        writeFileSync(path, whole)
      },
    ],
  ]

  test.each(cases)('%s', async (_name, code, make) => {
    const { path, file } = folder()
    await make(file)
    const before = bytes(path)
    const reported = refused(file)
    expect([reported.code, reported.message]).toEqual([code, expect.stringMatching(/[;:] \w/)])
    expect(bytes(path)).toEqual(before)
    // Refused again, in the same way: no state of it remains.
    expect(refused(file)).toEqual(reported)
  })

  test.skipIf(!sqlite3)(
    'a file of sqlite3: another application, and a raised user_version',
    async () => {
      const { path, file } = folder()
      rows(file, 'CREATE TABLE notes (x); INSERT INTO notes VALUES (1)')
      const other = bytes(path)
      expect(refused(file).code).toBe('ledger_foreign')
      expect(bytes(path)).toEqual(other)
      rmSync(file)
      await written(file)
      rows(file, 'PRAGMA user_version = 1000')
      const newer = bytes(path)
      expect(refused(file).code).toBe('ledger_newer')
      expect(bytes(path)).toEqual(newer)
    },
  )

  test('a folder, a file below a file, an empty path', () => {
    const { path, file } = folder()
    writeFileSync(file, 'x')
    const before = bytes(path)
    expect([refused(path).code, refused(join(file, 'below.db')).code, refused('').code]).toEqual([
      'ledger_foreign',
      expect.stringMatching(/^(storage_io|ledger_foreign)$/),
      'invalid_options',
    ])
    expect(bytes(path)).toEqual(before)
  })

  test('a log without its ledger is not replayed into a new one', async () => {
    const { path, file } = folder()
    writeFileSync(`${file}-wal`, 'frames')
    const before = bytes(path)
    expect(refused(file).code).toBe('ledger_corrupt')
    expect(bytes(path)).toEqual(before)
  })

  test('a wrong option beside it leaves no file behind', () => {
    const { path, file } = folder()
    expect(() => new AgentEngine({ ledger: { path: file }, models: [{} as never] })).toThrow(
      expect.objectContaining({ code: 'invalid_options' }),
    )
    expect(readdirSync(path)).toEqual([])
  })
})

describe('read-only', () => {
  test('a read-only file system is reported as such', async ({ skip }) => {
    const { path, file } = folder()
    await written(file)
    const before = bytes(path)
    if (!mounted(path, '--bind', path)) skip('mounting needs root')
    execFileSync('mount', ['-o', 'remount,ro,bind', path])
    expect([refused(file).code, refused(join(path, 'new.db')).code]).toEqual([
      'storage_read_only',
      'storage_read_only',
    ])
    expect(bytes(path)).toEqual(before)
  })

  test('a file without the right to write is reported as such', async ({ skip }) => {
    if (root) skip('root may write everything')
    const { path, file } = folder()
    await written(file)
    chmodSync(file, 0o400)
    const before = bytes(path)
    expect(refused(file).code).toBe('storage_read_only')
    expect(bytes(path)).toEqual(before)
  })
})

describe('other holders of the file', () => {
  test.skipIf(!linux)(
    'another descriptor in this process is refused until it is closed',
    async () => {
      const { file } = folder()
      await written(file)
      for (const name of [file, `${file}-wal`]) {
        if (!existsSync(name)) writeFileSync(name, '')
        const descriptor = openSync(name, 'r')
        const reported = refused(file)
        expect([reported.code, reported.message]).toEqual([
          'ledger_in_use',
          expect.stringContaining('engine.ledger.query'),
        ])
        closeSync(descriptor)
      }
      const { ledger } = open(file)
      expect((await ledger.query('SELECT count(*) AS turns FROM turns')).rows).toEqual([
        { turns: 1 },
      ])
    },
  )

  test.skipIf(!linux)('also by another name of the file', async () => {
    const { path, file } = folder()
    await written(file)
    const link = join(path, 'link.db')
    symlinkSync(file, link)
    const descriptor = openSync(file, 'r')
    expect(refused(link).code).toBe('ledger_in_use')
    closeSync(descriptor)
  })

  test.skipIf(!linux)('the SQLite of Node.js in the same process is refused', async ({ skip }) => {
    const node = nodeWithSqlite()
    if (node === undefined)
      return skip('no Node.js 22 or 24 here: `npm ci` in scripts/nodes brings them')
    const { file } = folder()
    await written(file)
    const child = fileURLToPath(new URL('../children/ledger/foreign.mjs', import.meta.url))
    const out = execFileSync(node, ['--no-warnings', '--experimental-sqlite', child, file], {
      encoding: 'utf8',
    })
    expect(out).toBe('ledger_in_use 1\n')
  })

  test('two engines share it, by any of its names, and the last one to close closes it', async () => {
    const { path, file } = folder()
    const one = open(file, ['from one'])
    const link = join(path, 'link.db')
    symlinkSync(file, link)
    const two = open(link, ['from two'])
    const [first, second] = await Promise.all([
      one.engine.run(context({ sessionLabel: 'one' })).result,
      two.engine.run(context({ sessionLabel: 'two' })).result,
    ])
    expect([first.persisted, second.persisted]).toEqual([true, true])
    expect((await one.ledger.turn(second.turnId))?.sessionLabel).toBe('two')
    await one.engine.close()
    expect((await two.ledger.turn(first.turnId))?.sessionLabel).toBe('one')
    expect(await refusal(one.ledger.turn(first.turnId))).toEqual({ code: 'ledger_closed' })
    await two.engine.close()
    expect(readdirSync(path).sort()).toEqual(['agent.db', 'link.db'])
  })

  test.skipIf(process.platform === 'win32')(
    'files are for the owner alone, as are folders it makes',
    async () => {
      const { path } = folder()
      const file = join(path, 'new', 'deeper', 'agent.db')
      const { engine } = open(file, ['ok'])
      await engine.run(context()).result
      const mode = (name: string) => (statSync(name).mode & 0o777).toString(8)
      expect({
        'new/': mode(join(path, 'new')),
        'deeper/': mode(join(path, 'new', 'deeper')),
        db: mode(file),
        wal: mode(`${file}-wal`),
        shm: mode(`${file}-shm`),
      }).toEqual({ 'new/': '700', 'deeper/': '700', db: '600', wal: '600', shm: '600' })
    },
  )
})

describe('the disk', () => {
  test('a full one: the result is delivered but not persisted, and the ledger works again when space is available', async ({
    skip,
  }) => {
    const { path } = folder()
    if (!mounted(path, '-t', 'tmpfs', '-o', 'size=4m', 'tmpfs')) skip('mounting needs root')
    const file = join(path, 'agent.db')
    const long = 'x'.repeat(300_000)
    const { engine, ledger } = open(file, ['kept', long, long, 'after'])
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
    const again = open(file)
    expect((await again.ledger.session('agent:main:main'))?.threadId).toBe(stored.turnId)
  })

  test('a full one cannot have a new ledger, and nothing remains of the attempt', ({ skip }) => {
    const { path } = folder()
    if (!mounted(path, '-t', 'tmpfs', '-o', 'size=1m', 'tmpfs')) skip('mounting needs root')
    fill(join(path, 'ballast'))
    expect(refused(join(path, 'agent.db')).code).toMatch(/^storage_(full|io)$/)
    expect(readdirSync(path)).toEqual(['ballast'])
  })

  test.skipIf(!sqlite3)('the engine waits for a lock of another process', async () => {
    const { file } = folder()
    const { engine } = open(file, ['ok'])
    const lock = await locked(file)
    const run = engine.run(context())
    for await (const event of run) if (event.type === 'token') lock.release()
    expect((await run.result).persisted).toBe(true)
  })

  test.skipIf(!sqlite3)(
    'a lock that lasts is reported as such, and later turns are persisted',
    async () => {
      const { file } = folder()
      const { engine, ledger } = open(file, ['lost', 'kept'])
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
      const { engine, provider } = open(file, [{ gate: 'go', text: 'late' }])
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
    const { engine, ledger } = open(file)
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
    const turnId = await written(file)
    for (let round = 0; round < 20; round++) {
      const { engine, ledger } = open(file)
      const reads = Array.from({ length: 8 }, () => ledger.turn(turnId))
      const fork = ledger.fork(turnId, `side ${round}`)
      await engine.close()
      expect((await Promise.all(reads)).map((turn) => turn?.id)).toEqual(Array(8).fill(turnId))
      expect((await fork).label).toBe(`side ${round}`)
    }
  })

  test('a hundred openings and closings of one file lose no turn', async () => {
    const { path, file } = folder()
    for (let round = 0; round < 100; round++) await written(file)
    expect(readdirSync(path)).toEqual(['agent.db'])
    const { ledger } = open(file)
    expect((await ledger.query('SELECT max(depth) AS depth FROM turns')).rows).toEqual([
      { depth: 99 },
    ])
  })

  test('a copy of a closed ledger is a ledger of its own', async () => {
    const { path, file } = folder()
    const turnId = await written(file)
    mkdirSync(join(path, 'copy'))
    const copy = join(path, 'copy', 'agent.db')
    copyFileSync(file, copy)
    const one = open(file, ['one'])
    const two = open(copy, ['two'])
    const results = await Promise.all([one, two].map(({ engine }) => engine.run(context()).result))
    const parents = await Promise.all(
      results.map(({ turnId: id }, n) => [one, two][n]?.ledger.turn(id)),
    )
    expect(parents.map((turn) => turn?.parentTurnId)).toEqual([turnId, turnId])
    expect(await one.ledger.turn(results[1]?.turnId ?? '')).toBeNull()
  })
})

/** A SQLite file of one empty page, without an application id. */
function emptySqlite(): Buffer {
  const page = Buffer.alloc(4096)
  page.write('SQLite format 3\0', 0, 'latin1')
  page.writeUInt16BE(4096, 16)
  page.set([1, 1, 0, 64, 32, 32], 18)
  page.writeUInt32BE(1, 24)
  page.writeUInt32BE(1, 28)
  page.writeUInt32BE(4, 44)
  page.writeUInt32BE(1, 56)
  page.writeUInt32BE(1, 92)
  page[100] = 13
  page.writeUInt16BE(4096, 105)
  return page
}

function patch(path: string, at: number, value: number): void {
  const whole = readFileSync(path)
  whole.writeUInt32BE(value, at)
  writeFileSync(path, whole)
}

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
    child.stdin.end('ROLLBACK;\n')
    return ended
  }
  afterwards(() => (child.exitCode === null ? release() : undefined))
  return { release }
}

/** A Node.js that has `node:sqlite`: this one, or one that scripts/nodes.mjs finds. */
function nodeWithSqlite(): string | undefined {
  const script = fileURLToPath(new URL('../../scripts/nodes.mjs', import.meta.url))
  const found = spawnSync(process.execPath, [script], { encoding: 'utf8' }).stdout
  const lines = found.trim().split('\n')
  return lines.map((line) => line.split(' ')).find(([version]) => Number(version) >= 22)?.[1]
}
