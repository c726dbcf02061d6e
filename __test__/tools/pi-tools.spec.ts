// pi's own tools, unchanged: createCodingTools of pi-coding-agent 0.54.0 and pi's messages, through a script and over HTTP.
// It must never imitate pi: the published package is tested.

import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { AgentToolResult, AgentTool as PiAgentTool } from '@mariozechner/pi-agent-core'
import type { Message as PiAiMessage } from '@mariozechner/pi-ai'
import { createCodingTools } from '@mariozechner/pi-coding-agent'
import { Type } from '@sinclair/typebox'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { ScriptedReply } from '../../index.js'
import { context, engineAt, readAll, scriptedEngine, tempDir } from '../support/engine.js'
import { anthropic } from '../support/servers/anthropic.js'
import { chat } from '../support/servers/chat.js'
import { sse, testServer } from '../support/servers/server.js'
import { callTools, outline, runTools, textOf } from '../support/tools.js'

let dir: ReturnType<typeof tempDir>
let cwd: string

beforeEach(() => {
  dir = tempDir()
  cwd = join(dir.path, 'work')
  mkdirSync(cwd)
})

afterEach(() => dir.remove())

/** A session of work: write a file, read it, edit it, run it. */
const rounds: [name: string, args: object][] = [
  ['write', { path: 'greet.sh', content: 'echo "hello $1"\n' }],
  ['read', { path: 'greet.sh' }],
  ['edit', { path: 'greet.sh', oldText: 'hello', newText: 'good morning' }],
  ['bash', { command: 'sh greet.sh world; pwd' }],
]

function expectDone() {
  expect(readFileSync(join(cwd, 'greet.sh'), 'utf8')).toBe('echo "good morning $1"\n')
}

test('write, read, edit and bash work with a script; results, details and record are complete', async () => {
  const tools = createCodingTools(cwd)
  // The return value of each tool, to compare by identity.
  const returned: unknown[] = []
  for (const tool of tools) {
    const { execute } = tool
    tool.execute = async (...args) => {
      const value = await execute.apply(tool, args)
      returned.push(value)
      return value
    }
  }
  const replies: ScriptedReply[] = rounds.map(([name, args]) => callTools([name, args]))
  const { result, toolResults } = await runTools(tools, replies, { workspacePath: cwd })
  expectDone()
  expect(result.stopReason).toBe('end_turn')
  expect(toolResults.map((one) => [one.toolName, one.isError])).toEqual([
    ['write', false],
    ['read', false],
    ['edit', false],
    ['bash', false],
  ])
  expect(textOf(toolResults[1])).toBe('echo "hello $1"\n')
  expect(textOf(toolResults[3])).toBe(`good morning world\n${cwd}\n`)
  expect(result.toolCalls).toHaveLength(4)
  result.toolCalls.forEach((call, index) => {
    expect(call.status).toBe('completed')
    expect(call.params).toEqual(rounds[index]?.[1])
    expect(call.result).toBe(returned[index])
  })
  const edited = result.toolCalls[2]?.result as AgentToolResult<{ diff: string }>
  expect(edited.details.diff).toContain('good morning')
  expect(edited.details).toBe((returned[2] as AgentToolResult<unknown>).details)
})

test('the same session over HTTP, with Anthropic and with OpenAI chat: the servers receive the definitions and every result', async () => {
  for (const api of ['anthropic-messages', 'openai-chat'] as const) {
    const isAnthropic = api === 'anthropic-messages'
    const server = await testServer(
      ...rounds.map(([name, args], index) =>
        sse(
          isAnthropic
            ? anthropic.calls([`call${index}`, name, args])
            : chat.calls([`call${index}`, name, args]),
        ),
      ),
      sse(isAnthropic ? anthropic.answer('All done.') : chat.answer('All done.')),
    )
    const tools = createCodingTools(cwd)
    const ledger = join(dir.path, `${api}.db`)
    const engine = engineAt(server.url, { ledger: { path: ledger } }, { api })
    const result = await engine.run(context({ tools, workspacePath: cwd })).result
    const row = await engine.ledger.turn(result.turnId)
    await engine.close()
    await server.close()
    expectDone()
    expect(result.stopReason).toBe('end_turn')
    expect(result.persisted).toBe(true)
    expect(row?.toolCalls).toHaveLength(4)
    expect(server.seen).toHaveLength(5)
    const first = server.seen[0]?.body
    const offered = isAnthropic
      ? first.tools.map((one: { name: string; input_schema: unknown }) => [
          one.name,
          one.input_schema,
        ])
      : first.tools.map((one: { function: { name: string; parameters: unknown } }) => [
          one.function.name,
          one.function.parameters,
        ])
    expect(offered).toEqual(
      tools.map((tool) => [tool.name, JSON.parse(JSON.stringify(tool.parameters))]),
    )
    const last = JSON.stringify(server.seen[4]?.body.messages.at(-1))
    expect(last).toContain(`good morning world\\n${cwd}`)
    expect(last).toContain('call3')
  }
})

