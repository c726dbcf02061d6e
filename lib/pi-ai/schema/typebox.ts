// TypeBox, where the caller has installed it. It must never be loaded before it is used, nor be a dependency.

import { createRequire } from 'node:module'
import { join } from 'node:path'

/** The names of the library: pi 0.54's, and 0.73's. */
const NAMES = ['@sinclair/typebox', 'typebox']

let loaded: Record<PropertyKey, unknown> | undefined

function library(): Record<PropertyKey, unknown> {
  if (loaded !== undefined) return loaded
  const failures: unknown[] = []
  // Beside this package, then where the program is.
  for (const from of [__filename, join(process.cwd(), 'index.js')]) {
    for (const name of NAMES) {
      try {
        loaded = createRequire(from)(name).Type as Record<PropertyKey, unknown>
        return loaded
      } catch (error) {
        failures.push(error)
      }
    }
  }
  const message = `\`Type\` is TypeBox's, which is not installed: install \`${NAMES[0]}\` or \`${NAMES[1]}\``
  throw new Error(message, { cause: failures[0] })
}

/** TypeBox's `Type`. */
const Type: Record<PropertyKey, unknown> = new Proxy(Object.create(null), {
  get: (_, name) => library()[name],
  has: (_, name) => name in library(),
  ownKeys: () => Reflect.ownKeys(library()),
})

/** The schema of a text that is one of `values`. */
function StringEnum(
  values: readonly string[],
  options?: { description?: string; default?: string },
): Record<string, unknown> {
  return { type: 'string', enum: [...values], ...options }
}

export { StringEnum, Type }
