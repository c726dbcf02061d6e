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
  /**
   * Tells what became of a call that a crash left in doubt; only with `replay: 'reconcilable'`. A throw, or anything else
   * than these, is `unknown`: the model is then told that the outcome is unknown.
   */
  reconcile?(
    idempotencyKey: string,
    params: any,
    call: ToolCallInfo,
  ): Reconciled | Promise<Reconciled>
}

/** What a tool knows of a call in doubt: it had its effect (and this is its result), it had none (it is run), or neither. */
export type Reconciled =
  | { outcome: 'done'; result: unknown }
  | { outcome: 'not_done' }
  | { outcome: 'unknown' }

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
    /** What pi's tools do not take: the idempotency key among it. */
    call?: ToolCallInfo,
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
  /** Whether the model must call tools. Default: it decides. */
  toolChoice?: ToolChoice
  /** False: at most one call of a tool per answer, where the provider's API can be told. */
  parallelToolCalls?: boolean
  /** Holds the answer's text to JSON, where the provider's API can. */
  responseFormat?: ResponseFormat
  /** Texts the answer stops at. */
  stopSequences?: readonly string[]
  promptCache?: PromptCache
  /** What the provider keeps with the request; `user_id` goes where its API names the user. */
  metadata?: Readonly<Record<string, string>>
  /** Headers for this turn's requests, besides the provider's. */
  headers?: Readonly<Record<string, string>>
  /** Tools that the provider runs (web search, code execution), as its API writes them. */
  providerTools?: readonly Readonly<Record<string, unknown>>[]
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
  /** Looks at each request before it is sent; in place of the engine's. */
  onRequest?: OnRequest
  /** False: a slow reader slows the socket instead of getting merged deltas. Default true. */
  coalesce?: boolean
  /** True: leaving the iterator does not abort the run. */
  detached?: boolean
}

/**
 * Looks at a request before it is sent over HTTP, and may put another body in place of its own: what it returns is sent,
 * byte for byte as `JSON.stringify` writes it. Nothing returned sends the body as it was, also when it was changed in
 * place. Keys are in headers, which it never sees. A throw, or anything else returned, fails the run: `error.detail.code`
 * is `on_request_failed`, and nothing is sent.
 */
export type OnRequest = (
  request: OutgoingRequest,
) => object | undefined | void | Promise<object | undefined | void>

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
  /** Injects a message at the next tool boundary. False when the run takes none any more, or compacts: queue it then. */
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

export interface LedgerOptions {
  /** The file. Several processes may use it at once. */
  path: string
  /** `normal`: the last turns may be lost by a power cut, never by a crash. Default `full`. */
  synchronous?: 'full' | 'normal'
  /**
   * `full` (default): a turn is written as it goes on, so that it can be resumed after a crash, and one process at a time
   * runs a session. `final`: it is written once, when it has ended.
   */
  journal?: 'full' | 'final'
  /** How long a session stays with a process that gives no sign of life, in milliseconds. Default 15,000. */
  leaseMs?: number
}

/** What {@link AgentEngine.resume} takes: what is not kept, or may be given anew. The rest is as the turn began. */
export interface ResumeOptions {
  /** The tools, with their functions. Left out: none. */
  tools?: readonly AgentTool[]
  callbacks?: AgentEngineCallbacks
  /** Headers are not kept: they may be secret. */
  headers?: Readonly<Record<string, string>>
  /** Where the turn was begun with a history of the host's. Left out: the session's, from the ledger. */
  history?: readonly Message[]
  /** The time from now on. Left out: all of what the turn began with, anew. */
  timeoutMs?: number
  toolTimeoutMs?: number
  abortSignal?: AbortSignal
}

/** What became of an interrupted turn when the engine was opened. */
export type RecoveredTurn =
  | { turn: InterruptedTurn; outcome: 'resumed'; run: AgentRun }
  | { turn: InterruptedTurn; outcome: 'discarded' | 'left' }
  | { turn: InterruptedTurn; outcome: 'failed'; error: unknown }

