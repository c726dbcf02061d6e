// A server that accepts everything and never answers, through the API: opening, reads, runs and `close()` end within their time, typed,
// and go on once it answers again. It must never assert a time: a wait without a limit would end by the limit of the test.

import { afterAll, beforeAll, expect, test } from 'vitest'
import { AgentEngine, type AgentEngineError, type PostgresLedgerOptions } from '../../../index.js'
import { askedServer } from '../../support/broker.js'
import { afterwards, closing } from '../../support/cleanup.js'
import { context, engineAt, scriptedEngine } from '../../support/engine.js'
import { Cluster, hasCluster, line } from '../../support/ledger/cluster.js'

const live = test.skipIf(!hasCluster)
let server: Cluster
beforeAll(async () => {
  if (hasCluster) server = await new Cluster().start()
})
afterAll(() => server?.end())

let schemas = 0
async function silentLine(): Promise<{
  options: PostgresLedgerOptions
  silent(swallows: boolean): Promise<void>
  set(faults: { cuts: boolean }): Promise<void>
}> {
  const proxy = await line(server)
  afterwards(proxy.end)
  const schema = `silence_${++schemas}`
  return {
    options: { url: proxy.url, schema, timeoutMs: 1_000 },
    silent: (swallows) => proxy.set({ swallows }),
    set: proxy.set,
  }
}

const failure = (call: Promise<unknown>) =>
  call.then(
    () => ['no error'],
    ({ code, message }: AgentEngineError) => [code, message.replace(/; check .*$/s, '')],
  )

const ended = async (engine: AgentEngine, fields: object) => {
  const { stopReason, persisted, persistError, error } = await engine.run(context(fields)).result
  return [stopReason, persisted, persistError?.code ?? error?.detail.code]
}

const replies = Array.from({ length: 8 }, () => ({ text: 'done' }))

live(
  'a server that never accepts is an error of each call, and none of the constructor',
  async () => {
    const { options, silent } = await silentLine()
    await silent(true)
    const engine = closing(scriptedEngine(replies, { ledger: options }).engine)
    const unopened = [
      'storage_io',
      'could not open the ledger: no server accepted a connection within 1000 ms',
    ]
    expect(await failure(engine.ledger.sessions())).toEqual(unopened)
    expect(await ended(engine, { runId: 'unopened' })).toEqual(['error', false, 'storage_io'])
    expect(await failure(engine.recover())).toEqual(unopened)
    // Closed while it opens.
    await new AgentEngine({ ledger: options }).close()
    await silent(false)
    expect(await ended(engine, { runId: 'opened' })).toEqual(['end_turn', true, undefined])
  },
)

live(
  'a server that falls silent ends reads and runs typed, and they go on when it answers',
  async () => {
    const { options, silent } = await silentLine()
    const { engine } = scriptedEngine(replies, { ledger: options })
    closing(engine)
    const reads = () => Promise.all(Array.from({ length: 6 }, () => engine.ledger.sessions()))
    expect(await ended(engine, { runId: 'before' })).toEqual(['end_turn', true, undefined])
    await reads()
    await silent(true)
    const unanswered = await failure(engine.ledger.sessions())
    expect(unanswered[0]).toBe('storage_io')
    expect(await ended(engine, { runId: 'silent' })).toEqual(['error', false, 'storage_io'])
    await silent(false)
    // The connections of before are lost: none of them is used again.
    await reads()
    expect(await ended(engine, { runId: 'after' })).toEqual(['end_turn', true, undefined])
    const stored = `select run_id from ${options.schema}.turns where status = 'completed' order by 1`
    expect(server.sql(stored)).toEqual(['after', 'before'])
  },
)

live(
  'a run in the middle of which the server falls silent ends typed, and so does close()',
  async () => {
    const { options, silent } = await silentLine()
    const call = { text: 'I look', toolCalls: [{ id: 'c', name: 'look', arguments: {} }] }
    const { engine } = scriptedEngine([call, { text: 'seen' }], { ledger: options })
    const tool = {
      name: 'look',
      description: 'Looks.',
      parameters: { type: 'object', properties: {} },
      run: async () => {
        await silent(true)
        return 'a cat'
      },
    }
    const { persisted, persistError, error } = await engine.run(
      context({ runId: 'cut', tools: [tool] }),
    ).result
    expect([persisted, persistError?.code ?? error?.detail.code]).toEqual([false, 'storage_io'])
    await engine.close()
    // What it left is taken over when its lease has ended.
    server.sql(`update ${options.schema}.sessions set expires_at = 0`)
    await silent(false)
    const next = closing(scriptedEngine(replies, { ledger: options }).engine)
    expect((await next.recover()).map(({ runId }) => runId)).toEqual(['cut'])
  },
)

live(
  'a turn that the server opens after its connection was lost is the run that began it',
  async () => {
    const { options, set } = await silentLine()
    const engine = closing(
      scriptedEngine(replies, { ledger: { ...options, timeoutMs: 30_000 } }).engine,
    )
    expect(await ended(engine, { runId: 'before' })).toEqual(['end_turn', true, undefined])
    // Reads are not locked, so that the second try finds no turn of the first one.
    const release = await server.locks(`${options.schema}.turns`, 'share')
    const run = ended(engine, { runId: 'lost' })
    await server.waiting(1)
    await set({ cuts: true })
    await server.waiting(2)
    release()
    expect(await run).toEqual(['end_turn', true, undefined])
  },
)

