// The file tools beside those of pi-coding-agent 0.54.0: the same calls on two equal folders give the same results and the same files.
// Where they differ on purpose, the difference and its reason are in the table below. It must never imitate pi: the published package is
// called.

import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  createEditTool,
  createLsTool,
  createReadTool,
  createWriteTool,
} from '@mariozechner/pi-coding-agent'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createCodingTools } from '../../../index.js'

type Name = 'read' | 'edit' | 'write' | 'ls'
type Call = [name: Name, params: Record<string, unknown>]
type Outcome = { result: unknown } | { error: string }

let dir: string
const folder = (name: string) => join(dir, name)

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'beside-pi-'))
  for (const name of ['ours', 'pi']) mkdirSync(folder(name))
})

afterEach(() => rmSync(dir, { recursive: true, force: true }))

/** A tool's outcome, with the folder's own name left out of it. */
async function outcome(
  tool: { execute(id: string, params: never): Promise<unknown> } | undefined,
  params: object,
  cwd: string,
): Promise<Outcome> {
  try {
    return { result: await tool?.execute('1', params as never) }
  } catch (error) {
    return { error: (error as Error).message.replaceAll(`${cwd}/`, '') }
  }
}

async function both([name, params]: Call): Promise<{ ours: Outcome; pi: Outcome }> {
  const [ours, pi] = [folder('ours'), folder('pi')]
  const of: Record<Name, { execute(id: string, params: never): Promise<unknown> }> = {
    read: createReadTool(pi),
    edit: createEditTool(pi),
    write: createWriteTool(pi),
    ls: createLsTool(pi),
  }
  const tool = createCodingTools(ours).find((each) => each.name === name)
  return { ours: await outcome(tool, params, ours), pi: await outcome(of[name], params, pi) }
}

function files(path: string): Record<string, unknown> {
  return Object.fromEntries(
    readdirSync(path).map((name) => {
      const at = join(path, name)
      return [name, statSync(at).isDirectory() ? files(at) : readFileSync(at).toString('latin1')]
    }),
  )
}

function put(name: string, content: string | Uint8Array) {
  for (const cwd of ['ours', 'pi']) {
    mkdirSync(join(folder(cwd), name, '..'), { recursive: true })
    writeFileSync(join(folder(cwd), name), content)
  }
}

/** Numbers from 0 to `below` that are the same in every run (xorshift). */
function numbers(seed: number) {
  let state = seed
  return (below: number): number => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return (state >>> 0) % below
  }
}

test('600 calls give what the tools of pi give, and leave the same files', async () => {
  const random = numbers(42)
  const pick = <T>(list: readonly T[]): T => list[random(list.length)] as T
  const names = ['a.txt', 'b.md', 'c/d.ts', 'c/e/f.json', 'größe.txt', './c/../g.txt', '@h.txt']
  const line = () => pick(['', 'one', 'two words', '  three', `line ${random(50)}`, 'äöü 😀', '}'])
  const text = (most: number) => Array.from({ length: random(most) + 1 }, line).join('\n')
  const written = new Map<string, string>()
  let failed = 0
  for (let at = 0; at < 600; at++) {
    const path = pick(names)
    const content = written.get(path) ?? ''
    const lines = content.split('\n')
    const part = lines
      .slice(random(lines.length))
      .slice(0, random(4) + 1)
      .join('\n')
    const call = pick<() => Call>([
      // pi counts UTF-16 units and calls them bytes.
      () => ['write', { path, content: text(pick([5, 40, 2_500])).replace(/[^\n -~]/g, 'x') }],
      () => ['read', { path }],
      () => ['read', { path, offset: random(60) }],
      () => ['read', { path, offset: random(30), limit: random(30) }],
      () => ['read', { path, limit: 2_100 }],
      () => ['edit', { path, oldText: part || 'missing', newText: text(4) }],
      () => ['edit', { path, oldText: 'not in the file', newText: 'x' }],
      () => ['ls', { path: pick(['.', 'c', './c/e/', 'missing', 'a.txt']) }],
      () => ['ls', { limit: random(5) + 1 }],
    ])()
    const { ours, pi } = await both(call)
    const about = `call ${at}: ${JSON.stringify(call).slice(0, 300)}`
    // The sentences of Node.js about a missing file, and the places of several, are in the table below.
    if ('error' in pi) {
      failed++
      expect(start(ours), about).toBe(start(pi))
    } else {
      expect(ours, about).toEqual(pi)
      if (call[0] === 'write') written.set(path, String(call[1].content))
      if (call[0] === 'edit') {
        written.set(path, readFileSync(join(folder('pi'), path.replace('@', '')), 'utf8'))
      }
    }
  }
  expect(files(folder('ours'))).toEqual(files(folder('pi')))
  expect(failed).toBeGreaterThan(20)
  expect(failed).toBeLessThan(400)
}, 120_000)

