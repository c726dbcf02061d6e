// The delivered events of a run, and the readers of them: each reader sees every event from its beginning on.
// It must never drop an event of a number, deliver one twice to a reader, or grow by more than the text of old deltas.

import type { StreamEvent } from '../../index.d.ts'
import * as hub from '../native/hub.ts'

/** A reader this far behind gets merged deltas (docs/rules/turns-and-streams.md#coalescing). */
const MERGE_ABOVE = 4096
/** Events between two joins of older ones: a run that nobody reads late holds few events one by one. */
const JOIN_EVERY = 16
/** So many joined deltas of one size become one: a long run has few of them, and each text is copied few times. */
const JOIN_JOINED = 16
/** Events delivered between two checks of the clock. */
const CHECK_EVERY = 256

const DONE = Object.freeze({ value: undefined, done: true as const })

type Delta = Extract<StreamEvent, { type: 'token' | 'reasoning' }>
type Next = IteratorResult<StreamEvent>

/** Adjacent deltas as one, with the end of each, so that they can be cut apart again. */
class Joined {
  readonly first: Delta
  readonly seq: number
  /** The number of times that its deltas were joined. */
  readonly level: number
  #text: string
  /** The end of the text of each delta. */
  #ends: number[]
  /** The number of each delta; undefined where each has one more than the one before. */
  #seqs: number[] | undefined

