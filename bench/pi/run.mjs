// pi's interfaces beside pi itself: the same program with the import lines changed, each row in a process of its own (`--together`: all in one). It
// prints medians and ratios, and asserts nothing.
//
//     node bench/pi/run.mjs [--reps 5] [--only W1,W2] [--together] [--engine <folder of the built package>]

import { execFile, fork } from 'node:child_process'
import { cpus, loadavg } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { parseArgs, promisify } from 'node:util'

const ROWS = ['W1', 'W2', 'W3', 'W3r80', 'W3r200', 'W3args']
const here = fileURLToPath(new URL('.', import.meta.url))
const root = fileURLToPath(new URL('../..', import.meta.url))
const { values } = parseArgs({
  options: {
    reps: { type: 'string', default: '5' },
    only: { type: 'string', default: ROWS.join() },
    together: { type: 'boolean', default: false },
    engine: { type: 'string', default: root },
  },
})
const file = (name) => pathToFileURL(join(values.engine, name)).href
const clients = {
  'pi 0.54': ['@mariozechner/pi-ai', '@mariozechner/pi-agent-core'],
  'pi 0.73': ['pi-ai-073', 'pi-agent-core-073'],
  engine: [file('pi-ai.js'), file('pi-agent.js')],
}
const run = promisify(execFile)
const server = fork(join(here, 'server.mjs'))
const port = await new Promise((resolve) => server.once('message', resolve))

const figures = {}
const processes = values.together ? [values.only] : values.only.split(',')
for (let rep = 0; rep < Number(values.reps); rep++) {
  for (const rows of processes) {
    for (const [name, modules] of Object.entries(clients)) {
      const args = [join(here, 'client.mjs'), String(port), ...modules, rows]
      const { stdout } = await run(process.execPath, args, { cwd: root })
      for (const [row, microseconds] of Object.entries(JSON.parse(stdout))) {
        figures[row] ??= {}
        figures[row][name] ??= []
        figures[row][name].push(microseconds)
      }
    }
  }
}
server.kill()

const median = (list) => list.toSorted((one, other) => one - other)[Math.floor(list.length / 2)]
const shown = (microseconds) =>
  microseconds >= 10_000
    ? `${(microseconds / 1000).toFixed(0)} ms`
    : `${microseconds.toFixed(microseconds < 100 ? 1 : 0)} µs`
console.log(`Node ${process.version}, ${cpus().length} cores, load ${loadavg()[0].toFixed(1)}`)
console.table(
  Object.fromEntries(
    Object.entries(figures).map(([row, byClient]) => {
      const ours = median(byClient.engine)
      const cells = Object.entries(byClient).map(([name, list]) => [name, shown(median(list))])
      const ratios = Object.entries(byClient)
        .filter(([name]) => name !== 'engine')
        .map(([name, list]) => [`${name} ÷ engine`, (median(list) / ours).toFixed(1)])
      return [row, Object.fromEntries([...cells, ...ratios])]
    }),
  ),
)
