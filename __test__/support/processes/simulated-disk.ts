// The disk of a power cut: from a recording of `disk-log.c`, what could stand in a folder if the power failed after any of its
// operations. It must never leave out what was synced, and must never apply what the child did only later.

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** The kinds of records, as in `disk-log.c`. */
export const [OUTPUT, CREATE, WRITE, TRUNCATE, SYNC, SYNC_FOLDER, RENAME, UNLINK] = [
  0, 1, 2, 3, 4, 5, 6, 7,
] as const
const HEADER = 32
/** What a disk writes as a whole. */
const SECTOR = 512

export interface Operation {
  kind: number
  inode: number
  offset: number
  bytes: Buffer
}

/** The operations of a recording, in order. */
export function readRecording(file: string): Operation[] {
  const log = readFileSync(file)
  const operations: Operation[] = []
  for (let at = 0; at < log.length; ) {
    const [kind, inode, offset, length] = [0, 8, 16, 24].map((place) =>
      Number(log.readBigUInt64LE(at + place)),
    ) as [number, number, number, number]
    const bytes = log.subarray(at + HEADER, at + HEADER + length)
    operations.push({ kind, inode, offset, bytes })
    at += HEADER + length
  }
  return operations
}

/** What the power cut leaves of writes that were not synced. */
export type Loss =
  /** Nothing. */
  | 'all'
  /** Everything, as if the system had just written it back. */
  | 'none'
  /** Each write as a whole, or not at all. */
  | 'writes'
  /** Each sector, or not: a write may be torn. */
  | 'sectors'

/** What a file holds for certain, and the operations that no sync has confirmed yet. */
interface File {
  synced: Content
  pending: Operation[]
}

/** The bytes of a file. */
class Content {
  #bytes: Buffer
  #length: number

  constructor(bytes = Buffer.alloc(0)) {
    this.#bytes = bytes
    this.#length = bytes.length
  }

  copy(): Content {
    return new Content(Buffer.from(this.value()))
  }

  value(): Buffer {
    return this.#bytes.subarray(0, this.#length)
  }

  apply({ kind, offset, bytes }: Operation): void {
    const length = kind === TRUNCATE ? offset : Math.max(this.#length, offset + bytes.length)
    if (length > this.#bytes.length) {
      const grown = Buffer.alloc(length * 2)
      this.#bytes.copy(grown, 0, 0, this.#length)
      this.#bytes = grown
    }
    // What was never written between is read as zeros.
    if (length < this.#length) this.#bytes.fill(0, length, this.#length)
    this.#length = length
    if (kind === WRITE) bytes.copy(this.#bytes, offset)
  }
}

export class SimulatedDisk {
  #files = new Map<number, File>()
  #names = new Map<string, number>()
  /** Creations, renames and deletions that no sync of the folder has confirmed yet. */
  #pendingNames: Operation[] = []
  /** The lines that the child has printed. */
  output = ''

  /** The next operation of the recording. */
  apply(operation: Operation): void {
    const { kind, inode } = operation
    switch (kind) {
      case OUTPUT:
        this.output += operation.bytes.toString()
        break
      case CREATE:
        this.#files.set(inode, { synced: new Content(), pending: [] })
        this.#pendingNames.push(operation)
        break
      case WRITE:
      case TRUNCATE:
        this.#file(inode).pending.push(operation)
        break
      case SYNC: {
        const file = this.#file(inode)
        for (const each of file.pending.splice(0)) file.synced.apply(each)
        break
      }
      case SYNC_FOLDER:
        for (const each of this.#pendingNames.splice(0)) changeNames(this.#names, each)
        break
      case RENAME:
      case UNLINK:
        this.#pendingNames.push(operation)
        break
      default:
        throw new Error(`a record of kind ${kind}`)
    }
  }

  /** Writes what the disk holds after a power cut now into a folder. */
  cut(folder: string, loss: Loss, below: (under: number) => number): void {
    const names = new Map(this.#names)
    // A file system writes changes of names in their order.
    const { length } = this.#pendingNames
    const reached = loss === 'all' ? 0 : loss === 'none' ? length : below(length + 1)
    for (const each of this.#pendingNames.slice(0, reached)) changeNames(names, each)
    for (const [name, inode] of names)
      writeFileSync(join(folder, name), left(this.#file(inode), loss, below))
  }

  #file(inode: number): File {
    const file = this.#files.get(inode)
    if (file === undefined) throw new Error(`a record of a file that was never created: ${inode}`)
    return file
  }
}

/** What is left of a file. */
function left({ synced, pending }: File, loss: Loss, below: (under: number) => number): Buffer {
  if (loss === 'all') return synced.value()
  const content = synced.copy()
  for (const operation of pending) {
    if (loss === 'none') content.apply(operation)
    else if (operation.kind === TRUNCATE || loss === 'writes') {
      if (below(2) === 0) content.apply(operation)
    } else {
      for (const sector of sectors(operation)) if (below(2) === 0) content.apply(sector)
    }
  }
  return content.value()
}

/** A write as the writes of its sectors. */
function* sectors({ kind, inode, offset, bytes }: Operation): Generator<Operation> {
  for (let at = 0; at < bytes.length; ) {
    const end = Math.min(bytes.length, at + SECTOR - ((offset + at) % SECTOR))
    yield { kind, inode, offset: offset + at, bytes: bytes.subarray(at, end) }
    at = end
  }
}

function changeNames(names: Map<string, number>, { kind, inode, bytes }: Operation): void {
  const name = bytes.toString()
  if (kind === CREATE) {
    names.set(name, inode)
  } else if (kind === UNLINK) {
    names.delete(name)
  } else {
    const [from, to] = name.split('/') as [string, string]
    const moved = names.get(from)
    names.delete(from)
    if (moved !== undefined) names.set(to, moved)
  }
}
