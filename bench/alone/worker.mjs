// One measurement of one adapter of ours in one process, for machines without the shared bench: parameters in, one JSON line out.
// It must name and compute its figures as the shared worker does, so that one plan and one table serve both.

import fs from 'node:fs'

const params = JSON.parse(process.argv[2])
const { create } = await import(`../adapters/${params.adapter}.mjs`)
const engine = await create({ baseURL: params.base, wire: params.wire, params })
const system = 'You are a test.'
const schema = {
  type: 'object',
  properties: { x: { type: 'number' }, pad: { type: 'string' } },
  required: ['x'],
}
const tools = [
  { name: 'noop', description: 'Adds one', schema, execute: async ({ x }) => String(x + 1) },
]
const nothing = () => {}

const workloads = {
  async w1({ n = 20_000, b = 4, c = 1 }) {
    const request = { model: `claude-mock-n${n}-b${b}-c${c}`, system, prompt: 'hi' }
    await engine.stream({ ...request, onDelta: nothing })
    let length = 0
    const onDelta = (text) => {
      length += text.length
    }
    const { cpu, wall, wait } = await timed(() => engine.stream({ ...request, onDelta }))
    expect(length, n * b)
    return { wall_ms: wall, cpu_us_per_token: (cpu * 1000) / n, wait_ms: wait }
  },
  async w2({ calls = 500 }) {
    const request = { model: 'claude-mock-n1', system, prompt: 'hi' }
    for (let i = 0; i < 50; i++) await engine.stream({ ...request, onDelta: nothing })
    const first = []
    const { cpu, wall, wait } = await timed(async () => {
      for (let i = 0; i < calls; i++) {
        const began = performance.now()
        const onDelta = () => {
          first[i] ??= performance.now() - began
        }
        await engine.stream({ ...request, onDelta })
      }
    })
    const times = { ttft_p50: at(first, 0.5), ttft_p99: at(first, 0.99) }
    return { wall_ms: wall, cpu_ms_per_call: cpu / calls, ...times, wait_ms: wait }
  },
  async w3({ rounds = 25, par = 1, argbytes = 0 }) {
    const model = `claude-mock-n4-t${rounds}-p${par}-a${argbytes}-c1`
    const once = async () => {
      const request = {
        model,
        system,
        prompt: 'go',
        tools,
        maxRounds: rounds + 5,
        onDelta: nothing,
      }
      expect((await engine.agent(request)).toolCalls, rounds * par)
    }
    const times = 3
    for (let i = 0; i < times; i++) await once()
    const { cpu, wall, wait } = await timed(async () => {
      for (let i = 0; i < times; i++) await once()
    })
    const per = times * (rounds + 1)
    return {
      wall_ms: wall / times,
      cpu_ms: cpu / times,
      wall_ms_per_round: wall / per,
      wait_ms: wait / times,
    }
  },
  async w4({ streams = 200, n = 200, rate = 50 }) {
    const request = { model: `claude-mock-n${n}-b4-r${rate}`, system, prompt: 'hi' }
    for (let i = 0; i < 20; i++) {
      await engine.stream({ ...request, model: 'claude-mock-n50', onDelta: nothing })
    }
    const lag = []
    let busy = true
    const watch = (async () => {
      while (busy) {
        const began = performance.now()
        await new Promise((resolve) => setTimeout(resolve, 10))
        lag.push(performance.now() - began - 10)
      }
    })()
    const { cpu, wall, wait } = await timed(() =>
      Promise.all(
        Array.from({ length: streams }, async () => {
          const { text } = await engine.stream({ ...request, onDelta: nothing })
          expect(text.length, n * 4)
        }),
      ),
    )
    busy = false
    await watch
    const cost = (cpu * 1000) / (streams * n)
    return { wall_ms: wall, cpu_us_per_token: cost, lag_p99: at(lag, 0.99), wait_ms: wait }
  },
  async w5({ messages = 2_000 }) {
    const words = 'The quick brown fox jumps over the lazy dog. '.repeat(5).slice(0, 194)
    const history = engine.prepare(
      Array.from({ length: messages }, (_, i) => ({
        role: i % 2 ? 'assistant' : 'user',
        text: `${i}: ${words}`,
      })),
    )
    const once = () =>
      engine.stream({ model: 'claude-mock-n1', system, history, prompt: 'hi', onDelta: nothing })
    for (let i = 0; i < 3; i++) await once()
    const times = 10
    const { wall, wait } = await timed(async () => {
      for (let i = 0; i < times; i++) await once()
    })
    return { wall_ms: wall / times, wait_ms: wait / times }
  },
}

async function timed(work) {
  const cpuNow = () => {
    const { user, system: kernel } = process.cpuUsage()
    return (user + kernel) / 1000
  }
  const [cpu, wait, began] = [cpuNow(), waited(), performance.now()]
  await work()
  return { wall: performance.now() - began, cpu: cpuNow() - cpu, wait: waited() - wait }
}

/** How long this thread waited for a core, in milliseconds. */
function waited() {
  return Number(fs.readFileSync('/proc/self/schedstat', 'utf8').split(' ')[1]) / 1e6
}

function at(values, share) {
  const sorted = Float64Array.from(values).sort()
  return sorted[Math.round((sorted.length - 1) * share)]
}

function expect(got, wanted) {
  if (got !== wanted) throw new Error(`got ${got} instead of ${wanted}`)
}

let figures
try {
  figures = await workloads[params.workload](params)
  const status = fs.readFileSync('/proc/self/status', 'utf8')
  figures.rss_peak_mb = Number(/VmHWM:\s+(\d+)/.exec(status)[1]) / 1024
} catch (error) {
  figures = { error: String(error?.stack ?? error).slice(0, 600) }
}
fs.writeSync(1, `${JSON.stringify({ adapter: params.adapter, ...figures })}\n`)
process.exit(0)
