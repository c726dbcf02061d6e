// Owns the completeness of package-lock.json, run by `npm run lock` after a development tool was updated (`npm run lock -- FOLDER` for the
// lock of another folder): names
// each optional binary of another platform that npm left out because the package source in use does not
// have it, because `npm ci` refuses a lock without it. It never changes an entry that npm wrote.
import { readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const path = join(root, process.argv[2] ?? '.', 'package-lock.json')
const lock = JSON.parse(readFileSync(path, 'utf8'))
const entries = lock.packages

/** Whether Node.js would find `name` from the package at `from`, looking outwards. */
function isLocked(from, name) {
  for (
    let base = from;
    ;
    base = base.slice(0, Math.max(0, base.lastIndexOf('node_modules/') - 1))
  ) {
    if (entries[`${base === '' ? '' : `${base}/`}node_modules/${name}`]) return true
    if (base === '') return false
  }
}

/** Where a binary runs, by its name: `tar-linux-x64-musl`, `cli-win32-arm64`, `tar-wasm32-wasi`. */
function platform(name) {
  const [, os, cpu, abi] = /-(android|darwin|freebsd|linux|win32|wasm32)-(\w+)(?:-(\w+))?$/.exec(
    name,
  )
  if (os === 'wasm32') return { cpu: ['wasm32'] }
  if (os !== 'linux') return { cpu: [cpu], os: [os] }
  return { cpu: [cpu], libc: [abi?.startsWith('musl') ? 'musl' : 'glibc'], os: [os] }
}

let added = 0
for (const [from, entry] of Object.entries(entries)) {
  for (const [name, version] of Object.entries(entry.optionalDependencies ?? {})) {
    if (isLocked(from, name)) continue
    const dev = entry.dev === true ? { dev: true } : {}
    entries[`node_modules/${name}`] = { version, ...dev, optional: true, ...platform(name) }
    added += 1
  }
}
lock.packages = Object.fromEntries(
  Object.entries(entries).sort(([a], [b]) => a.localeCompare(b, 'en')),
)
writeFileSync(path, `${JSON.stringify(lock, null, 2)}\n`)
console.log(`${added} optional packages of other platforms added to the lock`)
