// How an engine proves to a server who it is, through the API: passwords from a function, which may expire, and certificates of clients.
// It must never show a password.

import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { AgentEngine, PostgresLedgerOptions } from '../../../index.js'
import { closing, folder } from '../../support/cleanup.js'
import { context, scriptedEngine } from '../../support/engine.js'
import { Cluster, hasCluster, ownedFile } from '../../support/ledger/cluster.js'

const live = test.skipIf(!hasCluster)
const replies = Array.from({ length: 8 }, () => ({ text: 'done' }))
const engineWith = (ledger: PostgresLedgerOptions | { path: string }) =>
  closing(scriptedEngine(replies, { ledger }).engine)
const run = (engine: AgentEngine, runId: string) => engine.run(context({ runId })).result

let server: Cluster
let port: number
/** What has the authority, and the certificate of the role `agent`. */
let pem: { ca: string; cert: string; key: string }

/** A port that is free on this machine. */
const freePort = () =>
  new Promise<number>((resolve) => {
    const probe = createServer().listen(0, '127.0.0.1', () => {
      const address = probe.address()
      probe.close(() => resolve(typeof address === 'object' ? (address?.port ?? 0) : 0))
    })
  })

/** An authority, and the certificates that it signs. */
function certificates() {
  const at = folder().path
  const openssl = (...args: string[]) => {
    const done = spawnSync('openssl', args, { cwd: at, encoding: 'utf8' })
    if (done.status !== 0) throw new Error(done.stderr)
  }
  const fresh = [
    '-newkey',
    'ec',
    '-pkeyopt',
    'ec_paramgen_curve:prime256v1',
    '-nodes',
    '-days',
    '2',
  ]
  openssl('req', '-x509', ...fresh, '-keyout', 'ca.key', '-out', 'ca.pem', '-subj', '/CN=ca')
  for (const name of ['localhost', 'agent']) {
    const files = ['-keyout', `${name}.key`, '-out', `${name}.pem`]
    const by = ['-CA', 'ca.pem', '-CAkey', 'ca.key', '-addext', `subjectAltName=DNS:${name}`]
    const own = ['-addext', 'basicConstraints=critical,CA:false']
    openssl('req', '-x509', ...fresh, ...files, ...by, ...own, '-subj', `/CN=${name}`)
  }
  return (name: string) => readFileSync(join(at, name), 'utf8')
}

beforeAll(async () => {
  if (!hasCluster) return
  server = new Cluster()
  const read = certificates()
  pem = { ca: read('ca.pem'), cert: read('agent.pem'), key: read('agent.key') }
  for (const [name, from] of [
    ['ca.pem', 'ca.pem'],
    ['server.crt', 'localhost.pem'],
    ['server.key', 'localhost.key'],
  ] as const)
    ownedFile(join(server.folder, 'data', name), read(from))
  port = await freePort()
  const rules = join(server.folder, 'data', 'pg_hba.conf')
  const own = 'local all rotating scram-sha-256\nhostssl all agent 127.0.0.1/32 cert\n'
  writeFileSync(rules, own + readFileSync(rules, 'utf8'))
  await server.start([`listen_addresses=127.0.0.1`, `port=${port}`, 'ssl=on', 'ssl_ca_file=ca.pem'])
  server.sql(`create role rotating login superuser password 'first-s3cret'`)
}, 30_000)
afterAll(() => server?.end())

live('a password from a function is asked for each connection, also an expired one', async () => {
  let valid = 'first-s3cret'
  let asked = 0
  const url = server.url.replace('agent@', 'rotating@')
  const password = async () => {
    asked += 1
    if (valid === '') throw new Error('the vault is closed')
    return valid
  }
  const engine = engineWith({ url, schema: 'rotated', password })
  expect((await run(engine, 'first')).persisted).toBe(true)
  expect(asked).toBeGreaterThan(0)
  const cut = `select pg_terminate_backend(pid) from pg_stat_activity where usename = 'rotating'`
  server.sql(`alter role rotating password 'second-s3cret'; ${cut}`)
  const refused = await run(engine, 'refused')
  expect([refused.stopReason, refused.persisted]).toEqual(['error', false])
  expect(refused.error?.message).toContain('28P01')
  valid = 'second-s3cret'
  expect((await run(engine, 'second')).persisted).toBe(true)
  valid = ''
  server.sql(cut)
  const none = await run(engine, 'none')
  expect([none.error?.detail.code, none.error?.message]).toEqual([
    'storage_io',
    expect.stringContaining('`ledger.password` gave no password: the vault is closed'),
  ])
  expect(JSON.stringify([refused, none])).not.toContain('s3cret')

  valid = 'second-s3cret'
  const file = engineWith({ path: folder().file })
  await run(file, 'copied')
  const before = asked
  const copy = await file.ledger.copyTo({ url, schema: 'copied', password })
  expect([copy.turns, copy.verified, asked > before]).toEqual([1, true, true])
  const failed = await file.ledger
    .copyTo({ url, schema: 'copied', password: () => 7 as unknown as string })
    .catch((error) => error)
  expect([failed.code, failed.field]).toEqual(['invalid_options', 'target.password'])
})

live('a server that demands a certificate of its clients gets one', async () => {
  const url = `postgres://agent@localhost:${port}/postgres`
  const engine = engineWith({ url, schema: 'certified', ssl: pem })
  expect((await run(engine, 'certified')).persisted).toBe(true)
  const encrypted = `select count(*) from pg_stat_ssl where ssl and client_dn = '/CN=agent'`
  expect(Number(server.sql(encrypted)[0])).toBeGreaterThan(0)
  const without = await run(
    engineWith({ url, schema: 'certified', ssl: { ca: pem.ca } }),
    'without',
  )
  expect([without.error?.detail.code, without.error?.message]).toEqual([
    'storage_io',
    expect.stringContaining('28000'),
  ])
  for (const [ssl, field] of [
    [{ ca: pem.ca, cert: pem.cert }, 'ledger.ssl'],
    [{ ...pem, key: 'nothing' }, 'ledger.ssl.cert'],
    [{ ...pem, ca: 'nothing' }, 'ledger.ssl.ca'],
  ] as const)
    expect(() => engineWith({ url, ssl })).toThrow(expect.objectContaining({ field }))
})
