// Checks the pages for users: every ts and js block of README.md, docs/guide and docs/jsonl.md compiles, runs, and prints the
// `text` block below it. CONTRIBUTING.md lists the comments that a block may have. It must never call another machine, nor
// leave a block out without a comment that gives the reason.

import { execFile } from 'node:child_process'
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import ts from 'typescript'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { anthropic } from '../support/servers/anthropic.js'
import { chat } from '../support/servers/chat.js'
import { sse, testServer } from '../support/servers/server.js'

const root = fileURLToPath(new URL('../..', import.meta.url))
const guide = readdirSync(join(root, 'docs/guide'), { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.md'))
  .sort()
const pages = ['README.md', 'docs/jsonl.md', ...guide.map((name) => `docs/guide/${name}`)]
const texts = new Map(pages.map((page) => [page, read(page)]))

interface Block {
  page: string
  /** Its heading. */
  title: string
  name: string
  code: string
  /** Whether every page may import it, or the next example of its page; a program where absent. */
  usedBy: 'all pages' | 'the next example' | undefined
  /** The `text` block right below it. */
  prints: string | undefined
  /** The API of the loopback server that answers in place of the real one. */
  server: 'anthropic' | 'openai-chat' | undefined
  /** Why it is not run. */
  skipped: string | undefined
}

/** A program with the files that it imports, in a folder of its own. */
interface Example extends Block {
  folder: string
  files: { name: string; code: string }[]
}

function read(page: string): string {
  return readFileSync(join(root, page), 'utf8').replaceAll('\r\n', '\n')
}

/** The blocks of a page in order; a comment line right above or below a block is about it. */
function blocks(page: string): Block[] {
  const text = texts.get(page) ?? ''
  const fence =
    /(?:^<!-- (?<above>[^\n]+) -->\n)?^```(?:ts|js)\n(?<code>[\s\S]*?)^```\n(?:<!-- not run: (?<why>[^\n]+) -->\n|```text\n(?<prints>[\s\S]*?)^```\n)?/gm
  return [...text.matchAll(fence)].map(({ groups, index }, at) => {
    const { above = '', code = '', why, prints } = groups ?? {}
    const [, usedBy] = /used by (all pages|the next example)/.exec(above) ?? []
    const [, server] = /(anthropic|openai-chat) at a loopback server/.exec(above) ?? []
    return {
      page,
      title:
        text
          .slice(0, index)
          .match(/^#+ .+$/gm)
          ?.at(-1) ?? '',
      name: /file: ([\w.-]+)/.exec(above)?.[1] ?? `example-${at + 1}.ts`,
      code,
      usedBy: usedBy as Block['usedBy'],
      prints,
      server: server as Block['server'],
      skipped: why,
    }
  })
}

const all = pages.flatMap(blocks)
const shared = all.filter((block) => block.usedBy === 'all pages')
const base = mkdtempSync(join(tmpdir(), 'agent-engine-docs-'))
const examples = pages.flatMap(examplesOf)

function examplesOf(page: string): Example[] {
  const found: Example[] = []
  let parts: Block[] = []
  for (const block of blocks(page)) {
    if (block.skipped !== undefined || block.usedBy === 'all pages') continue
    if (block.usedBy === 'the next example') {
      parts.push(block)
      continue
    }
    const folder = join(base, `${basename(page, '.md')}-${found.length}`)
    found.push({ ...block, folder, files: [...shared, ...parts, block] })
    parts = []
  }
  return found
}

beforeAll(() => {
  writeFileSync(join(base, 'package.json'), '{ "type": "module" }')
  writeFileSync(join(base, 'batch.mjs'), BATCH)
  const modules = join(base, 'node_modules')
  mkdirSync(join(modules, '@nexus'), { recursive: true })
  symlinkSync(root, join(modules, '@nexus', 'agent-engine'), 'junction')
  const libraries = ['@sinclair', '@valibot', 'ai', 'arktype', 'valibot', 'zod']
  for (const name of ['@mariozechner', '@types', ...libraries]) {
    symlinkSync(join(root, 'node_modules', name), join(modules, name), 'junction')
  }
  for (const { folder, files } of examples) {
    mkdirSync(folder)
    for (const { name, code } of files) writeFileSync(join(folder, name), code)
  }
})

afterAll(() => rmSync(base, { recursive: true, force: true }))

test('every block of code is read, and one file is shared', () => {
  expect(shared.map(({ page, name }) => `${page} ${name}`)).toEqual([
    'docs/guide/contexts.md context.ts',
  ])
  expect(all.filter(({ skipped }) => skipped !== undefined)).toEqual([])
  const fences = [...texts.values()].flatMap((text) => [
    ...text.matchAll(/^ *```(?:ts|js|typescript|javascript|tsx|mjs)\b/gm),
  ])
  expect(all).toHaveLength(fences.length)
})

test('every page has an example, and none is longer than 300 lines', () => {
  const long = pages.filter((page) => (texts.get(page)?.split('\n').length ?? 0) > 301)
  expect(long).toEqual([])
  expect(pages.filter((page) => !examples.some((example) => example.page === page))).toEqual([])
})

test('every block is strict TypeScript against the shipped types', () => {
  const files = examples.flatMap(({ folder, files }) => files.map(({ name }) => join(folder, name)))
  const program = ts.createProgram(files, {
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    target: ts.ScriptTarget.ES2022,
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    typeRoots: [join(root, 'node_modules', '@types')],
    types: ['node'],
  })
  const problems = ts.getPreEmitDiagnostics(program).map((diagnostic) => {
    const at = diagnostic.file?.getLineAndCharacterOfPosition(diagnostic.start ?? 0)
    const text = ts.flattenDiagnosticMessageText(diagnostic.messageText, '\n')
    return `${diagnostic.file?.fileName}:${(at?.line ?? 0) + 1}: ${text}`
  })
  expect(problems).toEqual([])
})

/** What an example of a page printed, in a process that runs all of them. */
interface Printed {
  stdout: string
  stderr: string
}

describe('every example prints what its page shows', () => {
  for (const page of pages) {
    test(page, async () => {
      const batch = examples.filter((example) => example.page === page)
      const answers = batch.map(({ server }) =>
        sse(server === 'openai-chat' ? chat.answer('Hello.') : anthropic.answer('Hello.')),
      )
      const servers = await Promise.all(answers.map((answer) => testServer(answer)))
      try {
        for (const [index, example] of batch.entries()) compile(example, servers[index]?.url ?? '')
        const printed = await run(batch)
        for (const [index, { title, name, prints, server }] of batch.entries()) {
          const { stdout, stderr } = printed[index] ?? { stdout: '', stderr: 'it was not run' }
          expect.soft(stderr, `${title} (${name})`).toBe('')
          if (prints !== undefined) expect.soft(stdout, `${title} (${name})`).toBe(prints)
          if (server !== undefined) expect.soft(servers[index]?.seen.length).toBeGreaterThan(0)
        }
      } finally {
        await Promise.all(servers.map((server) => server.close()))
      }
    })
  }
})

/** Writes an example as JavaScript; where it would call a real service, it calls the loopback server. */
function compile({ folder, files, server }: Example, url: string): void {
  const output = `${folder}-run`
  cpSync(folder, output, { recursive: true })
  const compilerOptions = { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext }
  for (const { name, code } of files) {
    let text = code.replaceAll('http://127.0.0.1:11434', url)
    if (server === 'anthropic') {
      text = text.replace(
        'new AgentEngine({',
        `new AgentEngine({ providers: { anthropic: { baseUrl: '${url}' } },`,
      )
    }
    const { outputText } = ts.transpileModule(text, { compilerOptions })
    writeFileSync(join(output, name.replace(/\.ts$/, '.js')), outputText)
  }
}

/** Imports one example after the other, each in its own folder, and prints a line of JSON for each. */
const BATCH = `import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

const { stdout, stderr } = process
const writers = { stdout: stdout.write, stderr: stderr.write }
for (const { folder, file } of JSON.parse(process.argv.pop())) {
  process.chdir(folder)
  const printed = { stdout: '', stderr: '' }
  stdout.write = (text) => ((printed.stdout += text), true)
  stderr.write = (text) => ((printed.stderr += text), true)
  try {
    await import(pathToFileURL(join(folder, file)).href)
  } catch (error) {
    printed.stderr += error?.stack ?? String(error)
  }
  stdout.write = writers.stdout
  stderr.write = writers.stderr
  console.log(JSON.stringify(printed))
}
`

async function run(batch: Example[]): Promise<Printed[]> {
  const { ANTHROPIC_API_KEY: _, OPENAI_API_KEY: __, ...env } = process.env
  const files = batch.map(({ folder, name }) => ({
    folder: `${folder}-run`,
    file: name.replace(/\.ts$/, '.js'),
  }))
  const { stdout, stderr } = await promisify(execFile)(
    process.execPath,
    [join(base, 'batch.mjs'), JSON.stringify(files)],
    { env: { ...env, NO_COLOR: '1', NODE_NO_WARNINGS: '1' }, timeout: 50_000 },
  )
  expect(stderr).toBe('')
  return stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
}
