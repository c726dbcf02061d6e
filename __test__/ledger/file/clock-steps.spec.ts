// A wall clock that is set while windows are active: cooldowns, dates of a server, the budget of a day, in one process and in
// two. Children have a clock that the test sets. It must never wait for the end of a window.

import { closeSync, openSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { afterwards, folder } from '../../support/cleanup.js'
import { killable } from '../../support/processes/killable.js'
import { canPreload, library } from '../../support/processes/preload.js'
import { anthropic } from '../../support/servers/anthropic.js'
import { failWith, type World, world } from '../../support/servers/failover.js'
import { sse } from '../../support/servers/server.js'

const DAY = 86_400_000

let it: World
let preload = ''
beforeAll(async () => {
  it = await world()
  if (canPreload) preload = library('clock-step')
})
afterAll(() => it.server.close())

/** A clock that children share, and that the test sets to an offset from the true time, in milliseconds. */
function clock(path: string) {
  const file = join(path, 'clock')
  const set = (ms: number) => {
    const bytes = Buffer.alloc(8)
    bytes.writeBigInt64LE(BigInt(ms))
    const opened = openSync(file, 'w')
    writeSync(opened, bytes)
    closeSync(opened)
  }
  set(0)
  // Written in place: the children have it mapped.
  const step = (ms: number) => {
    const bytes = Buffer.alloc(8)
    bytes.writeBigInt64LE(BigInt(ms))
    const opened = openSync(file, 'r+')
    writeSync(opened, bytes, 0, 8, 0)
    closeSync(opened)
  }
  return { file, step }
}

interface Outcome {
  year: number
  stopReason: string
  code?: string
  persisted: boolean
  retryAfterMs?: number
  /** The length of each window, and its remaining time. */
  lengths: [number, number][]
}

async function process(file: string, clockFile: string, options: object = {}) {
  const child = killable('providers/clock.mjs', [file, it.server.url, JSON.stringify(options)], {
    LD_PRELOAD: preload,
    CLOCK_FILE: clockFile,
  })
  afterwards(() => child.kill())
  await child.line('ready')
  return async (name: string): Promise<Outcome> => {
    child.process.stdin?.write(`${name}\n`)
    return JSON.parse((await child.line(`${name} `)).slice(name.length + 1))
  }
}

/** A run that a window delays by at most `most`, whatever the clock shows. */
function expectCooling(outcome: Outcome, most: number) {
  expect(outcome).toMatchObject({ stopReason: 'error', code: 'profiles_cooling' })
  expect(outcome.retryAfterMs).toBeGreaterThan(0)
  expect(outcome.retryAfterMs).toBeLessThanOrEqual(most)
  expect(outcome.lengths.map(([length]) => length)).toEqual([most])
  expect(outcome.lengths[0]?.[1]).toBeLessThanOrEqual(most)
}

for (const [where, inLedger] of [
  ['a ledger', true],
  ['memory', false],
] as const) {
  test.skipIf(!canPreload)(
    `a cooldown in ${where} has its full length, however the clock is set (cc, Linux)`,
    async () => {
      const { path, file } = folder()
      const { file: clockFile, step } = clock(path)
      it.answers(() => failWith(402))
      const requested = it.requested.length
      const first = await process(inLedger ? file : '-', clockFile)
      expect((await first('one')).lengths).toEqual([[600_000, expect.any(Number)]])
      expect(it.requested.length).toBe(requested + 1)
      for (const [name, days] of [
        ['back', -30],
        ['on', 400],
        ['here', 0],
      ] as const) {
        step(days * DAY)
        const outcome = await first(name)
        if (days === 400) expect(outcome.year).toBeGreaterThan(new Date().getUTCFullYear())
        expectCooling(outcome, 600_000)
        if (!inLedger) continue
        // A process that starts with another clock reads the window from the ledger.
        const second = await process(file, clockFile)
        expectCooling(await second(`second-${name}`), 600_000)
      }
      expect(it.requested.length).toBe(requested + 1)
    },
  )
}

test.skipIf(!canPreload)(
  "a server's date is read by the server's clock, not by ours (cc, Linux)",
  async () => {
    const { path, file } = folder()
    const { file: clockFile, step } = clock(path)
    step(-30 * DAY)
    const at = (ms: number) => new Date(Date.now() + ms).toUTCString()
    it.answers(() => failWith(429, 'slow down', { 'retry-after': at(60_000), date: at(0) }))
    const outcome = await (await process(file, clockFile))('one')
    expect(outcome.lengths).toHaveLength(1)
    const [length] = outcome.lengths[0] ?? [0]
    // Dates have seconds.
    expect(length).toBeGreaterThan(57_000)
    expect(length).toBeLessThanOrEqual(62_000)
  },
)

test.skipIf(!canPreload)(
  'the budget of a day counts that day, and no rows written while the clock was ahead (cc, Linux)',
  async () => {
    const { path, file } = folder()
    const { file: clockFile, step } = clock(path)
    it.answers(() => sse(anthropic.answer('ok', { input: 30, output: 500 })))
    // Enough for the reservation of one call, but not for a second one after its actual cost.
    const options = { budgets: [{ per: 'day', maxTokens: 1_200 }] }
    step(30 * DAY)
    const later = await process(file, clockFile, options)
    expect(await later('later')).toMatchObject({ stopReason: 'end_turn', persisted: true })
    step(0)
    const now = await process(file, clockFile, options)
    expect(await now('now')).toMatchObject({ stopReason: 'end_turn', persisted: true })
    const again = await process(file, clockFile, options)
    // The limit is low enough for the counted cost to matter.
    expect(await again('again')).toMatchObject({ stopReason: 'error', code: 'budget_tokens' })
  },
)
