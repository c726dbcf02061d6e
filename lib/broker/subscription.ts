// The events of a session after the last one that a reader has had: the rest of that run, the runs after it, and then what happens. It must
// never emit an event of a run twice.

import type { RunInfo, SessionEvent, StreamEvent, SubscribeOptions } from '../../index.d.ts'
import type { AgentEngine } from '../engine/engine.ts'
import { AgentEngineError, refusal } from '../values/errors.ts'
import { readFields, readName } from '../values/reader.ts'

const DONE = { value: undefined, done: true } as const

class Subscription implements AsyncIterableIterator<SessionEvent> {
  #engine: AgentEngine
  #label: string
  #last: { runId: string; afterSeq: number }
  /** What happens from now on: it begins first, so that nothing is between it and what was missed. */
  #live: AsyncIterableIterator<SessionEvent>
  /** The runs that were missed, the oldest first; undefined before they are read. */
  #missed: RunInfo[] | undefined
  #run: { info: RunInfo; events: AsyncIterableIterator<StreamEvent> } | undefined
  #known = new Set<string>()
  #isOver = false
  #turn: Promise<unknown> = Promise.resolve()

  constructor(engine: AgentEngine, label: string, last: { runId: string; afterSeq: number }) {
    this.#engine = engine
    this.#label = label
    this.#last = last
    this.#live = engine.ledger.watch(label)
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  next(): Promise<IteratorResult<SessionEvent>> {
    const next = this.#turn.then(() => this.#next())
    this.#turn = next.catch(() => {})
    return next
  }

  async #next(): Promise<IteratorResult<SessionEvent>> {
    this.#missed ??= await this.#read()
    while (!this.#isOver) {
      this.#run ??= this.#begin(this.#missed.shift())
      if (this.#run === undefined) return this.#follow()
      const { info, events } = this.#run
      const { value: event, done } = await events.next()
      if (done) this.#run = undefined
      else return { value: { runId: info.runId, turnId: info.turnId, event }, done: false }
    }
    return DONE
  }

  /** The runs of the session from the reader's last one on. */
  async #read(): Promise<RunInfo[]> {
    const missed: RunInfo[] = []
    let cursor: string | undefined
    do {
      const filter = { session: this.#label, ...(cursor !== undefined && { cursor }) }
      const { items, next } = await this.#engine.runs(filter)
      for (const info of items) {
        missed.unshift(info)
        this.#known.add(info.runId)
        if (info.runId === this.#last.runId) return missed
      }
      cursor = next ?? undefined
    } while (cursor !== undefined)
    throw new AgentEngineError('unknown_run', `session \`${this.#label}\` has no run with that id`)
  }

  #begin(info: RunInfo | undefined) {
    if (info === undefined) return undefined
    const afterSeq = info.runId === this.#last.runId ? this.#last.afterSeq : 0
    return { info, events: this.#engine.attach(info.runId, { afterSeq }) }
  }

  async #follow(): Promise<IteratorResult<SessionEvent>> {
    for (;;) {
      const next = await this.#live.next()
      if (next.done || !this.#known.has(next.value.runId)) return next
    }
  }

  return(value?: unknown): Promise<IteratorReturnResult<unknown>> {
    this.#isOver = true
    void this.#run?.events.return?.()
    void this.#live.return?.()
    return Promise.resolve({ value, done: true })
  }
}

/** The events of a session, from those of the run under way on, or after the last one that a reader has had. */
function subscribe(
  engine: AgentEngine,
  label: string,
  options: SubscribeOptions = {},
): AsyncIterableIterator<SessionEvent> {
  const code = 'invalid_options'
  const { runId, afterSeq = 0, ...others } = readFields(options, 'options', code)
  for (const name of Object.keys(others)) {
    throw refusal(code, name, 'is not an option; the options are runId, afterSeq')
  }
  if (typeof afterSeq !== 'number' || !Number.isSafeInteger(afterSeq) || afterSeq < 0) {
    throw refusal(code, 'afterSeq', 'is not the number of an event')
  }
  if (runId === undefined) {
    if (afterSeq !== 0) throw refusal(code, 'runId', 'is missing; numbers are of one run')
    return engine.ledger.watch(label)
  }
  return new Subscription(engine, label, { runId: readName(runId, 'runId', code), afterSeq })
}

export { subscribe }
