// Iterators over persisted events: of one run, and of all runs of a session. Each requests the next page when the last is read.
// It must never request a page that is not needed, or leave a request open.

import type { NativeEngine } from '../../binding.d.ts'
import type { AttachOptions, SessionEvent, StreamEvent } from '../../index.d.ts'
import { abortableRequest } from '../native/abortable.ts'
import * as hub from '../native/hub.ts'
import { AgentEngineError, refusal } from '../values/errors.ts'
import { toJson } from '../values/json.ts'
import { readFields, readName } from '../values/reader.ts'
import { readAfterSeq } from './after-seq.ts'
import { isSelected, readSkipped } from './event-groups.ts'

const CODE = 'invalid_options'
/** Events delivered between two checks of the clock. */
const CHECK_EVERY = 256

const DONE = Object.freeze({ value: undefined, done: true as const })

/** A page of events, and where the next one begins. */
interface Page<Item> {
  events: Item[]
  over?: boolean
  turnId?: string
  last?: number
  cursor?: unknown
}

/** Requests what follows `page`, or the beginning. */
type Send<Item> = (id: number, page?: Page<Item>) => void

/** Pages of events as an async iterator. */
class Pages<Item> implements AsyncIterableIterator<Item> {
  #native: NativeEngine
  #send: Send<Item>
  /** A request of it keeps the process alive. */
  #holds: boolean
  #selects: (item: Item) => boolean
  #buffer: Item[] = []
  #head = 0
  #page: Page<Item> | undefined
  #over = false
  #served = 0
  #request: number | undefined
  /** One `next()` after the other: several may be called at once. */
  #turn: Promise<void> = Promise.resolve()

  constructor(
    native: NativeEngine,
    send: Send<Item>,
    holds: boolean,
    selects: (item: Item) => boolean,
  ) {
    this.#native = native
    this.#send = send
    this.#holds = holds
    this.#selects = selects
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  next(): Promise<IteratorResult<Item>> {
    const next = this.#turn.then(() => this.#next())
    this.#turn = next.then(
      () => {},
      () => {},
    )
    return next
  }

  async #next(): Promise<IteratorResult<Item>> {
    while (this.#head === this.#buffer.length) {
      if (this.#over) return DONE
      try {
        const page = await hub.request<Page<Item> | null>((id) => {
          this.#request = id
          this.#send(id, this.#page)
        }, this.#holds)
        this.#take(page)
      } catch (error) {
        this.#over = true
        throw error
      } finally {
        this.#request = undefined
      }
    }
    if (++this.#served % CHECK_EVERY === 0 && hub.sliceOver()) {
      // As in a run: a reader of ready events yields to timers and I/O.
      await new Promise((resolve) => setImmediate(resolve))
      hub.newSlice()
      if (this.#head === this.#buffer.length) return DONE
    }
    return { value: this.#buffer[this.#head++] as Item, done: false }
  }

  #take(page: Page<Item> | null): void {
    if (this.#over) return
    if (page === null) {
      throw new AgentEngineError('engine_closed', 'the engine is closed; make a new one')
    }
    this.#page = page
    this.#buffer = page.events.filter(this.#selects)
    this.#head = 0
    this.#over = page.over === true
  }

  /** @internal Requests the first page before the first `next()`. */
  begin(): this {
    this.#turn = hub
      .request<Page<Item> | null>((id) => {
        this.#request = id
        this.#send(id)
      }, this.#holds)
      .then((page) => this.#take(page))
      .finally(() => {
        this.#request = undefined
      })
    // The first `next()` rejects with it.
    this.#turn.catch(() => {})
    return this
  }

  return(value?: unknown): Promise<IteratorReturnResult<unknown>> {
    this.#over = true
    this.#buffer = []
    this.#head = 0
    if (this.#request !== undefined) this.#native.leave(this.#request)
    return Promise.resolve({ value, done: true })
  }

  throw(error?: unknown): Promise<never> {
    this.return()
    return Promise.reject(error)
  }
}

/** The events of a run after `afterSeq`. */
function attach(
  native: NativeEngine,
  runId: unknown,
  options: AttachOptions,
  byDefault: number,
): AsyncIterableIterator<StreamEvent> {
  if (typeof runId !== 'string' || runId === '') {
    throw refusal(CODE, 'runId', 'is not the id of a run')
  }
  readName(runId, 'runId', CODE)
  const { events, ...from } = readFields(options, 'options', CODE)
  const afterSeq = readAfterSeq(from)
  const skipped = readSkipped(events, CODE, byDefault)
  const send: Send<StreamEvent> = (id, page) => {
    const from =
      page === undefined ? { runId, afterSeq } : { turnId: page.turnId, afterSeq: page.last }
    native.attach(
      id,
      toJson(from, 'options', () => CODE),
    )
  }
  return new Pages(native, send, true, (event) => isSelected(event, skipped))
}

/** The events of a session's runs, from those under way on. */
function watch(native: NativeEngine, label: string): AsyncIterableIterator<SessionEvent> {
  const send: Send<SessionEvent> = (id, page) =>
    native.watch(
      id,
      toJson({ label, cursor: page?.cursor }, 'arguments', () => CODE),
    )
  return new Pages(native, send, false, () => true).begin()
}

/** Aborts or steers the run of a session, in any process. */
function command<Value>(
  native: NativeEngine,
  label: string,
  signal: unknown,
  message?: string,
): Promise<Value> {
  // The message is a user's text: a lone surrogate in it becomes U+FFFD.
  const json = toJson(
    { label, message },
    'arguments',
    () => CODE,
    (path) => path === 'message',
  )
  return abortableRequest(signal, (id) => native.command(id, json))
}

function sessionLabel(label: unknown): string {
  return readName(label, 'label', 'invalid_label')
}

async function abortSession(native: NativeEngine, label: unknown, signal?: unknown): Promise<void> {
  await command(native, sessionLabel(label), signal)
}

async function steerSession(
  native: NativeEngine,
  given: unknown,
  text: unknown,
  signal?: unknown,
): Promise<boolean> {
  const label = sessionLabel(given)
  if (typeof text !== 'string' || text === '') {
    throw refusal(CODE, 'text', 'is not a message')
  }
  return command(native, label, signal, text)
}

export { abortSession, attach, steerSession, watch }
