// The tables of docs/scaling.md: statements, round trips and bytes of a turn and its size; turns a second of 1 and 64 sessions beside the same
// statements sent by a program that does nothing else; the processor time of a turn in 1, 2 and 4 processes, with as many sessions each and
// with the same sessions divided; and how soon another process knows of its end. It prints medians and asserts none.
//
//     node bench/postgres/run.mjs [reps]     # 3; a private server by crates/postgres/serve.sh, with fsync on; a release build
//     node bench/postgres/run.mjs --only wake           # or `processes`, and the repetitions
//
// `FLOOR_PROFILE=dev` builds the program of the floor as a debug addon is built.

import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { built, floor, template } from './floor.mjs'

const only = process.argv[2] === '--only' ? process.argv[3] : undefined
const reps = Number(process.argv[only === undefined ? 2 : 4] ?? 3)
const { AgentEngine, scriptedProvider } = createRequire(import.meta.url)(
  process.env.NEXUS_ENGINE ?? '../../index.js',
)
const at = (name) => fileURLToPath(new URL(name, import.meta.url))
const profile = process.env.FLOOR_PROFILE ?? 'release'
/** The connections of a process, and of the floor. */
const POOL = 32
/** Turns of each session before the time begins, in which connections, plans and code get warm, and in it. */
const [WARM, TURNS] = [40, 200]
const TURNS_ALONE = 1_000
const folder = mkdtempSync(join(tmpdir(), 'postgres-bench-'))
// A setting of the server's command line is not changed by `alter system`.
const settings = ['fsync', 'full_page_writes'].map((name) => `-c ${name}=on`).join(' ')
const server = spawn(at('../../crates/postgres/serve.sh'), [], {
  stdio: ['pipe', 'pipe', 'inherit'],
  env: { ...process.env, POSTGRES_SETTINGS: settings },
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

/** Turns in `processes` processes, each with so many sessions and connections. */
async function engines(processes, sessions, turns, pool = POOL, warm = WARM) {
  const schema = `bench_${schemas++}`
  await opened(new AgentEngine({ ledger: { url, schema } })).then((engine) => engine.close())
  const workers = await Promise.all(
    Array.from({ length: processes }, async (_, n) => {
      const args = [
        at('worker.mjs'),
        url,
        schema,
        String(sessions),
        String(turns),
        `p${n}`,
        String(pool),
        String(warm),
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

/** One turn: what it sends, and what the floor sends again. */
async function oneTurn() {
  const schema = 'captured'
  const label = 'benchlabelxx'
  const labels = Array.from({ length: 64 }, (_, n) => `benchlabel${String(n).padStart(2, '0')}`)
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
  let parent = await turn()
  // A heartbeat, or a flush of deltas while the machine is busy, may come into a turn: the one with the fewest statements has none.
  const tries = []
  for (let n = 0; n < 5; n++) {
    const { counts: before } = await counted()
    const turnId = await turn()
    const { counts: after, statements } = await counted()
    tries.push({ before, after, statements, turnId, parent })
    parent = turnId
  }
  const fewest = Math.min(...tries.map(({ statements }) => statements.length))
  const one = tries.find(({ statements }) => statements.length === fewest)
  const { before, after, statements, turnId } = one
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
  proxy.stdin.end()
  const counts = Object.fromEntries(
    Object.keys(before).map((key) => [key, after[key] - before[key]]),
  )
  const captured = template({ statements, label, labels, known, turnId, parent: one.parent })
  /** The sessions of the floor as they were before the turn, and nothing of an earlier round. */
  const reset = () =>
    sql(
      `delete from turns where session_label like 'benchlabel__' and session_label <> '${label}';
       delete from sessions where label like 'benchlabel__' and label <> '${label}';
       truncate session_moves; truncate events; truncate messages;
       insert into sessions select (jsonb_populate_record(s, jsonb_build_object('label', 'benchlabel' || lpad(c::text, 2, '0'),
         'head', '${one.parent}', 'owner', '${owner}'))).* from sessions s, generate_series(0, 63) c where s.label = '${label}'`,
      schema,
    )
  return { schema, counts, captured, reset }
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
  const args = [at('worker.mjs'), url, schema, '1', '200', 'w', '4', '3']
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

/** Rows of a table in Markdown. */
function table(head, rows) {
  console.log(
    [head, head.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |`).join('\n'),
  )
  console.log()
}

const thousands = (value) => Math.round(value).toLocaleString('en-US')
const milliseconds = (us) => (us / 1_000).toFixed(2)

/** The turns of a floor, whose every turn must be stored, and those of one process. */
async function beside({ schema, captured, reset }, program, sessions) {
  const turns = sessions === 1 ? TURNS_ALONE : TURNS
  const file = join(folder, 'turn.json')
  const rows = []
  for (let rep = 0; rep < reps; rep++) {
    reset()
    const bare = floor({
      program,
      url,
      file,
      turn: captured,
      sessions,
      pool: POOL,
      warm: WARM,
      turns,
    })
    const stored = Number(
      sql(
        `select count(*) from turns where session_label in (${captured.labels.map((it) => `'${it}'`)}) and status = 'completed'`,
        schema,
      ),
    )
    // A program whose turns do not end would be no floor.
    if (stored !== sessions * (WARM + turns)) throw new Error(`the floor stored ${stored} turns`)
    const { perSecond, cpuUs } = await engines(1, sessions, turns)
    rows.push({ bare, perSecond, ratio: perSecond / bare, cpuUs })
  }
  return (key) => median(rows.map((row) => row[key]))
}

/**
 * The processor time of a turn over 1, 2 and 4 processes: with 64 sessions and 32 connections in each, and with these divided; and that of one
 * process with a quarter of them, which shows what is due to the smaller load of a process.
 */
async function overProcesses() {
  const loads = [
    ...[1, 2, 4].map((count) => ({ count, sessions: 64, pool: POOL })),
    ...[2, 4].map((count) => ({ count, sessions: 64 / count, pool: POOL / count })),
    { count: 1, sessions: 16, pool: POOL / 4 },
  ]
  const rounds = loads.map(() => [])
  // One after the other in each round, so that a change of the machine's load is in all.
  for (let rep = 0; rep < reps; rep++) {
    for (const [n, { count, sessions, pool }] of loads.entries()) {
      // As many turns in all, and as many in each process before.
      const [turns, warm] = [(64 * TURNS) / (count * sessions), (64 * WARM) / sessions]
      rounds[n].push(await engines(count, sessions, turns, pool, warm))
    }
  }
  const of = (n, key) => median(rounds[n].map((round) => round[key]))
  table(
    ['Processes', 'sessions, connections of each', 'Turns/s', 'CPU µs a turn', 'more than one'],
    loads.map(({ count, sessions, pool }, n) => [
      count,
      `${sessions}, ${pool}`,
      thousands(of(n, 'perSecond')),
      thousands(of(n, 'cpuUs')),
      n === 0 ? '' : `${Math.round((of(n, 'cpuUs') / of(0, 'cpuUs') - 1) * 100)} %`,
    ]),
  )
}

/** A turn and its size, and turns a second. */
async function figures() {
  const program = built(profile)
  const one = await oneTurn()
  const alone = await beside(one, program, 1)
  const many = await beside(one, program, 64)
  const { schema: sized } = await engines(1, 64, 30)
  sql('vacuum full', sized)
  const size = sql(
    `select round(sum(pg_total_relation_size(c.oid)) / (select count(*) from turns))
     from pg_class c where relkind = 'r' and relnamespace = '${sized}'::regnamespace`,
    sized,
  )
  const content = 4 * 54 + 9 * 45
  const { statements, roundTrips, sent, received } = one.counts
  table(
    ['', ''],
    [
      ['statements, round trips', `${statements}, ${roundTrips}`],
      ['bytes to the server, from it', `${thousands(sent)}, ${thousands(received)}`],
      [
        'bytes stored, with indexes, after `vacuum full`',
        `${thousands(size)} for a content of ${content}`,
      ],
      [
        "processor time of the engine's process",
        `${milliseconds(many('cpuUs'))} ms with 64 sessions, ${milliseconds(alone('cpuUs'))} ms with one`,
      ],
    ],
  )
  const row = (sessions, of) => [
    sessions,
    thousands(of('perSecond')),
    thousands(of('bare')),
    of('ratio').toFixed(2),
  ]
  table(['Sessions', 'Turns/s', 'Floor', 'Ratio'], [row(1, alone), row(64, many)])
}

try {
  if (sql('show fsync') !== 'on') throw new Error('the server does not wait for its disk')
  if (only === undefined) await figures()
  if (only !== 'wake') await overProcesses()
  if (only !== 'processes') {
    const { p50, p95 } = await wakeUps()
    table(
      ['Wake-up', 'ms'],
      [
        ['median', p50.toFixed(1)],
        ['95th percentile', p95.toFixed(1)],
      ],
    )
  }
  const load = loadavg().map((it) => it.toFixed(2))
  console.log(`load average ${load.join(' ')}; the floor's profile: ${profile}`)
} finally {
  server.stdin.end()
  await closed
  rmSync(folder, { recursive: true, force: true })
}
