'use strict'
// The addon of this platform. Where it cannot be loaded, an error says which package is missing and what to do.
// It must never choose an addon itself: `binding.js` does.

const { AgentEngineError } = require('./errors.js')

const PACKAGE = '@nexus/agent-engine'

/** The package of a platform, by the names that npm gives it. */
function packageOf({ platform, arch, musl }) {
  if (platform === 'win32') return `${PACKAGE}-win32-${arch}-msvc`
  if (platform === 'linux') return `${PACKAGE}-linux-${arch}-${musl ? 'musl' : 'gnu'}`
  return `${PACKAGE}-${platform}-${arch}`
}

/** This process's platform. glibc names its version in the process report, musl does not. */
function here() {
  const { platform, arch } = process
  if (platform !== 'linux') return { platform, arch, musl: false }
  const report = process.report?.getReport()
  const header = typeof report === 'string' ? JSON.parse(report).header : report?.header
  return { platform, arch, musl: header?.glibcVersionRuntime === undefined }
}

/** What is told of an addon that could not be loaded. */
function notLoaded(cause) {
  const where = here()
  const name = packageOf(where)
  const supported = Object.keys(require('../package.json').optionalDependencies ?? {})
  const known = supported.length === 0 || supported.includes(name)
  const libc = where.platform === 'linux' ? (where.musl ? ' with musl' : ' with glibc') : ''
  const todo = known
    ? `install again with optional dependencies (\`npm install --include=optional\`), on the platform where it runs, or add \`${name}\` in the version of \`${PACKAGE}\``
    : `there is none for this platform; supported are ${supported.join(', ')}`
  const error = new AgentEngineError(
    'addon_not_loaded',
    `the addon for ${where.platform} ${where.arch}${libc} could not be loaded; its package is \`${name}\`: ${todo}`,
  )
  // What each attempt to load it failed with.
  error.cause = cause
  return error
}

function load() {
  try {
    return require('../binding.js')
  } catch (error) {
    throw notLoaded(error)
  }
}

module.exports = load()
