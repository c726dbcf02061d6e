// An abort is final: after its result nothing of the run is written, whatever arrives late. Phases and their timing are in
// engine/abort.spec.ts. It must never wait by the clock: a later run, and the close, are the barriers.

import { createServer, type Socket } from 'node:net'
import { expect, test } from 'vitest'
import { AgentEngine, type AgentRun, type PlainTool, scriptedProvider } from '../../index.js'
import { afterwards, closing, folder, serving } from '../support/cleanup.js'
import { context, engineAt, testModel } from '../support/engine.js'
import { expectSound } from '../support/ledger/invariants.js'
import { sqlite3 } from '../support/ledger/sqlite3.js'
import { anthropic } from '../support/servers/anthropic.js'
import { gate, sse, status } from '../support/servers/server.js'

/** A run at the phase in question, and the late event. */
interface Phase {
  engine: AgentEngine
  run: AgentRun
  late: () => unknown
  /** The maximum number of requests in the end. */
  requested: { count: () => number; times: number }
  attempts?: object[]
}

const models = ['test', 'ok', 'small'].map((provider) => ({ ...testModel, provider }))
/** The answer of the run that is the barrier. */
const ok = () => scriptedProvider(['barrier'], { repeat: true })

function at(url: string, file: string): AgentEngine {
  const engine = engineAt(url, {
    models,
    ledger: { path: file },
    providers: { test: { api: 'anthropic-messages', baseUrl: url }, ok: ok() },
  })
  return closing(engine)
}

const barrier = () => context({ sessionLabel: 'barrier', provider: 'ok' })

