// The planner gate: what is decided before the model is called, what runs then, and what is recorded. The heuristic's rules are tested
// in crates/turn. It must never reach a provider.

import { expect, test } from 'vitest'
import {
  AgentEngine,
  type AgentEngineOptions,
  type AgentTool,
  type Plan,
  type PlanContext,
  type ScriptedReply,
  scriptedProvider,
} from '../../../index.js'
import { callbackWarnings } from '../../support/callback-warnings.js'
import { closing, folder } from '../../support/cleanup.js'
import { context, readAll, scriptedEngine, testModel, textOf } from '../../support/engine.js'
import { thrown } from '../../support/refusals.js'

/** A tool that notes what it was called with. */
function looking(ran: unknown[], fields: Partial<AgentTool> = {}): AgentTool {
  return {
    name: 'house__look',
    description: 'Looks.',
    parameters: {
      type: 'object',
      properties: { query: { type: 'string' } },
      required: ['query'],
      additionalProperties: false,
    },
    run: (params) => {
      ran.push(params)
      return 'a cellar'
    },
    ...fields,
  }
}

const message = (content: string) => ({ role: 'user' as const, content })

function planning(replies: ScriptedReply[], options: AgentEngineOptions = {}) {
  const made = scriptedEngine(replies, options)
  closing(made.engine)
  return made
}

