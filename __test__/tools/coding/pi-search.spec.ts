// `grep` and `find` beside those of pi-coding-agent 0.54.0, which call ripgrep and fd: the same searches of the same folder give the same
// lines. Where they differ on purpose, the difference and its reason are in the table below. It must never imitate ripgrep or fd: without
// them the comparison is skipped, and the table checks only our side.

import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createFindTool, createGrepTool } from '@mariozechner/pi-coding-agent'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createCodingTools } from '../../../index.js'

type Name = 'grep' | 'find'
type Search = [name: Name, params: Record<string, unknown>]

const PROGRAMS: Record<Name, string> = { grep: 'rg', find: 'fd' }
const MISSING = Object.values(PROGRAMS).filter(
  (program) => spawnSync(program, ['--version']).status !== 0,
)
if (MISSING.length > 0) console.log(`not compared with pi: ${MISSING.join(' and ')} not found`)

let cwd: string

function put(name: string, content: string | Uint8Array) {
  mkdirSync(dirname(join(cwd, name)), { recursive: true })
  writeFileSync(join(cwd, name), content)
}

const WORDS = ['alpha', 'beta', 'Gamma', 'delta(x)', 'größe', 'x.y', '', '  two  words', '\ttab']

beforeAll(() => {
  cwd = mkdtempSync(join(tmpdir(), 'search-pi-'))
  // ripgrep honours `.gitignore` only in a repository.
  mkdirSync(join(cwd, '.git'))
  put('.gitignore', '*.log\n/dist/\n')
  let state = 7
  const random = (below: number) => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648
    return (state >>> 8) % below
  }
  for (let at = 0; at < 120; at++) {
    const folder = ['', 'src/', 'src/deep/er/', 'dist/', '.hidden/', 'a b/'][random(6)]
    const end = ['ts', 'md', 'log', 'spec.ts', 'JSON'][random(5)]
    const lines = Array.from({ length: random(40) }, () => WORDS[random(WORDS.length)])
    put(`${folder}file${at}.${end}`, lines.join('\n'))
  }
  put('long.txt', `alpha ${'y'.repeat(600)}`)
  put('crlf.txt', 'alphax\r\nomegax\r\n')
})

afterAll(() => rmSync(cwd, { recursive: true, force: true }))

async function text(
  tool: { execute(id: string, params: never): Promise<unknown> } | undefined,
  params: object,
): Promise<string> {
  try {
    const result = (await tool?.execute('1', params as never)) as { content: { text: string }[] }
    return result.content[0]?.text ?? ''
  } catch (error) {
    return `error: ${(error as Error).message.replaceAll(`${cwd}/`, '')}`
  }
}

const ours = ([name, params]: Search) =>
  text(
    createCodingTools(cwd).find((tool) => tool.name === name),
    params,
  )
const pi = ([name, params]: Search) =>
  text(name === 'grep' ? createGrepTool(cwd) : createFindTool(cwd), params)

/** The lines of a result: ripgrep and fd give files in no order. */
const sorted = (result: string) => result.split('\n').sort()

const SEARCHES: Search[] = [
  ...['alpha', 'a$', '^[A-Z]', 'größe', '\\bx\\b', 'nowhere', 'two\\s+words', '^$'].map(
    (pattern): Search => ['grep', { pattern, limit: 100_000 }],
  ),
  ['grep', { pattern: 'GAMMA', ignoreCase: true, limit: 100_000 }],
  ['grep', { pattern: 'delta(x)', literal: true, limit: 100_000 }],
  ['grep', { pattern: 'x.y', literal: true, limit: 100_000 }],
  ['grep', { pattern: 'alpha', path: 'src', limit: 100_000 }],
  ['grep', { pattern: 'alpha', path: 'src/deep', glob: '*.md', limit: 100_000 }],
  ['grep', { pattern: 'alpha', glob: '*.spec.ts', limit: 100_000 }],
  ['grep', { pattern: 'alpha', glob: '!*.ts', limit: 100_000 }],
  ['grep', { pattern: 'alpha', glob: '*.log', limit: 100_000 }],
  ['grep', { pattern: 'alpha', path: 'long.txt' }],
  ['grep', { pattern: 'y{500}', path: 'long.txt', context: 2 }],
  ['grep', { pattern: 'mega' }],
  ...['*.ts', '*.json', '*.JSON', 'file1*', '**/*.md', 'deep', 'src', '*.{md,ts}', 'nowhere'].map(
    (pattern): Search => ['find', { pattern }],
  ),
  ['find', { pattern: '*', path: 'src' }],
  ['find', { pattern: '*er', path: 'src/deep' }],
]

test.skipIf(MISSING.length > 0).each(SEARCHES)('as pi: %s %j', async (...search) => {
  expect(sorted(await ours(search))).toEqual(sorted(await pi(search)))
})

