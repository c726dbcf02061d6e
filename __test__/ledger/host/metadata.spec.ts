// The host's metadata of turns and sessions after real runs over HTTP: stored, found, moved to other files, and never sent. Which
// index a list uses is tested in the core. It must never read a table.

import { describe, expect, test } from 'vitest'
import type { AgentEngine, AgentEngineOptions, Ledger } from '../../../index.js'
import { salvageLedger } from '../../../index.js'
import { closing, folder } from '../../support/cleanup.js'
import { context, engineAt } from '../../support/engine.js'
import { refusal } from '../../support/ledger/sqlite3.js'
import { child, clean } from '../../support/processes/child.js'
import { thrown } from '../../support/refusals.js'
import { anthropic } from '../../support/servers/anthropic.js'
import { sse } from '../../support/servers/server.js'
import { serverPerTest } from '../../support/servers/server-per-test.js'

const server = serverPerTest(() => sse(anthropic.answer('ok')))
const metadata = { plan: { name: 'pro', seats: 3 }, trial: false, userId: 'u1' }

/** An engine at the server, with a ledger in a folder of its own. */
function opened(options: AgentEngineOptions = {}) {
  const { file, path } = folder()
  const engine = closing(engineAt(server.url, { ledger: { path: file }, ...options }))
  return { engine, ledger: engine.ledger, file, path }
}

async function turn(engine: AgentEngine, changes: object = {}): Promise<string> {
  const { stopReason, turnId } = await engine.run(context(changes)).result
  expect(stopReason).toBe('end_turn')
  return turnId
}

const short = { provider: 'test', model: 'test-model' }

describe('metadata of a run', () => {
  test('is stored with its turn in both forms of a run, and never sent', async () => {
    const { engine, ledger } = opened()
    const ids = [
      await turn(engine, { metadata }),
      (await engine.run('Hello?', { ...short, session: 's', metadata: { userId: 'u2' } }).result)
        .turnId,
      (await engine.run('Hello?', short).result).turnId,
    ]
    const stored = await Promise.all(ids.map(async (id) => (await ledger.turn(id))?.metadata))
    expect(stored).toEqual([metadata, { userId: 'u2' }, null])
    expect(server.seen).toHaveLength(3)
    expect(JSON.stringify(server.seen)).not.toMatch(/userId|u1|u2|seats/)
    expect((await ledger.verify()).problems).toEqual([])
  })

  test('is that of the defaults where a run has none, and whole: keys are not merged', async () => {
    const { engine, ledger } = opened({ defaults: { metadata: { app: 'shop', userId: 'none' } } })
    const ids = [await turn(engine), await turn(engine, { metadata: { userId: 'u1' } })]
    const stored = await Promise.all(ids.map(async (id) => (await ledger.turn(id))?.metadata))
    expect(stored).toEqual([{ app: 'shop', userId: 'none' }, { userId: 'u1' }])
  })

  test('is refused with its path where it is no object, or too long, and nothing is sent', async () => {
    const { engine, ledger } = opened()
    const given: [unknown, string, string][] = [
      [['u1'], 'metadata', 'is a list'],
      ['u1', 'metadata', 'is not an object'],
      [{ '': 1 }, 'metadata', 'has an empty key'],
      [{ ['k'.repeat(257)]: 1 }, 'metadata', 'has a key of 257 bytes'],
      [{ text: 'x'.repeat(16_384) }, 'metadata', 'has 16395 bytes as JSON; at most 16384'],
      [{ at: { n: 1n } }, 'metadata.at.n', 'bigint'],
    ]
    for (const [metadata, path, message] of given) {
      const error = thrown(() => engine.run(context({ metadata } as object)))
      expect(error.issues.map((issue) => issue.path)).toEqual([path])
      expect(error.message).toContain(message)
    }
    const all = thrown(() => engine.run(context({ metadata: 'u1', maxIterations: 0 } as object)))
    expect(all.issues.map(({ path }) => path).sort()).toEqual(['maxIterations', 'metadata'])
    expect(server.seen).toEqual([])
    expect((await ledger.turns()).items).toEqual([])
  })

  test('comes with a turn that a broker writes itself', async () => {
    const { ledger } = opened()
    const worker = closing(engineAt(server.url))
    const asked = context({ metadata, history: [] })
    const id = await ledger.writeTurn(asked, await worker.run(asked).result)
    expect((await ledger.turn(id))?.metadata).toEqual(metadata)
  })
})

