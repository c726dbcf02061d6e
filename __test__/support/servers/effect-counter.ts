// The side effect of the recovery tests: a counter over HTTP that remembers every key it was told, and a child that is killed.
// It must never forget an effect that a killed child had.

import { type ChildProcess, spawn } from 'node:child_process'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'

export interface Counter {
  url: string
  /** How often each key was told, by the class of its tool. */
  effects: Map<string, Map<string, number>>
  /** Keys that were asked about. */
  asked: string[]
  close(): Promise<void>
}

/** A counter on the loopback interface. */
export async function counter(): Promise<Counter> {
  const effects = new Map<string, Map<string, number>>()
  const asked: string[] = []
  const server = createServer((request, response) => {
    const [, first = '', second = '', third = ''] = (request.url ?? '').split('/')
    if (first === 'asked') {
      asked.push(third)
      response.end(effects.get(second)?.has(third) ? 'yes' : 'no')
      return
    }
    const keys = effects.get(first) ?? new Map<string, number>()
    effects.set(first, keys)
    keys.set(second, (keys.get(second) ?? 0) + 1)
    response.end('counted')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    effects,
    asked,
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections()
        server.close(() => resolve())
      }),
  }
}

export interface Killable {
  process: ChildProcess
  /** The lines it has printed. */
  lines: string[]
  /** Waits for a line that begins so. */
  line(start: string): Promise<string>
  /** Waits for so many lines. */
  count(lines: number): Promise<void>
  ended: Promise<NodeJS.Signals | null>
  kill(signal?: NodeJS.Signals): void
}

/** Runs a script of __test__/children that may be killed. */
export function killable(name: string, args: string[], env: Record<string, string> = {}): Killable {
  const script = fileURLToPath(new URL(`../../children/${name}`, import.meta.url))
  const { NODE_OPTIONS: _, ...inherited } = process.env
  const child = spawn(process.execPath, [script, ...args], {
    env: { ...inherited, ...env },
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const lines: string[] = []
  const waiting: { start: string; found: (line: string) => void; lost: (error: Error) => void }[] =
    []
  const counting: { least: number; reached: () => void }[] = []
  let rest = ''
  child.stdout.on('data', (chunk: Buffer) => {
    const parts = (rest + chunk).split('\n')
    rest = parts.pop() ?? ''
    for (const line of parts) {
      lines.push(line)
      for (const each of counting) if (lines.length >= each.least) each.reached()
      for (const each of waiting) if (line.startsWith(each.start)) each.found(line)
    }
  })
  const ended = new Promise<NodeJS.Signals | null>((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (_code, signal) => {
      for (const each of waiting) each.lost(new Error(`ended without a line \`${each.start}\``))
      resolve(signal)
    })
  })
  return {
    process: child,
    lines,
    line: (start) => {
      const said = lines.find((line) => line.startsWith(start))
      if (said !== undefined) return Promise.resolve(said)
      return new Promise((found, lost) => waiting.push({ start, found, lost }))
    },
    count: (least) =>
      new Promise((reached) => {
        if (lines.length >= least) reached()
        else counting.push({ least, reached })
      }),
    ended,
    kill: (signal = 'SIGKILL') => {
      child.kill(signal)
    },
  }
}
