// A schedule as a host defines it: read once, checked, and made what is stored. It must never compute a time but the first.

import type { MisfirePolicy, ScheduleOptions } from '../../../index.d.ts'
import { refusal } from '../../values/errors.ts'
import { unknownField } from '../../values/field-names.ts'
import { listing, noted, type Refuse, throwing } from '../../values/problems.ts'
import { type Fields, readFields, readId, readName } from '../../values/reader.ts'
import type { ReadOptions } from '../options.ts'
import { readRequest } from '../requests.ts'
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

/** The last time of a `Date`, in Unix milliseconds. */
const LAST_TIME = 8.64e15

/** A schedule, read. */
interface ReadSchedule {
  id: string
  spec: ScheduleSpec
  /** What `send` takes, without an id. */
  item: string
  /** Its first due time. */
  nextAt: number | undefined
}

/** A schedule; a refusal lists all of its problems. */
function readSchedule(given: unknown, options: ReadOptions, now: number): ReadSchedule {
  return listing(
    () => read(given, options, now, throwing),
    (problems) => {
      read(given, options, now, problems.note)
    },
  )
}

/** `item` is empty where its request is refused. */
function read(given: unknown, options: ReadOptions, now: number, refuse: Refuse): ReadSchedule {
  const fields = readFields(given, 'schedule', CODE)
  const names: readonly string[] = [...OWN, ...SENT]
  for (const name of Object.keys(fields)) {
    if (names.includes(name)) continue
    refuse(refusal(CODE, name, unknownField(name, 'a schedule', names)))
  }
  const id = noted(refuse, () => readId(fields.id, 'id', CODE), 'id')
  const spec = noted(refuse, () => readSpec(fields, refuse), { at: now, misfire: 'once' })
  const nextAt = spec.at ?? nextTime(spec, now)
  if (nextAt === undefined) {
    refuse(refusal(CODE, 'cron', 'stands for no time that ever comes'))
  }
  // It lists all problems of its own.
  const request = noted(refuse, () => readRequest(sentOf(fields), options, true))
  if (request === undefined) return { id, spec, item: '', nextAt }
  const { smart, thread } = request.to
  if (smart) refuse(refusal('invalid_target', 'to.smart', 'cannot be scheduled; name the session'))
  if (thread !== undefined && thread !== null) {
    const why = 'cannot be scheduled; name a session or a persona'
    refuse(refusal('invalid_target', 'to.thread', why))
  }
  return { id, spec, item: request.row('', request.routed), nextAt }
}

/** The request that is sent when a schedule is due. */
function sentOf(fields: Fields): Fields {
  const sent: Fields = { source: 'timer' }
  for (const name of SENT) if (fields[name] !== undefined) sent[name] = fields[name]
  return sent
}

function readSpec(fields: Fields, refuse: Refuse): ScheduleSpec {
  const given = TIMES.filter((name) => fields[name] !== undefined && fields[name] !== null)
  const [kind, other] = given
  const { misfire = 'once' } = fields
  if (misfire !== 'once' && misfire !== 'skip') {
    refuse(refusal(CODE, 'misfire', 'is not one of once, skip'))
  }
  if (kind === undefined) {
    throw refusal(CODE, 'cron', `is missing; pass one of ${TIMES.join(', ')}`)
  }
  if (other !== undefined) {
    throw refusal(CODE, other, `is there beside \`${kind}\`; pass one of ${TIMES.join(', ')}`)
  }
  if (fields.zone !== undefined && kind !== 'cron') {
    refuse(refusal(CODE, 'zone', 'is that of a cron expression; this schedule has none'))
  }
  if (fields.from !== undefined && kind !== 'every') {
    refuse(refusal(CODE, 'from', 'is that of an interval; this schedule has none'))
  }
  return { ...readTimes(kind, fields, refuse), misfire: misfire as MisfirePolicy }
}

function readTimes(
  kind: (typeof TIMES)[number],
  fields: Fields,
  refuse: Refuse,
): Omit<ScheduleSpec, 'misfire'> {
  switch (kind) {
    case 'cron': {
      const zone = noted(refuse, () => readZone(fields.zone, 'zone'), 'UTC')
      return { cron: noted(refuse, () => readCron(fields.cron), '* * * * *'), zone }
    }
    case 'at':
      return { at: readTime(fields.at, 'at') }
    case 'every': {
      const { every, from } = fields
      const start = from === undefined ? 0 : noted(refuse, () => readTime(from, 'from'), 0)
      if (typeof every === 'number' && Number.isSafeInteger(every) && every >= 1_000) {
        return { every, from: start }
      }
      throw refusal(CODE, 'every', 'is not a whole number of milliseconds from 1,000 on')
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
  if (typeof time !== 'number' || !Number.isInteger(time) || Math.abs(time) > LAST_TIME) {
    throw refusal(CODE, path, 'is not a time; pass a Date, an ISO text or Unix milliseconds')
  }
  return time
}

export type { ReadSchedule }
export { readSchedule }
