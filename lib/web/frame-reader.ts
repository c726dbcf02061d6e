// A source of events as frames, one when it is requested: events, heartbeats while none comes, the failure that ends it.
// It must never read further than it is asked, nor leave a timer or a listener behind.

import type { StreamEvent } from '../../index.d.ts'
import type { EventStream } from '../../web.d.ts'
import { COMMENT, failureFrame, frame, opening } from './frames.ts'
import { isRun, type StreamOptions } from './options.ts'

type Outcome = { event: IteratorResult<StreamEvent> } | { error: unknown }

class FrameReader {
  #source: EventStream
  #options: StreamOptions
  #iterator: AsyncIterator<StreamEvent> | undefined
  /** A `next()` of the source is under way; it outlasts heartbeats. */
  #reading = false
  #outcome: Outcome | undefined
  #wake: (() => void) | undefined
  #begun = false
  #over = false
  #isLeft = false

  constructor(source: EventStream, options: StreamOptions) {
    this.#source = source
    this.#options = options
    const { signal } = options
    if (signal?.aborted) this.leave()
    else signal?.addEventListener('abort', this.leave)
  }

  /** Whether the client went before the source had ended. */
  get isLeft(): boolean {
    return this.#isLeft
  }

  /** The next frame; undefined at the end. */
  async next(): Promise<string | undefined> {
    if (this.#over) return undefined
    if (!this.#begun) {
      this.#begun = true
      return opening(this.#options.retryMs)
    }
    for (;;) {
      const outcome = await this.#read()
      if (this.#over) return undefined
      if (outcome === undefined) return COMMENT
      try {
        if ('error' in outcome) throw outcome.error
        if (outcome.event.done) {
          this.#end()
          return undefined
        }
        const text = this.#frame(outcome.event.value)
        if (text !== undefined) return text
      } catch (error) {
        // Its own failure has ended the source; one of `map` has not.
        if (!('error' in outcome)) this.#leaveSource()
        this.#end()
        this.#report(error)
        return failureFrame(error)
      }
    }
  }

  #frame(event: StreamEvent): string | undefined {
    const { lastEventId, map } = this.#options
    if (event.seq <= lastEventId) return undefined
    const data = map === undefined ? event : map(event)
    return data === undefined ? undefined : frame(event, data)
  }

  /** What the source gave; undefined where it gave nothing for the time of a heartbeat. */
  async #read(): Promise<Outcome | undefined> {
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

  async #requestEvent(): Promise<Outcome> {
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

export { FrameReader }
