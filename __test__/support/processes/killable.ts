// A script of __test__/children in a process of its own, which a test may kill, and whose output lines it waits for. It must never
// share anything with the process except its lines and its standard input.

import { type ChildProcess, spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { childEnv } from './child.js'

export interface Killable {
  process: ChildProcess
  /** Its printed lines. */
  lines: string[]
  /** Waits for a line with this prefix. */
  line(start: string): Promise<string>
  /** Waits for this many lines. It stays pending if the process ends before: race it with `ended`. */
  count(lines: number): Promise<void>
  ended: Promise<NodeJS.Signals | null>
  kill(signal?: NodeJS.Signals): void
}

/** Runs a script of __test__/children that may be killed. */
export function killable(name: string, args: string[], env: Record<string, string> = {}): Killable {
  const script = fileURLToPath(new URL(`../../children/${name}`, import.meta.url))
  const child = spawn(process.execPath, [script, ...args], {
    env: { ...childEnv(), ...env },
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const lines: string[] = []
  const waiting: { start: string; found: (line: string) => void; lost: (error: Error) => void }[] =
    []
  const counting: { least: number; reached: () => void }[] = []
  let rest = ''
  child.stdout.setEncoding('utf8')
  child.stdout.on('data', (chunk: string) => {
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
      const printed = lines.find((line) => line.startsWith(start))
      if (printed !== undefined) return Promise.resolve(printed)
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
