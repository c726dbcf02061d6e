// Paths that try to leave a workspace, against every file tool, and names that are swapped while the tools use them: nothing outside is
// read, written or listed. It must never accept a refusal in place of looking at what is outside.

import { execFileSync } from 'node:child_process'
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
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { AgentEngine, type CodingTool, createCodingTools } from '../../../index.js'

const SECONDS = Number(process.env.CODING_RACE_SECONDS ?? 3)
const SECRET = 'nothing inside has this text'

let dir: string
let cwd: string
let outside: string

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'coding-'))
  cwd = join(dir, 'work')
  outside = join(dir, 'outside')
  mkdirSync(join(cwd, 'a/b'), { recursive: true })
  mkdirSync(join(outside, 'deep'), { recursive: true })
  writeFileSync(join(outside, 'secret'), SECRET)
  writeFileSync(join(outside, 'deep/secret'), SECRET)
  writeFileSync(join(outside, 'only-outside'), '')
  writeFileSync(join(outside, 'deep/only-outside'), '')
  writeFileSync(join(cwd, 'a/file'), 'inside')
})

afterEach(() => rmSync(dir, { recursive: true, force: true }))

/** Everything outside with its content, and when it changed. */
function stateOf(path: string): unknown {
  const stat = statSync(path)
  if (!stat.isDirectory()) return [readFileSync(path, 'utf8'), stat.mtimeMs, stat.mode, stat.ino]
  return Object.fromEntries(readdirSync(path).map((name) => [name, stateOf(join(path, name))]))
}

function paths(): string[] {
  const targets = ['secret', 'deep/secret', 'new', 'deep/new', '']
  const links: [name: string, target: string][] = [
    ['out', '../outside'],
    ['out-absolute', outside],
    ['a/out', '../../outside'],
    ['a/b/out', '../../../outside'],
    ['twice', 'out'],
    ['thrice', 'a/../twice'],
    ['root', '/'],
    ['proc-root', '/proc/self/root'],
    ['proc-cwd', '/proc/self/cwd'],
    ['fd', '/proc/self/fd'],
    ['up', '..'],
  ]
  for (const [name, target] of links) symlinkSync(target, join(cwd, name))
  const files: [name: string, target: string][] = [
    ['link', '../outside/secret'],
    ['link-absolute', join(outside, 'secret')],
    ['link-new', '../outside/new'],
    ['a/link', '../../outside/secret'],
    ['link-twice', 'link'],
    ['loop', 'loop'],
    ['environment', '/proc/self/environ'],
    ['zero', '/dev/zero'],
    ['tty', '/dev/tty'],
  ]
  for (const [name, target] of files) symlinkSync(target, join(cwd, name))
  execFileSync('mkfifo', [join(cwd, 'pipe')])
  symlinkSync('pipe', join(cwd, 'pipe-link'))
  const through = links
    .slice(0, 6)
    .flatMap(([name]) => targets.map((target) => `${name}/${target}`))
  const fromRoot = ['root', 'proc-root', 'up'].flatMap((name) => [
    `${name}${outside}/secret`,
    `${name}/outside/secret`,
    `${name}/etc/passwd`,
    `${name}/outside/new`,
  ])
  const ups = targets.flatMap((target) => [
    `../outside/${target}`,
    `./../outside/${target}`,
    `a/../../outside/${target}`,
    `a/b/../../../outside/${target}`,
    `a//..//..//outside//${target}`,
    `missing/../../outside/${target}`,
    `@../outside/${target}`,
    `out/../../outside/${target}`,
    `a/file/../../../outside/${target}`,
    join(outside, target),
    `${cwd}/../outside/${target}`,
    `//${outside}/${target}`,
    `/./${outside}/${target}`,
    `file://${outside}/${target}`,
    `../work/../outside/${target}`,
    `${cwd}/out/${target}`,
    `~/../../${outside}/${target}`,
    `..\u2024/outside/${target}`,
    `..\\outside\\${target}`,
    `%2e%2e/outside/${target}`,
    `OUT/${target}`,
    `..\u0000/outside/${target}`,
    `a/b/out/../../../outside/${target}`,
    `up/outside/${target}`,
  ])
  const kernel = [
    '/proc/self/root/etc/passwd',
    '/proc/self/environ',
    '/proc/self/cwd/../outside/secret',
    `/proc/self/root${outside}/secret`,
    'proc-cwd/../outside/secret',
    'fd/0',
    'fd/1',
    'environment',
    'zero',
    'tty',
    'loop',
    'loop/a',
    'pipe',
    'pipe-link',
    'pipe/a',
    'socket',
    '/dev/zero',
    '/dev/stdin',
    '/dev/fd/0',
    '/etc/passwd',
    '/sys/kernel/mm',
    '~',
    '~/.ssh/id_rsa',
    '~root/x',
    '',
    '/',
    '..',
    '../..',
    '../',
    'a/\u0000b',
    `${'a/'.repeat(3_000)}b`,
    'x'.repeat(300),
    `${'../'.repeat(1_000)}${outside}/secret`,
    '\ud800',
    '.\u00a0./outside/secret',
    '\u202e../outside/secret',
  ]
  return [...through, ...fromRoot, ...ups, ...kernel, ...files.map(([name]) => name)]
}

