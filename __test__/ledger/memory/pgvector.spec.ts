// The memory's vectors in an index of pgvector, on a PostgreSQL of its own that has the extension. What is found is what a scan finds, and
// where there is no index the counts say why. It must never depend on the time of a search.

import { spawnSync } from 'node:child_process'
import { beforeAll, expect, test } from 'vitest'
import type { AgentEngine, MemoryOptions } from '../../../index.js'
import { afterwards, closing, folder } from '../../support/cleanup.js'
import { scriptedEngine } from '../../support/engine.js'
import { hasPooler, pooler } from '../../support/ledger/cluster.js'
import { hasPostgres, pgvectorBin, postgresServer } from '../../support/ledger/postgres.js'
import { hashed } from '../../support/values/hashing-embedder.js'

if (pgvectorBin === undefined) console.log('skipped: no PostgreSQL with pgvector (PGVECTOR_BIN)')
const live = test.skipIf(pgvectorBin === undefined)
const server = pgvectorBin === undefined ? undefined : postgresServer(pgvectorBin)
const usual = hasPostgres ? postgresServer() : undefined
let url = ''
beforeAll(() => {
  if (server === undefined) return
  url = server().url
  // Of a few rows, the planner reads all.
  sql('alter role agent set enable_seqscan = off')
})

function sql(text: string, database = 'postgres'): string {
  const to = url.replace('/postgres?', `/${database}?`)
  const done = spawnSync(`${pgvectorBin}/psql`, [to, '-AtqXc', text], { encoding: 'utf8' })
  if (done.status !== 0) throw new Error(done.stderr)
  return done.stdout.trim()
}

type Place = { url?: string; path?: string; schema?: string }

/** An engine with a memory in the ledger, or in this schema of the server. */
function remembering(
  at: string | Place,
  vectors: MemoryOptions['vectors'],
  { model = 'hashing', dimensions = 256, isKnown = true } = {},
) {
  const embed = async (texts: string[]) => texts.map((text) => hashed(text, dimensions))
  const of = isKnown ? { dimensions } : {}
  const memory = { embedder: { embed, model, ...of }, vectors }
  const defaults = { model: 'test-model', provider: 'test' }
  const place = typeof at === 'string' ? { url, schema: at, pool: 4 } : at
  return closing(
    scriptedEngine([{ text: 'Good.' }], { ledger: place as never, memory, defaults }).engine,
  )
}

const as = (role: string) => url.replace('agent@', `${role}@`)

const store = (engine: AgentEngine, n: number, persona = `p${n % 3}`) =>
  engine.memory.storeFact({
    entity: `e${n}`,
    type: 'likes',
    content: `word${n} word${n + 1} word${n + 2}`,
    scope: { kind: 'persona', id: persona },
  })

/** Waits until every chunk has its vector, and the engine's model is searched like this. */
async function embedded(engine: AgentEngine, search: string, problem: unknown = null) {
  const read = async () => {
    const { pendingVectors, models, problem } = await engine.memory.stats()
    const current = models.find((model) => model.current)
    const { search, searchProblem } = current ?? {}
    return { pendingVectors, search, searchProblem, problem }
  }
  await expect
    .poll(read, { timeout: 20_000 })
    .toEqual({ pendingVectors: 0, search, searchProblem: problem, problem: null })
}

/** What searches find, with and without scopes: the entities of facts. */
async function found(engine: AgentEngine): Promise<string[][]> {
  const all: string[][] = []
  for (let n = 0; n < 12; n++) {
    for (const scopes of [undefined, [{ kind: 'persona' as const, id: `p${n % 3}` }]]) {
      const of = scopes === undefined ? { all: true } : { scopes }
      const { hits } = await engine.memory.search(`word${n} word${n + 1}`, { ...of, limit: 5 })
      all.push(hits.map(({ fact }) => fact?.entity ?? ''))
    }
  }
  return all
}

