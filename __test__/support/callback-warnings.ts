// The warnings that the engine emits for callbacks that throw. It must never hide one from another listener.

import { afterwards } from './cleanup.js'

/** The warnings of this package while the test runs. */
export function callbackWarnings(): Error[] {
  const seen: Error[] = []
  const listen = (warning: Error & { code?: string }) => {
    if (warning.code === 'AGENT_ENGINE_CALLBACK') seen.push(warning)
  }
  process.on('warning', listen)
  afterwards(() => process.off('warning', listen))
  return seen
}
