// Fails a test with an uncaught error or an unhandled rejection. It must never hide one from another listener.

import { afterEach, beforeEach, expect } from 'vitest'

const stray: unknown[] = []
const onStray = (error: unknown) => stray.push(error)

/** Checks every test of the file that calls it. */
export function expectNothingStray(): void {
  beforeEach(() => {
    stray.length = 0
    process.on('uncaughtException', onStray)
    process.on('unhandledRejection', onStray)
  })

  afterEach(async () => {
    await new Promise((resolve) => setImmediate(resolve))
    process.off('uncaughtException', onStray)
    process.off('unhandledRejection', onStray)
    expect(stray).toEqual([])
  })
}
