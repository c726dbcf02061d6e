// What the parts of one run of the loop share. It must never decide.

import type { AgentContext, AgentEvent, AgentLoopConfig, StreamFn } from '../../pi-agent.d.ts'

/** One run of the loop. */
interface Run {
  context: AgentContext
  config: AgentLoopConfig
  emit: (event: AgentEvent) => Promise<void> | void
  signal: AbortSignal | undefined
  streamFn: StreamFn | undefined
}

const ABORT_GRACE_MS = 250

/** Whether the loop is that of 0.73. */
const isLater = ({ config }: Run): boolean => config.semantics === '0.73'

const isAborted = ({ signal }: Run): boolean => signal?.aborted === true

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

/** What `bounded` gives where the work did not end in time. */
const LATE = Symbol('late')

/**
 * The work, or `LATE` where it goes on for longer than the grace after an abort, or longer than `limitMs`. What comes of it then is discarded.
 */
function bounded<Value>(
  { signal, config }: Run,
  work: Promise<Value>,
  limitMs?: number,
): Promise<Value | typeof LATE> {
  return new Promise((resolve, reject) => {
    const timers: NodeJS.Timeout[] = []
    const late = () => settle(() => resolve(LATE))
    const aborted = () => void timers.push(setTimeout(late, config.abortGraceMs ?? ABORT_GRACE_MS))
    const settle = (finish: () => void) => {
      for (const timer of timers) clearTimeout(timer)
      signal?.removeEventListener('abort', aborted)
      finish()
    }
    if (limitMs !== undefined) timers.push(setTimeout(late, limitMs))
    if (signal?.aborted) aborted()
    else signal?.addEventListener('abort', aborted, { once: true })
    work.then(
      (value) => settle(() => resolve(value)),
      (error) => settle(() => reject(error)),
    )
  })
}

export type { Run }
export { bounded, isAborted, isLater, LATE, messageOf }
