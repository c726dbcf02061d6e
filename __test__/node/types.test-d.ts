// What must type-check, and what must not, for a TypeScript broker (`tsc --strict` over this file is the test).
// It is never run: every value here is only declared.

import { type Static, Type } from '@sinclair/typebox'
import * as v from 'valibot'
import { z } from 'zod'
import {
  AgentEngine,
  AgentEngineError,
  type AgentEngineErrorCode,
  type AgentEngineOptions,
  type AgentError,
  type AgentMessage,
  type AgentResult,
  type AgentRun,
  type AgentTool,
  type AgentToolCall,
  type AssembledContext,
  type Block,
  type BrokerStreamHandle,
  type CoreStreamEvent,
  type HistoryMessage,
  type Ledger,
  type Message,
  type ModelInfo,
  type Page,
  type QueryResult,
  type RunInfo,
  type RunOptions,
  type ScriptedProvider,
  type SessionRow,
  type StopReason,
  type StreamEvent,
  scriptedProvider,
  type TokenUsage,
  type ToolCallInfo,
  type TurnRow,
  tool,
} from '../../index.js'

/** Compiles only if the two types are equal. */
type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
const is = <Yes extends true>(): Yes => true as Yes

// The smallest whole context; no field of it may be left out.

const smallest = {
  systemPrompt: '',
  currentMessage: { role: 'user', content: 'hi' },
  tools: [],
  model: 'm',
  provider: 'p',
  timeoutMs: 1,
  runId: 'r',
  sessionLabel: 'l',
  role: 'unified',
  toolsetName: 't',
  permissionsGranted: [],
  workspacePath: '/',
} satisfies AssembledContext

type Required = {
  [K in keyof AssembledContext]-?: object extends Pick<AssembledContext, K> ? never : K
}[keyof AssembledContext]
is<Same<Required, keyof typeof smallest>>()

const { model: _model, ...withoutModel } = smallest
// @ts-expect-error `model` is required
withoutModel satisfies AssembledContext
// @ts-expect-error a number is no label
;({ ...smallest, sessionLabel: 5 }) satisfies AssembledContext
// @ts-expect-error no such role
;({ ...smallest, role: 'boss' }) satisfies AssembledContext
// @ts-expect-error a field that does not exist
;({ ...smallest, sesionLabel: 'typo' }) satisfies AssembledContext
// @ts-expect-error no such way to think
;({ ...smallest, thinkingConfig: { type: 'loud' } }) satisfies AssembledContext
;({
  ...smallest,
  parentTurnId: null,
  abortSignal: new AbortController().signal,
}) satisfies AssembledContext

// The broker interface's context, every field of it.

const seed = {
  ...smallest,
  history: [
    { id: '1', role: 'user', content: 'q', sequence: 0, createdAt: 0 },
    { id: '2', role: 'assistant', content: 'a', thinking: 'hm', sequence: 1, createdAt: 1 },
  ],
  thinkingConfig: { type: 'enabled', budgetTokens: 2048 },
  maxResponseTokens: 1,
  temperature: 1,
  tokenBudget: {
    modelLimit: 1,
    reserveResponse: 1,
    reserveTools: 1,
    available: 1,
    used: 0,
    remaining: 1,
  },
  parentTurnId: 'turn',
  sourceEventId: 'event',
  target: { platform: 'x' },
} satisfies AssembledContext

// Read-only constants are accepted too.
;({ ...smallest, history: Object.freeze([]), tools: Object.freeze([]) }) satisfies AssembledContext
const frozen = {
  ...smallest,
  history: [{ role: 'user', content: [{ type: 'text', text: 'q' }] }],
} as const
frozen satisfies AssembledContext

// The short form: a message, and any field of a context as an option.

