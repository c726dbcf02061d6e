// The coding tools beside those of pi and ripgrep itself, over a tree of many files: how long a call takes, and the CPU time of the process
// and its children. It prints medians and asserts none.
//
//     node bench/coding.mjs [files] [runs]        # 100,000 files, 7 runs; `rg` and `fd` on the PATH for pi's `grep` and `find`

import { execFile, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { availableParallelism, loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'

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
  bash: pi.createBashTool(cwd),
}
const execute = promisify(execFile)
const raw =
  (...args) =>
  () =>
    execute('rg', [...args, cwd], { maxBuffer: 1e9 })
const file = 'p0/q0/file0.ts'
let turn = 0
const edit = () => {
  const [oldText, newText] = turn++ % 2 === 0 ? ['= 30\n', '= thirty\n'] : ['= thirty\n', '= 30\n']
  return { path: file, oldText, newText }
}
const rare = () => ({ pattern: 'needle', limit: 1_000 })
// Name, tool, parameters, the same by ripgrep, and how many at once.
const ROWS = [
  ['grep, rare text', 'grep', rare, raw('needle')],
  ['8 greps at once', 'grep', rare, raw('needle'), 8],
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
  ['bash, echo', 'bash', () => ({ command: 'echo hi' }), undefined],
]

/** The CPU time so far of this process, and of the children that have ended, in milliseconds. */
function cpu() {
  const { user, system } = process.cpuUsage()
  // The fields after the name, which is in parentheses; `cutime` and `cstime` are in ticks of 10 ms.
  const fields = readFileSync('/proc/self/stat', 'utf8').split(') ')[1].split(' ')
  return (user + system) / 1_000 + (Number(fields[13]) + Number(fields[14])) * 10
}

/** The median time of a run, and the mean CPU time of one, in milliseconds. Short ones run more often, so that CPU time has a meaning. */
async function measured(work, atOnce = 1) {
  if (work === undefined) return ['-', '-']
  const once = () => Promise.all(Array.from({ length: atOnce }, work))
  const first = performance.now()
  // The first one warms the caches of the system.
  await once()
  const count = performance.now() - first < 50 ? runs * 30 : runs
  const times = []
  const before = cpu()
  for (let run = 0; run < count; run++) {
    const start = performance.now()
    await once()
    times.push(performance.now() - start)
  }
  const spent = (cpu() - before) / count
  return [
    times.sort((one, other) => one - other)[Math.floor(count / 2)].toFixed(2),
    spent.toFixed(2),
  ]
}

const table = {}
for (const [row, name, params, direct, atOnce] of ROWS) {
  const tool = theirs?.[name]
  const [time, work] = await measured(() => ours[name].execute('1', params()), atOnce)
  const [piTime, piWork] = await measured(tool && (() => tool.execute('1', params())), atOnce)
  const [rgTime, rgWork] = await measured(direct && has('rg') ? direct : undefined, atOnce)
  table[row] = {
    'ours ms': time,
    'ours CPU': work,
    'pi ms': piTime,
    'pi CPU': piWork,
    'rg ms': rgTime,
    'rg CPU': rgWork,
  }
}
const load = loadavg()[0].toFixed(1)
console.log(`${files} files, median of ${runs}, ${availableParallelism()} cores, load ${load}`)
console.table(table)
rmSync(cwd, { recursive: true })
