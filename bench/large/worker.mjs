// One part of the large bench in a process of its own: `grow` writes turns until a ledger has a size, `measure` opens it and times
// what a host does with it, `thread` makes one session of many turns, `deletion` deletes one, `idle` begins runs whose provider never answers,
// `streams` reads many runs at once. Arguments: the part and a JSON of its options. Prints one line of JSON. It must use the public API only, and never measure what it wrote
// in the same process: caches of the writer would answer.

import { fork } from 'node:child_process'
import { createHash } from 'node:crypto'
import fs from 'node:fs'
import http from 'node:http'
import { createRequire } from 'node:module'
import path from 'node:path'

const [part, given] = process.argv.slice(2)
const options = JSON.parse(given)
const { AgentEngine, scriptedProvider } = createRequire(import.meta.url)(process.env.NEXUS_ENGINE)

const WORDS =
  'river stone cloud market winter garden signal copper letter window planet engine'.split(' ')
/** Text that compresses and is searched like prose, different for every `seed`. */
function prose(seed, length) {
  let text = `${createHash('sha256').update(String(seed)).digest('hex')} `
  for (let n = seed; text.length < length; n = (n * 7 + 3) % 1_000_003)
    text += `${WORDS[n % 12]}${n % 97} `
  return text.slice(0, length)
}

function context(changes) {
  return {
    systemPrompt: 'You are a bench.',
    currentMessage: { role: 'user', content: 'Hello?' },
    tools: [],
    model: 'test-model',
    provider: 'test',
    tokenBudget: {},
    runId: `run-${process.pid}-${performance.now()}`,
    role: 'unified',
    toolsetName: 'bench',
    permissionsGranted: [],
    workspacePath: '/',
    timeoutMs: 600_000,
    ...changes,
  }
}

const usage = {
  inputTokens: 1000,
  outputTokens: 200,
  cachedInputTokens: 0,
  cacheWriteTokens: 0,
  reasoningTokens: 0,
  totalTokens: 1200,
}

/** Stores finished turns of one session, each after the last. */
async function write(engine, label, from, count, bytes) {
  let parentTurnId = options.parents?.[label] ?? null
  for (let n = from; n < from + count; n++) {
    const id = `${label}-${n}`
    const message = (role, sequence, length) => ({
      id: `${id}-${sequence}`,
      role,
      sequence,
      createdAt: 1_780_000_000_000 + n * 10 + sequence,
      content: prose(n * 4 + sequence, length),
    })
    const messages = [
      message('user', 0, Math.round(bytes / 5)),
      message('assistant', 1, Math.round((bytes * 4) / 5)),
    ]
    const turn = context({
      runId: id,
      sessionLabel: label,
      parentTurnId,
      currentMessage: { role: 'user', content: messages[0].content },
    })
    parentTurnId = await engine.ledger.writeTurn(turn, {
      messages,
      toolCalls: [],
      usage,
      stopReason: 'end_turn',
      durationMs: 1,
    })
  }
}

const open = (file, extra = {}) =>
  new AgentEngine({
    ledger: { path: file, ...extra },
    providers: { test: scriptedProvider(['Fine.'], { repeat: true }) },
    models: [
      { provider: 'test', id: 'test-model', contextWindow: 1_000_000_000, maxOutputTokens: 8_192 },
    ],
  })

/** An engine whose provider is a server. */
const network = (baseUrl, model) =>
  new AgentEngine({
    providers: {
      test: {
        api: 'anthropic-messages',
        baseUrl,
        headerTimeoutMs: 600_000,
        connectTimeoutMs: 60_000,
      },
    },
    authProfiles: [{ id: 'p', provider: 'test', type: 'api_key', key: 'k' }],
    models: [{ provider: 'test', id: model, contextWindow: 200_000, maxOutputTokens: 8_192 }],
    rateGovernor: false,
  })

const rss = () =>
  Number(/VmRSS:\s+(\d+)/.exec(fs.readFileSync('/proc/self/status', 'utf8'))[1]) / 1024

async function timed(times, work) {
  const taken = []
  for (let n = 0; n < times; n++) {
    const began = performance.now()
    await work(n)
    taken.push(performance.now() - began)
  }
  return taken.sort((a, b) => a - b)[times >> 1]
}

