// A message that is followed: the events and the result of the runs that have it, one after the other.
// It must never settle before the message has ended.

import type {
  AgentResult,
  BrokerStreamHandle,
  EventsFrom,
  MessageExecution,
  QueuedMessage,
  SendReceipt,
  StreamEvent,
} from '../../index.d.ts'
import type { AgentRun } from '../run/run.ts'
import { AgentEngineError } from '../values/errors.ts'

type Listener = (event: StreamEvent) => void

class Execution implements MessageExecution {
  readonly receipt: Promise<SendReceipt>
  readonly result: Promise<AgentResult>
  readonly stream: BrokerStreamHandle
  #run: AgentRun | undefined
  #listeners = new Set<Listener>()
  /** Whether the host has aborted it. The message may not be stored yet, and its run not have begun. */
  #isAborted = false
  /** Whether its end was reported. A second report, from another process, must not ask for the result again. */
  #hasEnded = false
  #resolve!: (result: AgentResult | Promise<AgentResult>) => void
  #reject!: (error: unknown) => void

  /** `cancel` ends the message while no run has it. */
  constructor(receipt: Promise<SendReceipt>, cancel: () => void) {
    this.receipt = receipt
    this.result = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
    // It need not be awaited: a message whose events alone are followed is no unhandled rejection.
    this.result.catch(() => {})
    const stored = () => {
      if (this.#isAborted && this.#run === undefined) cancel()
    }
    receipt.then(stored, (error) => this.#reject(error))
    this.stream = Object.freeze({
      onEvent: (callback: Listener, options?: EventsFrom) => this.#onEvent(callback, options),
      abort: () => {
        this.#isAborted = true
        if (this.#run === undefined) cancel()
        else this.#run.abort()
      },
      steer: (message: string) => this.#run?.steer(message) ?? false,
      isStreaming: () => this.#run?.stream.isStreaming() ?? false,
      isCompacting: () => this.#run?.stream.isCompacting() ?? false,
    })
  }

  get runId(): string | undefined {
    return this.#run?.id
  }

  #onEvent(callback: Listener, options: EventsFrom | undefined): () => void {
    const leave = this.#run?.stream.onEvent(callback, options)
    this.#listeners.add(callback)
    return () => {
      leave?.()
      this.#listeners.delete(callback)
    }
  }

  /** A run has the message. */
  begin(run: AgentRun): void {
    this.#run = run
    if (this.#isAborted) run.abort()
    for (const listener of this.#listeners) {
      run.stream.onEvent((event) => {
        if (this.#listeners.has(listener)) listener(event)
      })
    }
  }

  /**
   * What became of the message after turn `turnId` here; `elsewhere` is the result of a turn in another process. False while it has
   * not ended.
   */
  end(item: QueuedMessage, turnId: string | null, elsewhere: () => Promise<AgentResult>): boolean {
    if (item.status === 'pending' || item.status === 'processing') {
      this.#run = undefined
      return false
    }
    if (this.#hasEnded) return true
    this.#hasEnded = true
    // The turn here may have come too late: it has none of a message that has ended without a turn.
    const run = turnId !== null && item.turnId === turnId ? this.#run : undefined
    if (run !== undefined) this.#resolve(run.result)
    else if (item.turnId !== null && item.reason !== 'dropped') this.#resolve(elsewhere())
    else this.fail(item.reason ?? item.status, item.detail)
    return true
  }

  /** A run has ended, and what became of the message is not known: another one has it, or none. */
  leave(run: AgentRun): void {
    if (this.#run === run) this.#run = undefined
  }

  /** No run has the message, and none will. */
  fail(reason: string, detail?: string | null): void {
    const why = detail === undefined || detail === null ? '' : `: ${detail}`
    const message = `the message has no result, because it is ${reason}${why}`
    this.#reject(new AgentEngineError('not_delivered', message))
  }
}

export { Execution }
