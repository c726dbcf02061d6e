// The caller's abort signals: one listener per signal for any number of runs, removed when they have ended.
// It must never keep a signal alive, change it visibly for its owner, or pass on its throw.

import { type Code, refusal } from './errors.ts'
import { attempt, ignoreRejection } from './reader.ts'

/** The used part of a signal, which may be another implementation than that of Node.js. */
type Signal = Pick<AbortSignal, 'aborted' | 'addEventListener' | 'removeEventListener'>

/** The target of a signal: a run, or a compaction. */
interface Abortable {
  abort(reason?: unknown): void
}

/** The listener of a signal, and its targets. */
interface Entry {
  targets: Set<Abortable>
  onAbort: () => void
}

const entries = new WeakMap<Signal, Entry>()

/** A signal, or an object with the used part of one; undefined where there is none. */
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

/** Calls `target.abort()` when the signal is aborted. If the signal throws, it is refused. */
function listen(signal: Signal, target: Abortable, path: string, code: Code): void {
  const entry = entries.get(signal)
  if (entry !== undefined) {
    entry.targets.add(target)
    return
  }
  const targets = new Set([target])
  const onAbort = () => {
    entries.delete(signal)
    const reason = reasonOf(signal)
    for (const each of targets) each.abort(reason)
  }
  entries.set(signal, { targets, onAbort })
  try {
    attempt(() => signal.addEventListener('abort', onAbort, { once: true }), path, code)
  } catch (error) {
    entries.delete(signal)
    throw error
  }
}

/** The reason of an aborted signal. */
function reasonOf(signal: Signal): unknown {
  let reason: unknown
  try {
    reason = ignoreRejection((signal as Partial<AbortSignal>).reason)
  } catch {
    // A signal of the caller that throws has no reason.
  }
  return reason ?? new DOMException('This operation was aborted', 'AbortError')
}

/** Whether the reason is that of a time limit, as `AbortSignal.timeout` gives it. */
function isTimeout(reason: unknown): boolean {
  try {
    return (reason as { name?: unknown } | null | undefined)?.name === 'TimeoutError'
  } catch {
    return false
  }
}

/** Removes the target, whatever the signal does. */
function stopListening(signal: Signal, target: Abortable): void {
  try {
    unlisten(signal, target)
  } catch {
    // The work of the target has ended.
  }
}

/** Removes the target. The caller handles a throw of the signal. */
function unlisten(signal: Signal, target: Abortable): void {
  const entry = entries.get(signal)
  if (entry === undefined || !entry.targets.delete(target) || entry.targets.size > 0) return
  entries.delete(signal)
  ignoreRejection(signal.removeEventListener('abort', entry.onAbort))
}

export type { Signal }
export { isAborted, isTimeout, listen, readSignal, reasonOf, stopListening, unlisten }
