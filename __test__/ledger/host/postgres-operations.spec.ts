// The commands of docs/guide/ledger/postgres.md, as they are printed there: the roles and what each may do, a backup and its restore, and
// the statements of an operator. It must never use a server of the machine's own.

import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { AgentEngine, type AgentEngineError } from '../../../index.js'
import { closing, folder } from '../../support/cleanup.js'
import { context, scriptedEngine } from '../../support/engine.js'
import { Cluster, hasCluster } from '../../support/ledger/cluster.js'

const live = test.skipIf(!hasCluster)
let server: Cluster
beforeAll(async () => {
  if (hasCluster) server = await new Cluster().start()
})
afterAll(() => server?.end())

const page = readFileSync(
  fileURLToPath(new URL('../../../docs/guide/ledger/postgres.md', import.meta.url)),
  'utf8',
)

/** The block of the page that contains a text. */
function block(language: string, part: string): string {
  const blocks = page.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\``, 'gm'))
  const found = [...blocks].map(([, text = '']) => text).find((text) => text.includes(part))
  if (found === undefined) throw new Error(`the page has no block with ${part}`)
  return found
}

/** Runs a command as an administrator of the server. */
function shell(command: string, input?: string, cwd = '/tmp'): string {
  const env = { ...process.env, PGHOST: server.folder, PGUSER: 'agent' }
  const done = spawnSync('bash', ['-euc', command], { encoding: 'utf8', cwd, env, input })
  expect([command, done.status, done.stderr]).toEqual([command, 0, ''])
  return done.stdout
}

const psql = (database: string, sql: string) =>
  shell(`psql -AtqX -v ON_ERROR_STOP=1 -d ${database}`, sql).split('\n').filter(Boolean)

const at = (role: string, database = 'agents') =>
  `postgres://${role}@/${database}?host=${server.folder}`
const engineOf = (url: string) =>
  scriptedEngine([{ text: 'done' }, { text: 'done' }], { ledger: { url, schema: 'agent' } }).engine
const code = (call: Promise<unknown>) =>
  call.then(
    () => 'no error',
    (error: AgentEngineError) => error.code,
  )

live(
  'the roles of the page: the owner creates the tables, engines run turns, readers read',
  async () => {
    psql('postgres', block('sql', 'create role agent_owner'))
    const refused = engineOf(at('agent_engine'))
    expect(await code(refused.ledger.sessions())).toBe('storage_read_only')
    await refused.close()
    const owner = engineOf(at('agent_owner'))
    await owner.ledger.sessions()
    await owner.close()
    const engine = closing(engineOf(at('agent_engine')))
    const { persisted, turnId } = await engine.run(context()).result
    expect(persisted).toBe(true)
    const reader = closing(engineOf(at('agent_reader')))
    expect((await reader.ledger.turn(turnId))?.status).toBe('completed')
    expect((await reader.ledger.search('done')).items.length).toBe(1)
    expect((await reader.ledger.verify()).problems).toEqual([])
    expect((await reader.ledger.query('select count(*) as n from turns')).rows).toEqual([{ n: 1 }])
    expect(await code(reader.ledger.alias('a', 'agent:main:main'))).toBe('storage_read_only')
    expect((await reader.run(context({ sessionLabel: 'no' })).result).persisted).toBe(false)
    const forbidden = psql(
      'agents',
      `select has_table_privilege('agent_engine', 'agent.turns', 'truncate'),
       has_schema_privilege('agent_engine', 'agent', 'create'), has_table_privilege('agent_reader', 'agent.turns', 'update')`,
    )
    expect(forbidden).toEqual(['f|f|f'])
  },
)

live('the backup of the page is restored with its id, its turns and its version', async () => {
  const engine = engineOf(at('agent_engine'))
  await engine.run(context({ sessionLabel: 'backup' })).result
  const { path } = folder()
  const [dump = '', restore = ''] = block('sh', 'pg_dump').trim().split('\n')
  shell(`cd ${path}; ${dump}`)
  await engine.run(context({ sessionLabel: 'later' })).result
  await engine.close()
  psql('postgres', 'create database agents_restored owner agent_owner template template0')
  shell(`cd ${path}; ${restore}`)
  psql('agents_restored', 'analyze; grant connect on database agents_restored to agent_engine')
  const restored = closing(engineOf(at('agent_engine', 'agents_restored')))
  const labels = (await restored.ledger.sessions()).items.map(({ label }) => label).toSorted()
  expect(labels).toEqual(['agent:main:main', 'backup'])
  expect((await restored.ledger.verify()).problems).toEqual([])
  const id = 'select id, version from agent.ledger'
  expect(psql('agents_restored', id)).toEqual(psql('agents', id))
  expect((await restored.run(context({ sessionLabel: 'backup' })).result).persisted).toBe(true)
})

live(
  'the statements of the page for operators are accepted, and an older package is refused after an upgrade',
  async () => {
    expect(psql('agents', block('sql', 'pg_stat_user_tables')).length).toBeGreaterThan(0)
    expect(psql('agents', 'select version, engine_version from agent.ledger')).toHaveLength(1)
    // As a newer package leaves it.
    psql('agents', 'update agent.ledger set version = version + 1')
    const older = closing(new AgentEngine({ ledger: { url: at('agent_engine'), schema: 'agent' } }))
    expect(await code(older.ledger.sessions())).toBe('ledger_newer')
    psql('agents', 'update agent.ledger set version = version - 1')
    expect(await code(older.ledger.sessions())).toBe('no error')
  },
)