/** The beginning of an error, which says what kind it is. */
function start(outcome: Outcome): string {
  const message = 'error' in outcome ? outcome.error : 'no error'
  if (/^ENOENT|^File not found|^Path not found/.test(message)) return 'not found'
  return message.replace(/ \(lines [^)]*\)|\d+ (?=occurrences)/g, '').split('. ')[0] as string
}

const many = Array.from({ length: 3 }, () => 'x').join('\n')

/** What differs, why, and both outcomes: a text stands for a result with this one block, and `error` for a refusal. */
const DIFFERENCES: {
  why: string
  file?: [name: string, content: string | Uint8Array]
  call: Call
  ours: string
  pi: string
  /** The file afterwards, where it differs. */
  files?: [ours: string, pi: string]
}[] = [
  {
    why: 'a missing file has one sentence, and no path of the host',
    call: ['read', { path: 'no.txt' }],
    ours: 'error: File not found: no.txt',
    pi: "error: ENOENT: no such file or directory, access 'no.txt'",
  },
  {
    why: 'the same for a missing folder',
    call: ['ls', { path: 'no' }],
    ours: 'error: File not found: no',
    pi: 'error: Path not found: no',
  },
  {
    why: 'a folder has a sentence that says what to do',
    file: ['d/x', ''],
    call: ['read', { path: 'd' }],
    ours: 'error: `d` is a directory; use `ls` to list it',
    pi: 'error: EISDIR: illegal operation on a directory, read',
  },
  {
    why: 'nothing outside of the workspace is read',
    call: ['read', { path: '/etc/hosts', limit: 0, offset: 1 }],
    ours: 'error: `/etc/hosts` is outside of the workspace; use a path in it',
    pi: '*',
  },
  {
    why: 'a byte order mark is not text',
    file: ['bom', '\ufeffx'],
    call: ['read', { path: 'bom' }],
    ours: 'x',
    pi: '\ufeffx',
  },
  {
    why: 'UTF-16 is text',
    file: ['wide', Buffer.from('\ufeffabc', 'utf16le')],
    call: ['read', { path: 'wide' }],
    ours: 'abc',
    pi: '\ufffd\ufffda\0b\0c\0',
  },
  {
    why: 'bytes that are not text are a note',
    file: ['bin', Buffer.from([0x7f, 0x45, 0, 1, 2, 3])],
    call: ['read', { path: 'bin' }],
    ours: '[Binary file, 6B: it is not text, and not an image that can be shown]',
    pi: '\x7fE\0\x01\x02\x03',
  },
  {
    why: 'a long line is cut, so that one line does not fill a result',
    file: ['long', 'x'.repeat(2_001)],
    call: ['read', { path: 'long' }],
    ours: `${'x'.repeat(2_000)}... [the line is cut here: it has 2.0KB]`,
    pi: 'x'.repeat(2_001),
  },
  {
    why: 'a line over 50 KB is cut too: there may be no `bash` to read it with',
    file: ['longer', `${'x'.repeat(60_000)}\ny`],
    call: ['read', { path: 'longer' }],
    ours: `${'x'.repeat(2_000)}... [the line is cut here: it has 58.6KB]\ny`,
    pi: "[Line 1 is 58.6KB, exceeds 50.0KB limit. Use bash: sed -n '1p' longer | head -c 51200]",
  },
  {
    why: 'bytes are counted, and not UTF-16 units',
    call: ['write', { path: 'ü', content: 'ü' }],
    ours: 'Successfully wrote 2 bytes to ü',
    pi: 'Successfully wrote 1 bytes to ü',
  },
  {
    why: 'several places are named by their lines',
    file: ['many', many],
    call: ['edit', { path: 'many', oldText: 'x', newText: 'y' }],
    ours: 'error: Found 3 occurrences of the text in many (lines 1, 2, 3). The text must be unique. Please provide more context to make it unique.',
    pi: 'error: Found 3 occurrences of the text in many. The text must be unique. Please provide more context to make it unique.',
  },
  {
    why: 'places that overlap are several',
    file: ['overlap', 'aaa'],
    call: ['edit', { path: 'overlap', oldText: 'aa', newText: 'b' }],
    ours: 'error: Found 2 occurrences of the text in overlap (lines 1, 1). The text must be unique. Please provide more context to make it unique.',
    pi: 'Successfully replaced text in overlap.',
    files: ['aaa', 'ba'],
  },
  {
    why: 'an exact place is the place, though another one is similar',
    file: ['similar', "'a'\n\u2018a\u2019\n"],
    call: ['edit', { path: 'similar', oldText: "'a'", newText: 'b' }],
    ours: 'Successfully replaced text in similar.',
    pi: 'error: Found 2 occurrences of the text in similar. The text must be unique. Please provide more context to make it unique.',
    files: ['b\n\u2018a\u2019\n', "'a'\n\u2018a\u2019\n"],
  },
  {
    why: 'only the place that was found changes: the quotes and spaces of the rest stay',
    file: ['rest', 'a  \n\u201cb\u201d\n\u201cc\u201d\n'],
    call: ['edit', { path: 'rest', oldText: '"b"', newText: 'd' }],
    ours: 'Successfully replaced text in rest.',
    pi: 'Successfully replaced text in rest.',
    files: ['a  \nd\n\u201cc\u201d\n', 'a\nd\n"c"\n'],
  },
  {
    why: 'mixed line endings stay mixed',
    file: ['mixed', 'a\r\nb\nc\n'],
    call: ['edit', { path: 'mixed', oldText: 'b', newText: 'd' }],
    ours: 'Successfully replaced text in mixed.',
    pi: 'Successfully replaced text in mixed.',
    files: ['a\r\nd\nc\n', 'a\r\nd\r\nc\r\n'],
  },
  {
    why: 'whitespace at the end of the wanted text is not forgotten inside a line',
    file: ['inside', 'returned\n'],
    call: ['edit', { path: 'inside', oldText: 'return ', newText: 'x' }],
    ours: 'error: Could not find the exact text in inside. The old text must match exactly including all whitespace and newlines.',
    pi: 'Successfully replaced text in inside.',
    files: ['returned\n', 'xed\n'],
  },
  {
    why: 'a file that is not UTF-8 is not damaged by an edit',
    file: ['latin', Buffer.from('caf\xe9 and more of it', 'latin1')],
    call: ['edit', { path: 'latin', oldText: 'more', newText: 'less' }],
    ours: 'error: `latin` is not a text in UTF-8 or UTF-16, and cannot be edited',
    pi: 'Successfully replaced text in latin.',
    files: ['caf\ufffd and more of it', 'caf\ufffd and less of it'],
  },
  {
    why: 'an empty text is a mistake, and not a place',
    file: ['empty', ''],
    call: ['edit', { path: 'empty', oldText: '', newText: 'x' }],
    ours: 'error: `oldText` is empty; give the text to replace, or use `write` for a new file',
    pi: 'Successfully replaced text in empty.',
    files: ['', 'x'],
  },
  {
    why: 'a repository runs what is in its `.git`',
    file: ['.git/hooks/pre-commit', ''],
    call: ['write', { path: '.git/hooks/pre-commit', content: 'x' }],
    ours: 'error: `.git/hooks/pre-commit` is in a `.git`, which the file tools do not write',
    pi: 'Successfully wrote 1 bytes to .git/hooks/pre-commit',
    files: ['', 'x'],
  },
  {
    why: 'names are in one order in every locale: that of their lower-case characters',
    file: ['n/a-b', ''],
    call: ['ls', { path: 'n' }],
    ours: 'a-b\na_b\nz\nä',
    pi: 'ä\na_b\na-b\nz',
  },
  {
    why: 'a limit of 0 is no empty directory',
    file: ['z/a', ''],
    call: ['ls', { path: 'z', limit: 0 }],
    ours: 'a',
    pi: '(empty directory)',
  },
  {
    why: 'a link that leads nowhere is listed: a model could not remove it otherwise',
    file: ['k/a', ''],
    call: ['ls', { path: 'k' }],
    ours: 'a\nbroken',
    pi: 'a',
  },
  {
    why: 'a link to a folder outside is a name, and its target is not shown',
    file: ['l/a', ''],
    call: ['ls', { path: 'l' }],
    ours: 'a\nout',
    pi: 'a\nout/',
  },
]

