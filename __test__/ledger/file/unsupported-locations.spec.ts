// Where a ledger cannot be: on a file system without shared locks, and in a process without descriptors. Children read a
// simulated list of mounts. It must never mount anything.

import { spawnSync } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { beforeAll, describe, expect, test } from 'vitest'
import { folder } from '../../support/cleanup.js'
import { canPreload, library } from '../../support/processes/preload.js'

const child = fileURLToPath(new URL('../../children/ledger/open.mjs', import.meta.url))

let preload = ''
beforeAll(() => {
  if (canPreload) preload = library('mounts')
})

/** The output of a child that opens a ledger in `path` with `kind` in the list of mounts. */
function openedOn(path: string, file: string, kind: string) {
  const mounts = join(path, 'mounts')
  const point = path.replaceAll(' ', '\\040')
  writeFileSync(
    mounts,
    `1 0 8:1 / / rw shared:1 - ext4 /dev/sda rw\n2 1 0:40 / ${point} rw - ${kind} there rw\n`,
  )
  const { NODE_OPTIONS: _, ...env } = process.env
  const made = spawnSync(process.execPath, [child, file], {
    env: { ...env, LD_PRELOAD: preload, MOUNTS: mounts },
    encoding: 'utf8',
    timeout: 55_000,
  })
  expect(made.stderr).toBe('')
  return JSON.parse(made.stdout)
}

const shared = [
  'nfs',
  'nfs4',
  'cifs',
  'smb3',
  '9p',
  'afs',
  'ceph',
  'lustre',
  'virtiofs',
  'fuse.sshfs',
  'fuse.rclone',
]
const local = ['ext4', 'overlay', 'fuse.gocryptfs', 'a-file-system-of-tomorrow']

describe.skipIf(!canPreload)('a ledger on a file system', () => {
  test.each(shared)(
    '`%s` is refused before a file is created, with the reason (cc, Linux)',
    (kind) => {
      const { path, file } = folder()
      const [outcome] = openedOn(path, file, kind)
      expect(outcome.code).toBe('storage_not_local')
      for (const part of [file, `\`${kind}\``, 'locks and memory', 'local disk']) {
        expect(outcome.message).toContain(part)
      }
      expect(['', '-wal', '-shm'].map((suffix) => existsSync(file + suffix))).toEqual([
        false,
        false,
        false,
      ])
    },
  )

  test.each(local)('`%s` is opened (cc, Linux)', (kind) => {
    const { path, file } = folder()
    expect(openedOn(path, file, kind)).toEqual([{ code: 'opened' }])
  })
})

test.skipIf(process.platform !== 'linux')(
  'a process without descriptors gets its own code, opens the ledger when it has some, and what is open continues to work (Linux)',
  () => {
    const { file } = folder()
    const { NODE_OPTIONS: _, ...env } = process.env
    const made = spawnSync(
      'sh',
      ['-c', 'ulimit -n 120 && exec "$0" "$@"', process.execPath, child, file, 'descriptors'],
      { env, encoding: 'utf8', timeout: 55_000 },
    )
    expect(made.stderr).toBe('')
    const outcome = JSON.parse(made.stdout)
    const [last, ...codes] = outcome.reverse()
    expect(new Set(codes.map(({ code }: { code: string }) => code))).toEqual(
      new Set(['opened', 'no_file_descriptors']),
    )
    // The first attempt had no descriptor, and the last one enough.
    expect([codes.at(-1).code, codes[0].code]).toEqual(['no_file_descriptors', 'opened'])
    expect(codes.at(-1).message).toContain('ulimit -n')
    expect(last).toEqual({ verify: 'no_file_descriptors', persisted: true, ok: true })
  },
)
