// The hand-written part of the public types: the classes, and what holds functions. The data types below it are generated
// from the Rust types (`npm run types`); `index.d.ts` is both, and is never edited.

/** Where an answer goes: the host's own value, handed through in `stream_start`. */
export type DeliveryTarget = unknown

/** A permission of the host, kept in the ledger as it is. */
export type Permission = unknown

/** A message a context may hold: the engine's own, seed 000's flat form, or pi's. */
export type Message = MessageInput | AgentMessage | PiMessage

/** The plainest message. `content` is text, or blocks (the engine's, or pi's `text`, `image`, `thinking`, `toolCall`). */
export interface MessageInput {
  id?: string
  role: 'user' | 'assistant' | 'system' | 'tool'
  content: string | readonly (Block | PiContent)[]
  /** Unix milliseconds. */
  createdAt?: number
  thinking?: string
  toolCallId?: string
  toolName?: string
  isError?: boolean
  provider?: string
  api?: string
  model?: string
}

/** A content part of pi's messages (0.54 to 0.73). */
export type PiContent =
  | { type: 'text'; text: string; textSignature?: string }
  | { type: 'image'; data: string; mimeType: string }
  | { type: 'thinking'; thinking: string; thinkingSignature?: string; redacted?: boolean }
  | {
      type: 'toolCall'
      id: string
      name: string
      arguments: Record<string, unknown>
      thoughtSignature?: string
    }

/** A message of `@mariozechner/pi-ai`. */
export interface PiMessage {
  role: 'user' | 'assistant' | 'toolResult'
  content: string | readonly PiContent[]
  timestamp: number
  toolCallId?: string
  toolName?: string
  isError?: boolean
  provider?: string
  api?: string
  model?: string
}

/** What a tool gives back in pi's shape. `details` is the host's own: it never reaches the model. */
export interface AgentToolResult<Details = unknown> {
  content: readonly (
    | { type: 'text'; text: string }
    | { type: 'image'; data: string; mimeType: string }
  )[]
  details?: Details
  isError?: boolean
}

/** How a tool may run, and what may be done with it after a crash. */
export interface ToolPolicy {
  /** `parallel`: may run beside other parallel tools of the same message. Default `sequential`. */
  executionMode?: ExecutionMode
  /** Limit of one execution in milliseconds; the run's remaining time where absent. */
  timeoutMs?: number
  /** What may be done with a call whose outcome a crash left unknown. Default `unsafe`. */
  replay?: ReplayClass
  /** How often a failed execution is tried again; only with `replay: 'pure' | 'idempotent'`. */
  retries?: number
}

/** A tool in pi's `AgentTool` shape; pi's own tools work unchanged. A throw is told to the model. */
export interface PiTool extends ToolPolicy {
  name: string
  label?: string
  description: string
  /** JSON Schema; a TypeBox schema is one. */
  parameters: unknown
  execute(
    toolCallId: string,
    params: any,
    signal?: AbortSignal,
    onUpdate?: (partial: any) => void,
  ): unknown
}

/** A tool as a plain function: it may return a string, JSON, or an {@link AgentToolResult}. */
export interface PlainTool extends ToolPolicy {
  name: string
  label?: string
  description?: string
  /** JSON Schema; no parameters where absent. */
  parameters?: unknown
  run(params: any, call: ToolCallInfo): unknown
}

/** What a plain tool is told of its call. */
export interface ToolCallInfo {
  /** The provider's id of the call. */
  toolCallId: string
  /** The engine's ULID of the call: the same for every execution of it. */
  idempotencyKey: string
  /** Aborted when nobody waits for the answer any more. */
  signal: AbortSignal
  /** Tells `onToolUpdate` of progress. */
  onUpdate: (partial: unknown) => void
}

export type AgentTool = PiTool | PlainTool