test('planned calls run before the model is called, as calls of the model do, and it reads their results', async () => {
  const ran: unknown[] = []
  const { engine, provider } = planning(['There is a cellar.'])
  const run = engine.run(
    context({
      currentMessage: message('tool:house.look downstairs'),
      tools: [looking(ran)],
      planner: 'heuristic',
    }),
  )
  const events = await readAll(run)
  const { messages, toolCalls, plans, attempts, text, stopReason } = await run.result
  expect([ran, text, stopReason]).toEqual([
    [{ query: 'downstairs' }],
    'There is a cellar.',
    'end_turn',
  ])
  expect(messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool', 'assistant'])
  expect(messages[1]).toMatchObject({
    provenance: { provider: 'planner', api: 'planned', model: 'heuristic' },
    providerStopReason: 'planned',
  })
  expect(toolCalls).toMatchObject([
    {
      toolName: 'house__look',
      params: { query: 'downstairs' },
      result: 'a cellar',
      status: 'completed',
    },
  ])
  expect(toolCalls[0]?.messageId).toBe(messages[1]?.id)
  expect(plans).toEqual([
    {
      kind: 'tools',
      reason: '`tool:house.look` names `house__look`',
      inputHash: expect.stringMatching(/^[0-9a-f]{32}$/),
      planner: 'heuristic',
      messageId: messages[1]?.id,
    },
  ])
  expect(attempts.map(({ purpose, provider: by, ok }) => [purpose, by, ok])).toEqual([
    ['plan', 'planner', true],
    [undefined, 'test', true],
  ])
  expect(provider.requests).toHaveLength(1)
  expect(JSON.stringify(provider.requests[0])).toContain('a cellar')
  const statuses = events.flatMap((it) =>
    it.type === 'tool_status' ? [[it.status, it.callId]] : [],
  )
  const callId = toolCalls[0]?.callId
  expect(statuses).toEqual([
    ['started', callId],
    ['completed', callId],
  ])
  expect(
    events.flatMap((it) => (it.type === 'stream_end' ? [[it.final, it.messageId]] : [])),
  ).toEqual([
    [false, messages[1]?.id],
    [true, messages[3]?.id],
  ])
})

test('a plan to ask ends the turn with the question, streamed, and no model is called', async () => {
  const { engine, provider } = planning([])
  const run = engine.run(
    context({ currentMessage: message('tool:house'), tools: [looking([])], planner: 'heuristic' }),
  )
  const events = await readAll(run)
  const { text, stopReason, usage, plans, messages } = await run.result
  const question = 'Which tool and action should I use? Example: tool:house.look'
  expect([text, textOf(events), stopReason, usage.totalTokens]).toEqual([
    question,
    question,
    'end_turn',
    0,
  ])
  expect(plans).toMatchObject([{ kind: 'clarify', messageId: messages[1]?.id }])
  expect(events.at(-1)).toMatchObject({ type: 'stream_end', final: true, stopReason: 'end_turn' })
  expect(provider.requests).toEqual([])
})

test('a direct plan calls the model, and is recorded with its reason', async () => {
  const { engine, provider } = planning(['Hello.'], { planner: 'heuristic' })
  const { text, plans } = await engine.run(context({ tools: [looking([])] })).result
  expect([text, plans?.[0]?.kind, plans?.[0]?.reason]).toEqual([
    'Hello.',
    'direct',
    'the message names no tool',
  ])
  expect(provider.requests).toHaveLength(1)
})

test('a run without a planner has no plans', async () => {
  const { engine } = planning(['Hello.'])
  const result = await engine.run(context({ currentMessage: message('tool:house.look x') })).result
  expect([result.text, 'plans' in result, result.attempts.length]).toEqual(['Hello.', false, 1])
})

test('a keyword of the host stands for a lookup of a tool', async () => {
  const ran: unknown[] = []
  const { engine } = planning(['done'], {
    planner: { plan: 'heuristic', keywords: { cellar: 'house' } },
  })
  const tool = looking(ran, { name: 'house__search' })
  await engine.run(context({ currentMessage: message('Is there a cellar?'), tools: [tool] })).result
  expect(ran).toEqual([{ query: 'Is there a cellar?' }])
})

test('the same input and settings have the same plan and hash, in every session and process', async () => {
  const plan = async (content: string, changes: object = {}) => {
    const { engine } = planning(['done'])
    const { plans } = await engine.run(
      context({
        currentMessage: message(content),
        tools: [looking([])],
        planner: 'heuristic',
        sessionLabel: `agent:main:${Math.random()}`,
        ...changes,
      }),
    ).result
    return plans?.map(({ messageId: _, ...plan }) => plan)
  }
  const first = await plan('tool:house.look a')
  expect(await plan('tool:house.look a')).toEqual(first)
  const hashes = [
    first,
    await plan('tool:house.look b'),
    await plan('tool:house.look a', { planner: { plan: 'heuristic', keywords: { a: 'b' } } }),
    await plan('tool:house.look a', { tools: [looking([]), looking([], { name: 'other' })] }),
  ].map((plans) => plans?.[0]?.inputHash)
  expect(new Set(hashes).size).toBe(4)
  expect(first?.[0]?.inputHash).toBe('dcf23cb14e91167df446f466823d737e')
})

test('a function of the host plans with the message, the tools and the results so far', async () => {
  const [ran, seen]: [unknown[], PlanContext[]] = [[], []]
  const plan = async (given: PlanContext): Promise<Plan> => {
    seen.push(given)
    const { observations } = given
    if (observations.length === 2) return { kind: 'direct', reason: 'enough' }
    const query = `room ${observations.length}`
    return {
      kind: 'tools',
      calls: [{ toolName: 'house__look', params: { query } }],
      reason: 'look',
    }
  }
  const { engine, provider } = planning(['done'])
  const run = engine.run(context({ tools: [looking(ran)], planner: { plan, replan: true } }))
  const { plans, turnId, runId } = await run.result
  expect(ran).toEqual([{ query: 'room 0' }, { query: 'room 1' }])
  expect(plans?.map(({ kind, reason, planner }) => [kind, reason, planner])).toEqual([
    ['tools', 'look', 'function'],
    ['tools', 'look', 'function'],
    ['direct', 'enough', 'function'],
  ])
  expect(provider.requests).toHaveLength(1)
  expect(seen.map(({ inputHash: _, ...rest }) => rest)).toEqual(
    [0, 1, 2].map((count) => ({
      runId,
      turnId,
      sessionLabel: 'agent:main:main',
      message: 'hi',
      step: count + 1,
      tools: ['house__look'],
      observations: Array.from({ length: count }, (_, at) => ({
        toolName: 'house__look',
        params: { query: `room ${at}` },
        result: 'a cellar',
        isError: false,
      })),
    })),
  )
  expect(seen.map(({ inputHash }) => inputHash)).toEqual(plans?.map(({ inputHash }) => inputHash))
})

test('without replan the planner is asked once, before the first answer', async () => {
  const ran: unknown[] = []
  let asked = 0
  const call = { name: 'house__look', arguments: { query: 'model' } }
  const { engine } = planning([{ toolCalls: [call] }, 'done'])
  const planner = (): Plan => {
    asked += 1
    return { kind: 'direct' }
  }
  const { plans } = await engine.run(context({ tools: [looking(ran)], planner })).result
  expect([asked, ran, plans?.length]).toEqual([1, [{ query: 'model' }], 1])
})

test('planned calls are steps: a planner that always plans ends at the limit, and no model is called', async () => {
  const ran: unknown[] = []
  const { engine, provider } = planning([])
  const plan = (): Plan => ({
    kind: 'tools',
    calls: [{ toolName: 'house__look', params: { query: 'again' } }],
  })
  const planner = { plan, replan: true }
  const { stopReason, toolCalls, plans } = await engine.run(
    context({ tools: [looking(ran)], planner, policy: { maxSteps: 3 } }),
  ).result
  expect([stopReason, ran.length, plans?.length]).toEqual(['tool_use', 2, 3])
  expect(toolCalls.map(({ status, error }) => [status, error])).toEqual([
    ['completed', undefined],
    ['completed', undefined],
    ['failed', 'iteration_limit'],
  ])
  expect(provider.requests).toEqual([])
})

test('planned calls pass the same validation, policies and hooks as those of a model', async () => {
  const ran: unknown[] = []
  const { engine } = planning(['done'], { policy: { deniedTools: ['secret'] } })
  const names = ['house__look', 'house__look', 'house__look', 'secret', 'nowhere']
  const params = [{ query: 'yes' }, { query: 'no' }, { room: 1 }, {}, {}]
  const plan = (): Plan => ({
    kind: 'tools',
    calls: names.map((toolName, at) => ({ toolName, params: params[at] ?? {} })),
  })
  const { toolCalls, text } = await engine.run(
    context({
      tools: [looking(ran), looking(ran, { name: 'secret' })],
      planner: plan,
      policy: { maxToolCalls: 4 },
      beforeToolCall: ({ params: given }) =>
        given.query === 'no' ? { deny: 'not there' } : 'allow',
    }),
  ).result
  expect([ran, text]).toEqual([[{ query: 'yes' }], 'done'])
  expect(toolCalls.map(({ status }) => status)).toEqual(['completed', ...Array(4).fill('failed')])
  const errors = toolCalls.map(({ error }) => error ?? '')
  expect(errors[1]).toBe('not there')
  expect(errors[2]).toContain('query')
  expect(errors[3]).toBe('Tool secret is not allowed (policy `deniedTools`)')
  expect(errors[4]).toContain('policy `maxToolCalls`')
})

test.each<[string, unknown, string | undefined]>([
  ['nothing', undefined, undefined],
  ['another kind', { kind: 'later' }, '`kind`: `later` is not known'],
  ['no calls', { kind: 'tools', calls: [] }, '`calls` is empty'],
  ['a list', { kind: 'tools', calls: [{ toolName: 'a', params: [] }] }, '`calls[0].params`'],
  ['an empty question', { kind: 'clarify', question: ' ' }, '`question` is empty'],
  ['a text', 'direct', 'is a string'],
])('a planner that returns %s is a warning, and the model is called', async (_, plan, why) => {
  const { engine } = planning(['done'])
  const { text, plans, warnings } = await engine.run(context({ planner: () => plan as Plan }))
    .result
  expect([text, plans?.[0]?.kind, plans?.[0]?.reason]).toEqual([
    'done',
    'direct',
    'the planner gave no plan',
  ])
  expect(warnings.map(({ code }) => code)).toEqual(why === undefined ? [] : ['planner'])
  if (why !== undefined) expect(warnings[0]?.message).toContain(why)
})

test('a planner that throws is a process warning, and the model is called', async () => {
  const { engine } = planning(['done'])
  const planner = () => {
    throw new Error('no idea')
  }
  const warnings = callbackWarnings()
  const { text, plans } = await engine.run(context({ planner })).result
  expect([text, plans?.[0]?.kind]).toEqual(['done', 'direct'])
  await new Promise((resolve) => setImmediate(resolve))
  expect(warnings.map(({ message: text }) => text)).toEqual([expect.stringContaining('no idea')])
})

test('an abort ends a run whose planner does not answer', async () => {
  const { engine, provider } = planning([])
  let asked: (() => void) | undefined
  const called = new Promise<void>((resolve) => {
    asked = resolve
  })
  const planner = () => {
    asked?.()
    return new Promise<Plan>(() => {})
  }
  const run = engine.run(context({ planner }))
  await called
  run.abort()
  expect([(await run.result).stopReason, provider.requests]).toEqual(['aborted', []])
})

test('a run that asks for an output may end with a question instead', async () => {
  const { engine, provider } = planning([])
  const planner = (): Plan => ({ kind: 'clarify', question: 'Which one?' })
  const { text, stopReason, output } = await engine.run(
    context({
      planner,
      responseFormat: { type: 'json_schema', name: 'a', schema: { type: 'object' } },
    }),
  ).result
  expect([text, stopReason, output, provider.requests]).toEqual([
    'Which one?',
    'end_turn',
    undefined,
    [],
  ])
})

test('plan, reason and hash are in the ledger, with the planned message, and the session continues from it', async () => {
  const { file } = folder()
  const provider = scriptedProvider(['There is a cellar.', 'And an attic.'])
  const engine = new AgentEngine({
    ledger: { path: file },
    providers: { test: provider },
    models: [testModel],
    planner: 'heuristic',
  })
  closing(engine)
  const tools = [looking([])]
  const first = await engine.run(
    context({ tools, currentMessage: message('tool:house.look below') }),
  ).result
  const second = await engine.run(context({ tools, currentMessage: message('More?') })).result
  expect([first.persisted, second.text]).toEqual([true, 'And an attic.'])
  const turn = await engine.ledger.turn(first.turnId)
  expect(turn?.attempts[0]).toMatchObject({ purpose: 'plan', plan: first.plans?.[0] })
  expect((await engine.resultOf(first.runId)).plans).toEqual(first.plans)
  const { rows } = await engine.ledger.query(
    "SELECT json_extract(attempts_json, '$[0].plan.inputHash') AS hash FROM turns WHERE id = ?",
    [first.turnId],
  )
  expect(rows).toEqual([{ hash: first.plans?.[0]?.inputHash }])
  const planned = await engine.ledger.query(
    "SELECT provider, api, model, stop_reason FROM messages WHERE api = 'planned'",
  )
  expect(planned.rows).toEqual([
    { provider: 'planner', api: 'planned', model: 'heuristic', stop_reason: 'planned' },
  ])
  expect(JSON.stringify(provider.requests[1])).toContain('a cellar')
  expect((await engine.ledger.verify()).problems).toEqual([])
})

test.each<[unknown, string]>([
  ['magic', 'planner'],
  [7, 'planner'],
  [{ plan: 'magic' }, 'planner.plan'],
  [{ plan: 'heuristic', words: {} }, 'planner.words'],
  [{ plan: 'heuristic', keywords: { ' ': 'a' } }, 'planner.keywords'],
  [{ plan: () => ({ kind: 'direct' }), keywords: { a: 'b' } }, 'planner.keywords'],
  [{ plan: 'heuristic', replan: 'yes' }, 'planner.replan'],
])('the planner %j is refused with its path, by an engine and by a run', async (planner, path) => {
  const { engine, provider } = planning([])
  const given = { planner } as object
  expect(thrown(() => engine.run(context(given))).field).toBe(path)
  expect(thrown(() => new AgentEngine(given)).field).toBe(path)
  expect(provider.requests).toEqual([])
})
