// Reads when a session's thread is over, so that its next turn starts another one. It must never change a session.

import type { SessionReset } from '../../index.d.ts'
import { refusal } from '../values/errors.ts'
import { type Refuse, throwing } from '../values/problems.ts'
import { type Fields, readFields } from '../values/reader.ts'
import { readZone } from './schedules/read-zone.ts'

const CODE = 'invalid_options'
const NAMES: readonly string[] = ['idleMs', 'dailyAt', 'zone'] satisfies (keyof SessionReset)[]

/** A reset, read; undefined for a session that is never reset. */
function readReset(
  given: unknown,
  path: string,
  refuse: Refuse = throwing,
): SessionReset | undefined {
  if (given === undefined || given === null) return undefined
  const fields: Fields = readFields(given, path, CODE, `${path}.`)
  for (const name of Object.keys(fields)) {
    if (!NAMES.includes(name)) {
      refuse(refusal(CODE, `${path}.${name}`, `is not one of ${NAMES.join(', ')}`))
    }
  }
  const { idleMs, dailyAt, zone } = fields
  if (idleMs === undefined && dailyAt === undefined) {
    throw refusal(CODE, path, 'has neither `idleMs` nor `dailyAt`')
  }
  const isTime = typeof idleMs === 'number' && Number.isSafeInteger(idleMs) && idleMs >= 1
  if (idleMs !== undefined && !isTime) {
    refuse(refusal(CODE, `${path}.idleMs`, 'is not a whole number of milliseconds from 1 on'))
  }
  if (dailyAt !== undefined && !/^([01]\d|2[0-3]):[0-5]\d$/.test(String(dailyAt))) {
    refuse(refusal(CODE, `${path}.dailyAt`, 'is not a time of the day, such as `04:00`'))
  }
  if (zone !== undefined && dailyAt === undefined) {
    throw refusal(CODE, `${path}.zone`, 'is that of `dailyAt`; this reset has none')
  }
  return { idleMs, dailyAt, zone: readZone(zone, `${path}.zone`) } as SessionReset
}

export { readReset }
