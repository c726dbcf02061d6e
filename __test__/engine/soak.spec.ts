// A day of use: a host with a clock that runs sixty times as fast, and a provider with a fault in every twentieth answer.
// `npm run proof:soak` takes five hours and checks the memory too; here it takes five minutes.

import { expect, test } from 'vitest'
import { afterwards, folder, serving } from '../support/cleanup.js'
import { killable } from '../support/processes/killable.js'
import { canPreload, library } from '../support/processes/preload.js'
import { anthropic } from '../support/servers/anthropic.js'
import { type Handler, type Seen, sse, sseThenHold, status } from '../support/servers/server.js'
import { SUMMARY } from '../support/values/summary.js'

const minutes = Number(process.env.SOAK_MINUTES ?? 5)
const RATE = 60
const MIB = 1024 * 1024

const overloaded = { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }
const limited = { type: 'error', error: { type: 'rate_limit_error', message: 'Slow down' } }
const half = anthropic.start() + anthropic.blockStart(0, { type: 'text', text: '' })
const some = anthropic.delta(0, { type: 'text_delta', text: 'some' })

const faults: Handler[] = [
  status(429, limited, { 'retry-after': '1' }),
  status(429, limited),
  status(500, { type: 'error', error: { type: 'api_error', message: 'Internal server error' } }),
  status(503, '<html><body>Service Unavailable</body></html>', { 'content-type': 'text/html' }),
  status(529, overloaded),
  (response) => response.destroy(),
  (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write(half + some, () => response.destroy())
  },
  sse(half + some),
  sse(half, anthropic.error('overloaded_error', 'Overloaded')),
  sse('event: message_start\ndata: {"type":"message_start","message":{"id":\n\n'),
  sseThenHold(half),
]

/** The text of a sent message. */
function textOf(message: { content: unknown }): string {
  const { content } = message
  return typeof content === 'string' ? content : JSON.stringify(content)
}

/** A tool call if the question has none yet, then the answer; a summary on request. */
function answer(seen: Seen): Handler {
  const { messages, tools } = seen.body
  if (tools === undefined) return sse(anthropic.answer(SUMMARY))
  const question = messages.findLastIndex((message: { role: string; content: unknown }) =>
    /<\d+:\d+>/.test(message.role === 'user' ? textOf(message) : ''),
  )
  const marker =
    textOf(messages[question])
      .match(/<\d+:\d+>/g)
      ?.at(-1) ?? '<none>'
  const n = Number(marker.match(/:(\d+)/)?.[1])
  if (n % 2 === 0 && !textOf(messages.at(-1)).includes('looked at'))
    return sse(anthropic.calls([`toolu_${marker.replace(/\D/g, '_')}`, 'look', { n }]))
  return sse(anthropic.answer(`here is my answer to ${marker}`))
}

test.skipIf(!canPreload)(
  'hours of turns with faults: none lost, duplicated or wrong, and the memory is constant (cc, Linux)',
  { timeout: (minutes / RATE) * 60_000 * 3 + 120_000 },
  async () => {
    let requested = 0
    let failed = 0
    const server = await serving((response, seen) => {
      server.seen.length = 0
      const fault = ++requested % 20 === 7 ? faults[failed++ % faults.length] : undefined
      return (fault ?? answer(seen))(response, seen)
    })
    const child = killable('node/soak.mjs', [folder().file, server.url, String(minutes)], {
      LD_PRELOAD: library('fast-clock'),
      CLOCK_RATE: String(RATE),
      // glibc has an arena for each thread; how they fragment takes hours to settle, and hides what is retained.
      MALLOC_ARENA_MAX: '1',
      NODE_OPTIONS: '--expose-gc',
    })
    afterwards(() => child.kill())
    expect(await child.ended).toBe(null)
    const report = JSON.parse(child.lines.at(-1) ?? 'null')
    console.log(
      `${minutes} minutes, ${requested} requests, ${failed} faults: ${child.lines.at(-1)}`,
    )
    expect(report.wrong).toEqual([])
    expect(report.turns).toBeGreaterThan(minutes * 5)
    expect(failed).toBeGreaterThan(minutes / 4)
    expect(report.stops.end_turn).toBeGreaterThan(report.turns * 0.8)
    // Caches fill in the first two hours; after four a slope is significant.
    if (minutes >= 240) expect(report.bytesPerHour).toBeLessThan(MIB)
  },
)
