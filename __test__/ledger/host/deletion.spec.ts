// Deleting sessions and turns after real runs over HTTP: what is gone, what stays, what the next run sends, a kill in the middle, another
// process beside it. Random histories are tested in the core. It must never delete behind the API.

import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import type { AgentEngine, AgentEngineOptions } from '../../../index.js'
import { closing, folder } from '../../support/cleanup.js'
import { context, engineAt } from '../../support/engine.js'
import { refusal } from '../../support/ledger/sqlite3.js'
import { child, clean } from '../../support/processes/child.js'
import { killable } from '../../support/processes/killable.js'
import { anthropic } from '../../support/servers/anthropic.js'
import { sse } from '../../support/servers/server.js'
import { serverPerTest } from '../../support/servers/server-per-test.js'

const server = serverPerTest(() => sse(anthropic.answer('ok')))

function opened(options: AgentEngineOptions = {}) {
  const { file, path } = folder()
  const engine = closing(engineAt(server.url, { ledger: { path: file }, ...options }))
  return { engine, ledger: engine.ledger, file, path }
}

async function turn(engine: AgentEngine, content: string, sessionLabel: string, changes = {}) {
  const currentMessage = { role: 'user' as const, content }
  const run = engine.run(context({ currentMessage, sessionLabel, ...changes }))
  const { turnId, persisted } = await run.result
  expect(persisted).toBe(true)
  return turnId
}

const none = {
  sessions: 0,
  turns: 0,
  messages: 0,
  toolCalls: 0,
  runs: 0,
  blobs: 0,
  retainedTurns: 0,
  overwritten: false,
}

/** The texts of the messages of the last request. */
function sent(): string[] {
  const body = server.seen.at(-1)?.body as unknown as { messages: { content: unknown }[] }
  return body.messages.map(({ content }) => JSON.stringify(content))
}

describe('a deleted session', () => {
  test('is gone with its turns, events and search, and an open engine continues without any of it', async () => {
    const { engine, ledger } = opened()
    const ids = [
      await turn(engine, 'secret one', 'main', { runId: 'secret' }),
      await turn(engine, 'secret two', 'main'),
    ]
    const kept = await turn(engine, 'other', 'other')
    await ledger.alias('name', 'main')
    const options = { turns: true }
    const counted = await ledger.deleteSession('name', { ...options, dryRun: true })
    expect(counted).toEqual({ ...none, sessions: 1, turns: 2, messages: 4, runs: 2 })
    expect((await ledger.search('secret')).items).toHaveLength(2)
    expect(await ledger.deleteSession('name', options)).toEqual(counted)
    expect(await ledger.session('main')).toBeNull()
    for (const id of ids) expect(await ledger.turn(id)).toBeNull()
    expect(await refusal(engine.attach('secret').next())).toMatchObject({ code: 'unknown_run' })
    expect((await ledger.search('secret')).items).toEqual([])
    expect((await ledger.turns()).items.map(({ id }) => id)).toEqual([kept])
    expect((await ledger.aliases()).items).toEqual([])
    expect((await ledger.usage({ by: 'session' })).items.map(({ key }) => key)).toEqual(['other'])
    await turn(engine, 'anew', 'main')
    expect(sent()).toHaveLength(1)
    expect(sent()[0]).toContain('anew')
    expect(await ledger.history('main')).toHaveLength(2)
    expect((await ledger.verify()).problems).toEqual([])
  })

  test('leaves its turns in no session, unless they are deleted too', async () => {
    const { engine, ledger } = opened()
    const id = await turn(engine, 'stays', 'main')
    expect(await ledger.deleteSession('main')).toEqual({ ...none, sessions: 1 })
    expect((await ledger.turn(id))?.messages).toHaveLength(2)
    expect((await ledger.sessions()).items).toEqual([])
    expect(await refusal(ledger.deleteSession('main'))).toEqual({ code: 'unknown_session' })
    await ledger.fork(id, 'main')
    expect(await ledger.history('main')).toHaveLength(2)
    const done = await ledger.deleteSession('main', { turns: true })
    expect(done).toMatchObject({ sessions: 1, turns: 1, retainedTurns: 0 })
    expect((await ledger.verify()).problems).toEqual([])
  })

  test('is refused while a turn of it runs', async () => {
    const { engine, ledger } = opened()
    let release = () => {}
    const held = new Promise<void>((resolve) => {
      release = resolve
    })
    server.use(sse(anthropic.calls(['c', 'wait', {}])), sse(anthropic.answer('done')))
    let begun = () => {}
    const started = new Promise<void>((resolve) => {
      begun = resolve
    })
    const tools = [
      {
        name: 'wait',
        run: async () => {
          begun()
          await held
          return 'ok'
        },
      },
    ]
    const run = engine.run(context({ sessionLabel: 'busy', tools }))
    await started
    expect(await refusal(ledger.deleteSession('busy', { turns: true }))).toEqual({
      code: 'storage_locked',
    })
    release()
    expect((await run.result).stopReason).toBe('end_turn')
    expect(await ledger.deleteSession('busy', { turns: true })).toMatchObject({ turns: 1 })
  })
})

