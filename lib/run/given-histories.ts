// The given histories that were passed to the native side, by number, and the length of the next one's beginning that is
// already there (docs/design/border.md). It must never treat a message as unchanged unless all its values equal those that
// were passed.

import type { KnownHistory } from '../../binding.d.ts'
import { isUsualLanguage, PlainReader, plainEntries } from '../values/plain.ts'
import { type Fields, isObject } from '../values/reader.ts'
import { contextJson } from './context.ts'

/** The limits of the stored histories: their number, and their size in characters. */
const MAX_HISTORIES = 128
const MAX_SIZE = 32 * 1024 * 1024
/** The size of a message without its texts. */
const MESSAGE_SIZE = 128
/** The number of histories of its session, and of other sessions, with which a new one is compared. */
const MAX_COMPARED = 8
/** The limit of comparisons, as a multiple of the history's length. */
const MAX_PASSES = 3

/** A history that the native side has. Its messages are copies, plain data. */
interface Remembered {
  number: number
  label: unknown
  messages: readonly unknown[]
  /** The number of its messages that can be compared. */
  comparable: number
  size: number
}

/** A history that was read: its first `length` messages are those of `base`. */
interface Read {
  messages: readonly unknown[]
  comparable: number
  base: Remembered | undefined
  length: number
  size: number
}

/** Passes JSON to the native side, with the known beginning of its history. Returns null if the native side no longer has that beginning. */
type Native = (json: string, known: KnownHistory | undefined) => number | null

/** A context that is ready to be passed. */
type Crossing = (native: Native) => void

/** The plain data of messages that can never change. */
const constants = new WeakMap<object, unknown>()

/** Whether a value that was read as plain data is frozen, with all that it has. */
function isConstant(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return true
  if (!Object.isFrozen(value)) return false
  for (const name of Object.getOwnPropertyNames(value)) {
    const property = Object.getOwnPropertyDescriptor(value, name)
    // A getter may return another value each time, whether or not its object is frozen.
    if (property?.get !== undefined || !isConstant(property?.value)) return false
  }
  return true
}

/** The end of the messages from `at` on that are constants of which the copies are known: these are put in their place. */
function pastConstants(
  messages: unknown[],
  known: readonly unknown[],
  from: number,
  to: number,
): number {
  let at = from
  for (; at < to && constants.get(messages[at] as object) === known[at]; at++) {
    messages[at] = known[at]
  }
  return at
}

/** The JSON of a context; `shared` is that of the fields that `fields` leaves out. */
function jsonOf(fields: Fields, shared: string | undefined): string {
  const json = contextJson(fields)
  return shared === undefined ? json : `${shared.slice(0, -1)},${json.slice(1)}`
}

/** Reads the messages of a history one by one, each as the plain data that its JSON has. */
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

  /** The number of messages that equal the beginning of `history`. */
  shared(history: Remembered): number {
    const most = Math.min(history.comparable, this.messages.length)
    let at = 0
    for (;;) {
      at = pastConstants(this.messages, history.messages, at, most)
      if (at > 0) this.#keep(at - 1, history.messages[at - 1])
      if (at === most || this.#message(at, history.messages[at]) !== history.messages[at]) break
      at++
    }
    this.compared += at
    return at
  }

  readRest(): void {
    while (this.#read < this.messages.length) this.#message(this.#read, undefined)
  }

  #message(at: number, known: unknown): unknown {
    const given = this.messages[at]
    let message = this.#plain.read(given, known)
    if (this.#plain.unusual) message = this.#written(at, message, known)
    else if (message !== known && isObject(given) && isConstant(given)) {
      constants.set(given, message)
    }
    // JSON writes null for an empty item of a list.
    message ??= null
    this.#keep(at, message)
    return message
  }

  #keep(at: number, message: unknown): void {
    this.messages[at] = message
    if (at >= this.#read) this.#read = at + 1
  }

  /** The JSON value of a message that is not plain, under its index, which a `toJSON` receives. */
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
  /** The most recently used history is last. */
  #remembered: Remembered[] = []
  #size = 0
  #forget: (number: number) => void

  /** `forget` releases a number on the native side. */
  constructor(forget: (number: number) => void) {
    this.#forget = forget
  }

  /** Reads the caller's part of a context; `shared` is the JSON of its other fields. A value that JSON cannot represent is refused. */
  prepare(fields: Fields, shared?: string): Crossing {
    const { read, json } = this.#read(fields, shared)
    if (read === undefined) return (native) => void native(json, undefined)
    return (native) => {
      const { messages, base, length } = read
      let number = native(json, { number: base?.number ?? 0, length })
      if (number === null) {
        if (base !== undefined) this.#drop(base)
        const whole = jsonOf({ ...fields, history: messages }, shared)
        number = native(whole, { number: 0, length: 0 })
      }
      if (number) this.#remember(number, fields.sessionLabel, read)
    }
  }

  /** Forgets all of them. */
  clear(): void {
    this.#remembered = []
    this.#size = 0
  }

  /** The JSON of a context without the known beginning of its history; without `read`, with the whole history. */
  #read(fields: Fields, shared: string | undefined): { json: string; read?: Read } {
    const { history, sessionLabel } = fields
    if (history !== undefined && history !== null) {
      try {
        const given = isUsualLanguage() ? plainEntries(history) : undefined
        if (given !== undefined && given.length > 0) {
          const read = this.#compared(given, sessionLabel)
          const rest = read.messages.slice(read.length)
          return { json: jsonOf({ ...fields, history: rest }, shared), read }
        }
      } catch {
        // An error is reported when the whole context is read, with the paths of the whole history.
      }
    }
    return { json: jsonOf(fields, shared) }
  }

  /** Reads a history, and finds the stored one with the longest common beginning. */
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
      // A history replaces the one that it continues, and one of its session that differs only in its later half.
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
    // A run that began while this one was read may have replaced it.
    if (at < 0) return
    this.#remembered.splice(at, 1)
    this.#size -= history.size
    this.#forget(history.number)
  }
}

export { GivenHistories }