export interface AgentEngineOptions {
  /** Where turns are kept. Left out, nothing is. */
  ledger?: LedgerOptions
  /**
   * What becomes of turns that a crash has interrupted, when the engine is opened. `list` (default): nothing, see
   * {@link AgentEngine.recover}. `discard`: they are closed. `resume`: they go on with what `toolsFor` gives; those whose
   * session has gone on without them are closed.
   */
  recovery?: 'list' | 'resume' | 'discard'
  /** The tools of a turn that is resumed at open; null leaves it as it is. */
  toolsFor?: (
    turn: InterruptedTurn,
  ) => ResumeOptions | null | undefined | Promise<ResumeOptions | null | undefined>
  /**
   * Left out: `anthropic` and `openai`, with their keys from `ANTHROPIC_API_KEY` and `OPENAI_API_KEY`. A known service needs its name
   * only: `{ groq: {}, ollama: {} }`; docs/services.md lists them.
   */
  providers?: Readonly<Record<string, ProviderOptions | ScriptedProvider>>
  authProfiles?: readonly AuthProfile[]
  models?: readonly ModelDeclaration[]
  /** Limit of one tool in milliseconds, where neither the tool nor the context names one. */
  toolTimeoutMs?: number
  /** Looks at each request before it is sent, where the context names no `onRequest` of its own. */
  onRequest?: OnRequest
  /** How room is made in a full window. `false`: never; what does not fit ends with `context_overflow`. */
  compaction?: CompactionOptions | false
  /** When a run is warned of its window, or refused for it. */
  contextGuard?: ContextGuard
}

/** A way to make room. `tool_result_truncation` cuts results short in memory only; the ledger keeps everything always. */
export type CompactionStrategy =
  | 'summary'
  | 'sliding_window'
  | 'hard_clear'
  | 'tool_result_truncation'

/**
 * How room is made in a full window: before a call that would not fit, and after one that the provider has refused.
 * Sessions in the ledger are compacted; of a `history` that the context gives, nothing is, only the running turn itself.
 */
export interface CompactionOptions {
  /** Tried in order, until there is room. Default `['summary']`. */
  strategies?: readonly CompactionStrategy[]
  /** The summariser's model; the run's by default. */
  model?: string
  /** The summariser's provider; needs `model`. */
  provider?: string
  /** What the summariser should mind. */
  instructions?: string
  /** Compactions after a refused prompt, at most 3. Default 1. */
  maxOverflowRecoveries?: number
  /** Limit of one compaction in milliseconds. Default 300,000. */
  timeoutMs?: number
  /** `myclaw`: the last 10 messages stay, and the summary has no sections. */
  preset?: 'myclaw'
}

/** Seed 001's guard, in tokens. */
export interface ContextGuard {
  /** The share of the window from which `result.warnings` says so. Default 0.8. */
  warnThreshold?: number
  /** The most tokens a prompt may have, whatever the window. */
  hardLimit?: number
  /** The least room that must be left for the answer. Default 0. */
  minAvailable?: number
  /** Runs are refused below this window. Default 16,000. */
  minWindow?: number
}

