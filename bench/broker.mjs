// What a broker adds to a run: from the call to the first token, and messages a second. Beside it a bare `engine.run` with the same ledger,
// and the queue that hosts write themselves: a promise chain in memory for each session, which a crash loses. It prints medians and asserts
// none.
//
//     node bench/broker.mjs [turns] [runs]        # 300 turns, 5 runs; NEXUS_BENCH_LEDGERS names the folder for the ledgers

import { mkdtempSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const turns = Number(process.argv[2] ?? 300)
const runs = Number(process.argv[3] ?? 5)
const require = createRequire(import.meta.url)
const { AgentEngine, Broker, scriptedProvider } = require(process.env.NEXUS_ENGINE ?? '../index.js')
const folder = mkdtempSync(join(process.env.NEXUS_BENCH_LEDGERS ?? tmpdir(), 'broker-bench-'))
let ledgers = 0

function opened() {
  const engine = new AgentEngine({
    providers: { demo: scriptedProvider([{ text: 'Hello!' }], { repeat: true }) },
    models: [{ provider: 'demo', id: 'demo', contextWindow: 1_000_000, maxOutputTokens: 4_096 }],
    ledger: { path: join(folder, `${ledgers++}.db`) },
  })
  return engine
}

/** How messages get to a model: `send` returns an execution. */
const WAYS = {
  'bare run': (engine) => {
    const defaults = { model: 'demo', provider: 'demo', systemPrompt: 'You are a test.' }
    return {
      send: (session, message) => engine.run(message, { ...defaults, sessionLabel: session }),
      close: () => engine.close(),
    }
  },
  'queue in memory': (engine) => {
    const defaults = { model: 'demo', provider: 'demo', systemPrompt: 'You are a test.' }
    const lanes = new Map()
    const send = (session, message) => {
      const listeners = []
      const before = lanes.get(session) ?? Promise.resolve()
      const result = before.then(() => {
        const run = engine.run(message, { ...defaults, sessionLabel: session })
        for (const listener of listeners) run.stream.onEvent(listener)
        return run.result
      })
      lanes.set(
        session,
        result.catch(() => {}),
      )
      return { stream: { onEvent: (listener) => listeners.push(listener) }, result }
    }
    return { send, close: () => engine.close() }
  },
  broker: (engine) => {
    const broker = new Broker(engine, {
      agents: { main: { model: 'demo/demo', systemPrompt: 'You are a test.' } },
      lanes: { main: 64 },
      queue: { cap: 100_000 },
    })
    return {
      send: (session, message) => broker.execute({ to: { session }, message }),
      close: async () => {
        await broker.close()
        await engine.close()
      },
    }
  },
}

const middle = (list, part = 0.5) =>
  list.toSorted((one, other) => one - other)[Math.floor((list.length - 1) * part)]

/** Milliseconds from the call to the first token, one message after the other. */
async function firstTokens(way) {
  const { send, close } = WAYS[way](opened())
  const times = []
  for (let turn = 0; turn < turns; turn++) {
    // A new session now and then: the history of a session is not the subject.
    const session = `session ${Math.floor(turn / 10)}`
    const start = performance.now()
    let first
    const { stream, result } = send(session, `message ${turn}`)
    stream.onEvent(({ type }) => {
      if (type === 'token') first ??= performance.now() - start
    })
    await result
    if (turn >= 20) times.push(first)
  }
  await close()
  return times
}

/** Messages a second, all sent at once. */
async function rate(way, sessions) {
  const { send, close } = WAYS[way](opened())
  const start = performance.now()
  const results = Array.from({ length: turns }, (_, number) => {
    return send(`session ${number % sessions}`, `message ${number}`).result
  })
  await Promise.all(results)
  const seconds = (performance.now() - start) / 1_000
  await close()
  return turns / seconds
}

const measured = Object.fromEntries(
  Object.keys(WAYS).map((way) => [way, { p50: [], p99: [], one: [], many: [] }]),
)
// Interleaved, so that a busy machine hurts all alike.
for (let run = 0; run < runs; run++) {
  for (const way of Object.keys(WAYS)) {
    const times = await firstTokens(way)
    measured[way].p50.push(middle(times))
    measured[way].p99.push(middle(times, 0.99))
    measured[way].one.push(await rate(way, 1))
    measured[way].many.push(await rate(way, 200))
  }
}
const bare = middle(measured['bare run'].p50)
const rows = Object.entries(measured).map(([way, { p50, p99, one, many }]) => [
  way,
  {
    'first token ms, p50': middle(p50).toFixed(3),
    'over a bare run': (middle(p50) - bare).toFixed(3),
    p99: middle(p99).toFixed(3),
    'messages/s, one session': Math.round(middle(one)),
    '200 sessions': Math.round(middle(many)),
  },
])
console.log(`${turns} turns, median of ${runs}; target: 0.5 ms over a bare run at p50`)
console.table(Object.fromEntries(rows))
rmSync(folder, { recursive: true })
