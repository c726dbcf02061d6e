// The clock of a time zone, from the zone data of the JavaScript runtime. It must never read the current time.

const DAY = 86_400_000
const formats = new Map<string, Intl.DateTimeFormat>()

/** Throws a `RangeError` for a zone that is not known. */
function formatOf(zone: string): Intl.DateTimeFormat {
  let format = formats.get(zone)
  if (format === undefined) {
    format = new Intl.DateTimeFormat('en-US', {
      timeZone: zone,
      calendar: 'iso8601',
      hourCycle: 'h23',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    })
    formats.set(zone, format)
  }
  return format
}

/** The wall clock of a zone at an instant, as if it were UTC. */
function wallAt(zone: string, at: number): number {
  const parts: Record<string, number> = {}
  for (const { type, value } of formatOf(zone).formatToParts(at)) parts[type] = Number(value)
  const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = parts
  return Date.UTC(year, month - 1, day, hour, minute, second)
}

/** The zone's distance from UTC at an instant, in milliseconds. */
function offsetAt(zone: string, at: number): number {
  const whole = Math.floor(at / 1_000) * 1_000
  return wallAt(zone, whole) - whole
}

/** The instants of the wall times of one day. */
class ZoneDay {
  #zone: string
  #before: number
  #after: number

  /** `day` is the day's midnight as if it were UTC. */
  constructor(zone: string, day: number) {
    this.#zone = zone
    this.#before = offsetAt(zone, day - DAY)
    this.#after = offsetAt(zone, day + 2 * DAY)
  }

  /** The instants at which the clock shows a wall time of the day, oldest first: none in a gap, two where it is set back. */
  instants(wall: number): number[] {
    const [one, two] = [wall - this.#before, wall - this.#after]
    if (one === two) return [one]
    return [Math.min(one, two), Math.max(one, two)].filter((at) => wallAt(this.#zone, at) === wall)
  }

  /** The end of the gap that a wall time is in: the first instant after it. */
  endOfGap(wall: number): number {
    let [shown, next] = [wall - this.#after, wall - this.#before]
    // To the second: the clock is set forward between the two.
    while (next - shown > 1_000) {
      const middle = Math.floor((shown + next) / 2_000) * 1_000
      if (offsetAt(this.#zone, middle) === this.#before) shown = middle
      else next = middle
    }
    return next
  }
}

export { DAY, formatOf, wallAt, ZoneDay }
