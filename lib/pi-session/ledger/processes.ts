// Which process a spool is of. A number of a process is given again, and in a container it is often 1: when the process began tells them apart, where the
// system says so. It must never take a running process for one that has ended.

import { readFileSync } from 'node:fs'

/** The fields after the program's name, which may have any character; the start is the 20th of them. */
const START = 19
/** `123-…`, or `123.456-…` with the start. */
const NAME = /^(\d+)(?:\.(\d+))?-/

/** When a process began, in ticks since the machine did; undefined where the system does not say. */
function startOf(pid: number): string | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'latin1')
    return text.slice(text.lastIndexOf(')') + 2).split(' ')[START]
  } catch {
    return undefined
  }
}

let name: string | undefined

/** The name of this process. */
function ownName(): string {
  const start = startOf(process.pid)
  name ??= start === undefined ? String(process.pid) : `${process.pid}.${start}`
  return name
}

/** Whether the process that a name begins with may still run. */
function isRunning(named: string): boolean {
  const [, pid, start] = NAME.exec(named) ?? []
  if (!isAlive(Number(pid))) return false
  const now = startOf(Number(pid))
  if (start !== undefined && now !== undefined) return start === now
  // A name without a start is not ours where ours has one.
  return Number(pid) !== process.pid || !ownName().includes('.')
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    // Another user's process.
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

export { isRunning, ownName }
