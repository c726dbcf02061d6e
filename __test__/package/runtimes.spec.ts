// The engine in Bun and Deno: one program with all that a host does. They are 200 MB, so only `npm run proof:runtimes` installs them; without
// them this spec reports that it is skipped. It must never install anything.

import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { install, printed } from './installed.js'

const modules = fileURLToPath(new URL('../../scripts/runtimes/node_modules', import.meta.url))
const { platform, arch } = process
const exe = platform === 'win32' ? '.exe' : ''

/** Each runtime: its binary in the packages of this platform, and how it runs a program. */
const runtimes: [name: string, binary: string | undefined, args: string[]][] = [
  ['Node.js', process.execPath, []],
  ['Bun', installed('@oven', `bun-${platform}-${bunArch()}`, 'bin', `bun${exe}`), []],
  [
    'Deno',
    installed('@deno', `${platform}-${arch}${platform === 'linux' ? '-glibc' : ''}`, `deno${exe}`),
    ['run', '--allow-all', '--node-modules-dir=manual'],
  ],
]

function bunArch(): string {
  return arch === 'arm64' ? 'aarch64' : arch
}

function installed(...path: string[]): string | undefined {
  const binary = join(modules, ...path)
  return existsSync(binary) ? binary : undefined
}

let project: string
beforeAll(() => {
  project = mkdtempSync(join(tmpdir(), 'agent-engine-runtimes-'))
  install(project)
})
afterAll(() => rmSync(project, { recursive: true, force: true }))

for (const [name, binary, args] of runtimes) {
  const isSkipped = binary === undefined && process.env.RUNTIMES !== 'required'
  if (isSkipped) console.log(`skipped: ${name} is not installed (npm run proof:runtimes)`)
  test.skipIf(isSkipped)(`a turn with a tool, streams, an abort and a ledger in ${name}`, () => {
    expect(binary, `${name} is installed`).toBeDefined()
    const file = join(mkdtempSync(join(project, 'ledger-')), 'agent.db')
    const out = execFileSync(binary ?? '', [...args, join(project, 'smoke.mjs'), file], {
      cwd: project,
      encoding: 'utf8',
      timeout: 60_000,
    })
    expect(JSON.parse(out)).toEqual(printed)
  })
}
