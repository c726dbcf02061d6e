// Schedules of a broker: when they are due, in any zone, and one message for each due time, whichever process takes it. It must
// never wait for a time but those of the schedules.

import { expect, test } from 'vitest'
import type { Broker, BrokerOptions, ScheduleOptions } from '../../index.js'
import { cronOf, firingAt, nextTime, type ScheduleSpec } from '../../lib/broker/schedules/times.ts'
import { brokerAt, echoing } from '../support/broker.js'

const label = 'agent:main:main'
const to = { session: label }

/** The next times of a schedule after an instant, in UTC. */
function times(spec: Omit<ScheduleSpec, 'misfire'>, after: string, count: number): string[] {
  const found: string[] = []
  let at: number | undefined = Date.parse(after)
  while (found.length < count) {
    at = nextTime({ ...spec, misfire: 'once' }, at)
    if (at === undefined) return [...found, 'never']
    found.push(new Date(at).toISOString().replace('.000Z', 'Z'))
  }
  return found
}

test.each<[string, string, string, string, string[]]>([
  [
    'a fixed time in a gap runs right after it',
    '30 2 * * *',
    'Europe/Berlin',
    '2026-03-28T00:00:00Z',
    ['2026-03-28T01:30:00Z', '2026-03-29T01:00:00Z', '2026-03-30T00:30:00Z'],
  ],
  [
    'a fixed time that the clock shows twice runs at the first',
    '30 2 * * *',
    'Europe/Berlin',
    '2026-10-24T12:00:00Z',
    ['2026-10-25T00:30:00Z', '2026-10-26T01:30:00Z'],
  ],
  [
    'an interval leaves a gap out',
    '*/30 * * * *',
    'America/New_York',
    '2026-03-08T06:20:00Z',
    ['2026-03-08T06:30:00Z', '2026-03-08T07:00:00Z', '2026-03-08T07:30:00Z'],
  ],
  [
    'an interval runs through a repeated hour',
    '*/30 1 * * *',
    'America/New_York',
    '2026-11-01T04:00:00Z',
    [
      '2026-11-01T05:00:00Z',
      '2026-11-01T05:30:00Z',
      '2026-11-01T06:00:00Z',
      '2026-11-01T06:30:00Z',
      '2026-11-02T06:00:00Z',
    ],
  ],
  [
    'a gap at midnight',
    '15 0 * * *',
    'America/Havana',
    '2026-03-07T12:00:00Z',
    ['2026-03-08T05:00:00Z', '2026-03-09T04:15:00Z'],
  ],
  [
    'a day that a zone left out',
    '0 12 * * *',
    'Pacific/Apia',
    '2011-12-29T00:00:00Z',
    ['2011-12-29T22:00:00Z', '2011-12-30T10:00:00Z', '2011-12-30T22:00:00Z'],
  ],
  [
    'a change of half an hour',
    '0 2 * * *',
    'Australia/Lord_Howe',
    '2026-04-04T00:00:00Z',
    ['2026-04-04T15:30:00Z', '2026-04-05T15:30:00Z'],
  ],
  [
    'a day of the month or a weekday',
    '0 0 13 * fri',
    'UTC',
    '2026-02-07T00:00:00Z',
    [
      '2026-02-13T00:00:00Z',
      '2026-02-20T00:00:00Z',
      '2026-02-27T00:00:00Z',
      '2026-03-06T00:00:00Z',
    ],
  ],
  [
    'a leap day',
    '0 0 29 2 *',
    'UTC',
    '2026-01-01T00:00:00Z',
    ['2028-02-29T00:00:00Z', '2032-02-29T00:00:00Z'],
  ],
  ['a day that never comes', '0 0 31 2 *', 'UTC', '2026-01-01T00:00:00Z', ['never']],
  [
    'lists, ranges, steps and names',
    '5,10-20/5 8 * jan-mar/2 1-5',
    'UTC',
    '2026-01-30T08:10:00Z',
    [
      '2026-01-30T08:15:00Z',
      '2026-01-30T08:20:00Z',
      '2026-03-02T08:05:00Z',
      '2026-03-02T08:10:00Z',
    ],
  ],
  [
    'a short name',
    '@weekly',
    'Asia/Kathmandu',
    '2026-01-01T00:00:00Z',
    ['2026-01-03T18:15:00Z', '2026-01-10T18:15:00Z'],
  ],
])('cron: %s', (_, cron, zone, after, expected) => {
  expect(times({ cron, zone }, after, expected.length)).toEqual(expected)
})

