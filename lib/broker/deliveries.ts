// The outbox of a broker: hands what the native side has claimed to the host's function, and answers with what became of it.
// It must never acknowledge what the function has not.

import type { NativeBroker } from '../../binding.d.ts'
import type { Delivery, DeliveryListOptions, StoredDelivery, TurnRow } from '../../index.d.ts'
import type { AgentEngine } from '../engine/engine.ts'
import * as hub from '../native/hub.ts'
import { AgentEngineError, messageOf, refusal } from '../values/errors.ts'
import { listing, noted, type Refuse, throwing } from '../values/problems.ts'
import { readFields, readId } from '../values/reader.ts'
import { answerOf } from './silence.ts'

const CODE = 'invalid_options'
const STATUSES: readonly unknown[] = ['pending', 'parked', 'delivered']
const LIST = ['status', 'session', 'after', 'limit'] satisfies (keyof DeliveryListOptions)[]

type Outcome = 'delivered' | 'failed' | 'released'
type Deliver = (delivery: Delivery) => void | Promise<void>

class Deliveries {
  #engine: AgentEngine
  #native: () => NativeBroker
  /** How long the function has for one, in milliseconds. */
  #timeoutMs: number
  #report: (error: AgentEngineError) => void
  #deliver: Deliver | undefined
  /** It takes deliveries, and keeps the process alive. */
  #listens = false
  /** Those that the function has. */
  #open = new Set<Promise<void>>()

  constructor(
    engine: AgentEngine,
    native: () => NativeBroker,
    timeoutMs: number,
    report: (error: AgentEngineError) => void,
  ) {
    this.#engine = engine
    this.#native = native
    this.#timeoutMs = timeoutMs
    this.#report = report
  }

  /** Has a function get the deliveries. One acknowledges each. */
  listen(deliver: Deliver): () => void {
    if (this.#deliver !== undefined) {
      throw refusal(CODE, 'name', 'has a listener: one function acknowledges a delivery')
    }
    this.#deliver = deliver
    this.#native().listen(true)
    // Between the end of a turn and its delivery nothing else does.
    hub.holdProcess()
    this.#listens = true
    return () => {
      if (this.#deliver !== deliver) return
      this.#deliver = undefined
      this.#leave()
    }
  }

  #leave(): void {
    if (!this.#listens) return
    this.#listens = false
    this.#native().listen(false)
    hub.releaseProcess()
  }

  /** A delivery that the native side has claimed. */
  receive(stored: StoredDelivery): void {
    hub.holdProcess()
    const open = this.#handOut(stored).finally(() => {
      this.#open.delete(open)
      hub.releaseProcess()
    })
    this.#open.add(open)
  }

  async #handOut(stored: StoredDelivery): Promise<void> {
    const [outcome, error] = await this.#outcomeOf(stored)
    await hub.request((id) => this.#native().answerDelivery(id, stored.turnId, outcome, error))
  }

  async #outcomeOf(stored: StoredDelivery): Promise<[Outcome, string?]> {
    const deliver = this.#deliver
    if (deliver === undefined) return ['released']
    try {
      const turn = await this.#engine.ledger.turn(stored.turnId)
      // Its turn was deleted, and it with that.
      if (turn === null) return ['released']
      // What a function throws is its own to report; of its silence nobody else knows.
      const late = (why: string) => {
        const message = `the delivery of turn \`${stored.turnId}\` ${why}`
        const error = new AgentEngineError('delivery_failed', message)
        this.#report(error)
        return error
      }
      await answerOf(() => deliver(deliveryOf(stored, turn)), late, this.#timeoutMs)
      return ['delivered']
    } catch (error) {
      return ['failed', messageOf(error, 'the delivery')]
    }
  }

  async delivered(turnId: string): Promise<boolean> {
    readId(turnId, 'turnId', CODE)
    return hub.request((id) => this.#native().delivered(id, turnId))
  }

  async redeliver(turnId: string): Promise<boolean> {
    readId(turnId, 'turnId', CODE)
    return hub.request((id) => this.#native().redeliver(id, turnId))
  }

  async list(options: DeliveryListOptions = {}): Promise<StoredDelivery[]> {
    const filter = listing(
      () => readFilter(options, throwing),
      (problems) => void readFilter(options, problems.note),
    )
    return hub.request((id) => this.#native().deliveries(id, filter))
  }

  /** Takes no more, and waits for those that the function has. */
  async drain(): Promise<void> {
    this.#leave()
    await Promise.allSettled(this.#open)
  }

  /** Those that the function still has are handed out again, here or elsewhere, when their claims have expired. */
  abandon(): void {
    this.#native().abandonDeliveries()
  }
}

/** The JSON of the filter of a list. */
function readFilter(options: DeliveryListOptions, refuse: Refuse): string {
  const fields = readFields(options, 'options', CODE)
  for (const name of Object.keys(fields)) {
    if ((LIST as string[]).includes(name)) continue
    refuse(refusal(CODE, name, `is not an option; the options are ${LIST.join(', ')}`))
  }
  const { status = 'pending', session, after, limit = 100 } = fields
  if (!STATUSES.includes(status)) {
    refuse(refusal(CODE, 'status', `is not one of ${STATUSES.join(', ')}`))
  }
  if (session !== undefined) noted(refuse, () => readId(session, 'session', CODE))
  if (after !== undefined) noted(refuse, () => readId(after, 'after', CODE))
  if (!(typeof limit === 'number' && Number.isInteger(limit) && limit >= 1 && limit <= 1_000)) {
    refuse(refusal(CODE, 'limit', 'is not a whole number from 1 to 1,000'))
  }
  return JSON.stringify({ status, session, after, limit })
}

/** A delivery with its turn's answer. */
function deliveryOf(stored: StoredDelivery, turn: TurnRow): Delivery {
  const answer = turn.messages.find(({ id }) => id === turn.responseMessageId)
  const blocks = answer?.blocks ?? []
  return {
    turnId: stored.turnId,
    sessionLabel: stored.sessionLabel,
    target: stored.target,
    status: turn.status as Delivery['status'],
    text: answer?.content ?? '',
    blocks,
    attachments: blocks.filter(({ type }) => type === 'image'),
    error: turn.error,
    attempt: stored.tries,
  }
}

export type { Deliver }
export { Deliveries }
