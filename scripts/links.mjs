// Checks that every link of a document, and every page that a source file cites, exists: relative links and anchors in `*.md`,
// and every `docs/….md#anchor` in the sources. It must never use a network: links with a scheme are skipped.
// Prints what does not resolve, and exits 1 if there is any.
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, posix, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const SOURCES =
  /^(src|crates|lib|types|__test__|tests|scripts|examples|bench|benches|fuzz)\/|^[^/]+$/
const TEXT = /\.(rs|js|mjs|mts|ts|sh|json|toml|yml|sql)$/

const listed = execFileSync('git', ['ls-files', '-z', '-co', '--exclude-standard'], {
  cwd: root,
  encoding: 'utf8',
  maxBuffer: 1 << 26,
})
const files = listed.split('\0').filter((file) => file && existsSync(join(root, file)))
const read = (file) => readFileSync(join(root, file), 'utf8')

/** The text without fenced blocks and code spans: their content is no link. Line numbers stay. */
const withoutCode = (text) =>
  text
    .replace(/^( *)(```+|~~~+)[^\n]*\n[\s\S]*?^\1\2[^\n]*$/gm, (block) =>
      block.replace(/[^\n]/g, ' '),
    )
    .replace(/`[^`\n]*`/g, (span) => ' '.repeat(span.length))

const anchorsOf = new Map()

/** The anchors of a document, as GitHub makes them of its headings, and those written as HTML. */
function anchors(file) {
  const known = anchorsOf.get(file)
  if (known) return known
  const found = new Set()
  const times = new Map()
  const text = read(file)
  for (const [, title] of text
    .replace(/^( *)(```+)[\s\S]*?^\1\2$/gm, '')
    .matchAll(/^#{1,6} +(.+?) *#*$/gm)) {
    const slug = title
      .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .toLowerCase()
      .replace(/[^\p{L}\p{M}\p{N}\p{Pc} -]/gu, '')
      .replaceAll(' ', '-')
    const before = times.get(slug) ?? 0
    times.set(slug, before + 1)
    found.add(before === 0 ? slug : `${slug}-${before}`)
  }
  for (const [, id] of text.matchAll(/<a (?:id|name)="([^"]+)"/g)) found.add(id)
  anchorsOf.set(file, found)
  return found
}

const problems = []
let checked = 0

/** Checks that `target` (a path from the root) is there, and has the anchor. */
function check(file, line, written, target, anchor) {
  checked++
  const path = join(root, target)
  if (relative(root, path).startsWith('..') || !existsSync(path)) {
    problems.push(`${file}:${line}: \`${written}\`: there is no such file`)
  } else if (anchor && (!target.endsWith('.md') || statSync(path).isDirectory())) {
    problems.push(`${file}:${line}: \`${written}\`: only a document has anchors`)
  } else if (anchor && !anchors(target).has(anchor)) {
    problems.push(`${file}:${line}: \`${written}\`: \`${target}\` has no such heading`)
  }
}

const lineOf = (text, at) => text.slice(0, at).split('\n').length

for (const file of files.filter((name) => name.endsWith('.md'))) {
  const text = withoutCode(read(file))
  const inline = text.matchAll(/\]\(\s*<?([^)\s>]+)>?(?:\s+"[^"]*")?\s*\)/g)
  const defined = text.matchAll(/^ {0,3}\[[^\]]+\]: *<?(\S+?)>?(?: .*)?$/gm)
  for (const match of [...inline, ...defined]) {
    const written = match[1]
    if (/^[a-z][a-z0-9+.-]*:/i.test(written) || written.startsWith('//')) continue
    const [path, anchor] = written.split('#')
    const target =
      path === '' ? file : posix.normalize(posix.join(posix.dirname(file), decodeURI(path)))
    check(file, lineOf(text, match.index), written, target, anchor && decodeURIComponent(anchor))
  }
}

for (const file of files.filter((name) => SOURCES.test(name) && TEXT.test(name))) {
  const text = read(file)
  for (const match of text.matchAll(/(?<![\w./-])docs\/[\w./-]+\.md(?:#([\w-]+))?/g)) {
    const [written, anchor] = match
    check(file, lineOf(text, match.index), written, written.split('#')[0], anchor)
  }
}

for (const problem of problems) console.error(problem)
console.log(`${checked} links, ${problems.length} that lead nowhere`)
if (problems.length > 0) process.exitCode = 1