test.each(DIFFERENCES)('differs: $why', async ({ file, call, ours, pi, files: after }) => {
  if (file !== undefined) put(...file)
  if (call[1].path === 'n') for (const name of ['n/a_b', 'n/z', 'n/ä']) put(name, '')
  for (const cwd of ['ours', 'pi']) {
    if (call[1].path === 'k') symlinkSync('nowhere', join(folder(cwd), 'k/broken'))
    if (call[1].path === 'l') symlinkSync('/', join(folder(cwd), 'l/out'))
  }
  const outcomes = await both(call)
  expect(shownText(outcomes.ours)).toBe(ours)
  if (pi !== '*') expect(shownText(outcomes.pi)).toBe(pi)
  expect(outcomes.ours).not.toEqual(after === undefined ? outcomes.pi : undefined)
  if (after !== undefined && file !== undefined) {
    const found = ['ours', 'pi'].map((cwd) => readFileSync(join(folder(cwd), file[0]), 'utf8'))
    expect(found).toEqual(after)
  }
})

function shownText(outcome: Outcome): string {
  if ('error' in outcome) return `error: ${outcome.error}`
  const { content } = outcome.result as { content: { text: string }[] }
  return content[0]?.text ?? ''
}

test('images are the same blocks', async () => {
  const png = Buffer.from(
    'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
    'base64',
  )
  put('a.png', png)
  const { ours, pi } = await both(['read', { path: 'a.png' }])
  expect(ours).toEqual(pi)
  expect(ours).toEqual({
    result: {
      content: [
        { type: 'text', text: 'Read image file [image/png]' },
        { type: 'image', mimeType: 'image/png', data: png.toString('base64') },
      ],
      details: undefined,
    },
  })
})
