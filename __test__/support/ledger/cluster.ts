// A PostgreSQL server that a spec stops, kills, replicates and fills, beside a pooler and a line that loses answers. Everything ends with
// the spec. It must never use a server of the machine's own, and never run one as root.

import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { afterwards } from '../cleanup.js'
import { killable } from '../processes/killable.js'

const isRoot = process.getuid?.() === 0
const bin = (() => {
  const root = '/usr/lib/postgresql'
  const versions = existsSync(root) ? readdirSync(root) : []
  const newest = versions.toSorted((a, b) => Number(a) - Number(b)).at(-1)
  return newest === undefined ? undefined : join(root, newest, 'bin')
})()

/** Whether this machine can start a server of its own. */
export const hasCluster = bin !== undefined && existsSync(join(bin, 'initdb'))
if (!hasCluster) console.log('skipped: no PostgreSQL (install `postgresql`)')

/** Whether this machine has the pooler. */
export const hasPooler = hasCluster && spawnSync('pgbouncer', ['--version']).status === 0
if (!hasPooler) console.log('skipped: no pgbouncer (install `pgbouncer`)')

/** What runs a program as another user than root, who ends with this process. */
const asUser = isRoot
  ? ['setpriv', '--reuid', 'postgres', '--regid', 'postgres', '--clear-groups']
  : []

function run(command: string[], input?: string): string {
  const [program = '', ...args] = command
  const done = spawnSync(program, args, { encoding: 'utf8', input, cwd: '/tmp' })
  if (done.status !== 0) throw new Error(`${program} ended with ${done.status}: ${done.stderr}`)
  return done.stdout
}

const tool = (name: string, ...args: string[]) => run([...asUser, join(bin ?? '', name), ...args])

/** A folder that belongs to the user of the servers. */
export function ownedFolder(): string {
  const folder = mkdtempSync('/tmp/agent-pg.')
  writeFileSync(join(folder, 'owner'), `${process.pid}\n`)
  chmodSync(folder, 0o755)
  if (isRoot) run(['chown', 'postgres', folder])
  return folder
}

/** A file that the servers' user alone reads. */
export function ownedFile(path: string, text: string): void {
  writeFileSync(path, text, { mode: 0o600 })
  if (isRoot) run(['chown', 'postgres', path])
}

