// A storm of refusals: hundreds of concurrent runs against a provider that answers 429 to all of them, and then is a real
// token bucket. Every run is answered, with few requests. It must never assert a duration.

import { test } from 'vitest'
import { AgentEngine } from '../../../index.js'
import { context, testModel } from '../../support/engine.js'
import { chat } from '../../support/servers/chat.js'
import { testServer } from '../../support/servers/server.js'

/** Concurrent runs; the full proof is `STORM_RUNS=1000`. */
const RUNS = Number(process.env.STORM_RUNS ?? 120)
/** The maximum number of requests of one run. */
const MOST = 4

interface Storm {
  /** How long every request is refused, whatever the bucket has. */
  stormMs: number
  /** The size of the bucket, and its refill rate in requests per second. */
  size: number
  rate: number
  /** The headers of a refusal with the time to wait. */
  hint: (waitMs: number) => Record<string, string>
  /** The headers of every answer with the limit. */
  limits: (level: number) => Record<string, string>
}

/** A server in a storm; the number of requests of each run. */
async function storm({ stormMs, size, rate, hint, limits }: Storm) {
  const requested = new Map<string, number>()
  let began: number | undefined
  let level = size
  let at = performance.now()
  const server = await testServer((response, { body }) => {
    const run = String(body.messages.at(-1).content)
    requested.set(run, (requested.get(run) ?? 0) + 1)
    const now = performance.now()
    level = Math.min(size, level + ((now - at) * rate) / 1_000)
    at = now
    began ??= now
    if (now - began < stormMs || level < 1) {
      const waitMs = Math.ceil(((1 - Math.min(level, 1)) * 1_000) / rate) + 200
      const headers = { ...hint(waitMs), ...limits(0) }
      response.writeHead(429, { 'content-type': 'application/json', ...headers })
      response.end(JSON.stringify({ error: { message: 'slow down', type: 'rate_limit_error' } }))
      return
    }
    level -= 1
    response.writeHead(200, { 'content-type': 'text/event-stream', ...limits(level) })
    response.end(chat.answer('ok'))
  })
  return { server, requested }
}

const seconds = (waitMs: number) => ({ 'retry-after': String(Math.ceil(waitMs / 1_000)) })
const milliseconds = (waitMs: number) => ({ 'retry-after-ms': String(waitMs) })
const rateHeaders = (size: number, rate: number) => (level: number) => ({
  'x-ratelimit-limit-requests': String(size),
  'x-ratelimit-remaining-requests': String(Math.floor(level)),
  'x-ratelimit-reset-requests': `${Math.ceil(((size - level) * 1_000) / rate)}ms`,
})
const nothing = () => ({})

const STORMS: [name: string, storm: Storm][] = [
  [
    'with `retry-after` and limits',
    { stormMs: 1_500, size: 100, rate: 400, hint: seconds, limits: rateHeaders(100, 400) },
  ],
  [
    'with `retry-after-ms` and no limits',
    { stormMs: 1_500, size: 100, rate: 400, hint: milliseconds, limits: nothing },
  ],
  [
    'with `retry-after` and no limits',
    { stormMs: 1_500, size: 100, rate: 400, hint: seconds, limits: nothing },
  ],
  [
    'without a word about when to come again',
    { stormMs: 5_000, size: RUNS, rate: RUNS, hint: nothing, limits: nothing },
  ],
]

// They mostly wait, and each has a server and an engine of its own.
test.concurrent.for(STORMS)(
  `${RUNS} runs in a storm of refusals %s are all answered, with few requests each`,
  { timeout: 600_000 },
  async ([name, of], { expect, onTestFinished }) => {
    const { server, requested } = await storm(of)
    onTestFinished(() => server.close())
    const engine = new AgentEngine({
      providers: { test: { api: 'openai-chat', baseUrl: server.url } },
      authProfiles: [{ id: 'p', provider: 'test', key: 'sk-test-canary-0123456789' }],
      models: [testModel],
    })
    onTestFinished(() => engine.close())
    const runs = Array.from({ length: RUNS }, (_, at) =>
      engine.run(
        context({
          currentMessage: { role: 'user', content: `run ${at}` },
          sessionLabel: `agent:main:dm:${at}`,
          timeoutMs: 600_000,
        }),
      ),
    )
    const results = await Promise.all(runs.map((run) => run.result))
    const counts = [...requested.values()]
    const most = Math.max(...counts)
    const ends = new Map<string, number>()
    for (const result of results) {
      const end = result.error?.detail.code ?? result.stopReason
      ends.set(end, (ends.get(end) ?? 0) + 1)
    }
    const summary = [...ends].map(([end, count]) => `${count} ${end}`)
    console.log(`${name}: ${server.seen.length} requests, at most ${most} a run; ${summary}`)
    expect(results.filter((result) => result.stopReason !== 'end_turn')).toEqual([])
    expect(requested.size).toBe(RUNS)
    expect(most).toBeLessThanOrEqual(MOST)
  },
)