live(
  'a run whose session was taken over while the answer to its opening was lost is no duplicate of itself',
  async () => {
    const { options, silent, set } = await silentLine()
    const { engine } = scriptedEngine(replies, { ledger: { ...options, timeoutMs: 30_000 } })
    closing(engine)
    expect(await ended(engine, { runId: 'before' })).toEqual(['end_turn', true, undefined])
    const release = await server.locks(`${options.schema}.turns`, 'share')
    const run = ended(engine, { runId: 'lost' })
    await server.waiting(1)
    await silent(true)
    release()
    const turns = `select count(*) from ${options.schema}.turns where run_id = 'lost'`
    await expect.poll(() => server.sql(turns)).toEqual(['1'])
    server.sql(`update ${options.schema}.sessions set expires_at = 0`)
    const call = { text: 'I look', toolCalls: [{ id: 'c', name: 'look', arguments: {} }] }
    const ledger = { ...options, url: server.url }
    const other = closing(scriptedEngine([call, { text: 'seen' }], { ledger }).engine)
    let answer = (_: string) => {}
    let outcome: Promise<unknown[]> | undefined
    const asked = new Promise<void>((resolve) => {
      const looks = () =>
        new Promise<string>((answers) => {
          answer = answers
          resolve()
        })
      const look = { name: 'look', description: 'Looks.', parameters: { type: 'object' } }
      outcome = ended(other, { runId: 'other', tools: [{ ...look, run: looks }] })
    })
    await asked
    // It is sent again, while the other process has the session.
    await set({ cuts: true })
    expect(await run).toEqual(['end_turn', false, 'stale_writer'])
    answer('a cat')
    expect(await outcome).toEqual(['end_turn', true, undefined])
  },
)

/** A run that has begun, whose model answers when this is called. */
async function asking(options: PostgresLedgerOptions, runId: string) {
  const { server: model, next } = await askedServer()
  const engine = closing(engineAt(model.url, { ledger: options }))
  const run = ended(engine, { runId })
  const asked = await next()
  return { engine, next, answer: () => asked.answer('to this'), run }
}

live(
  'an end whose answer was lost is no success where another process has ended the turn meanwhile',
  async () => {
    const { options, silent, set } = await silentLine()
    const { answer, run } = await asking({ ...options, timeoutMs: 30_000 }, 'lost')
    await silent(true)
    answer()
    server.sql(`update ${options.schema}.sessions set expires_at = 0`)
    const ledger = { ...options, url: server.url }
    const other = closing(scriptedEngine(replies, { ledger }).engine)
    const [open] = await other.recover()
    await other.discard(open?.turnId ?? '')
    await set({ cuts: true })
    expect(await run).toEqual(['end_turn', false, 'stale_writer'])
    const stored = `select status from ${options.schema}.turns`
    expect(server.sql(stored)).toEqual(['failed'])
  },
)

live('a session is free for its own process once the lease of a lost turn has ended', async () => {
  const { options, silent } = await silentLine()
  const { engine, next, answer, run } = await asking(options, 'lost')
  await silent(true)
  answer()
  expect(await run).toEqual(['end_turn', false, 'storage_io'])
  server.sql(`update ${options.schema}.sessions set expires_at = 0`)
  await silent(false)
  const later = ended(engine, { runId: 'later' })
  ;(await next()).answer('to that')
  expect(await later).toEqual(['end_turn', true, undefined])
  expect((await engine.recover()).map(({ runId }) => runId)).toEqual(['lost'])
})

live('a connection that had a long statement has the usual limit again', async () => {
  const { options, silent } = await silentLine()
  const engine = closing(scriptedEngine(replies, { ledger: { ...options, pool: 1 } }).engine)
  expect(await ended(engine, { runId: 'before' })).toEqual(['end_turn', true, undefined])
  expect(await engine.ledger.verify()).toMatchObject({ ok: true })
  await silent(true)
  expect(await ended(engine, { runId: 'silent' })).toEqual(['error', false, 'storage_io'])
  await silent(false)
  expect(await ended(engine, { runId: 'after' })).toEqual(['end_turn', true, undefined])
})

live('a connection to a server that only reads is not used again', async () => {
  const schema = `silence_${++schemas}`
  const ledger = { url: server.url, schema, pool: 1 }
  const engine = closing(scriptedEngine(replies, { ledger }).engine)
  expect(await ended(engine, { runId: 'before' })).toEqual(['end_turn', true, undefined])
  server.sql('alter role agent set default_transaction_read_only = on')
  server.sql('select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()')
  expect(await engine.ledger.sessions()).toMatchObject({ items: [{}] })
  server.sql(
    'set default_transaction_read_only = off; alter role agent reset default_transaction_read_only',
  )
  expect(await ended(engine, { runId: 'after' })).toEqual(['end_turn', true, undefined])
})

live('a statement that waits for a lock is cancelled on the server', async () => {
  const schema = `silence_${++schemas}`
  const ledger = { url: server.url, schema, timeoutMs: 1_000 }
  const engine = closing(scriptedEngine(replies, { ledger }).engine)
  expect(await ended(engine, { runId: 'before' })).toEqual(['end_turn', true, undefined])
  const release = await server.locks(`${schema}.turns`)
  expect(await failure(engine.ledger.turns())).toEqual([
    'storage_io',
    'could not list the turns: the server did not answer within 1000 ms',
  ])
  await server.waiting(0)
  release()
  expect(await ended(engine, { runId: 'after' })).toEqual(['end_turn', true, undefined])
})
