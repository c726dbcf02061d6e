// The commits of a ledger's file, one after the other, read from its write-ahead log without the engine: what any reader could ever have
// seen. It must never write to a ledger: it works on copies.

import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, existsSync, ftruncateSync, openSync, readFileSync, writeSync } from 'node:fs'

/** The pages that a commit writes, and the size of the file after it. */
interface Commit {
  pages: [number, Buffer][]
  size: number
}

const HEADER = 32
const FRAME_HEADER = 24

/** The commits in a log that are whole: what another process would find there. */
export function commitsOf(log: string): Commit[] {
  if (!existsSync(log)) return []
  const bytes = readFileSync(log)
  if (bytes.length < HEADER) return []
  const isBigEndian = (bytes.readUInt32BE(0) & 1) === 1
  const pageSize = bytes.readUInt32BE(8)
  let sum: [number, number] = [bytes.readUInt32BE(24), bytes.readUInt32BE(28)]
  const add = (from: number, to: number) => {
    let [one, two] = sum
    for (let at = from; at < to; at += 8) {
      const word = (offset: number) =>
        isBigEndian ? bytes.readUInt32BE(offset) : bytes.readUInt32LE(offset)
      one = (one + word(at) + two) >>> 0
      two = (two + word(at + 4) + one) >>> 0
    }
    sum = [one, two]
  }
  const commits: Commit[] = []
  let pages: Commit['pages'] = []
  for (let at = HEADER; at + FRAME_HEADER + pageSize <= bytes.length; ) {
    const body = at + FRAME_HEADER
    add(at, at + 8)
    add(body, body + pageSize)
    const isOurs =
      bytes.compare(bytes, 16, 24, at + 8, at + 16) === 0 &&
      bytes.readUInt32BE(at + 16) === sum[0] &&
      bytes.readUInt32BE(at + 20) === sum[1]
    // Frames of an earlier log, or torn ones.
    if (!isOurs) break
    pages.push([bytes.readUInt32BE(at), bytes.subarray(body, body + pageSize)])
    const size = bytes.readUInt32BE(at + 4) * pageSize
    at = body + pageSize
    if (size > 0) {
      commits.push({ pages, size })
      pages = []
    }
  }
  return commits
}

/** Adds commits to a copy of a file. */
export function addCommits(file: string, commits: readonly Commit[]): void {
  const open = openSync(file, 'r+')
  try {
    for (const { pages, size } of commits) {
      for (const [number, page] of pages)
        writeSync(open, page, 0, page.length, (number - 1) * page.length)
      ftruncateSync(open, size)
    }
  } finally {
    closeSync(open)
  }
}

/** Queries a copy of a file as it is, without a log. */
export function queryCopy(file: string, sql: string): Record<string, unknown>[] {
  const args = ['-json', `file:${file}?immutable=1`, sql]
  const { status, stdout, stderr } = spawnSync('sqlite3', args, { encoding: 'utf8' })
  if (status !== 0) throw new Error(`sqlite3 cannot read \`${file}\`: ${stderr}`)
  return stdout.trim() === '' ? [] : JSON.parse(stdout)
}

/**
 * Records the commits of a ledger from now on: a reader in another process stays, so that the log retains them all. `copy` is the name of
 * the copies.
 */
export async function recordCommits(file: string, copy: string) {
  const reader = spawn('sqlite3', [file], { stdio: ['pipe', 'pipe', 'inherit'] })
  const ended = once(reader, 'exit')
  reader.stdin.write("BEGIN; SELECT 'reads' FROM sqlite_schema LIMIT 1;\n")
  await once(reader.stdout, 'data')
  // By other processes: this one may have the ledger open, and would lose its locks.
  const logged = () => {
    execFileSync('cp', [`${file}-wal`, `${copy}-log`])
    return commitsOf(`${copy}-log`)
  }
  execFileSync('cp', [file, copy])
  const before = logged()
  addCommits(copy, before)
  return {
    /** The rows of a query after each commit since. */
    async after(sql: string): Promise<Record<string, unknown>[][]> {
      const all = logged()
      reader.stdin.end()
      await ended
      // A log of which the file had all begins again.
      const isSame =
        before.length > 0 &&
        all[0]?.pages[0]?.[1].equals(before[0]?.pages[0]?.[1] ?? Buffer.alloc(0))
      return all.slice(isSame ? before.length : 0).map((commit) => {
        addCommits(copy, [commit])
        return queryCopy(copy, sql)
      })
    },
  }
}