  /** Joins the entries from `from` up to `to`, which continue one another. */
  constructor(entries: readonly Entry[], from: number, to: number) {
    const texts: string[] = []
    const ends: number[] = []
    const seqs: number[] = []
    let end = 0
    for (let at = from; at < to; at++) {
      const entry = entries[at] as Delta | Joined
      if (entry instanceof Joined) {
        for (const inner of entry.#ends) ends.push(end + inner)
        entry.#numbers(seqs)
        texts.push(entry.#text)
        end += entry.#text.length
      } else {
        end += entry.text.length
        ends.push(end)
        seqs.push(entry.seq)
        texts.push(entry.text)
      }
    }
    const first = entries[from] as Delta | Joined
    this.first = first instanceof Joined ? first.first : first
    this.level = levelOf(first) + 1
    this.seq = (entries[to - 1] as Entry).seq
    this.#text = texts.join('')
    this.#ends = ends
    if (this.seq - this.first.seq !== seqs.length - 1) this.#seqs = seqs
  }

  #numbers(into: number[]): void {
    const { seq } = this.first
    for (let at = 0; at < this.#ends.length; at++) into.push(this.#seqs?.[at] ?? seq + at)
  }

  /** As one event, without the deltas up to number `after`. */
  event(after: number): Delta {
    const { type, messageId, seq: first, seqFrom = first } = this.first
    const seqs = this.#seqs
    // The number of deltas up to that number.
    const gone =
      seqs === undefined ? Math.max(0, after - first + 1) : seqs.findIndex((each) => each > after)
    const from = gone === 0 ? seqFrom : (seqs?.[gone - 1] ?? first + gone - 1) + 1
    const text = gone === 0 ? this.#text : this.#text.slice(this.#ends[gone - 1])
    const { seq } = this
    return from === seq
      ? { type, text, messageId, seq }
      : { type, text, messageId, seq, seqFrom: from }
  }
}

type Entry = StreamEvent | Joined

/** The number of times that an entry was joined; -1 for one that is no delta. */
function levelOf(entry: Entry): number {
  if (entry instanceof Joined) return entry.level
  return entry.type === 'token' || entry.type === 'reasoning' ? 0 : -1
}

/** Whether `next` is of the level, kind and message of `entry`, which is a delta or joined ones. */
function continues(entry: Delta | Joined, next: Entry): boolean {
  if (levelOf(next) !== levelOf(entry)) return false
  const { type, messageId } = entry instanceof Joined ? entry.first : entry
  const other = next instanceof Joined ? next.first : (next as Delta)
  return other.type === type && other.messageId === messageId
}

/** Whether the event is neither numbered nor stored. */
function isLive(entry: Entry): boolean {
  return 'sub' in entry
}

class EventLog {
  readonly entries: Entry[] = []
  #readers: EventReader[] = []
  #coalesce: boolean
  /** Entries before this index are joined already. */
  joined = 0
  /** The length at which older entries are joined next. */
  #check = JOIN_EVERY
  ended = false
  /** Why there are no more events, where they have no end of their own. */
  error: unknown

  constructor(coalesce: boolean) {
    this.#coalesce = coalesce
  }

  /** A reader of the events after number `afterSeq`. */
  reader(afterSeq: number, taken?: () => void): EventReader {
    const { entries } = this
    let at = 0
    if (afterSeq > 0) {
      while (at < entries.length && (entries[at] as Entry).seq <= afterSeq) at++
    }
    const reader = new EventReader(this, at, afterSeq, taken)
    if (!this.ended) this.#readers.push(reader)
    return reader
  }

  /** The events after number `afterSeq`. */
  since(afterSeq: number): StreamEvent[] {
    return this.entries
      .filter((entry) => entry.seq > afterSeq)
      .map((entry) => (entry instanceof Joined ? entry.event(afterSeq) : entry))
  }

  push(event: StreamEvent): void {
    this.entries.push(event)
    // Nearly always one: the run's own.
    for (let at = 0; at < this.#readers.length; at++) {
      const reader = this.#readers[at] as EventReader
      if (reader.waiting.length > 0) reader.wake()
    }
    if (this.#coalesce && this.entries.length >= this.#check) this.#joinOld()
  }

  end(error?: unknown): void {
    this.ended = true
    this.error = error
    for (const reader of this.#readers) reader.wake()
    this.#readers = []
  }

  leave(reader: EventReader): void {
    this.#readers = this.#readers.filter((other) => other !== reader)
  }

  /** Joins deltas that every reader has taken, and those that are too far behind. A reader between two of them keeps them apart. */
  #joinOld(): void {
    const { entries } = this
    let upto = entries.length
    for (const reader of this.#readers) upto = Math.min(upto, reader.at)
    upto = Math.max(upto, entries.length - MERGE_ABOVE)
    if (upto > this.joined) this.#join(upto)
    this.#check = entries.length + JOIN_EVERY
  }

  #join(upto: number): void {
    const { entries } = this
    const places = new Map<number, EventReader[]>()
    for (const reader of this.#readers) {
      const at = places.get(reader.at)
      if (at === undefined) places.set(reader.at, [reader])
      else at.push(reader)
    }
    let out = this.joined
    for (let at = this.joined; at < upto; ) {
      for (const reader of places.get(at) ?? []) reader.at = out
      const entry = entries[at] as Entry
      let end = at + 1
      if (levelOf(entry) === 0) {
        const delta = entry as Delta
        while (end < upto && !places.has(end) && continues(delta, entries[end] as Entry)) end++
        entries[out++] = end - at > 1 ? new Joined(entries, at, end) : entry
      } else if (!isLive(entry)) {
        // An event without a number is for those who were there.
        entries[out++] = entry
      }
      at = end
    }
    for (const [at, readers] of places) {
      if (at >= upto) for (const reader of readers) reader.at = at - upto + out
    }
    entries.splice(out, upto - out)
    this.joined = out
    // A reader among them must find the entry that it comes to.
    if (this.#readers.every(({ at }) => at >= out)) this.#joinJoined()
  }

  /** Joins the last joined deltas once more, where there are enough of one level. */
  #joinJoined(): void {
    const { entries } = this
    for (;;) {
      const end = this.joined
      const last = entries[end - 1]
      if (!(last instanceof Joined)) return
      let from = end - 1
      while (from > 0 && continues(last, entries[from - 1] as Entry)) from--
      if (end - from < JOIN_JOINED) return
      const gone = end - from - 1
      entries.splice(from, end - from, new Joined(entries, from, end))
      this.joined = from + 1
      for (const reader of this.#readers) reader.at -= gone
    }
  }
}

/** One iteration of a run's events. */
class EventReader implements AsyncIterableIterator<StreamEvent> {
  /** The index of its next entry. */
  at: number
  #log: EventLog
  /** The number that it begins after: a joined delta may be cut there. */
  #after: number
  #taken: (() => void) | undefined
  readonly waiting: ((result: Next | Promise<Next>) => void)[] = []
  #served = 0
  #left = false

  constructor(log: EventLog, at: number, after: number, taken: (() => void) | undefined) {
    this.#log = log
    this.at = at
    this.#after = after
    this.#taken = taken
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  next(): Promise<IteratorResult<StreamEvent>> {
    if (this.#left) return Promise.resolve(DONE)
    const value = this.#take()
    if (value !== undefined) {
      if (++this.#served % CHECK_EVERY === 0 && hub.sliceOver()) {
        // A reader of ready events never leaves the microtask queue: this yields to timers and I/O.
        return new Promise((resolve) => {
          setImmediate(() => {
            hub.newSlice()
            resolve({ value, done: false })
          })
        })
      }
      return Promise.resolve({ value, done: false })
    }
    if (this.#log.ended) return this.#over()
    return new Promise((resolve) => this.waiting.push(resolve))
  }

  /** @internal A new event is there, or the end. */
  wake(): void {
    while (this.waiting.length > 0) {
      const value = this.#take()
      if (value === undefined && !this.#log.ended) return
      const resolve = this.waiting.shift()
      resolve?.(value === undefined ? this.#over() : { value, done: false })
    }
  }

  /** The end; once, the error of events that have none. */
  #over(): Promise<Next> {
    const { error } = this.#log
    if (error === undefined || this.#left) return Promise.resolve(DONE)
    this.#left = true
    return Promise.reject(error)
  }

  #take(): StreamEvent | undefined {
    const log = this.#log
    for (;;) {
      const { at } = this
      const entry = log.entries[at]
      if (entry === undefined) return undefined
      this.at = at + 1
      const after = this.#after
      // A number that the run has not reached yet may have been given.
      if (after > 0 && entry.seq <= after) continue
      if (this.#taken !== undefined && !isLive(entry)) this.#taken()
      // Only entries of the front are joined: nearly all are taken before.
      return at < log.joined && entry instanceof Joined
        ? entry.event(after)
        : (entry as StreamEvent)
    }
  }

  return(value?: unknown): Promise<IteratorReturnResult<unknown>> {
    this.leave()
    return Promise.resolve({ value, done: true })
  }

  throw(error?: unknown): Promise<never> {
    this.leave()
    return Promise.reject(error)
  }

  /** @internal Ends the iteration. */
  leave(): void {
    if (this.#left) return
    this.#left = true
    this.#log.leave(this)
    for (const resolve of this.waiting.splice(0)) resolve(DONE)
  }
}

export type { EventReader }
export { EventLog }
