// Every recorded agent loop of real providers, driven through the public API: the engine makes the recorded calls, its tools
// return the recorded results, and each request follows the rules of its API, has the content of the recorded client's request,
// and has opaque values byte for byte. The recordings must never be part of the project.

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { AgentEngine, type AgentResult, type AgentToolResult } from '../../index.js'
import { context } from '../support/engine.js'
import { broken, conversation, type Item } from '../support/recordings/conversation.js'
import {
  cases,
  digest,
  type Expected,
  FOLDERS,
  type Folder,
  here,
  isSupported,
  providerAt,
  recorded,
  replayServer,
  requestOf,
} from '../support/recordings/recordings.js'

interface Step {
  case: string
  tool_calls: { id: string | null; name: string; arguments: unknown }[]
  tool_results_sent_next: { id: string | null; content: any; is_error?: boolean | null }[]
}

interface Session {
  id: string
  steps: Step[]
}

/** Intended differences: the beginning of the session's name, and the reason. */
const DIFFERENT: Record<Folder, [name: string, why: string][]> = {
  anthropic: [],
  chat: [],
  responses: [],
  google: [
    [
      'google--pydantic-ai--ol-return-matrix-tool-return-content-url-image-google-vertex-94eb09',
      'the recorded client ran a call that came with `UNEXPECTED_TOOL_CALL`; ours runs none that the provider calls malformed, and asks once more',
    ],
  ],
  bedrock: [],
}

function sessions(folder: Folder): Session[] {
  const path = join(recorded ?? '', 'sessions')
  return readdirSync(path)
    .sort()
    .map((name) => JSON.parse(readFileSync(join(path, name), 'utf8')))
    .filter((session) => session.api === FOLDERS[folder])
}

/** The recorded result of a tool, as a tool would return it. */
function answer({
  content,
  is_error: isError,
}: Step['tool_results_sent_next'][number]): AgentToolResult {
  const replies = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value))
  if (Array.isArray(content)) {
    const parts = content.map((part) => {
      if (part.type === 'image') {
        return { type: 'image' as const, data: part.source.data, mimeType: part.source.media_type }
      }
      return { type: 'text' as const, text: part.text ?? replies(part.json ?? part) }
    })
    return { content: parts, isError: isError === true }
  }
  if (content !== null && typeof content === 'object') {
    const value =
      content.error ?? content.output ?? content.result ?? content.return_value ?? content
    return {
      content: [{ type: 'text', text: replies(value) }],
      isError: content.error !== undefined,
    }
  }
  return { content: [{ type: 'text', text: replies(content) }], isError: isError === true }
}

const textOf = (result: AgentToolResult) =>
  result.content.map((part) => (part.type === 'text' ? part.text : '')).join('')

const only = <Kind extends Item['kind']>(items: Item[], kind: Kind) =>
  items.flatMap((item) => (item.kind === kind ? [item as Extract<Item, { kind: Kind }>] : []))

/** The outcome of a session. */
interface Driven {
  session: Session
  result: AgentResult
  ran: { name: string; params: unknown }[]
  requests: any[]
}

