// The file tools of createCodingTools: alone by `execute()`, and in a run. It must never repeat what the comparison with pi's tools
// (pi-*.spec.ts) and the hostile paths (hostile.spec.ts) prove.

import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { AgentTool as PiAgentTool } from '@mariozechner/pi-agent-core'
import { afterEach, beforeEach, expect, test } from 'vitest'
import {
  AgentEngine,
  type CodingTool,
  createCodingTools,
  type ToolCallInfo,
} from '../../../index.js'
import { tempDir } from '../../support/engine.js'
import { callTools, runTools, textOf } from '../../support/tools.js'

let dir: ReturnType<typeof tempDir>
let cwd: string

beforeEach(() => {
  dir = tempDir()
  cwd = join(dir.path, 'work')
  mkdirSync(cwd)
})

afterEach(() => dir.remove())

function named(tools: CodingTool[], name: string): CodingTool {
  const tool = tools.find((each) => each.name === name)
  if (tool === undefined) throw new Error(`no tool ${name}`)
  return tool
}

test('a tool is in the shape of pi and works alone', async () => {
  const tools: PiAgentTool[] = createCodingTools(cwd)
  expect(tools.map(({ name, label }) => [name, label])).toEqual([
    ['read', 'read'],
    ['edit', 'edit'],
    ['write', 'write'],
    ['ls', 'ls'],
    ['grep', 'grep'],
    ['find', 'find'],
    ['apply_patch', 'apply_patch'],
    ['bash', 'bash'],
  ])
  const [read, edit, write, ls] = tools as CodingTool[]
  expect(await write?.execute('1', { path: 'a/b.txt', content: 'one\ntwo\n' })).toEqual({
    content: [{ type: 'text', text: 'Successfully wrote 8 bytes to a/b.txt' }],
    details: undefined,
  })
  expect(await edit?.execute('2', { path: 'a/b.txt', oldText: 'two', newText: '2' })).toEqual({
    content: [{ type: 'text', text: 'Successfully replaced text in a/b.txt.' }],
    details: { diff: ' 1 one\n-2 two\n+2 2', firstChangedLine: 2 },
  })
  expect(await read?.execute('3', { path: join(cwd, 'a/b.txt'), limit: 1 })).toEqual({
    content: [{ type: 'text', text: 'one\n\n[2 more lines in file. Use offset=2 to continue.]' }],
    details: undefined,
  })
  expect(await ls?.execute('4', {})).toEqual({
    content: [{ type: 'text', text: 'a/' }],
    details: undefined,
  })
})

test('several edits of one call are all made, or none', async () => {
  const edit = named(createCodingTools(cwd), 'edit')
  writeFileSync(join(cwd, 'a.txt'), 'one\ntwo\nthree\n')
  const first = { oldText: 'one', newText: '1' }
  const missing = { oldText: 'four', newText: '4' }
  await expect(edit.execute('1', { path: 'a.txt', edits: [first, missing] })).rejects.toThrow(
    'Could not find the exact text of edit 2 in a.txt.',
  )
  expect(readFileSync(join(cwd, 'a.txt'), 'utf8')).toBe('one\ntwo\nthree\n')
  const last = { oldText: 'three', newText: '3' }
  await edit.execute('2', { path: 'a.txt', edits: [last, first] })
  expect(readFileSync(join(cwd, 'a.txt'), 'utf8')).toBe('1\ntwo\n3\n')
})

