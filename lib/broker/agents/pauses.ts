// How long the time of a turn has stood still, because agents for which it waits wait for decisions. It must never ask anything but
// the ledger: the processes that have run them may have ended.

import type { Approval } from '../../../index.d.ts'
import type { AgentEngine } from '../../engine/engine.ts'
import { allApprovals } from '../approvals.ts'
import type { AgentStore } from './store.ts'

/** Milliseconds until now for which an agent that the turn waits for, directly or not, has waited for a decision. */
async function stoodStill(
  engine: AgentEngine,
  store: AgentStore,
  sessionLabel: string,
  turnId: string,
): Promise<number> {
  const now = Date.now()
  const spans: [number, number][] = []
  const made = await store.madeBy(sessionLabel)
  const tasks = made.filter(({ parentTurnId }) => parentTurnId === turnId)
  // Those of the agents are added to it on the way.
  for (const { kind, sessionLabel: session } of tasks) {
    if (kind !== 'spawn') continue
    for (const approval of await allApprovals(engine, { session })) {
      spans.push([approval.createdAt, Math.min(endOf(approval) ?? now, now)])
    }
    tasks.push(...(await store.madeBy(session)))
  }
  spans.sort(([one], [other]) => one - other)
  let [sum, until] = [0, 0]
  for (const [from, to] of spans) {
    // Two may have waited at once.
    sum += Math.max(0, to - Math.max(from, until))
    until = Math.max(until, to)
  }
  return sum
}

/** When an approval waited no longer; nothing while it waits. */
function endOf({ status, decidedAt, expiresAt }: Approval): number | null {
  return status === 'pending' ? null : (decidedAt ?? expiresAt ?? null)
}

export { stoodStill }
