// Where the files of an agent are. It must never create one.

import { homedir } from 'node:os'
import { join, resolve } from 'node:path'

type Environment = Readonly<Record<string, string | undefined>>

/** The files of an agent; absolute. */
interface StatePaths {
  /** `~/.myclaw`. */
  state: string
  config: string
  workspace: string
  /** The transcripts of earlier versions. */
  sessions: string
  logs: string
  ledger: string
}

/** The paths in a state directory; without one, that of the environment. */
function statePaths(given: string | undefined, env: Environment): StatePaths {
  const state =
    given === undefined
      ? (named('MYCLAW_STATE_DIR', env) ?? join(homeOf(env), '.myclaw'))
      : expanded(given, env)
  return {
    state,
    config: named('MYCLAW_CONFIG_PATH', env) ?? join(state, 'myclaw.json'),
    workspace: join(state, 'workspace'),
    sessions: join(state, 'sessions'),
    logs: join(state, 'logs'),
    ledger: join(state, 'agent.db'),
  }
}

/** A path of a user: absolute, and `~` is the home directory. */
function expanded(path: string, env: Environment): string {
  const home = /^~(?=$|[/\\])/
  return resolve(home.test(path) ? join(homeOf(env), path.slice(1)) : path)
}

function named(variable: string, env: Environment): string | undefined {
  const value = env[variable]?.trim()
  return value ? expanded(value, env) : undefined
}

function homeOf(env: Environment): string {
  return env.MYCLAW_HOME?.trim() || homedir()
}

export type { Environment, StatePaths }
export { expanded, statePaths }
