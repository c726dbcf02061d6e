// The live bytes of a closed ledger: the offsets of each value of each row, by SQLite's file format. It must never change the file,
// and never count a byte as live that no reader reads.

export interface Live {
  /** `table.column`, or `index` for an entry of an index. */
  name: string
  /** Offsets in the file. */
  at: number[]
  /** The offset of the byte that says that the value is NULL, where it is. */
  nullAt?: number
}

/** What that byte may be as well: SQLite reads the reserved types 10 and 11 as NULL too. */
export const NULL_TYPES: readonly number[] = [0, 10, 11]

interface Cell {
  payload: number[]
  rowid: number[]
}

/** Every value of the file's tables and indexes, by its column. `columns` names those of a table, in their order. */
export function live(file: Buffer, columns: (table: string) => string[]): Live[] {
  const reader = new Reader(file)
  const found: Live[] = []
  const objects = [...reader.cells(1)].map(({ payload }) => reader.values(payload))
  for (const [type, name, table, root, sql] of objects as [
    string,
    string,
    string,
    number,
    string,
  ][]) {
    if (typeof root !== 'number' || root === 0 || name.startsWith('sqlite_seq')) continue
    const names = type === 'table' ? columns(table) : []
    // The row id replaces this column, which is stored as NULL: its stored bytes are never read.
    const alias =
      type === 'table' ? names.indexOf(/(\w+) INTEGER PRIMARY KEY/.exec(sql)?.[1] ?? '') : -1
    for (const { payload, rowid } of reader.cells(root)) {
      const { header, values, serials } = reader.record(payload)
      if (rowid.length > 0 && serials[0]?.type === 0 && name.startsWith('message_words')) {
        // Word counts, for a rank that is not used.
        if (reader.number(rowid) === 1) continue
      }
      const columnOf = (column: number) =>
        type === 'table' ? `${table}.${names[column] ?? column}` : `index of ${table}`
      found.push({ name: `${type} ${table}`, at: [...header, ...rowid] })
      for (const [column, at] of values.entries()) {
        const { type: kind, at: serial } = serials[column] ?? { at: [] }
        const nullAt = kind === 0 ? serial[0] : undefined
        if (column !== alias) found.push({ name: columnOf(column), at: [...serial, ...at], nullAt })
      }
    }
  }
  return found
}

class Reader {
  readonly #file: Buffer
  readonly #size: number

  constructor(file: Buffer) {
    this.#file = file
    const size = file.readUInt16BE(16)
    this.#size = size === 1 ? 65_536 : size
  }

  /** The number at an offset, and the offsets of its bytes. */
  #varint(at: number): { value: number; at: number[] } {
    let value = 0
    const offsets = []
    for (let byte = 0; byte < 9; byte++) {
      const next = this.#file[at + byte] ?? 0
      offsets.push(at + byte)
      value = byte === 8 ? value * 256 + next : value * 128 + (next & 0x7f)
      if (next < 0x80) break
    }
    return { value, at: offsets }
  }

  number(offsets: number[]): number {
    return this.#varint(offsets[0] ?? 0).value
  }

  /** The cells with a payload under the page `root`. */
  *cells(root: number): Generator<Cell> {
    const start = (root - 1) * this.#size
    const head = root === 1 ? start + 100 : start
    const type = this.#file[head]
    const inside = type === 2 || type === 5
    const count = this.#file.readUInt16BE(head + 3)
    for (let cell = 0; cell < count; cell++) {
      let at = start + this.#file.readUInt16BE(head + (inside ? 12 : 8) + 2 * cell)
      if (inside) {
        yield* this.cells(this.#file.readUInt32BE(at))
        at += 4
      }
      if (type === 5) continue
      const length = this.#varint(at)
      at += length.at.length
      const rowid = type === 13 ? this.#varint(at).at : []
      yield { payload: this.#payload(at + rowid.length, length.value, type === 13), rowid }
    }
    if (inside) yield* this.cells(this.#file.readUInt32BE(head + 8))
  }

  /** The offsets of a payload's bytes, including those on overflow pages. */
  #payload(at: number, length: number, table: boolean): number[] {
    const usable = this.#size
    const most = table ? usable - 35 : Math.floor(((usable - 12) * 64) / 255) - 23
    const least = Math.floor(((usable - 12) * 32) / 255) - 23
    let local = length
    if (length > most) {
      const localBytes = least + ((length - least) % (usable - 4))
      local = localBytes <= most ? localBytes : least
    }
    const offsets = range(at, local)
    let next = local < length ? this.#file.readUInt32BE(at + local) : 0
    while (next !== 0 && offsets.length < length) {
      const page = (next - 1) * usable
      offsets.push(...range(page + 4, Math.min(usable - 4, length - offsets.length)))
      next = this.#file.readUInt32BE(page)
    }
    return offsets
  }

  /** The offsets of a record's header size, of its types and of its values. */
  record(payload: number[]) {
    // A header is short: it never reaches an overflow page.
    const first = payload[0] ?? 0
    const size = this.#varint(first)
    const serials: { type: number; at: number[] }[] = []
    let at = size.at.length
    while (at < size.value) {
      const serial = this.#varint(payload[at] ?? 0)
      serials.push({ type: serial.value, at: serial.at })
      at += serial.at.length
    }
    const values = serials.map(({ type }) => {
      const length =
        type >= 12 ? Math.floor((type - 12) / 2) : ([0, 1, 2, 3, 4, 6, 8, 8, 0, 0][type] ?? 0)
      const offsets = payload.slice(at, at + length)
      at += length
      return offsets
    })
    return { header: size.at, serials, values }
  }

  /** The texts and whole numbers of a record. */
  values(payload: number[]): (string | number | null)[] {
    const { serials, values } = this.record(payload)
    return serials.map(({ type }, column) => {
      const bytes = Buffer.from((values[column] ?? []).map((at) => this.#file[at] ?? 0))
      if (type >= 13) return bytes.toString('utf8')
      if (type === 8 || type === 9) return type - 8
      return bytes.length > 0 && type < 7 ? bytes.readIntBE(0, bytes.length) : null
    })
  }
}

function range(from: number, length: number): number[] {
  return Array.from({ length }, (_, at) => from + at)
}
