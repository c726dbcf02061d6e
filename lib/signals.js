'use strict'
// The abort signals of running runs: one listener a signal, however many runs share it, and none once they have ended.
// It must never keep a signal alive, or change it in a way its owner can see.

const shared = new WeakMap()

/** Calls `run.abort()` when the signal is aborted. */
function listen(signal, run) {
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
  signal.addEventListener('abort', onAbort, { once: true })
}

/** Forgets the run. */
function unlisten(signal, run) {
  const entry = shared.get(signal)
  if (entry === undefined || !entry.runs.delete(run) || entry.runs.size > 0) return
  shared.delete(signal)
  signal.removeEventListener('abort', entry.onAbort)
}

module.exports = { listen, unlisten }
