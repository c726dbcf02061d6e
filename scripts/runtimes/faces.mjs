// Owns the proof that pi's interfaces, `runAgent` and the command line work as they are published: the package is packed, its files are the root of a
// temporary project with the specs, and the specs and the type tests run there, on each Node.js. It must never build, nor read a file of `lib/`.
//
//   node scripts/runtimes/faces.mjs [--one] [spec …]    `--one`: on this Node.js only

import { execFileSync, spawnSync } from 'node:child_process'
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..')
const SPECS = ['__test__/pi', '__test__/cli']
/** What is about the sources, which a package does not have. */
const SOURCES = ['**/cli/run-agent/json5.spec.ts', '**/cli/run-agent/config.spec.ts']

const CONFIG = `import { defineConfig } from 'vitest/config'
export default defineConfig({
  test: {
    include: ['__test__/**/*.spec.ts'],
    exclude: ${JSON.stringify(SOURCES)},
    pool: 'forks',
    maxWorkers: 4,
    testTimeout: 60_000,
    hookTimeout: 60_000,
    server: { deps: { external: [/\\/(?:index|web|testing|ai-sdk|run-agent|pi-ai|pi-agent|pi-session)\\.js$/, /\\.node$/] } },
  },
})
`

/** A project whose root is the packed package. */
function project(folder) {
  const [{ filename }] = JSON.parse(
    execFileSync('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', folder], {
      cwd: root,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }),
  )
  const place = join(folder, 'project')
  mkdirSync(place)
  execFileSync('tar', ['-xzf', join(folder, filename), '--strip-components=1', '-C', place])
  for (const name of readdirSync(root).filter((each) => each.endsWith('.node'))) {
    symlinkSync(join(root, name), join(place, name))
  }
  // The specs and what they use; the modules are those of the repository.
  cpSync(join(root, '__test__'), join(place, '__test__'), { recursive: true })
  for (const name of ['node_modules', 'crates']) symlinkSync(join(root, name), join(place, name))
  mkdirSync(join(place, 'target'))
  writeFileSync(join(place, 'vitest.config.mts'), CONFIG)
  const compilerOptions = {
    target: 'es2023',
    lib: ['es2023', 'es2024.string'],
    module: 'preserve',
    moduleResolution: 'bundler',
    types: ['node'],
    strict: true,
    noEmit: true,
    skipLibCheck: true,
  }
  const include = ['*.d.ts', '__test__/pi/**/types-*.ts']
  writeFileSync(join(place, 'tsconfig.json'), JSON.stringify({ compilerOptions, include }))
  return place
}

function run(cwd, node, script, args) {
  const { status, error } = spawnSync(node, [join(root, 'node_modules', script), ...args], {
    cwd,
    stdio: 'inherit',
  })
  if (error) throw error
  return status === 0
}

const args = process.argv.slice(2)
const specs = args.filter((each) => each !== '--one')
const nodes = args.includes('--one')
  ? [[process.versions.node, process.execPath]]
  : execFileSync(process.execPath, [join(root, 'scripts', 'nodes.mjs')], { encoding: 'utf8' })
      .trim()
      .split('\n')
      .map((line) => line.split(' '))

const folder = mkdtempSync(join(tmpdir(), 'agent-engine-faces-'))
let isSound = true
try {
  const place = project(folder)
  isSound = run(place, process.execPath, 'typescript/bin/tsc', ['-p', 'tsconfig.json'])
  console.log(isSound ? 'the types of the package fit those of pi' : 'the types do not fit')
  for (const [version, node] of nodes) {
    console.log(`the package on Node.js ${version}`)
    isSound =
      run(place, node, 'vitest/vitest.mjs', ['run', ...(specs.length > 0 ? specs : SPECS)]) &&
      isSound
  }
} finally {
  rmSync(folder, { recursive: true, force: true })
}
process.exit(isSound ? 0 : 1)
