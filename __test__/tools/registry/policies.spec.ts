// Policies of engines and runs: what they forbid is neither offered nor run, their limits hold, and none widens another. Budgets are
// providers/budgets.spec.ts.

import { expect, test } from 'vitest'
import {
  AgentEngine,
  type AgentTool,
  Broker,
  type RunPolicy,
  type ScriptedRequest,
  scriptedProvider,
} from '../../../index.js'
import { answering, engineOn } from '../../support/approvals.js'
import { closing, folder } from '../../support/cleanup.js'
import { context, scriptedEngine } from '../../support/engine.js'

const calls = (...names: string[]) => ({
  toolCalls: names.map((name) => ({ name, arguments: {} })),
})

/** A tool that notes in `ran` that it ran. */
function noting(name: string, ran: string[]): AgentTool {
  return {
    name,
    parameters: { type: 'object' },
    run: () => {
      ran.push(name)
      return 'x'.repeat(1_000)
    },
  }
}

/** What the model was offered, call by call. */
const offered = (requests: readonly ScriptedRequest[]) => requests.map(({ tools }) => tools)

test.each<[string, RunPolicy, RunPolicy]>([
  ['the engine denies', { deniedTools: ['b*'] }, {}],
  ['the run denies', {}, { deniedTools: ['bash'] }],
  ['the engine allows others', { allowedTools: ['read', 'w?ite'] }, {}],
  ['the run allows what the engine denies', { deniedTools: ['bash'] }, { allowedTools: ['*'] }],
])('a tool that %s is neither offered nor run', async (_, ofEngine, policy) => {
  const ran: string[] = []
  const { engine, provider } = scriptedEngine([calls('bash', 'read'), 'done'], { policy: ofEngine })
  closing(engine)
  const tools = ['read', 'bash', 'write'].map((name) => noting(name, ran))
  const { toolCalls, text } = await engine.run(context({ tools, policy })).result
  expect(offered(provider.requests)).toEqual([
    ['read', 'write'],
    ['read', 'write'],
  ])
  expect(toolCalls.map(({ status }) => status)).toEqual(['failed', 'completed'])
  expect(toolCalls[0]?.error).toMatch(
    /^Tool bash is not allowed \(policy `(allowed|denied)Tools`\)$/,
  )
  expect([ran, text]).toEqual([['read'], 'done'])
})

test('calls over maxToolCalls are answered with an error, and the smaller limit holds', async () => {
  const ran: string[] = []
  const rounds = [calls('a', 'a'), calls('a', 'a'), 'enough']
  const { engine } = scriptedEngine(rounds, { policy: { maxToolCalls: 3 } })
  closing(engine)
  const policy = [{ maxToolCalls: 5 }, { maxToolCalls: 4 }]
  const { toolCalls, text } = await engine.run(context({ tools: [noting('a', ran)], policy }))
    .result
  expect(ran).toHaveLength(3)
  expect(toolCalls.map(({ status }) => status)).toEqual([
    'completed',
    'completed',
    'completed',
    'failed',
  ])
  expect(toolCalls[3]?.error).toBe(
    'This tool was not run: the run has made the 3 tool calls that it may make (policy `maxToolCalls`). Answer with what you have.',
  )
  expect(text).toBe('enough')
})

test('a run that has used maxTokens calls the model no more, and says why in result, event and row', async () => {
  const ran: string[] = []
  const usage = { inputTokens: 600, outputTokens: 40 }
  const path = folder().file
  const provider = scriptedProvider([{ ...calls('a'), usage }, { ...calls('a'), usage }, 'never'])
  const engine = new AgentEngine({ ledger: { path }, providers: { test: provider } })
  closing(engine)
  const run = engine.run(context({ tools: [noting('a', ran)], policy: { maxTokens: 1_280 } }))
  const ends: unknown[] = []
  for await (const event of run) if (event.type === 'stream_error') ends.push(event.error)
  const { stopReason, error, toolCalls } = await run.result
  expect([stopReason, error?.kind, error?.retryable]).toEqual(['error', 'unknown', false])
  expect(error?.detail.kind).toBe('policy_max_tokens')
  expect(error?.message).toContain('1280 of the 1280 tokens')
  expect(toolCalls.map((call) => call.status)).toEqual(['completed', 'completed'])
  expect(ends).toHaveLength(1)
  const rows = await engine.ledger.query('SELECT status, error_code, stop_reason FROM turns')
  expect(rows.rows).toEqual([
    { status: 'failed', error_code: 'policy_max_tokens', stop_reason: 'error' },
  ])
})

