// The coding tools beside those of pi and ripgrep itself, over a tree of many files. It prints medians and asserts none.
//
//     node bench/coding.mjs [files] [runs]        # 100,000 files, 7 runs; `rg` and `fd` on the PATH for pi's `grep` and `find`

import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const files = Number(process.argv[2] ?? 100_000)
const runs = Number(process.argv[3] ?? 7)
const require = createRequire(import.meta.url)
const { createCodingTools } = require(process.env.NEXUS_ENGINE ?? '../index.js')
const pi = await import('@mariozechner/pi-coding-agent').catch(() => undefined)
const has = (program) => spawnSync(program, ['--version']).status === 0

const cwd = mkdtempSync(join(tmpdir(), 'coding-bench-'))
mkdirSync(join(cwd, '.git'))
writeFileSync(join(cwd, '.gitignore'), '*.log\nbuild/\n')
const body = Array.from({ length: 60 }, (_, line) => `export const value${line} = ${line}\n`)
for (let at = 0; at < files; at++) {
  const folder = join(cwd, `p${at % 100}`, `q${Math.floor(at / 100) % 20}`)
  if (at < 2_000) mkdirSync(folder, { recursive: true })
  const text = at % 1_000 === 7 ? `${body.join('')}const needle = 1\n` : body.join('')
  writeFileSync(join(folder, `file${at}.${at % 10 === 3 ? 'log' : 'ts'}`), text)
}

const ours = Object.fromEntries(createCodingTools(cwd).map((tool) => [tool.name, tool]))
const theirs = pi && {
  grep: has('rg') ? pi.createGrepTool(cwd) : undefined,
  find: has('fd') ? pi.createFindTool(cwd) : undefined,
  read: pi.createReadTool(cwd),
  edit: pi.createEditTool(cwd),
  ls: pi.createLsTool(cwd),
}
const raw =
  (...args) =>
  () =>
    execFileSync('rg', [...args, cwd], { maxBuffer: 1e9 })
const file = 'p0/q0/file0.ts'
let turn = 0
const edit = () => {
  const [oldText, newText] = turn++ % 2 === 0 ? ['= 30\n', '= thirty\n'] : ['= thirty\n', '= 30\n']
  return { path: file, oldText, newText }
}
const ROWS = [
  ['grep, rare text', 'grep', () => ({ pattern: 'needle', limit: 1_000 }), raw('needle')],
  [
    'grep, expression',
    'grep',
    () => ({ pattern: 'need\\w+ = \\d', limit: 1_000 }),
    raw('need\\w+ = \\d'),
  ],
  ['grep, found at once', 'grep', () => ({ pattern: 'value1' }), undefined],
  [
    'find *.ts',
    'find',
    () => ({ pattern: '*7.ts', limit: 100_000 }),
    raw('--files', '-g', '*7.ts'),
  ],
  ['read', 'read', () => ({ path: file }), undefined],
  ['edit', 'edit', edit, undefined],
  ['ls', 'ls', () => ({ path: 'p0/q0' }), undefined],
]

/** The median of the runs in milliseconds. */
async function median(work) {
  if (work === undefined) return '-'
  const times = []
  for (let run = 0; run <= runs; run++) {
    const start = performance.now()
    await work()
    // The first one warms the caches of the system.
    if (run > 0) times.push(performance.now() - start)
  }
  return times.sort((one, other) => one - other)[Math.floor(runs / 2)].toFixed(2)
}

const table = {}
for (const [row, name, params, direct] of ROWS) {
  const tool = theirs?.[name]
  table[row] = {
    'ours ms': await median(() => ours[name].execute('1', params())),
    'pi ms': await median(tool && (() => tool.execute('1', params()))),
    'rg ms': await median(direct && has('rg') ? direct : undefined),
  }
}
console.log(`${files} files, median of ${runs}`)
console.table(table)
rmSync(cwd, { recursive: true })
