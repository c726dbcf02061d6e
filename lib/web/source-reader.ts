// A source of events as the items that an encoder makes of them, one when it is requested: events, heartbeats while none comes, the failure
// that ends it. It must never read further than it is asked, nor leave a timer or a listener behind.

/** What a stream sends for what happens to its source. */
interface Encoder<Event, Item> {
  /** Before the first event. */
  opening(): Item[]
  event(event: Event): Item[]
  /** After each time without an event. */
  heartbeat(): Item[]
  /** After the last event. */
  ending(): Item[]
  /** In place of all that would follow. */
  failure(error: unknown): Item[]
}

interface ReaderOptions {
  heartbeatMs: number
  onDisconnect?: 'abort' | 'continue' | undefined
  onError?: ((error: unknown) => void) | undefined
  signal?: AbortSignal | undefined
}

type Outcome<Event> = { event: IteratorResult<Event> } | { error: unknown }

class SourceReader<Event, Item extends {}> {
  #source: AsyncIterable<Event>
  #options: ReaderOptions
  #encoder: Encoder<Event, Item>
  #iterator: AsyncIterator<Event> | undefined
  /** A `next()` of the source is under way; it outlasts heartbeats. */
  #reading = false
  #outcome: Outcome<Event> | undefined
  #wake: (() => void) | undefined
  /** Items that were made and not requested yet. */
  #ready: Item[]
  #over = false
  #isLeft = false

  constructor(source: AsyncIterable<Event>, options: ReaderOptions, encoder: Encoder<Event, Item>) {
    this.#source = source
    this.#options = options
    this.#encoder = encoder
    this.#ready = encoder.opening()
    const { signal } = options
    if (signal?.aborted) this.leave()
    else signal?.addEventListener('abort', this.leave)
  }

  /** Whether the client went before the source had ended. */
  get isLeft(): boolean {
    return this.#isLeft
  }

  /** The next item; undefined at the end. */
  async next(): Promise<Item | undefined> {
    for (;;) {
      const item = this.#ready.shift()
      if (item !== undefined || this.#over) return item
      this.#ready = await this.#more()
    }
  }

  /** What comes next: no item where an event has none. */
  async #more(): Promise<Item[]> {
    const outcome = await this.#read()
    if (this.#over) return []
    if (outcome === undefined) return this.#encoder.heartbeat()
    try {
      if ('error' in outcome) throw outcome.error
      if (!outcome.event.done) return this.#encoder.event(outcome.event.value)
      this.#end()
      return this.#encoder.ending()
    } catch (error) {
      // Its own failure has ended the source; one of the encoder has not.
      if (!('error' in outcome)) this.#leaveSource()
      this.#end()
      this.#report(error)
      return this.#encoder.failure(error)
    }
  }

  /** What the source gave; undefined where it gave nothing for the time of a heartbeat. */
  async #read(): Promise<Outcome<Event> | undefined> {
    if (!this.#reading) {
      this.#reading = true
      this.#requestEvent().then((outcome) => {
        this.#outcome = outcome
        this.#wake?.()
      })
    }
    if (this.#outcome === undefined) await this.#wait()
    const outcome = this.#outcome
    if (outcome !== undefined) this.#reading = false
    this.#outcome = undefined
    return outcome
  }

  async #requestEvent(): Promise<Outcome<Event>> {
    try {
      this.#iterator ??= this.#source[Symbol.asyncIterator]()
      return { event: await this.#iterator.next() }
    } catch (error) {
      return { error }
    }
  }

  /** Until an event is there, the reader is left, or a heartbeat is due. */
  #wait(): Promise<void> {
    return new Promise((resolve) => {
      const { heartbeatMs } = this.#options
      const timer = heartbeatMs > 0 ? setTimeout(() => this.#wake?.(), heartbeatMs) : undefined
      // A heartbeat alone holds no process; other runtimes' timers are numbers.
      if (typeof timer === 'object') timer.unref?.()
      this.#wake = () => {
        clearTimeout(timer)
        this.#wake = undefined
        resolve()
      }
    })
  }

  /** The client went. Whether this aborts a run is decided by `onDisconnect`, else by the run itself. */
  leave = (): void => {
    if (this.#over) return
    this.#isLeft = true
    this.#ready = []
    this.#end()
    this.#leaveSource()
    this.#wake?.()
  }

  #end(): void {
    this.#over = true
    this.#options.signal?.removeEventListener('abort', this.leave)
  }

  #leaveSource(): void {
    const source = this.#source
    const { onDisconnect } = this.#options
    if (onDisconnect === 'continue' && isRun(source)) {
      this.#drop()
      return
    }
    if (onDisconnect === 'abort' && isRun(source)) source.abort()
    this.#guard(async () => {
      this.#iterator ??= source[Symbol.asyncIterator]()
      await this.#iterator.return?.()
    })
  }

  /** Reads on without a client: what a run has not delivered may hold up its socket, and stays in memory. */
  #drop(): void {
    this.#guard(async () => {
      this.#iterator ??= this.#source[Symbol.asyncIterator]()
      while (!(await this.#iterator.next()).done) {}
    })
  }

  /** Nobody waits for what becomes of a source that was left. */
  #guard(work: () => Promise<void>): void {
    work().catch((error) => this.#report(error))
  }

  /** What the caller's code throws here would end the process: nobody awaits it. */
  #report(error: unknown): void {
    try {
      this.#options.onError?.(error)
    } catch {
      process.emitWarning('`onError` of an event stream threw', { code: 'AGENT_ENGINE_CALLBACK' })
    }
  }
}

/** Whether leaving a source may matter to a run: an attachment has no `abort`. */
function isRun<Source extends object>(source: Source): source is Source & { abort(): void } {
  return 'abort' in source && typeof source.abort === 'function'
}

export type { Encoder, ReaderOptions }
export { isRun, SourceReader }
