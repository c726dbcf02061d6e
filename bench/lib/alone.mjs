// Our engine alone, for machines without the shared bench: the same figures from a server and a worker of this project.
// It must return what `harness.measure` returns, and never be preferred to it: a figure without a peer means little.

import { fork, spawn } from 'node:child_process'
import os from 'node:os'
import path from 'node:path'

const FOLDER = path.join(path.dirname(path.dirname(new URL(import.meta.url).pathname)), 'alone')

/** Runs one workload over our adapters, interleaved. */
export async function measureAlone({ workload, adapters, set, reps, node, wire, env }, onRun) {
  const server = fork(path.join(FOLDER, 'server.mjs'), {
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  })
  const port = await new Promise((resolve) =>
    server.stdout.once('data', (text) => resolve(Number(text))),
  )
  const rows = []
  try {
    for (let rep = 0; rep < reps; rep++) {
      for (const adapter of rep % 2 ? [...adapters].reverse() : adapters) {
        const params = { ...set, adapter, workload, wire, base: `http://127.0.0.1:${port}` }
        const load = os.loadavg()[0]
        rows.push({ ...(await one(node, params, env)), adapter, rep, load })
        onRun(rows.at(-1))
      }
    }
  } finally {
    server.disconnect()
  }
  return { summary: Object.fromEntries(adapters.map((name) => [name, medians(rows, name)])), rows }
}

async function one(node, params, env) {
  const args = [path.join(FOLDER, 'worker.mjs'), JSON.stringify(params)]
  const child = spawn(node, args, {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let [out, complaints] = ['', '']
  child.stdout.on('data', (text) => {
    out += text
  })
  child.stderr.on('data', (text) => {
    complaints = (complaints + text).slice(-600)
  })
  await new Promise((resolve) => child.on('close', resolve))
  const last = out.trim().split('\n').pop()
  return last ? JSON.parse(last) : { error: complaints || 'no output' }
}

function medians(rows, adapter) {
  const own = rows.filter((row) => row.adapter === adapter)
  const good = own.filter((row) => !row.error)
  if (good.length === 0) return { error: own[0]?.error ?? 'not run' }
  const metrics = Object.keys(good[0]).filter((key) => typeof good[0][key] === 'number')
  return Object.fromEntries(
    metrics.map((key) => {
      const values = good.map((row) => row[key]).sort((a, b) => a - b)
      return [key, values[values.length >> 1]]
    }),
  )
}
