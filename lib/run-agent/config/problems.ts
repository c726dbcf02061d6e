// Collects what is wrong with a config, so that one error lists everything. It must never contain a value of the config: it may be a key.

import type { AgentEngineErrorCode, AgentEngineIssue } from '../../../index.d.ts'
import { AgentEngineError } from '../../../index.js'

/** The class as it is made: its constructor is not for callers of the package. */
type ErrorClass = new (
  code: AgentEngineErrorCode,
  message: string,
  field?: string,
  error?: undefined,
  issues?: readonly AgentEngineIssue[],
) => AgentEngineError

/** A refusal with one sentence per problem. */
function refusal(
  code: AgentEngineErrorCode,
  issues: readonly [AgentEngineIssue, ...AgentEngineIssue[]],
): AgentEngineError {
  const message = issues.map(({ path, message }) => `\`${path}\`: ${message}`).join('\n')
  const Refusal = AgentEngineError as unknown as ErrorClass
  return new Refusal(code, message, issues[0].path, undefined, issues)
}

/** The problems of one config. */
class ConfigProblems {
  readonly #issues: AgentEngineIssue[] = []
  /** The paths of keys that nobody knows: a warning, not a problem. */
  readonly unknown: string[] = []

  add(path: string, message: string): void {
    this.#issues.push({ path, message })
  }

  /** Throws where there is a problem. */
  check(): void {
    const [first, ...others] = this.#issues
    if (first !== undefined) throw refusal('invalid_options', [first, ...others])
  }
}

export { ConfigProblems, refusal }