test('200 hostile paths lead no tool outside', async () => {
  const server = createServer()
  const given = paths()
  await new Promise<void>((resolve) => server.listen(join(cwd, 'socket'), resolve))
  expect(given.length).toBeGreaterThanOrEqual(200)
  const before = stateOf(outside)
  const beside = readdirSync(dir)
  const tools = createCodingTools(cwd)
  for (const path of given) {
    for (const [name, params] of Object.entries({
      read: { path },
      write: { path, content: 'written' },
      edit: { path, oldText: SECRET, newText: 'written' },
      ls: { path },
      grep: { path, pattern: '.' },
      find: { path, pattern: '*' },
      apply_patch: {
        patch: `*** Begin Patch\n*** Add File: ${path}\n+written\n*** End Patch`,
      },
    })) {
      const tool = tools.find((each) => each.name === name)
      const text = await tool?.execute('1', params).then(
        ({ content }) => JSON.stringify(content),
        () => undefined,
      )
      for (const foreign of [SECRET, 'root:x:', 'PATH=']) {
        expect(text ?? '', `${name} ${JSON.stringify(path)}`).not.toContain(foreign)
      }
      if (name === 'ls' || name === 'find')
        expect(text ?? '', path).not.toMatch(/only-outside|etc\/|passwd/)
    }
  }
  server.close()
  expect(stateOf(outside)).toEqual(before)
  expect(readdirSync(dir)).toEqual(beside)
}, 120_000)