describe('metadata finds', () => {
  test('turns, sessions and their usage, with and without an index, in two engines of the file', async () => {
    const { engine, ledger, file } = opened()
    const ids: string[] = []
    for (let n = 0; n < 6; n++) {
      ids.push(
        await turn(engine, {
          sessionLabel: `s${n % 2}`,
          metadata: { userId: `u${n % 3}`, paid: n > 2 },
        }),
      )
    }
    await ledger.updateSession('s1', { metadata: { userId: 'u1' } })
    await ledger.createSession('empty', { metadata: { userId: 'u1', n: 7 } })
    const read = async (from: AgentEngine['ledger']) => ({
      ofUser: (await from.turns({ metadata: { userId: 'u1' } })).items.map(({ id }) => id),
      paid: (await from.turns({ metadata: { userId: 'u1', paid: true } })).items.map((it) => it.id),
      page: (await from.turns({ metadata: { userId: 'u1' }, limit: 1 })).next,
      sessions: (await from.sessions({ metadata: { userId: 'u1' } })).items.map((it) => it.label),
      seven: (await from.sessions({ metadata: { n: 7 } })).items.map((it) => it.label),
      usage: (await from.usage({ by: 'metadata.userId' })).items.map((it) => [it.key, it.turns]),
      models: (await from.usage({ by: 'model', metadata: { paid: true } })).items.map(
        ({ turns }) => turns,
      ),
    })
    const expected = {
      ofUser: [ids[1], ids[4]],
      paid: [ids[4]],
      page: ids[1],
      sessions: ['empty', 's1'],
      seven: ['empty'],
      usage: [
        ['u0', 2],
        ['u1', 2],
        ['u2', 2],
      ],
      models: [3],
    }
    expect(await read(ledger)).toEqual(expected)
    expect([await ledger.indexMetadata('userId'), await ledger.indexMetadata('userId')]).toEqual([
      true,
      false,
    ])
    expect(await read(ledger)).toEqual(expected)
    const other = closing(engineAt(server.url, { ledger: { path: file } }))
    expect(await read(other.ledger)).toEqual(expected)
    expect(await other.ledger.unindexMetadata('userId')).toBe(true)
    expect(await read(ledger)).toEqual(expected)
    expect((await ledger.verify()).problems).toEqual([])
  })

  test('while another process writes turns and an index of the key is made', async () => {
    const { engine, ledger, file } = opened()
    await turn(engine, { sessionLabel: 'here', metadata: { userId: 'u1' } })
    const other = child('ledger/metadata-writer.mjs', [file])
    await ledger.indexMetadata('userId')
    await turn(engine, { sessionLabel: 'here', metadata: { userId: 'u1' } })
    expect(await other).toEqual(clean('20\n'))
    const { items } = await ledger.usage({ by: 'metadata.userId' })
    expect(items.map(({ key, turns }) => [key, turns])).toEqual([
      ['other', 20],
      ['u1', 2],
    ])
    expect((await ledger.verify()).problems).toEqual([])
  })

  test('nothing by a key or a value that cannot be looked up', async () => {
    const { ledger } = opened()
    const field = (promise: Promise<unknown>) => refusal(promise)
    const query = (field: string) => ({ code: 'invalid_query', field })
    expect(await field(ledger.turns({ metadata: {} }))).toEqual(query('filter.metadata'))
    expect(await field(ledger.turns({ metadata: { "a'b": 1 } }))).toEqual(query('filter.metadata'))
    expect(await field(ledger.sessions({ metadata: { a: null as never } }))).toEqual(
      query('filter.metadata'),
    )
    expect(await field(ledger.usage({ by: 'metadata.' }))).toEqual(query('filter.by'))
    expect(await field(ledger.usage({ by: 'user' as never }))).toEqual(query('filter.by'))
    expect(await field(ledger.indexMetadata('a"b'))).toEqual(query('key'))
    expect(await field(ledger.turns({ after: 'none' }))).toEqual(query('filter.after'))
    expect(await field(ledger.updateSession('none', {}))).toEqual({ code: 'unknown_session' })
    expect(await field(ledger.createSession('a', { metadata: [1] as never }))).toEqual(
      query('session.metadata'),
    )
  })
})

describe('the metadata of another ledger', () => {
  const written = async () => {
    const made = opened()
    await turn(made.engine, { sessionLabel: 's', metadata })
    await made.ledger.updateSession('s', { metadata: { owner: 'me', n: 1 } })
    return made
  }
  const expectSame = async (read: Ledger) => {
    expect((await read.turns()).items.map((it) => it.metadata)).toEqual([metadata])
    expect((await read.session('s'))?.metadata).toEqual({ owner: 'me', n: 1 })
    expect((await read.verify()).problems).toEqual([])
  }

  test('is exported and imported', async () => {
    const { ledger, path } = await written()
    await ledger.export(`${path}/out.jsonl`)
    const copy = opened()
    await copy.ledger.import(`${path}/out.jsonl`)
    await expectSame(copy.ledger)
  })

  test('is salvaged', async () => {
    const { engine, file, path } = await written()
    await engine.close()
    await salvageLedger(file, `${path}/fresh.db`)
    await expectSame(closing(engineAt(server.url, { ledger: { path: `${path}/fresh.db` } })).ledger)
  })
})
