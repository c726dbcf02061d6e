// A copy of the ledger, part by part, so that progress is reported and an abort is noticed; and the cut-over. It must never leave a
// ledger closed whose copy has not everything.

import { resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type * as types from '../../index.d.ts'
import { AgentEngineError, messageOf, refusal } from '../values/errors.ts'
import { type Fields, readFields } from '../values/reader.ts'

const CODE = 'invalid_options'
/** Between two looks whether the turns under way have ended. */
const LOOK_MS = 20
/** What a copy does not have and a moved ledger cannot finish. */
const BLOCKING = ['openTurns', 'queueItems', 'deliveries', 'dispatches']

type Part = types.LedgerCopy & { next: number | null }
type Request = (args: Fields, signal: unknown) => Promise<Part>

/** The password of the target: a text, or what a function returns. */
async function passwordOf(given: unknown): Promise<unknown> {
  if (typeof given !== 'function') return given
  try {
    const password: unknown = await given()
    if (typeof password === 'string') return password
  } catch (error) {
    throw refusal(CODE, 'target.password', messageOf(error, 'it'))
  }
  throw refusal(CODE, 'target.password', 'gave no password; return a string')
}

/** Copies the ledger behind `request`. */
export async function copyLedger(
  request: Request,
  target: unknown,
  options: unknown,
): Promise<types.LedgerCopy> {
  const { cutOver, drainMs, onProgress, signal } = read(options)
  // Only the call that has closed the ledger finishes the move, or opens it again.
  const token = crypto.randomUUID()
  const { password, ...to } = readFields(target, 'target', CODE, 'target.')
  // Each part has connections of its own.
  const withPassword = async () => ({
    ...to,
    ...(password !== undefined && { password: await passwordOf(password) }),
  })
  if (typeof to.path === 'string' && to.path !== '') to.path = resolve(to.path)
  let problems: types.TransferProblem[] = []
  let moved = false
  const sums = {
    turns: 0,
    skippedTurns: 0,
    comparedTurns: 0,
    sessions: 0,
    behind: 0,
    truncated: false,
  }
  let left: Record<string, number> = {}
  let until: number | null = null
  const report = (): types.LedgerCopy => {
    const { openTurns = 0, until: _, ...others } = left
    const rest = Object.entries(others).filter(([, count]) => count > 0)
    const verified = sums.comparedTurns > 0 || sums.turns + sums.skippedTurns === 0
    return {
      ...sums,
      openTurns,
      verified: verified && problems.length === 0 && !sums.truncated,
      moved: false,
      left: Object.fromEntries(rest),
      problems: [...problems],
    }
  }
  const run = async (phase: string, isAbortable = true) => {
    for (let after: number | null = 0; after !== null; ) {
      const part: Part = await request(
        { to: await withPassword(), phase, after, until, moved, token },
        isAbortable ? signal : undefined,
      )
      after = part.next
      sums.turns += part.turns
      sums.skippedTurns += part.skippedTurns
      sums.comparedTurns += part.comparedTurns
      sums.sessions += part.sessions
      sums.behind += part.behind
      problems = problems.concat(part.problems)
      sums.truncated ||= part.truncated || problems.length > 1_000
      problems = problems.slice(0, 1_000)
      if (phase === 'left') left = part.left
      onProgress?.(report())
    }
  }
  // Turns that end faster than they are copied are left to the next call, or to the cut-over.
  await run('distinct')
  await run('left')
  until = left.until ?? null
  await run('notes')
  await run('turns')
  if (!cutOver) {
    await run('sessions')
    await run('compare')
    await run('left')
    return report()
  }
  // A ledger that was moved for good stays closed, whatever becomes of this call.
  moved = true
  until = null
  try {
    // An abort does not undo what was begun.
    await run('fence', false)
    const end = performance.now() + drainMs
    await run('left')
    while ((left.openTurns ?? 0) > 0 && performance.now() < end) {
      await sleep(LOOK_MS)
      await run('left')
    }
    const open = BLOCKING.filter((kind) => (left[kind] ?? 0) > 0)
    if (open.length > 0) {
      const counts = open.map((kind) => `${left[kind]} ${kind}`).join(', ')
      const why = `the ledger has what a copy has not: ${counts}; end them and cut over again`
      throw new AgentEngineError('storage_locked', why)
    }
    // Those that were copied before are skipped again.
    sums.skippedTurns = 0
    await run('notes')
    await run('turns')
    await run('sessions')
    await run('compare')
    left.schedules = 0
    const done = report()
    if (!done.verified || done.behind > 0) {
      const [first] = done.problems
      const why = first?.message ?? `${done.behind} sessions are behind`
      throw new AgentEngineError('storage_constraint', `the copy is not complete: ${why}`)
    }
    await run('finish', false)
    return { ...done, moved: true }
  } catch (error) {
    await request({ to, phase: 'release', token }, undefined)
    throw error
  }
}

interface Given {
  cutOver: boolean
  drainMs: number
  onProgress: ((done: types.LedgerCopy) => void) | undefined
  signal: unknown
}

function read(options: unknown): Given {
  const fields = readFields(options, 'options', CODE)
  const { cutOver = false, drainMs = 60_000, onProgress, signal, ...rest } = fields
  const [other] = Object.keys(rest)
  const known = 'pass `cutOver`, `drainMs`, `onProgress` or `signal`'
  if (other !== undefined) throw refusal(CODE, other, `is no option; ${known}`)
  if (typeof cutOver !== 'boolean') throw refusal(CODE, 'cutOver', 'is not a boolean')
  if (typeof drainMs !== 'number' || !(drainMs >= 0)) {
    throw refusal(CODE, 'drainMs', 'is not a number of milliseconds')
  }
  if (onProgress !== undefined && typeof onProgress !== 'function') {
    throw refusal(CODE, 'onProgress', 'is not a function')
  }
  return { cutOver, drainMs, onProgress: onProgress as Given['onProgress'], signal }
}
