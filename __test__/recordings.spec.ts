// Every recorded exchange of both APIs, replayed by a loopback server and understood through the public API.
// It owns the list of recordings that are understood differently on purpose. It must never reach beyond this machine,
// and passes, saying so, where the recordings are not there.

import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import type { Server } from 'node:http'
import { join, resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { AgentEngine, type AgentResult, type Api, type FailureKind } from '../index.js'
import { context } from './support/engine.js'

/** Either the folder of recordings, or the folder that holds it beside its tools. */
const fixtures = resolve(
  process.env.NEXUS_FIXTURES ?? fileURLToPath(new URL('../../shared/fixtures', import.meta.url)),
)
const recorded = [join(fixtures, 'recorded'), fixtures].find((path) =>
  existsSync(join(path, 'cases')),
)
const replayer = [join(fixtures, 'tools'), resolve(fixtures, '../tools')]
  .map((path) => join(path, 'replay-server.mjs'))
  .find((path) => existsSync(path))
const here = recorded !== undefined && replayer !== undefined

interface Expected {
  complete: boolean
  text: string
  reasoning: string
  refusal: string
  tool_calls: { id: string | null; name: string; arguments_raw: string }[]
  opaque: { kind: string; length: number; sha256: string }[]
  stop_reason: string | null
  stop_reason_raw: string | null
  usage: Record<string, number | null> | null
  error: { status: number; message: string | null; class: string } | null
  response_id: string | null
  ambiguous: string[]
}

interface Case {
  id: string
  status: number
  bytes: number
  streaming: boolean
  tools: string[]
  expected: Expected
}

/** Where this engine means to differ: the end of the case's name, the field (`*`: all), and why. An entry that agrees fails. */
const DIFFERENT: Record<'anthropic' | 'chat', [name: string, field: string, why: string][]> = {
  anthropic: [
    [
      'spliced-message-start-1a288c',
      '*',
      'a second message in the middle of the first: the two are never joined (FAULTS §1)',
    ],
  ],
  chat: [
    [
      'avian-kimi-thinking-streaming-28642d',
      'response_id',
      'the id changes midway; the first one stays',
    ],
    [
      'openrouter-cache-all-settings-real-api-669cfd',
      'usage',
      'WIRE §7 takes written tokens out of the input; the cost in the recording agrees',
    ],
    ['snowflake-thinking-da304f', 'reasoning', 'text that only `reasoning_details` has is shown'],
    ['hermes-4-405b-token-limit-c00e43', '*', 'the choice holds an error 502 and no finish reason'],
    [
      'without-parameters-in-multi-turn-streaming-conversations-s1-223cb2',
      'usage',
      'more cached than prompt tokens: an input below zero is zero (WIRE §7)',
    ],
    [
      'perplexity-sonar-handles-context-length-exceeded-errors-70c636',
      'error',
      'its `too_many_prompt_tokens` is an overflow',
    ],
    [
      'tool-calling-agent-with-image-has-expected-attributes-8ff419',
      '*',
      'the recording has no content type, and what has none is not read as an answer (WIRE §9)',
    ],
  ],
}

function cases(api: 'anthropic' | 'chat'): Case[] {
  const folder = join(recorded ?? '', 'cases', api)
  const json = (id: string, file: string) =>
    JSON.parse(readFileSync(join(folder, id, file), 'utf8'))
  return readdirSync(folder)
    .sort()
    .map((id) => {
      const meta = json(id, 'response.meta.json')
      const expected: Expected = json(id, 'expected.json')
      return {
        id,
        status: meta.status,
        bytes: readFileSync(join(folder, id, 'response.body')).length,
        streaming: meta.streaming,
        tools: [...new Set(expected.tool_calls.map((call) => call.name))],
        expected,
      }
    })
}

/** Which of our kinds a recorded class may be. */
const KINDS: Record<string, FailureKind[]> = {
  context_overflow: ['context_overflow'],
  too_large: ['context_overflow'],
  rate_limit: ['rate_limit'],
  overloaded: ['overloaded'],
  auth: ['auth', 'auth_permanent'],
  permission: ['auth', 'auth_permanent'],
  billing: ['billing'],
  not_found: ['model_not_found'],
  invalid_request: ['format', 'model_not_found'],
  tool_use_failed: ['format', 'server_error'],
  server: ['server_error'],
  other: ['unknown', 'server_error', 'refusal'],
}

function stopOf(expected: Expected): string {
  const called = expected.tool_calls.length > 0
  switch (expected.stop_reason) {
    case 'max_tokens':
    case 'context_overflow':
      return 'max_tokens'
    case 'refusal':
    case 'content_filter':
    case 'error':
    case 'malformed_tool_call':
      return 'error'
    case 'tool_use':
    case 'pause':
      return 'tool_use'
    default:
      // One call of the model is allowed here, so that calls are closed and not run.
      return called ? 'tool_use' : expected.refusal !== '' ? 'error' : 'end_turn'
  }
}

function compact(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json === '' ? '{}' : json))
  } catch {
    return json
  }
}

