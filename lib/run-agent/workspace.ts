// The directories of an agent. It must never change a file that exists.

import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { StatePaths } from './config/paths.ts'
import { refusal } from './config/problems.ts'

/** The instructions of a new workspace. */
const AGENTS = `# Agent Instructions

You work in this directory. Files that you create stay here, and later conversations find them.

- Read a file before you change it, and make small changes.
- Say what you did, and what you could not do.
- Ask before you delete something that you did not create.

Edit this file to change how the agent behaves. SOUL.md (persona and tone), USER.md (who you work for), TOOLS.md (how to use
tools), IDENTITY.md, HEARTBEAT.md (recurring tasks), MEMORY.md (what to remember) and BOOTSTRAP.md are read too, if they exist.
`

/** Creates what is missing: the state directory with its folders, the workspace, and its `AGENTS.md`. */
function ensureDirectories(paths: StatePaths, workspace: string): void {
  for (const path of [paths.state, paths.sessions, paths.logs]) directory(path, 'stateDir')
  directory(workspace, 'agent.workspaceDir')
  try {
    writeFileSync(join(workspace, 'AGENTS.md'), AGENTS, { flag: 'wx' })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw unusable(workspace, error)
  }
}

/** Only its owner may read what an agent works on. */
function directory(path: string, field: string): void {
  try {
    mkdirSync(path, { recursive: true, mode: 0o700 })
  } catch (error) {
    throw unusable(path, error, field)
  }
}

function unusable(path: string, error: unknown, field = 'agent.workspaceDir') {
  const { code } = error as NodeJS.ErrnoException
  return refusal('invalid_options', [
    { path: field, message: `\`${path}\` cannot be made a directory of the agent (${code})` },
  ])
}

export { ensureDirectories }