/** Seed 000's context. What the seed calls required is required here. */
export interface AssembledContext {
  /** Layer 1. */
  systemPrompt: string
  /** Layer 2. Left out, the engine reads the session's history from its ledger. */
  history?: readonly Message[]
  /** Layer 3: a user message. */
  currentMessage: Message
  tools: readonly AgentTool[]
  model: string
  /** A name among the engine's providers. */
  provider: string
  thinkingConfig?: ThinkingConfig
  /** Cap of one answer in tokens. Default: 32,000, or what the model allows. */
  maxResponseTokens?: number
  /** 0 to 2; left out for models that refuse it. */
  temperature?: number
  tokenBudget?: TokenBudget
  /** Limit of the whole run in milliseconds. */
  timeoutMs: number
  abortSignal?: AbortSignal
  runId: string
  /** At most 512 bytes, no control characters. */
  sessionLabel: string
  /** The turn this one follows. Null or absent: the session's head. */
  parentTurnId?: string | null
  role: AgentRole
  toolsetName: string
  permissionsGranted: readonly Permission[]
  sourceEventId?: string
  workspacePath: string
  /** Handed through in `stream_start`. */
  target?: DeliveryTarget
  /** Calls of the model at most. Default 25. */
  maxIterations?: number
  /** Limit of one tool in milliseconds, where the tool names none. */
  toolTimeoutMs?: number
  /** False: a slow reader slows the socket instead of getting merged deltas. Default true. */
  coalesce?: boolean
  /** True: leaving the iterator does not abort the run. */
  detached?: boolean
}

/** Callbacks of a run, instead of or besides the iterator. A throw in one harms nothing; it is told as a process warning. */
export interface AgentEngineCallbacks {
  onPartialReply?: (payload: { text: string; messageId?: string }) => void
  onReasoningStream?: (payload: { text: string }) => void
  onToolResult?: (payload: {
    toolCallId: string
    toolName: string
    status: ToolStatus
    summary?: string
  }) => void
  onAgentEvent?: (event: { phase: AgentPhase; timestamp: number }) => void
  /** What a running tool passes to its `onUpdate`. */
  onToolUpdate?: (payload: { toolCallId: string; toolName: string; partial: unknown }) => void
}

/** Seed 000's handle of a running turn. */
export interface BrokerStreamHandle {
  onEvent(callback: (event: StreamEvent) => void): void
  abort(): void
  /** Injects a message at the next tool boundary. False when the run takes none any more: queue it then. */
  steer(message: string): boolean
  isStreaming(): boolean
  isCompacting(): boolean
}

/**
 * A running turn: an async iterator of its events that also has its result.
 *
 * @example
 * const run = engine.run(context)
 * for await (const event of run) if (event.type === 'token') process.stdout.write(event.text)
 * const { stopReason, usage } = await run.result
 */
export interface AgentRun extends AsyncIterableIterator<StreamEvent> {
  /** Resolves for every stop reason, after the commit and the terminal event. Rejects only for defects. */
  readonly result: Promise<AgentResult>
  readonly stream: BrokerStreamHandle
  /** Ends the run as aborted; the result comes within a quarter of a second, also when a tool ignores its signal. */
  abort(): void
  /** See {@link BrokerStreamHandle.steer}. */
  steer(message: string): boolean
  [Symbol.asyncIterator](): AgentRun
}

export interface AgentEngineOptions {
  /** Where turns are kept. Left out, nothing is. */
  ledger?: { path: string; synchronous?: 'full' | 'normal' }
  /** Left out: `anthropic` and `openai`, with their keys from `ANTHROPIC_API_KEY` and `OPENAI_API_KEY`. */
  providers?: Readonly<Record<string, ProviderOptions | ScriptedProvider>>
  authProfiles?: readonly AuthProfile[]
  models?: readonly ModelDeclaration[]
  /** Limit of one tool in milliseconds, where neither the tool nor the context names one. */
  toolTimeoutMs?: number
}