const digest = (value: string) => ({
  length: [...value].length,
  sha256: createHash('sha256').update(value).digest('hex'),
})

/** Signatures and encrypted parts of the answer, in order. */
function opaqueOf(result: AgentResult): unknown[] {
  const found: unknown[] = []
  for (const block of result.blocks) {
    if (block.type === 'redacted_thinking') {
      found.push({ kind: 'redacted_thinking', ...digest(block.data) })
    }
    if (block.type !== 'thinking') continue
    if (block.signature) found.push({ kind: 'signature', ...digest(block.signature) })
    const details = JSON.parse(block.providerData ?? '{}').reasoning_details ?? []
    for (const detail of details) {
      for (const kind of ['signature', 'data']) {
        if (detail[kind]) found.push({ kind: `reasoning_details.${kind}`, ...digest(detail[kind]) })
      }
    }
  }
  return found
}

/** The fields in which a result differs from what the recording's client should have understood. */
function differences(
  { expected, status, streaming }: Case,
  result: AgentResult,
): Record<string, unknown> {
  const wrong: Record<string, unknown> = {}
  const check = (field: string, ours: unknown, theirs: unknown) => {
    if (expected.ambiguous.includes(field)) return
    if (JSON.stringify(ours) !== JSON.stringify(theirs)) wrong[field] = { ours, recorded: theirs }
  }
  if (status !== 200) {
    check('stop_reason', result.stopReason, 'error')
    check('status', result.error?.detail.status, status)
  }
  const failed = expected.error !== null || !expected.complete
  if (expected.error !== null) {
    const kind = result.error?.detail.kind
    const allowed = KINDS[expected.error.class] ?? []
    if (kind === undefined || !allowed.includes(kind)) {
      check('error', kind ?? result.stopReason, expected.error.class)
    }
  }
  const assistant = result.messages.find((message) => message.role === 'assistant')
  const joined = (type: 'text' | 'thinking') =>
    result.blocks
      .map((block) =>
        block.type === type ? (block.type === 'text' ? block.text : block.thinking) : '',
      )
      .join('')
  // A whole message may hold arguments as an object, whose text the recording's reader wrote anew.
  const argumentsOf = (text: string) => (streaming ? text : compact(text))
  // A refusal is shown as text.
  check('text', joined('text'), expected.text + expected.refusal)
  check('reasoning', joined('thinking'), expected.reasoning)
  check(
    'tool_calls',
    result.blocks.flatMap((block) =>
      block.type === 'tool_call' ? [[block.id, block.name, argumentsOf(block.argumentsJson)]] : [],
    ),
    expected.tool_calls.map((call) => [call.id, call.name, argumentsOf(call.arguments_raw)]),
  )
  check('opaque', opaqueOf(result), expected.opaque)
  if (failed) {
    check('stop_reason', result.stopReason, 'error')
    return wrong
  }
  check('stop_reason', result.stopReason, stopOf(expected))
  // An answer without any content leaves no message that could tell these.
  if (assistant !== undefined) {
    check('stop_reason_raw', assistant.providerStopReason, expected.stop_reason_raw ?? '')
    check('response_id', assistant.provenance?.responseId ?? '', expected.response_id ?? '')
  }
  const told = expected.usage
  check('usage_estimated', result.usageEstimated, told === null)
  if (told !== null) {
    const { inputTokens, cachedInputTokens, cacheWriteTokens, outputTokens, reasoningTokens } =
      result.usage
    check(
      'usage',
      [inputTokens, cachedInputTokens, cacheWriteTokens, outputTokens, reasoningTokens],
      [
        told.input_uncached ?? 0,
        told.cache_read ?? 0,
        told.cache_write ?? 0,
        told.output_total ?? 0,
        told.reasoning ?? 0,
      ],
    )
    check('context_tokens', result.contextTokens, result.usage.totalTokens)
  }
  return wrong
}

