// Handles interrupted turns when an engine is opened, and checks what a host may change when one is resumed.
// It must never run a tool itself: a resumed turn is a normal run.

import type {
  AgentEngine,
  AgentEngineCallbacks,
  AgentEngineOptions,
  PlanFunction,
  RecoveredTurn,
  ResumeOptions,
} from '../../index.d.ts'
import { readCallbacks } from '../run/context.ts'
import { refusal } from '../values/errors.ts'
import { noted, type Refuse, throwing } from '../values/problems.ts'
import { type Fields, isObject, readFields, readName } from '../values/reader.ts'

const POLICIES: readonly unknown[] = ['list', 'resume', 'discard']
/** The parts of a turn's context that a host may replace. All others are those with which it began. */
const CHANGES: readonly string[] = [
  'tools',
  'callbacks',
  'headers',
  'history',
  'timeoutMs',
  'toolTimeoutMs',
  'abortSignal',
  'events',
  'beforeToolCall',
  'afterToolCall',
  'stopWhen',
  'prepareStep',
  'planner',
  'output',
  'onApproval',
] satisfies (keyof ResumeOptions)[]

/** How an engine handles interrupted turns when it is opened. */
type Recovery = Pick<AgentEngineOptions, 'recovery' | 'toolsFor'>

/** The options of a resumption, each checked by name. */
function readResumption(
  turnId: unknown,
  options: unknown,
  refuse: Refuse = throwing,
): { callbacks: AgentEngineCallbacks; fields: Fields } {
  noted(refuse, () => readName(turnId, 'turnId', 'invalid_context'))
  const changes: Fields = {}
  for (const [field, value] of Object.entries(readFields(options, 'options', 'invalid_context'))) {
    if (!CHANGES.includes(field)) {
      refuse(refusal('invalid_context', field, 'cannot be changed when a turn is resumed'))
    } else if (value !== undefined) changes[field] = value
  }
  const { callbacks, ...fields } = changes
  const read = noted(refuse, () => readCallbacks(callbacks, refuse), {})
  // Functions are not persisted: without them the turn continues without tools, and calls in doubt are reported as such.
  return { callbacks: read, fields: { tools: [], ...fields } }
}

/** The stored planner of a turn, with its function: that of the engine, or one that has no plan, so that the model is called. */
function resumedPlanner(stored: unknown, ofEngine: PlanFunction | undefined): unknown {
  if (!isObject(stored) || stored.plan !== 'function') return stored
  return { ...stored, plan: ofEngine ?? (() => undefined) }
}

/** Checks the engine's `recovery` and `toolsFor`, and removes them from the options for the native side. */
function readRecovery(options: Fields): { recovery: Recovery; rest: Fields } {
  const { recovery, toolsFor, ...rest } = options
  if (recovery !== undefined && recovery !== null && !POLICIES.includes(recovery)) {
    throw refusal('invalid_options', 'recovery', `is not one of ${POLICIES.join(', ')}`)
  }
  if (recovery === 'resume' && typeof toolsFor !== 'function') {
    const why = "is not a function; `recovery: 'resume'` needs one that gives the tools of a turn"
    throw refusal('invalid_options', 'toolsFor', why)
  }
  return { recovery: { recovery, toolsFor } as Recovery, rest }
}

/** Handles each interrupted turn by `recovery`, one after the other, because they may belong to one session. */
async function recoverAtOpen(
  engine: AgentEngine,
  { ledger, recovery, toolsFor }: Recovery & { ledger: boolean },
): Promise<RecoveredTurn[]> {
  const recovered: RecoveredTurn[] = []
  if (!ledger || (recovery !== 'resume' && recovery !== 'discard')) return recovered
  for (const turn of await engine.recover()) {
    try {
      if (turn.awaitingApproval && recovery === 'discard') {
        // It was not interrupted: it waits for a decision, also without a process.
        recovered.push({ turn, outcome: 'left' })
        continue
      }
      if (recovery === 'discard' || !turn.resumable) {
        await engine.discard(turn.turnId)
        recovered.push({ turn, outcome: 'discarded' })
        continue
      }
      const options = await toolsFor?.(turn)
      if (options === null || options === undefined) {
        recovered.push({ turn, outcome: 'left' })
        continue
      }
      const run = await engine.resume(turn.turnId, options)
      recovered.push({ turn, outcome: 'resumed', run })
    } catch (error) {
      recovered.push({ turn, outcome: 'failed', error })
    }
  }
  return recovered
}

export type { Recovery }
export { readRecovery, readResumption, recoverAtOpen, resumedPlanner }