test('a failing read, a failing edit and a failing command are reported as errors, with pi’s own messages, and the run continues', async () => {
  const tools = createCodingTools(cwd)
  writeFileSync(join(cwd, 'a.txt'), 'one\n')
  const failing: [string, object][] = [
    ['read', { path: 'missing.txt' }],
    ['edit', { path: 'a.txt', oldText: 'two', newText: 'three' }],
    ['bash', { command: 'echo partly; exit 3' }],
  ]
  const own = await Promise.all(
    failing.map(async ([name, args]) => {
      const tool = tools.find((one) => one.name === name)
      return tool?.execute('c', args).then(
        () => 'it worked',
        (error: Error) => error.message,
      )
    }),
  )
  const { result, toolResults, requests } = await runTools(tools, [callTools(...failing)])
  expect(requests).toBe(2)
  expect(toolResults.map((one) => [one.isError, textOf(one)])).toEqual(
    own.map((message) => [true, message]),
  )
  expect(textOf(toolResults[2])).toContain('Command exited with code 3')
  expect(result.toolCalls.map((call) => [call.status, call.error])).toEqual(
    own.map((message) => ['failed', message]),
  )
})

test('arguments are validated and coerced before pi’s tools receive them', async () => {
  writeFileSync(
    join(cwd, 'long.txt'),
    Array.from({ length: 50 }, (_, n) => `line ${n + 1}`).join('\n'),
  )
  const { toolResults, result } = await runTools(createCodingTools(cwd), [
    callTools(
      ['read', { path: 'long.txt', offset: '10', limit: '2' }],
      ['read', { offset: 1 }],
      ['bash', { command: 7, timeout: 'soon' }],
    ),
  ])
  expect(toolResults.map((one) => one.isError)).toEqual([false, true, true])
  expect(textOf(toolResults[0])).toContain('line 10\nline 11')
  expect(result.toolCalls[0]?.params).toEqual({ path: 'long.txt', offset: 10, limit: 2 })
  expect(textOf(toolResults[1])).toContain("path: must have required property 'path'")
  expect(textOf(toolResults[2])).toContain('timeout: must be number')
  expect(existsSync(join(cwd, '7'))).toBe(false)
})

test('an image that pi’s read returns reaches the provider as an image', async () => {
  // One pixel.
  const png =
    'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=='
  writeFileSync(join(cwd, 'pixel.png'), Buffer.from(png, 'base64'))
  const server = await testServer(
    sse(anthropic.calls(['c1', 'read', { path: 'pixel.png' }])),
    sse(anthropic.answer('A pixel.')),
  )
  const engine = engineAt(server.url, {
    models: [
      {
        provider: 'test',
        id: 'test-model',
        contextWindow: 200_000,
        maxOutputTokens: 8_192,
        input: ['text', 'image'],
      },
    ],
  })
  const tools = createCodingTools(cwd, { read: { autoResizeImages: false } })
  const result = await engine.run(context({ tools })).result
  await engine.close()
  await server.close()
  expect(result.toolCalls[0]?.status).toBe('completed')
  const [answer] = server.seen[1]?.body.messages.at(-1).content
  expect(answer).toMatchObject({
    type: 'tool_result',
    tool_use_id: 'c1',
    content: [
      { type: 'text', text: 'Read image file [image/png]' },
      { type: 'image', source: { type: 'base64', media_type: 'image/png', data: png } },
    ],
  })
})

test('the output of bash while it runs is delivered to onToolUpdate', async () => {
  const updates: { toolCallId: string; toolName: string; partial: unknown }[] = []
  const { engine } = scriptedEngine([
    callTools(['bash', { command: 'echo one; echo two' }]),
    'done',
  ])
  const run = engine.run(context({ tools: createCodingTools(cwd) }), {
    onToolUpdate: (payload) => updates.push(payload),
  })
  const result = await run.result
  await engine.close()
  expect(updates.length).toBeGreaterThan(0)
  expect(updates.at(-1)).toMatchObject({
    toolCallId: 'call_1',
    toolName: 'bash',
    partial: { content: [{ type: 'text', text: 'one\ntwo\n' }] },
  })
  expect(result.toolCalls[0]?.status).toBe('completed')
})

