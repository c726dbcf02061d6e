// Loads the addon of this platform: the built file in a checkout, otherwise the package of the platform.
// If none can be loaded, the error names the missing package and the remedy. It must never load anything else.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type * as binding from '../../binding.d.ts'
import { AgentEngineError } from '../values/errors.ts'

const PACKAGE = '@nexus/agent-engine'

/** The npm packages that may fit this platform, the likelier first: only the right one can be loaded. */
function candidates(): [likely: string, other?: string] {
  const { platform, arch } = process
  if (platform === 'linux') return [`linux-${arch}-gnu`, `linux-${arch}-musl`]
  return [platform === 'win32' ? `win32-${arch}-msvc` : `${platform}-${arch}`]
}

/** The used part of the process report, which is text on some versions of Node.js. */
interface Report {
  header?: { glibcVersionRuntime?: string }
}

/** Whether this is musl's Linux. glibc names its version in the process report. */
function isMusl(): boolean {
  const report: Report | string | undefined = process.report?.getReport()
  const { header }: Report = typeof report === 'string' ? JSON.parse(report) : (report ?? {})
  return header?.glibcVersionRuntime === undefined
}

/** The used part of the package's manifest. */
interface Manifest {
  name?: string
  optionalDependencies?: Record<string, string>
}

/** The package's manifest; undefined where this code is in a bundle, which takes it away from the binary beside it. */
function readManifest(): Manifest | undefined {
  try {
    const manifest: Manifest = JSON.parse(readFileSync(join(__dirname, 'package.json'), 'utf8'))
    return manifest.name === PACKAGE ? manifest : undefined
  } catch {
    // There is no such file, or, in an ES module, no `__dirname`.
    return undefined
  }
}

/** What to do about an addon that could not be loaded. */
function remedy(name: string): string {
  const manifest = readManifest()
  if (manifest === undefined) {
    return `the code of \`${PACKAGE}\` is in a bundle, and its binary is not; leave the package out of the bundle (esbuild \`external\`, webpack \`externals\`, Next.js \`serverExternalPackages\`), and install it where the bundle runs`
  }
  const supported = Object.keys(manifest.optionalDependencies ?? {})
  return supported.length === 0 || supported.includes(name)
    ? `install again with optional dependencies (\`npm install --include=optional\`), on the platform where it runs, or add \`${name}\` in the version of \`${PACKAGE}\``
    : `there is none for this platform; supported are ${supported.join(', ')}`
}

/** The error of an addon that could not be loaded, with the error of each attempt. */
function notLoaded(errors: Error[]): AgentEngineError {
  const { platform, arch } = process
  const musl = platform === 'linux' && isMusl()
  const name = `${PACKAGE}-${candidates()[musl ? 1 : 0]}`
  const libc = platform === 'linux' ? (musl ? ' with musl' : ' with glibc') : ''
  const error = new AgentEngineError(
    'addon_not_loaded',
    `the addon for ${platform} ${arch}${libc} could not be loaded; its package is \`${name}\`: ${remedy(name)}`,
  )
  error.cause = new AggregateError(errors, errors.map((each) => each.message).join('\n'))
  return error
}

function load(): typeof binding {
  const errors: Error[] = []
  for (const name of candidates()) {
    for (const path of [`./agent-engine.${name}.node`, `${PACKAGE}-${name}`]) {
      try {
        // Relative to the bundled file.
        return require(path)
      } catch (error) {
        errors.push(error as Error)
      }
    }
  }
  throw notLoaded(errors)
}

export const { NativeBroker, NativeEngine, NativeHub, NativeResultSchema, NativeWorkspace } = load()
