// The Markdown files of a workspace that are part of the system prompt. It must never read a file outside of the workspace: whoever may
// write in it could otherwise put any file of the machine into a prompt.

import { closeSync, constants, fstatSync, openSync, readFileSync, realpathSync } from 'node:fs'
import { join, sep } from 'node:path'
import type { PromptFile } from '../../../index.d.ts'

/** In the order of the prompt. */
const NAMES = [
  'AGENTS.md',
  'SOUL.md',
  'USER.md',
  'TOOLS.md',
  'IDENTITY.md',
  'HEARTBEAT.md',
  'MEMORY.md',
  'BOOTSTRAP.md',
] as const
const MAX_BYTES = 1024 * 1024

/** The files that exist, in their order; an empty one is left out. */
function bootstrapFiles(workspace: string): PromptFile[] {
  const root = realpathSync(workspace)
  return NAMES.flatMap((name) => {
    const file = read(root, name)
    return file === undefined || file.content?.trim() === '' ? [] : [file]
  })
}

function read(root: string, name: string): PromptFile | undefined {
  const path = join(root, name)
  let file: number
  try {
    // Not to wait at a pipe that has no writer.
    file = openSync(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0))
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return undefined
    return { path: name, content: null, problem: `cannot be read (${code})` }
  }
  try {
    const problem = problemOf(file, path, root)
    if (problem !== undefined) return { path: name, content: null, problem }
    const bytes = readFileSync(file)
    return { path: name, content: new TextDecoder('utf-8', { fatal: true }).decode(bytes) }
  } catch {
    return { path: name, content: null, problem: 'is no UTF-8' }
  } finally {
    closeSync(file)
  }
}

function problemOf(file: number, path: string, root: string): string | undefined {
  // The file that was opened, which a link may have exchanged since.
  const opened = realpathSync(process.platform === 'linux' ? `/proc/self/fd/${file}` : path)
  if (!opened.startsWith(`${root}${sep}`)) return 'leads outside of the workspace'
  const stat = fstatSync(file)
  if (!stat.isFile()) return 'is no file'
  if (stat.size > MAX_BYTES) return 'has more than 1 MiB'
  return undefined
}

export { bootstrapFiles }
