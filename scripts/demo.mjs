// Owns `npm run demo` on a fresh clone: installs the development tools, builds the addon when it is missing
// or older than its sources, then runs `examples/demo.mjs` with the same arguments. The demo itself is in that file.
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const npm = process.platform === 'win32' ? 'npm.cmd' : 'npm'

const run = (command, args) => {
  const { status } = spawnSync(command, args, {
    cwd: root,
    stdio: 'inherit',
    shell: command === npm && process.platform === 'win32',
  })
  if (status !== 0) process.exit(status ?? 1)
}

/** The time of the newest file at `path`, a file or a folder. */
const newest = (path) => {
  const stat = statSync(path)
  if (!stat.isDirectory()) return stat.mtimeMs
  return Math.max(0, ...readdirSync(path).map((name) => newest(join(path, name))))
}

/** The addon for this machine, whatever its platform suffix. */
const addon = () => readdirSync(root).find((name) => /^agent-engine\..*\.node$/.test(name))

const isStale = () => {
  const name = addon()
  if (!name) return true
  const sources = ['src', 'Cargo.toml', 'Cargo.lock', 'build.rs'].map((path) => join(root, path))
  return Math.max(...sources.map(newest)) > statSync(join(root, name)).mtimeMs
}

if (!existsSync(join(root, 'node_modules', '@napi-rs', 'cli'))) {
  console.log('Installing the build tools …')
  run(npm, ['ci', '--no-audit', '--no-fund', '--ignore-scripts', '--loglevel=error'])
}
if (isStale()) {
  if (spawnSync('cargo', ['--version']).error) {
    console.error('`cargo` is not installed: the addon is built from source here, which needs Rust')
    process.exit(1)
  }
  console.log('Building the addon; the first time this takes two to four minutes …')
  run(npm, ['run', '--silent', 'build:fast'])
}
run(process.execPath, [join('examples', 'demo.mjs'), ...process.argv.slice(2)])
