// The approvals of the turns of this process, as a broker emits them: each once when it is requested, and once when it is decided. It
// must never decide about one.

import type { Approval, ApprovalFilter, BrokerEvents } from '../../index.d.ts'
import type { AgentEngine } from '../engine/engine.ts'

class Approvals {
  #engine: AgentEngine
  #emit: (event: BrokerEvents['approval']) => void
  /** Those that were emitted as requested and are not decided yet, by turn. */
  #requested = new Map<string, Set<string>>()
  /** The last reading: the next one follows it, so that no older state is emitted after a newer one. */
  #last: Promise<void> = Promise.resolve()

  constructor(engine: AgentEngine, emit: (event: BrokerEvents['approval']) => void) {
    this.#engine = engine
    this.#emit = emit
  }

  /** Whether a turn has approvals that were requested and not decided yet. */
  awaits(turnId: string): boolean {
    return this.#requested.has(turnId)
  }

  /** A turn waits for decisions, or waits no longer. */
  changed(turnId: string, runId: string): Promise<void> {
    const read = this.#last.then(() => this.#read(turnId, runId))
    this.#last = read.catch(() => {})
    return read
  }

  async #read(turnId: string, runId: string): Promise<void> {
    const all = await allApprovals(this.#engine, { runId })
    const open = this.#requested.get(turnId) ?? new Set()
    for (const approval of all) {
      const isPending = approval.status === 'pending'
      if (isPending && !open.has(approval.id)) {
        open.add(approval.id)
        this.#emit({ phase: 'requested', approval })
      } else if (!isPending && open.delete(approval.id)) {
        this.#emit({ phase: 'decided', approval })
      }
    }
    if (open.size === 0) this.#requested.delete(turnId)
    else this.#requested.set(turnId, open)
  }
}

/** The approvals that fit a filter, of all pages. */
async function allApprovals(engine: AgentEngine, filter: ApprovalFilter): Promise<Approval[]> {
  const all: Approval[] = []
  let after: string | undefined
  do {
    const page = await engine.approvals({ ...filter, after, limit: 1_000 })
    all.push(...page.items)
    after = page.next ?? undefined
  } while (after !== undefined)
  return all
}

export { Approvals, allApprovals }
