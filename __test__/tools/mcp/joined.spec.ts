// The tools of MCP servers where a context is checked and counted before a run: they join it later, when their servers have started. It must
// never start a server that a context does not select.

import { expect, test } from 'vitest'
import type { AgentEngineOptions, AssembledContext } from '../../../index.js'
import { answering } from '../../support/approvals.js'
import { closing } from '../../support/cleanup.js'
import { context, engineAt } from '../../support/engine.js'
import { thrown } from '../../support/refusals.js'
import { engineWith, scriptedServer } from '../../support/servers/mcp.js'
import { tool } from '../../support/tools.js'

const echo = scriptedServer({}, { tools: { allow: ['echo'] } })
const ends = scriptedServer({ exit: true })

/** An engine with these servers, whose model calls `s__echo` once, and what it sends. */
async function choosing(mcp: AgentEngineOptions['mcp'], options: AgentEngineOptions = {}) {
  const server = await answering([['c1', 's__echo', { n: 1 }]])
  const engine = closing(engineAt(server.url, { mcp, ...options }))
  const choices = () => server.seen.map(({ body }) => body.tool_choice)
  return { engine, choices, server }
}

test('a tool of a server may be the tool choice, which holds until it has answered', async () => {
  const { engine, choices } = await choosing({ s: echo })
  const { text, warnings, toolCalls } = await engine.run(
    context({ toolChoice: { name: 's__echo' } }),
  ).result
  expect([text, warnings]).toEqual(['Done.', []])
  expect(toolCalls.map(({ toolName, status }) => [toolName, status])).toEqual([
    ['s__echo', 'completed'],
  ])
  expect(choices()).toEqual([{ type: 'tool', name: 's__echo' }, undefined])
})

test('the choice of a tool whose server is down is left out with a warning, and the run goes on', async () => {
  const { engine, choices } = await choosing({ s: ends })
  const tools = [tool('own', () => 'mine')]
  const run = engine.run(context({ tools, toolChoice: { name: 's__echo' } }))
  const { stopReason, warnings } = await run.result
  expect(stopReason).toBe('end_turn')
  expect(warnings.map(({ code, field, message }) => ({ code, field, message }))).toEqual([
    {
      code: 'mcp_unavailable',
      field: 'mcp.s',
      message: 'MCP server `s` has ended (exit code 7)',
    },
    {
      code: 'mcp_unavailable',
      field: 'toolChoice.name',
      message: "`s__echo` is not one of the run's tools, and is not chosen",
    },
  ])
  expect(choices()).toEqual([undefined, undefined])
})

test.each<[string, Partial<AssembledContext>, AgentEngineOptions, string, string]>([
  [
    'of no server',
    { toolChoice: { name: 'other__echo' } },
    {},
    'toolChoice.name',
    '`other__echo` is not one of `tools`',
  ],
  [
    'of a server that is not selected',
    { toolChoice: { name: 's__echo' }, mcp: ['t'] },
    {},
    'toolChoice.name',
    '`s__echo` is not one of `tools`',
  ],
  [
    'without servers',
    { toolChoice: { name: 's__echo' }, mcp: false },
    {},
    'toolChoice.name',
    '`s__echo` is not one of `tools`',
  ],
  [
    'that a policy forbids',
    { toolChoice: { name: 's__echo' } },
    { policy: { deniedTools: ['s.*'] } },
    'toolChoice.name',
    '`s__echo` is forbidden by a policy',
  ],
])(
  'the choice of a tool %s is refused before anything is sent or started',
  async (_, given, options, path, message) => {
    const { engine, server } = await choosing({ s: echo }, options)
    const { code, issues } = thrown(() => engine.run(context(given)))
    expect([code, issues.map((issue) => [issue.path, issue.message])]).toEqual([
      'invalid_context',
      [[path, message]],
    ])
    expect([server.seen, engine.mcp.servers().map(({ state }) => state)]).toEqual([[], ['idle']])
  },
)

test('a choice that needs a tool is accepted where policies forbid those of the host, and a server may have one', async () => {
  const { engine, choices } = await choosing({ s: echo }, { policy: { deniedTools: ['own'] } })
  const tools = [tool('own', () => 'mine')]
  const { text } = await engine.run(context({ tools, toolChoice: 'required' })).result
  expect([text, choices()]).toEqual(['Done.', [{ type: 'any' }, undefined]])
})

test('a count has the tools of the servers that a context selects, as its run would have them', async () => {
  const { engine } = engineWith({ s: scriptedServer(), gone: ends })
  const tokens = async (mcp: AssembledContext['mcp']) => {
    const { toolTokens, tokens } = await engine.countTokens(context({ mcp }))
    return [toolTokens > 0, tokens] as const
  }
  const [none, without] = await tokens(false)
  expect(engine.mcp.servers().map(({ state }) => state)).toEqual(['idle', 'idle'])
  const [some, all] = await tokens(undefined)
  const [, one] = await tokens(['s.echo'])
  expect([none, some]).toEqual([false, true])
  expect([one > without, all > one]).toEqual([true, true])
  const names = (await engine.mcp.tools()).map(({ name, description, parameters }) => ({
    name,
    description,
    parameters,
  }))
  const { engine: host } = engineWith(undefined)
  const tools = names.map((each) => ({ ...tool(each.name, () => ''), ...each }))
  expect(await host.countTokens(context({ tools }))).toMatchObject({ tokens: all })
})

test('a count does not wait for a server longer than its engine is open', async () => {
  const { engine } = engineWith({ s: scriptedServer({ never: true }) })
  const counting = engine.countTokens(context())
  await engine.close()
  expect((await counting).toolTokens).toBe(0)
})
