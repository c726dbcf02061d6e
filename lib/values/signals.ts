// The caller's abort signals: one listener a signal, however many runs share it, and none once they have ended.
// It must never keep a signal alive, change it in a way its owner can see, or let a throw of it through.

import { type Code, refusal } from './errors.ts'
import { attempt, ignoreRejection } from './reader.ts'

/** What is used of a signal. It may be another implementation of the interface than Node's own. */
type Signal = Pick<AbortSignal, 'aborted' | 'addEventListener' | 'removeEventListener'>

/** What a signal aborts: a run, or a compaction. */
interface Abortable {
  abort(): void
}

/** The one listener of a signal, and what it aborts. */
interface Entry {
  targets: Set<Abortable>
  onAbort: () => void
}

const entries = new WeakMap<Signal, Entry>()

/** A signal, or an object that has what is used of one; undefined where there is none. */
function readSignal(given: unknown, path: string, code: Code): Signal | undefined {
  if (given === undefined || given === null) return undefined
  const signal = given as Signal
  const usable = attempt(
    () =>
      typeof signal === 'object' &&
      typeof ignoreRejection(signal.addEventListener) === 'function' &&
      typeof ignoreRejection(signal.removeEventListener) === 'function' &&
      typeof ignoreRejection(signal.aborted) === 'boolean',
    path,
    code,
  )
  if (!usable) throw refusal(code, path, 'is not an AbortSignal')
  return signal
}

/** Whether a signal is aborted. */
function isAborted(signal: Signal, path: string, code: Code): boolean {
  return attempt(() => ignoreRejection(signal.aborted) === true, path, code)
}

/** Calls `target.abort()` when the signal is aborted. What the signal throws is a refusal of it. */
function listen(signal: Signal, target: Abortable, path: string, code: Code): void {
  const entry = entries.get(signal)
  if (entry !== undefined) {
    entry.targets.add(target)
    return
  }
  const targets = new Set([target])
  const onAbort = () => {
    entries.delete(signal)
    for (const each of targets) each.abort()
  }
  entries.set(signal, { targets, onAbort })
  try {
    attempt(() => signal.addEventListener('abort', onAbort, { once: true }), path, code)
  } catch (error) {
    entries.delete(signal)
    throw error
  }
}

/** Forgets the target. What the signal throws is the caller's to handle. */
function unlisten(signal: Signal, target: Abortable): void {
  const entry = entries.get(signal)
  if (entry === undefined || !entry.targets.delete(target) || entry.targets.size > 0) return
  entries.delete(signal)
  ignoreRejection(signal.removeEventListener('abort', entry.onAbort))
}

export type { Signal }
export { isAborted, listen, readSignal, unlisten }