live(
  'the index finds what a scan finds, in its scopes, and has nothing that was forgotten',
  async () => {
    const scanning = remembering('indexed', 'scan')
    for (let n = 0; n < 30; n++) await store(scanning, n)
    await embedded(scanning, 'scan')
    // What was stored before is added, and what is stored later, by whomever.
    const engine = remembering('indexed', 'pgvector')
    await embedded(engine, 'pgvector')
    expect(await found(engine)).toEqual(await found(scanning))
    for (let n = 30; n < 150; n++) await store(n % 2 ? engine : scanning, n)
    await embedded(engine, 'pgvector')
    expect(await found(engine)).toEqual(await found(scanning))
    const count = 'select count(*) from indexed.memory_index_1'
    expect(sql(count)).toBe('150')
    await engine.memory.forget({ entity: 'e3' })
    expect(sql(count)).toBe('149')
    const { hits } = await engine.memory.search('word3 word4 word5', { all: true })
    expect(hits.map(({ fact }) => fact?.entity)).not.toContain('e3')
    // The newest as well.
    await engine.memory.forget({ entity: 'e149' })
    await embedded(engine, 'pgvector')
    await engine.memory.reindex({ vectors: true })
    await expect.poll(() => sql(count)).toBe('148')
    await embedded(engine, 'pgvector')
  },
)

live(
  'a filter without scopes finds what is behind more vectors than one pass through the graph has',
  async () => {
    const engine = remembering('filtered', 'pgvector')
    const { turnId } = await engine.run('Alice enjoys jasmine.', { session: 'main' }).result
    const scope = { kind: 'global' } as const
    for (let n = 0; n < 400; n++)
      await engine.memory.storeFact({ entity: `e${n}`, type: 'likes', content: 'favourite', scope })
    await embedded(engine, 'pgvector')
    const { hits } = await engine.memory.search('favourite', { all: true, kinds: ['turn'] })
    expect(hits[0]).toMatchObject({ turnId, why: 'vector', excerpt: 'Alice enjoys jasmine.' })
  },
)

live('an index that lacks vectors is not used, and says so', async () => {
  const engine = remembering('lacking', 'pgvector')
  for (let n = 0; n < 9; n++) await store(engine, n)
  await embedded(engine, 'pgvector')
  sql('delete from lacking.memory_index_1 where n = 9')
  await embedded(engine, 'scan', 'the index does not have all vectors yet')
  const { hits } = await engine.memory.search('word8 word9 word10', { all: true, limit: 1 })
  expect(hits[0]).toMatchObject({ fact: { entity: 'e8' }, why: 'both' })
  await store(engine, 9)
  await embedded(engine, 'pgvector')
  expect(sql('select count(*) from lacking.memory_index_1')).toBe('10')
})

live('a search whose index fails scans, and the counts have the reason', async () => {
  const engine = remembering('broken', 'pgvector')
  for (let n = 0; n < 9; n++) await store(engine, n)
  await embedded(engine, 'pgvector')
  sql('alter table broken.memory_index_1 rename column e to gone')
  const { hits, problem } = await engine.memory.search('word8 word9', { all: true, limit: 1 })
  expect(problem).toBeNull()
  expect(hits[0]).toMatchObject({ fact: { entity: 'e8' }, why: 'both' })
  await embedded(engine, 'pgvector', expect.stringContaining('column "e" does not exist'))
  // What is stored meanwhile has its vector.
  await store(engine, 9)
  await embedded(engine, 'scan', expect.stringContaining('column "e"'))
  sql('alter table broken.memory_index_1 rename column gone to e')
  await store(engine, 10)
  await embedded(engine, 'pgvector')
})

live('engines that store and forget at once leave an index with exactly the vectors', async () => {
  const engines = Array.from({ length: 3 }, () => remembering('shared_by_three', 'pgvector'))
  await Promise.all(
    engines.map(async (engine, of) => {
      for (let n = of; n < 90; n += 3) {
        await store(engine, n)
        if (n >= 30 && n % 4 === 0) await engine.memory.forget({ entity: `e${n - 30}` })
      }
    }),
  )
  for (const engine of engines) await embedded(engine, 'pgvector')
  const scanning = remembering('shared_by_three', 'scan')
  await embedded(scanning, 'scan')
  const expected = await found(scanning)
  for (const engine of engines) expect(await found(engine)).toEqual(expected)
  const other = `select count(*) from shared_by_three.memory_vectors v
    full join shared_by_three.memory_index_1 i using (n) where v.n is null or i.n is null`
  expect(sql(other)).toBe('0')
})

