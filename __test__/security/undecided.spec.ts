// Calls of dangerous tools about which a hook fails or is silent: they do not run, and everybody reads why. The half minute of a silent hook passes
// on a fast clock of a process of its own. It must never accept that a tool did not run for another reason.

import { expect, test } from 'vitest'
import { afterwards, folder } from '../support/cleanup.js'
import { killable } from '../support/processes/killable.js'
import { canPreload, library } from '../support/processes/preload.js'

interface Attempt {
  stopReason: string
  /** Milliseconds of the child's clock. */
  waited: number
  ran: unknown[]
  calls: [tool: string, status: string, error: string][]
  events: { toolName: string; status: string; isError?: boolean; summary?: string }[]
  read: unknown
  rows: [tool: string, status: string, error: string][]
}

test.skipIf(!canPreload)(
  'a dangerous call about which a hook throws, or says nothing for 30 seconds, does not run, and result, event, row and model have why (cc, Linux)',
  async () => {
    const { path, file } = folder()
    const child = killable('tools/undecided.mjs', [file, path], {
      LD_PRELOAD: library('fast-clock'),
      CLOCK_RATE: '50',
    })
    afterwards(() => child.kill())
    expect(await child.ended).toBe(null)
    const { throws, rejects, silent }: Record<string, Attempt> = JSON.parse(child.lines[0] ?? '{}')
    const expected = (bash: string, pay: string) => ({
      stopReason: 'end_turn',
      ran: [],
      calls: [
        ['bash', 'failed', bash],
        ['pay', 'failed', pay],
      ],
      rows: [
        ['bash', 'failed', bash],
        ['pay', 'failed', pay],
      ],
    })
    const failing = (tool: string) =>
      `The call of \`${tool}\` was denied: its gate failed: the policy server is down`
    const undecided = 'This tool was not run: nobody decided about the call in time.'
    for (const attempt of [throws, rejects])
      expect(attempt).toMatchObject(expected(failing('bash'), failing('pay')))
    expect(silent).toMatchObject(expected(undecided, undecided))
    for (const attempt of [throws, rejects, silent]) {
      const event = ([toolName, status, summary]: Attempt['calls'][number]) =>
        expect.objectContaining({ toolName, status, summary, isError: true })
      expect(attempt?.events).toEqual(attempt?.calls.map(event))
      for (const [, , why] of attempt?.calls ?? [])
        expect(JSON.stringify(attempt?.read)).toContain(why)
    }
    // Half a minute for each of the two.
    expect(silent?.waited).toBeGreaterThanOrEqual(60_000)
  },
)