/** Every difference of a driven session from its recording. */
function differences(folder: Folder, driven: Driven, expected: Map<string, Expected>): string[] {
  const { session, result, ran, requests } = driven
  const wrong: string[] = []
  const same = (what: string, ours: unknown, theirs: unknown) => {
    const [mine, recordedSteps] = [JSON.stringify(ours), JSON.stringify(theirs)]
    if (mine !== recordedSteps) wrong.push(`${what}: ours ${mine}, recorded ${recordedSteps}`)
  }
  const recordedSteps = session.steps.map((step) => expected.get(step.case))
  same('requests', requests.length, session.steps.length)
  const answered = session.steps.filter((step) => step.tool_results_sent_next.length > 0)
  same(
    'calls that ran',
    ran.map(({ name, params }) => [name, params]),
    answered.flatMap((step) => step.tool_calls.map((call) => [call.name, call.arguments])),
  )
  const replies = result.messages.filter((message) => message.role === 'assistant')
  const texts = recordedSteps.map((one) => one?.text ?? '')
  same(
    'texts',
    replies.map((message) => message.content),
    texts,
  )
  same('stop', result.stopReason, recordedSteps.at(-1)?.tool_calls.length ? 'tool_use' : 'end_turn')
  requests.forEach((body, at) => {
    const step = `request ${at}`
    wrong.push(...broken(folder, body).map((rule) => `${step}: ${rule}`))
    const first = conversation(folder, requests[0])
    const before = session.steps.slice(0, at)
    const items = conversation(folder, body)
      .slice(first.length)
      .flatMap((message) => message.items)
    const ids = folder !== 'google'
    same(
      `${step}, calls`,
      only(items, 'call').map((call) => [ids && call.id, call.name, call.arguments]),
      before.flatMap((one) =>
        one.tool_calls.map((call) => [ids && call.id, call.name, call.arguments]),
      ),
    )
    same(
      `${step}, results`,
      only(items, 'result').map((one) => [ids && one.id, one.text]),
      before.flatMap((one) =>
        one.tool_results_sent_next.map((sent) => [ids && sent.id, textOf(answer(sent))]),
      ),
    )
    const opaque = only(items, 'opaque').map((item) => item.value)
    same(
      `${step}, opaque values`,
      opaque.map(digest),
      recordedSteps
        .slice(0, at)
        .flatMap((one) => one?.opaque.map(({ length, sha256 }) => ({ length, sha256 }))),
    )
    // The recorded client's request of this step: its opaque values are among the engine's, its calls and results in the same order.
    const theirs = requestOf({ id: session.steps[at]?.case ?? '', folder })
    const opened = requestOf({ id: session.steps[0]?.case ?? '', folder })
    if (theirs === undefined || opened === undefined) return
    const recordedItems = conversation(folder, theirs)
      .slice(conversation(folder, opened).length)
      .flatMap((message) => message.items)
    same(
      `${step}, order`,
      items.map(({ kind }) => kind).filter((kind) => kind === 'call' || kind === 'result'),
      recordedItems.map(({ kind }) => kind).filter((kind) => kind === 'call' || kind === 'result'),
    )
    // Some clients write the same bytes in the other base64 alphabet.
    const bytes = (value: string) => Buffer.from(value, 'base64').toString('hex')
    const resent = new Set(opaque.map(bytes))
    same(
      `${step}, opaque values the recorded client resent`,
      only(recordedItems, 'opaque').filter((item) => !resent.has(bytes(item.value))),
      [],
    )
  })
  return wrong
}

describe.skipIf(!here).each(['anthropic', 'chat', 'responses', 'google', 'bedrock'] as const)(
  'recorded agent loops of %s',
  (folder) => {
    let replay: Awaited<ReturnType<typeof replayServer>>

    beforeAll(async () => {
      replay = await replayServer()
    })
    afterAll(() => replay.close())

    async function drive(session: Session): Promise<Driven> {
      const run = `${folder}-${session.id.slice(-6)}`
      const engine = new AgentEngine({
        providers: { test: providerAt(folder, `${replay.origin}/session/${session.id}/${run}`) },
        authProfiles: [{ id: 'p1', provider: 'test', type: 'token', key: 'nobody-checks' }],
        models: [
          { provider: 'test', id: 'recorded', contextWindow: 10_000_000, maxOutputTokens: 8_192 },
        ],
      })
      const ran: Driven['ran'] = []
      const answers = session.steps.flatMap((step) => step.tool_results_sent_next.map(answer))
      const names = session.steps.flatMap((step) => step.tool_calls.map((call) => call.name))
      const tools = [...new Set(names)].map((name) => ({
        name,
        parameters: { type: 'object' },
        run: (params: unknown) => {
          ran.push({ name, params })
          return answers.shift()
        },
      }))
      const running = engine.run(
        context({ model: 'recorded', tools, maxIterations: session.steps.length }),
      )
      const result = await running.result
      await engine.close()
      const requests = replay.journal.filter((seen) => seen.run === run).map((seen) => seen.body)
      return { session, result, ran, requests }
    }

    test.skipIf(!isSupported(folder))('every loop runs as recorded', async () => {
      const expected = new Map(cases(folder).map((one) => [one.id, one.expected]))
      const report: string[] = []
      let agree = 0
      const all = sessions(folder)
      const seen = { requests: 0, call: 0, result: 0, opaque: 0 }
      for (const session of all) {
        const driven = await drive(session)
        const wrong = differences(folder, driven, expected)
        const sent = driven.requests.flatMap((body) => conversation(folder, body))
        seen.requests += driven.requests.length
        for (const { kind } of sent.flatMap((message) => message.items)) {
          if (kind === 'call' || kind === 'result' || kind === 'opaque') seen[kind] += 1
        }
        const known = DIFFERENT[folder].find(([name]) => session.id.startsWith(name))
        if (known !== undefined) {
          console.log(`${session.id} differs on purpose: ${known[1]}`)
          if (wrong.length === 0) report.push(`${session.id}: agrees, so it is no exception`)
        } else if (wrong.length > 0) {
          report.push(`${session.id}:\n  ${wrong.join('\n  ')}`)
        } else {
          agree += 1
        }
      }
      console.log(
        `${folder}: ${agree} of ${all.length} recorded loops agree; sent ${JSON.stringify(seen)}`,
      )
      expect(report.join('\n')).toBe('')
    })
  },
)
