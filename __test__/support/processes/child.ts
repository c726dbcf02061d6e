// Runs a script of __test__/children in a process of its own, and waits for its end. It must never leave one running: a process
// that does not end in time is killed and reported.

import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { onPostgres, preload } from '../ledger/on-postgres.js'

/** The environment of a child: without the options of the test runner, and with the ledgers of this process. */
export function childEnv(): NodeJS.ProcessEnv {
  const { NODE_OPTIONS: _, ...env } = process.env
  return onPostgres ? { ...env, NODE_OPTIONS: `--require=${preload}` } : env
}

export interface Ended {
  code: number | null
  signal: NodeJS.Signals | null
  out: string
  err: string
}

/** Runs `name` with these arguments. `flags` are Node's own. */
export function child(name: string, args: string[] = [], flags: string[] = []): Promise<Ended> {
  const script = fileURLToPath(new URL(`../../children/${name}`, import.meta.url))
  return new Promise((resolve, reject) => {
    const spawned = spawn(process.execPath, [...flags, script, ...args], {
      env: childEnv(),
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: 55_000,
      killSignal: 'SIGKILL',
    })
    let out = ''
    let err = ''
    spawned.stdout.on('data', (chunk) => {
      out += chunk
    })
    spawned.stderr.on('data', (chunk) => {
      err += chunk
    })
    spawned.on('error', reject)
    spawned.on('close', (code, signal) => resolve({ code, signal, out, err }))
  })
}

/** Whether a process of Linux has ended; nobody may have reaped it yet. */
export function isGone(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') Z ')
  } catch {
    return true
  }
}

/** The outcome of a child that ended normally. */
export const clean = (out: string): Ended => ({ code: 0, signal: null, out, err: '' })
