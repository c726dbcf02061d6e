// `ledger.writeTurn`: the fields of a host's own turn, and which ones are refused. It must never write a row in another way.

import { describe, expect, test } from 'vitest'
import { AgentEngine, type AgentResultInput, scriptedProvider } from '../../index.js'
import { afterwards, closing, folder, serving } from '../support/cleanup.js'
import { addTool as add } from '../support/described-tools.js'
import { context, engineAt } from '../support/engine.js'
import { normal, refusal } from '../support/ledger/sqlite3.js'
import { fullUsage as usage } from '../support/ledger/turn-input.js'
import { pricedLedger, runFields, twoTools } from '../support/ledger/two-tools.js'
import { anthropic } from '../support/servers/anthropic.js'
import { sse } from '../support/servers/server.js'

describe('writeTurn', () => {
  const plain: AgentResultInput = {
    messages: [
      { id: 'm-1', role: 'user', content: 'hi', sequence: 0, createdAt: 1000 },
      { id: 'm-2', role: 'assistant', content: 'hello', sequence: 1, createdAt: 2000 },
    ],
    toolCalls: [],
    usage: { ...usage, totalTokens: 3600 },
    stopReason: 'end_turn',
    durationMs: 50,
  }

  test("accepts a result of the broker interface, and the session's next run continues from it", async () => {
    const { engine, ledger, provider } = pricedLedger(['ok'])
    const since = Date.now()
    const id = await ledger.writeTurn(context({ runId: 'r' }), plain)
    const turn = await ledger.turn(id)
    expect([turn?.startedAt, turn?.completedAt]).toEqual([
      (turn?.completedAt ?? 0) - 50,
      turn?.completedAt,
    ])
    expect(normal({ ...turn, startedAt: 0 }, since)).toEqual({
      id: '#1',
      parentTurnId: null,
      turnType: 'normal',
      status: 'completed',
      sessionLabel: 'agent:main:main',
      runId: 'r',
      depth: 0,
      hasChildren: false,
      startedAt: 0,
      completedAt: 'now',
      model: 'test-model',
      provider: 'test',
      role: 'unified',
      toolsetName: 'test',
      toolsAvailable: [],
      permissionsGranted: [],
      metadata: null,
      permissionsUsed: null,
      usage: plain.usage,
      usageEstimated: false,
      threadTokens: 3600,
      contextTokens: null,
      cost: null,
      queryMessageIds: ['m-1'],
      responseMessageId: 'm-2',
      toolCallCount: 0,
      sourceEventId: null,
      workspacePath: '/tmp',
      stopReason: 'end_turn',
      error: null,
      attempts: [],
      compaction: null,
      messages: plain.messages.map((message) => ({
        ...message,
        blocks: [{ type: 'text', text: message.content }],
      })),
      toolCalls: [],
    })
    const next = await engine.run(context()).result
    expect((await ledger.turn(next.turnId))?.parentTurnId).toBe(id)
    expect(provider.requests[0]?.messages).toMatchObject([
      { id: 'm-1' },
      { id: 'm-2' },
      { role: 'user' },
    ])
  })

  test('accepts a whole result of a run and reads back the same', async () => {
    const other = new AgentEngine({ providers: { test: scriptedProvider(twoTools) } })
    afterwards(() => other.close())
    const result = await other.run(context(runFields)).result
    expect(result.persisted).toBe(false)
    const { ledger } = pricedLedger()
    expect(await ledger.writeTurn(context(runFields), result)).toBe(result.turnId)
    const turn = await ledger.turn(result.turnId)
    expect({
      messages: turn?.messages,
      toolCalls: turn?.toolCalls,
      usage: turn?.usage,
      attempts: turn?.attempts,
      contextTokens: turn?.contextTokens,
      cost: turn?.cost,
      stopReason: turn?.stopReason,
    }).toEqual({
      messages: result.messages,
      toolCalls: result.toolCalls,
      usage: result.usage,
      attempts: result.attempts,
      contextTokens: result.contextTokens,
      cost: result.cost,
      stopReason: result.stopReason,
    })
  })

  test('a tool result of the flat form is sent to the next provider after its call', async () => {
    const server = await serving(sse(anthropic.answer('ok')))
    const { file } = folder()
    const engine = closing(engineAt(server.url, { ledger: { path: file } }))
    await engine.ledger.writeTurn(context({ tools: [add] }), {
      ...plain,
      messages: [
        { id: 'm-1', role: 'user', content: 'add', sequence: 0, createdAt: 1 },
        { id: 'm-2', role: 'assistant', content: 'adding', sequence: 1, createdAt: 2 },
        { id: 'm-3', role: 'tool', content: '3', toolCallId: 'c1', sequence: 2, createdAt: 3 },
        { id: 'm-4', role: 'assistant', content: 'it is 3', sequence: 3, createdAt: 4 },
      ],
      toolCalls: [
        {
          id: 'c1',
          toolName: 'add',
          params: { a: 1, b: 2 },
          result: 3,
          status: 'completed',
          startedAt: 2,
          completedAt: 3,
          sequence: 0,
        },
      ],
    })
    await engine.run(context({ tools: [add] })).result
    expect(JSON.parse(JSON.stringify(server.seen[0]?.body.messages), dropCacheMarks)).toEqual([
      { role: 'user', content: [{ type: 'text', text: 'add' }] },
      {
        role: 'assistant',
        content: [
          { type: 'text', text: 'adding' },
          { type: 'tool_use', id: 'c1', name: 'add', input: { a: 1, b: 2 } },
        ],
      },
      {
        role: 'user',
        content: [
          { type: 'tool_result', tool_use_id: 'c1', content: [{ type: 'text', text: '3' }] },
        ],
      },
      { role: 'assistant', content: [{ type: 'text', text: 'it is 3' }] },
      { role: 'user', content: [{ type: 'text', text: 'hi' }] },
    ])
  })

  test('follows the head without a named parent, and refuses a stale or unknown one', async () => {
    const { ledger } = pricedLedger()
    const first = await ledger.writeTurn(context(), plain)
    const second = await ledger.writeTurn(context(), plain)
    const third = await ledger.writeTurn(context({ parentTurnId: second }), plain)
    expect(await refusal(ledger.writeTurn(context({ parentTurnId: first }), plain))).toEqual({
      code: 'stale_head',
    })
    expect(await refusal(ledger.writeTurn(context({ parentTurnId: 'nowhere' }), plain))).toEqual({
      code: 'stale_head',
    })
    const elsewhere = { sessionLabel: 'another', parentTurnId: 'nowhere' }
    expect(await refusal(ledger.writeTurn(context(elsewhere), plain))).toEqual({
      code: 'unknown_turn',
    })
    expect(await ledger.session('another')).toBeNull()
    expect((await ledger.session('agent:main:main'))?.threadId).toBe(third)
    const branch = await ledger.writeTurn(
      context({ sessionLabel: 'another', parentTurnId: first }),
      plain,
    )
    expect((await ledger.turn(branch))?.depth).toBe(1)
    expect((await ledger.query('SELECT count(*) AS turns FROM turns')).rows).toEqual([{ turns: 4 }])
  })

  test('refuses an existing turn id, and writes nothing of it', async () => {
    const { ledger } = pricedLedger()
    const turnId = await ledger.writeTurn(context(), { ...plain, turnId: 'turn-1' })
    expect(turnId).toBe('turn-1')
    const again = ledger.writeTurn(context({ sessionLabel: 'b' }), { ...plain, turnId })
    expect(await refusal(again)).toEqual({ code: 'storage_constraint' })
    expect(await ledger.session('b')).toBeNull()
  })

  test('a failed result without output leaves the pointer, and one with output moves it', async () => {
    const { ledger } = pricedLedger()
    const first = await ledger.writeTurn(context(), plain)
    const error = { kind: 'rate_limit', message: 'slow down', retryable: true } as const
    const [query] = plain.messages
    if (query === undefined) throw new Error('no message')
    const silent = await ledger.writeTurn(context(), {
      ...plain,
      messages: [query],
      stopReason: 'error',
      error: error as AgentResultInput['error'],
    })
    expect((await ledger.session('agent:main:main'))?.threadId).toBe(first)
    const answered = await ledger.writeTurn(context(), { ...plain, stopReason: 'timeout' })
    expect((await ledger.session('agent:main:main'))?.threadId).toBe(answered)
    const turns = await Promise.all([silent, answered].map((id) => ledger.turn(id)))
    expect(turns.map((turn) => [turn?.status, turn?.error, turn?.parentTurnId])).toEqual([
      ['failed', { ...error, code: null }, first],
      ['failed', null, first],
    ])
  })

  test('a compaction in the result is a turn of its own, and the next run begins with its summary', async () => {
    const { engine, ledger, provider } = pricedLedger(['ok'])
    const turnOf = (text: string) => ({
      ...plain,
      messages: plain.messages.map((message) => ({
        ...message,
        content: `${text} ${message.role}`,
      })),
    })
    const one = await ledger.writeTurn(context(), turnOf('one'))
    const two = await ledger.writeTurn(context(), turnOf('two'))
    const compaction = {
      summary: 'They said one.',
      summarizedThroughTurnId: one,
      firstKeptTurnId: two,
      turnsSummarized: 1,
      model: 'small',
      provider: 'test',
      tokensBefore: 900,
      tokensAfter: 100,
      summaryTokens: 20,
      summarizationInputTokens: 500,
      summarizationOutputTokens: 20,
      durationMs: 5,
      trigger: 'context_limit' as const,
    }
    const three = await ledger.writeTurn(context(), { ...turnOf('three'), compaction })
    const parent = (await ledger.turn(three))?.parentTurnId ?? ''
    const turn = await ledger.turn(parent)
    expect([turn?.turnType, turn?.parentTurnId, turn?.compaction]).toEqual([
      'compaction',
      two,
      { ...compaction, compactionType: 'summary' },
    ])
    await engine.run(context()).result
    const sent = provider.requests[0]?.messages as { blocks: { text: string }[] }[]
    expect(sent.map((message) => message.blocks.map((block) => block.text))).toEqual([
      ['[Previous conversation summary]:\n\nThey said one.\n\ntwo user'],
      ['two assistant'],
      ['three user'],
      ['three assistant'],
      ['hi'],
    ])
  })

  test.each<[string, (result: any) => void]>([
    ['result.stopReason', (result) => delete result.stopReason],
    ['result.stopReason', (result) => (result.stopReason = 'done')],
    ['result.durationMs', (result) => (result.durationMs = 'soon')],
    ['result.durationMs', (result) => (result.durationMs = -1)],
    ['result.usage', (result) => delete result.usage],
    ['result.usage.inputTokens', (result) => (result.usage.inputTokens = 1.5)],
    ['result.messages', (result) => delete result.messages],
    ['result.messages', (result) => (result.messages = {})],
    ['result.messages[0]', (result) => (result.messages[0] = 'hi')],
    ['result.messages[0].id', (result) => delete result.messages[0].id],
    ['result.messages[1].id', (result) => (result.messages[1].id = 'm-1')],
    ['result.messages[1].role', (result) => (result.messages[1].role = 'robot')],
    ['result.messages[1].content', (result) => delete result.messages[1].content],
    ['result.messages[1].sequence', (result) => (result.messages[1].sequence = 0)],
    ['result.messages[1].createdAt', (result) => delete result.messages[1].createdAt],
    [
      'result.messages[1].blocks[0].type',
      (result) => (result.messages[1].blocks = [{ type: 'x' }]),
    ],
    ['result.toolCalls', (result) => delete result.toolCalls],
    ['result.toolCalls[0].params', (result) => (result.toolCalls = [{ ...call, params: [] }])],
    ['result.toolCalls[0].status', (result) => (result.toolCalls = [{ ...call, status: 'ok' }])],
    ['result.toolCalls[1].sequence', (result) => (result.toolCalls = [call, call])],
    ['result.error.kind', (result) => (result.error = { kind: 'x', message: '', retryable: true })],
    ['result.turnId', (result) => (result.turnId = '')],
    ['result.cost', (result) => (result.cost = 'free')],
    ['result.compaction.trigger', (result) => (result.compaction = { trigger: 1 })],
  ])('names `%s` when it is wrong', async (field, spoil) => {
    const { ledger } = pricedLedger()
    const result = structuredClone(plain)
    spoil(result)
    expect(await refusal(ledger.writeTurn(context(), result))).toEqual({
      code: 'invalid_context',
      field,
    })
    expect((await ledger.query('SELECT count(*) AS turns FROM turns')).rows).toEqual([{ turns: 0 }])
  })

  test('names the wrong field of the context, as a run does', async () => {
    const { ledger } = pricedLedger()
    const wrong = (changes: object) => refusal(ledger.writeTurn(context(changes), plain))
    expect([
      await wrong({ sessionLabel: 'a\nb' }),
      await wrong({ parentTurnId: '' }),
      await wrong({ tools: [{}] }),
      await wrong({ runId: 7 }),
      await refusal(ledger.writeTurn(null as never, plain)),
      await refusal(ledger.writeTurn(context(), undefined as never)),
    ]).toEqual([
      { code: 'invalid_label', field: 'sessionLabel' },
      { code: 'invalid_context', field: 'parentTurnId' },
      { code: 'invalid_tool', field: 'tools[0].name' },
      { code: 'invalid_context', field: 'runId' },
      { code: 'invalid_context', field: 'context' },
      { code: 'invalid_context', field: 'result' },
    ])
  })

  const call = {
    id: 'c',
    toolName: 'add',
    params: {},
    status: 'completed',
    startedAt: 1,
    sequence: 0,
  }
})

function dropCacheMarks(this: unknown, key: string, value: unknown): unknown {
  return key === 'cache_control' ? undefined : value
}
