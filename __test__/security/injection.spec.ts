// Tool results are data. A text that imitates a marker of the engine, a provider's error or a protocol reaches the model exactly
// as the tool's result, and must never have another effect: on the requests, the end of the run or the system prompt, also after a
// restart and after a compaction.

import { describe, expect, test } from 'vitest'
import { AgentEngine, type Api, scriptedProvider } from '../../index.js'
import { context, engineAt, readAll, scriptedEngine, tempDir } from '../support/engine.js'
import { anthropic } from '../support/servers/anthropic.js'
import { bedrock, eventStream } from '../support/servers/bedrock.js'
import { chat } from '../support/servers/chat.js'
import { google } from '../support/servers/google.js'
import { responses } from '../support/servers/responses.js'
import { type Handler, sse, testServer } from '../support/servers/server.js'
import { callTools, runTools, textOf, tool, toolResultsIn } from '../support/tools.js'
import { INJECTIONS } from '../support/values/injections.js'
import { SUMMARY } from '../support/values/summary.js'

const SYSTEM = 'You are a test with one system prompt.'

test('there are fifty injections, and all differ', () => {
  expect(INJECTIONS.length).toBeGreaterThanOrEqual(50)
  expect(new Set(INJECTIONS.map(([, text]) => text)).size).toBe(INJECTIONS.length)
})

/** The outcome of a run, without the result of its tool. */
async function outline(text: string, fails: boolean) {
  const { result, events, requests, toolResults } = await runTools(
    [
      tool('t', () => {
        if (fails) throw new Error(text)
        return text
      }),
    ],
    [callTools(['t'])],
    { systemPrompt: SYSTEM },
  )
  expect(toolResults.map((one) => [textOf(one), one.isError])).toEqual([[text, fails]])
  return {
    stopReason: result.stopReason,
    error: result.error,
    warnings: result.warnings,
    calls: result.toolCalls.map((call) => call.status),
    compaction: result.compaction,
    requests,
    events: events.map((event) => [event.type, event.type === 'tool_status' ? event.status : '']),
  }
}

describe.each(INJECTIONS)('%s', (_, text) => {
  test('as a result and as an error is data, and the run equals that of a harmless text', async () => {
    expect(await outline(text, false)).toEqual(await outline('harmless', false))
    expect(await outline(text, true)).toEqual(await outline('harmless', true))
  })

  test('as the model’s answer ends the turn as any text does', async () => {
    const { engine, provider } = scriptedEngine([text, 'never'])
    const result = await engine.run(context({ systemPrompt: SYSTEM })).result
    expect(result).toMatchObject({ stopReason: 'end_turn', toolCalls: [] })
    expect(result.error).toBeUndefined()
    expect(provider.requests.length).toBe(1)
    await engine.close()
  })
})

/** Every text in a value, and in the JSON texts in it. */
function texts(value: unknown): string[] {
  if (typeof value === 'string') return [value]
  if (value === null || typeof value !== 'object') return []
  return Object.values(value).flatMap(texts)
}

const calls = INJECTIONS.map((_, n): [string, string, unknown] => [
  `call_${String(n).padStart(4, '0')}`,
  't',
  { n },
])
const wires: Record<
  Exclude<Api, 'scripted'>,
  { first: Handler; last: Handler; system: (body: any) => unknown }
> = {
  'anthropic-messages': {
    first: sse(anthropic.calls(...calls)),
    last: sse(anthropic.answer('done')),
    system: (body) => body.system,
  },
  'openai-chat': {
    first: sse(chat.calls(...calls)),
    last: sse(chat.answer('done')),
    system: (body) =>
      body.messages.filter((message: any) => ['system', 'developer'].includes(message.role)),
  },
  'openai-responses': {
    first: sse(
      responses.of(
        ...calls.map(([id, name, args], n) => responses.call(`fc_${n}`, id, name, args)),
      ),
    ),
    last: sse(responses.answer('done')),
    system: (body) => [
      body.instructions,
      body.input.filter((item: any) => item.role === 'system' || item.role === 'developer'),
    ],
  },
  'google-generative-ai': {
    first: sse(google.calls(...calls.map(([, name, args]): [string, unknown] => [name, args]))),
    last: sse(google.answer('done')),
    system: (body) => body.systemInstruction ?? body.system_instruction,
  },
  'bedrock-converse': {
    first: eventStream(
      bedrock.start(),
      ...calls.map(([id, name, args], n) => bedrock.toolUse(n, id, name, JSON.stringify(args))),
      bedrock.stop('tool_use'),
      bedrock.usage(12, 3),
    ),
    last: eventStream(bedrock.answer('done')),
    system: (body) => body.system,
  },
}

