// The figures of docs/scaling.md: turns a second of 1 and 64 sessions beside the same statements sent by pgbench, the processor time of
// a turn in 1, 2 and 4 processes, statements, round trips and bytes of a turn, its size, and how soon another process knows of its end.
// It prints medians and asserts none.
//
//     node bench/postgres/run.mjs [reps]     # 3; a private server by crates/postgres/serve.sh, with fsync on
//     node bench/postgres/run.mjs --only wake

import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { floor, logged, script } from './floor.mjs'

const isWakeOnly = process.argv[2] === '--only' && process.argv[3] === 'wake'
const reps = isWakeOnly ? 0 : Number(process.argv[2] ?? 3)
const { AgentEngine, scriptedProvider } = createRequire(import.meta.url)(
  process.env.NEXUS_ENGINE ?? '../../index.js',
)
const at = (name) => fileURLToPath(new URL(name, import.meta.url))
const [bin] = spawnSync(
  'sh',
  ['-c', 'ls -d /usr/lib/postgresql/*/bin | sort -t/ -k5 -n | tail -1'],
  {
    encoding: 'utf8',
  },
).stdout.split('\n')
const folder = mkdtempSync(join(tmpdir(), 'postgres-bench-'))
const server = spawn(at('../../crates/postgres/serve.sh'), [], {
  stdio: ['pipe', 'pipe', 'inherit'],
})
const closed = once(server, 'close')
const lines = (child) => createInterface({ input: child.stdout })[Symbol.asyncIterator]()
const url = (await lines(server).next()).value
const home = new URL(url.replace('postgres:', 'http:').replace('@/', '@host/')).searchParams.get(
  'host',
)
const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]
let schemas = 0

function sql(text, schema = 'public') {
  const done = spawnSync('psql', [url, '-AtqXc', text], {
    encoding: 'utf8',
    env: { ...process.env, PGOPTIONS: `-c search_path=${schema}` },
  })
  if (done.status !== 0) throw new Error(done.stderr)
  return done.stdout.trim()
}

/** The engine, once its ledger is open. */
async function opened(engine) {
  await engine.ledger.sessions({ limit: 1 })
  return engine
}

/** Turns in `processes` processes, with `sessions` sessions over all of them. */
async function engines(processes, sessions, turns) {
  const schema = `bench_${schemas++}`
  await opened(new AgentEngine({ ledger: { url, schema } })).then((engine) => engine.close())
  const workers = await Promise.all(
    Array.from({ length: processes }, async (_, n) => {
      const args = [
        at('worker.mjs'),
        url,
        schema,
        String(sessions / processes),
        String(turns),
        `p${n}`,
      ]
      const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] })
      const read = lines(child)
      await read.next()
      return { child, read }
    }),
  )
  for (const { child } of workers) child.stdin.write('go\n')
  const results = await Promise.all(
    workers.map(async ({ read }) => JSON.parse((await read.next()).value.slice('result '.length))),
  )
  const total = results.reduce((sum, each) => sum + each.turns, 0)
  return {
    schema,
    perSecond: total / (Math.max(...results.map(({ ms }) => ms)) / 1_000),
    cpuUs: results.reduce((sum, each) => sum + each.cpuUs, 0) / total,
  }
}

