// Owns the licence check: every crate in `cargo metadata` and every npm package in the lock must have a
// licence that is allowed. The list for crates, which are in the published binary, is the one in
// `deny.toml`; npm packages are only used for development, and may have a few more.
// It must never use the network: it reads what is installed.
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const read = (path) => readFileSync(join(root, path), 'utf8')

const shipped = new Set(
  [.../^allow = \[([^\]]*)\]/m.exec(read('deny.toml'))[1].matchAll(/"([^"]+)"/g)].map((m) => m[1]),
)
const development = new Set([
  ...shipped,
  '0BSD',
  'BlueOak-1.0.0',
  // The browsers' data that webpack reads (caniuse-lite).
  'CC-BY-4.0',
  'MPL-2.0',
  'PSF-2.0',
  'Python-2.0',
])

const MCP_SERVER = { licence: 'MIT', file: 'README.md', text: 'licensed under the MIT License' }

/** Packages whose package.json names no licence, or only a file; each entry names where it was read instead. */
const stated = {
  '@modelcontextprotocol/server-everything': MCP_SERVER,
  '@modelcontextprotocol/server-filesystem': MCP_SERVER,
  '@mistralai/mistralai': { licence: 'Apache-2.0', file: 'LICENSE', text: 'Apache License' },
}

/** Whether an SPDX expression can be met with the allowed licences. `A/B` is the old way to write OR. */
function isAllowed(expression, allowed) {
  const tokens = expression.replaceAll('/', ' OR ').match(/\(|\)|[^\s()]+/g) ?? []
  let at = 0
  const either = () => {
    let value = both()
    while (tokens[at] === 'OR') {
      at += 1
      const right = both()
      value = value || right
    }
    return value
  }
  const both = () => {
    let value = one()
    while (tokens[at] === 'AND') {
      at += 1
      const right = one()
      value = value && right
    }
    return value
  }
  const one = () => {
    const token = tokens[at]
    at += 1
    if (token !== '(') {
      if (tokens[at] !== 'WITH') return allowed.has(token)
      at += 2
      return allowed.has(`${token} WITH ${tokens[at - 1]}`)
    }
    const value = either()
    at += 1
    return value
  }
  return either() && at === tokens.length
}

const problems = []
const check = (kind, name, licence, allowed) => {
  if (!licence) problems.push(`${kind} \`${name}\` names no licence`)
  else if (!isAllowed(licence, allowed)) {
    problems.push(`${kind} \`${name}\` has the licence \`${licence}\`, which is not allowed`)
  }
}

const metadata = JSON.parse(
  execFileSync('cargo', ['metadata', '--format-version', '1', '--locked'], {
    cwd: root,
    encoding: 'utf8',
    maxBuffer: 1 << 28,
  }),
)
for (const crate of metadata.packages) {
  check('crate', `${crate.name} ${crate.version}`, crate.license, shipped)
}

let packages = 0
for (const lock of ['package-lock.json', 'scripts/nodes/package-lock.json']) {
  const folder = dirname(lock)
  for (const [path, entry] of Object.entries(JSON.parse(read(lock)).packages)) {
    if (path === '' || entry.link) continue
    const name =
      entry.name ?? path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length)
    const manifest = join(folder, path, 'package.json')
    const isInstalled = existsSync(join(root, manifest))
    // The tools' binaries for other platforms: the lock contains only their names.
    if (!entry.license && entry.optional && !isInstalled) continue
    packages += 1
    const installed = isInstalled ? JSON.parse(read(manifest)).license : undefined
    let licence = entry.license ?? (typeof installed === 'object' ? installed?.type : installed)
    const known = stated[name]
    if ((!licence || licence.startsWith('SEE LICENSE')) && known) {
      const text = join(folder, path, known.file)
      if (existsSync(join(root, text)) && read(text).includes(known.text)) licence = known.licence
    }
    check('npm package', `${name} ${entry.version}`, licence, development)
  }
}

for (const problem of problems) console.error(problem)
if (problems.length > 0) {
  console.error(
    'Choose another dependency, or allow the licence in `deny.toml` (crates) or here (npm), with its reason',
  )
  process.exitCode = 1
} else {
  console.log(
    `licences of ${metadata.packages.length} crates and ${packages} npm packages are allowed`,
  )
}
