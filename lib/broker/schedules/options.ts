// A schedule as a host defines it: read once, checked, and made what is stored. It must never compute a time but the first.

import type { ScheduleOptions } from '../../../index.d.ts'
import { refusal } from '../../values/errors.ts'
import { type Fields, readFields, readName } from '../../values/reader.ts'
import type { ReadOptions } from '../options.ts'
import { readRequest } from '../requests.ts'
import { route } from '../routes.ts'
import { readZone } from './read-zone.ts'
import { cronOf, nextTime, type ScheduleSpec } from './times.ts'

const CODE = 'invalid_options'
const TIMES = ['cron', 'at', 'every'] as const
const OWN = ['id', ...TIMES, 'zone', 'from', 'misfire'] satisfies (keyof ScheduleOptions)[]
const SENT = [
  'to',
  'message',
  'source',
  'mode',
  'route',
  'identity',
  'permissions',
  'target',
  'outbox',
] satisfies (keyof ScheduleOptions)[]

/** A schedule, read. */
interface ReadSchedule {
  id: string
  spec: ScheduleSpec
  /** What `send` takes, without an id. */
  item: string
  /** Its first due time. */
  nextAt: number | undefined
}

function readSchedule(given: unknown, options: ReadOptions, now: number): ReadSchedule {
  const fields = readFields(given, 'schedule', CODE)
  const names: readonly string[] = [...OWN, ...SENT]
  for (const name of Object.keys(fields)) {
    if (names.includes(name)) continue
    throw refusal(CODE, name, `is not a field of a schedule; its fields are ${names.join(', ')}`)
  }
  const id = readName(fields.id, 'id', CODE)
  if (id === '') throw refusal(CODE, 'id', 'is empty')
  const spec = readSpec(fields)
  const nextAt = spec.at ?? nextTime(spec, now)
  if (nextAt === undefined) throw refusal(CODE, 'cron', 'stands for no time that ever comes')
  const sent: Fields = { source: 'timer' }
  for (const name of SENT) if (fields[name] !== undefined) sent[name] = fields[name]
  const request = readRequest(sent, options, true)
  const { smart, thread } = request.to
  if (smart) throw refusal('invalid_target', 'to.smart', 'cannot be scheduled; name the session')
  if (thread !== undefined && thread !== null) {
    throw refusal('invalid_target', 'to.thread', 'cannot be scheduled; name a session or a persona')
  }
  return { id, spec, item: request.row('', route(options, request.to)), nextAt }
}

function readSpec(fields: Fields): ScheduleSpec {
  const given = TIMES.filter((name) => fields[name] !== undefined && fields[name] !== null)
  const [kind, ...more] = given
  if (kind === undefined || more.length > 0) {
    throw refusal(CODE, more[0] ?? 'cron', `is not alone; pass one of ${TIMES.join(', ')}`)
  }
  const { misfire = 'once' } = fields
  if (misfire !== 'once' && misfire !== 'skip') {
    throw refusal(CODE, 'misfire', 'is not one of once, skip')
  }
  if (fields.zone !== undefined && kind !== 'cron') {
    throw refusal(CODE, 'zone', 'is that of a cron expression; this schedule has none')
  }
  if (fields.from !== undefined && kind !== 'every') {
    throw refusal(CODE, 'from', 'is that of an interval; this schedule has none')
  }
  switch (kind) {
    case 'cron':
      return { cron: readCron(fields.cron), zone: readZone(fields.zone, 'zone'), misfire }
    case 'at':
      return { at: readTime(fields.at, 'at'), misfire }
    case 'every': {
      const { every } = fields
      if (!(typeof every === 'number' && Number.isSafeInteger(every) && every >= 1_000)) {
        throw refusal(CODE, 'every', 'is not a whole number of milliseconds from 1,000 on')
      }
      const from = fields.from === undefined ? 0 : readTime(fields.from, 'from')
      return { every, from, misfire }
    }
  }
}

function readCron(given: unknown): string {
  const cron = readName(given, 'cron', CODE)
  try {
    cronOf(cron)
  } catch (error) {
    throw refusal(CODE, 'cron', (error as Error).message)
  }
  return cron
}

/** A time as Unix milliseconds. */
function readTime(given: unknown, path: string): number {
  const time =
    given instanceof Date
      ? given.getTime()
      : typeof given === 'string'
        ? Date.parse(given)
        : (given as number)
  if (typeof time !== 'number' || !Number.isSafeInteger(time)) {
    throw refusal(CODE, path, 'is not a time; pass a Date, an ISO text or Unix milliseconds')
  }
  return time
}

export type { ReadSchedule }
export { readSchedule }