/** One turn: what it sends, and the script that sends the same again. */
async function oneTurn() {
  const schema = 'captured'
  const label = 'benchlabel'
  const proxy = spawn(process.execPath, [at('proxy.mjs'), home, folder], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const answers = lines(proxy)
  await answers.next()
  const counted = async () => {
    proxy.stdin.write('\n')
    return JSON.parse((await answers.next()).value)
  }
  const engine = new AgentEngine({
    ledger: { url: `postgres://agent@/postgres?host=${folder}`, schema, pool: 1 },
    providers: {
      demo: scriptedProvider(
        [{ text: 'The quick brown fox jumps over the lazy dog. '.repeat(9) }],
        {
          repeat: true,
        },
      ),
    },
    models: [{ provider: 'demo', id: 'demo', contextWindow: 1_000_000, maxOutputTokens: 4_096 }],
  })
  const turn = async () => {
    const question = 'How quick is the brown fox, and what does the dog do? '.repeat(4)
    const fields = { model: 'demo', provider: 'demo', systemPrompt: 'You are a test.', history: [] }
    const { turnId } = await engine.run(question, { ...fields, sessionLabel: label }).result
    // What follows a turn (its words, its announcements) belongs to it.
    await new Promise((resolve) => setTimeout(resolve, 300))
    return turnId
  }
  for (let n = 0; n < 4; n++) await turn()
  const parent = await turn()
  const { counts: before } = await counted()
  sql("alter system set log_statement = 'all'")
  sql('select pg_reload_conf()')
  await new Promise((resolve) => setTimeout(resolve, 300))
  const offset = readFileSync(join(home, 'log')).length
  const turnId = await turn()
  const { counts: after, types } = await counted()
  const log = readFileSync(join(home, 'log')).subarray(offset).toString('utf8')
  sql('alter system reset log_statement')
  sql('select pg_reload_conf()')
  const typeNames = new Map(
    sql("select oid, oid::regtype from pg_type where typtype = 'b'")
      .split('\n')
      .map((line) => line.split('|'))
      .map(([oid, name]) => [Number(oid), name]),
  )
  // Every id that the tables had before the turn.
  const known = new Set(
    sql("select id from turns where id <> '' union select run_id from turns", schema).split('\n'),
  )
  known.delete(turnId)
  known.delete(sql(`select run_id from turns where id = '${turnId}'`, schema))
  // An owner is an id and the number of its process.
  const owner = sql(`select owner from sessions where label = '${label}'`, schema)
  known.add(owner.slice(0, 26))
  // It gives up the sessions that it has.
  await engine.close()
  const statements = logged(log)
  const made = script({
    statements,
    types: new Map(types),
    typeNames,
    label,
    known,
    turnId,
    parent,
  })
  sql(
    `insert into turns select (jsonb_populate_record(t, jsonb_build_object('id', '${made.first}', 'n', nextval('turn_numbers'),
       'run_id', 'seed', 'run_number', nextval('run_numbers')))).* from turns t where id = '${parent}';
     insert into sessions select (jsonb_populate_record(s, jsonb_build_object('label', '${label}-' || c,
       'head', '${made.first}', 'owner', '${owner}'))).* from sessions s, generate_series(0, 63) c where s.label = '${label}'`,
    schema,
  )
  const counts = Object.fromEntries(
    Object.keys(before).map((key) => [key, after[key] - before[key]]),
  )
  proxy.stdin.end()
  return { schema, counts, text: made.text }
}

/** From the end of a turn in one process to the moment when another one has it, in milliseconds. */
async function wakeUps() {
  const schema = `bench_${schemas++}`
  const engine = await opened(new AgentEngine({ ledger: { url, schema } }))
  const seen = []
  const following = (async () => {
    for await (const { event } of engine.ledger.watch('w-0')) {
      if (event.type === 'stream_end' && event.final)
        seen.push(performance.timeOrigin + performance.now())
      if (seen.length === 203) return
    }
  })()
  const args = [at('worker.mjs'), url, schema, '1', '200', 'w']
  const env = { ...process.env, BENCH_EVENTS: '1' }
  const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'], env })
  const ends = []
  for await (const line of createInterface({ input: child.stdout })) {
    if (line.startsWith('end ')) ends.push(Number(line.slice(4)))
    if (line === 'ready') child.stdin.write('go\n')
  }
  await following
  await engine.close()
  const waits = ends
    .map((end, n) => seen[n] - end)
    .slice(3)
    .sort((a, b) => a - b)
  return { p50: waits[100], p95: waits[190] }
}

/** Everything but the wake-ups. */
async function figures() {
  const { schema, counts, text } = await oneTurn()
  console.log('a turn', JSON.stringify(counts))
  const file = join(folder, 'turn.sql')
  const beat = (clients) => floor({ bin, url, schema, file, text, clients, seconds: 4 })
  for (const sessions of [1, 64]) {
    const rows = []
    for (let rep = 0; rep < reps; rep++) {
      const stored = Number(sql("select count(*) from turns where status <> 'streaming'", schema))
      const bare = await beat(sessions)
      const done =
        Number(sql("select count(*) from turns where status <> 'streaming'", schema)) - stored
      // A script whose turns do not end would be no floor.
      if (done < bare * 4 * 0.9) throw new Error(`pgbench made ${done} turns in ${bare * 4} tries`)
      const { perSecond, cpuUs } = await engines(1, sessions, sessions === 1 ? 400 : 30)
      rows.push({ bare, perSecond, ratio: perSecond / bare, cpuUs })
    }
    const of = (key) => Math.round(median(rows.map((row) => row[key])) * 100) / 100
    console.log(
      `${sessions} sessions`,
      JSON.stringify({
        engine: of('perSecond'),
        floor: of('bare'),
        ratio: of('ratio'),
        cpuUs: of('cpuUs'),
      }),
    )
  }
  for (const processes of [1, 2, 4]) {
    const rows = []
    for (let rep = 0; rep < reps; rep++) rows.push(await engines(processes, 64, 30))
    const of = (key) => Math.round(median(rows.map((row) => row[key])))
    console.log(
      `${processes} processes`,
      JSON.stringify({ perSecond: of('perSecond'), cpuUs: of('cpuUs') }),
    )
  }
  const { schema: sized } = await engines(1, 64, 30)
  sql('vacuum full', sized)
  const size = sql(
    `select round(sum(pg_total_relation_size(c.oid)) / (select count(*) from turns))
     from pg_class c where relkind = 'r' and relnamespace = '${sized}'::regnamespace`,
    sized,
  )
  const content = 4 * 54 + 9 * 45
  console.log('size', JSON.stringify({ bytesPerTurn: Number(size), content }))
}

try {
  sql('alter system set fsync = on')
  sql('alter system set full_page_writes = on')
  sql('select pg_reload_conf()')
  if (!isWakeOnly) await figures()
  console.log('wake-up, ms', JSON.stringify(await wakeUps()))
  console.log(
    'load',
    loadavg()
      .map((load) => load.toFixed(2))
      .join(' '),
  )
} finally {
  server.stdin.end()
  await closed
  rmSync(folder, { recursive: true, force: true })
}