declare const maybe: { label: string | undefined; signal: AbortSignal | undefined }
const short = new AgentEngine({ defaults: { model: 'p/m', tools: [], temperature: undefined } })
is<Same<ReturnType<typeof short.run>, AgentRun>>()
short.run('hi')
short.run({ role: 'user', content: 'hi' }, { session: maybe.label, signal: maybe.signal })
short.run('hi', { sessionLabel: 's', callbacks: { onPartialReply: ({ text }) => text } })
short.countTokens('hi', { exact: true, session: 's' })
const given: RunOptions = { model: 'p/m', role: undefined, parentTurnId: null }
short.run('hi', given)
// @ts-expect-error the message is not an option
short.run('hi', { currentMessage: { role: 'user', content: 'hi' } })
// @ts-expect-error a field that does not exist
short.run('hi', { tempature: 1 })
// @ts-expect-error a run's own fields have no default
new AgentEngine({ defaults: { runId: 'r' } })
// @ts-expect-error callbacks of a run are not those of a count
short.countTokens('hi', { callbacks: {} })

// Runs.

const engine = new AgentEngine()
const run = engine.run(seed, {
  onPartialReply: ({ text, messageId }) => is<Same<typeof text, string>>() && messageId,
  onReasoningStream: ({ text }) => text.length,
  onToolResult: ({ status, summary }) =>
    is<Same<typeof status, 'started' | 'completed' | 'failed'>>() && summary,
  onAgentEvent: ({ phase, timestamp }) => `${phase} ${timestamp.toFixed()}`,
  onToolUpdate: ({ partial }) => is<Same<typeof partial, unknown>>(),
})
// @ts-expect-error no such callback
engine.run(seed, { onPartialReplay: () => {} })
// @ts-expect-error a context is required
engine.run()

is<Same<typeof run, AgentRun>>()
is<Same<typeof run.result, Promise<AgentResult>>>()
is<Same<typeof run.stream, BrokerStreamHandle>>()
is<Same<ReturnType<typeof run.steer>, boolean>>()
// @ts-expect-error the result is read-only
run.result = Promise.resolve(null as never)

export async function read(events: AgentRun): Promise<string> {
  for await (const event of events) {
    is<Same<typeof event, StreamEvent>>()
    const { seq } = event
    is<Same<typeof seq, number>>()
    switch (event.type) {
      case 'stream_start':
        return event.sessionLabel + event.runId
      case 'token':
      case 'reasoning':
        return event.text + event.messageId
      case 'tool_status':
        is<Same<typeof event.params, Record<string, unknown> | undefined>>()
        return event.toolName + event.toolCallId + event.status + (event.summary ?? '')
      case 'tool_progress':
        return event.toolName + String(event.partial) + event.sub
      case 'tool_input_delta':
        return event.delta + event.sub
      case 'usage':
        return event.model + event.usage.totalTokens + (event.cost ?? 0)
      case 'retry':
        return event.reason + event.provider + event.ms
      case 'compaction':
        return event.phase + event.trigger + (event.tokensAfter ?? '')
      case 'user_message':
        return event.text
      case 'approval':
        is<Same<typeof event.params, Record<string, unknown>>>()
        return event.phase + event.approvalId + event.kind + event.status + event.callId
      case 'model_switch':
        return event.from.model + event.to.model + event.reason
      case 'waiting':
        return event.reason + event.purpose + event.provider + event.model + (event.until ?? '')
      case 'cache_break':
        return event.cacheBreak.cause + event.cacheBreak.tokens
      case 'stream_end':
        return String(event.final)
      case 'stream_error':
        return event.error + String(event.partial)
      default:
        // Every event is distinguished by its type, and there is no other.
        return event satisfies never
    }
  }
  return ''
}

/** With `events: 'core'` there are the six of the broker interface. */
export async function readCore(engine: AgentEngine, context: AssembledContext): Promise<string> {
  const run = engine.run({ ...context, events: 'core' })
  const off = run.stream.onEvent((event) => is<Same<typeof event, CoreStreamEvent>>())
  off()
  for await (const event of run) {
    switch (event.type) {
      case 'stream_start':
        return event.runId
      case 'token':
      case 'reasoning':
        return event.text
      case 'tool_status':
        return event.status
      case 'stream_end':
        return event.stopReason ?? ''
      case 'stream_error':
        return event.kind ?? ''
      default:
        return event satisfies never
    }
  }
  for await (const event of run.events({ afterSeq: 1 })) return String(event.seq)
  return ''
}

