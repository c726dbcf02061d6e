// Iterators over kept events: of one run, and of whatever runs in a session. Each asks for the next page when the last is read.
// It must never ask for a page that nobody waits for, or leave a request behind.

import * as hub from '../native/hub.js'
import { AgentEngineError, refusal } from '../values/errors.js'
import { readFields, readName, toJson } from '../values/reader.js'

const CODE = 'invalid_options'
/** Events handed out between two looks at the clock. */
const CHECK_EVERY = 256

const DONE = Object.freeze({ value: undefined, done: true })

/** Pages of events as an async iterator. `send(id, page)` asks for what follows `page`. */
class Pages {
  #native
  #send
  #holds
  #buffer = []
  #head = 0
  #page
  #over = false
  #served = 0
  #request
  /** One `next()` after the other: several may be called at once. */
  #turn = Promise.resolve()

  constructor(native, send, holds) {
    this.#native = native
    this.#send = send
    this.#holds = holds
  }

  [Symbol.asyncIterator]() {
    return this
  }

  next() {
    const next = this.#turn.then(() => this.#next())
    this.#turn = next.then(
      () => {},
      () => {},
    )
    return next
  }

  async #next() {
    while (this.#head === this.#buffer.length) {
      if (this.#over) return DONE
      try {
        const page = await hub.request((id) => {
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
      // As for a run: a reader of ready events lets timers and I/O have their turn.
      await new Promise((resolve) => setImmediate(resolve))
      hub.newSlice()
      if (this.#head === this.#buffer.length) return DONE
    }
    return { value: this.#buffer[this.#head++], done: false }
  }

  #take(page) {
    if (this.#over) return
    if (page === null) {
      throw new AgentEngineError('engine_closed', 'the engine is closed; make a new one')
    }
    this.#page = page
    this.#buffer = page.events
    this.#head = 0
    this.#over = page.over === true
  }

  /** @internal Asks for the first page before anybody reads. */
  begin() {
    this.#turn = hub
      .request((id) => {
        this.#request = id
        this.#send(id)
      }, this.#holds)
      .then((page) => this.#take(page))
      .finally(() => {
        this.#request = undefined
      })
    // Told by the first `next()`.
    this.#turn.catch(() => {})
    return this
  }

  return(value) {
    this.#over = true
    this.#buffer = []
    this.#head = 0
    if (this.#request !== undefined) this.#native.leave(this.#request)
    return Promise.resolve({ value, done: true })
  }

  throw(error) {
    this.return()
    return Promise.reject(error)
  }
}

/** The events of a run after `afterSeq`. */
function attach(native, runId, options) {
  if (typeof runId !== 'string' || runId === '') {
    throw refusal(CODE, 'runId', 'is not the id of a run')
  }
  readName(runId, 'runId', CODE)
  const { afterSeq = 0, ...rest } = readFields(options, 'options', CODE)
  const [other] = Object.keys(rest)
  if (other !== undefined) throw refusal(CODE, other, 'is not an option')
  if (!Number.isSafeInteger(afterSeq) || afterSeq < 0) {
    throw refusal(CODE, 'afterSeq', 'is not the number of an event; pass 0 or more')
  }
  const send = (id, page) => {
    const from =
      page === undefined ? { runId, afterSeq } : { turnId: page.turnId, afterSeq: page.last }
    native.attach(
      id,
      toJson(from, 'options', () => CODE),
    )
  }
  return new Pages(native, send, true)
}

/** The events of a session's runs, from those under way on. */
function watch(native, label) {
  const send = (id, page) =>
    native.watch(
      id,
      toJson({ label, cursor: page?.cursor }, 'arguments', () => CODE),
    )
  return new Pages(native, send, false).begin()
}

/** Aborts or steers the run of a session, in whatever process. */
function command(native, label, message) {
  // A message is what a user wrote: half a surrogate pair in it becomes U+FFFD.
  const json = toJson(
    { label, message },
    'arguments',
    () => CODE,
    (path) => path === 'message',
  )
  return hub.request((id) => native.command(id, json))
}

function sessionLabel(label) {
  return readName(label, 'label', 'invalid_label')
}

async function abortSession(native, label) {
  await command(native, sessionLabel(label))
}

async function steerSession(native, label, text) {
  sessionLabel(label)
  if (typeof text !== 'string' || text === '') {
    throw refusal(CODE, 'text', 'is not a message')
  }
  return command(native, label, text)
}

export { abortSession, attach, steerSession, watch }
