// What becomes of interrupted turns when an engine is opened, and what a host may change when one goes on.
// It must never run a tool by itself: a resumed turn is a run like any other.

import { readCallbacks } from '../run/context.js'
import { refusal } from '../values/errors.js'
import { readFields, readName } from '../values/reader.js'

const POLICIES = ['list', 'resume', 'discard']
/** What of a turn's context may be given anew. The rest is what it was begun with. */
const CHANGES = [
  'tools',
  'callbacks',
  'headers',
  'history',
  'timeoutMs',
  'toolTimeoutMs',
  'abortSignal',
]

/** The fields a host gives for a resumption, each checked by name. */
function resumption(turnId, options) {
  readName(turnId, 'turnId', 'invalid_context')
  const changes = {}
  for (const [field, value] of Object.entries(readFields(options, 'options', 'invalid_context'))) {
    if (!CHANGES.includes(field)) {
      throw refusal('invalid_context', field, 'cannot be changed; a turn goes on as it began')
    }
    if (value !== undefined) changes[field] = value
  }
  const { callbacks, ...fields } = changes
  // Functions are not kept: without them the turn goes on with no tool, and calls in doubt are told as such.
  return { callbacks: readCallbacks(callbacks), fields: { tools: [], ...fields } }
}

/** Checks the engine's `recovery` and `toolsFor`, and takes them out of what crosses. */
function readRecovery(options) {
  const { recovery, toolsFor, ...rest } = options
  if (recovery !== undefined && recovery !== null && !POLICIES.includes(recovery)) {
    throw refusal('invalid_options', 'recovery', `is not one of ${POLICIES.join(', ')}`)
  }
  if (recovery === 'resume' && typeof toolsFor !== 'function') {
    const why = "is not a function; `recovery: 'resume'` needs one that gives the tools of a turn"
    throw refusal('invalid_options', 'toolsFor', why)
  }
  return { recovery: { recovery, toolsFor }, rest }
}

/** Does what `recovery` says with each interrupted turn, one after the other: they may be of one session. */
async function recoverAtOpen(engine, { ledger, recovery, toolsFor }) {
  const recovered = []
  if (!ledger || (recovery !== 'resume' && recovery !== 'discard')) return recovered
  for (const turn of await engine.recover()) {
    try {
      if (recovery === 'discard' || !turn.resumable) {
        await engine.discard(turn.turnId)
        recovered.push({ turn, outcome: 'discarded' })
        continue
      }
      const options = await toolsFor(turn)
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

export { readRecovery, recoverAtOpen, resumption }