describe.skipIf(!here)('recordings', () => {
  let replay: { server: Server; close: () => Promise<void>; listen: () => Promise<number> }
  let origin = ''

  beforeAll(async () => {
    const { createReplayServer } = await import(pathToFileURL(replayer ?? '').href)
    replay = createReplayServer({ roots: [recorded] })
    origin = `http://127.0.0.1:${await replay.listen()}`
  })
  afterAll(() => replay.close())

  /** Runs every case once, a few at a time. */
  async function play(api: Api, list: Case[], options: string): Promise<Map<Case, AgentResult>> {
    const providers = Object.fromEntries(
      list.map(({ id }) => [id, { api, baseUrl: `${origin}/case/${id}${options}` }]),
    )
    const models = list.map(({ id }) => ({
      provider: id,
      id: 'recorded',
      contextWindow: 10_000_000,
      maxOutputTokens: 8_192,
    }))
    const engine = new AgentEngine({ providers, models })
    const results = new Map<Case, AgentResult>()
    const waiting = [...list]
    const worker = async () => {
      for (let one = waiting.shift(); one !== undefined; one = waiting.shift()) {
        const tools = one.tools.map((name) => ({
          name,
          parameters: { type: 'object' },
          run: () => 'never run',
        }))
        const run = engine.run(
          context({
            provider: one.id,
            model: 'recorded',
            sessionLabel: one.id,
            tools,
            maxIterations: 1,
          }),
        )
        results.set(one, await run.result)
      }
    }
    await Promise.all(Array.from({ length: 16 }, worker))
    await engine.close()
    return results
  }

  function compare(name: 'anthropic' | 'chat', results: Map<Case, AgentResult>): void {
    const wrong: string[] = []
    const seen = new Set<string>()
    let agree = 0
    for (const [one, result] of results) {
      const found = differences(one, result)
      const known = DIFFERENT[name].filter(
        ([end, field]) =>
          one.id.endsWith(end) && (field === '*' ? Object.keys(found).length > 0 : field in found),
      )
      for (const [end, field, why] of known) {
        seen.add(`${end} ${field}`)
        console.log(`${one.id}: ${Object.keys(found).join(', ')} differ on purpose: ${why}`)
        for (const name of field === '*' ? Object.keys(found) : [field]) delete found[name]
      }
      if (known.length === 0 && Object.keys(found).length === 0) agree++
      if (Object.keys(found).length > 0) wrong.push(`${one.id}: ${JSON.stringify(found)}`)
    }
    console.log(`${name}: ${agree} of ${results.size} agree`)
    expect(wrong).toEqual([])
    const stale = DIFFERENT[name]
      .filter(([end]) => [...results.keys()].some(({ id }) => id.endsWith(end)))
      .filter(([end, field]) => !seen.has(`${end} ${field}`))
    expect(stale).toEqual([])
  }

  test('every Anthropic Messages exchange is understood as recorded', async () => {
    compare('anthropic', await play('anthropic-messages', cases('anthropic'), ''))
  })

  test('every Chat Completions exchange is understood as recorded', async () => {
    compare('chat', await play('openai-chat', cases('chat'), ''))
  })

  test.each([
    ['anthropic', 'anthropic-messages'],
    ['chat', 'openai-chat'],
  ] as const)('a stream of %s in pieces of one byte is understood alike', async (name, api) => {
    const streams = cases(name).filter((one) => one.status === 200 && one.streaming)
    compare(name, await play(api, streams, ';chunk=1'))
  })
})

test.runIf(!here)('the recordings are not here, so none was replayed', () => {
  console.log(`skipped: no recordings at \`${fixtures}\``)
})
