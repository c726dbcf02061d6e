// `${NAME}` in the texts of a config file stands for a variable of the environment, `$${NAME}` for itself. It must never put the value of
// a variable into an error.

import type { Environment } from './paths.ts'
import type { ConfigProblems } from './problems.ts'

const REFERENCE = /\$?\$\{([A-Z_][A-Z0-9_]*)\}/g

/** The value with its references resolved; a variable that is not set is a problem. */
function resolved(
  value: unknown,
  env: Environment,
  problems: ConfigProblems,
  path: string = '',
): unknown {
  if (typeof value === 'string') return text(value, env, problems, path)
  if (Array.isArray(value)) {
    return value.map((item, at) => resolved(item, env, problems, `${path}[${at}]`))
  }
  if (value === null || typeof value !== 'object') return value
  const fields = Object.entries(value).map(([name, field]) => [
    name,
    resolved(field, env, problems, path === '' ? name : `${path}.${name}`),
  ])
  return Object.fromEntries(fields)
}

function text(value: string, env: Environment, problems: ConfigProblems, path: string): string {
  return value.replace(REFERENCE, (reference, name: string) => {
    if (reference.startsWith('$$')) return reference.slice(1)
    const found = env[name]
    if (found) return found
    problems.add(path, `the environment variable \`${name}\` is not set`)
    return ''
  })
}

export { resolved }
