// What the parts of a check share. It must never hold code.

type Schema = Record<string, unknown>

interface Problem {
  /** The keys to the value. */
  path: readonly string[]
  message: string
  /** The property that is missing. */
  missing?: string
}

/** What a check needs besides the schema and the value. */
interface Scope {
  root: unknown
  depth: number
}

export type { Problem, Schema, Scope }
