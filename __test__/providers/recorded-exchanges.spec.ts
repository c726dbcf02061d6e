// Every recorded exchange of real providers, replayed to the public API by a loopback server: text, reasoning, tool calls, opaque
// values, stop reasons, usage and failures must equal the recording's expected content, for any chunking, and a cut stream must
// never count as whole. The recordings are read in their folder (`NEXUS_FIXTURES`, or beside the project) and are not part of it.

import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { AgentEngine, type AgentResult } from '../../index.js'
import { context } from '../support/engine.js'
import {
  type Case,
  cases,
  differences,
  type Folder,
  fixtures,
  here,
  isSupported,
  providerAt,
  replayServer,
} from '../support/recordings/recordings.js'

/** Intended differences: the end of the case's name, the field (`*`: all), and the reason. An entry that agrees fails. */
const DIFFERENT: Record<Folder, [name: string, field: string, why: string][]> = {
  anthropic: [
    [
      'spliced-message-start-1a288c',
      '*',
      'a second message in the middle of the first: the two are never joined (docs/rules/faults.md#untrue-and-repeated-events)',
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
      'docs/rules/wire/usage.md#usage-mapping takes written tokens out of the input; the cost in the recording agrees',
    ],
    ['snowflake-thinking-da304f', 'reasoning', 'text that only `reasoning_details` has is shown'],
    ['hermes-4-405b-token-limit-c00e43', '*', 'the choice holds an error 502 and no finish reason'],
    [
      'without-parameters-in-multi-turn-streaming-conversations-s1-223cb2',
      'usage',
      'more cached than prompt tokens: an input below zero is zero (docs/rules/wire/usage.md#usage-mapping)',
    ],
    [
      'perplexity-sonar-handles-context-length-exceeded-errors-70c636',
      'error',
      'its `too_many_prompt_tokens` is an overflow',
    ],
  ],
  responses: [
    [
      'v1-response-stream-incomplete-902bd9',
      '*',
      'a count of nothing for an answer that was given is estimated',
    ],
    [
      'azure-reasoning-encrypted-content-1-d08fb4',
      '*',
      'two responses one after the other in one stream: ours ends at the first one’s end',
    ],
    [
      'openai-reasoning-encrypted-content-1-8bf5cf',
      '*',
      'two responses one after the other in one stream: ours ends at the first one’s end',
    ],
    [
      'web-search-tool-without-external-access-ef3785',
      'usage',
      'tokens written to the cache are no uncached input (docs/rules/wire/usage.md#usage-mapping)',
    ],
    [
      'test-reused-tool-call-ids-stream-s2-d0d642',
      'usage',
      'tokens written to the cache are no uncached input (docs/rules/wire/usage.md#usage-mapping)',
    ],
    [
      'test-background-mode-vcr-e9ce5d',
      '*',
      'a background response that is only queued has no answer',
    ],
    [
      'reasoning-roundtrip-streaming-dfd8a5',
      'response_id',
      'the recorder masked the id of each event anew; the first one stays',
    ],
  ],
  google: [
    [
      'vertexai-unary-success-empty-text-part-36d4bc',
      '*',
      'a stop without content is requested again and is no answer (docs/rules/wire/google.md#finish-reasons)',
    ],
  ],
  bedrock: [
    [
      'grounds-the-answer-with-web-citations-6dc6ab',
      '*',
      '`nova_grounding` is a tool of the provider: its block is stored whole and never run here',
    ],
    [
      'streams-grounded-turns-3ea398',
      '*',
      '`nova_grounding` is a tool of the provider: its block is stored whole and never run here',
    ],
  ],
}

/** A larger stream takes a server too long byte by byte; `tests/it/recordings.rs` reads every one so. */
const BYTE_BY_BYTE = 20_000

