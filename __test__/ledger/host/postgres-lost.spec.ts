// Calls whose answer is lost after the server has done them, through the API: each returns what it did, and does it once. It must never
// use a server of the machine's own.

import { afterAll, beforeAll, expect, test } from 'vitest'
import { type AgentEngine, Broker } from '../../../index.js'
import { afterwards, closing } from '../../support/cleanup.js'
import { context, scriptedEngine } from '../../support/engine.js'
import { Cluster, hasCluster, line } from '../../support/ledger/cluster.js'
import { SUMMARY } from '../../support/values/summary.js'

const live = test.skipIf(!hasCluster)
let server: Cluster
beforeAll(async () => {
  if (hasCluster) server = await new Cluster().start()
})
afterAll(() => server?.end())

let schemas = 0
async function lossy(replies: string[]) {
  const proxy = await line(server)
  afterwards(proxy.end)
  const schema = `lost_${++schemas}`
  const ledger = { url: proxy.url, schema }
  const models = [
    { provider: 'test', id: 'test-model', contextWindow: 4_000, maxOutputTokens: 1_000 },
  ]
  const options = { ledger, models, contextGuard: { minWindow: 1_000 } }
  const { engine } = scriptedEngine(
    replies.map((text) => ({ text })),
    options,
  )
  closing(engine)
  // Opened before the first answer is lost.
  await engine.ledger.sessions()
  /** What a call returns if the answer to the statement with this text is lost. */
  const lost = async <T>(text: string, call: () => Promise<T>): Promise<T> => {
    const before = proxy.lost()
    await proxy.set({ loseDone: text })
    const returned = await call()
    await expect.poll(proxy.lost).toBe(before + 1)
    return returned
  }
  const count = (what: string) => Number(server.sql(`select count(*) from ${schema}.${what}`)[0])
  return { engine, lost, count }
}

/** About 420 tokens. */
const long = (what: string) => `${what} ${'lorem ipsum '.repeat(140)}`
async function say(engine: AgentEngine, content: string) {
  return engine.run(context({ currentMessage: { role: 'user', content: long(content) } })).result
}

const answers = ['1', '2', '3', '4', '5']
const label = 'agent:main:main'

live('a compaction whose answer is lost is written once, and so is its undoing', async () => {
  const { engine, lost, count } = await lossy([...answers, SUMMARY])
  for (const answer of answers) await say(engine, `question ${answer}`)
  const head = (await engine.ledger.session(label))?.threadId
  const done = await lost('.compactions (turn_id', () => engine.compact(label))
  expect(done?.summary).toBe(SUMMARY)
  expect(count('compactions')).toBe(1)
  const undone = await lost('with moved as', () => engine.ledger.uncompact(label))
  expect(undone?.threadId).toBe(head)
  expect((await engine.ledger.verify()).problems).toEqual([])
})

live('a run that compacts goes on where the answer to its compaction is lost', async () => {
  const { engine, lost, count } = await lossy([...answers, SUMMARY, '6'])
  for (const answer of answers) await say(engine, `question ${answer}`)
  const run = await lost('.compactions (turn_id', () => say(engine, 'question 6'))
  expect(run).toMatchObject({ stopReason: 'end_turn', persisted: true })
  expect(run.compaction?.summary).toBe(SUMMARY)
  expect(count('compactions')).toBe(1)
  expect((await engine.ledger.verify()).problems).toEqual([])
})

live('a session is created once, and a schedule removed once', async () => {
  const { engine, lost } = await lossy([])
  const created = await lost('.sessions as s (label, persona_id', () =>
    engine.ledger.createSession('support', { metadata: { userId: 'u1' } }),
  )
  expect(created).toMatchObject({ label: 'support', metadata: { userId: 'u1' } })
  await expect(engine.ledger.createSession('support')).rejects.toMatchObject({
    code: 'storage_constraint',
  })
  const agent = { model: 'test-model', provider: 'test', systemPrompt: 'Be brief.' }
  const broker = new Broker(engine, { agents: { atlas: agent } })
  afterwards(() => broker.close())
  await broker.schedule({
    id: 's',
    at: Date.now() + 3_600_000,
    to: { session: 'x' },
    message: 'hi',
  })
  expect(await lost('.schedules where id', () => broker.unschedule('s'))).toBe(true)
  expect(await broker.unschedule('s')).toBe(false)
})
