// Owns which Node.js versions the tests run on: prints one `version path` line for each, the current one
// first. It must never put a second `node` on the PATH.
// Without the packages for this platform (they exist for Linux on x64 and arm64) it prints the current one
// only and reports it on stderr; the release workflow runs the other platforms on their own versions.
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const folder = join(dirname(fileURLToPath(import.meta.url)), 'nodes', 'node_modules')
const current = Number(process.versions.node.split('.')[0])

console.log(`${current} ${process.execPath}`)
for (const version of [22, 24]) {
  if (version === current) continue
  const path = join(folder, `node${version}-${process.platform}-${process.arch}`, 'bin', 'node')
  if (existsSync(path)) console.log(`${version} ${path}`)
  else console.error(`Node.js ${version} is not tested: \`${path}\` is missing`)
}
