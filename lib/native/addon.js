// The addon of this platform: the file beside the package's own in a checkout, the package of the platform elsewhere.
// Where none can be loaded, an error says which package is missing and what to do. It must never load anything else.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { AgentEngineError } from '../values/errors.js'

const PACKAGE = '@nexus/agent-engine'

/** The names that npm gives the packages of this platform, the likelier first: only the one that fits can be loaded. */
function candidates() {
  const { platform, arch } = process
  if (platform === 'linux') return [`linux-${arch}-gnu`, `linux-${arch}-musl`]
  return [platform === 'win32' ? `win32-${arch}-msvc` : `${platform}-${arch}`]
}

/** Whether this is musl's Linux. glibc names its version in the process report. */
function isMusl() {
  const report = process.report?.getReport()
  const header = typeof report === 'string' ? JSON.parse(report).header : report?.header
  return header?.glibcVersionRuntime === undefined
}

/** The error of an addon that could not be loaded, with what each attempt failed with. */
function notLoaded(errors) {
  const { platform, arch } = process
  const musl = platform === 'linux' && isMusl()
  const name = `${PACKAGE}-${candidates()[musl ? 1 : 0]}`
  const manifest = JSON.parse(readFileSync(join(__dirname, 'package.json'), 'utf8'))
  const supported = Object.keys(manifest.optionalDependencies ?? {})
  const known = supported.length === 0 || supported.includes(name)
  const libc = platform === 'linux' ? (musl ? ' with musl' : ' with glibc') : ''
  const todo = known
    ? `install again with optional dependencies (\`npm install --include=optional\`), on the platform where it runs, or add \`${name}\` in the version of \`${PACKAGE}\``
    : `there is none for this platform; supported are ${supported.join(', ')}`
  const error = new AgentEngineError(
    'addon_not_loaded',
    `the addon for ${platform} ${arch}${libc} could not be loaded; its package is \`${name}\`: ${todo}`,
  )
  error.cause = new AggregateError(errors, errors.map((each) => each.message).join('\n'))
  return error
}

function load() {
  const errors = []
  for (const name of candidates()) {
    for (const path of [`./agent-engine.${name}.node`, `${PACKAGE}-${name}`]) {
      try {
        // Relative to the one file that all of this is joined into.
        return require(path)
      } catch (error) {
        errors.push(error)
      }
    }
  }
  throw notLoaded(errors)
}

export const { NativeEngine, NativeHub } = load()