test('a run reads, edits and writes; results, details and replay classes are recorded', async () => {
  writeFileSync(join(cwd, 'server.ts'), 'const port = 80\n')
  const tools = createCodingTools(cwd)
  expect(Object.fromEntries(tools.map((tool) => [tool.name, tool.replay]))).toEqual({
    read: 'pure',
    edit: 'reconcilable',
    write: 'idempotent',
    ls: 'pure',
    grep: 'pure',
    find: 'pure',
    apply_patch: 'reconcilable',
    bash: 'unsafe',
  })
  const { result, toolResults } = await runTools(tools, [
    callTools(['read', { path: 'server.ts' }], ['ls', {}]),
    callTools(['edit', { path: 'server.ts', oldText: '80', newText: '8080' }]),
    callTools(['write', { path: 'notes/port.md', content: 'The port is 8080.\n' }]),
    callTools(['read', { path: '../outside' }]),
  ])
  expect(result.stopReason).toBe('end_turn')
  expect(toolResults.map((one) => [one.toolName, one.isError, textOf(one)])).toEqual([
    ['read', false, 'const port = 80\n'],
    ['ls', false, 'server.ts'],
    ['edit', false, 'Successfully replaced text in server.ts.'],
    ['write', false, 'Successfully wrote 18 bytes to notes/port.md'],
    ['read', true, '`../outside` is outside of the workspace; use a path in it'],
  ])
  const edited = result.toolCalls[2]?.result as { details: unknown }
  expect(edited.details).toEqual({
    diff: '-1 const port = 80\n+1 const port = 8080',
    firstChangedLine: 1,
  })
  expect(readFileSync(join(cwd, 'server.ts'), 'utf8')).toBe('const port = 8080\n')
  expect(readFileSync(join(cwd, 'notes/port.md'), 'utf8')).toBe('The port is 8080.\n')
})

test('after a crash the file says whether an edit happened', async () => {
  const edit = named(createCodingTools(cwd), 'edit')
  const params = { path: 'a.txt', oldText: 'one', newText: 'two' }
  const outcome = () => edit.reconcile?.('key', params, {} as ToolCallInfo)
  writeFileSync(join(cwd, 'a.txt'), 'one\n')
  expect(await outcome()).toEqual({ outcome: 'not_done' })
  await edit.execute('1', params)
  expect(await outcome()).toEqual({
    outcome: 'done',
    result: {
      content: [{ type: 'text', text: 'Successfully replaced text in a.txt.' }],
      details: undefined,
    },
  })
  writeFileSync(join(cwd, 'a.txt'), 'three\n')
  expect(await outcome()).toEqual({ outcome: 'unknown' })
})

test('a patch changes several files or none, alone, as a dry run, and in a run', async () => {
  const put = (name: string, text: string) => writeFileSync(join(cwd, name), text)
  put('a.txt', 'one\ntwo\n')
  put('b.txt', 'b\n')
  const tools = createCodingTools(cwd)
  const patch = named(tools, 'apply_patch')
  const diff = (old: string) =>
    `--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-${old}\n+2\n--- a/b.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-b\n`
  await expect(patch.execute('1', { patch: diff('three') })).rejects.toThrow(
    /^The patch was not applied\. Nothing was changed\.\nline 3: /,
  )
  const params = { patch: diff('two') }
  const reconciled = () => patch.reconcile?.('key', params, {} as ToolCallInfo)
  expect(await reconciled()).toEqual({ outcome: 'not_done' })
  expect(await patch.execute('2', { ...params, dryRun: true })).toMatchObject({
    content: [{ text: 'The patch can be applied. Nothing was changed.\nM a.txt\nD b.txt' }],
  })
  expect(readFileSync(join(cwd, 'a.txt'), 'utf8')).toBe('one\ntwo\n')
  const { toolResults, result } = await runTools(tools, [callTools(['apply_patch', params])])
  expect(toolResults.map(textOf)).toEqual(['The patch was applied.\nM a.txt\nD b.txt'])
  expect((result.toolCalls[0]?.result as { details: unknown }).details).toEqual({
    dryRun: false,
    files: [
      {
        path: 'a.txt',
        kind: 'modified',
        diff: ' 1 one\n-2 two\n+2 2',
        hunks: [{ patchLine: 3, fileLine: 1, offset: 0, ignored: 'nothing' }],
      },
      { path: 'b.txt', kind: 'deleted', diff: '-1 b', hunks: [] },
    ],
  })
  expect(readdirSync(cwd)).toEqual(['a.txt'])
  expect(readFileSync(join(cwd, 'a.txt'), 'utf8')).toBe('one\n2\n')
  expect(await reconciled()).toEqual({
    outcome: 'done',
    result: { content: [{ type: 'text', text: 'The patch was applied.' }], details: undefined },
  })
})