// Results.

declare const result: AgentResult
is<Same<typeof result.messages, AgentMessage[]>>()
is<Same<typeof result.toolCalls, AgentToolCall[]>>()
is<Same<typeof result.blocks, Block[]>>()
is<Same<typeof result.usage, TokenUsage>>()
is<Same<typeof result.stopReason, StopReason>>()
is<Same<typeof result.turnId, string>>()
is<Same<typeof result.persisted, boolean>>()
is<Same<typeof result.cost, number | null>>()
is<Same<typeof result.contextTokens, number | null>>()
is<Same<typeof result.error, AgentError | undefined>>()
is<Same<StopReason, 'end_turn' | 'max_tokens' | 'tool_use' | 'timeout' | 'aborted' | 'error'>>()
// The messages of a result can be passed to the next run unchanged.
;({ ...seed, history: result.messages }) satisfies AssembledContext

// The ledger.

export async function ledgerTypes(ledger: Ledger) {
  is<Same<Awaited<ReturnType<Ledger['session']>>, SessionRow | null>>()
  is<Same<Awaited<ReturnType<Ledger['turn']>>, TurnRow | null>>()
  is<Same<Awaited<ReturnType<Ledger['history']>>, HistoryMessage[]>>()
  is<Same<Awaited<ReturnType<Ledger['query']>>, QueryResult>>()
  const id: string = await ledger.writeTurn(seed, result)
  // Messages of the ledger can be passed in a context unchanged.
  ;({ ...seed, history: await ledger.history('label') }) satisfies AssembledContext
  await ledger.query('SELECT ?', [1, 'a', null, true])
  // @ts-expect-error only what SQLite can bind
  await ledger.query('SELECT ?', [{}])
  // @ts-expect-error SQL is text
  await ledger.query(5)
  return id
}

// Tools: pi's shape, plain functions, TypeBox and JSON Schema.

const parameters = Type.Object({ path: Type.String(), lines: Type.Optional(Type.Integer()) })
const tools: AgentTool[] = [
  { name: 'string', run: () => 'text' },
  { name: 'json', run: async () => ({ rows: [1, 2] }), parameters: { type: 'object' } },
  { name: 'typed', parameters, run: ({ path }: Static<typeof parameters>) => path },
  {
    name: 'told',
    run: (_, { toolCallId, idempotencyKey, signal, onUpdate }) => {
      onUpdate({ any: 'thing' })
      return signal.aborted ? toolCallId : idempotencyKey
    },
    executionMode: 'parallel',
    timeoutMs: 5,
    replay: 'idempotent',
    retries: 2,
  },
  {
    name: 'pi',
    label: 'Pi',
    description: 'In the shape of pi.',
    parameters,
    execute: async (_id, params: Static<typeof parameters>, signal, onUpdate) => {
      onUpdate?.({ content: [], details: {} })
      return { content: [{ type: 'text', text: params.path }], details: signal?.aborted }
    },
  },
]
// A tool without a function runs elsewhere.
const idle: AgentTool = { name: 't', description: '', parameters: {} }
// @ts-expect-error what a tool runs is a function
const wrong: AgentTool = { name: 't', description: '', parameters: {}, run: 'nothing' }
// @ts-expect-error a tool has a name
const nameless: AgentTool = { run: () => '' }
// @ts-expect-error no such mode
const wrongMode: AgentTool = { name: 't', run: () => '', executionMode: 'Parallel' }
// @ts-expect-error pi's tools have a description
const undescribed: AgentTool = { name: 't', parameters: {}, execute: () => '' }

// Messages.

// @ts-expect-error no such role
;({ role: 'robot', content: 'x' }) satisfies Message
// @ts-expect-error no such block
;({ role: 'user', content: [{ type: 'video' }] }) satisfies Message

// Options.

