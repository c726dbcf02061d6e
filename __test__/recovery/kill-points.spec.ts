// Kills at every commit point: before and after each sync of a commit, and, in the full proof, before and in the middle of each
// write to the ledger's files. A small library, preloaded into the child, ends it at the chosen operation. Kills by the steps of
// a tool, and at random, are in interrupted-turns.spec.ts. It must never kill anything but its own children.

import { beforeAll, expect, test } from 'vitest'
import { AgentEngine, type AgentResult, type InterruptedTurn } from '../../index.js'
import { afterwards, folder } from '../support/cleanup.js'
import {
  acknowledged,
  effectsOnce,
  expectAccepted,
  look,
  resume,
} from '../support/processes/interrupted.js'
import { killable } from '../support/processes/killable.js'
import { canPreload, library } from '../support/processes/preload.js'
import { counter } from '../support/servers/effect-counter.js'

/** With `KILL_POINTS=all` every write too: some hundreds of children. */
const kinds = process.env.KILL_POINTS === 'all' ? ['sync', 'write'] : ['sync']

let preload = ''
beforeAll(() => {
  if (canPreload) preload = library('kill-point')
})

const tools = ['pure', 'idempotent', 'reconcilable', 'unsafe']
const rounds = { rounds: 1 }

/** The state of a turn: none, begun, the running tool, its result, or ended. */
function standing(turn: InterruptedTurn | undefined, ended: boolean): string {
  if (ended) return 'ended'
  if (turn === undefined) return 'nothing'
  if (turn.toolCalls.length === 0) return 'begun'
  return turn.toolCalls.map((call) => call.status[0]).join('')
}

/** Kills a turn at `moment` of the `number`th operation, resumes it, and returns its state at the kill; null if there was none. */
async function killedAt(moment: string, kind: string, number: number): Promise<string | null> {
  const { path, file } = folder()
  const service = await counter()
  afterwards(() => service.close())
  await new AgentEngine({ ledger: { path: file } }).close()
  const child = killable(
    'recovery/recovery.mjs',
    [file, service.url, 'run', 'main', JSON.stringify(rounds)],
    {
      LD_PRELOAD: preload,
      KILL_FILE: `${path}/`,
      KILL_AT: `${moment} ${kind} ${number}`,
    },
  )
  const signal = await child.ended
  const seen = await look(file)
  const reported = acknowledged(child.lines)
  // No acknowledged turn is lost. A turn is visible as a whole, or not at all.
  if (reported !== undefined) expect(seen.head?.id).toBe(reported.turnId)
  const ended = seen.head !== null
  const [open, ...more] = seen.listed
  expect(more).toEqual([])
  if (!ended) expect([seen.session?.threadId ?? null, seen.history]).toEqual([null, []])
  const where = standing(open, ended)
  let result: Pick<AgentResult, 'turnId' | 'toolCalls' | 'messages'>
  if (seen.head !== null) {
    expect([seen.listed, seen.head.status]).toEqual([[], 'completed'])
    result = { ...seen.head, turnId: seen.head.id }
  } else if (open === undefined) {
    // Killed before it had begun: there is no turn, and no effect.
    expect(service.effects.size).toBe(0)
    return where
  } else {
    expect(open.resumable).toBe(true)
    const resumed = await resume(file, service.url, open, rounds)
    expect(resumed).toMatchObject({ turnId: open.turnId, stopReason: 'end_turn', persisted: true })
    result = resumed
  }
  const after = await look(file)
  expect([after.listed, after.head?.id]).toEqual([[], result.turnId])
  expect(after.history.map(({ turnId: _, ...message }) => message)).toEqual(result.messages)
  expect(result.toolCalls.map((call) => call.toolName)).toEqual(tools)
  effectsOnce(service, result, 1)
  expectAccepted(result.messages)
  return signal === 'SIGKILL' ? where : null
}

for (const kind of kinds) {
  for (const moment of kind === 'sync' ? ['before', 'after'] : ['before', 'torn']) {
    test.skipIf(!canPreload)(
      `killed ${moment} each ${kind} of a turn, it is whole or invisible, and resumed to its end (cc, Linux)`,
      { timeout: 1_800_000 },
      async () => {
        const reached: string[] = []
        for (let number = 1; ; number++) {
          const where = await killedAt(moment, kind, number)
          if (where === null) break
          reached.push(where)
        }
        // The kills covered every state of a turn.
        const states = ['nothing', 'begun', 'rppp', 'crpp', 'ccrp', 'cccr', 'ended']
        expect(states.filter((state) => reached.includes(state))).toEqual(states)
        console.log(`${reached.length} kills ${moment} a ${kind}: ${reached.join(' ')}`)
      },
    )
  }
}