/** What differs, why, and both results; `*` where pi's has no fixed order. */
const DIFFERENCES: {
  why: string
  files: Record<string, string | Uint8Array>
  search: Search
  ours: string
  pi: string
}[] = [
  {
    why: 'found names are newest first',
    files: { 'd1/old.x': '', 'd1/new.x': '' },
    search: ['find', { pattern: '*.x', path: 'd1' }],
    ours: 'new.x\nold.x',
    pi: '*',
  },
  {
    why: 'a glob with a slash is about paths, as the description of the tool has it',
    files: { 'd2/src/a/b.spec.ts': '' },
    search: ['find', { pattern: 'src/**/*.spec.ts', path: 'd2' }],
    ours: 'src/a/b.spec.ts',
    pi: 'No files found matching pattern',
  },
  {
    why: 'exactly as many results as the limit are all of them',
    files: { 'd3/a.x': 'y' },
    search: ['find', { pattern: '*.x', path: 'd3', limit: 1 }],
    ours: 'a.x',
    pi: 'a.x\n\n[1 results limit reached. Use limit=2 for more, or refine pattern]',
  },
  {
    why: 'the same for matches',
    files: { 'd3/a.x': 'y' },
    search: ['grep', { pattern: 'y', path: 'd3', limit: 1 }],
    ours: 'a.x:1: y',
    pi: 'a.x:1: y\n\n[1 matches limit reached. Use limit=2 for more, or refine pattern]',
  },
  {
    why: 'a line that is around two matches is there once',
    files: { 'd4/a': 'y\nb\ny\n' },
    search: ['grep', { pattern: 'y', path: 'd4', context: 1 }],
    ours: 'a:1: y\na-2- b\na:3: y',
    pi: 'a:1: y\na-2- b\na-2- b\na:3: y\na-4- ',
  },
  {
    why: 'a line that ends with a carriage return ends before it',
    files: { 'd5/a': 'y\r\nz\r\n' },
    search: ['grep', { pattern: 'y$', path: 'd5' }],
    ours: 'a:1: y',
    pi: 'No matches found',
  },
  {
    why: 'the files of git itself are not searched',
    files: { 'd6/.git/config': 'y', 'd6/a': 'y' },
    search: ['grep', { pattern: 'y', path: 'd6' }],
    ours: 'a:1: y',
    pi: '*',
  },
  {
    why: 'UTF-16 without a byte order mark is text',
    files: { 'd7/a': Buffer.from('yes and no\n', 'utf16le') },
    search: ['grep', { pattern: '^yes', path: 'd7' }],
    ours: 'a:1: yes and no',
    pi: 'No matches found',
  },
  {
    why: 'a byte order mark is not a part of the first line',
    files: { 'd8/a': '\ufeffyes\n' },
    search: ['grep', { pattern: 'yes', path: 'd8' }],
    ours: 'a:1: yes',
    pi: 'a:1: \ufeffyes',
  },
  {
    why: 'nothing outside of the workspace is searched',
    files: {},
    search: ['grep', { pattern: 'root', path: '/etc' }],
    ours: 'error: `/etc` is outside of the workspace; use a path in it',
    pi: '*',
  },
  {
    why: 'a missing folder has one sentence in every tool',
    files: {},
    search: ['grep', { pattern: 'y', path: 'no' }],
    ours: 'error: File not found: no',
    pi: 'error: Path not found: no',
  },
  {
    why: 'a bad pattern has an error that says what to do',
    files: {},
    search: ['grep', { pattern: 'a(' }],
    ours: 'error: the pattern is not a regular expression that can be searched: regex parse error:\n    a(\n     ^\nerror: unclosed group\nUse literal=true to search for the text itself.',
    pi: '*',
  },
]

test.each(DIFFERENCES)('differs: $why', async (difference) => {
  for (const [name, content] of Object.entries(difference.files)) put(name, content)
  if (difference.search[1].path === 'd1') utimesSync(join(cwd, 'd1/old.x'), 1, 1)
  expect(await ours(difference.search)).toBe(difference.ours)
  if (MISSING.length > 0 || difference.pi === '*') return
  expect(await pi(difference.search)).toBe(difference.pi)
  expect(difference.pi).not.toBe(difference.ours)
})

test('links are names for `find`, and are not searched by `grep`', async () => {
  put('d9/real/a', 'y')
  symlinkSync('real', join(cwd, 'd9/link'))
  const searches: Search[] = [
    ['find', { pattern: '*', path: 'd9' }],
    ['grep', { pattern: 'y', path: 'd9' }],
  ]
  expect(sorted(await ours(searches[0] as Search))).toEqual(['link', 'real/', 'real/a'])
  expect(await ours(searches[1] as Search)).toBe('real/a:1: y')
  if (MISSING.length > 0) return
  for (const search of searches) {
    expect(sorted(await ours(search))).toEqual(sorted(await pi(search)))
  }
})
