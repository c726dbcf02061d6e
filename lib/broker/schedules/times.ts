// The times of a schedule: when it is due next, and which of its times were missed. It must never read the current time.

import type { MisfirePolicy } from '../../../index.d.ts'
import { type Cron, nextCron, parseCron } from './cron.ts'

/** A time that is older than this was missed. */
const GRACE = 60_000

/** When a schedule is due, as it is stored. */
interface ScheduleSpec {
  cron?: string | undefined
  zone?: string | undefined
  /** Unix milliseconds. */
  at?: number | undefined
  /** Milliseconds, from `from` on. */
  every?: number | undefined
  from?: number | undefined
  misfire: MisfirePolicy
}

/** What is to be done at a time. */
interface Firing {
  /** The due time for which a message is sent; undefined for none. */
  fire: number | undefined
  /** The next due time; undefined where none comes. */
  next: number | undefined
}

/** The first time of a schedule after an instant; undefined where none comes. */
function nextTime(spec: ScheduleSpec, after: number): number | undefined {
  if (spec.at !== undefined) return spec.at > after ? spec.at : undefined
  if (spec.every !== undefined) {
    const { every, from = 0 } = spec
    return from + Math.max(0, Math.floor((after - from) / every) + 1) * every
  }
  return nextCron(cronOf(spec.cron ?? ''), spec.zone ?? 'UTC', after)
}

const crons = new Map<string, Cron>()

function cronOf(text: string): Cron {
  const known = crons.get(text)
  if (known !== undefined) return known
  if (crons.size >= 1_000) crons.clear()
  const cron = parseCron(text)
  crons.set(text, cron)
  return cron
}

/** What a schedule that was due at `due` does now: of several times that have passed, the latest counts. */
function firingAt(spec: ScheduleSpec, due: number, now: number): Firing {
  const latest = latestTime(spec, due, now)
  const isMissed = now - latest > GRACE
  return {
    fire: isMissed && spec.misfire === 'skip' ? undefined : latest,
    next: nextTime(spec, now),
  }
}

/** The latest time up to now, which is `due` or a later one. */
function latestTime(spec: ScheduleSpec, due: number, now: number): number {
  // Backwards in growing steps, so that a long downtime costs as little as a short one.
  for (let back = 2 * GRACE; now - back > due; back *= 4) {
    const first = nextTime(spec, now - back)
    if (first !== undefined && first <= now) return lastFrom(spec, first, now)
  }
  return lastFrom(spec, due, now)
}

function lastFrom(spec: ScheduleSpec, first: number, now: number): number {
  let latest = first
  for (;;) {
    const next = nextTime(spec, latest)
    if (next === undefined || next > now) return latest
    latest = next
  }
}

export type { Firing, ScheduleSpec }
export { cronOf, firingAt, nextTime }
