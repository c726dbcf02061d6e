#!/usr/bin/env node
// `npm run bench`: our engine, the floors and its peers in one interleaved run, as one table with the targets of docs/rules/performance.md.
// It must never run as a test, and never print a figure without the load it was measured under.

import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { measureAlone } from './lib/alone.mjs'
import { measureCommits } from './lib/commits.mjs'
import { measureCounts, missingTools } from './lib/counts.mjs'
import { copyAdapters, install, installed, measure, workFolder } from './lib/harness.mjs'
import { chosen, OTHERS, OURS, VARIANTS } from './lib/plan.mjs'
import { measureStart } from './lib/start.mjs'
import { remarks, table } from './lib/table.mjs'

const BENCH = import.meta.dirname ?? path.dirname(new URL(import.meta.url).pathname)
const ROOT = path.dirname(BENCH)

const { values: options } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    only: { type: 'string', default: '' },
    adapters: { type: 'string', default: '' },
    wire: { type: 'string', default: 'anthropic' },
    reps: { type: 'string' },
    nice: { type: 'string' },
    install: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
})

if (options.help) {
  console.log(fs.readFileSync(path.join(BENCH, 'README.md'), 'utf8'))
} else {
  await main().catch((error) => {
    process.stderr.write(`${error.message}\n`)
    process.exitCode = 1
  })
}

async function main() {
  const plan = chosen(list(options.only))
  const work = workFolder(path.resolve(ROOT, '../shared/bench'))
  if (work === undefined && options.install) {
    throw new Error('nothing to install; set NEXUS_BENCH to the shared bench')
  }
  if (options.install) install(work)
  if (work !== undefined) copyAdapters(work, BENCH)
  const { adapters: present, node, server } = installed(work)
  const engine = path.resolve(process.env.NEXUS_ENGINE ?? path.join(ROOT, 'index.js'))
  const engineError = loadError(node, engine)
  const ledgers = fs.mkdtempSync(
    path.join(process.env.NEXUS_BENCH_LEDGERS ?? os.tmpdir(), 'nexus-ledgers-'),
  )
  process.on('exit', () => fs.rmSync(ledgers, { recursive: true, force: true }))
  const env = { NEXUS_ENGINE: engine, NEXUS_BENCH_LEDGERS: ledgers }
  const reps = Number(options.reps ?? (options.quick ? 3 : 5))
  const wanted = list(options.adapters)
  const shared = { work, node, server, env, nice: options.nice, wire: options.wire }

  const results = []
  for (const workload of plan) {
    const candidates = [
      ...(engineError ? [] : [...OURS, ...VARIANTS.filter((name) => wanted.includes(name))]),
      ...OTHERS.map(({ adapter, floor }) => (floor ? workload.floor : adapter)).filter((name) =>
        present.has(name),
      ),
    ]
    const adapters = candidates.filter((name) => wanted.length === 0 || wanted.includes(name))
    results.push({ workload, ...(await measureWorkload(workload, adapters, reps, shared)) })
  }

  if (results.every(({ rows }) => rows.length === 0)) {
    throw new Error(`nothing could be measured: ${engineError ?? 'no such adapter is installed'}`)
  }
  const missing = OTHERS.filter(
    ({ adapter, floor }) => !present.has(floor ? 'napi-hub' : adapter),
  ).map(({ title }) => title)
  const facts = {
    alone: work === undefined,
    node: version(node),
    server,
    wire: options.wire,
    reps,
    missing,
    lacking: plan.some(({ id }) => id === 'counts') ? missingTools() : [],
    engineError,
    ledgers: path.dirname(ledgers),
  }
  const report = `${table(results, options.wire)}\n\n${remarks(results, facts)}\n`
  store(report, results, facts)
  console.log(report)
}

async function measureWorkload(workload, adapters, reps, shared) {
  if (adapters.length === 0) return { summary: {}, rows: [] }
  const metric = workload.rows[0].metric
  const progressOf = progress(workload, metric)
  if (workload.id === 'w7') {
    return measureStart(
      { ...shared, work: shared.work ?? os.tmpdir(), adapters, reps: Math.max(reps, 3) },
      progressOf,
    )
  }
  const harness = shared.work === undefined ? measureAlone : measure
  if (workload.id === 'w6') return measureCommits({ ...shared, reps }, progressOf)
  if (workload.id === 'counts') {
    const calls = (each) => harness({ ...each, workload: workload.workload }, () => {})
    return measureCounts({ ...shared, adapters }, calls, progressOf)
  }
  const set = { ...workload.set, ...(options.quick ? workload.quick : {}) }
  const run = (names, settings, times) =>
    harness(
      {
        ...shared,
        workload: workload.workload ?? workload.id,
        adapters: names,
        set: settings,
        reps: times,
      },
      progressOf(names.length * times),
    )
  const slow = adapters.filter((name) => workload.slow?.adapters.includes(name))
  const parts = []
  const others = adapters.filter((name) => !slow.includes(name))
  if (others.length > 0) parts.push(await run(others, set, reps))
  if (slow.length > 0) parts.push(await run(slow, { ...set, ...workload.slow.set }, 1))
  return {
    summary: Object.assign({}, ...parts.map(({ summary }) => summary)),
    rows: parts.flatMap(({ rows }) => rows),
  }
}

/** One line to stderr per run, as progress. */
function progress(workload, metric) {
  return (total) => {
    let done = 0
    return (row) => {
      done += 1
      const figure = row.error
        ? `failed: ${row.error.split('\n')[0]}`
        : `${row[metric]?.toFixed(3) ?? ''} ${metric}`
      process.stderr.write(`${workload.title} ${done}/${total} ${row.adapter}: ${figure}\n`)
    }
  }
}

/** Why our engine cannot be measured, or undefined. Tested in a process of its own, with the Node that will run it. */
function loadError(node, engine) {
  const program = `if (typeof require(${JSON.stringify(engine)}).AgentEngine !== 'function') throw new Error('no AgentEngine')`
  const { status, stderr } = spawnSync(node, ['--eval', program], { encoding: 'utf8' })
  if (status === 0) return undefined
  const why = stderr.split('\n').find((line) => /^\w*Error/.test(line)) ?? `exit ${status}`
  return `\`${engine}\` does not load (${why}); build it with \`npm run build\``
}

function version(node) {
  return `Node ${spawnSync(node, ['--version'], { encoding: 'utf8' }).stdout.trim()}`
}

function store(report, results, facts) {
  const folder = path.join(BENCH, 'results')
  const name = new Date().toISOString().replaceAll(':', '-').slice(0, 19)
  fs.mkdirSync(folder, { recursive: true })
  fs.writeFileSync(path.join(folder, `${name}.md`), report)
  fs.writeFileSync(path.join(folder, `${name}.json`), JSON.stringify({ facts, results }, null, 1))
}

function list(text) {
  return text.split(',').filter(Boolean)
}
