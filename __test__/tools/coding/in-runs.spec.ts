// Coding tools in a run: they are called without JavaScript, with the results of `execute()`, and hooks, limits and an abort hold. It must
// never repeat what a tool does: the other specs of this folder prove that.

import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import {
  AgentEngine,
  type CodingTool,
  createCodingTools,
  scriptedProvider,
} from '../../../index.js'
import { context, tempDir } from '../../support/engine.js'
import { callTools, runTools, textOf } from '../../support/tools.js'

const root = new URL('../../../', import.meta.url).pathname
const addon = readdirSync(root).find((name) => name.endsWith('.node'))
const { NativeHub, NativeWorkspace } = createRequire(import.meta.url)(join(root, `${addon}`))
const TOOL = 6
const TOOL_UPDATE = 12

let dir: ReturnType<typeof tempDir>
let cwd: string
/** The kinds of all records that came to JavaScript, and the calls of tools from it. */
let crossed: { kinds: Set<number>; calls: number }
const { drain } = NativeHub.prototype
const { call } = NativeWorkspace.prototype

beforeEach(() => {
  dir = tempDir()
  cwd = join(dir.path, 'work')
  mkdirSync(cwd)
  const counted = { kinds: new Set<number>(), calls: 0 }
  crossed = counted
  NativeHub.prototype.drain = function (rows: Uint32Array) {
    const text = drain.call(this, rows)
    for (let at = 0; at < (rows[0] ?? 0); at++) {
      // Number 0 has answers to requests, which are of no run.
      if (rows[2 + at * 5] !== 0) counted.kinds.add(rows[3 + at * 5] as number)
    }
    return text
  }
  NativeWorkspace.prototype.call = function (...args: unknown[]) {
    counted.calls++
    return call.apply(this, args)
  }
})

afterEach(() => {
  NativeHub.prototype.drain = drain
  NativeWorkspace.prototype.call = call
  dir.remove()
})

const named = (tools: CodingTool[], name: string) =>
  tools.find((tool) => tool.name === name) as CodingTool

const CALLS: [name: string, params: Record<string, unknown>][] = [
  ['write', { path: 'a/b.txt', content: 'one\ntwo 😀\n' }],
  ['edit', { path: 'a/b.txt', oldText: 'two', newText: '2' }],
  ['read', { path: 'a/b.txt' }],
  ['read', { path: 'missing' }],
  ['read', { path: 'image.png' }],
  ['ls', {}],
  ['grep', { pattern: 'one' }],
  ['find', { pattern: '*.txt' }],
  ['apply_patch', { patch: '*** Begin Patch\n*** Delete File: a/b.txt\n*** End Patch' }],
  ['bash', { command: 'echo out; echo err >&2' }],
  ['bash', { command: 'exit 3' }],
]
const IMAGE =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=='

test('the tools of a run are called without JavaScript, and give what `execute()` gives', async () => {
  const other = join(dir.path, 'other')
  mkdirSync(other)
  for (const at of [cwd, other]) writeFileSync(join(at, 'image.png'), IMAGE, 'base64')
  const { result, toolResults } = await runTools(
    createCodingTools(cwd),
    CALLS.map(([name, params]) => callTools([name, params])),
  )
  expect(crossed.calls).toBe(0)
  expect([...crossed.kinds]).not.toContain(TOOL)
  const alone = createCodingTools(other)
  for (const [at, [name, params]] of CALLS.entries()) {
    const expected = await named(alone, name)
      .execute('1', params)
      .catch(({ message }: Error) => ({ content: [{ type: 'text', text: message }], failed: true }))
    const about = `${name} ${JSON.stringify(params)}`
    expect(toolResults[at]?.content, about).toEqual(expected.content)
    expect(toolResults[at]?.isError, about).toBe('failed' in expected)
    if (!('failed' in expected)) expect(result.toolCalls[at]?.result, about).toEqual(expected)
  }
})

test('a tool whose name or other fields a host changes is called so too, and one with its own function is not', async () => {
  writeFileSync(join(cwd, 'a'), 'text')
  const read = named(createCodingTools(cwd), 'read')
  const renamed = { ...read, name: 'open' }
  const wrapped = { ...read, name: 'wrapped', execute: async () => 'mine' as never }
  const { toolResults } = await runTools(
    [renamed, wrapped],
    [callTools(['open', { path: 'a' }], ['wrapped', { path: 'a' }])],
  )
  expect(toolResults.map(textOf)).toEqual(['text', 'mine'])
  expect(crossed.calls).toBe(0)
})

