// The ledger's file: which files are refused and unchanged, and who may have one open. It must never mount over or lock anything
// but a folder of its own. Full disks are ledger/disk.spec.ts.

import { execFileSync, spawnSync } from 'node:child_process'
import {
  chmodSync,
  closeSync,
  existsSync,
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
import { AgentEngine } from '../../index.js'
import { folder } from '../support/cleanup.js'
import { context } from '../support/engine.js'
import {
  closedLedger,
  isLinux,
  isRoot,
  mountOver,
  openError,
  openLedger,
} from '../support/ledger/ledger-file.js'
import { refusal, rows, sqlite3 } from '../support/ledger/sqlite3.js'

/** Every file of a folder with its bytes. */
function bytes(path: string): Record<string, string> {
  return Object.fromEntries(
    readdirSync(path).map((name) => [name, readFileSync(join(path, name)).toString('base64')]),
  )
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
        await closedLedger(path)
        patch(path, 60, 99)
      },
    ],
    [
      'half a header',
      'ledger_corrupt',
      async (path) => {
        await closedLedger(path)
        truncateSync(path, 50)
      },
    ],
    [
      'a header and nothing else',
      'ledger_corrupt',
      async (path) => {
        await closedLedger(path)
        truncateSync(path, 100)
      },
    ],
    [
      'all but the last page',
      'ledger_corrupt',
      async (path) => {
        await closedLedger(path)
        truncateSync(path, statSync(path).size - 4096)
      },
    ],
    [
      'an overwritten header',
      'ledger_foreign',
      async (path) => {
        await closedLedger(path)
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
    const reported = openError(file)
    expect([reported.code, reported.message]).toEqual([code, expect.stringMatching(/[;:] \w/)])
    expect(bytes(path)).toEqual(before)
    // Refused again, in the same way: no state of it remains.
    expect(openError(file)).toEqual(reported)
  })

  test.skipIf(!sqlite3)(
    'a file of sqlite3: another application, and a raised user_version',
    async () => {
      const { path, file } = folder()
      rows(file, 'CREATE TABLE notes (x); INSERT INTO notes VALUES (1)')
      const other = bytes(path)
      expect(openError(file).code).toBe('ledger_foreign')
      expect(bytes(path)).toEqual(other)
      rmSync(file)
      await closedLedger(file)
      rows(file, 'PRAGMA user_version = 1000')
      const newer = bytes(path)
      expect(openError(file).code).toBe('ledger_newer')
      expect(bytes(path)).toEqual(newer)
    },
  )

  test('a folder, a file below a file, an empty path', () => {
    const { path, file } = folder()
    writeFileSync(file, 'x')
    const before = bytes(path)
    expect([
      openError(path).code,
      openError(join(file, 'below.db')).code,
      openError('').code,
    ]).toEqual([
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
    expect(openError(file).code).toBe('ledger_corrupt')
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
    await closedLedger(file)
    const before = bytes(path)
    if (!mountOver(path, '--bind', path)) skip('mounting needs root')
    execFileSync('mount', ['-o', 'remount,ro,bind', path])
    expect([openError(file).code, openError(join(path, 'new.db')).code]).toEqual([
      'storage_read_only',
      'storage_read_only',
    ])
    expect(bytes(path)).toEqual(before)
  })

  test('a file without the right to write is reported as such', async ({ skip }) => {
    if (isRoot) skip('root may write everything')
    const { path, file } = folder()
    await closedLedger(file)
    chmodSync(file, 0o400)
    const before = bytes(path)
    expect(openError(file).code).toBe('storage_read_only')
    expect(bytes(path)).toEqual(before)
  })
})

describe('other holders of the file', () => {
  test.skipIf(!isLinux)(
    'another descriptor in this process is refused until it is closed',
    async () => {
      const { file } = folder()
      await closedLedger(file)
      for (const name of [file, `${file}-wal`]) {
        if (!existsSync(name)) writeFileSync(name, '')
        const descriptor = openSync(name, 'r')
        const reported = openError(file)
        expect([reported.code, reported.message]).toEqual([
          'ledger_in_use',
          expect.stringContaining('engine.ledger.query'),
        ])
        closeSync(descriptor)
      }
      const { ledger } = openLedger(file)
      expect((await ledger.query('SELECT count(*) AS turns FROM turns')).rows).toEqual([
        { turns: 1 },
      ])
    },
  )

  test.skipIf(!isLinux)('also by another name of the file', async () => {
    const { path, file } = folder()
    await closedLedger(file)
    const link = join(path, 'link.db')
    symlinkSync(file, link)
    const descriptor = openSync(file, 'r')
    expect(openError(link).code).toBe('ledger_in_use')
    closeSync(descriptor)
  })

  test.skipIf(!isLinux)(
    'the SQLite of Node.js in the same process is refused',
    async ({ skip }) => {
      const node = nodeWithSqlite()
      if (node === undefined)
        return skip('no Node.js 22 or 24 here: `npm ci` in scripts/nodes brings them')
      const { file } = folder()
      await closedLedger(file)
      const child = fileURLToPath(new URL('../children/ledger/foreign.mjs', import.meta.url))
      const out = execFileSync(node, ['--no-warnings', '--experimental-sqlite', child, file], {
        encoding: 'utf8',
      })
      expect(out).toBe('ledger_in_use 1\n')
    },
  )

  test('two engines share it, by any of its names, and the last one to close closes it', async () => {
    const { path, file } = folder()
    const one = openLedger(file, ['from one'])
    const link = join(path, 'link.db')
    symlinkSync(file, link)
    const two = openLedger(link, ['from two'])
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
      const { engine } = openLedger(file, ['ok'])
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

/** A Node.js that has `node:sqlite`: this one, or one that scripts/nodes.mjs finds. */
function nodeWithSqlite(): string | undefined {
  const script = fileURLToPath(new URL('../../scripts/nodes.mjs', import.meta.url))
  const found = spawnSync(process.execPath, [script], { encoding: 'utf8' }).stdout
  const lines = found.trim().split('\n')
  return lines.map((line) => line.split(' ')).find(([version]) => Number(version) >= 22)?.[1]
}
