// The delivered events of a run, and the readers of them: each reader sees every event from its beginning on.
// It must never drop an event of a number, deliver one twice to a reader, or grow by more than the text of old deltas.

import type { StreamEvent } from '../../index.d.ts'
import * as hub from '../native/hub.ts'

/** A reader this far behind gets merged deltas (docs/rules/turns-and-streams.md#coalescing). */
const MERGE_ABOVE = 4096
/** Events delivered between two checks of the clock. */
const CHECK_EVERY = 256

const DONE = Object.freeze({ value: undefined, done: true as const })

type Delta = Extract<StreamEvent, { type: 'token' | 'reasoning' }>

/** Adjacent deltas as one, with the number and the end of each, so that they can be cut apart again. */
class Joined {
  readonly seqs: number[] = []
  readonly ends: number[] = []
  #first: Delta
  #from: number
  #text = ''

  constructor(first: Delta) {
    this.#first = first
    this.#from = first.seqFrom ?? first.seq
  }

  get seq(): number {
    return this.seqs[this.seqs.length - 1] ?? this.#from
  }

  accepts(event: Delta): boolean {
    return this.#first.type === event.type && this.#first.messageId === event.messageId
  }

  add(event: Delta): void {
    this.#text += event.text
    this.seqs.push(event.seq)
    this.ends.push(this.#text.length)
  }

  /** As one event, without the deltas up to number `after`. */
  event(after: number): Delta {
    let at = 0
    while (at < this.seqs.length && (this.seqs[at] as number) <= after) at++
    const from = at === 0 ? this.#from : (this.seqs[at - 1] as number) + 1
    const text = at === 0 ? this.#text : this.#text.slice(this.ends[at - 1])
    const { type, messageId } = this.#first
    const { seq } = this
    return from === seq
      ? { type, text, messageId, seq }
      : { type, text, messageId, seq, seqFrom: from }
  }
}

type Entry = StreamEvent | Joined

function isDelta(entry: Entry): entry is Delta {
  return !(entry instanceof Joined) && (entry.type === 'token' || entry.type === 'reasoning')
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
  #joined = 0
  ended = false

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
    for (let at = 0; at < this.#readers.length; at++) this.#readers[at]?.wake()
    if (this.#coalesce && this.entries.length - this.#joined > 2 * MERGE_ABOVE) this.#join()
  }

  end(): void {
    this.ended = true
    for (const reader of this.#readers) reader.wake()
    this.#readers = []
  }

  leave(reader: EventReader): void {
    this.#readers = this.#readers.filter((other) => other !== reader)
  }

  /** Joins adjacent deltas before the newest 4,096 events. A reader between two of them keeps them apart. */
  #join(): void {
    const { entries } = this
    const upto = entries.length - MERGE_ABOVE
    const places = new Map<number, EventReader[]>()
    for (const reader of this.#readers) {
      const at = places.get(reader.at)
      if (at === undefined) places.set(reader.at, [reader])
      else at.push(reader)
    }
    let out = this.#joined
    let last: Joined | undefined
    for (let at = this.#joined; at < upto; at++) {
      const entry = entries[at] as Entry
      const readers = places.get(at)
      if (readers !== undefined) {
        for (const reader of readers) reader.at = out
        last = undefined
      }
      if (!isDelta(entry)) {
        last = undefined
        // An event without a number is for those who were there.
        if (!isLive(entry)) entries[out++] = entry
        continue
      }
      if (last === undefined || !last.accepts(entry)) {
        last = new Joined(entry)
        entries[out++] = last
      }
      last.add(entry)
    }
    for (const [at, readers] of places) {
      if (at >= upto) for (const reader of readers) reader.at = at - upto + out
    }
    entries.splice(out, upto - out)
    this.#joined = out
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
  #waiting: ((result: IteratorResult<StreamEvent>) => void)[] = []
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

  get isWaiting(): boolean {
    return this.#waiting.length > 0
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
    if (this.#log.ended) return Promise.resolve(DONE)
    return new Promise((resolve) => this.#waiting.push(resolve))
  }

  /** @internal A new event is there, or the end. */
  wake(): void {
    while (this.#waiting.length > 0) {
      const value = this.#take()
      if (value === undefined && !this.#log.ended) return
      const resolve = this.#waiting.shift()
      resolve?.(value === undefined ? DONE : { value, done: false })
    }
  }

  #take(): StreamEvent | undefined {
    for (;;) {
      const entry = this.#log.entries[this.at]
      if (entry === undefined) return undefined
      this.at++
      // A number that the run has not reached yet may have been given.
      if (entry.seq <= this.#after) continue
      if (this.#taken !== undefined && !isLive(entry)) this.#taken()
      return entry instanceof Joined ? entry.event(this.#after) : entry
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
    for (const resolve of this.#waiting.splice(0)) resolve(DONE)
  }
}

export type { EventReader }
export { EventLog }
