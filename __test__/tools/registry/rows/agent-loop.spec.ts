// What a planner, a registry of tools, an executor and a policy are for, and what makes their loop deterministic: a test for each row. It
// must never test again what a spec beside it proves.
//
// | Row                                                     | Test                                                                 |
// |---------------------------------------------------------|----------------------------------------------------------------------|
// | Planner: a direct answer                                | `../planner.spec.ts`, "a direct plan calls the model …"              |
// | Planner: a list of calls, structured and validated      | `../planner.spec.ts`, "planned calls pass the same validation …"     |
// | Planner: a question for the user                        | `../planner.spec.ts`, "a plan to ask ends the turn …"                |
// | Planner: a classifier, by rules                         | `../planner.spec.ts`, "a keyword of the host …"                      |
// | Planner: a model, at a fixed temperature                | "planner: …"                                                         |
// | Planner: the same input has the same decision           | `../planner.spec.ts`, "the same input and settings …"                |
// | Planner: plans again after observations                 | `../planner.spec.ts`, "a function of the host plans …"               |
// | Registry: schemas and constraints of tools              | `../../tool-fields.spec.ts`, `../../validation.spec.ts`              |
// | Registry: tools of servers, of a store, of the engine   | "registry: …"                                                        |
// | Registry: the tools of one user and project             | "registry: …", and `../toolsets.spec.ts`, "a function gives …"       |
// | Executor: a time limit where a tool has none            | `../../tool-retries.spec.ts`, first test                             |
// | Executor: retries of what is safe to repeat             | `../../tool-retries.spec.ts`                                         |
// | Executor: required fields before anything runs          | `../../validation.spec.ts`, "every failing path is reported …"       |
// | Executor: results are recorded as facts                 | `../../tool-loop.spec.ts`, "the text before the calls …"             |
// | Executor: observations stand before the next answer     | `../../tool-loop.spec.ts`, "model, tools, model: …"                  |
// | Executor: a failing tool fails no run                   | `../../tool-faults.spec.ts`                                          |
// | Policy: the most calls of a turn                        | `../policies.spec.ts`, "calls over maxToolCalls …"                   |
// | Policy: the names that are allowed                      | `../policies.spec.ts`, "a tool that %s is neither offered nor run"   |
// | Policy: the most tokens                                 | `../policies.spec.ts`, "a run that has used maxTokens …"             |
// | Policy: a budget of time                                | `../policies.spec.ts`, "maxSteps, timeoutMs and maxParallel …"       |
// | Determinism: schemas are checked before a tool runs     | `../../validation.spec.ts`                                           |
// | Determinism: the most steps of a turn                   | `../planner.spec.ts`, "planned calls are steps: …"                   |
// | Determinism: an id in every action, row, line and span  | `../trace-ids.spec.ts`                                               |
// | Determinism: the same turn sends the same bytes         | "determinism: …"                                                     |

import { expect, test } from 'vitest'
import { AgentEngine, type AgentTool, createCodingTools, type Plan } from '../../../../index.js'
import { answering } from '../../../support/approvals.js'
import { closing, folder, serving } from '../../../support/cleanup.js'
import { context, engineAt, scriptedEngine, testModel } from '../../../support/engine.js'
import { chat } from '../../../support/servers/chat.js'
import { engineWith, scriptedServer } from '../../../support/servers/mcp.js'
import { sse } from '../../../support/servers/server.js'
import { callTools, tool } from '../../../support/tools.js'

test('planner: a model plans at a fixed temperature, for the same input by the same request, and its plan is recorded', async () => {
  const plan = JSON.stringify({
    kind: 'tools',
    calls: [{ toolName: 'look', params: { at: 'cellar' } }],
    reason: 'the user names a place',
  })
  const server = await serving(sse(chat.answer(plan)), sse(chat.answer(plan)))
  const model = closing(
    new AgentEngine({
      providers: { planner: { api: 'openai-chat', baseUrl: server.url } },
      models: [{ provider: 'planner', id: 'small', contextWindow: 100_000 }],
    }),
  )
  const planner = async ({ message }: { message: string }): Promise<Plan> => {
    const options = { model: 'planner/small', temperature: 0, session: 'agent:planner:main' }
    return JSON.parse((await model.run(message, options).result).text)
  }
  const plans: unknown[] = []
  for (const label of ['agent:main:one', 'agent:main:two']) {
    const ran: unknown[] = []
    const { engine } = scriptedEngine(['There is wine.'])
    const look = tool('look', (params) => {
      ran.push(params)
      return 'wine'
    })
    const run = closing(engine).run(context({ tools: [look], planner, sessionLabel: label }))
    const { text, plans: made } = await run.result
    expect([text, ran]).toEqual(['There is wine.', [{ at: 'cellar' }]])
    plans.push(made?.map(({ messageId: _, ...rest }) => rest))
  }
  expect(plans[0]).toEqual(plans[1])
  expect(plans[0]).toEqual([
    {
      kind: 'tools',
      reason: 'the user names a place',
      planner: 'function',
      inputHash: expect.stringMatching(/^[0-9a-f]{32}$/),
    },
  ])
  const bodies = server.seen.map(({ body }) => body)
  expect(bodies[0]?.temperature).toBe(0)
  expect(bodies[1]).toEqual(bodies[0])
})

test('registry: one run has the tools of a store for its user, those of the workspace, of the engine and of servers, and all run', async () => {
  const { path, file } = folder()
  const { engine, provider } = engineWith(
    { s: scriptedServer({}, { tools: { allow: ['echo'] } }) },
    [
      callTools(['note_ada', {}], ['ls', {}], ['recall', { query: 'wine' }], ['s__echo', { n: 1 }]),
      'done',
    ],
    {
      ledger: { path: file },
      models: [testModel],
      compaction: { recall: true },
      toolsets: {
        store: ({ metadata }) => [
          tool(`note_${(metadata as { user: string }).user}`, () => 'noted'),
          ...createCodingTools(path, { tools: ['ls'] }),
        ],
      },
    },
  )
  const { tools: _, ...given } = context({ toolsetName: 'store', metadata: { user: 'ada' } })
  const { toolCalls } = await engine.run(given as ReturnType<typeof context>).result
  expect(provider.requests[0]?.tools).toEqual(['note_ada', 'ls', 'recall', 's__echo'])
  expect(toolCalls.map(({ toolName, status }) => [toolName, status])).toEqual([
    ['note_ada', 'completed'],
    ['ls', 'completed'],
    ['recall', 'completed'],
    ['s__echo', 'completed'],
  ])
})

test('determinism: the same turn of tools and plans sends the same bytes, and makes the same calls', async () => {
  const turn = async () => {
    const server = await answering([['c1', 'look', { at: 'attic' }]])
    const seen: unknown[] = []
    const look: AgentTool = tool('look', (params) => {
      seen.push(params)
      return 'dust'
    })
    const engine = closing(engineAt(server.url))
    const planner = (): Plan => ({
      kind: 'tools',
      calls: [{ toolName: 'look', params: { at: 'cellar' } }],
    })
    const { text, plans } = await engine.run(context({ tools: [look], planner })).result
    const inputs = plans?.map(({ inputHash }) => inputHash)
    // A planned call has an id of its own, which its result names too.
    const bodies = server.seen.map(({ raw }) => raw.replaceAll(/call_[0-9A-Z]{26}/g, 'call'))
    return { text, inputs, seen, bodies }
  }
  const first = await turn()
  expect(first.bodies).toHaveLength(2)
  expect(first.seen).toEqual([{ at: 'cellar' }, { at: 'attic' }])
  expect(await turn()).toEqual(first)
})
