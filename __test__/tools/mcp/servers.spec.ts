// Servers that others have written: the protocol's own library in both forms, and its servers of examples and of files. What a server may do
// to us is hostile.spec.ts.

import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { folder } from '../../support/cleanup.js'
import { context } from '../../support/engine.js'
import { callAll, engineWith } from '../../support/servers/mcp.js'
import { callTools } from '../../support/tools.js'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const command = process.execPath
const packaged = (name: string, ...args: string[]) => ({
  command,
  args: [join(root, 'node_modules/@modelcontextprotocol', name, 'dist/index.js'), ...args],
})
const sdk = (legacy: 'serve' | 'reject') => ({
  command,
  args: [join(root, '__test__/children/mcp/sdk-server.mjs'), legacy],
})

test.each([
  ['both forms, with a handshake', 'serve', 'auto', '2025-11-25'],
  ['both forms, without one', 'serve', '2026-07-28', '2026-07-28'],
  ['the new form only', 'reject', 'auto', '2026-07-28'],
] as const)('the library of the protocol is called in %s', async (_, legacy, protocol, spoken) => {
  const { engine, provider } = engineWith({ sum: { ...sdk(legacy), protocol } }, [
    callTools(['sum__add', { a: 1, b: 2 }], ['sum__add', { a: 'x' }]),
    'done',
  ])
  const { texts, result } = await callAll({ engine, provider })
  expect(texts[0]).toBe('3')
  expect(texts[1]).toMatch(/^error: .*a: must be number/s)
  expect(result.toolCalls[0]?.result).toMatchObject({ structuredContent: { sum: 3 } })
  expect(engine.mcp.servers()[0]?.protocol).toBe(spoken)
})

test('the server of examples: progress, images, structured results, links, an abort, and its end with the engine', async () => {
  const { engine, provider } = engineWith({ all: packaged('server-everything', 'stdio') }, [
    callTools(
      ['all__echo', { message: 'hi' }],
      ['all__get-tiny-image'],
      ['all__get-structured-content', { location: 'Chicago' }],
      ['all__get-resource-links', { count: 1 }],
      ['all__trigger-long-running-operation', { duration: 0.2, steps: 2 }],
    ),
    'done',
    callTools(['all__trigger-long-running-operation', { duration: 60, steps: 60 }]),
  ])
  const { texts, progress } = await callAll({ engine, provider })
  expect(texts[0]).toBe('Echo: hi')
  expect(texts[1]).toContain('[image/png]')
  expect(JSON.parse(texts[2] ?? '')).toMatchObject({ temperature: expect.any(Number) })
  expect(texts[3]).toMatch(/\[resource .* at .*\]/)
  expect(texts[4]).toContain('Long running operation completed')
  expect(progress.map((partial) => (partial as { details: unknown }).details)).toEqual([
    { progress: 1, total: 2, message: null },
    { progress: 2, total: 2, message: null },
  ])
  const run = engine.run(context())
  for await (const event of run) if (event.type === 'tool_progress') run.abort()
  expect((await run.result).stopReason).toBe('aborted')
  expect((await engine.mcp.resources('all')).length).toBeGreaterThan(0)
  expect((await engine.mcp.prompts('all')).map(({ name }) => name)).toContain('simple-prompt')
  await engine.close()
})

test('the server of files reads and lists what it may', async () => {
  const { path } = folder()
  const dir = join(path, 'data')
  mkdirSync(dir)
  writeFileSync(join(dir, 'a.txt'), 'A')
  const { engine, provider } = engineWith({ files: packaged('server-filesystem', dir) }, [
    callTools(
      ['files__read_text_file', { path: join(dir, 'a.txt') }],
      ['files__list_directory', { path: dir }],
      ['files__read_text_file', { path: '/etc/passwd' }],
    ),
    'done',
  ])
  const { texts } = await callAll({ engine, provider })
  expect(texts.slice(0, 2)).toEqual(['A', '[FILE] a.txt'])
  expect(texts[2]).toMatch(/^error: .*[Aa]ccess denied/)
})