const options: AgentEngineOptions = {
  ledger: { path: './agent.db', synchronous: 'full' },
  providers: {
    anthropic: {},
    local: { api: 'openai-chat', baseUrl: 'http://127.0.0.1:8080/v1', headers: { 'x-a': 'b' } },
    demo: scriptedProvider(['hi', { text: 'a', toolCalls: [{ name: 't', arguments: { a: 1 } }] }], {
      repeat: true,
    }),
  },
  authProfiles: [
    { id: 'a', provider: 'anthropic', type: 'api_key', key: { env: 'KEY' } },
    { id: 'b', provider: 'local', type: 'token', key: 'k' },
  ],
  models: [{ provider: 'local', id: 'm', contextWindow: 32_000 }],
  toolTimeoutMs: 1,
}
new AgentEngine(options)
// @ts-expect-error a typo
new AgentEngine({ provider: {} })
// @ts-expect-error a typo in a provider
new AgentEngine({ providers: { p: { baseURL: 'x' } } })
// @ts-expect-error no such API
new AgentEngine({ providers: { p: { api: 'anthropic' } } })
// @ts-expect-error a profile names its provider
new AgentEngine({ authProfiles: [{ id: 'a', key: 'k' }] })
// @ts-expect-error a path is required
new AgentEngine({ ledger: {} })
// @ts-expect-error no such reply
scriptedProvider([{ txet: 'x' }])

const scripted: ScriptedProvider = scriptedProvider([])
scripted.open('gate')
is<Same<(typeof scripted.requests)[number]['model'], string>>()

// Requests.

const asking: Pick<AssembledContext, 'onRequest' | 'responseFormat' | 'promptCache'> = {
  onRequest: async ({ provider, attempt, body }) => {
    is<Same<typeof provider, string>>()
    is<Same<typeof attempt, number>>()
    return { ...body, extra: 1 }
  },
  responseFormat: { type: 'json_schema', schema: { type: 'object' } },
  promptCache: { ttl: '1h' },
}
new AgentEngine({ onRequest: () => {} })
// @ts-expect-error a body is an object
new AgentEngine({ onRequest: () => 'text' })
// @ts-expect-error no such time
asking.promptCache = { ttl: '2h' }

export async function counts(engine: AgentEngine, context: AssembledContext) {
  const { tokens, exact } = await engine.countTokens(context, { exact: true })
  is<Same<typeof tokens, number>>()
  is<Same<typeof exact, boolean>>()
  const [model] = engine.models({ provider: 'anthropic', reasoning: true })
  is<Same<typeof model, ModelInfo>>()
  const { warnings } = await engine.run(context).result
  is<Same<(typeof warnings)[number]['code'], string>>()
}

export async function follows(engine: AgentEngine) {
  for await (const event of engine.attach('r', { afterSeq: 3 }))
    is<Same<typeof event, StreamEvent>>()
  for await (const { runId, event } of engine.ledger.watch('s')) {
    is<Same<typeof runId, string>>()
    is<Same<typeof event, StreamEvent>>()
  }
  is<Same<Awaited<ReturnType<typeof engine.abortSession>>, void>>()
  is<Same<Awaited<ReturnType<typeof engine.steerSession>>, boolean>>()
  // @ts-expect-error no such option
  engine.attach('r', { since: 3 })
  return new AgentEngine({ ledger: { path: 'a.db', events: { keepMs: 1, keepTurns: 2 } } })
}

// Runs.

export async function lookUp(engine: AgentEngine, run: AgentRun): Promise<void> {
  const { signal } = new AbortController()
  is<Same<typeof run.turnId, string | undefined>>()
  const info = await engine.runInfo('r', { signal })
  is<Same<typeof info, RunInfo | null>>()
  const page = await engine.runs({
    session: 'main',
    status: 'running',
    limit: 3,
    cursor: 'c',
    signal,
  })
  is<Same<typeof page, Page<RunInfo>>>()
  is<Same<Awaited<ReturnType<typeof engine.resultOf>>, AgentResult>>()
  // @ts-expect-error no status
  await engine.runs({ status: 'done' })
  // @ts-expect-error a run has one turn
  run.turnId = 't'
}

// Output.

