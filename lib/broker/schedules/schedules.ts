// The schedules of a broker: defines them, and takes the due times that the native side finds. It must never queue a message
// without taking its time, nor hold a timer.

import type { NativeBroker } from '../../../binding.d.ts'
import type { Schedule, ScheduleOptions } from '../../../index.d.ts'
import * as hub from '../../native/hub.ts'
import { readId } from '../../values/reader.ts'
import type { ReadOptions } from '../options.ts'
import { readSchedule } from './options.ts'
import { firingAt, type ScheduleSpec } from './times.ts'

/** A schedule, as the native side has it. */
interface StoredSchedule {
  id: string
  spec: ScheduleSpec
  /** What `send` takes: its message is JSON text. */
  item: { session: string; message: string }
  nextAt: number | null
  lastAt: number | null
  createdAt: number
}

class Schedules {
  #options: ReadOptions
  #native: () => NativeBroker
  #newId: () => string

  constructor(options: ReadOptions, native: () => NativeBroker, newId: () => string) {
    this.#options = options
    this.#native = native
    this.#newId = newId
  }

  async define(given: ScheduleOptions): Promise<Schedule> {
    const { id, spec, item, nextAt } = readSchedule(given, this.#options, Date.now())
    const args = JSON.stringify({ id, spec: JSON.stringify(spec), item, nextAt })
    return publicSchedule(await hub.request((number) => this.#native().schedule(number, args)))
  }

  async remove(id: string): Promise<boolean> {
    readId(id, 'id', 'invalid_options')
    return hub.request((number) => this.#native().unschedule(number, id))
  }

  async list(): Promise<Schedule[]> {
    const all = await hub.request<StoredSchedule[]>((number) => this.#native().schedules(number))
    return all.map(publicSchedule)
  }

  /** Takes the due times of these schedules. Another process may be first. */
  async take(due: readonly StoredSchedule[]): Promise<void> {
    const now = Date.now()
    for (const { id, spec, item, nextAt } of due) {
      // The clocks of the two sides may differ by a moment.
      if (nextAt === null || nextAt > now) continue
      const { fire, next } = firingAt(spec, nextAt, now)
      const message = {
        ...item,
        id: this.#newId(),
        isSystem: true,
        eventId: `schedule:${id}:${fire}`,
      }
      const args = JSON.stringify({
        id,
        due: nextAt,
        nextAt: next,
        ...(fire !== undefined && { at: fire, item: JSON.stringify(message) }),
      })
      await hub.request((number) => this.#native().fire(number, args), false)
    }
  }
}

function publicSchedule(stored: StoredSchedule): Schedule {
  const { id, spec, item, nextAt, lastAt, createdAt } = stored
  const { cron = null, zone = null, at = null, every = null, from = null, misfire } = spec
  const { session: sessionLabel } = item
  const message: Schedule['message'] = JSON.parse(item.message)
  const times = { cron, zone, at, every, from, misfire }
  return { id, ...times, sessionLabel, message, nextAt, lastAt, createdAt }
}

export type { StoredSchedule }
export { Schedules }
