// Whether a session's thread is over. It must never read the current time.

import type { SessionReset } from '../../index.d.ts'
import { nextTime } from './schedules/times.ts'

/** Whether the thread of a session that was last used at a time is over now. */
function isOver({ idleMs, dailyAt, zone }: SessionReset, usedAt: number, now: number): boolean {
  if (idleMs !== undefined && now - usedAt >= idleMs) return true
  if (dailyAt === undefined) return false
  const [hour, minute] = dailyAt.split(':').map(Number)
  const cron = `${minute} ${hour} * * *`
  const next = nextTime({ cron, zone, misfire: 'once' }, usedAt)
  return next !== undefined && next <= now
}

export { isOver }
