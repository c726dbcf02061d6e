// pi's event streams: a queue between one who pushes and those who iterate, with a result. It must never move what is queued when one is
// taken, nor reject its result.

import type {
  AssistantMessage,
  AssistantMessageEvent,
  EventStream as Declared,
} from '../../../pi-ai.d.ts'

/** Taken entries at the front of a queue before it is cut. */
const CUT_AT = 1_024

class EventStream<T, R = T> implements Declared<T, R> {
  #isComplete: (event: T) => boolean
  #extractResult: (event: T) => R
  #queue: T[] = []
  /** How many of the queue were taken. */
  #taken = 0
  #waiting: ((result: IteratorResult<T>) => void)[] = []
  /** How many of those who waited were served. */
  #served = 0
  #done = false
  #result: Promise<R>
  #resolve!: (result: R) => void

  constructor(isComplete: (event: T) => boolean, extractResult: (event: T) => R) {
    this.#isComplete = isComplete
    this.#extractResult = extractResult
    this.#result = new Promise((resolve) => {
      this.#resolve = resolve
    })
  }

  push(event: T): void {
    if (this.#done) return
    if (this.#isComplete(event)) {
      this.#done = true
      this.#resolve(this.#extractResult(event))
    }
    const waiter = this.#waiter()
    if (waiter === undefined) this.#queue.push(event)
    else waiter({ value: event, done: false })
  }

  end(result?: R): void {
    this.#done = true
    if (result !== undefined) this.#resolve(result)
    for (let waiter = this.#waiter(); waiter !== undefined; waiter = this.#waiter()) {
      waiter({ value: undefined, done: true })
    }
  }

  /** Several iterations share the events. Leaving one ends nothing else. */
  [Symbol.asyncIterator](): AsyncIterableIterator<T> {
    let left = false
    const ended: IteratorReturnResult<undefined> = { value: undefined, done: true }
    const iteration: AsyncIterableIterator<T> = {
      next: () => {
        if (left) return Promise.resolve(ended)
        if (this.#taken < this.#queue.length) {
          return Promise.resolve({ value: this.#take(), done: false })
        }
        if (this.#done) return Promise.resolve(ended)
        return new Promise((resolve) => this.#waiting.push(resolve))
      },
      return: () => {
        left = true
        return Promise.resolve(ended)
      },
      [Symbol.asyncIterator]: () => iteration,
    }
    return iteration
  }

  result(): Promise<R> {
    return this.#result
  }

  /** The oldest event. */
  #take(): T {
    const event = this.#queue[this.#taken] as T
    // The queue must not hold what was taken.
    this.#queue[this.#taken++] = undefined as T
    if (this.#taken === this.#queue.length) {
      this.#queue = []
      this.#taken = 0
    } else if (this.#taken >= CUT_AT && this.#taken * 2 > this.#queue.length) {
      this.#queue = this.#queue.slice(this.#taken)
      this.#taken = 0
    }
    return event
  }

  #waiter(): ((result: IteratorResult<T>) => void) | undefined {
    const waiter = this.#waiting[this.#served]
    if (waiter === undefined) return undefined
    this.#served++
    if (this.#served === this.#waiting.length) {
      this.#waiting = []
      this.#served = 0
    }
    return waiter
  }
}

class AssistantMessageEventStream extends EventStream<AssistantMessageEvent, AssistantMessage> {
  constructor() {
    super(
      (event) => event.type === 'done' || event.type === 'error',
      (event) => {
        if (event.type === 'done') return event.message
        if (event.type === 'error') return event.error
        throw new Error('Unexpected event type for final result')
      },
    )
  }
}

function createAssistantMessageEventStream(): AssistantMessageEventStream {
  return new AssistantMessageEventStream()
}

export { AssistantMessageEventStream, createAssistantMessageEventStream, EventStream }
