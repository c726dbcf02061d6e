// The engine's `toolsets`: tools by name, for contexts that pass none. Those of a broker are broker/messages.spec.ts. It must never reach
// a provider.

import { expect, test } from 'vitest'
import {
  AgentEngine,
  type AgentEngineOptions,
  type AgentTool,
  type AssembledContext,
  scriptedProvider,
  type ToolsetScope,
} from '../../../index.js'
import { closing } from '../../support/cleanup.js'
import { context, testModel } from '../../support/engine.js'
import { thrown } from '../../support/refusals.js'

const tool = (name: string): AgentTool => ({ name, run: () => name })

/** An engine, and the names of the tools that each of its calls offered. */
function engineWith(toolsets: AgentEngineOptions['toolsets'], options: AgentEngineOptions = {}) {
  const provider = scriptedProvider(Array.from({ length: 9 }, () => 'done'))
  const engine = new AgentEngine({
    providers: { test: provider },
    models: [testModel],
    defaults: { model: 'test/test-model' },
    ...(toolsets === undefined ? {} : { toolsets }),
    ...options,
  })
  closing(engine)
  return { engine, offered: () => provider.requests.map(({ tools }) => tools) }
}

/** A whole context without tools. */
const toolless = (toolsetName: string) =>
  context({ toolsetName, tools: undefined } as unknown as Partial<AssembledContext>)

test('a context without tools has those of its toolset, by both forms of a run; one with tools keeps them', async () => {
  const { engine, offered } = engineWith({
    coding: [tool('read'), tool('write')],
    default: [tool('help')],
  })
  await engine.run('hi', { toolsetName: 'coding' }).result
  await engine.run(toolless('coding')).result
  await engine.run('hi').result
  await engine.run('hi', { toolsetName: 'coding', tools: [tool('own')] }).result
  await engine.run('hi', { toolsetName: 'anything', tools: [] }).result
  expect(offered()).toEqual([['read', 'write'], ['read', 'write'], ['help'], ['own'], []])
})

test('a function gives the tools of each context by its scope, and they run', async () => {
  const seen: ToolsetScope[] = []
  const provider = scriptedProvider([{ toolCalls: [{ name: 'of_a', arguments: {} }] }, 'done'])
  const { engine } = engineWith(
    {
      own: (scope) => {
        seen.push(scope)
        return [tool(`of_${scope.sessionLabel}`)]
      },
    },
    { providers: { test: provider } },
  )
  const { toolCalls } = await engine.run('hi', {
    session: 'a',
    toolsetName: 'own',
    metadata: { team: 'x' },
  }).result
  expect(toolCalls[0]?.result).toBe('of_a')
  expect(seen).toEqual([{ sessionLabel: 'a', toolsetName: 'own', metadata: { team: 'x' } }])
})

test('a count of tokens counts the tools of the toolset', async () => {
  const { engine } = engineWith({ big: [{ ...tool('a'), description: 'x'.repeat(4_000) }] })
  const [none, big] = await Promise.all([
    engine.countTokens('hi'),
    engine.countTokens('hi', { toolsetName: 'big' }),
  ])
  expect((big?.tokens ?? 0) - (none?.tokens ?? 0)).toBeGreaterThan(900)
})

test('a toolset that is not there, fails or gives no list is refused before anything is sent', async () => {
  const { engine, offered } = engineWith({
    coding: [],
    broken: () => {
      throw new Error('no database')
    },
    late: (() => Promise.resolve([])) as never,
  })
  const why = (toolsetName: string) => {
    const { code, field, issues } = thrown(() => engine.run('hi', { toolsetName }))
    return [code, field, issues[0]?.message]
  }
  expect(why('codign')).toEqual([
    'invalid_context',
    'toolsetName',
    "is not one of the engine's `toolsets` (`coding`, `broken`, `late`); name one of them, or pass `tools`",
  ])
  expect(why('broken')).toEqual([
    'invalid_context',
    'toolsetName',
    'names a toolset that failed: no database',
  ])
  expect(why('late')[2]).toBe('names a toolset that returned no list of tools')
  expect(thrown(() => new AgentEngine({ toolsets: { a: 'read' } as never })).field).toBe(
    'toolsets.a',
  )
  expect(offered()).toEqual([])
})

test('without toolsets the name of a toolset is only a name', async () => {
  const { engine, offered } = engineWith(undefined)
  await engine.run('hi', { toolsetName: 'anything' }).result
  expect(offered()).toEqual([[]])
})