test('an interval is counted from a time, and a single time comes once', () => {
  expect(times({ every: 90_000, from: 30_000 }, '1970-01-01T00:00:30Z', 2)).toEqual([
    '1970-01-01T00:02:00Z',
    '1970-01-01T00:03:30Z',
  ])
  // The first is that time itself.
  expect(times({ every: 90_000, from: 600_000 }, '1970-01-01T00:00:30Z', 2)).toEqual([
    '1970-01-01T00:10:00Z',
    '1970-01-01T00:11:30Z',
  ])
  expect(times({ at: 60_000 }, '1970-01-01T00:00:00Z', 2)).toEqual([
    '1970-01-01T00:01:00Z',
    'never',
  ])
})

test('every expression that is not one is refused', () => {
  const wrong = [
    '',
    '* * * *',
    '* * * * * *',
    '60 * * * *',
    '* 24 * * *',
    '* * 0 * *',
    '* * * 13 *',
  ]
  const more = [
    '* * * * 8',
    '5-1 * * * *',
    '*/0 * * * *',
    'a * * * *',
    '1/2/3 * * * *',
    '-1 * * * *',
  ]
  for (const cron of [...wrong, ...more]) expect(() => cronOf(cron), cron).toThrow(/^has /)
})

test('after a downtime the latest time counts, once or not at all, and the next one is in the future', () => {
  const hourly = { every: 3_600_000, from: 0 }
  const due = 3_600_000
  const later = 1_000 * 3_600_000
  const next = later + 3_600_000
  const at = (spec: Omit<ScheduleSpec, 'misfire'>, misfire: 'once' | 'skip', now: number) =>
    firingAt({ ...spec, misfire }, due, now)
  expect(at(hourly, 'once', later + 600_000)).toEqual({ fire: later, next })
  expect(at(hourly, 'skip', later + 600_000)).toEqual({ fire: undefined, next })
  // On time, as far as a busy process can be.
  expect(at(hourly, 'skip', later + 5_000)).toEqual({ fire: later, next })
  expect(at(hourly, 'skip', due)).toEqual({ fire: due, next: 2 * due })
  expect(at({ at: due }, 'once', later)).toEqual({ fire: due, next: undefined })
  expect(at({ at: due }, 'skip', later)).toEqual({ fire: undefined, next: undefined })
})

test('a clock that was set back fires nothing again', () => {
  const spec: ScheduleSpec = { every: 60_000, from: 0, misfire: 'once' }
  const { next = 0 } = firingAt(spec, 600_000, 600_000)
  // What is due next stays so until the clock shows it again.
  expect(next).toBe(660_000)
})

/** The messages that a broker's schedules have sent, as they are delivered, each once. */
function sentBy(broker: Broker, count: number): Promise<string[]> {
  const found: string[] = []
  return new Promise((resolve) => {
    broker.on('queue', ({ items }) => {
      for (const { eventId, status } of items) {
        if (status === 'delivered' && eventId !== null) found.push(eventId)
      }
      if (found.length >= count) resolve(found)
    })
  })
}

test('a schedule sends its message at its time, and again, as a message of the system', async () => {
  const server = await echoing()
  const { broker, engine } = brokerAt(server.url, { queue: { pulseMs: 20 } })
  const sent = sentBy(broker, 2)
  const defined = await broker.schedule({ id: 'tick', every: 1_000, to, message: 'tick' })
  expect(defined).toEqual({
    id: 'tick',
    cron: null,
    zone: null,
    at: null,
    every: 1_000,
    from: 0,
    misfire: 'once',
    sessionLabel: label,
    message: { role: 'user', content: 'tick' },
    nextAt: defined.nextAt,
    lastAt: null,
    createdAt: defined.createdAt,
  })
  const ids = await sent
  const first = Number(ids[0]?.split(':').at(-1))
  expect([first % 1_000, ids]).toEqual([
    0,
    [`schedule:tick:${first}`, `schedule:tick:${first + 1_000}`],
  ])
  expect(await broker.unschedule('tick')).toBe(true)
  expect(await broker.unschedule('tick')).toBe(false)
  expect(await broker.schedules()).toEqual([])
  const { rows } = await engine.ledger.query(
    "SELECT DISTINCT source, is_system FROM queue_items WHERE event_id LIKE 'schedule:%'",
  )
  // A truth value is a number in a file.
  expect(rows.map((row) => [row.source, Boolean(row.is_system)])).toEqual([['timer', true]])
})

