// The memory over many vectors: the time of a search, the processor time of the whole process for one, and its recall beside an exact scan;
// and what indexing adds to a turn, and the search to a broker's. It prints medians and asserts none: on a busy machine the processor time says more than the time.
//
//     node bench/memory.mjs [vectors] [dimensions] [queries]        # 100,000, 384, 200; a release build

import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { performance } from 'node:perf_hooks'

const count = Number(process.argv[2] ?? 100_000)
const dimensions = Number(process.argv[3] ?? 384)
const queries = Number(process.argv[4] ?? 200)
const require = createRequire(import.meta.url)
const { AgentEngine, Broker, scriptedProvider } = require(process.env.NEXUS_ENGINE ?? '../index.js')

/** A fixed sequence of numbers around 0, normally distributed. */
function normal(seed) {
  let state = seed >>> 0
  const uniform = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let t = Math.imul(state ^ (state >>> 15), state | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296
  }
  return () => Math.sqrt(-2 * Math.log(uniform() || 1e-12)) * Math.cos(2 * Math.PI * uniform())
}

/** A vector of unit length: around one of the centres, or anywhere without them. */
function vectorOf(seed, centres) {
  const number = normal(seed)
  const centre = centres?.[seed % centres.length]
  const vector = Float32Array.from(
    { length: dimensions },
    (_, at) => number() + (centre?.[at] ?? 0),
  )
  const length = Math.sqrt(vector.reduce((sum, x) => sum + x * x, 0))
  return vector.map((x) => x / length)
}

const median = (times) => times.toSorted((a, b) => a - b)[times.length >> 1]
const least = (times) => times.toSorted((a, b) => a - b)[0]
const p95 = (times) => times.toSorted((a, b) => a - b)[Math.floor(times.length * 0.95)]
const ms = (time) => `${time.toFixed(2)} ms`
/** The milliseconds of processor time since an earlier reading. */
const cpu = (since) => {
  const { user, system } = process.cpuUsage(since)
  return (user + system) / 1_000
}

async function searches(name, centres) {
  const folder = mkdtempSync(join(tmpdir(), 'memory-bench-'))
  const path = join(folder, 'agent.db')
  const seedOf = (text) => Number(/\d+/.exec(text)?.[0] ?? 0)
  const embed = (texts) => texts.map((text) => vectorOf(seedOf(text), centres))
  const embedder = { model: name, dimensions, batch: 2_048, embed }
  const open = () =>
    new AgentEngine({ ledger: { path, synchronous: 'normal' }, memory: { embedder } })
  let engine = open()
  const began = performance.now()
  const fact = (n) => ({
    id: `f${n}`,
    entity: `e${n}`,
    type: 't',
    content: n,
    scope: { kind: 'global' },
    source: {},
    confidence: 1,
    validFrom: 0,
    validTo: null,
    supersededBy: null,
    createdAt: 0,
  })
  await engine.memory.import(
    (function* () {
      for (let n = 0; n < count; n++) yield fact(n)
    })(),
  )
  const stored = performance.now()
  while ((await engine.memory.stats()).pendingVectors > 0)
    await new Promise((r) => setTimeout(r, 50))
  const embedded = performance.now()
  await engine.close()
  engine = open()
  const opened = performance.now()
  const search = (n) => engine.memory.search(`q${count + n}`, { all: true, limit: 10 })
  await search(0)
  const loaded = performance.now()
  // First all searches, because the exact scan leaves garbage behind.
  const times = []
  const answers = []
  const used = process.cpuUsage()
  for (let n = 0; n < queries; n++) {
    const before = performance.now()
    answers.push(await search(n))
    times.push(performance.now() - before)
  }
  const each = cpu(used) / queries
  const all = Array.from({ length: count }, (_, n) => vectorOf(n, centres))
  let hit = 0
  for (const [n, { hits }] of answers.entries()) {
    const query = vectorOf(count + n, centres)
    const exact = all
      .map((vector, at) => {
        let sum = 0
        for (let i = 0; i < dimensions; i++) sum += vector[i] * query[i]
        return [sum, at]
      })
      .sort(([a], [b]) => b - a)
      .slice(0, 10)
      .map(([, at]) => at)
    const found = new Set(hits.map(({ fact }) => fact.content))
    hit += exact.filter((at) => found.has(at)).length
  }
  await engine.close()
  console.log(
    `${name}: search min ${ms(least(times))}, p50 ${ms(median(times))}, p95 ${ms(p95(times))}, ${ms(each)} of processor time, ` +
      `recall@10 ${(hit / queries / 10).toFixed(4)}; first search ${ms(loaded - opened)}; ${count} facts stored in ${ms(stored - began)}, embedded in ${ms(embedded - stored)}; ` +
      `file ${(statSync(path).size / 1e6).toFixed(0)} MB, process ${(process.memoryUsage().rss / 1e6).toFixed(0)} MB; load ${loadavg()[0].toFixed(1)}`,
  )
  rmSync(folder, { recursive: true })
}

/** The time of turns with a memory beside that of turns without one, in turns of some each: of an engine's, or of a broker's, which search
 * before each turn. */
async function turns(isBroker, rounds = 12, each = 100) {
  const times = { without: [], with: [] }
  const used = { without: 0, with: 0 }
  const folder = mkdtempSync(join(tmpdir(), 'memory-bench-'))
  for (let round = 0; round < rounds; round++) {
    for (const [name, memory] of [
      ['without', undefined],
      ['with', true],
    ]) {
      const replies = Array.from({ length: each }, () => ({
        text: 'It is noted, and will be remembered. '.repeat(20),
      }))
      const engine = new AgentEngine({
        providers: { test: scriptedProvider(replies) },
        models: [{ provider: 'test', id: 'm', contextWindow: 1_000_000 }],
        defaults: { provider: 'test', model: 'm' },
        ledger: { path: join(folder, `${name}${round}.db`) },
        memory,
      })
      const agents = { atlas: { provider: 'test', model: 'm' } }
      const broker = isBroker ? new Broker(engine, { agents, defaultAgent: 'atlas' }) : undefined
      const turn = (session, message) =>
        broker?.execute({ to: { session }, message }) ?? engine.run(message, { session })
      const began = process.cpuUsage()
      for (let n = 0; n < each; n++) {
        const before = performance.now()
        await turn(`agent:atlas:dm:${n}`, `Message ${n} of some length, as a user writes it.`)
          .result
        times[name].push(performance.now() - before)
      }
      await broker?.close()
      await engine.close()
      used[name] += cpu(began)
    }
  }
  const [plain, remembered] = [median(times.without), median(times.with)]
  console.log(
    `a turn${isBroker ? ' of a broker' : ''}: p50 ${ms(plain)} without a memory, ${ms(remembered)} with one, ${ms(remembered - plain)} more; ` +
      `min ${ms(least(times.without))} and ${ms(least(times.with))}; processor time ${ms(used.without / rounds / each)} and ` +
      `${ms(used.with / rounds / each)}, indexing included; load ${loadavg()[0].toFixed(1)}`,
  )
  rmSync(folder, { recursive: true })
}

await turns(false)
await turns(true)
const number = normal(42)
const centres = Array.from({ length: 500 }, () =>
  Float32Array.from({ length: dimensions }, () => 1.4 * number()),
)
await searches('around 500 centres', centres)
await searches('anywhere', undefined)
