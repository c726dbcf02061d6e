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
const MAX_TIMER_MS = 2 ** 31 - 1

/** @throws where a limit would stop every run. */
function refuseLimits(limits: Limits): void {
  for (const [name, least] of LIMITS) {
    const value = limits[name]
    if (value === undefined || value >= least) continue
    throw new RangeError(`\`${name}\` is ${value}: give a number from ${least} on, or leave it out`)
  }
}

type Limits = Pick<AgentLoopConfig, 'toolTimeoutMs' | 'maxParallelTools' | 'abortGraceMs'>

const LIMITS = [
  ['toolTimeoutMs', 0],
  ['maxParallelTools', 1],
  ['abortGraceMs', 0],
] as const

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
    const after = (ms: number) => {
      // A longer timer would fire at once.
      if (ms <= MAX_TIMER_MS) timers.push(setTimeout(late, ms))
    }
    const aborted = () => after(config.abortGraceMs ?? ABORT_GRACE_MS)
    const settle = (finish: () => void) => {
      for (const timer of timers) clearTimeout(timer)
      signal?.removeEventListener('abort', aborted)
      finish()
    }
    if (limitMs !== undefined) after(limitMs)
    if (signal?.aborted) aborted()
    else signal?.addEventListener('abort', aborted, { once: true })
    work.then(
      (value) => settle(() => resolve(value)),
      (error) => settle(() => reject(error)),
    )
  })
}

/** What a function of the host gives; undefined where there is none, and where it does not settle after an abort. */
async function asked<Value>(
  run: Run,
  ask: (() => Value | Promise<Value>) | undefined,
): Promise<Value | undefined> {
  if (ask === undefined) return undefined
  const value = await bounded(run, (async () => ask())())
  return value === LATE ? undefined : value
}

export type { Limits, Run }
export { asked, bounded, isAborted, isLater, LATE, messageOf, refuseLimits }
