// The Chromium with which specs open pages. It must never download one.

import { execFileSync } from 'node:child_process'

/** The path of an installed Chromium; undefined without one, after a message that says what was not opened. */
export function chromiumFor(page: string): string | undefined {
  if (process.env.CHROMIUM) return process.env.CHROMIUM
  try {
    return execFileSync('which', ['chromium'], { encoding: 'utf8' }).trim()
  } catch {
    console.log(`skipped: no Chromium is installed, so the page of ${page} was not opened`)
    return undefined
  }
}