describe('deleted turns', () => {
  test('of a user go with what follows them, and the pointers move back', async () => {
    const { engine, ledger } = opened()
    const first = await turn(engine, 'public', 'main', { metadata: { userId: 'u2' } })
    const second = await turn(engine, 'private', 'main', { metadata: { userId: 'u1' } })
    const third = await turn(engine, 'on', 'main', { metadata: { userId: 'u2' } })
    const filter = { metadata: { userId: 'u1' } }
    expect(await ledger.deleteTurns(filter)).toEqual({ ...none, retainedTurns: 1 })
    const before = await ledger.turn(first)
    const done = await ledger.deleteTurns(filter, { followers: true })
    expect(done).toMatchObject({ turns: 2, retainedTurns: 0 })
    expect(await ledger.turn(first)).toEqual({ ...before, hasChildren: false })
    expect([await ledger.turn(second), await ledger.turn(third)]).toEqual([null, null])
    expect((await ledger.session('main'))?.threadId).toBe(first)
    await turn(engine, 'after', 'main')
    expect(sent()).toHaveLength(3)
    expect(sent().join()).not.toMatch(/private|"on"/)
    expect((await ledger.verify()).problems).toEqual([])
  })

  test('need a condition, and one that can be looked up', async () => {
    const { ledger } = opened()
    const code = 'invalid_query'
    expect(await refusal(ledger.deleteTurns({}))).toMatchObject({ code })
    expect(await refusal(ledger.deleteTurns({ metadata: { "'": 1 } }))).toMatchObject({ code })
    expect(await refusal(ledger.deleteTurns({ turn: 1 } as never))).toMatchObject({ code })
    expect(await refusal(ledger.prune({ before: 'x' as never }))).toEqual({
      code,
      field: 'options.before',
    })
    expect(await refusal(ledger.prune({ before: 1, keep: -1 }))).toMatchObject({ code })
  })
})

test('prune deletes old sessions, but not the newest, and counts the same without deleting', async () => {
  const { engine, ledger } = opened()
  for (const label of ['a', 'b', 'c']) await turn(engine, label, label)
  await engine.run('Hello?', { provider: 'test', model: 'test-model' }).result
  const options = { before: new Date(Date.now() + 60_000), keep: 1 }
  const counted = await ledger.prune({ ...options, dryRun: true })
  expect(counted).toEqual({ ...none, sessions: 3, turns: 3, messages: 6, runs: 3 })
  expect(await ledger.prune(options)).toEqual(counted)
  expect((await ledger.sessions()).items.map(({ label }) => label)).toEqual(['c'])
  expect(await ledger.prune({ before: 0 })).toEqual(none)
  expect((await ledger.verify()).problems).toEqual([])
})

test('a secure deletion leaves no byte of it in the file or its log', async () => {
  const { engine, ledger, file } = opened()
  const marker = 'zirconiumwaltz'
  await turn(engine, 'harmless', 'other')
  for (let n = 0; n < 3; n++) {
    await turn(engine, `${marker} ${n} ${marker.repeat(6_000)}`, marker, {
      systemPrompt: `You know ${marker}.`,
      metadata: { name: marker },
    })
  }
  await ledger.search(marker)
  const found = () =>
    ['', '-wal'].map((end) => {
      try {
        return readFileSync(`${file}${end}`).includes(marker)
      } catch {
        return false
      }
    })
  expect(found()).toContain(true)
  const done = await ledger.deleteSession(marker, { turns: true, secure: true })
  expect(done).toMatchObject({ sessions: 1, turns: 3, overwritten: true })
  expect(found()).toEqual([false, false])
  expect((await ledger.turns()).items).toHaveLength(1)
  expect((await ledger.verify()).problems).toEqual([])
})

test('a process that is killed while it deletes leaves a sound ledger, and the next deletion continues', async () => {
  const { file } = folder()
  const process = killable('ledger/deleter.mjs', [file])
  await process.line('deleted 1')
  process.kill('SIGKILL')
  await process.ended
  const { ledger } = closing(engineAt(server.url, { ledger: { path: file } }))
  expect((await ledger.verify()).problems).toEqual([])
  const left = (await ledger.sessions()).items.map(({ label }) => label)
  expect(left).not.toContain('s1')
  for (const label of left) {
    expect((await ledger.turns({ sessionLabel: label })).items).toHaveLength(30)
    await ledger.deleteSession(label, { turns: true })
  }
  await ledger.prune({ before: 0 })
  expect((await ledger.turns()).items).toEqual([])
  expect((await ledger.search('doomed')).items).toEqual([])
  expect((await ledger.verify()).problems).toEqual([])
})

test('another process writes turns while sessions are deleted', async () => {
  const { engine, ledger, file } = opened()
  for (let n = 0; n < 20; n++) await turn(engine, `m${n}`, `s${n % 2}`)
  const other = child('ledger/metadata-writer.mjs', [file])
  for (const label of ['s0', 's1']) {
    expect(await ledger.deleteSession(label, { turns: true })).toMatchObject({ turns: 10 })
  }
  expect(await other).toEqual(clean('20\n'))
  expect((await ledger.turns()).items).toHaveLength(20)
  expect((await ledger.verify()).problems).toEqual([])
})
