// The caller's abort signals: one listener a signal, however many runs share it, and none once they have ended.
// It must never keep a signal alive, change it in a way its owner can see, or let a throw of it through.

import { refusal } from './errors.js'
import { attempt, heard } from './reader.js'

const shared = new WeakMap()

/** A signal, or what can stand for one; nothing where there is none. */
function readSignal(signal, path, code) {
  if (signal === undefined || signal === null) return undefined
  const usable = attempt(
    () =>
      typeof signal === 'object' &&
      typeof heard(signal.addEventListener) === 'function' &&
      typeof heard(signal.removeEventListener) === 'function' &&
      typeof heard(signal.aborted) === 'boolean',
    path,
    code,
  )
  if (!usable) throw refusal(code, path, 'is not an AbortSignal')
  return signal
}

/** Whether a signal is aborted. */
function isAborted(signal, path, code) {
  return attempt(() => heard(signal.aborted) === true, path, code)
}

/** Calls `run.abort()` when the signal is aborted. What the signal throws is a refusal of it. */
function listen(signal, run, path, code) {
  const entry = shared.get(signal)
  if (entry !== undefined) {
    entry.runs.add(run)
    return
  }
  const runs = new Set([run])
  const onAbort = () => {
    shared.delete(signal)
    for (const each of runs) each.abort()
  }
  shared.set(signal, { runs, onAbort })
  try {
    attempt(() => signal.addEventListener('abort', onAbort, { once: true }), path, code)
  } catch (error) {
    shared.delete(signal)
    throw error
  }
}

/** Forgets the run. What the signal throws is the caller's to handle. */
function unlisten(signal, run) {
  const entry = shared.get(signal)
  if (entry === undefined || !entry.runs.delete(run) || entry.runs.size > 0) return
  shared.delete(signal)
  heard(signal.removeEventListener('abort', entry.onAbort))
}

export { isAborted, listen, readSignal, unlisten }
