// All problems of a refused input: an error lists every one. The usual input is read once, and nothing here runs. It must never replace
// a refusal by another error.

import type { AgentEngineIssue } from '../../index.d.ts'
import { AgentEngineError, type Code, ownText } from './errors.ts'
import { suggested } from './field-names.ts'

/** Receives a refusal: throws it, or notes it so that the reader goes on. */
type Refuse = (error: unknown) => void

/** A problem as the native side lists it. */
interface Problem extends AgentEngineIssue {
  code: Code
}

const INVALID: readonly Code[] = [
  'invalid_options',
  'invalid_context',
  'context_failed',
  'invalid_tool',
  'invalid_label',
  'invalid_target',
  'unknown_provider',
  'unknown_model',
]

/** Throws a refusal at once: an input is read to its first problem. */
const throwing: Refuse = (error) => {
  throw error
}

/** The result of `read`; `instead` where it refuses and `refuse` goes on. */
function noted<Value>(refuse: Refuse, read: () => Value): Value | undefined
function noted<Value>(refuse: Refuse, read: () => Value, instead: Value): Value
function noted<Value>(refuse: Refuse, read: () => Value, instead?: Value): Value | undefined {
  try {
    return read()
  } catch (error) {
    refuse(error)
    return instead
  }
}

/** Notes problems. */
class Problems {
  readonly list: Problem[] = []

  readonly note: Refuse = (error) => {
    if (!(error instanceof AgentEngineError)) throw error
    for (const issue of error.issues) this.list.push({ ...issue, code: error.code })
  }

  /** Adds the problems that the native side lists. */
  add(json: string): void {
    for (const problem of JSON.parse(json) as Problem[]) {
      this.list.push({ ...problem, message: suggested(problem.message) })
    }
  }
}

/** The result of `call`; where it refuses an input, the refusal with all problems, which `find` adds to the first one. */
function listing<Value>(call: () => Value, find: (problems: Problems) => void): Value {
  try {
    return call()
  } catch (error) {
    throw listed(error, find)
  }
}

function listed(error: unknown, find: (problems: Problems) => void): unknown {
  if (!(error instanceof AgentEngineError) || !INVALID.includes(error.code)) return error
  const problems = new Problems()
  problems.note(error)
  try {
    find(problems)
  } catch {
    // The input cannot be read a second time: what was found until then is listed.
  }
  const issues = new Map<string, AgentEngineIssue>()
  for (const { path, message } of problems.list) {
    if (!issues.has(path)) issues.set(path, { path, message })
  }
  if (issues.size < 2) return error
  const [, ...others] = issues.values()
  const lines = [ownText(error), ...others.map(({ path, message }) => `\`${path}\`: ${message}`)]
  const whole = new AgentEngineError(error.code, lines.join('\n'), error.field, error.error, [
    ...issues.values(),
  ])
  if (error.stack !== undefined) {
    // Where it was refused, under the whole message.
    const frames = error.stack.slice(error.stack.indexOf('\n    at '))
    whole.stack = `${whole.name}: ${whole.message}${frames}`
  }
  return whole
}

export type { Refuse }
export { listed, listing, noted, Problems, throwing }
