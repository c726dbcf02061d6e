// Cron expressions of five fields, and their times in a zone. It must never read the current time.

import { DAY, wallAt, ZoneDay } from './zone.ts'

const MONTHS = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec']
const WEEKDAYS = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat']
const SHORT: Readonly<Record<string, string>> = {
  '@hourly': '0 * * * *',
  '@daily': '0 0 * * *',
  '@midnight': '0 0 * * *',
  '@weekly': '0 0 * * 0',
  '@monthly': '0 0 1 * *',
  '@yearly': '0 0 1 1 *',
  '@annually': '0 0 1 1 *',
}
/** Every combination of a day, a month and a weekday comes within 40 years, if it exists. */
const MOST_DAYS = 366 * 40

/** A cron expression. */
interface Cron {
  minutes: readonly number[]
  hours: readonly number[]
  days: ReadonlySet<number>
  months: ReadonlySet<number>
  weekdays: ReadonlySet<number>
  /** Either of the two is enough: both are restricted. */
  anyDay: boolean
  /** It repeats through the day, and does not stand for times of the clock. */
  isInterval: boolean
}

/** Throws an `Error` that says what is wrong. */
function parseCron(text: string): Cron {
  const fields = (SHORT[text.trim().toLowerCase()] ?? text).trim().split(/\s+/)
  if (fields.length !== 5) {
    throw new Error('has not five fields: minute, hour, day of the month, month, weekday')
  }
  const [minute = '', hour = '', day = '', month = '', weekday = ''] = fields
  const weekdays = valuesOf(weekday, 'weekday', 0, 7, WEEKDAYS).map((value) => value % 7)
  return {
    minutes: valuesOf(minute, 'minute', 0, 59),
    hours: valuesOf(hour, 'hour', 0, 23),
    days: new Set(valuesOf(day, 'day of the month', 1, 31)),
    months: new Set(valuesOf(month, 'month', 1, 12, MONTHS)),
    weekdays: new Set(weekdays),
    anyDay: !day.startsWith('*') && !weekday.startsWith('*'),
    isInterval: minute.startsWith('*') || hour.startsWith('*'),
  }
}

function valuesOf(
  field: string,
  name: string,
  least: number,
  most: number,
  names: readonly string[] = [],
): number[] {
  const values = new Set<number>()
  const wrong = () =>
    new Error(`has \`${field}\` as its ${name}; it is *, or values from ${least} to ${most}`)
  const numberOf = (text: string) => {
    const named = names.indexOf(text.toLowerCase())
    if (named >= 0) return named + least
    if (!/^\d{1,2}$/.test(text)) throw wrong()
    return Number(text)
  }
  for (const part of field.split(',')) {
    const [range = '', step, ...rest] = part.split('/')
    const by = step === undefined ? 1 : Number(/^\d+$/.test(step) ? step : 0)
    if (rest.length > 0 || by < 1) throw wrong()
    const [from = '', to, ...more] = range === '*' ? [`${least}`, `${most}`] : range.split('-')
    const first = numberOf(from)
    // `5/15` goes on to the end.
    const last = to === undefined ? (step === undefined ? first : most) : numberOf(to)
    if (more.length > 0 || first < least || last > most || first > last) throw wrong()
    for (let value = first; value <= last; value += by) values.add(value)
  }
  return [...values].sort((one, two) => one - two)
}

/** The first time of an expression after an instant; undefined where none comes. */
function nextCron(cron: Cron, zone: string, after: number): number | undefined {
  // The clock may have been set back over midnight.
  const first = Math.floor(wallAt(zone, after) / DAY) * DAY - DAY
  for (let day = first, days = 0; days < MOST_DAYS; days++, day += DAY) {
    // The next day's times may be before the repeated end of this one.
    const times = [...timesOf(cron, zone, day, after), ...timesOf(cron, zone, day + DAY, after)]
    if (times.length > 0) return Math.min(...times)
  }
  return undefined
}

/** The times of an expression on a day, after an instant. */
function timesOf(cron: Cron, zone: string, day: number, after: number): number[] {
  if (!isOn(cron, new Date(day))) return []
  const clock = new ZoneDay(zone, day)
  const times: number[] = []
  for (const hour of cron.hours) {
    for (const minute of cron.minutes) {
      const wall = day + (hour * 60 + minute) * 60_000
      const instants = clock.instants(wall)
      if (cron.isInterval) times.push(...instants)
      else times.push(instants[0] ?? clock.endOfGap(wall))
    }
  }
  return times.filter((at) => at > after)
}

function isOn({ days, months, weekdays, anyDay }: Cron, date: Date): boolean {
  if (!months.has(date.getUTCMonth() + 1)) return false
  const [day, weekday] = [days.has(date.getUTCDate()), weekdays.has(date.getUTCDay())]
  return anyDay ? day || weekday : day && weekday
}

export type { Cron }
export { nextCron, parseCron }