/** What {@link AgentEngine.compact} takes. */
export interface CompactOptions {
  /** What the summariser should mind; in place of the engine's. */
  instructions?: string
  /** The summariser's model. Default: the engine's option, or that of the session's last answer. */
  model?: string
  provider?: string
  /** Ends it; nothing is written then. */
  signal?: AbortSignal
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
  /** What is known of models: built in, or declared in the options. By provider and name. */
  models(filter?: ModelFilter): ModelInfo[]
  /**
   * How many tokens the first call of a run of `context` would send: system prompt, tools, history (the session's in the
   * ledger, where the context names none) and current message. An estimate, unless `exact` is asked for and the provider's
   * API can count: then it is asked. Nothing is written, and no run of the session is waited for.
   *
   * Rejects with an {@link AgentEngineError}: as `run` throws, or `provider_failed` with the provider's `error`.
   *
   * @example
   * const { tokens, promptLimit } = await engine.countTokens(context)
   * if (tokens > promptLimit * 0.8) await compact()
   */
  countTokens(context: AssembledContext, options?: { exact?: boolean }): Promise<TokenCount>
  /**
   * Compacts a session between its turns: all but its newest turns become a summary. Null where there is nothing to
   * summarise. Rejects with the signal's reason when it came first, and with `compaction_failed` when no summary would do;
   * the history is as it was then.
   *
   * @example
   * const done = await engine.compact('agent:main:main', { instructions: 'Keep every invoice number.' })
   * if (done) console.log(`${done.tokensBefore} -> ${done.tokensAfter}`)
   */
  compact(label: string, options?: CompactOptions): Promise<CompactionResult | null>
  /** The ledger. @throws {AgentEngineError} `no_ledger` */
  readonly ledger: Ledger
  /**
   * The turns that were begun, have not ended and run nowhere, oldest first: their process is gone or lost its lease.
   *
   * @example
   * for (const turn of await engine.recover()) {
   *   const run = await engine.resume(turn.turnId, { tools })
   *   console.log((await run.result).stopReason)
   * }
   */
  recover(): Promise<InterruptedTurn[]>
  /**
   * Goes on with an interrupted turn from its last commit point, in the same turn. Tools that finished are not run again.
   * Calls whose outcome is in doubt: `pure` and `idempotent` ones run again with the same idempotency key, `reconcilable`
   * ones are asked through `reconcile`, `unsafe` ones are told the model as `outcome_unknown`.
   *
   * @throws {AgentEngineError} `unknown_turn` for a turn that is not interrupted; what {@link AgentEngine.run} throws.
   */
  resume(turnId: string, options?: ResumeOptions): Promise<AgentRun>
  /**
   * Closes an interrupted turn as failed with the code `interrupted`. What it produced stays.
   *
   * @throws {AgentEngineError} `unknown_turn` for a turn that is not interrupted.
   */
  discard(turnId: string): Promise<void>
  /** What `recovery` did when the engine was opened; empty for `list`. */
  readonly recovered: Promise<RecoveredTurn[]>
  /** Takes no more runs, waits for the running ones to commit, closes the connections and the ledger. */
  close(): Promise<void>
}

/** What {@link Ledger.export} takes. */
export interface ExportOptions {
  /** Default `ledger`. */
  format?: LedgerFormat
  /** The label of the session. `pi` and `myclaw` need one; left out with `ledger`, all are written. */
  session?: string
}

