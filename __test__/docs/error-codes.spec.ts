// Every code of an error of the package has its anchor in docs/guide/errors.md, and the page has no other. It must never
// list a code itself: they are read from the sources.

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const root = join(import.meta.dirname, '../..')
const read = (path: string) => readFileSync(join(root, path), 'utf8')

/** The values of `as_str` and `code` in a Rust file: `Self::Name => "code"`. */
function rustCodes(path: string, from: string): string[] {
  const source = read(path)
  const start = source.indexOf(from)
  expect(start, `${path} has \`${from}\``).toBeGreaterThan(-1)
  const body = source.slice(start, source.indexOf('\n    }\n', start))
  return [...body.matchAll(/Self::\w+ => "(\w+)"/g)].map(([, code]) => code ?? '')
}

/** The codes of the JavaScript code. */
function faceCodes(): string[] {
  const files = readdirSync(join(root, 'lib'), { recursive: true, encoding: 'utf8' }).filter(
    (name) => name.endsWith('.ts'),
  )
  return files.flatMap((name) =>
    [
      ...read(`lib/${name}`).matchAll(
        /(?:new AgentEngineError\(\s*|toJson\([^\n]*\(\) => )'(\w+)'/g,
      ),
    ].map(([, code]) => code ?? ''),
  )
}

test('the page of errors has an anchor for every code and for no other', () => {
  const headings = read('docs/guide/errors.md').matchAll(/^#### `(\w+)`\n\n(.*)$/gm)
  const listed = [...headings].map(([, code = '', text = '']) => ({ code, text }))
  const made = new Set([
    ...rustCodes('crates/base/src/error.rs', 'pub fn as_str(self)'),
    ...rustCodes('crates/model/src/data/errors/error.rs', 'pub fn code(self)'),
    ...faceCodes(),
  ])
  expect(made.size).toBeGreaterThan(25)
  expect(listed.map(({ code }) => code).toSorted()).toEqual([...made].toSorted())
  // What happened, and what to do.
  const short = listed.filter(({ text }) => !/^[^.]+\..*\.$/s.test(text))
  expect(short).toEqual([])
})

test('every code of the types has its anchor', () => {
  const [, union = ''] =
    /export type AgentEngineErrorCode =\n((?: {2}\| '\w+'\n)+)/.exec(read('types/header.d.ts')) ??
    []
  const declared = [...union.matchAll(/'(\w+)'/g)].map(([, code]) => code ?? '')
  expect(declared.length).toBeGreaterThan(25)
  const page = read('docs/guide/errors.md')
  expect(declared.filter((code) => !page.includes(`#### \`${code}\`\n`))).toEqual([])
})
