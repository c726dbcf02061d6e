// `engine.mcp`: the servers, their tools, resources and prompts, and the option `mcp`. Calls are calls.spec.ts.

import { expect, test } from 'vitest'
import { AgentEngine, AgentEngineError } from '../../../index.js'
import { context } from '../../support/engine.js'
import { callAll, engineWith, scriptedServer } from '../../support/servers/mcp.js'
import { callTools } from '../../support/tools.js'

test('nothing is started before it is needed, and the tools are those of a run', async () => {
  const { engine } = engineWith({ s: scriptedServer({}, { tools: { allow: ['structured'] } }) })
  expect(engine.mcp.servers()).toEqual([{ name: 's', state: 'idle', tools: [], refused: [] }])
  expect(await engine.mcp.tools()).toEqual([
    {
      name: 's__structured',
      server: 's',
      tool: 'structured',
      description: '',
      parameters: { type: 'object' },
      outputSchema: { type: 'object', properties: { n: { type: 'number' } }, required: ['n'] },
      replay: 'unsafe',
    },
  ])
  expect(engine.mcp.servers()).toEqual([
    {
      name: 's',
      state: 'ready',
      protocol: '2025-11-25',
      server: { name: 'scripted', version: '1.2.3' },
      tools: ['s__structured'],
      refused: [],
    },
  ])
})

test('resources and prompts are listed and read', async () => {
  const { engine } = engineWith({ s: scriptedServer() })
  const { mcp } = engine
  expect(await mcp.resources('s')).toEqual([{ uri: 'file:///a', name: 'a' }])
  expect(await mcp.resourceTemplates('s')).toEqual([
    { uriTemplate: 'file:///{name}', name: 'files' },
  ])
  expect(await mcp.readResource('s', 'file:///a')).toEqual([{ uri: 'file:///a', text: 'A' }])
  expect(await mcp.prompts('s')).toEqual([{ name: 'greet' }])
  expect(await mcp.getPrompt('s', 'greet', { who: 'Ada' })).toEqual({
    messages: [{ role: 'user', content: { type: 'text', text: 'Greet Ada' } }],
  })
})

test('what cannot be had rejects with mcp_failed', async () => {
  const { engine } = engineWith({ s: scriptedServer() })
  const why = async (promise: Promise<unknown>) => {
    const error: AgentEngineError = await promise.then(
      () => undefined,
      (error) => error,
    )
    expect(error).toBeInstanceOf(AgentEngineError)
    return [error.code, error.message]
  }
  expect(await why(engine.mcp.resources('t'))).toEqual([
    'mcp_failed',
    'there is no MCP server of this name; known: s (docs/guide/errors.md#mcp_failed)',
  ])
  const args = { who: 1 } as unknown as Record<string, string>
  expect((await why(engine.mcp.getPrompt('s', 'greet', args)))[0]).toBe('invalid_options')
  const { engine: none } = engineWith(undefined)
  expect(await why(none.mcp.tools())).toEqual([
    'mcp_failed',
    'the engine has no MCP servers; pass `mcp` (docs/guide/errors.md#mcp_failed)',
  ])
  expect(none.mcp.servers()).toEqual([])
})

test('reload starts a server again', async () => {
  const { engine, provider } = engineWith({ s: scriptedServer() }, [
    callTools(['s__about']),
    'done',
    callTools(['s__about']),
    'done',
  ])
  const pid = async () => {
    const { texts } = await callAll({ engine, provider })
    return (JSON.parse(texts[0] ?? '') as { pid: number }).pid
  }
  const before = await pid()
  await engine.mcp.reload('s')
  expect(() => process.kill(before, 0)).toThrow('ESRCH')
  expect(await pid()).not.toBe(before)
  await engine.mcp.reload()
})

test('wrong options are refused together, each by its path, and wrong contexts too', () => {
  const make = () =>
    new AgentEngine({
      mcp: {
        a__b: { command: 'x' },
        c: { command: '' },
        d: { command: 'x', timeoutMs: 0, unknown: 1 } as never,
      },
    })
  let error: unknown
  try {
    make()
  } catch (thrown) {
    error = thrown
  }
  expect(error).toBeInstanceOf(AgentEngineError)
  const { issues } = error as AgentEngineError
  expect(issues.map(({ path }) => path)).toEqual([
    'mcp.a__b',
    'mcp.c.command',
    'mcp.d.unknown',
    'mcp.d.timeoutMs',
  ])
  expect(() => new AgentEngine({ mcp: { e: [] as never } })).toThrow(/`mcp\.e`: is a list/)
  const { engine } = engineWith(undefined)
  expect(() => engine.run(context({ mcp: 'all' as never }))).toThrow(
    /`mcp`: is neither true, false nor a list/,
  )
  expect(() => engine.run(context({ mcp: [1] as never }))).toThrow(/mcp\[0\]/)
})