/** What {@link Ledger.import} takes. */
export interface ImportOptions {
  /** Default `ledger`. */
  format?: LedgerFormat
  /** With `pi` and `myclaw`: the label it gets. Default `pi:<its id>`, `myclaw:<the name of the file>`. */
  session?: string
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
  /**
   * Takes the session's last compaction back: its pointer goes to the turn before it, so that every message is in the
   * context again. Turns that came after it stay in the ledger, beside the thread. Null where there is none to take back.
   */
  uncompact(label: string): Promise<SessionRow | null>
  /** Read-only SQL. Never open the file with another SQLite in this process. */
  query(sql: string, params?: readonly (string | number | boolean | null)[]): Promise<QueryResult>
  /**
   * Reads the whole file and says what of it does not hold: SQLite's integrity, the checksum of every message, and the
   * invariants that {@link LedgerCheck} lists. Damage is in the report, not an error. Runs go on meanwhile.
   *
   * @example
   * const { ok, problems } = await engine.ledger.verify()
   * if (!ok) for (const { check, subject, message } of problems) console.error(check, subject, message)
   */
  verify(): Promise<LedgerReport>
  /**
   * Copies the ledger as it stands at one moment to a new file, which only its owner can read. Runs commit meanwhile.
   * Rejects with `storage_exists` (`field` is `path`) where there is a file, and never leaves a part of one.
   *
   * @example
   * const { bytes } = await engine.ledger.backup(`./backups/${Date.now()}.db`)
   */
  backup(path: string): Promise<LedgerBackup>
  /**
   * What is in the ledger, and how large it is.
   *
   * @example
   * const { turns, usage, fileBytes } = await engine.ledger.stats()
   */
  stats(): Promise<LedgerStats>
  /**
   * Rewrites the file without its free pages. Commits wait meanwhile, and the disk needs room for a second copy. Rejects
   * with `storage_locked` while another process writes, and with `storage_full`; the ledger is as it was then.
   *
   * @example
   * const { bytesBefore, bytesAfter } = await engine.ledger.vacuum()
   */
  vacuum(): Promise<LedgerVacuum>
  /**
   * Writes sessions, as they stand at one moment, to a new file that only its owner can read. Without options: all of them
   * in our own JSONL, which {@link Ledger.import} takes back as they were (docs/jsonl.md). `pi` and `myclaw` hold one session.
   * Turns that still run are not in it. Rejects with `storage_exists` (`field` is `path`) and `unknown_session`.
   *
   * @example
   * const { turns, problems } = await engine.ledger.export('./ledger.jsonl')
   * await engine.ledger.export('./main.jsonl', { format: 'pi', session: 'agent:main:main' })
   */
  export(path: string, options?: ExportOptions): Promise<LedgerExport>
  /**
   * Takes in what a file holds. A damaged line is in `problems` with its number, and everything else is imported. Turns that
   * are there already are skipped, and a session that is there is never moved. Rejects with `invalid_import` (`field` is
   * `path`) for what is no file of that format.
   *
   * @example
   * const { sessions, problems } = await engine.ledger.import('./old.jsonl', { format: 'pi' })
   * for (const { line, message } of problems) console.warn(line, message)
   */
  import(path: string, options?: ImportOptions): Promise<LedgerImport>
}

/**
 * Reads what can still be read of a damaged ledger into a fresh one at `fresh`, page by page, also where SQLite refuses the
 * file. The damaged one is never written to. Rejects with an {@link AgentEngineError}: `storage_exists` (`field` is `fresh`),
 * `invalid_import` (`field` is `damaged`) where nothing of a ledger is in it, `ledger_in_use` while an engine has it open.
 *
 * @example
 * const { turns, problems } = await salvageLedger('./agent.db', './agent.saved.db')
 * for (const { code, message } of problems) console.warn(code, message)
 */
export declare function salvageLedger(damaged: string, fresh: string): Promise<LedgerSalvage>

/** A result as a broker may have it: seed 000's fields; the engine's own are optional. */
export type AgentResultInput = Pick<AgentResult, 'stopReason' | 'durationMs' | 'usage'> &
  Partial<
    Omit<
      AgentResult,
      'stopReason' | 'durationMs' | 'usage' | 'messages' | 'toolCalls' | 'compaction'
    >
  > & {
    /** Without `compactionType`, a summary. */
    compaction?: Omit<CompactionResult, 'compactionType'> & Partial<CompactionResult>
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
  | 'storage_exists'
  | 'invalid_import'
  | 'stale_head'
  | 'stale_writer'
  | 'unknown_turn'
  | 'unknown_session'
  | 'invalid_query'
  | 'provider_failed'
  | 'compaction_failed'
  | 'internal'

/** A call was refused before anything was written or sent, or the ledger failed. */
export declare class AgentEngineError extends Error {
  readonly name: 'AgentEngineError'
  readonly code: AgentEngineErrorCode
  /** The path of the field that is wrong: `history[3].content`. */
  readonly field?: string
  /** With `provider_failed`: what the provider, or the way to it, said. */
  readonly error?: AgentError
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
