// Interrupted turns: what another process reads of them, how they are resumed, and the invariants then. The killed child is
// `children/recovery/recovery.mjs`. It must never read a ledger while the child is still running.

import { readFileSync, writeFileSync } from 'node:fs'
import { expect } from 'vitest'
import {
  AgentEngine,
  type AgentMessage,
  type AgentResult,
  type InterruptedTurn,
} from '../../../index.js'
import { expectSound } from '../ledger/invariants.js'
import { leasesEnd } from '../ledger/named.js'
import { sqlite3 } from '../ledger/sqlite3.js'
import type { Counter } from '../servers/effect-counter.js'
import { killable } from './killable.js'

/** What another process reads of the ledger of a killed one and its session `main`. */
export async function look(file: string) {
  leasesEnd(file)
  const engine = new AgentEngine({ ledger: { path: file } })
  const listed = await engine.recover()
  const session = await engine.ledger.session('main')
  const head = session?.threadId ? await engine.ledger.turn(session.threadId) : null
  const history = session === null ? [] : await engine.ledger.history('main')
  expect((await engine.ledger.verify()).problems).toEqual([])
  await engine.close()
  // The files, read by another SQLite.
  if (sqlite3) expectSound(file)
  return { listed, session, head, history }
}

/** Resumes the interrupted turn in a process of its own, to its end. */
export async function resume(
  file: string,
  url: string,
  turn: InterruptedTurn,
  changes: object = {},
): Promise<AgentResult> {
  const args = [file, url, 'resume', turn.turnId, JSON.stringify(changes)]
  const child = killable('recovery/recovery.mjs', args, skipped(turn))
  const line = await child.line('result ')
  await child.ended
  return JSON.parse(line.slice('result '.length))
}

/** The part of the script that a turn has used already, in the child's format. */
export const skipped = (turn?: InterruptedTurn) => ({ SKIP: String(turn?.iterations ?? 0) })

/** The result that a killed process has printed; it is in the ledger then. */
export function acknowledged(lines: string[]): AgentResult | undefined {
  const line = lines.find((line) => line.startsWith('result '))
  return line === undefined ? undefined : JSON.parse(line.slice('result '.length))
}

/** The invariants of the effects, however often a turn was killed and resumed. */
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
        // The same key each time: one effect at a service with idempotency keys.
        expect(call.status).toBe('completed')
        expect(times).toBeGreaterThanOrEqual(1)
        expect(times).toBeLessThanOrEqual(1 + kills)
    }
  }
  // Every effect belongs to a call in the ledger: none was started before it was written.
  for (const [name, keys] of service.effects) {
    const own = result.toolCalls.filter((call) => call.toolName === name)
    expect([...keys.keys()].filter((key) => !own.some((call) => call.callId === key))).toEqual([])
  }
}

/**
 * Every possible history of a resumed turn of the script, with ids by their index and without times. The projection's proof
 * (`src/engine/context/conversation/tests/proof/resumed.rs`) checks each of them with the strict validator of every provider.
 * With `UPDATE_RESUMED=1` missing ones are added.
 */
const fixture = new URL('../../fixtures/resumed.json', import.meta.url)
const accepted = new Set(
  (JSON.parse(readFileSync(fixture, 'utf8')) as object[]).map((each) => JSON.stringify(each)),
)

/** Checks that the history of a resumed turn is one of those that the validators accept. */
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