live(
  'each model has an index of its own, which is empty once its vectors are deleted',
  async () => {
    const first = remembering('models', 'pgvector', { model: 'one' })
    for (let n = 0; n < 9; n++) await store(first, n)
    await embedded(first, 'pgvector')
    await first.close()
    const second = remembering('models', 'pgvector', { model: 'two', dimensions: 128 })
    await embedded(second, 'pgvector')
    const counts =
      'select (select count(*) from models.memory_index_1), (select count(*) from models.memory_index_2)'
    expect(sql(counts)).toBe('9|9')
    await second.memory.reindex()
    expect(sql(counts)).toBe('0|9')
    const { hits } = await second.memory.search('word8 word9', { all: true, limit: 1 })
    expect(hits[0]).toMatchObject({ fact: { entity: 'e8' }, why: 'both' })
  },
)

live('a model with more dimensions than an index may have is scanned', async () => {
  const engine = remembering('wide', 'pgvector', { dimensions: 4_001, isKnown: false })
  await store(engine, 1)
  await embedded(engine, 'scan', 'an index of pgvector has at most 4,000 dimensions')
  const { hits } = await engine.memory.search('word2', { all: true })
  expect(hits[0]).toMatchObject({ fact: { entity: 'e1' }, why: 'both' })
  const most = remembering('widest', 'pgvector', { dimensions: 4_000 })
  await store(most, 1)
  await embedded(most, 'pgvector')
})

live(
  'a role without the right to create tables uses and fills an index of the owner, and scans without one',
  async () => {
    const owner = remembering('roles', 'scan')
    await store(owner, 0)
    await embedded(owner, 'scan')
    sql(`create extension if not exists vector; create role limited login; grant usage on schema roles to limited;
    grant select, insert, update, delete on all tables in schema roles to limited;
    alter default privileges in schema roles grant select, insert, update, delete on tables to limited;
    grant usage, select on all sequences in schema roles to limited`)
    const limited = remembering({ url: as('limited'), schema: 'roles' }, 'pgvector')
    await store(limited, 1)
    const none = 'there is no index yet; an engine with the role that owns the tables creates it'
    await embedded(limited, 'scan', none)
    expect(sql("select to_regclass('roles.memory_index_1') is null")).toBe('t')
    await embedded(remembering('roles', 'pgvector'), 'pgvector')
    await store(limited, 2)
    await embedded(limited, 'pgvector')
    expect(sql('select count(*) from roles.memory_index_1')).toBe('3')
    const { hits } = await limited.memory.search('word2 word3', { all: true, limit: 1 })
    expect(hits[0]?.fact?.entity).toBe('e2')
    sql('revoke select on roles.memory_index_1 from limited')
    const right = 'the role may not read the index; grant it `select` on `memory_index_1`'
    await embedded(limited, 'scan', right)
  },
)

live(
  'an owner that may not create the extension scans, until somebody else has created it',
  async () => {
    sql('create role plain login')
    sql('create database plain owner plain')
    const at = { url: as('plain').replace('/postgres?', '/plain?'), schema: 'agent' }
    const engine = remembering(at, 'pgvector')
    await store(engine, 1)
    await embedded(engine, 'scan', expect.stringContaining('permission denied to create extension'))
    expect((await engine.memory.search('word1', { all: true })).hits[0]?.why).toBe('both')
    await engine.close()
    sql('create extension vector', 'plain')
    await embedded(remembering(at, 'pgvector'), 'pgvector')
  },
)