test('what a schedule sends is delivered, and its silent answer is not', async () => {
  const server = await echoing()
  const options: Partial<BrokerOptions> = {
    queue: { pulseMs: 20 },
    outbox: { silent: ['to quiet'] },
  }
  const { broker } = brokerAt(server.url, options)
  const target = { chat: 7 }
  const sent = sentBy(broker, 2)
  const at = Date.now()
  await broker.schedule({ id: 'a', at, to, message: 'quiet', target })
  await broker.schedule({ id: 'b', at, to, message: 'loud', target })
  expect((await sent).sort()).toEqual([`schedule:a:${at}`, `schedule:b:${at}`])
  const [row, ...more] = await broker.deliveries()
  expect([row?.target, more]).toEqual([target, []])
  expect((await broker.schedules()).map(({ id, nextAt, lastAt }) => [id, nextAt, lastAt])).toEqual([
    ['a', null, at],
    ['b', null, at],
  ])
})

test('a schedule that is defined again stays as it is, and another definition replaces it', async () => {
  const server = await echoing()
  const { broker } = brokerAt(server.url)
  const schedule: ScheduleOptions = { id: 's', cron: '0 0 1 1 *', zone: 'UTC', to, message: 'a' }
  const first = await broker.schedule(schedule)
  expect(await broker.schedule({ ...schedule })).toEqual(first)
  const { nextAt } = await broker.schedule({ ...schedule, cron: '0 0 2 1 *' })
  expect(nextAt).toBe((first.nextAt ?? 0) + 86_400_000)
  expect((await broker.schedules()).map(({ cron }) => cron)).toEqual(['0 0 2 1 *'])
})

test('times that were missed: once for all of them, or not at all', async () => {
  const server = await echoing()
  const { broker } = brokerAt(server.url, { queue: { pulseMs: 20 } })
  const sent = sentBy(broker, 2)
  const at = Date.now() - 3_600_000
  await broker.schedule({ id: 'skipped', at, misfire: 'skip', to, message: 'a' })
  await broker.schedule({ id: 'once', at, misfire: 'once', to, message: 'b' })
  const now = Date.now()
  await broker.schedule({ id: 'now', at: now, misfire: 'skip', to, message: 'c' })
  expect((await sent).sort()).toEqual([`schedule:now:${now}`, `schedule:once:${at}`])
  expect((await broker.schedules()).map(({ id, lastAt }) => [id, lastAt])).toEqual([
    ['now', now],
    ['once', at],
    ['skipped', null],
  ])
})

test('wrong schedules are refused by name', async () => {
  const server = await echoing()
  const { broker } = brokerAt(server.url)
  const good = { id: 's', cron: '0 0 * * *', to, message: 'a' }
  const wrong: [object, string, string?][] = [
    [{ id: '' }, 'id'],
    [{ id: 7 }, 'id'],
    [{ cron: undefined }, 'cron'],
    [{ every: 1_000 }, 'at', 'every'],
    [{ cron: undefined, at: 8.64e15 + 1 }, 'at'],
    [{ cron: undefined, every: 1_000, from: -8.64e15 - 2 }, 'from'],
    [{ cron: 'daily' }, 'cron'],
    [{ cron: '0 0 31 2 *' }, 'cron'],
    [{ zone: 'Mars/Base' }, 'zone'],
    [{ cron: undefined, every: 1_000, zone: 'UTC' }, 'zone'],
    [{ cron: undefined, every: 999 }, 'every'],
    [{ cron: undefined, at: 'noon' }, 'at'],
    [{ from: 0 }, 'from'],
    [{ misfire: 'all' }, 'misfire'],
    [{ eventId: 'e' }, 'eventId'],
    [{ message: '' }, 'message'],
    [{ to: { session: 'a', smart: true } }, 'to.smart'],
    [{ to: { thread: '01ARZ3NDEKTSV4RRFFQ69G5FAV' } }, 'to.thread'],
  ]
  for (const [fields, field, other] of wrong) {
    const given = { ...good, ...fields } as ScheduleOptions
    const refused = await broker.schedule(given).then(
      () => 'nothing',
      (error) => error.field,
    )
    expect([other ?? field, JSON.stringify(fields)]).toEqual([refused, JSON.stringify(fields)])
  }
  expect(await broker.schedules()).toEqual([])
})
