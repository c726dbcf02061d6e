// A ledger in PostgreSQL behind pgbouncer in transaction mode, through the API: what docs/guide/ledger/postgres.md lists as tested. Each
// statement may have another connection of the server. It must never use a server of the machine's own.

import { afterAll, beforeAll, expect, test } from 'vitest'
import { AgentEngine, Broker, type StreamEvent } from '../../../index.js'
import { echoing } from '../../support/broker.js'
import { afterwards, closing } from '../../support/cleanup.js'
import { context, engineAt, scriptedEngine } from '../../support/engine.js'
import { Cluster, hasPooler, pooler } from '../../support/ledger/cluster.js'
import { ledgerAt } from '../../support/ledger/named.js'
import { killable } from '../../support/processes/killable.js'

const live = test.skipIf(!hasPooler)
const turns = Number(process.env.POSTGRES_TURNS ?? 12)
let server: Cluster
let pool: Awaited<ReturnType<typeof pooler>>
beforeAll(async () => {
  if (!hasPooler) return
  server = await new Cluster().start()
  pool = await pooler(server)
})
afterAll(async () => {
  await pool?.end()
  await server?.end()
})

let schemas = 0
const fresh = () => `${pool.url}#pooled_${++schemas}`
const replies = (count: number) => Array.from({ length: count }, () => ({ text: 'done' }))
const open = (name: string, script: Parameters<typeof scriptedEngine>[0] = replies(200)) => {
  const { engine, provider } = scriptedEngine(script, { ledger: ledgerAt(name) })
  return { engine: closing(engine), provider }
}

live('turns of three processes in shared sessions are each stored once, in one chain', async () => {
  const name = fresh()
  const children = ['a', 'b', 'c'].map((of) => killable('ledger/turns.mjs', [name, of, '4', '4']))
  for (const child of children) afterwards(() => child.kill('SIGKILL'))
  const acknowledged = () =>
    children.flatMap(({ lines }) => lines.filter((line) => line.startsWith('ack ')))
  while (acknowledged().length < turns) await new Promise((resolve) => setTimeout(resolve, 5))
  for (const child of children) child.process.stdin?.end()
  await Promise.all(children.map((child) => child.line('ended')))
  expect(children.flatMap(({ lines }) => lines.filter((it) => it.startsWith('lost ')))).toEqual([])
  const { engine } = open(name)
  const { items } = await engine.ledger.sessions()
  let stored = 0
  for (const { threadId } of items)
    stored += (await engine.ledger.ancestry(threadId ?? '', { limit: 1_000 })).items.length
  expect(stored).toBe(acknowledged().length)
  expect((await engine.ledger.verify()).problems).toEqual([])
})

live('queries, lists, aliases, forks, moves and deletion', async () => {
  const { engine } = open(fresh())
  const { ledger } = engine
  const first = await engine.run(context({ runId: 'a' })).result
  const second = await engine.run(context({ runId: 'b' })).result
  const counted = 'select count(*) as n from turns where run_id = $1'
  // The same statement over each connection of the server.
  const asked = await Promise.all(Array.from({ length: 12 }, () => ledger.query(counted, ['a'])))
  for (const { rows } of asked) expect(rows).toEqual([{ n: 1 }])
  expect((await ledger.turns()).items.length).toBe(2)
  expect((await ledger.search('done')).items.length).toBe(2)
  await ledger.alias('help', 'agent:main:main')
  expect((await ledger.session('help'))?.threadId).toBe(second.turnId)
  await ledger.fork(first.turnId, 'side')
  expect((await engine.run(context({ sessionLabel: 'side' })).result).persisted).toBe(true)
  expect((await ledger.deleteSession('side', { turns: true })).turns).toBe(1)
  expect((await ledger.sessions()).items.map(({ label }) => label)).toEqual(['agent:main:main'])
  expect((await ledger.verify()).problems).toEqual([])
})

live('a run is followed, steered and aborted from another process', async () => {
  const name = fresh()
  const echo = { name: 'echo', run: () => 'echo' }
  const gated = [
    { steps: [{ text: 'one ' }, { gate: 'g' }, { toolCall: { name: 'echo', arguments: {} } }] },
    'two',
    { steps: [{ text: 'three' }, { gate: 'never' }] },
  ]
  const { engine: here, provider } = open(name, gated as never)
  const there = closing(
    new AgentEngine({ ledger: { ...ledgerAt(name), url: `${pool.url}&application_name=other` } }),
  )
  const run = here.run(context({ runId: 'far', tools: [echo] }))
  await expect.poll(() => there.runInfo('far')).not.toBeNull()
  const followed: StreamEvent[] = []
  let steered = false
  for await (const event of there.attach('far')) {
    followed.push(event)
    if (event.type === 'token' && !steered) {
      steered = true
      expect(await there.steerSession('agent:main:main', 'and more')).toBe(true)
      provider.open('g')
    }
  }
  const { messages } = await run.result
  expect(messages.filter(({ role }) => role === 'user').map(({ content }) => content)).toEqual([
    'hi',
    'and more',
  ])
  expect(followed.at(-1)?.type).toBe('stream_end')
  const next = here.run(context({ runId: 'ends' }))
  await expect.poll(async () => (await there.runInfo('ends'))?.status).toBe('running')
  await there.abortSession('agent:main:main')
  expect((await next.result).stopReason).toBe('aborted')
})

live('a broker in two processes answers each message once', async () => {
  const model = await echoing()
  const name = fresh()
  const at = () => {
    const engine = closing(engineAt(model.url, { ledger: ledgerAt(name) }))
    const broker = new Broker(engine, {
      agents: { main: { model: 'test-model', provider: 'test' } },
      // All are sent at once.
      queue: { pulseMs: 20, cap: turns },
    })
    afterwards(() => broker.close({ drainMs: 0 }))
    return { engine, broker }
  }
  const [one, other] = [at(), at()]
  const sent = Array.from({ length: turns }, (_, n) =>
    (n % 2 ? one : other).broker.execute({ to: { session: `s${n % 3}` }, message: `m${n}` }),
  )
  const texts = (await Promise.all(sent.map(({ result }) => result))).map(({ text }) => text)
  expect(texts).toEqual(sent.map((_, n) => `to m${n}`))
  const { rows } = await one.engine.ledger.query(
    'select status, count(*) as n from queue_items group by 1',
  )
  expect(rows).toEqual([{ status: 'delivered', n: turns }])
})

live('a memory finds what was said, by words and by vectors', async () => {
  const embed = async (texts: string[]) =>
    texts.map((text) => Float32Array.of(text.includes('rose') ? 1 : 0, 1, 0))
  const engine = closing(
    scriptedEngine(replies(4), {
      ledger: ledgerAt(fresh()),
      memory: { embedder: { dimensions: 3, embed } },
    }).engine,
  )
  await engine.run(context({ currentMessage: { role: 'user', content: 'rosebud' } })).result
  await expect.poll(async () => (await engine.memory.stats()).pendingVectors).toBe(0)
  const { hits } = await engine.memory.search('rosebud', { session: 'agent:main:main' })
  expect(hits[0]?.excerpt).toContain('rosebud')
})
