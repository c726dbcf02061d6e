// What the host's own SQL may do on a server, with the roles of the guide: it reads, whatever functions it calls, and leaves nothing
// behind on its connection. It must never run as a superuser.

import { spawnSync } from 'node:child_process'
import { expect, test } from 'vitest'
import type { PostgresLedgerOptions } from '../../../index.js'
import { closing } from '../../support/cleanup.js'
import { context, scriptedEngine } from '../../support/engine.js'
import { hasPostgres, postgresServer } from '../../support/ledger/postgres.js'

const fresh = postgresServer()

/** Engines of a schema that the owner has created, with the roles of docs/guide/ledger/postgres.md. */
async function roles() {
  const options = fresh({ pool: 1 })
  const { schema } = options
  const sql = `
    create role agent_owner login; create role agent_engine login; create role agent_reader login;
    create schema ${schema} authorization agent_owner;
    grant usage on schema ${schema} to agent_engine, agent_reader;
    set role agent_owner;
    alter default privileges in schema ${schema} grant select, insert, update, delete on tables to agent_engine;
    alter default privileges in schema ${schema} grant usage, select on sequences to agent_engine;
    alter default privileges in schema ${schema} grant select on tables to agent_reader;`
  const done = spawnSync('psql', [options.url, '-qXc', sql], { encoding: 'utf8' })
  expect([done.status, done.stderr]).toEqual([0, ''])
  const as = (role: string): PostgresLedgerOptions => ({
    ...options,
    url: options.url.replace('//agent@', `//${role}@`),
  })
  const engineOf = (role: string) => closing(scriptedEngine(['three'], { ledger: as(role) }).engine)
  await engineOf('agent_owner').ledger.sessions()
  return { engine: engineOf('agent_engine'), reader: engineOf('agent_reader') }
}

/** The server's code of what it refuses a query. */
const refused = (query: Promise<unknown>) =>
  query.then(
    () => 'done',
    ({ code, message }: { code: string; message: string }) =>
      `${code} ${/\((\w{5})\)/.exec(message)?.[1] ?? ''}`.trim(),
  )

/** SQL that changes something, or reaches beyond the tables. */
const harmful = {
  "insert into schedules (id) values ('x')": 'invalid_query',
  'with gone as (delete from turns returning id) select * from gone': 'invalid_query 0A000',
  'select id from turns for update': 'invalid_query',
  "select nextval('turn_numbers')": 'invalid_query',
  "select setval('turn_numbers', 1)": 'invalid_query 42501',
  "select set_config('transaction_read_only', 'off', true)": 'invalid_query 25001',
  "select pg_read_file('/etc/passwd')": 'invalid_query 42501',
  "select lo_import('/etc/passwd')": 'invalid_query 42501',
  "select lo_export(1, '/tmp/out')": 'invalid_query 42501',
  'select pg_reload_conf()': 'invalid_query 42501',
  "select * from dblink('host=/tmp', 'select 1') as t (one int)": 'invalid_query 42883',
  'select 1; delete from turns': 'invalid_query 42601',
}

test.skipIf(!hasPostgres)(
  'a query reads, whatever it calls; it leaves nothing on its connection, and the reader ends no connection of the engine',
  async () => {
    const { engine, reader } = await roles()
    expect(await engine.run(context()).result).toMatchObject({ persisted: true })
    for (const by of [engine, reader]) {
      const outcomes: Record<string, string> = {}
      for (const sql of Object.keys(harmful)) outcomes[sql] = await refused(by.ledger.query(sql))
      const expected = { ...harmful }
      // It may not even count.
      if (by === reader) expected["select nextval('turn_numbers')"] = 'invalid_query 42501'
      expect(outcomes).toEqual(expected)
    }
    expect((await engine.ledger.turns()).items).toHaveLength(1)

    // The pool has one connection: each statement has the one before.
    const { ledger } = engine
    const read = async (sql: string) => (await ledger.query(sql)).rows
    const settings = `select current_setting('search_path') as path, current_setting('role') as role,
      current_setting('transaction_read_only') as reads, (select count(*) from pg_locks where locktype = 'advisory') as locks`
    const before = await read(settings)
    await read(`select set_config('search_path', 'pg_temp', false), set_config('statement_timeout', '0', false),
      set_config('default_transaction_read_only', 'off', false), pg_advisory_lock(7)`)
    expect(await read(settings)).toEqual(before)
    expect(before).toMatchObject([{ role: 'none', reads: 'on', locks: 0 }])

    const end =
      "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'agent_engine'"
    expect(await refused(reader.ledger.query(end))).toBe('invalid_query 42501')
  },
)
