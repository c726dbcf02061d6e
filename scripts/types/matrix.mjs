// Owns which compilers and settings the published types compile under: the oldest supported TypeScript, the package's own and the newest,
// by both module resolutions, stricter than strict, with and without the DOM. It must never write a file.
// The others than the package's own are in `scripts/types/node_modules` (`npm ci` there); without them it says so, and checks the rest.
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const folder = dirname(fileURLToPath(import.meta.url))
const root = join(folder, '..', '..')
const files = [
  'index.d.ts',
  'web.d.ts',
  'testing.d.ts',
  'ai-sdk.d.ts',
  'pi-ai.d.ts',
  'pi-agent.d.ts',
  'pi-session.d.ts',
  'run-agent.d.ts',
  '__test__/node/broker-interface.test-d.ts',
].map((file) => join(root, file))

const compilers = [
  ['5.5', join(folder, 'node_modules', 'typescript-5.5', 'bin', 'tsc')],
  ['own', join(root, 'node_modules', 'typescript', 'bin', 'tsc')],
  ['7', join(folder, 'node_modules', 'typescript-7', 'bin', 'tsc'), '--ignoreConfig'],
]
/** The settings of a project: on Node.js, and of a bundler's with the DOM. */
const projects = [
  ['--module', 'nodenext', '--moduleResolution', 'nodenext', '--lib', 'es2022'],
  ['--module', 'preserve', '--moduleResolution', 'bundler', '--lib', 'es2022,dom'],
]

/** Compiles once; the errors, empty for none. */
function compile(tsc, options) {
  const args = [tsc, '--noEmit', '--strict', '--exactOptionalPropertyTypes', '--target', 'es2022']
  args.push('--types', 'node', '--typeRoots', join(root, 'node_modules', '@types'))
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      [...args, ...options, ...files],
      { cwd: folder },
      (error, output) => {
        resolve(error === null ? '' : output || String(error))
      },
    )
  })
}

let failed = false
for (const [name, tsc, ...more] of compilers) {
  if (!existsSync(tsc)) {
    console.error(`TypeScript ${name} is not checked: \`${tsc}\` is missing`)
    continue
  }
  for (const project of projects) {
    const errors = await compile(tsc, [...project, ...more])
    const settings = `TypeScript ${name}, ${project[3]}, ${project[5]}`
    console.log(errors === '' ? `${settings}: ok` : `${settings}:\n${errors}`)
    failed ||= errors !== ''
  }
}
process.exitCode = failed ? 1 : 0
