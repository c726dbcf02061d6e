// The sentences of a value that a schema of the host's refuses, in the form of the engine's own. Everything in them is bounded:
// the model reads them. It must never repeat a long value.

import { boundedJson } from '../values/bounded-json.ts'
import { clip } from '../values/errors.ts'

const MAX_LINES = 12
/** Characters of one line. */
const MAX_LINE = 240
/** Characters of the arguments that are shown. */
const MAX_RECEIVED = 400

/** An issue of a Standard Schema. Nothing is known of what a library writes. */
interface Issue {
  message?: unknown
  path?: unknown
}

/** The message of arguments that were refused. */
function refusedArguments(tool: string, issues: readonly Issue[], received: unknown): string {
  const shown = clip(boundedJson(received, MAX_RECEIVED).json ?? String(received), MAX_RECEIVED)
  return `Validation failed for tool "${tool}":${lines(issues)}\n\nReceived arguments:\n${shown}`
}

/** The message of a result that was refused; `lines` begins with a line break. */
function refusedResult(tool: string, text: string): string {
  return `The result of tool "${tool}" does not fit its outputSchema:${text}`
}

/** A line for each issue. */
function lines(issues: readonly Issue[]): string {
  const shown = issues.slice(0, MAX_LINES).map((issue) => {
    const { message, path } = issue ?? {}
    return `\n  - ${clip(`${pathOf(path)}: ${String(message)}`, MAX_LINE)}`
  })
  const more = issues.length - shown.length
  if (more > 0) shown.push(`\n  - and ${more} more`)
  return shown.join('')
}

/** The path of an issue: names, or objects with a name as `key`. */
function pathOf(path: unknown): string {
  if (!Array.isArray(path) || path.length === 0) return 'root'
  const names = path.map((part: unknown) =>
    String(typeof part === 'object' && part !== null ? (part as { key?: unknown }).key : part),
  )
  return names.join('/')
}

export type { Issue }
export { lines, refusedArguments, refusedResult }
