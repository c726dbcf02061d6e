// What a process still has of a key after its engine is closed: its heap snapshot and its memory are searched byte by byte. Another key, which the same
// process keeps, must be found in both, so that the search itself is tested. It must never have the key in a form that the child could get from it.

import { closeSync, openSync, readFileSync, readSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { afterwards, folder, serving } from '../support/cleanup.js'
import { killable } from '../support/processes/killable.js'
import { anthropic } from '../support/servers/anthropic.js'
import { sse } from '../support/servers/server.js'

const MASK = 0x80
const CHUNK = 1 << 20

interface Secret {
  bytes: Buffer
  /** As the child gets it. */
  masked: string
}

/** A key of letters that nothing else has. */
function secret(): Secret {
  const bytes = Buffer.from(Array.from({ length: 48 }, () => 97 + Math.floor(Math.random() * 26)))
  return { bytes, masked: Buffer.from(bytes.map((byte) => byte ^ MASK)).toString('hex') }
}

/** The forms in which a memory may have a secret: as it is, in a string of two bytes, and as it is compared with texts. */
const forms = ({ bytes }: Secret): Buffer[] => [
  bytes,
  Buffer.from(bytes.toString('latin1'), 'utf16le'),
  Buffer.from(bytes.toString('hex')),
  Buffer.from(bytes.toString('hex').toUpperCase()),
  Buffer.from(bytes.toString('base64')),
]

/** Where a memory has a secret: with the bytes before and after. */
interface Found {
  before: string
  after: string
}

/** Calls `look` with each piece of the memory that a process can write; each begins with the last `overlap` bytes of the one before. */
function eachPiece(pid: number, overlap: number, look: (piece: Buffer) => void): void {
  const memory = openSync(`/proc/${pid}/mem`, 'r')
  const chunk = Buffer.alloc(CHUNK)
  try {
    for (const line of readFileSync(`/proc/${pid}/maps`, 'utf8').split('\n')) {
      const [, from = '', to = ''] = /^([0-9a-f]+)-([0-9a-f]+) rw/.exec(line) ?? []
      const end = Number.parseInt(to, 16)
      for (let at = Number.parseInt(from, 16); at < end; at += CHUNK - overlap) {
        let read: number
        try {
          read = readSync(memory, chunk, 0, Math.min(CHUNK, end - at), at)
        } catch (error) {
          // A page that the process has given back meanwhile.
          if ((error as NodeJS.ErrnoException).code !== 'EIO') throw error
          continue
        }
        look(chunk.subarray(0, read))
      }
    }
  } finally {
    closeSync(memory)
  }
}

function found(pid: number, needles: Buffer[]): Found[] {
  const all: Found[] = []
  eachPiece(pid, 256, (piece) => {
    for (const needle of needles) {
      for (let at = piece.indexOf(needle); at >= 0; at = piece.indexOf(needle, at + 1)) {
        const end = at + needle.length
        const text = (from: number, to: number) => piece.toString('latin1', Math.max(0, from), to)
        all.push({ before: text(at - 40, at), after: text(end, end + 40) })
      }
    }
  })
  return all
}

/** Whether it is a line of a request's head, in a buffer of the HTTP library. */
const isInHead = ({ before, after }: Found) =>
  before.endsWith('x-api-key: ') || after.startsWith('\r\n')

/** Whether a parent may read the memory of its child: not with every setting of the kernel or the container. */
function canRead(pid: number): boolean {
  try {
    eachPiece(pid, 0, () => {})
    return true
  } catch {
    return false
  }
}

test.skipIf(process.platform !== 'linux')(
  'a heap snapshot after close has no key, and the memory none but in heads of requests; a key that is kept is in both (Linux)',
  async ({ skip }) => {
    const { path, file } = folder()
    const server = await serving(sse(anthropic.answer('ok')))
    const snapshot = join(path, 'heap.heapsnapshot')
    const [asText, asFunction, kept] = [secret(), secret(), secret()]
    const child = killable('security/forgets.mjs', [server.url, file, snapshot], {
      NODE_OPTIONS: '--expose-gc',
    })
    afterwards(() => child.kill())
    const given = [asText, asFunction, kept].map(({ masked }) => masked)
    child.process.stdin?.write(`${given.join(' ')}\n`)
    await child.line('ready')
    const sent = server.seen.map(({ headers }) => headers['x-api-key'])
    expect(sent).toEqual([asText, asFunction, kept].map(({ bytes }) => bytes.toString()))
    const live = readFileSync(snapshot)
    const inSnapshot = [asText, asFunction, kept].map(({ bytes }) => live.includes(bytes))
    expect(inSnapshot).toEqual([false, false, true])

    const pid = child.process.pid ?? 0
    if (!canRead(pid)) return skip('the memory of a child cannot be read here')
    for (const each of [asText, asFunction])
      expect(found(pid, forms(each)).filter((one) => !isInHead(one))).toEqual([])
    expect(found(pid, forms(kept)).filter((one) => !isInHead(one)).length).toBeGreaterThan(0)
    child.process.stdin?.end()
    expect(await child.ended).toBe(null)
  },
)