async function until(holds: () => boolean, child: ChildProcess): Promise<void> {
  while (!holds()) {
    if (child.exitCode !== null) throw new Error(`a server ended with ${child.exitCode}`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

/** Starts a program that ends with this process. */
function daemon(command: string[]): ChildProcess {
  const [program = '', ...args] = isRoot ? [...asUser, '--pdeathsig', 'KILL', ...command] : command
  return spawn(program, args, { stdio: 'ignore', cwd: '/tmp' })
}

/** A server with a folder of its own, in which its socket is. */
export class Cluster {
  readonly folder = ownedFolder()
  #server: ChildProcess | undefined
  #port = '5432'

  /** A new server, or a standby of `primary`. */
  constructor(primary?: Cluster) {
    const data = join(this.folder, 'data')
    if (primary === undefined)
      tool('initdb', '-D', data, '-U', 'agent', '-N', '-A', 'trust', '--no-locale', '-E', 'UTF8')
    else {
      const source = ['-h', primary.folder, '-U', 'agent', '-c', 'fast', '-N', '-R']
      tool('pg_basebackup', '-D', data, '-X', 'stream', ...source)
    }
  }

  get url(): string {
    return `postgres://agent@/postgres?host=${this.folder}&port=${this.#port}`
  }

  /** Starts it, with settings in place of the usual ones. */
  async start(others: readonly string[] = []): Promise<this> {
    this.#port = others.find((it) => it.startsWith('port='))?.slice(5) ?? this.#port
    const settings = [
      'listen_addresses=',
      `unix_socket_directories=${this.folder}`,
      'fsync=off',
      'full_page_writes=off',
      'max_connections=200',
      ...others,
    ]
    const server = daemon([
      join(bin ?? '', 'postgres'),
      '-D',
      join(this.folder, 'data'),
      ...settings.flatMap((setting) => ['-c', setting]),
    ])
    this.#server = server
    const ready = ['-q', '-h', this.folder, '-p', this.#port, '-U', 'agent', '-d', 'postgres']
    await until(() => spawnSync(join(bin ?? '', 'pg_isready'), ready).status === 0, server)
    return this
  }

  /** Stops the server as a crash does: no connection ends in order, and nothing is written. */
  async crash(): Promise<void> {
    if (this.#server?.exitCode !== null) return
    const ended = once(this.#server, 'exit')
    this.#server.kill('SIGQUIT')
    await ended
  }

  /** Stops the server in order: its connections end, and it writes everything. */
  async stop(): Promise<void> {
    if (this.#server?.exitCode !== null) return
    const ended = once(this.#server, 'exit')
    this.#server.kill('SIGINT')
    await ended
  }

  /** Pauses all processes of the server until what this returns is called. */
  pause(): () => void {
    const pid = this.#server?.pid ?? 0
    const listed = spawnSync('ps', ['-o', 'pid=', '--ppid', String(pid)], { encoding: 'utf8' })
    const all = [pid, ...listed.stdout.split('\n').filter(Boolean).map(Number)]
    const send = (signal: NodeJS.Signals) => {
      for (const each of all)
        try {
          process.kill(each, signal)
        } catch {
          // A process of a connection that has ended meanwhile.
        }
    }
    send('SIGSTOP')
    return () => send('SIGCONT')
  }

  promote(): void {
    tool('pg_ctl', 'promote', '-w', '-s', '-D', join(this.folder, 'data'))
  }

  reload(): void {
    tool('pg_ctl', 'reload', '-s', '-D', join(this.folder, 'data'))
  }

  /** A statement by the server's own client; its rows as lines. */
  sql(statement: string): string[] {
    const rows = run(['psql', this.url, '-AtqX', '-v', 'ON_ERROR_STOP=1'], statement)
    return rows.split('\n').filter((row) => row !== '')
  }

  /** Another client locks a table until what this returns is called. */
  async locks(table: string, mode = 'access exclusive'): Promise<() => void> {
    const holder = spawn('psql', [this.url, '-qX'], { stdio: ['pipe', 'pipe', 'inherit'] })
    afterwards(() => holder.kill())
    const held = once(holder.stdout, 'data')
    holder.stdin.write(`begin; lock table ${table} in ${mode} mode; select 'locked';\n`)
    await held
    return () => holder.stdin.end('rollback;\n')
  }

  /** Waits until a query has this row first. */
  async has(query: string, row: string): Promise<void> {
    while (this.sql(query)[0] !== row) await new Promise((resolve) => setTimeout(resolve, 10))
  }

  /** Waits until so many statements wait for locks. */
  waiting(count: number): Promise<void> {
    const all = `select count(*) from pg_stat_activity where wait_event_type = 'Lock'`
    return this.has(all, String(count))
  }

  async end(): Promise<void> {
    await this.crash()
    rmSync(this.folder, { recursive: true, force: true })
  }
}

/** A pooler in transaction mode before a server. */
export async function pooler(cluster: {
  folder: string
}): Promise<{ url: string; end(): Promise<void> }> {
  const folder = ownedFolder()
  const file = join(folder, 'pgbouncer.ini')
  const lines = [
    '[databases]',
    `postgres = host=${cluster.folder} user=agent`,
    '[pgbouncer]',
    `unix_socket_dir = ${folder}`,
    'listen_port = 6432',
    'auth_type = any',
    'pool_mode = transaction',
    'default_pool_size = 4',
  ]
  writeFileSync(file, lines.join('\n'))
  const server = daemon(['pgbouncer', '-q', file])
  await until(() => existsSync(join(folder, '.s.PGSQL.6432')), server)
  return {
    url: `postgres://agent@/postgres?host=${folder}&port=6432`,
    end: async () => {
      const ended = once(server, 'exit')
      server.kill('SIGKILL')
      await ended
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** A line to a server, on which answers are lost or late. */
export async function line(cluster: Cluster) {
  const folder = ownedFolder()
  const child = killable('ledger/line.mjs', [
    join(cluster.folder, '.s.PGSQL.5432'),
    join(folder, '.s.PGSQL.5432'),
  ])
  await child.line('open')
  const count = (word: string) => child.lines.filter((it) => it === word).length
  return {
    url: `postgres://agent@/postgres?host=${folder}`,
    /** From now on every n-th answer is lost, or the n-th one alone, or the one after which a statement with this text has taken effect, or the n-th one and everything after it, or each is late, or nothing arrives on either side; or all connections end once. */
    set: async (faults: {
      loseEvery?: number
      loseAt?: number
      loseDone?: string
      freezeAt?: number
      delayMs?: number
      swallows?: boolean
      cuts?: boolean
    }) => {
      const least = count('set') + 1
      child.process.stdin?.write(`${JSON.stringify(faults)}\n`)
      while (count('set') < least) await new Promise((resolve) => setTimeout(resolve, 2))
    },
    lost: () => count('lost'),
    end: async () => {
      child.process.stdin?.end()
      await child.ended
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** A small disk for tables; undefined where this process may not mount one. */
export function smallDisk(size: string) {
  const folder = ownedFolder()
  const at = join(folder, 'disk')
  mkdirSync(at)
  const mount = (...options: string[]) =>
    spawnSync('mount', ['-t', 'tmpfs', '-o', options.join(','), 'tmpfs', at]).status === 0
  const clean = () => rmSync(folder, { recursive: true, force: true })
  if (!isRoot || !mount(`size=${size}`)) {
    clean()
    console.log('skipped: no small disk can be mounted (needs root)')
    return undefined
  }
  run(['chown', 'postgres', at])
  return {
    at,
    grow: (larger: string) => run(['mount', '-o', `remount,size=${larger}`, at]),
    end: () => {
      run(['umount', '-l', at])
      clean()
    },
  }
}