/** Where an answer may already be whole: chat servers send more events after their finish reason. */
function endOf({ folder, body }: Case): number {
  const at = folder === 'chat' ? body.toString('latin1').search(/"finish_reason": ?"/) : -1
  return at < 0 ? body.length : at
}

/** Changes of the bytes of a stream that do not change its content. */
const DISGUISES: [name: string, of: (text: string) => string][] = [
  ['with CRLF', (text) => text.replaceAll('\n', '\r\n')],
  ['with a byte order mark', (text) => `\ufeff${text}`],
  [
    'with comments',
    (text) => `: first\n\n${text.replaceAll('\n\n', '\n: comment\nid: 7\nretry: 3\n\n: more\n\n')}`,
  ],
]

/** A server for changed bytes; its paths begin with an index of `bodies`. */
async function bodyServer(bodies: { headers: Record<string, string>; body: Buffer }[]) {
  const server: Server = createServer((request, response) => {
    request.resume()
    const at = bodies[Number(/^\/(\d+)\//.exec(request.url ?? '')?.[1])]
    response.writeHead(200, { 'content-type': at?.headers['content-type'] ?? '' })
    // A clean end for any body, as after a cut at a proxy.
    response.end(at?.body)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () => {
      server.closeAllConnections()
      return new Promise((resolve) => server.close(resolve))
    },
  }
}

interface Played {
  one: Case
  result: AgentResult
  /** The number of its tools that ran. */
  ran: number
}

/** Runs every case once, a few in parallel. */
async function play(list: Case[], urlOf: (one: Case, at: number) => string, iterations = 1) {
  const names = list.map((one, at) => `${at}:${one.id}`)
  const providers = Object.fromEntries(
    list.map((one, at) => [names[at], providerAt(one.folder, urlOf(one, at))]),
  )
  const models = names.map((provider) => ({
    provider,
    id: 'recorded',
    contextWindow: 10_000_000,
    maxOutputTokens: 8_192,
  }))
  const authProfiles = names.map((provider) => ({
    id: provider,
    provider,
    type: 'token' as const,
    key: 'a-key-that-nobody-checks',
  }))
  const engine = new AgentEngine({ providers, models, authProfiles })
  const played: Played[] = []
  const waiting = list.map((one, at) => ({ one, at }))
  const worker = async () => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const { one, at } = next
      let ran = 0
      const tools = one.tools.map((name) => ({
        name,
        parameters: { type: 'object' },
        run: () => {
          ran += 1
          return 'done'
        },
      }))
      const run = engine.run(
        context({
          provider: names[at],
          model: 'recorded',
          sessionLabel: `session ${at}`,
          tools,
          maxIterations: iterations,
        }),
      )
      played.push({ one, result: await run.result, ran })
    }
  }
  await Promise.all(Array.from({ length: 16 }, worker))
  await engine.close()
  return played
}

function compare(folder: Folder, how: string, played: Played[]): void {
  const wrong: string[] = []
  const seen = new Set<string>()
  let agree = 0
  for (const { one, result } of played) {
    const found = differences(one, result)
    const known = DIFFERENT[folder].filter(
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
  console.log(`${folder}, ${how}: ${agree} of ${played.length} agree`)
  expect(wrong).toEqual([])
  const stale = DIFFERENT[folder]
    .filter(([end]) => played.some(({ one }) => one.id.endsWith(end)))
    .filter(([end, field]) => !seen.has(`${end} ${field}`))
  expect(stale).toEqual([])
}

describe.skipIf(!here).each(['anthropic', 'chat', 'responses', 'google', 'bedrock'] as const)(
  'recordings of %s',
  (folder) => {
    const supported = isSupported(folder)
    let replay: Awaited<ReturnType<typeof replayServer>>
    const all = here && supported ? cases(folder) : []
    const streams = all.filter((one) => one.isStream)

    beforeAll(async () => {
      replay = await replayServer()
    })
    afterAll(() => replay.close())

    test.skipIf(!supported)('every exchange is decoded as expected', async () => {
      compare(folder, 'as recorded', await play(all, ({ id }) => `${replay.origin}/case/${id}`))
    })

    test.skipIf(!supported)('every stream in pieces of one byte is decoded alike', async () => {
      const small = streams.filter(({ body }) => body.length <= BYTE_BY_BYTE)
      const played = await play(small, ({ id }) => `${replay.origin}/case/${id};chunk=1`)
      compare(folder, 'byte by byte', played)
    })

    test.skipIf(!supported || folder === 'bedrock').each(DISGUISES)(
      'every stream %s is decoded alike',
      async (name, disguise) => {
        const bodies = streams.map(({ headers, body }) => ({
          headers,
          body: Buffer.from(disguise(body.toString('utf8').replaceAll('\r\n', '\n'))),
        }))
        const server = await bodyServer(bodies)
        compare(folder, name, await play(streams, (_, at) => `${server.origin}/${at}`))
        await server.close()
      },
    )

    test.skipIf(!supported)('a cut stream is a failure and runs no tool', async () => {
      // Every byte of every stream is cut in `tests/it/recordings.rs`; here a few cuts of some streams with calls.
      const isOdd = ({ id }: Case) => DIFFERENT[folder].some(([end]) => id.endsWith(end))
      const calling = streams.filter(
        (one) => one.tools.length > 0 && one.expected.complete && !isOdd(one),
      )
      const chosen = calling.filter((_, at) => at % Math.ceil(calling.length / 8) === 0)
      const cuts = chosen.flatMap((one) =>
        [0.1, 0.3, 0.5, 0.7].map((share) => ({
          ...one,
          body: one.body.subarray(0, Math.floor(endOf(one) * share)),
        })),
      )
      const server = await bodyServer(cuts)
      const played = await play(cuts, (_, at) => `${server.origin}/${at}`, 2)
      await server.close()
      console.log(`${folder}: ${played.length} streams cut`)
      expect(
        played
          .map(({ one, result, ran }) => [one.id, one.body.length, result.stopReason, ran])
          .filter(([, , stop, ran]) => stop !== 'error' || ran !== 0),
      ).toEqual([])
    })
  },
)

test.runIf(!here)('without the recordings these tests are skipped', () => {
  console.log(`skipped: no recordings at \`${fixtures}\``)
})
