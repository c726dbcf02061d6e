#!/usr/bin/env node
// `npm run bench:large`: what grows with size. Ledgers of several sizes, one session of many turns, many idle runs, many streams; each
// figure with its slope from the smallest to the largest. It must never run as a test, and it removes what it wrote.

import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { parseArgs } from 'node:util'

const FOLDER = import.meta.dirname
const { values: options } = parseArgs({
  options: {
    gb: { type: 'string', default: '0.1,1' },
    turns: { type: 'string', default: '1000,10000,100000' },
    deletions: { type: 'string', default: '1000,100000' },
    idle: { type: 'string', default: '1000,10000' },
    streams: { type: 'string', default: '1000,10000' },
    help: { type: 'boolean', default: false },
  },
})

const NOTES = `npm run bench:large -- --gb 0.1,1,10 --turns 1000,10000,100000 --deletions 1000,100000 --idle 1000,10000 --streams 1000,10000
An empty list leaves a part out. NEXUS_BENCH_LEDGERS names the folder for ledgers (10 GB need 21), NEXUS_ENGINE another index.js.`

if (options.help) console.log(NOTES)
else main()

function main() {
  const root = process.env.NEXUS_BENCH_LEDGERS ?? os.tmpdir()
  const folder = fs.mkdtempSync(path.join(root, 'nexus-large-'))
  process.on('exit', () => fs.rmSync(folder, { recursive: true, force: true }))
  print(
    'A ledger of this size, GB',
    numbers(options.gb).map((gb) => {
      const file = path.join(folder, `${gb}.db`)
      const grown = part('grow', { file, bytes: gb * 1e9 })
      const row = { size: gb, turns: grown.turns, written_per_s: grown.turns / grown.grow_s }
      Object.assign(row, part('measure', { file, sessions: grown.sessions }))
      for (const name of fs.readdirSync(folder)) fs.rmSync(path.join(folder, name))
      return row
    }),
  )
  print(
    'A session of this many turns',
    numbers(options.turns).map((turns) => {
      const file = path.join(folder, `${turns}.db`)
      return { size: turns, ...part('thread', { file, turns }) }
    }),
  )
  print(
    'A deletion of this many turns',
    numbers(options.deletions).map((turns) => {
      const file = path.join(folder, `deletion-${turns}.db`)
      return { size: turns, ...part('deletion', { file, turns }) }
    }),
  )
  print(
    'This many idle runs',
    numbers(options.idle).map((runs) => ({ size: runs, ...part('idle', { runs }) })),
  )
  print(
    'This many streams at once',
    numbers(options.streams).map((streams) => ({ size: streams, ...part('streams', { streams }) })),
  )
  console.log(
    `Node ${process.version}, load ${os.loadavg()[0].toFixed(2)}, ${os.cpus().length} cores`,
  )
}

function numbers(list) {
  return list.split(',').filter(Boolean).map(Number)
}

/** Runs a part in a process of its own and returns its figures. */
function part(name, settings) {
  const engine = path.resolve(process.env.NEXUS_ENGINE ?? path.join(FOLDER, '../../index.js'))
  const child = spawnSync(
    process.execPath,
    [path.join(FOLDER, 'worker.mjs'), name, JSON.stringify(settings)],
    {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { ...process.env, NEXUS_ENGINE: engine },
    },
  )
  if (child.status !== 0) throw new Error(`\`${name}\` ended with ${child.error ?? child.status}`)
  return JSON.parse(child.stdout)
}

/** A table: a row for each figure, a column for each size, and how much the figure grows for each tenfold size. */
function print(title, columns) {
  if (columns.length === 0) return
  const [first] = columns
  const last = columns.at(-1)
  const decades = Math.log10(last.size / first.size)
  console.log(
    `\n| ${title} | ${columns.map(({ size }) => size.toLocaleString('en')).join(' | ')} | × per tenfold |`,
  )
  console.log(`|---|${columns.map(() => '--:|').join('')}--:|`)
  for (const name of Object.keys(first)) {
    if (name === 'size') continue
    const values = columns.map((column) => column[name])
    const slope = decades > 0 ? (last[name] / first[name]) ** (1 / decades) : Number.NaN
    const cells = values.map((value) => value.toLocaleString('en', { maximumFractionDigits: 2 }))
    console.log(
      `| ${name} | ${cells.join(' | ')} | ${Number.isFinite(slope) ? slope.toFixed(2) : ''} |`,
    )
  }
}