const parts = {
  /** Fills a ledger with sessions of 50 turns of 10 KB until it has `bytes`. */
  async grow({ file, bytes }) {
    const engine = open(file, { synchronous: 'normal', events: false })
    const began = performance.now()
    let sessions = 0
    while (!fs.existsSync(file) || fs.statSync(file).size < bytes) {
      const batch = Array.from({ length: 64 }, (_, n) => `agent:main:s${sessions + n}`)
      await Promise.all(batch.map((label) => write(engine, label, 0, 50, 10_000)))
      sessions += batch.length
      process.stderr.write(`\r${(fs.statSync(file).size / 1e9).toFixed(2)} GB `)
    }
    await engine.ledger.search('nothing-has-this-word')
    await engine.close()
    process.stderr.write('\n')
    return {
      sessions,
      turns: sessions * 50,
      grow_s: (performance.now() - began) / 1000,
      file_gb: fs.statSync(file).size / 1e9,
    }
  },

  async measure({ file, sessions }) {
    const before = rss()
    let began = performance.now()
    const engine = open(file)
    await engine.ledger.session('agent:main:s0')
    const open_ms = performance.now() - began
    const label = (n) => `agent:main:s${(n * 7_919) % sessions}`
    began = performance.now()
    await engine.run(context({ sessionLabel: label(1) })).result
    const first_call_ms = performance.now() - began
    const figures = {
      open_ms,
      first_call_ms,
      append_ms: await timed(41, (n) => engine.run(context({ sessionLabel: label(n + 2) })).result),
      search_ms: await timed(11, (n) => engine.ledger.search(`river${n} stone*`, { limit: 20 })),
      sessions_ms: await timed(11, () => engine.ledger.sessions({ limit: 50 })),
      turn_ms: await timed(41, async (n) =>
        engine.ledger.turn((await engine.ledger.session(label(n))).threadId),
      ),
    }
    began = performance.now()
    await engine.ledger.usage({ by: 'day' })
    figures.usage_ms = performance.now() - began
    figures.rss_mb = rss() - before
    const copy = `${file}.backup`
    began = performance.now()
    await engine.ledger.backup(copy)
    figures.backup_s = (performance.now() - began) / 1000
    figures.backup_mb_per_s = fs.statSync(copy).size / 1e6 / figures.backup_s
    fs.rmSync(copy)
    await engine.close()
    return figures
  },

  /** One session of `turns` turns: what the next call costs, given nothing but its label. */
  async thread({ file, turns }) {
    let engine = open(file, { synchronous: 'normal', events: false })
    await write(engine, 'agent:main:long', 0, turns, 400)
    await engine.close()
    engine = open(file)
    const before = rss()
    const recent = [{ role: 'user', content: 'Only this.' }]
    const began = performance.now()
    await engine.run(context({ sessionLabel: 'agent:main:long' })).result
    const first_call_ms = performance.now() - began
    const next_call_ms = await timed(
      21,
      () => engine.run(context({ sessionLabel: 'agent:main:long' })).result,
    )
    const given_ms = await timed(
      21,
      () => engine.run(context({ sessionLabel: 'agent:main:long', history: recent })).result,
    )
    const head = (await engine.ledger.session('agent:main:long')).threadId
    const ancestry_ms = await timed(21, () => engine.ledger.ancestry(head, { limit: 50 }))
    const asof_ms = await timed(21, () => engine.ledger.asOf('agent:main:long', Date.now() - 1000))
    const fork_ms = await timed(21, (n) => engine.ledger.fork(head, `fork-${n}`))
    const figures = {
      first_call_ms,
      next_call_ms,
      given_ms,
      ancestry_ms,
      asof_ms,
      fork_ms,
      rss_mb: rss() - before,
      file_mb: fs.statSync(file).size / 1e6,
    }
    await engine.close()
    return figures
  },

  /** A session of `turns` turns is deleted while turns of another one are committed, one after the other. */
  async deletion({ file, turns }) {
    let engine = open(file, { synchronous: 'normal', events: false })
    await write(engine, 'agent:main:long', 0, turns, 400)
    await engine.close()
    engine = open(file)
    const commit = async () => {
      const began = performance.now()
      await engine.run(context({ sessionLabel: 'agent:main:other', history: [] })).result
      return performance.now() - began
    }
    const alone = []
    while (alone.length < 200) alone.push(await commit())
    const beside = []
    let busy = true
    const began = performance.now()
    const deleting = engine.ledger.deleteSession('agent:main:long', { turns: true }).finally(() => {
      busy = false
    })
    while (busy) beside.push(await commit())
    const deleted = await deleting
    const delete_s = (performance.now() - began) / 1000
    if (deleted.turns !== turns) throw new Error(`${deleted.turns} turns were deleted`)
    const at = (list, share) =>
      list.toSorted((one, other) => one - other)[Math.floor(list.length * share)]
    const figures = {
      delete_s,
      deleted_per_s: turns / delete_s,
      commit_alone_ms: at(alone, 0.5),
      commit_beside_ms: at(beside, 0.5),
      commit_beside_p99_ms: at(beside, 0.99),
      commits_beside: beside.length,
    }
    await engine.close()
    return figures
  },

  /** Concurrent streams of together 10,000 tokens a second, from a server in another process. */
  async streams({ streams }) {
    const server = fork(path.join(import.meta.dirname, '../alone/server.mjs'), {
      stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
    })
    const port = await new Promise((resolve) =>
      server.stdout.once('data', (text) => resolve(Number(text))),
    )
    const rate = 10_000 / streams
    const tokens = rate * 20
    const model = `claude-mock-n${tokens}-b4-r${rate}`
    const engine = network(`http://127.0.0.1:${port}`, model)
    const read = async (n) => {
      let text = ''
      const run = engine.run(context({ model, sessionLabel: `s${n}` }))
      for await (const event of run) if (event.type === 'token') text += event.text
      const { stopReason, error } = await run.result
      if (text.length !== tokens * 4) throw new Error(`${stopReason}: ${error?.message}`)
    }
    const before = rss()
    const lag = []
    let most = 0
    let busy = true
    const watch = (async () => {
      while (busy) {
        const began = performance.now()
        await new Promise((resolve) => setTimeout(resolve, 10))
        lag.push(performance.now() - began - 10)
        if (lag.length % 25 === 0) most = Math.max(most, rss() - before)
      }
    })()
    const cpu = process.cpuUsage()
    const began = performance.now()
    await Promise.all(Array.from({ length: streams }, (_, n) => read(n)))
    const wall_s = (performance.now() - began) / 1000
    const { user, system } = process.cpuUsage(cpu)
    busy = false
    await watch
    await engine.close()
    server.disconnect()
    lag.sort((a, b) => a - b)
    return {
      rss_mb: most,
      kb_per_stream: (most * 1024) / streams,
      cpu_us_per_token: (user + system) / (streams * tokens),
      lag_p99_ms: lag[Math.floor(lag.length * 0.99)],
      wall_s,
    }
  },

  /** Runs that wait for a provider that has accepted the request and sends nothing. */
  async idle({ runs }) {
    const open = new Set()
    const server = http.createServer((request) => {
      request.resume()
      open.add(request.socket)
    })
    server.maxConnections = 0x7fffffff
    await new Promise((resolve) => server.listen(0, '127.0.0.1', 1024, resolve))
    const engine = network(`http://127.0.0.1:${server.address().port}`, 'test-model')
    const before = rss()
    const begun = Array.from({ length: runs }, (_, n) =>
      engine.run(context({ sessionLabel: `s${n}` })),
    )
    while (open.size < runs) await new Promise((resolve) => setTimeout(resolve, 50))
    const rss_mb = rss() - before
    const began = performance.now()
    for (const run of begun) run.abort()
    await Promise.all(begun.map(({ result }) => result))
    const abort_ms = performance.now() - began
    for (const socket of open) socket.destroy()
    server.close()
    await engine.close()
    return { rss_mb, kb_per_run: (rss_mb * 1024) / runs, abort_ms }
  },
}

const figures = await parts[part](options)
fs.writeSync(1, `${JSON.stringify(figures)}\n`)
process.exit(0)
