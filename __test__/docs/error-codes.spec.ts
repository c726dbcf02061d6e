// Every code of an error of the package is in the table of docs/guide/errors.md, and the table has no other. It must never
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
    [...read(`lib/${name}`).matchAll(/new AgentEngineError\(\s*'(\w+)'/g)].map(
      ([, code]) => code ?? '',
    ),
  )
}

test('the table of errors has every code and no other', () => {
  const table =
    read('docs/guide/errors.md').split('| `code` | What to do |')[1]?.split('\n\n')[0] ?? ''
  const listed = [...table.matchAll(/^\| (.*?) \|/gm)].flatMap(([, cell]) =>
    [...(cell ?? '').matchAll(/`(\w+)`/g)].map(([, code]) => code ?? ''),
  )
  const made = new Set([
    ...rustCodes('crates/base/src/error.rs', 'pub fn as_str(self)'),
    ...rustCodes('crates/model/src/data/errors/error.rs', 'pub fn code(self)'),
    ...faceCodes(),
  ])
  expect(made.size).toBeGreaterThan(25)
  expect(listed.toSorted()).toEqual([...made].toSorted())
})
