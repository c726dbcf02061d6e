// Owns docs/api: one page for each entry of the package, made by TypeDoc from its declarations. It must never add a sentence.
// `--check` changes nothing and fails if a committed page is not what would be written.
import { execFileSync } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '../..')
const target = join(root, 'docs', 'api')
const made = mkdtempSync(join(tmpdir(), 'agent-engine-api-'))

/** The anchors of a page's headings: those that occur once, and all. */
function anchors(page) {
  const all = [...page.matchAll(/^#{1,6} (.+)$/gm)].map(([, title]) =>
    title
      .toLowerCase()
      .replace(/[^\w\- ]/g, '')
      .replaceAll(' ', '-'),
  )
  return new Set(all.filter((anchor) => all.indexOf(anchor) === all.lastIndexOf(anchor)))
}

/** TypeDoc numbers some headings that occur once. */
function withLinksRepaired(page) {
  const single = anchors(page)
  return page.replace(/\(#([\w-]+)-\d+\)/g, (link, anchor) =>
    single.has(anchor) ? `(#${anchor})` : link,
  )
}

try {
  execFileSync(
    process.execPath,
    [
      join(root, 'node_modules/typedoc/bin/typedoc'),
      '--out',
      made,
      '--logLevel',
      'Warn',
      '--treatWarningsAsErrors',
    ],
    { cwd: root, stdio: ['ignore', 'inherit', 'inherit'] },
  )
  const pages = readdirSync(made)
    .filter((name) => name.endsWith('.md'))
    .map((name) => [
      name,
      `${withLinksRepaired(readFileSync(join(made, name), 'utf8')).trimEnd()}\n`,
    ])
  const found = (name) => {
    const path = join(target, name)
    return existsSync(path) ? readFileSync(path, 'utf8') : undefined
  }
  const names = new Set(pages.map(([name]) => name))
  const extra = existsSync(target) ? readdirSync(target).filter((name) => !names.has(name)) : []
  const stale = [
    ...pages.filter(([name, text]) => found(name) !== text).map(([name]) => name),
    ...extra,
  ]
  if (stale.length === 0) {
    console.log('docs/api is up to date')
  } else if (process.argv.includes('--check')) {
    console.error(
      `docs/api does not match the declarations (${stale.join(', ')}): run \`npm run api-docs\` and commit the result`,
    )
    process.exitCode = 1
  } else {
    rmSync(target, { recursive: true, force: true })
    mkdirSync(target, { recursive: true })
    for (const [name, text] of pages) writeFileSync(join(target, name), text)
    console.log('docs/api written')
  }
} finally {
  rmSync(made, { recursive: true, force: true })
}
