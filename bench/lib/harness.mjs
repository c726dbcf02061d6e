// The shared bench in a work folder outside the project: found or copied, installed on request, and run one workload at a time.
// It must never write into the folder it copies from, nor into this project.

import { spawn, spawnSync } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'

const PEERS = ['floor', 'node24', 'pi054', 'pilatest']

/**
 * The folder to run in: `NEXUS_BENCH_WORK`, an installed one in the temp folder, or a fresh copy of `NEXUS_BENCH` or
 * `beside` there. Undefined where there is none to copy.
 */
export function workFolder(beside) {
  const isHarness = (folder) => fs.existsSync(path.join(folder, 'worker.mjs'))
  const given = process.env.NEXUS_BENCH_WORK
  const installed = path.join(os.tmpdir(), 'bench')
  if (!given && isHarness(installed)) return installed
  const work = given ?? path.join(os.tmpdir(), 'nexus-bench')
  if (isHarness(work)) return work
  const source = process.env.NEXUS_BENCH ?? beside
  if (!isHarness(source)) {
    if (process.env.NEXUS_BENCH === undefined) return undefined
    throw new Error(`no bench in \`${source}\`; set NEXUS_BENCH to the folder with worker.mjs`)
  }
  const leaveOut = new Set(['node_modules', 'target', 'results'])
  fs.cpSync(source, work, { recursive: true, filter: (from) => !leaveOut.has(path.basename(from)) })
  return work
}

/** Installs the peers and builds the server and the floors. About 600 MB and five minutes. */
export function install(work) {
  const step = (folder, command, args) => {
    const cwd = path.join(work, folder)
    process.stderr.write(`${folder}: ${command} ${args.join(' ')}\n`)
    const { status, error } = spawnSync(command, args, {
      cwd,
      stdio: ['ignore', 'ignore', 'inherit'],
    })
    if (status !== 0) throw new Error(`\`${command}\` in \`${cwd}\` ended with ${error ?? status}`)
  }
  for (const peer of PEERS) {
    if (!fs.existsSync(path.join(work, 'peers', peer, 'node_modules'))) {
      step(`peers/${peer}`, 'npm', ['install', '--no-audit', '--no-fund', '--silent'])
    }
  }
  for (const crate of ['mock-rs', 'rust-floor', 'napi-floor']) {
    step(crate, 'cargo', ['build', '--release', '--quiet', '-j1'])
  }
  const addon = path.join(work, 'napi-floor/target/release/libnapi_floor.so')
  fs.copyFileSync(addon, path.join(work, 'napi-floor/napi_floor.node'))
}

/** The peers that can be measured, and the Node.js that runs them. */
export function installed(work) {
  if (work === undefined) return { adapters: new Set(), node: process.execPath, server: 'js' }
  const has = (file) => fs.existsSync(path.join(work, file))
  const node24 = path.join(work, 'peers/node24/node_modules/node/bin/node')
  const adapters = new Set(['floor-http'])
  if (has('napi-floor/napi_floor.node')) {
    for (const name of ['napi-hub', 'napi-hub5ms', 'napi-batch', 'napi-floor']) adapters.add(name)
  }
  if (has('rust-floor/target/release/floor')) adapters.add('rust-floor')
  if (has('peers/pi054/node_modules')) adapters.add('pi-agent-054')
  if (has('peers/pilatest/node_modules')) adapters.add('pi-agent-latest')
  return {
    adapters,
    node: fs.existsSync(node24) ? node24 : process.execPath,
    server: has('mock-rs/target/release/mock-llm') ? 'rs' : 'js',
  }
}

/** Copies our adapters into the harness's folder. */
export function copyAdapters(work, bench) {
  for (const folder of ['adapters', 'lib']) {
    for (const file of fs.readdirSync(path.join(bench, folder))) {
      if (!file.startsWith('nexus')) continue
      fs.copyFileSync(path.join(bench, folder, file), path.join(work, folder, file))
    }
  }
}

/** Runs one workload over the adapters, interleaved. Returns the medians by adapter; `onRun` gets each single run. */
export async function measure(
  { work, workload, adapters, set, reps, node, server, nice, wire, env },
  onRun,
) {
  const out = path.join(work, 'results', `nexus-${process.pid}-${workload}.json`)
  const args = [
    'run.mjs',
    workload,
    '--adapters',
    adapters.join(','),
    '--reps',
    String(reps),
    '--wire',
    wire,
  ]
  args.push('--node', node, '--server', server, '--timeout', '600', '--out', out)
  if (nice !== undefined) args.push('--nice', nice)
  for (const [key, value] of Object.entries(set)) args.push('--set', `${key}=${value}`)
  const child = spawn(process.execPath, args, {
    cwd: work,
    env: { ...process.env, ...env, VERBOSE: '1' },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let pending = ''
  let complaints = ''
  child.stderr.setEncoding('utf8').on('data', (text) => {
    const lines = (pending + text).split('\n')
    pending = lines.pop()
    for (const line of lines) {
      if (line.startsWith('{"')) onRun(JSON.parse(line))
      else complaints = `${complaints}${line}\n`.slice(-2000)
    }
  })
  const code = await new Promise((resolve) => child.on('close', resolve))
  if (code !== 0 || !fs.existsSync(out)) {
    throw new Error(`the harness ended with ${code} in ${workload}: ${complaints || pending}`)
  }
  const { summary, rows } = JSON.parse(fs.readFileSync(out, 'utf8'))
  fs.rmSync(out)
  return { summary, rows }
}
