// A turn that waits for an agent keeps the lease of its session: other processes list the session, queue to it, abort it, and take it
// over where its process ends. It must never wait for a time: the test answers each request of the model.

import { expect, test } from 'vitest'
import { Broker } from '../../../index.js'
import { askedServer } from '../../support/broker.js'
import { afterwards, folder } from '../../support/cleanup.js'
import { engineAt } from '../../support/engine.js'
import { killable } from '../../support/processes/killable.js'

const label = 'main'
const to = { session: label }
const model = { model: 'test-model', provider: 'test' }

/** A process whose turn waits for an agent that is answering, and a broker of this process on the same ledger. */
async function waiting() {
  const { server, next } = await askedServer()
  const { file } = folder()
  const other = killable('broker/manager.mjs', [file, server.url, 'a', '1', 'stay'])
  afterwards(() => other.kill())
  ;(await next()).calls(['call_1', 'spawn_agent', { agent: 'coder', task: 'work' }])
  const child = await next()
  expect(child.texts).toEqual(['work'])
  // Only now: it must not begin what the other process has queued.
  const engine = engineAt(server.url, { ledger: { path: file } })
  const broker = new Broker(engine, {
    agents: {
      main: { ...model, systemPrompt: 'manager', subagents: { allowAgents: ['coder'] } },
      coder: { ...model, systemPrompt: 'worker' },
    },
    defaultAgent: 'main',
    queue: { pulseMs: 20 },
  })
  afterwards(async () => {
    await broker.close({ drainMs: 0 })
    await engine.close()
  })
  const lease = `SELECT count(*) AS held FROM session_leases WHERE session_label = 'main' AND owner IS NOT NULL`
  expect((await engine.ledger.query(lease)).rows).toEqual([{ held: 1 }])
  const [running] = await broker.queue(label)
  expect(running).toMatchObject({ status: 'processing', turnId: expect.any(String) })
  const followed = broker.execute({ to, message: 'and then?' })
  expect((await followed.receipt).disposition).toBe('queued')
  expect((await broker.queue(label)).map(({ status }) => status)).toEqual(['processing', 'pending'])
  return { other, next, broker, engine, followed, turnId: running?.turnId ?? '' }
}

test('a parent that waits in another process is aborted with its child, and what was queued meanwhile follows', async () => {
  const { next, broker, engine, followed, turnId } = await waiting()
  await broker.abort(label)
  const asked = await next()
  expect(asked.texts).toEqual(['<a-0>', 'and then?'])
  asked.answer('That was it')
  expect((await followed.result).text).toBe('That was it')
  expect((await engine.ledger.turn(turnId))?.status).toBe('aborted')
  // The process that runs the child stores its end, whenever it comes to it.
  await expect
    .poll(() => broker.dispatches(label), { timeout: 30_000 })
    .toMatchObject([{ kind: 'spawn', status: 'aborted' }])
})

test('a parent whose process ends while it waits is taken over with its child, and what was queued meanwhile follows', async () => {
  const { other, next, broker, engine, followed, turnId } = await waiting()
  other.kill()
  await other.ended
  const child = await next()
  expect(child.texts).toEqual(['work'])
  child.answer('worked')
  const parent = await next()
  expect(JSON.stringify(parent.seen.body.messages.at(-1))).toContain('worked')
  parent.answer('Done')
  const asked = await next()
  expect(asked.texts).toEqual(['<a-0>', 'and then?'])
  asked.answer('That was it')
  expect((await followed.result).text).toBe('That was it')
  expect((await engine.ledger.turn(turnId))?.status).toBe('completed')
  expect(await broker.dispatches(label)).toMatchObject([
    { kind: 'spawn', status: 'ok', text: 'worked' },
  ])
})

test('a task whose process ends has no more time in the next one than from its call on', async () => {
  const { server, next } = await askedServer()
  const { file } = folder()
  const other = killable('broker/manager.mjs', [file, server.url, 'a', '1', 'stay'])
  afterwards(() => other.kill())
  const params = { agent: 'coder', task: 'work', timeoutMs: 5_000 }
  ;(await next()).calls(['call_1', 'spawn_agent', params])
  expect((await next()).texts).toEqual(['work'])
  other.kill()
  await other.ended
  const engine = engineAt(server.url, { ledger: { path: file } })
  const { rows } = await engine.ledger.query('SELECT deadline FROM dispatches')
  const deadline = rows[0]?.deadline as number
  // Its time passes while nobody runs it.
  await expect.poll(() => Date.now(), { timeout: 10_000 }).toBeGreaterThan(deadline)
  const broker = new Broker(engine, {
    agents: {
      main: { ...model, systemPrompt: 'manager', subagents: { allowAgents: ['coder'] } },
      coder: { ...model, systemPrompt: 'worker' },
    },
    defaultAgent: 'main',
    queue: { pulseMs: 20 },
  })
  afterwards(async () => {
    await broker.close({ drainMs: 0 })
    await engine.close()
  })
  for (;;) {
    const asked = await next()
    if (asked.texts[0] === 'work') {
      // Where it has its whole time again, this is early enough.
      const began = Date.now()
      await expect.poll(() => Date.now()).toBeGreaterThan(began + 500)
      asked.answer('late')
      continue
    }
    asked.answer('Done')
    break
  }
  await expect
    .poll(() => broker.dispatches(label), { timeout: 30_000 })
    .toMatchObject([{ kind: 'spawn', status: 'timeout' }])
})