live('a copy of the ledger has an index of its own', async () => {
  const engine = remembering('copied', 'pgvector')
  const { turnId } = await engine.run('Alice enjoys jasmine.', { session: 'main' }).result
  await engine.memory.search('x', { all: true })
  await embedded(engine, 'pgvector')
  const copies: Place[] = [{ path: folder().file }, { url, schema: 'copied_to' }]
  for (const place of copies) {
    await engine.ledger.copyTo(place as never)
    const copy = remembering(place, 'pgvector')
    await copy.memory.reindex()
    await copy.memory.search('x', { all: true })
    if (place.path === undefined) await embedded(copy, 'pgvector')
    else await embedded(copy, 'scan', 'the ledger is a file, which has no pgvector')
    const { hits } = await copy.memory.search('favourite', { all: true })
    expect(hits[0]).toMatchObject({ turnId, why: 'vector' })
  }
})

live(
  'a dump without the index is restored where the extension is not, and the index is filled anew there',
  async () => {
    const engine = remembering('dumped', 'pgvector')
    for (let n = 0; n < 9; n++) await store(engine, n)
    await embedded(engine, 'pgvector')
    const dump = `${folder().path}/agent.dump`
    const run = (program: string, ...args: string[]) => {
      const { status, stderr } = spawnSync(`${pgvectorBin}/${program}`, args, { encoding: 'utf8' })
      expect([status, stderr]).toEqual([0, ''])
    }
    const without = ['--schema=dumped', '--exclude-table=dumped.memory_index_*']
    run('pg_dump', '--format=custom', ...without, `--file=${dump}`, url)
    sql('create database restored')
    const to = url.replace('/postgres?', '/restored?')
    run('pg_restore', '--exit-on-error', `--dbname=${to}`, dump)
    expect(sql("select count(*) from pg_extension where extname = 'vector'", 'restored')).toBe('0')
    const restored = { url: to, schema: 'dumped' }
    const scanning = remembering(restored, 'scan')
    await embedded(scanning, 'scan')
    expect(await found(scanning)).toEqual(await found(engine))
    const indexing = remembering(restored, 'pgvector')
    await embedded(indexing, 'pgvector')
    expect(sql('select count(*) from dumped.memory_index_1', 'restored')).toBe('9')
    expect(await found(indexing)).toEqual(await found(engine))
  },
)

test.skipIf(pgvectorBin === undefined || !hasPooler)(
  'behind a pooler in transaction mode the index is created, filled and searched, and no setting stays',
  async () => {
    const pool = await pooler({ folder: url.split('?host=')[1] ?? '' })
    afterwards(() => pool.end())
    const engine = remembering({ url: pool.url, schema: 'pooled' }, 'pgvector')
    for (let n = 0; n < 30; n++) await store(engine, n)
    await embedded(engine, 'pgvector')
    const scanning = remembering('pooled', 'scan')
    await embedded(scanning, 'scan')
    expect(await found(engine)).toEqual(await found(scanning))
    const asked = "select current_setting('hnsw.iterative_scan', true) as scan"
    const answers = await Promise.all(Array.from({ length: 8 }, () => engine.ledger.query(asked)))
    for (const { rows } of answers) expect(['off', '', null]).toContain(rows[0]?.scan)
  },
)

test.skipIf(usual === undefined || process.env.POSTGRES_URL !== undefined)(
  'a server without pgvector scans, and the counts say that it was asked for',
  async () => {
    const { url, schema } = usual?.() ?? {}
    const engine = remembering({ url, schema }, 'pgvector')
    await store(engine, 1)
    await embedded(engine, 'scan', expect.stringContaining('extension "vector" is not available'))
    expect((await engine.memory.search('word1', { all: true })).hits[0]?.why).toBe('both')
  },
)

test('a file scans, and the counts say that pgvector was asked for', async () => {
  const engine = remembering({ path: folder().file }, 'pgvector')
  await store(engine, 1)
  await embedded(engine, 'scan', 'the ledger is a file, which has no pgvector')
  expect(() => remembering({ path: folder().file }, 'hnsw' as never)).toThrow('vectors')
})