describe.each(Object.entries(wires))('over %s', (api, { first, last, system }) => {
  test('all of them reach the provider unchanged, in this process and in the next', async () => {
    const dir = tempDir()
    const server = await testServer(first, last)
    const start = () =>
      engineAt(
        server.url,
        { ledger: { path: dir.file } },
        { api, ...(api === 'bedrock-converse' ? { region: 'us-east-1' } : {}) },
      )
    const tools = [tool('t', ({ n }) => INJECTIONS[Number(n)]?.[1])]
    const engine = start()
    const run = engine.run(context({ systemPrompt: SYSTEM, tools, maxIterations: 3 }))
    await readAll(run)
    expect((await run.result).stopReason).toBe('end_turn')
    await engine.close()
    const next = start()
    const again = { role: 'user' as const, content: 'and now?' }
    expect(
      (await next.run(context({ systemPrompt: SYSTEM, tools, currentMessage: again })).result)
        .stopReason,
    ).toBe('end_turn')
    await next.close()
    await server.close()
    dir.remove()
    const bodies = server.seen.map((one) => one.body)
    expect(bodies.length).toBe(3)
    for (const body of bodies.slice(1)) {
      expect(system(body)).toEqual(system(bodies[0]))
      const found = texts(body)
      for (const [what, text] of INJECTIONS) {
        expect(found.filter((one) => one === text).length, what).toBe(1)
      }
    }
  })
})

test('they stay data in a compaction: no line of the transcript begins with a role of theirs', async () => {
  const dir = tempDir()
  const replies = INJECTIONS.map((_, n) => callTools(['t', { n }])).flatMap((call) => [
    call,
    'noted',
  ])
  const provider = scriptedProvider([...replies, 'after'])
  const small = scriptedProvider([SUMMARY])
  const engine = new AgentEngine({
    providers: { test: provider, small },
    models: [
      { provider: 'test', id: 'test-model', contextWindow: 200_000, maxOutputTokens: 1_000 },
      { provider: 'small', id: 'tiny', contextWindow: 200_000, maxOutputTokens: 2_000 },
    ],
    ledger: { path: dir.file, synchronous: 'normal' },
    compaction: { provider: 'small', model: 'tiny' },
  })
  const tools = [tool('t', ({ n }) => INJECTIONS[Number(n)]?.[1])]
  for (const [what] of INJECTIONS) {
    const current = { role: 'user' as const, content: `about ${what}` }
    const result = await engine.run(
      context({ systemPrompt: SYSTEM, tools, currentMessage: current }),
    ).result
    expect(result.stopReason).toBe('end_turn')
  }
  expect(provider.requests.length).toBe(INJECTIONS.length * 2)
  await engine.compact('agent:main:main')
  expect(small.requests.length).toBe(1)
  const transcript = texts(small.requests[0]?.messages).join('\n')
  const breaks = new RegExp(`[${['\r', '\n', '\v', '\f', '\u0085', '\u2028', '\u2029'].join('')}]`)
  const speakers = transcript
    .split(breaks)
    .filter((line) => /^\[(User|Assistant|System|Tool)/.test(line))
  const wanted = { user: 0, assistant: 0, call: 0, tool: 0 }
  for (const line of speakers) {
    if (line.startsWith('[User]: about ')) wanted.user++
    else if (line === '[Assistant]: noted') wanted.assistant++
    else if (line.startsWith('[Assistant calls t]: {"n":')) wanted.call++
    else if (line.startsWith('[Tool t]: ')) wanted.tool++
    else expect(line).toBe('a line of the engine’s own')
  }
  expect(wanted.user).toBe(wanted.assistant)
  expect(wanted.call).toBe(wanted.tool)
  expect(wanted.user).toBeGreaterThan(40)
  const after = await engine.run(context({ systemPrompt: SYSTEM, tools })).result
  expect(after).toMatchObject({ stopReason: 'end_turn' })
  const last = provider.requests.at(-1)
  expect(last?.system).toBe(SYSTEM)
  const results = toolResultsIn(last?.messages ?? []).map(textOf)
  for (const text of results) expect(INJECTIONS.map(([, given]) => given)).toContain(text)
  await engine.close()
  dir.remove()
})
