// Owns the promise that README.md is true: every ts and js block of it compiles, runs and prints what stands below it.
// It must never reach beyond this machine, nor let a block go unrun without a comment that says why.

import { execFile } from 'node:child_process'
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import ts from 'typescript'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { anthropic } from '../support/servers/anthropic.js'
import { chat } from '../support/servers/chat.js'
import { sse, testServer } from '../support/servers/server.js'

const root = fileURLToPath(new URL('../..', import.meta.url))
const readme = readFileSync(join(root, 'README.md'), 'utf8').replaceAll('\r\n', '\n')

interface Block {
  name: string
  code: string
  /** What the `text` block right below it says it prints. */
  prints: string | undefined
  /** The wire that a loopback server answers in, in place of the real one. */
  server: 'anthropic' | 'openai-chat' | undefined
  /** Why it is not run. */
  skipped: string | undefined
}

/** The blocks in order; a comment line right above or below a block speaks of it. */
function blocks(): Block[] {
  const found: Block[] = []
  const fence =
    /(?:^<!-- (?<above>[^\n]+) -->\n)?^```(?:ts|js)\n(?<code>[\s\S]*?)^```\n(?:<!-- not run: (?<why>[^\n]+) -->\n|```text\n(?<prints>[\s\S]*?)^```\n)?/gm
  for (const { groups } of readme.matchAll(fence)) {
    const { above = '', code = '', why, prints } = groups ?? {}
    const server = /(anthropic|openai-chat) at a loopback server/.exec(above)?.[1]
    found.push({
      name: /file: ([\w.-]+)/.exec(above)?.[1] ?? `block-${found.length + 1}.ts`,
      code,
      prints,
      server: server as Block['server'],
      skipped: why,
    })
  }
  return found
}

const all = blocks()
const whole = all.filter((block) => block.skipped === undefined)
const shared = whole.filter((block) => block.name === 'context.ts')
const programs = whole.filter((block) => block.name !== 'context.ts')

let base: string

beforeAll(() => {
  base = mkdtempSync(join(tmpdir(), 'agent-engine-readme-'))
  writeFileSync(join(base, 'package.json'), '{ "type": "module" }')
  const modules = join(base, 'node_modules')
  mkdirSync(join(modules, '@nexus'), { recursive: true })
  symlinkSync(root, join(modules, '@nexus', 'agent-engine'), 'junction')
  for (const name of ['@mariozechner', '@sinclair', '@types']) {
    symlinkSync(join(root, 'node_modules', name), join(modules, name), 'junction')
  }
  for (const [index, block] of programs.entries()) {
    const folder = join(base, String(index))
    mkdirSync(folder)
    for (const { name, code } of [...shared, block]) writeFileSync(join(folder, name), code)
  }
})

afterAll(() => rmSync(base, { recursive: true, force: true }))

test('the README has its blocks, and one file that they share', () => {
  expect(shared).toHaveLength(1)
  expect(all.filter((block) => block.skipped !== undefined)).toHaveLength(1)
  expect(all).toHaveLength([...readme.matchAll(/^```(?:ts|js|typescript|javascript)\b/gm)].length)
})

test('every block is strict TypeScript against the shipped types', () => {
  const files = programs.map((block, index) => join(base, String(index), block.name))
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
  const told = ts.getPreEmitDiagnostics(program).map((diagnostic) => {
    const at = diagnostic.file?.getLineAndCharacterOfPosition(diagnostic.start ?? 0)
    const text = ts.flattenDiagnosticMessageText(diagnostic.messageText, '\n')
    return `${diagnostic.file?.fileName}:${(at?.line ?? 0) + 1}: ${text}`
  })
  expect(told).toEqual([])
})

describe('every block runs and prints what the README says', () => {
  for (const [index, block] of programs.entries()) {
    const title = readme
      .slice(0, readme.indexOf(block.code))
      .match(/^#+ .+$/gm)
      ?.at(-1)
    test(`${title} (${block.name})`, async () => {
      const server = await testServer(
        sse(block.server === 'openai-chat' ? chat.answer('Hello.') : anthropic.answer('Hello.')),
      )
      try {
        const folder = join(base, `run-${index}`)
        cpSync(join(base, String(index)), folder, { recursive: true })
        for (const { name, code } of [...shared, block]) {
          writeFileSync(
            join(folder, name.replace(/\.ts$/, '.js')),
            runnable(code, block, server.url),
          )
        }
        const { stdout, stderr } = await run(folder, block.name.replace(/\.ts$/, '.js'))
        expect(stderr).toBe('')
        if (block.prints !== undefined) expect(stdout).toBe(block.prints)
        if (block.server !== undefined) expect(server.seen).toHaveLength(1)
      } finally {
        await server.close()
      }
    })
  }
})

/** JavaScript of a block; where it would ask a real service, it asks the loopback server. */
function runnable(code: string, block: Block, url: string): string {
  let text = code.replaceAll('http://127.0.0.1:11434', url)
  if (block.server === 'anthropic') {
    text = text.replace(
      'new AgentEngine({',
      `new AgentEngine({ providers: { anthropic: { baseUrl: '${url}' } },`,
    )
  }
  const compilerOptions = { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext }
  return ts.transpileModule(text, { compilerOptions }).outputText
}

function run(cwd: string, file: string): Promise<{ stdout: string; stderr: string }> {
  const { ANTHROPIC_API_KEY: _, OPENAI_API_KEY: __, ...env } = process.env
  return promisify(execFile)(process.execPath, [file], {
    cwd,
    env: { ...env, NO_COLOR: '1', NODE_NO_WARNINGS: '1' },
    timeout: 50_000,
  })
}