const phases: Record<string, (file: string) => Promise<Phase>> = {
  async connect(file) {
    const sockets: Socket[] = []
    const accepted = gate()
    // It accepts the connection and does not answer the TLS handshake in time.
    const server = createServer((socket) => {
      sockets.push(socket)
      socket.on('error', () => {})
      accepted.open()
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    afterwards(() => {
      for (const socket of sockets) socket.destroy()
      server.close()
    })
    const { port } = server.address() as { port: number }
    const engine = at(`https://127.0.0.1:${port}`, file)
    const run = engine.run(context())
    await accepted.wait
    const late = () => {
      for (const socket of sockets) socket.end('HTTP/1.1 200 OK\r\n\r\n')
    }
    return { engine, run, late, requested: { count: () => sockets.length, times: 1 } }
  },

  async 'first token'(file) {
    const begun = gate()
    const more = gate()
    const server = await serving(async (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.on('error', () => {})
      response.write(anthropic.start(), () => begun.open())
      await more.wait
      response.end(anthropic.text(0, 'too late') + anthropic.end())
    })
    const engine = at(server.url, file)
    const run = engine.run(context())
    await begun.wait
    return {
      engine,
      run,
      late: more.open,
      requested: { count: () => server.seen.length, times: 1 },
    }
  },

  async tool(file) {
    const server = await serving(sse(anthropic.calls(['a', 'deaf', {}], ['b', 'deaf', {}])))
    const begun = gate()
    const more = gate()
    const deaf: PlainTool = {
      name: 'deaf',
      replay: 'idempotent',
      run: async () => {
        begun.open()
        await more.wait
        return 'too late'
      },
    }
    const engine = at(server.url, file)
    const run = engine.run(context({ tools: [deaf] }))
    await begun.wait
    return {
      engine,
      run,
      late: more.open,
      requested: { count: () => server.seen.length, times: 1 },
    }
  },

  async backoff(file) {
    const overloaded = { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }
    const refused = gate()
    let times = 0
    const server = await serving((response, seen) => {
      if (seen.raw.includes('"other"')) return sse(anthropic.answer('other'))(response, seen)
      times++
      response.on('finish', refused.open)
      return status(529, overloaded, { 'retry-after': '1' })(response, seen)
    })
    const engine = at(server.url, file)
    const run = engine.run(context())
    await refused.wait
    // When another connection was used and answered, the first run has read its refusal.
    const other = {
      currentMessage: { role: 'user', content: 'other' },
      sessionLabel: 'barrier',
    } as const
    expect((await engine.run(context(other)).result).stopReason).toBe('end_turn')
    const attempts = [{ ok: false, status: 529 }]
    return { engine, run, late: () => {}, requested: { count: () => times, times: 1 }, attempts }
  },

  async compaction(file) {
    const long = (what: string) => `${what} ${'lorem ipsum '.repeat(140)}`
    const provider = scriptedProvider(['1', '2', '3', '4', '5', 'never requested'])
    const small = scriptedProvider([{ gate: 'late', text: '## Goal\nToo late.' }])
    const [model] = models
    const engine = closing(
      new AgentEngine({
        providers: { test: provider, ok: ok(), small },
        models: [
          { ...testModel, contextWindow: 4_000, maxOutputTokens: 1_000 },
          ...models.slice(1),
        ],
        contextGuard: { minWindow: 1_000 },
        compaction: { provider: 'small', model: model?.id ?? '' },
        ledger: { path: file },
      }),
    )
    const userTurn = (n: number) =>
      context({ currentMessage: { role: 'user', content: long(`${n}`) } })
    for (const n of [1, 2, 3, 4, 5]) await engine.run(userTurn(n)).result
    const begun = gate()
    const run = engine.run(userTurn(6), {
      onAgentEvent: ({ phase }) => {
        if (phase === 'compaction_start') begun.open()
      },
    })
    await begun.wait
    const requested = { count: () => provider.requests.length, times: 5 }
    return { engine, run, late: () => small.open('late'), requested }
  },
}

/** Everything that a run can write, without the barrier's session. */
const content = [
  "SELECT * FROM turns WHERE session_label <> 'barrier' ORDER BY id",
  "SELECT * FROM sessions WHERE label <> 'barrier' ORDER BY label",
  "SELECT session_label, thread_id, changed_at FROM session_history WHERE session_label <> 'barrier' ORDER BY id",
  "SELECT session_label, epoch, owner FROM session_leases WHERE session_label <> 'barrier'",
  "SELECT turn_id, ended_at FROM runs WHERE session_label <> 'barrier' ORDER BY n",
  ...['messages', 'tool_calls', 'compactions'].map(
    (table) =>
      `SELECT x.* FROM ${table} x JOIN turns t ON t.id = x.turn_id WHERE t.session_label <> 'barrier' ORDER BY 1, 2`,
  ),
]

async function written(engine: AgentEngine): Promise<unknown> {
  const read = content.map(async (sql) => (await engine.ledger.query(sql)).rows)
  return await Promise.all(read)
}

test.each(Object.keys(phases))(
  'an abort in the %s settles, and nothing is written after it',
  async (name) => {
    const { file } = folder()
    const phase = phases[name]
    if (phase === undefined) throw new Error('no such phase')
    const { engine, run, late, requested, attempts } = await phase(file)
    run.abort()
    const result = await run.result
    expect(result).toMatchObject({ stopReason: 'aborted', persisted: true })
    expect(await engine.ledger.turn(result.turnId)).toMatchObject({
      status: 'aborted',
      messages: result.messages,
      toolCalls: result.toolCalls,
    })
    expect(
      result.toolCalls.filter((call) => !['completed', 'failed'].includes(call.status)),
    ).toEqual([])
    const before = await written(engine)
    late()
    // Through the same writer, after any effect of the late event; and a second abort, which changes nothing.
    run.abort()
    for (let n = 0; n < 5; n++) {
      expect(await engine.run(barrier()).result).toMatchObject({
        stopReason: 'end_turn',
        persisted: true,
      })
    }
    expect(await written(engine)).toEqual(before)
    expect(await engine.recover()).toEqual([])
    // Waits for every task there is.
    await engine.close()
    const next = closing(new AgentEngine({ ledger: { path: file } }))
    expect(await written(next)).toEqual(before)
    expect(await next.recover()).toEqual([])
    expect(requested.count()).toBe(requested.times)
    if (sqlite3) expectSound(file)
  },
)