test(
  'names that another thread swaps all the time lead no tool outside',
  async () => {
    mkdirSync(join(cwd, 'inner'))
    writeFileSync(join(cwd, 'inner/secret'), 'inside')
    writeFileSync(join(cwd, 'swap'), 'inside')
    const before = stateOf(outside)
    const stop = new Int32Array(new SharedArrayBuffer(4))
    const worker = new Worker(SWAPPER, { eval: true, workerData: { cwd, stop } })
    const ended = new Promise((resolve) => worker.once('exit', resolve))
    await new Promise((resolve) => worker.once('message', resolve))
    const engine = new AgentEngine()
    const restricted = engine.capabilities().sandbox.files
    await engine.close()
    const tools = createCodingTools(cwd)
    const bash = tools.find(({ name }) => name === 'bash')
    const [read, edit, write, ls, grep, find, patch] = tools as [
      CodingTool,
      CodingTool,
      CodingTool,
      CodingTool,
      CodingTool,
      CodingTool,
      CodingTool,
    ]
    const seen = { inside: 0, refused: 0 }
    const check = (call: Promise<{ content: unknown }>) =>
      call.then(
        ({ content }) => {
          expect(JSON.stringify(content)).not.toMatch(/nothing inside|only-outside/)
          seen.inside++
        },
        () => seen.refused++,
      )
    const end = performance.now() + SECONDS * 1_000
    const files = async () => {
      while (performance.now() < end) await eachFileTool()
    }
    const eachFileTool = () =>
      Promise.all([
        check(read.execute('1', { path: 'dir/secret' })),
        check(read.execute('2', { path: 'swap' })),
        check(ls.execute('3', { path: 'dir' })),
        check(write.execute('4', { path: 'dir/made', content: 'x' })),
        check(write.execute('5', { path: 'dir/new/made', content: 'x' })),
        check(write.execute('6', { path: 'swap', content: 'inside' })),
        check(grep.execute('8', { pattern: 'in' })),
        check(grep.execute('9', { path: 'dir', pattern: 'in' })),
        check(find.execute('10', { pattern: '*' })),
        check(find.execute('11', { path: 'dir', pattern: '*' })),
        check(
          patch.execute('12', {
            patch: '*** Begin Patch\n*** Add File: dir/patched\n+x\n*** End Patch',
          }),
        ),
        check(edit.execute('7', { path: 'dir/secret', oldText: SECRET, newText: 'x' })),
      ])
    let shells = 0
    const commands = async () => {
      // Without Landlock a command may go where it wants: `capabilities()` says so.
      if (!restricted || bash === undefined) return
      for (; performance.now() < end; shells++) {
        const command = COMMANDS[shells % COMMANDS.length] ?? ''
        // What a command prints before it fails is in the text of its error.
        const text = await bash
          .execute('13', { command })
          .then(({ content }) => JSON.stringify(content), String)
        expect(text, command).not.toMatch(/nothing inside|only-outside/)
      }
    }
    await Promise.all([files(), commands()])
    Atomics.store(stop, 0, 1)
    await ended
    console.log(
      `${seen.inside} calls stayed inside, ${seen.refused} were refused, ${shells} commands`,
    )
    expect(shells > 0).toBe(restricted)
    expect(seen.inside).toBeGreaterThan(0)
    expect(seen.refused).toBeGreaterThan(0)
    expect(stateOf(outside)).toEqual(before)
  },
  SECONDS * 1_000 + 60_000,
)

/** What a command does with the names that are swapped, from outside of them and from within. */
const COMMANDS = [
  'cat dir/secret swap; ls dir dir/.; echo x > dir/shell; echo inside > swap; true',
  'cd dir && cat secret; ls; cat ../swap; echo x > made-by-shell; cp secret copy; true',
  'cd dir/. && cat ./secret ../dir/secret; mkdir -p deep && ls deep; rm -f only-outside; true',
  'find -L . -type f; cp -r dir/. copied; mv -f dir/secret dir/moved; ln -f dir/secret linked; cat linked copied/*; true',
]

/** Makes `dir` a folder and a link outside, and `swap` a file and a link, in turn. */
const SWAPPER = `
const { parentPort, workerData } = require('node:worker_threads')
const { renameSync, symlinkSync, writeFileSync, mkdirSync, rmSync } = require('node:fs')
const { join } = require('node:path')
const { cwd, stop } = workerData
const at = (name) => join(cwd, name)
const attempt = (change) => { try { change() } catch {} }
parentPort.postMessage('ready')
while (Atomics.load(stop, 0) === 0) {
  attempt(() => { symlinkSync('../outside', at('t1')); renameSync(at('t1'), at('dir')) })
  attempt(() => rmSync(at('dir'), { recursive: true }))
  attempt(() => renameSync(at('inner'), at('dir')))
  attempt(() => { symlinkSync('../outside/secret', at('t2')); renameSync(at('t2'), at('swap')) })
  attempt(() => renameSync(at('dir'), at('inner')))
  attempt(() => { writeFileSync(at('t3'), 'inside'); renameSync(at('t3'), at('swap')) })
  attempt(() => { mkdirSync(at('inner'), { recursive: true }); writeFileSync(at('inner/secret'), 'inside') })
}
`
