// The cost of a call in counts that do not depend on the machine's load: instructions, system calls, bytes written to the ledger's log.
// It must never time anything, and must report which of its tools is missing.

import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'

/** Calls of a short run and of a long one: the difference is without start-up and warm-up. */
const SHORT = 50
const LONG = 250
/** Adapters that are no Node.js process cannot be run under these tools. */
const NATIVE = ['rust-floor', 'rust-raw']

/** The tools, each with the program it wraps Node.js in and what it reads from the tool's report. */
const TOOLS = [
  {
    name: 'valgrind',
    command: (report) =>
      `valgrind --tool=cachegrind --cache-sim=no --cachegrind-out-file=/dev/null --log-file=${report}`,
    read: (text) => ({
      instructions: Number(/I\s+refs:\s+([\d,]+)/.exec(text)[1].replaceAll(',', '')),
    }),
  },
  {
    name: 'strace',
    command: (report) => `strace -f -y -o ${report}`,
    read: (text) => {
      const counts = { syscalls: 0, fsyncs: 0, logWrites: 0, logBytes: 0 }
      for (const line of text.split('\n')) {
        const call = /^\d+\s+(\w+)\(/.exec(line)?.[1]
        if (call === undefined) continue
        counts.syscalls += 1
        if (call === 'fsync' || call === 'fdatasync') counts.fsyncs += 1
        if (call === 'pwrite64' && line.includes('-wal>')) {
          counts.logWrites += 1
          // The requested system calls: a call that another thread interrupts has its result on a line of its own.
          counts.logBytes += Number(/, (\d+), \d+(?:\)| <unfinished)/.exec(line)?.[1] ?? 0)
        }
      }
      return counts
    },
  },
]

/** The tools that this machine lacks. */
export function missingTools() {
  return TOOLS.map(({ name }) => name).filter((name) => spawnSync(name, ['--version']).error)
}

/**
 * Measures each adapter under each tool, `run(options)` being the harness. The same shape as the harness's: figures by
 * adapter.
 */
export async function measureCounts({ adapters, env, node, ...shared }, run, progressOf) {
  const counted = adapters.filter((name) => !NATIVE.includes(name))
  const lacking = missingTools()
  const tools = TOOLS.filter(({ name }) => !lacking.includes(name))
  const folder = fs.mkdtempSync(path.join(env.NEXUS_BENCH_LEDGERS, 'counts-'))
  const onRun = progressOf(counted.length * tools.length * 2)
  const summary = Object.fromEntries(counted.map((name) => [name, {}]))
  const rows = []
  for (const adapter of counted) {
    for (const tool of tools) {
      const totals = []
      for (const calls of [SHORT, LONG]) {
        const report = path.join(folder, `${adapter}-${tool.name}-${calls}`)
        const options = { ...shared, env, adapters: [adapter], set: { calls }, reps: 1 }
        const result = await run({ ...options, node: wrapper(folder, tool.command(report), node) })
        const { error } = result.summary[adapter]
        if (error) {
          summary[adapter] = { error: `under ${tool.name}: ${error}` }
          break
        }
        totals.push(tool.read(fs.readFileSync(report, 'utf8')))
        onRun({ adapter, tool: tool.name, ...totals.at(-1) })
      }
      const [short, long] = totals
      if (long === undefined) break
      for (const [count, total] of Object.entries(long)) {
        summary[adapter][`${count}_per_call`] = (total - short[count]) / (LONG - SHORT)
      }
    }
    rows.push({ adapter, ...summary[adapter] })
  }
  return { summary, rows }
}

/** A program that the harness starts in the place of Node.js. */
function wrapper(folder, command, node) {
  const file = path.join(folder, 'node.sh')
  fs.writeFileSync(file, `#!/bin/sh\nexec ${command} "${node}" "$@"\n`, { mode: 0o755 })
  return file
}