test('an abort rejects the call, and leaves no listener and no file', async () => {
  const write = named(createCodingTools(cwd), 'write')
  const params = { path: 'large.txt', content: 'x'.repeat(32 * 1024 * 1024) }
  await expect(write.execute('1', params, AbortSignal.abort())).rejects.toThrow('Operation aborted')
  const controller = new AbortController()
  const { signal } = controller
  let listeners = 0
  const { addEventListener, removeEventListener } = signal
  signal.addEventListener = (...args: Parameters<typeof addEventListener>) => {
    listeners++
    addEventListener.apply(signal, args)
  }
  signal.removeEventListener = (...args: Parameters<typeof removeEventListener>) => {
    listeners--
    removeEventListener.apply(signal, args)
  }
  const small = { path: 'small.txt', content: 'x' }
  await write.execute('2', small, signal)
  expect(listeners).toBe(0)
  const call = write.execute('3', params, signal)
  controller.abort()
  await expect(call).rejects.toThrow('Operation aborted')
  // The writes of a workspace do not overlap, so the aborted one is over after another.
  await write.execute('4', small)
  expect(() => readFileSync(join(cwd, 'large.txt'))).toThrow('ENOENT')
  const ls = named(createCodingTools(cwd), 'ls')
  expect((await ls.execute('5', {})).content).toEqual([{ type: 'text', text: 'small.txt' }])
})

test('a ledger in the workspace is protected while an engine writes it', async () => {
  const path = join(cwd, 'agent.db')
  const tools = createCodingTools(cwd, { protect: [path], tools: ['read', 'write'] })
  const engine = new AgentEngine({ ledger: { path } })
  await engine.ledger.sessions()
  for (const name of ['agent.db', './agent.db-wal', 'AGENT.DB-shm']) {
    await expect(named(tools, 'write').execute('1', { path: name, content: '' })).rejects.toThrow(
      'is protected',
    )
  }
  await expect(named(tools, 'read').execute('2', { path: 'agent.db' })).rejects.toThrow(
    "`agent.db` is protected: the host's own data is in it",
  )
  await engine.close()
})

test('arguments and options that cannot be used are refused with what is wrong', async () => {
  const [read, edit] = createCodingTools(cwd)
  const failures = await Promise.all(
    [
      read?.execute('1', {}),
      read?.execute('2', { path: 7 }),
      edit?.execute('3', { path: 'a', oldText: 'x' }),
      edit?.execute('4', { path: 'a', oldText: '', newText: 'x' }),
      edit?.execute('5', { path: 'a' }),
    ].map((call) => call?.catch((error: Error) => error.message)),
  )
  expect(failures).toEqual([
    'the arguments cannot be read: missing field `path`',
    'the arguments cannot be read: invalid type: integer `7`, expected a string',
    '`newText` is missing',
    '`oldText` is empty; give the text to replace, or use `write` for a new file',
    'there is nothing to replace; give `oldText` and `newText`, or `edits`',
  ])
  const refused = (make: () => unknown) => {
    try {
      make()
    } catch (error) {
      const { code, field, message } = error as { code: string; field: string; message: string }
      return [code, field, message]
    }
  }
  const missing = join(cwd, 'missing')
  expect(refused(() => createCodingTools(missing))).toEqual([
    'invalid_options',
    'workspace',
    `\`workspace\`: the directory \`${missing}\` cannot be opened: No such file or directory (os error 2) (docs/guide/errors.md#invalid_options)`,
  ])
  expect(refused(() => createCodingTools(cwd, { tools: ['shell' as 'read'] }))).toEqual([
    'invalid_options',
    'options.tools[0]',
    '`options.tools[0]`: is not one of read, edit, write, ls, grep, find, apply_patch, bash (docs/guide/errors.md#invalid_options)',
  ])
  expect(refused(() => createCodingTools(cwd, { root: '/' } as object))?.[1]).toBe('options.root')
  expect(createCodingTools(cwd, { tools: ['ls', 'read'] }).map((tool) => tool.name)).toEqual([
    'read',
    'ls',
  ])
})
