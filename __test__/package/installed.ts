// The package as it is installed in a project, with the addon beside its code as in a checkout, and the program that each runtime and each
// bundle runs. It must never pack or build.

import {
  copyFileSync,
  cpSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** Installs the package into the project at `folder`, and puts the program `smoke.mjs` there. */
export function install(folder: string): void {
  const target = join(folder, 'node_modules', '@nexus', 'agent-engine')
  mkdirSync(target, { recursive: true })
  const { files } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  for (const name of [...files, 'package.json']) {
    cpSync(join(root, name), join(target, name), { recursive: true })
  }
  for (const name of readdirSync(root).filter((name) => name.endsWith('.node'))) {
    link(join(root, name), join(target, name))
  }
  const manifest = { type: 'module', dependencies: { '@nexus/agent-engine': '*' } }
  writeFileSync(join(folder, 'package.json'), JSON.stringify(manifest))
  copyFileSync(
    join(root, '__test__', 'children', 'runtimes', 'smoke.mjs'),
    join(folder, 'smoke.mjs'),
  )
}

/** A large file: a link costs nothing, where the file system can. */
function link(from: string, to: string): void {
  try {
    linkSync(from, to)
  } catch {
    copyFileSync(from, to)
  }
}

/** What the program prints. */
export const printed = {
  texts: ['It is ', 'eleven.'],
  stop: ['end_turn', true, '<turn-1>'],
  toolCalls: [{ room: 'bath', celsius: 11 }],
  sse: true,
  chat: true,
  aborted: 'aborted',
  code: 'unknown_provider',
  history: 10,
  collect: 'function',
  ok: true,
}
