// The given histories that crossed: how much of the next one the native side has already, by number (docs/design/border.md).
// It must never call a message unchanged that is not, value by value, what crossed.

import type { KnownHistory } from '../../binding.d.ts'
import { isUsualLanguage, PlainReader, plainEntries } from '../values/plain.ts'
import type { Fields } from '../values/reader.ts'
import { contextJson } from './context.ts'

/** Histories that are remembered, and their size together, in characters. */
const MAX_HISTORIES = 128
const MAX_SIZE = 32 * 1024 * 1024
/** The size of a message beside its texts. */
const MESSAGE_SIZE = 128
/** Histories of its session that a new one is compared with, and as many others. */
const MAX_COMPARED = 8
/** So many times the length of a history are compared, and no more. */
const MAX_PASSES = 3

/** A history that the native side has. Its messages are plain data of our own. */
interface Remembered {
  number: number
  label: unknown
  messages: readonly unknown[]
  /** So many of its messages can be compared. */
  comparable: number
  size: number
}

/** A history as it was read: its first `length` messages are those of `base`. */
interface Read {
  messages: readonly unknown[]
  comparable: number
  base: Remembered | undefined
  length: number
  size: number
}

/** Gives JSON to the native side, with the beginning of its history that is known. Null: it is not known any more. */
type Native = (json: string, known: KnownHistory | undefined) => number | null

/** A context that is ready to cross. */
type Crossing = (native: Native) => void

/** Reads the messages of a history one by one: of each the plain data that JSON has of it. */
class HistoryReader {
  readonly messages: unknown[]
  /** The messages before the first one that cannot be compared. */
  comparable: number
  /** Messages that were compared. */
  compared = 0
  #plain = new PlainReader()
  #read = 0

  constructor(entries: unknown[]) {
    this.messages = entries
    this.comparable = entries.length
  }

  get size(): number {
    return this.#plain.size
  }

  /** How many messages are as `history` begins. */
  shared(history: Remembered): number {
    const most = Math.min(history.comparable, this.messages.length)
    let at = 0
    while (at < most && this.#message(at, history.messages[at]) === history.messages[at]) at++
    this.compared += at
    return at
  }

  readRest(): void {
    while (this.#read < this.messages.length) this.#message(this.#read, undefined)
  }

  #message(at: number, known: unknown): unknown {
    let message = this.#plain.read(this.messages[at], known)
    if (this.#plain.unusual) message = this.#written(at, message, known)
    // A list has null where there is nothing.
    message ??= null
    this.messages[at] = message
    this.#read = Math.max(this.#read, at + 1)
    return message
  }

  /** What JSON makes of a message that is not plain, under its index: a `toJSON` is given that. */
  #written(at: number, message: unknown, known: unknown): unknown {
    this.#plain.unusual = false
    const written: unknown = JSON.parse(JSON.stringify({ [at]: message }))[at]
    const plain = this.#plain.read(written, known)
    if (!this.#plain.unusual) return plain
    this.#plain.unusual = false
    this.comparable = Math.min(this.comparable, at)
    return written
  }
}

class GivenHistories {
  /** The last used one at the end. */
  #remembered: Remembered[] = []
  #size = 0
  #forget: (number: number) => void

  /** `forget` tells the native side which number is not used again. */
  constructor(forget: (number: number) => void) {
    this.#forget = forget
  }

  /** Reads the caller's part of a context. What JSON cannot hold is refused. */
  prepare(fields: Fields): Crossing {
    const { read, json } = this.#read(fields)
    if (read === undefined) return (native) => void native(json, undefined)
    return (native) => {
      const { messages, base, length } = read
      let number = native(json, { number: base?.number ?? 0, length })
      if (number === null) {
        if (base !== undefined) this.#drop(base)
        number = native(contextJson({ ...fields, history: messages }), { number: 0, length: 0 })
      }
      if (number) this.#remember(number, fields.sessionLabel, read)
    }
  }

  /** Forgets all of them. */
  clear(): void {
    this.#remembered = []
    this.#size = 0
  }

  /** The JSON of a context without what is known of its history. Without `read` it has everything. */
  #read(fields: Fields): { json: string; read?: Read } {
    const { history, sessionLabel } = fields
    if (history !== undefined && history !== null) {
      try {
        const given = isUsualLanguage() ? plainEntries(history) : undefined
        if (given !== undefined && given.length > 0) {
          const read = this.#compared(given, sessionLabel)
          const rest = read.messages.slice(read.length)
          return { json: contextJson({ ...fields, history: rest }), read }
        }
      } catch {
        // What is wrong with it is found where all of it is read, with the paths of the whole history.
      }
    }
    return { json: contextJson(fields) }
  }

  /** Reads a history, and finds the remembered one that has most of its beginning. */
  #compared(entries: unknown[], label: unknown): Read {
    const reader = new HistoryReader(entries)
    let base: Remembered | undefined
    let length = 0
    for (const candidate of this.#candidates(label)) {
      const shared = reader.shared(candidate)
      if (shared > length) {
        base = candidate
        length = shared
      }
      const whole = length === entries.length || length === base?.comparable
      if (whole || reader.compared > MAX_PASSES * entries.length) break
    }
    reader.readRest()
    const { messages, comparable, size } = reader
    const known = base === undefined ? 0 : (base.size * length) / base.messages.length
    const added = size + (messages.length - length) * MESSAGE_SIZE
    return { messages, comparable, base, length, size: known + added }
  }

  /** The histories that a new one may continue: the last of its session, then the last of others. */
  #candidates(label: unknown): Remembered[] {
    const newest = this.#remembered.toReversed()
    const own = newest.filter((history) => history.label === label)
    const others = newest.filter((history) => history.label !== label)
    return [...own.slice(0, MAX_COMPARED), ...others.slice(0, MAX_COMPARED)]
  }

  #remember(number: number, label: unknown, read: Read): void {
    const { messages, comparable, base, length, size } = read
    if (base !== undefined) {
      // What goes on replaces what it continues; so does what a session has changed in its later half only.
      const isMost = base.label === label && length * 2 > base.messages.length
      if (isMost || length >= base.comparable) this.#drop(base)
    }
    this.#remembered.push({ number, label, messages, comparable, size })
    this.#size += size
    for (let oldest = this.#remembered[0]; oldest !== undefined; oldest = this.#remembered[0]) {
      if (this.#remembered.length <= MAX_HISTORIES && this.#size <= MAX_SIZE) return
      this.#drop(oldest)
    }
  }

  #drop(history: Remembered): void {
    const at = this.#remembered.indexOf(history)
    // A run that began while this one was read may have done so.
    if (at < 0) return
    this.#remembered.splice(at, 1)
    this.#size -= history.size
    this.#forget(history.number)
  }
}

export { GivenHistories }
