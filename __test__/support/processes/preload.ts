// Small C libraries that are preloaded into a child: they replace one part of the system. Linux, with a C compiler. It must never
// preload anything into this process.

import { execFileSync, spawnSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** Whether preloading works: it needs Linux. */
export const canPreload =
  process.platform === 'linux' && spawnSync('cc', ['--version']).status === 0

/** Compiles `<name>.c` beside this file, and returns the library's path. */
export function library(name: string): string {
  const source = fileURLToPath(new URL(`${name}.c`, import.meta.url))
  // One per process: two that compile in parallel would load each other's partial file.
  const made = fileURLToPath(new URL(`../../../target/${name}-${process.pid}.so`, import.meta.url))
  execFileSync('cc', ['-shared', '-fPIC', '-O1', '-Wall', '-Werror', '-o', made, source, '-ldl'])
  process.once('exit', () => rmSync(made, { force: true }))
  return made
}