export async function outputs(engine: AgentEngine): Promise<void> {
  const zod = await engine.run('hi', { output: z.object({ n: z.coerce.number() }) }).result
  is<Same<typeof zod.output, { n: number } | undefined>>()
  const box = await engine.run('hi', { output: Type.Object({ n: Type.Number() }) }).result
  is<Same<typeof box.output, { n: number } | undefined>>()
  const json = await engine.run('hi', { output: { type: 'object' }, outputRetries: 2 }).result
  is<Same<typeof json.output, unknown>>()
  // @ts-expect-error a number of repairs
  engine.run('hi', { outputRetries: 'once' })
}

// Errors.

export function handle(error: unknown): string {
  if (error instanceof AgentEngineError) {
    const { code, field, message } = error
    is<Same<typeof error.error, AgentError | undefined>>()
    is<Same<typeof code, AgentEngineErrorCode>>()
    is<Same<typeof field, string | undefined>>()
    // @ts-expect-error no such code
    if (code === 'invalid_contxt') return ''
    return code === 'invalid_context' ? message : ''
  }
  return ''
}

export const unused = [idle, wrong, nameless, wrongMode, undescribed, frozen, withoutModel]

// Tools: the parameters and the result come from the schemas.

const zodInput = z.object({
  room: z.string(),
  n: z.string().transform(Number),
  digits: z.number().default(0),
})
const zodTool = tool({
  name: 'zod',
  description: '',
  inputSchema: zodInput,
  outputSchema: z.object({ celsius: z.number() }).transform(({ celsius }) => celsius),
  run: (params, call) => {
    is<Same<typeof params, { room: string; n: number; digits: number }>>()
    is<Same<typeof call, ToolCallInfo>>()
    return { celsius: params.n }
  },
})
is<Same<Parameters<typeof zodTool.run>[0], z.input<typeof zodInput>>>()
is<Same<ReturnType<typeof zodTool.run>, Promise<number>>>()
zodTool satisfies AgentTool
;({ ...smallest, tools: [zodTool] }) satisfies AssembledContext

tool({
  name: 'valibot',
  description: '',
  inputSchema: v.object({ room: v.string(), digits: v.optional(v.number(), 0) }),
  jsonSchema: { type: 'object' },
  run: (params) => is<Same<typeof params, { room: string; digits: number }>>(),
})
tool({
  name: 'typebox',
  description: '',
  inputSchema: Type.Object({ room: Type.String(), n: Type.Optional(Type.Number()) }),
  outputSchema: Type.Object({ celsius: Type.Number() }),
  run: async ({ room, n }) => {
    is<Same<typeof room, string>>()
    is<Same<typeof n, number | undefined>>()
    return room === '' ? new Error('no room') : { celsius: 1 }
  },
})
const plain = { type: 'object', properties: {} } as const
tool({
  name: 'json',
  description: '',
  inputSchema: plain,
  run: (params) => is<Same<typeof params, Record<string, unknown>>>(),
})
tool<{ room: string }>({
  name: 'json',
  description: '',
  inputSchema: plain,
  run: ({ room }) => is<Same<typeof room, string>>(),
})
const annotated = tool({
  name: 'json',
  description: '',
  inputSchema: plain,
  run: ({ room }: { room: string }) => room,
})
is<Same<Parameters<typeof annotated.run>[0], { room: string }>>()
tool({
  name: 'generator',
  description: '',
  inputSchema: zodInput,
  outputSchema: z.string(),
  async *run({ room }) {
    is<Same<typeof room, string>>()
    yield 1
    return room
  },
})
tool({ name: 'none', description: '', run: () => 'no parameters' })

// @ts-expect-error the result does not fit
tool({ name: 'a', description: '', outputSchema: z.string(), run: () => 5 })
// @ts-expect-error nor does that of TypeBox
tool({ name: 'a', description: '', outputSchema: Type.String(), run: () => 5 })
// @ts-expect-error `run` takes what the schema does not make
tool({
  name: 'a',
  description: '',
  inputSchema: zodInput,
  run: (params: { other: string }) => params,
})
// @ts-expect-error no description
tool({ name: 'a', run: () => '' })
// @ts-expect-error a field that does not exist
tool({ name: 'a', description: '', needsApproval: true, run: () => '' })
