// Checks that no files of JavaScript or TypeScript import each other in a circle: in `lib/`, in the helpers of the tests, and here.
// It must never run a file that it checks. Imports of types count too: a circle of them is hard to read as well.
// Prints each circle, and exits 1 if there is any.
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const FOLDERS = ['lib', '__test__/support', '__test__/children', 'scripts', 'bench']
const SOURCE = /(?<!\.d)\.[cm]?[jt]s$/
const SPECIFIER =
  /\b(?:import|export)\b[^'"`;]*?\bfrom\s*['"](\.[^'"]+)['"]|\bimport\s*\(?\s*['"](\.[^'"]+)['"]/g

const files = FOLDERS.flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => SOURCE.test(name) && !name.includes('node_modules'))
    .map((name) => join(root, folder, name)),
)

/** The file that an import names: TypeScript's `.js` is a `.ts` beside it. */
function resolved(from, specifier) {
  const path = join(dirname(from), specifier)
  const candidates = [path, path.replace(/\.([cm]?)js$/, '.$1ts')]
  return candidates.find((each) => existsSync(each) && statSync(each).isFile())
}

/** The files that each file imports. */
const imports = new Map(
  files.map((file) => {
    const found = [...readFileSync(file, 'utf8').matchAll(SPECIFIER)]
    const paths = found.map(([, from, direct]) => resolved(file, from ?? direct))
    // A file that compares the type of its own exports with a declaration names itself; that is no circle of files.
    return [file, paths.filter((path) => path !== undefined && path !== file)]
  }),
)

const circles = []
const done = new Set()

/** Follows the imports of a file; `path` is how it was reached. */
function visit(file, path) {
  const at = path.indexOf(file)
  if (at >= 0) {
    circles.push([...path.slice(at), file])
    return
  }
  if (done.has(file)) return
  for (const next of imports.get(file) ?? []) visit(next, [...path, file])
  done.add(file)
}

for (const file of files) visit(file, [])
for (const circle of circles) console.error(circle.map((file) => relative(root, file)).join(' → '))
console.log(`${files.length} files, ${circles.length} circles`)
if (circles.length > 0) process.exitCode = 1
