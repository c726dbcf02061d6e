// One engine process of bench/postgres: turns of a scripted provider in sessions of its own, side by side. Arguments: URL, schema, the
// sessions, the turns of each, a name, the connections, the turns of each session before. It begins with a line on its standard input, and
// prints its figures.

import { createRequire } from 'node:module'

const [url, schema, sessions, turns, name, pool, warm] = process.argv.slice(2)
const { AgentEngine, scriptedProvider } = createRequire(import.meta.url)(
  process.env.NEXUS_ENGINE ?? '../../index.js',
)
const reply = { text: 'The quick brown fox jumps over the lazy dog. '.repeat(9) }
const engine = new AgentEngine({
  ledger: { url, schema, pool: Number(pool) },
  providers: { demo: scriptedProvider([reply], { repeat: true }) },
  models: [{ provider: 'demo', id: 'demo', contextWindow: 1_000_000, maxOutputTokens: 4_096 }],
})
const defaults = { model: 'demo', provider: 'demo', systemPrompt: 'You are a test.', history: [] }
const question = 'How quick is the brown fox, and what does the dog do? '.repeat(4)
const told = process.env.BENCH_EVENTS === '1'

/** Turns of one session, one after the other. */
async function work(session, count) {
  for (let turn = 0; turn < count; turn++) {
    const run = engine.run(question, { ...defaults, sessionLabel: `${name}-${session}` })
    if (told) {
      run.stream.onEvent(({ type }) => {
        if (type === 'stream_end') console.log(`end ${performance.timeOrigin + performance.now()}`)
      })
    }
    const { persisted } = await run.result
    if (!persisted) throw new Error('a turn was not persisted')
  }
}

const all = (count) =>
  Promise.all(Array.from({ length: Number(sessions) }, (_, session) => work(session, count)))
// Connections, plans and code are warm.
await all(Number(warm))
console.log('ready')
process.stdin.once('data', async () => {
  const [cpu, from] = [process.cpuUsage(), performance.now()]
  await all(Number(turns))
  const ms = performance.now() - from
  const { user, system } = process.cpuUsage(cpu)
  console.log(
    `result ${JSON.stringify({ turns: Number(sessions) * Number(turns), ms, cpuUs: user + system })}`,
  )
  await engine.close()
  process.exit(0)
})
