// The recorded exchanges of real providers, and the comparison of a result with the recording's expected content. The differences
// between the APIs are data here. It must never copy a recording into the project.

import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import type { Server } from 'node:http'
import { join, resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { AgentEngine, type AgentResult, type Api, type FailureKind } from '../../../index.js'

/** The folder of recordings, or its parent folder with the tools. */
export const fixtures = resolve(
  process.env.NEXUS_FIXTURES ??
    fileURLToPath(new URL('../../../../shared/fixtures', import.meta.url)),
)
export const recorded = [join(fixtures, 'recorded'), fixtures].find((path) =>
  existsSync(join(path, 'cases')),
)
const replayer = [join(fixtures, 'tools'), resolve(fixtures, '../tools')]
  .map((path) => join(path, 'replay-server.mjs'))
  .find((path) => existsSync(path))
export const here = recorded !== undefined && replayer !== undefined

/** The folders of the recordings, and the API of each. */
export const FOLDERS = {
  anthropic: 'anthropic-messages',
  chat: 'openai-chat',
  responses: 'openai-responses',
  google: 'google-generative-ai',
  bedrock: 'bedrock-converse',
} as const satisfies Record<string, Api>

export type Folder = keyof typeof FOLDERS

export interface Expected {
  complete: boolean
  text: string
  reasoning: string
  reasoning_parts: string[]
  refusal: string
  tool_calls: { id: string | null; name: string; arguments_raw: string; arguments: unknown }[]
  opaque: { kind: string; length: number; sha256: string }[]
  stop_reason: string | null
  stop_reason_raw: string | null
  usage: Record<string, number | null> | null
  error: { status: number; message: string | null; class: string } | null
  response_id: string | null
  ambiguous: string[]
}

export interface Case {
  id: string
  folder: Folder
  status: number
  headers: Record<string, string>
  body: Buffer
  /** Whether the body is a stream; some servers answer with JSON even if a stream was requested. */
  isStream: boolean
  tools: string[]
  expected: Expected
}

/** The options of a provider that answers with recordings of this API. */
export function providerAt(folder: Folder, baseUrl: string) {
  return { api: FOLDERS[folder], baseUrl }
}

/** Whether the engine speaks an API. */
export function isSupported(folder: Folder): boolean {
  try {
    const engine = new AgentEngine({
      providers: { test: providerAt(folder, 'http://127.0.0.1:9') },
    })
    void engine.close()
    return true
  } catch {
    return false
  }
}

export function cases(folder: Folder): Case[] {
  const path = join(recorded ?? '', 'cases', folder)
  const json = (id: string, file: string) => JSON.parse(readFileSync(join(path, id, file), 'utf8'))
  return readdirSync(path)
    .sort()
    .map((id) => {
      const meta = json(id, 'response.meta.json')
      const expected: Expected = json(id, 'expected.json')
      const kind: string = meta.headers['content-type'] ?? ''
      return {
        id,
        folder,
        status: meta.status,
        headers: meta.headers,
        body: readFileSync(join(path, id, 'response.body')),
        isStream: meta.status === 200 && meta.streaming && kind.includes('stream'),
        // Some answers were cut before a call had its name.
        tools: [...new Set(expected.tool_calls.map((call) => call.name))].filter(Boolean),
        expected,
      }
    })
}

/** The request of the recording's client; absent where it is unknown. */
export function requestOf(one: { id: string; folder: Folder }): any {
  const path = join(recorded ?? '', 'cases', one.folder, one.id, 'request.json')
  return existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')).body : undefined
}

/** The replay server of the recordings, listening. */
export async function replayServer(): Promise<{
  origin: string
  close: () => Promise<void>
  journal: any[]
}> {
  const { createReplayServer } = await import(pathToFileURL(replayer ?? '').href)
  const replay: {
    server: Server
    close: () => Promise<void>
    listen: () => Promise<number>
    journal: any[]
  } = createReplayServer({ roots: [recorded] })
  const origin = `http://127.0.0.1:${await replay.listen()}`
  return { origin, close: replay.close, journal: replay.journal }
}

/** The possible failure kinds of a recorded class. */
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
      // Only one call of the model is allowed here, so that calls are closed and not run.
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

export const digest = (value: string) => ({
  length: [...value].length,
  sha256: createHash('sha256').update(value).digest('hex'),
})

/** The opaque values in a block's provider data. */
function opaqueValues(folder: Folder, json: string | undefined): { kind: string; value: string }[] {
  const data = JSON.parse(json ?? '{}')
  switch (folder) {
    case 'chat':
      return (data.reasoning_details ?? []).flatMap((detail: any) =>
        ['signature', 'data'].flatMap((kind) =>
          detail[kind] ? [{ kind: `reasoning_details.${kind}`, value: detail[kind] }] : [],
        ),
      )
    case 'responses':
      return data.encrypted_content
        ? [{ kind: 'encrypted_content', value: data.encrypted_content }]
        : []
    case 'google':
      return data.thoughtSignature
        ? [{ kind: 'thought_signature', value: data.thoughtSignature }]
        : []
    case 'anthropic':
    case 'bedrock':
      return []
  }
}

/** Signatures and encrypted parts of the answer, in order. */
function opaqueOf(folder: Folder, result: AgentResult): unknown[] {
  const found: { kind: string; value: string }[] = []
  for (const block of result.blocks) {
    switch (block.type) {
      case 'redacted_thinking':
        found.push({ kind: 'redacted_thinking', value: block.data })
        break
      case 'thinking':
        if (block.signature) {
          const kind = folder === 'google' ? 'thought_signature' : 'signature'
          found.push({ kind, value: block.signature })
        }
        found.push(...opaqueValues(folder, block.providerData))
        break
      case 'text':
      case 'tool_call':
        found.push(...opaqueValues(folder, block.providerData))
        break
      case 'opaque':
        found.push(...opaqueValues(folder, block.rawJson))
        break
      default:
        break
    }
  }
  return found.map(({ kind, value }) => ({ kind, ...digest(value) }))
}

/** Whether each block is one part or, in order, several joined by a blank line. */
function isGrouping(blocks: string[], parts: string[]): boolean {
  let rest = parts
  for (const block of blocks) {
    const count = rest.findIndex((_, last) => rest.slice(0, last + 1).join('\n\n') === block) + 1
    if (count === 0) return false
    rest = rest.slice(count)
  }
  return rest.length === 0
}

/** The fields in which a result differs from the recording's expected content. */
export function differences(one: Case, result: AgentResult): Record<string, unknown> {
  const { expected, status, folder, isStream } = one
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
  // A whole message, and every message of Google, has arguments as an object, which the recording's reader serialised again.
  const argumentsOf = (text: string) => (isStream && folder !== 'google' ? text : compact(text))
  // A refusal is shown as text.
  check('text', joined('text'), expected.text + expected.refusal)
  // The parts of a summary are one block, with a blank line between.
  const blocks = result.blocks.flatMap((block) =>
    block.type === 'thinking' ? [block.thinking] : [],
  )
  if (!isGrouping(blocks, expected.reasoning_parts)) {
    check('reasoning', joined('thinking'), expected.reasoning)
  }
  // Google's calls need no id; the engine creates one if there is none.
  const calls = result.blocks.flatMap((block) => (block.type === 'tool_call' ? [block] : []))
  check(
    'tool_calls',
    calls.map((call, at) => [
      expected.tool_calls[at]?.id === null ? null : call.id,
      call.name,
      argumentsOf(call.argumentsJson),
    ]),
    expected.tool_calls.map((call) => [call.id, call.name, argumentsOf(call.arguments_raw)]),
  )
  check('opaque', opaqueOf(folder, result), expected.opaque)
  if (failed) {
    check('stop_reason', result.stopReason, 'error')
    return wrong
  }
  check('stop_reason', result.stopReason, stopOf(expected))
  // An answer without content has no message for these.
  if (assistant !== undefined) {
    check('stop_reason_raw', assistant.providerStopReason, expected.stop_reason_raw ?? '')
    check('response_id', assistant.provenance?.responseId ?? '', expected.response_id ?? '')
  }
  const expectedUsage = expected.usage
  check('usage_estimated', result.usageEstimated, expectedUsage === null)
  if (expectedUsage !== null) {
    const { inputTokens, cachedInputTokens, cacheWriteTokens, outputTokens, reasoningTokens } =
      result.usage
    // A malformed call is requested once more, and both answers are paid for.
    const answers = expected.stop_reason === 'malformed_tool_call' ? 2 : 1
    check(
      'usage',
      [inputTokens, cachedInputTokens, cacheWriteTokens, outputTokens, reasoningTokens],
      [
        // Tokens of provider-run tools in the prompt are input (docs/rules/wire/usage.md#usage-mapping).
        (expectedUsage.input_uncached ?? 0) + (expectedUsage.tool_use_prompt ?? 0),
        expectedUsage.cache_read ?? 0,
        expectedUsage.cache_write ?? 0,
        expectedUsage.output_total ?? 0,
        expectedUsage.reasoning ?? 0,
      ].map((tokens) => tokens * answers),
    )
    check('context_tokens', result.contextTokens, result.usage.totalTokens / answers)
  }
  return wrong
}
