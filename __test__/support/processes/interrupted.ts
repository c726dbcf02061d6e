// Turns that a kill interrupts: what another process sees of them, how they go on, and what must hold then whatever happened.
// The killed child is `children/recovery/recovery.mjs`. It must never look at a ledger while the child still runs.

import { readFileSync, writeFileSync } from 'node:fs'
import { expect } from 'vitest'
import {
  AgentEngine,
  type AgentMessage,
  type AgentResult,
  type InterruptedTurn,
} from '../../../index.js'
import { expectSound } from '../ledger/invariants.js'
import { sqlite3 } from '../ledger/sqlite3.js'
import type { Counter } from '../servers/effect-counter.js'
import { killable } from './killable.js'

/** What another process sees of the ledger and its session `main`. */
export async function look(file: string) {
  const engine = new AgentEngine({ ledger: { path: file } })
  const listed = await engine.recover()
  const session = await engine.ledger.session('main')
  const head = session?.threadId ? await engine.ledger.turn(session.threadId) : null
  const history = session === null ? [] : await engine.ledger.history('main')
  expect((await engine.ledger.verify()).problems).toEqual([])
  await engine.close()
  // The files as they lie there, by a SQLite of another make.
  if (sqlite3) expectSound(file)
  return { listed, session, head, history }
}

/** Goes on with the interrupted turn in a process of its own, to its end. */
export async function resume(
  file: string,
  url: string,
  turn: InterruptedTurn,
  changes: object = {},
): Promise<AgentResult> {
  const asked = [file, url, 'resume', turn.turnId, JSON.stringify(changes)]
  const child = killable('recovery/recovery.mjs', asked, skipped(turn))
  const line = await child.line('result ')
  await child.ended
  return JSON.parse(line.slice('result '.length))
}

/** What of the script a turn has had already, as the child reads it. */
export const skipped = (turn?: InterruptedTurn) => ({ SKIP: String(turn?.iterations ?? 0) })

/** The result that a killed process has printed; it is in the ledger then. */
export function acknowledged(lines: string[]): AgentResult | undefined {
  const line = lines.find((line) => line.startsWith('result '))
  return line === undefined ? undefined : JSON.parse(line.slice('result '.length))
}

/** What is true of the effects however often a turn was killed and resumed. */
export function effectsOnce(
  service: Counter,
  result: Pick<AgentResult, 'toolCalls'>,
  kills: number,
): void {
  for (const call of result.toolCalls) {
    const times = service.effects.get(call.toolName)?.get(call.callId) ?? 0
    const unknown = call.error === 'outcome_unknown'
    switch (call.toolName) {
      case 'unsafe':
        // Never twice; and an unknown outcome is reported as unknown.
        expect(times).toBeLessThanOrEqual(1)
        expect(unknown || times === 1).toBe(true)
        break
      case 'reconcilable':
        expect([call.toolName, times, call.status]).toEqual([call.toolName, 1, 'completed'])
        break
      default:
        // The same key each time: at a service that knows its keys, one effect.
        expect(call.status).toBe('completed')
        expect(times).toBeGreaterThanOrEqual(1)
        expect(times).toBeLessThanOrEqual(1 + kills)
    }
  }
  // Every effect there was is of a call that the ledger knows: none was begun before it was written.
  for (const [name, keys] of service.effects) {
    const own = result.toolCalls.filter((call) => call.toolName === name)
    expect([...keys.keys()].filter((key) => !own.some((call) => call.callId === key))).toEqual([])
  }
}

/**
 * Every history that a resumed turn of the script can come to, with ids by their index and without times. The projection's
 * proof (`src/engine/conversation/tests/proof/resumed.rs`) shows each of them to the strict validator of every provider.
 * With `UPDATE_RESUMED=1` those that are missing are added.
 */
const fixture = new URL('../../fixtures/resumed.json', import.meta.url)
const accepted = new Set(
  (JSON.parse(readFileSync(fixture, 'utf8')) as object[]).map((each) => JSON.stringify(each)),
)

/** That the history of a resumed turn is one of those the validators have accepted. */
export function expectAccepted(messages: AgentMessage[]): void {
  const history = messages.map((message, index) => {
    const { provenance } = message
    const placed = { ...message, id: `m${index}`, createdAt: 0 }
    return provenance
      ? { ...placed, provenance: { ...provenance, responseId: `r${index}` } }
      : placed
  })
  if (process.env.UPDATE_RESUMED) {
    accepted.add(JSON.stringify(history))
    writeFileSync(fixture, `[\n${[...accepted].sort().join(',\n')}\n]\n`)
  }
  expect([...accepted]).toContain(JSON.stringify(history))
}