/**
 * Runs turns. One per process is enough; several may share a ledger file.
 *
 * @example
 * const engine = new AgentEngine({ ledger: { path: './agent.db' } })
 * const run = engine.run(context)
 * const result = await run.result
 * await engine.close()
 */
export declare class AgentEngine {
  /** @throws {AgentEngineError} `invalid_options`, or the ledger's refusal (`ledger_foreign`, `ledger_newer`, …). */
  constructor(options?: AgentEngineOptions)
  /** @throws {AgentEngineError} before anything is written or sent: `invalid_context`, `unknown_model`, … with `field`. */
  run(context: AssembledContext, callbacks?: AgentEngineCallbacks): AgentRun
  /** The ledger. @throws {AgentEngineError} `no_ledger` */
  readonly ledger: Ledger
  /** Takes no more runs, waits for the running ones to commit, closes the ledger. */
  close(): Promise<void>
}

/** The turns that were kept. Reads never wait for writes. */
export interface Ledger {
  /** Writes a finished turn for a broker that commits itself; one transaction. Resolves with the turn's id. */
  writeTurn(context: AssembledContext, result: AgentResultInput): Promise<string>
  session(label: string): Promise<SessionRow | null>
  /** The messages a next call would see, oldest first: of a session's label, or of a turn. */
  history(labelOrTurnId: string): Promise<HistoryMessage[]>
  turn(id: string): Promise<TurnRow | null>
  /** A new session that goes on from `turnId`. Default label: `fork-<ulid>`. */
  fork(turnId: string, label?: string): Promise<SessionRow>
  /** Read-only SQL. Never open the file with another SQLite in this process. */
  query(sql: string, params?: readonly (string | number | boolean | null)[]): Promise<QueryResult>
}

/** A result as a broker may have it: seed 000's fields; the engine's own are optional. */
export type AgentResultInput = Pick<AgentResult, 'stopReason' | 'durationMs' | 'usage'> &
  Partial<Omit<AgentResult, 'stopReason' | 'durationMs' | 'usage' | 'messages' | 'toolCalls'>> & {
    messages: readonly (Omit<AgentMessage, 'blocks'> & { blocks?: Block[] })[]
    toolCalls: readonly (Omit<AgentToolCall, 'callId' | 'messageId'> & {
      callId?: string
      messageId?: string
    })[]
  }

/** The stable codes of {@link AgentEngineError}. */
export type AgentEngineErrorCode =
  | 'invalid_options'
  | 'invalid_context'
  | 'invalid_tool'
  | 'invalid_label'
  | 'unknown_provider'
  | 'unknown_model'
  | 'engine_closed'
  | 'no_ledger'
  | 'ledger_foreign'
  | 'ledger_newer'
  | 'ledger_corrupt'
  | 'ledger_in_use'
  | 'ledger_closed'
  | 'storage_full'
  | 'storage_read_only'
  | 'storage_locked'
  | 'storage_constraint'
  | 'storage_io'
  | 'stale_head'
  | 'unknown_turn'
  | 'unknown_session'
  | 'invalid_query'
  | 'internal'

/** A call was refused before anything was written or sent, or the ledger failed. */
export declare class AgentEngineError extends Error {
  readonly name: 'AgentEngineError'
  readonly code: AgentEngineErrorCode
  /** The path of the field that is wrong: `history[3].content`. */
  readonly field?: string
}

/** A model that answers as a script says: for tests and demos, without key or network. */
export interface ScriptedProvider {
  /** Lets calls that wait at the gate `name` go on, now and later. */
  open(name: string): void
  /** What the engine asked, oldest first (the last 1,000 requests). */
  readonly requests: readonly ScriptedRequest[]
}

/**
 * Makes a scripted provider. Each call of the model takes one reply.
 *
 * @example
 * const engine = new AgentEngine({
 *   providers: { demo: scriptedProvider([{ text: 'Hello!' }]) },
 * })
 */
export declare function scriptedProvider(
  replies: readonly ScriptedReply[],
  options?: { repeat?: boolean },
): ScriptedProvider
