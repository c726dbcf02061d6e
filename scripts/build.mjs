// Owns how the addon is built: napi's CLI with the project's file names, link-time optimisation on, then the types and `index.js`.
// It must never choose a profile by itself: `node scripts/build.mjs --release`, or `--profile fast`, or nothing (debug).

import { spawnSync } from 'node:child_process'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const args = process.argv.slice(2)
// cargo-zigbuild and cargo-cross are started by napi itself and do not use the wrapper.
const cross =
  args.includes('-x') || args.includes('--cross-compile') || args.includes('--use-cross')
const wrapper = join(
  root,
  'scripts',
  process.platform === 'win32' ? 'cargo-addon.cmd' : 'cargo-addon',
)
const env = cross ? process.env : { ...process.env, CARGO: wrapper }
const names = ['--platform', '--no-js', '--dts', 'binding.d.ts', '--no-const-enum']

run('npx', ['napi', 'build', ...names, ...args], env)
run(process.execPath, [join(root, 'scripts', 'types.mjs')], process.env)
run(process.execPath, [join(root, 'scripts', 'bundle.mjs')], process.env)

function run(command, parameters, environment) {
  const { status, error } = spawnSync(command, parameters, {
    cwd: root,
    env: environment,
    stdio: 'inherit',
    shell: process.platform === 'win32',
  })
  if (error) throw error
  if (status !== 0) process.exit(status ?? 1)
}