test('hooks decide about a call and change its result', async () => {
  writeFileSync(join(cwd, 'a'), 'text')
  writeFileSync(join(cwd, 'b'), 'other')
  const read = (path: string) => callTools(['read', { path }])
  const gated = await runTools(createCodingTools(cwd), [read('a'), read('secret')], {
    beforeToolCall: ({ params }) =>
      params.path === 'a' ? { params: { path: 'b' } } : { deny: 'not this one' },
  })
  expect(gated.toolResults.map(textOf)).toEqual(['other', 'not this one'])
  expect(crossed.calls).toBe(0)
  const changed = await runTools(createCodingTools(cwd), [read('a')], {
    afterToolCall: () => 'changed',
  })
  expect(changed.toolResults.map(textOf)).toEqual(['changed'])
})

test('what a command prints is reported while it runs', async () => {
  // The command ends when its output has come.
  const command = 'echo started; while [ ! -e go ]; do sleep 0.01; done; echo end'
  const engine = new AgentEngine({
    providers: { demo: scriptedProvider([callTools(['bash', { command }]), 'done']) },
  })
  const updates: unknown[] = []
  const run = engine.run(context({ tools: createCodingTools(cwd), provider: 'demo' }), {
    onToolUpdate: (update) => {
      updates.push(update)
      writeFileSync(join(cwd, 'go'), '')
    },
  })
  const result = await run.result
  expect(updates[0]).toEqual({
    toolCallId: expect.any(String),
    toolName: 'bash',
    partial: { content: [{ type: 'text', text: 'started\n' }] },
  })
  expect(result.toolCalls[0]?.result).toEqual({
    content: [{ type: 'text', text: 'started\nend\n' }],
  })
  expect([...crossed.kinds]).toContain(TOOL_UPDATE)
  expect([...crossed.kinds]).not.toContain(TOOL)
  await engine.close()
})

test('an abort ends a command and everything that it started', async () => {
  const engine = new AgentEngine({
    providers: {
      demo: scriptedProvider([
        callTools(['bash', { command: 'echo $$ > pid; setsid sleep 7654321 & sleep 7654321' }]),
      ]),
    },
  })
  const run = engine.run(context({ tools: createCodingTools(cwd), provider: 'demo' }))
  const pid = () => {
    try {
      return readFileSync(join(cwd, 'pid'), 'utf8').trim()
    } catch {
      return ''
    }
  }
  while (pid() === '') await new Promise((resolve) => setImmediate(resolve))
  run.stream.abort()
  expect((await run.result).stopReason).toBe('aborted')
  // It waits for what the run's tools still do.
  await engine.close()
  const left = readdirSync('/proc').filter((name) => {
    try {
      return readFileSync(`/proc/${name}/cmdline`, 'utf8').includes('7654321')
    } catch {
      return false
    }
  })
  expect(left).toEqual([])
})

test('a time limit of the engine ends a command', async () => {
  const { toolResults } = await runTools(
    createCodingTools(cwd),
    [callTools(['bash', { command: 'sleep 1000' }])],
    { toolTimeoutMs: 200 },
  )
  expect(toolResults.map((one) => [one.isError, textOf(one)])).toEqual([
    [true, 'Tool bash timed out after 200 ms.'],
  ])
})

test('the ledger of an engine is protected from the tools by itself', async () => {
  const path = join(cwd, 'agent.db')
  const tools = createCodingTools(cwd)
  const engine = new AgentEngine({ ledger: { path } })
  await engine.ledger.sessions()
  for (const [name, params] of [
    ['read', { path: 'agent.db' }],
    ['write', { path: 'agent.db-wal', content: '' }],
    ['edit', { path: './agent.db', oldText: 'a', newText: 'b' }],
    ['apply_patch', { patch: '*** Begin Patch\n*** Delete File: agent.db\n*** End Patch' }],
  ] as const) {
    await expect(named(tools, name).execute('1', params), name).rejects.toThrow('is protected')
  }
  await expect(named(tools, 'bash').execute('2', { command: 'true' })).rejects.toThrow(
    `a ledger of this process: \`${path}\` is in the workspace, where \`bash\` could change it`,
  )
  expect((await named(tools, 'grep').execute('3', { pattern: 'SQLite' })).content).toEqual([
    { type: 'text', text: 'No matches found' },
  ])
  await engine.close()
  expect((await named(tools, 'bash').execute('4', { command: 'ls' })).content).toEqual([
    { type: 'text', text: 'agent.db\n' },
  ])
})