test('maxSteps, timeoutMs and maxParallel bound those of the context', async () => {
  const ran: string[] = []
  const { engine } = scriptedEngine([calls('a'), calls('a'), 'never'], { policy: { maxSteps: 2 } })
  closing(engine)
  const { stopReason } = await engine.run(context({ tools: [noting('a', ran)], maxIterations: 9 }))
    .result
  expect([stopReason, ran.length]).toEqual(['tool_use', 1])

  const slow = scriptedEngine([{ gate: 'closed', text: 'never' }])
  closing(slow.engine)
  const timed = await slow.engine.run(context({ policy: { timeoutMs: 20 } })).result
  expect(timed.stopReason).toBe('timeout')

  let [running, most] = [0, 0]
  const tool: AgentTool = {
    name: 'a',
    executionMode: 'parallel',
    run: async () => {
      most = Math.max(most, ++running)
      await new Promise<void>((resolve) => setImmediate(resolve))
      running -= 1
      return 'ok'
    },
  }
  const parallel = scriptedEngine([calls('a', 'a', 'a'), 'done'])
  closing(parallel.engine)
  await parallel.engine.run(context({ tools: [tool], policy: { maxParallel: 1 } })).result
  expect(most).toBe(1)
})

test('a long result is cut for the model and whole in the result of the run', async () => {
  const { engine, provider } = scriptedEngine([calls('a'), 'done'])
  closing(engine)
  const policy = { maxResultChars: 200 }
  const { toolCalls } = await engine.run(context({ tools: [noting('a', [])], policy })).result
  const read = JSON.stringify(provider.requests[1]?.messages)
  expect(read).toContain('of 1000 characters were cut here')
  expect(read.length).toBeLessThan(1_000)
  expect(JSON.stringify(toolCalls[0]?.result)).toHaveLength(1_002)
})

test("a policy of a broker's agent holds for its turns", async () => {
  const ran: string[] = []
  const provider = scriptedProvider([calls('bash'), 'done'])
  const engine = new AgentEngine({
    ledger: { path: folder().file },
    providers: { test: provider },
    models: [{ provider: 'test', id: 'm', contextWindow: 100_000, maxOutputTokens: 1_000 }],
  })
  closing(engine)
  const policy = { deniedTools: ['bash'] }
  const broker = new Broker(engine, {
    agents: { main: { model: 'm', provider: 'test', toolset: 'all', policy } },
    toolsets: { all: [noting('bash', ran), noting('read', ran)] },
  })
  const run = broker.execute({ to: { session: 'agent:main:main' }, message: 'go' })
  const { text } = await run.result
  await broker.close()
  expect([text, ran]).toEqual(['done', []])
  expect(offered(provider.requests)[0]).toEqual(['read'])
})

test('a resumed run has the policy with which it began, and that of the engine that resumes it', async () => {
  const ran: string[] = []
  const tools = [
    { ...noting('read', ran), permission: 'ask' as const },
    noting('write', ran),
    noting('bash', ran),
  ]
  const server = await answering(
    [['c1', 'read', {}]],
    [
      ['c2', 'write', {}],
      ['c3', 'bash', {}],
    ],
  )
  const { file } = folder()
  const first = engineOn(server, file)
  const policy = { deniedTools: ['write'] }
  const parked = await first.run(context({ tools, policy, onApproval: 'return' })).result
  const [approval] = parked.pendingApprovals ?? []
  await first.approve(approval?.id ?? '')
  await first.close()
  const second = engineOn(server, file, { policy: { deniedTools: ['bash'] } })
  const resumed = await second.resume(parked.turnId ?? '', { tools })
  const { toolCalls, text } = await resumed.result
  expect(ran).toEqual(['read'])
  expect(toolCalls.map(({ error }) => error)).toEqual([
    undefined,
    'Tool write is not allowed (policy `deniedTools`)',
    'Tool bash is not allowed (policy `deniedTools`)',
  ])
  expect(text).toBe('Done.')
})

test.each([
  [{ policy: { maxSteps: 0 } }, 'policy.maxSteps'],
  [{ policy: [{}, { deniedTools: [''] }] }, 'policy[1].deniedTools[0]'],
  [{ policy: { maxCalls: 3 } }, 'policy.maxCalls'],
  [{ policy: { allowedTools: 'read' } }, 'policy.allowedTools'],
])('a wrong policy %j is refused at %s, before anything is sent', (given, field) => {
  const { engine, provider } = scriptedEngine(['never'])
  closing(engine)
  expect(() => engine.run(context(given as never))).toThrow(
    expect.objectContaining({ code: 'invalid_context', field }),
  )
  expect(() => new AgentEngine(given as never)).toThrow(
    expect.objectContaining({ code: 'invalid_options', field }),
  )
  expect(provider.requests).toEqual([])
})

test('a tool choice that the policies forbid is refused', () => {
  const { engine } = scriptedEngine(['never'], { policy: { deniedTools: ['a'] } })
  closing(engine)
  const tools = [noting('a', [])]
  for (const [toolChoice, field] of [
    [{ name: 'a' }, 'toolChoice.name'],
    ['required', 'toolChoice'],
  ] as const) {
    expect(() => engine.run(context({ tools, toolChoice }))).toThrow(
      expect.objectContaining({ code: 'invalid_context', field }),
    )
  }
})