test('an abort while bash runs kills its processes; the run ends as aborted and the call is closed', async () => {
  const server = await testServer(
    sse(
      anthropic.calls([
        'c1',
        'bash',
        { command: 'echo $$ > pid; echo started; sleep 300; echo ended > after' },
      ]),
    ),
  )
  const engine = engineAt(server.url, { ledger: { path: dir.file } })
  let settled: Promise<unknown> | undefined
  const tools = createCodingTools(cwd).map((tool) =>
    tool.name === 'bash'
      ? {
          ...tool,
          execute: (...args: Parameters<typeof tool.execute>) => {
            const running = tool.execute(...args)
            settled = running.then(
              () => 'fulfilled',
              (error: Error) => error.message,
            )
            return running
          },
        }
      : tool,
  )
  const run = engine.run(context({ tools }), { onToolUpdate: () => run.abort() })
  const events = await readAll(run)
  const result = await run.result
  expect(result.stopReason).toBe('aborted')
  expect(result.persisted).toBe(true)
  expect(result.toolCalls.map(outline)).toMatchObject([
    { id: 'c1', toolName: 'bash', status: 'failed', error: 'aborted' },
  ])
  expect(events.at(-1)).toMatchObject({ type: 'stream_end', final: true })
  // pi's tool received the signal: it killed the process tree, and its result is not used.
  expect(await settled).toContain('Command aborted')
  const pid = Number(readFileSync(join(cwd, 'pid'), 'utf8'))
  expect(() => process.kill(pid, 0)).toThrow('ESRCH')
  expect(existsSync(join(cwd, 'after'))).toBe(false)
  expect(server.seen).toHaveLength(1)
  await engine.close()
  await server.close()
})

test('the engine’s time limit ends pi’s bash too, and is reported to the model', async () => {
  const tools = createCodingTools(cwd).map((tool) => ({ ...tool, timeoutMs: 200 }))
  const { toolResults, result } = await runTools(tools, [
    callTools(['bash', { command: 'sleep 300' }]),
  ])
  expect(toolResults[0]).toMatchObject({
    isError: true,
    content: [{ type: 'text', text: 'Tool bash timed out after 200 ms.' }],
  })
  expect(result.stopReason).toBe('end_turn')
})

test('a tool typed by pi, with a TypeBox schema, runs unchanged', async () => {
  const parameters = Type.Object({
    city: Type.String(),
    days: Type.Optional(Type.Integer({ minimum: 1 })),
  })
  const weather: PiAgentTool<typeof parameters, { source: string }> = {
    name: 'weather',
    label: 'Weather',
    description: 'Tells the weather.',
    parameters,
    async execute(_toolCallId, { city, days = 1 }, signal, onUpdate) {
      onUpdate?.({ content: [], details: { source: 'soon' } })
      if (signal?.aborted) throw new Error('aborted')
      return {
        content: [{ type: 'text', text: `${city}: sun for ${days + 0} days` }],
        details: { source: 'window' },
      }
    },
  }
  const { toolResults, result } = await runTools(
    [weather],
    [callTools(['weather', { city: 'Oslo', days: '3' }])],
  )
  expect(textOf(toolResults[0])).toBe('Oslo: sun for 3 days')
  expect(result.toolCalls[0]?.result).toMatchObject({ details: { source: 'window' } })
})

test('a history of pi messages is sent as the same conversation', async () => {
  const usage = {
    input: 1,
    output: 1,
    cacheRead: 0,
    cacheWrite: 0,
    totalTokens: 2,
    cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 },
  }
  const history: PiAiMessage[] = [
    { role: 'user', content: 'read a.txt', timestamp: 1 },
    {
      role: 'assistant',
      content: [
        { type: 'text', text: 'Reading.' },
        { type: 'toolCall', id: 'toolu_1', name: 'read', arguments: { path: 'a.txt' } },
      ],
      api: 'anthropic-messages',
      provider: 'anthropic',
      model: 'claude-test',
      usage,
      stopReason: 'toolUse',
      timestamp: 2,
    },
    {
      role: 'toolResult',
      toolCallId: 'toolu_1',
      toolName: 'read',
      content: [{ type: 'text', text: 'one' }],
      details: { lines: 1 },
      isError: false,
      timestamp: 3,
    },
    {
      role: 'assistant',
      content: [{ type: 'text', text: 'It says one.' }],
      api: 'anthropic-messages',
      provider: 'anthropic',
      model: 'claude-test',
      usage,
      stopReason: 'stop',
      timestamp: 4,
    },
  ]
  const server = await testServer(sse(anthropic.answer('ok')))
  const engine = engineAt(server.url)
  const result = await engine.run(context({ history, tools: createCodingTools(cwd) })).result
  await engine.close()
  await server.close()
  expect(result.stopReason).toBe('end_turn')
  const plain = JSON.parse(
    JSON.stringify(server.seen[0]?.body.messages, (key, value) =>
      key === 'cache_control' ? undefined : value,
    ),
  )
  expect(plain).toMatchObject([
    { role: 'user' },
    {
      role: 'assistant',
      content: [
        { type: 'text', text: 'Reading.' },
        { type: 'tool_use', id: 'toolu_1', name: 'read', input: { path: 'a.txt' } },
      ],
    },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1' }] },
    { role: 'assistant', content: [{ type: 'text', text: 'It says one.' }] },
    { role: 'user' },
  ])
})
