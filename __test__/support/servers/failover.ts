// A loopback provider that answers by model and key, and an engine with several of both. It must never answer a request without
// recording it.

import {
  AgentEngine,
  type AgentEngineOptions,
  type AgentResult,
  type AssembledContext,
  type StreamEvent,
} from '../../../index.js'
import { closing } from '../cleanup.js'
import { context, readAll } from '../engine.js'
import { anthropic } from './anthropic.js'
import { chat } from './chat.js'
import { type Handler, type Seen, sse, status, type TestServer, testServer } from './server.js'

export const key = (name: string) => `sk-test-canary-${name}-0123456789`

export const models = [
  { provider: 'test', id: 'm1', contextWindow: 100_000, maxOutputTokens: 1_000 },
  { provider: 'test', id: 'm2', contextWindow: 50_000, maxOutputTokens: 1_000 },
  { provider: 'test', id: 'm3', contextWindow: 200_000, maxOutputTokens: 1_000 },
  { provider: 'other', id: 'o1', contextWindow: 100_000, maxOutputTokens: 1_000 },
]

/** Answers of the two APIs. */
export const replyWith = (text: string): Handler => sse(anthropic.answer(text))
export const chatReplyWith = (text: string): Handler => sse(chat.answer(text))

const types: Record<number, string> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  402: 'billing_error',
  404: 'not_found_error',
  429: 'rate_limit_error',
  500: 'api_error',
  529: 'overloaded_error',
}

/** An error of the API by its status. */
export const failWith = (
  code: number,
  message = 'no',
  headers: Record<string, string> = {},
): Handler =>
  status(code, { type: 'error', error: { type: types[code] ?? 'api_error', message } }, headers)

export interface World {
  server: TestServer
  /** `m1/a` for each request: the model and the key's name. */
  requested: string[]
  /** Sets the handler. */
  answers(answer: (model: string, key: string) => Handler): void
  engine(options?: AgentEngineOptions, profiles?: string[]): AgentEngine
}

const nameOf = ({ headers }: Seen) => {
  const given = String(headers['x-api-key'] ?? headers.authorization ?? '')
  return /canary-(.+)-0123456789/.exec(given)?.[1] ?? ''
}

export async function world(): Promise<World> {
  const requested: string[] = []
  let answer: (model: string, key: string) => Handler = () => replyWith('ok')
  const server = await testServer((response, seen) => {
    const [model, name] = [seen.body.model, nameOf(seen)]
    requested.push(`${model}/${name}`)
    return answer(model, name)(response, seen)
  })
  return {
    server,
    requested,
    answers: (next) => {
      answer = next
    },
    engine: (options = {}, profiles = ['a', 'b']) =>
      closing(
        new AgentEngine({
          providers: {
            test: { api: 'anthropic-messages', baseUrl: server.url },
            other: { api: 'openai-chat', baseUrl: server.url },
          },
          authProfiles: [
            ...profiles.map((id) => ({ id, provider: 'test', key: key(id) })),
            { id: 'o', provider: 'other', key: key('o') },
          ],
          models,
          ...options,
        }),
      ),
  }
}

/** A context for the model `m1`. */
export const contextOfM1 = (changes: Partial<AssembledContext> = {}): AssembledContext =>
  context({ model: 'm1', sessionLabel: 's', timeoutMs: 20_000, ...changes })

/** One run with `m1` on a new engine, read to its end. The engine stays open until the test ends. */
export async function runWithM1(
  world: World,
  changes: Partial<AssembledContext> = {},
  options: AgentEngineOptions = {},
): Promise<{ engine: AgentEngine; events: StreamEvent[]; result: AgentResult }> {
  const engine = world.engine(options)
  const run = engine.run(contextOfM1(changes))
  const events = await readAll(run)
  return { engine, events, result: await run.result }
}

/** The switches between models among the events of a run: from, to, and why. */
export const switches = (events: StreamEvent[]) =>
  events.flatMap((event) =>
    event.type === 'model_switch' ? [`${event.from.model}>${event.to.model} ${event.reason}`] : [],
  )
