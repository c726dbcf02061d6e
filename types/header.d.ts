// The hand-written part of the public types: the classes, and what holds functions. The data types below it are generated
// from the Rust types (`npm run types`); `index.d.ts` is both, and is never edited.

/** Where an answer is delivered: a value of the host, passed on unchanged in `stream_start`. */
export type DeliveryTarget = unknown

/** A permission of the host, stored in the ledger unchanged. */
export type Permission = unknown

/** A message of a context: in the engine's form, the broker interface's flat form, or pi's. */
export type Message = MessageInput | AgentMessage | PiMessage

/** The simplest message. `content` is text, or blocks (the engine's, or pi's `text`, `image`, `thinking`, `toolCall`). */
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

/** The result of a tool in pi's shape. `details` is for the host: it is never sent to the model. */
export interface AgentToolResult<Details = unknown> {
  content: readonly (
    | { type: 'text'; text: string }
    | { type: 'image'; data: string; mimeType: string }
  )[]
  details?: Details
  isError?: boolean
}

/** How a tool may run, and how its calls are handled after a crash. */
export interface ToolPolicy {
  /** `parallel`: may run at the same time as other parallel tools of the same message. Default `sequential`. */
  executionMode?: ExecutionMode
  /** Limit of one execution in milliseconds; the run's remaining time where absent. */
  timeoutMs?: number
  /**
   * The most characters of a result that the model reads, 200 at least. Default: 30 % of the model's window, and 400,000. A longer one is cut in
   * its middle; in a run with the coding tool `read` the cut names a file with the whole.
   */
  maxResultChars?: number
  /** How a call is handled whose outcome is unknown after a crash. Default `unsafe`. */
  replay?: ReplayClass
  /** How often a failed execution is retried; only with `replay: 'pure' | 'idempotent'`. */
  retries?: number
  /** When to use it and when not, a line each: in the system prompts that a broker builds. */
  guidelines?: readonly string[]
  /**
   * `ask`: each call waits for an approval, unless `permissionsGranted` has an entry that covers it or `beforeToolCall` answers
   * `allow`. Default `allow`.
   */
  permission?: ToolPermission
  /**
   * Reports the outcome of a call that a crash left in doubt; only with `replay: 'reconcilable'`. A throw, or any other
   * value, counts as `unknown`: the call's result then states that its outcome is unknown.
   */
  reconcile?(
    idempotencyKey: string,
    params: any,
    call: ToolCallInfo,
  ): Reconciled | Promise<Reconciled>
}

/**
 * The outcome of a call in doubt: `done` (it had its effect, and this is its result), `not_done` (it had none; it is run), or
 * `unknown`.
 */
export type Reconciled =
  | { outcome: 'done'; result: unknown }
  | { outcome: 'not_done' }
  | { outcome: 'unknown' }

/** A tool in pi's `AgentTool` shape; pi's own tools work unchanged. A throw becomes a result that the model reads. */
export interface PiTool extends ToolPolicy {
  name: string
  label?: string
  description: string
  /** JSON Schema; a TypeBox schema is one. Patterns may contain look-around; the check of a value is bounded in steps. */
  parameters: unknown
  execute(
    toolCallId: string,
    params: any,
    signal?: AbortSignal,
    onUpdate?: (partial: any) => void,
    /** An extension of pi's signature, with the idempotency key. */
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

/**
 * A tool that runs elsewhere: a call waits until {@link AgentEngine.provideToolResult} gives its result, in any process and also
 * after a restart. Needs a ledger.
 */
export interface ExternalTool extends ToolPolicy {
  name: string
  label?: string
  description?: string
  /** JSON Schema; no parameters where absent. */
  parameters?: unknown
  run?: undefined
  execute?: undefined
}

/**
 * A schema of a library that implements [Standard Schema](https://standardschema.dev): Zod 4, Valibot, ArkType. `Input` is what it
 * takes, `Output` what it makes of it.
 */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly '~standard': {
    readonly version: 1
    readonly vendor: string
    readonly validate: (value: unknown) => StandardResult<Output> | Promise<StandardResult<Output>>
    readonly types?: { readonly input: Input; readonly output: Output } | undefined
  }
}

/** What a {@link StandardSchema} makes of a value. */
export type StandardResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | {
      readonly issues: readonly {
        readonly message: string
        /** Where: keys, or objects with a key. */
        readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined
      }[]
    }

/** A schema of TypeBox, whose JSON is JSON Schema. */
export interface TypeBoxSchema {
  readonly static: unknown
  readonly params: readonly unknown[]
}

/** JSON Schema, of which no type of a value is known. */
export interface JsonSchema {
  readonly [keyword: string]: any
  readonly '~standard'?: never
  readonly static?: never
}

/** What `output` takes. */
export type OutputSchema = StandardSchema<any, any> | TypeBoxSchema | JsonSchema

/** What a schema takes: the arguments as the model writes them, a result as `run` returns it. */
export type SchemaInput<Schema> = 0 extends 1 & Schema
  ? any
  : Schema extends { readonly '~standard': { readonly types?: infer Types } }
    ? NonNullable<Types> extends { readonly input: infer Input }
      ? Input
      : unknown
    : Schema extends { readonly static: infer Static }
      ? Static
      : unknown

/** What a schema makes of it, with its defaults and transforms. */
export type SchemaOutput<Schema> = 0 extends 1 & Schema
  ? any
  : Schema extends { readonly '~standard': { readonly types?: infer Types } }
    ? NonNullable<Types> extends { readonly output: infer Output }
      ? Output
      : unknown
    : Schema extends { readonly static: infer Static }
      ? Static
      : unknown

/**
 * What a tool's function returns: its result, or an `Error` for a failure. The yields of a generator are progress, as `onUpdate`
 * is; it ends with its result. After an abort or a time limit it is closed: its `finally` runs.
 */
export type ToolReturn<Result> =
  | Result
  | Error
  | Promise<Result | Error>
  | Generator<unknown, Result | Error, any>
  | AsyncGenerator<unknown, Result | Error, any>

/** What {@link tool} takes, besides the schemas. */
export interface ToolFields<Params, Result> extends Omit<ToolPolicy, 'reconcile'> {
  /** `[A-Za-z0-9_-]`, at most 64 characters, unique in a context. */
  name: string
  label?: string
  /** What it does and when to call it; for the model. */
  description: string
  /** `params` is what `inputSchema` makes of the model's arguments. A throw is a failure that the model reads. */
  run(params: Params, call: ToolCallInfo): ToolReturn<Result>
  /** See {@link ToolPolicy.reconcile}. */
  reconcile?(
    idempotencyKey: string,
    params: Params,
    call: ToolCallInfo,
  ): Reconciled | Promise<Reconciled>
}

/** A tool that {@link tool} made: for `tools` of a context. */
export interface TypedTool<Params = any, Result = unknown> extends PlainTool {
  description: string
  /** The JSON Schema for the model. */
  parameters: unknown
  /** Validates the arguments, runs the tool, and validates its result. Rejects where one of them fails. */
  run(params: Params, call: ToolCallInfo): Promise<Result>
}

/**
 * Makes a tool whose types come from its schemas: TypeBox, or a library with Standard Schema (Zod 4, Valibot, ArkType). The model gets
 * the JSON Schema; the library's own validation runs before `run`, with its defaults, transforms and refinements, and what it
 * refuses is a failure that the model reads.
 *
 * @example
 * const thermometer = tool({
 *   name: 'read_thermometer',
 *   description: 'The temperature of a room in degrees Celsius.',
 *   inputSchema: z.object({ room: z.string(), digits: z.number().int().default(0) }),
 *   outputSchema: z.object({ celsius: z.number() }),
 *   run: ({ room, digits }) => ({ celsius: Number(measure(room).toFixed(digits)) }),
 * })
 *
 * @throws {AgentEngineError} `invalid_tool`: an unknown field, a missing one, a schema that has no JSON Schema.
 */
export declare function tool<
  Schema extends StandardSchema<any, any> | TypeBoxSchema,
  Output extends StandardSchema<any, any> | TypeBoxSchema | JsonSchema = JsonSchema,
>(
  definition: ToolFields<SchemaOutput<Schema>, SchemaInput<Output>> & {
    inputSchema: Schema
    /**
     * The JSON Schema for the model, where the library cannot write it (Valibot without `@valibot/to-json-schema`), or should not. The
     * engine validates with it first, then the library validates with `inputSchema`.
     */
    jsonSchema?: JsonSchema
    /** The result is validated with it; one that does not fit is a failed call. */
    outputSchema?: Output
  },
): TypedTool<SchemaInput<Schema>, SchemaOutput<Output>>
/**
 * Makes a tool with JSON Schema, or without parameters. The type of its parameters is the one that `run` writes, or the type
 * argument; else a record.
 *
 * @example
 * const heating = tool<{ room: string; on: boolean }>({
 *   name: 'set_heating',
 *   description: 'Turns the heating of a room on or off.',
 *   inputSchema: {
 *     type: 'object',
 *     properties: { room: { type: 'string' }, on: { type: 'boolean' } },
 *     required: ['room', 'on'],
 *   },
 *   async *run({ room, on }) {
 *     yield `turning the valve in the ${room}`
 *     return { room, on }
 *   },
 * })
 */
export declare function tool<
  Params = Record<string, unknown>,
  Output extends StandardSchema<any, any> | TypeBoxSchema | JsonSchema = JsonSchema,
>(
  definition: ToolFields<Params, SchemaInput<Output>> & {
    inputSchema?: JsonSchema
    outputSchema?: Output
  },
): TypedTool<Params, SchemaOutput<Output>>

/** The facts of a call that a plain tool receives. */
export interface ToolCallInfo {
  runId: string
  /** The turn in the ledger. */
  turnId: string
  /** The label of the session, an alias resolved. */
  sessionLabel: string
  /** The assistant message with the call. */
  messageId: string
  /** The provider's id of the call. */
  toolCallId: string
  /** The engine's ULID of the call: the same for every execution of it. */
  idempotencyKey: string
  /** Aborted when the result is no longer needed. */
  signal: AbortSignal
  /** Reports progress to `onToolUpdate`. */
  onUpdate: (partial: unknown) => void
}

export type AgentTool = PiTool | PlainTool | ExternalTool

/** The names of the tools of {@link createCodingTools}. */
export type CodingToolName =
  | 'read'
  | 'edit'
  | 'write'
  | 'ls'
  | 'grep'
  | 'find'
  | 'apply_patch'
  | 'bash'

/** Options of {@link createCodingTools}. Relative paths are relative to the process's directory. */
export interface CodingToolsOptions {
  /** Directories that `read`, `ls`, `grep` and `find` may use too, by their absolute paths. */
  readRoots?: readonly string[]
  /** Files that no tool reads or writes, each with SQLite's files beside it: give the path of a ledger that is in the workspace. */
  protect?: readonly string[]
  /** Only these tools; all of them where absent. */
  tools?: readonly CodingToolName[]
  /** How `bash` runs commands. */
  bash?: BashOptions
}

/** How the tool `bash` of {@link createCodingTools} runs commands. */
export interface BashOptions {
  /**
   * Whether commands are restricted: they read system directories, `readRoots` and the workspace, and write the workspace and a temporary
   * directory of their own. `preferred` (default) as far as the kernel can, `required` or not at all, or `off`.
   */
  sandbox?: 'preferred' | 'required' | 'off'
  /** Allows TCP. Default: false. */
  network?: boolean
  /** The time of a command that names none, in milliseconds. Default: 600,000. */
  timeoutMs?: number
  /**
   * Variables of the commands' environment, beside PATH, LANG, TERM and TZ of the process. `HOME` is that of the process without a sandbox,
   * and else a directory of its own.
   */
  env?: Readonly<Record<string, string>>
  /** What happens to the processes that a command leaves running when it ends. Default: `end`. */
  background?: 'end' | 'keep'
  /** What each process of a command may use, and how many there may be. Default: the limits of this process; a core is never written. */
  limits?: {
    /** Seconds of processor time. */
    cpuSeconds?: number
    /** The longest file that it writes. */
    fileBytes?: number
    /** Its address space. */
    memoryBytes?: number
    openFiles?: number
    /** Processes that a command runs at once, counted ten times a second: a command that has more is ended. Default: 1,024. */
    processes?: number
  }
}

/** What this machine enforces, from `engine.capabilities()`. */
export interface EngineCapabilities {
  /** {@link createCodingTools} works. */
  codingTools: boolean
  /** What the sandbox of `bash` restricts; `landlock` is the kernel's version of it, 0 where there is none. */
  sandbox: {
    landlock: number
    files: boolean
    tcp: boolean
    /** Signals to processes that the command did not start. */
    signals: boolean
    unixSockets: boolean
    udp: boolean
  }
  /** How processes are found that a command leaves: by a variable of their environment, which they can remove; or not at all. */
  descendants: 'environment' | 'none'
  /** What `bash.limits` bounds: each process, and how many a command runs at once. What all of them use together needs a container. */
  limits: { perProcess: boolean; processes: boolean; together: boolean }
}

/** What a tool of {@link createCodingTools} returns. `details` is for the host: a diff, or what was cut. */
export interface CodingToolResult {
  content: ({ type: 'text'; text: string } | { type: 'image'; data: string; mimeType: string })[]
  details: any
}

/**
 * A tool of {@link createCodingTools}, in pi's `AgentTool` shape. `execute` works outside a run too: it returns what the model reads
 * and rejects with an `Error` whose message the model reads.
 */
export interface CodingTool extends PiTool {
  name: CodingToolName
  label: string
  /** A JSON Schema. */
  parameters: any
  execute(
    toolCallId: string,
    params: any,
    signal?: AbortSignal,
    onUpdate?: (partial: any) => void,
  ): Promise<CodingToolResult>
}

/**
 * The tools `read`, `edit`, `write`, `ls`, `grep`, `find`, `apply_patch` and `bash` for a directory, with pi's names, parameters and results. Files are opened beneath a handle
 * of the directory, so that no path, no symbolic link and no race leads out of it. Linux only (5.6 or newer): elsewhere it throws.
 *
 * @example
 * const tools = createCodingTools('/srv/project', { protect: ['/srv/project/agent.db'] })
 * await engine.run('Which port does the server use?', { tools, model: 'anthropic/claude-haiku-4-5' }).result
 *
 * @throws {@link AgentEngineError} `invalid_options`: a directory cannot be opened, or an option is unknown.
 */
export declare function createCodingTools(
  workspace: string,
  options?: CodingToolsOptions,
): CodingTool[]

/** Options of {@link createMemoryTools}. */
export interface MemoryToolsOptions {
  /** Also the tools that change what is remembered: `remember` and `forget`. Default false. */
  write?: boolean
}

/**
 * The tools with which a model uses {@link AgentEngine.memory}: `recall`, and with `write` also `remember` and `forget`. Each sees what the
 * session of its call sees, stores where that session's texts belong, and forgets nothing else.
 *
 * @example
 * const tools = createMemoryTools(engine, { write: true })
 * await engine.run('What is my favourite tea?', { session: 'main', tools }).result
 *
 * @throws {@link AgentEngineError} `no_memory` for an engine without the option `memory`.
 */
export declare function createMemoryTools(
  engine: AgentEngine,
  options?: MemoryToolsOptions,
): AgentTool[]

/** A part of a context. Each layer may have several. */
export interface ContextLayer {
  name: LayerName
  /** Where it came from: the path of a file, the channel of an event, the name of a memory. */
  source: string
  text: string
  /** The estimated tokens of the text. */
  tokens: number
  /** The hash of the text: two layers with one hash have the same text. */
  hash: string
  /** What the memory has found for it; on its layer alone. */
  recalled?: RecalledLayer
}

/** The broker interface's context. A field that it requires is required here. */
export interface AssembledContext extends RunHooks {
  /** Layer 1. */
  systemPrompt: string
  /** Layer 2. Left out, the engine reads the session's history from its ledger. */
  history?: readonly Message[]
  /** Layer 3: a user message; with a `currentTurn` also the result of a tool. */
  currentMessage: Message
  /**
   * For a host that runs the tools itself: the messages of this turn before `currentMessage`, which begin with the model's answer. The run
   * continues the turn. Needs an engine without a ledger.
   */
  currentTurn?: readonly Message[]
  tools: readonly AgentTool[]
  model: string
  /** The name of one of the engine's providers. */
  provider: string
  /**
   * The models to use, in order, when this one fails: by id, or with their provider. A plain id is a model of the run's
   * provider, else of the first provider that has it. Default: the engine's `failover.fallbacks`.
   */
  fallbacks?: readonly (string | ModelName)[]
  /** The only profile of `provider` that is used: it is never rotated. */
  authProfileId?: string
  thinkingConfig?: ThinkingConfig
  /** Whether the model must call tools. Default: the model decides. */
  toolChoice?: ToolChoice
  /** False: at most one call of a tool per answer, where the provider's API has such a setting. */
  parallelToolCalls?: boolean
  /**
   * Restricts the answer's text to JSON, where the provider's API can. With a `json_schema` the answer is validated and repaired as with
   * `output`, and `result.output` is its value.
   */
  responseFormat?: ResponseFormat
  /**
   * The answer is JSON of this schema: JSON Schema, TypeBox, or a library's with Standard Schema (Zod 4, Valibot, ArkType), which then
   * validates too. It sets the `responseFormat`; `result.output` is the parsed and validated value. A library's schema without JSON Schema of
   * its own goes beside a `responseFormat` that has it.
   *
   * @example
   * const { output } = await engine.run('Which city is it?', { output: z.object({ city: z.string() }) }).result
   * console.log(output?.city)
   */
  output?: OutputSchema
  /**
   * How often the model repairs an answer that does not fit: 0 to 10, default 1. The request for the repair is a message of the same
   * turn. Then the run ends with `error.detail.kind` `output_invalid`; the last answer is its text.
   */
  outputRetries?: number
  /** Texts at which the answer ends. */
  stopSequences?: readonly string[]
  promptCache?: PromptCache
  /**
   * The host's own data, stored with the turn and never sent to a provider: a JSON object of at most 16 KiB. Filters and reports of the
   * ledger find turns by its keys.
   */
  metadata?: Readonly<Record<string, unknown>>
  /**
   * What the context was put together from, stored with the current message (`messages.context_json`). Their texts are not stored:
   * they are in the system prompt and in the message.
   */
  layers?: readonly (Omit<ContextLayer, 'text'> & { readonly text?: string })[]
  /** Metadata that the provider stores with the request; `user_id` is sent in the API's field for the user. */
  requestMetadata?: Readonly<Record<string, string>>
  /** Headers of this turn's requests, in addition to the provider's. */
  headers?: Readonly<Record<string, string>>
  /** Tools that the provider runs (web search, code execution), as its API writes them. */
  providerTools?: readonly Readonly<Record<string, unknown>>[]
  /** Cap of one answer in tokens. Default: 32,000, or the model's limit if that is lower. */
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
  /** The parent of this turn. Null or absent: the session's head. */
  parentTurnId?: string | null
  role: AgentRole
  toolsetName: string
  permissionsGranted: readonly Permission[]
  sourceEventId?: string
  workspacePath: string
  /** Passed on unchanged in `stream_start`. */
  target?: DeliveryTarget
  /** The maximum number of calls of the model. Default 25. */
  maxIterations?: number
  /** Limit of one tool in milliseconds, where the tool has none. */
  toolTimeoutMs?: number
  /** Inspects each request before it is sent; replaces the engine's `onRequest`. */
  onRequest?: OnRequest
  /** False: a slow reader delays the socket, and receives no merged deltas. Default true. */
  coalesce?: boolean
  /** True: leaving the iterator does not abort the run. */
  detached?: boolean
  /**
   * What happens where the ledger has a run with this `runId`. `refuse` (default): nothing is sent or written, and `result` and the
   * iterator reject with `duplicate_run`. `attach`: it is the same submit again, if the message and the session are the same. The run then has
   * the events and the result of the other one, wherever that runs or ran, and the model is not called. Aborting it aborts the other one, leaving
   * its iterator does not. Needs the journal `full`.
   *
   * @example
   * const { text } = await engine.run(message, { runId: request.id, onDuplicateRun: 'attach' }).result
   */
  onDuplicateRun?: 'refuse' | 'attach'
  /** Which events the run delivers; replaces the engine's `events`. All are numbered and stored. */
  events?: EventsOption
  /** How many tools with `executionMode: 'parallel'` run at once. Default 8. */
  maxParallelTools?: number
  /**
   * Decides before the first call of the model whether tools run first, or the user is asked. `heuristic`: a message that begins with
   * `tool:name.action` or `app/name/action` runs that tool with what follows. Default: the engine's `planner`, else none. Its decisions are in
   * `result.plans`.
   */
  planner?: Planner
  /** What the run may do at most: its tools, their calls, tokens. Holds together with the engine's `policy`. */
  policy?: RunPolicy | readonly RunPolicy[]
  /**
   * What becomes of the run while a call waits for a decision. `wait` (default): its result stays pending, and the run continues after
   * the decision. `return`: the result has the stop reason `tool_use` and `pendingApprovals`; resume the turn after the decision.
   */
  onApproval?: 'wait' | 'return'
  /** After how many milliseconds an approval expires, which denies the call. Default: never. */
  approvalExpiresMs?: number
  /**
   * Which tools of the engine's MCP servers the run has: all (`true`, the default), none (`false`), or those of a list. An entry is
   * a server (`github`), a tool (`github.create_issue` or `github__create_issue`), or either with `*` for any text.
   */
  mcp?: boolean | readonly string[]
}

/** A tool call as the hooks of a run receive it. */
export interface ToolCallRequest {
  toolName: string
  /** The arguments: parsed, coerced and valid. */
  params: Record<string, unknown>
  /** The provider's id of the call. */
  toolCallId: string
  /** The engine's id of the call: `callId` elsewhere. */
  idempotencyKey: string
  runId: string
  turnId: string
  sessionLabel: string
  messageId: string
  /** Aborted when the run is, and when nobody waits for the hook any more. */
  signal: AbortSignal
}

/**
 * What `beforeToolCall` decides. `deny` is a failure that the model reads, with the reason where there is one. Other `params` are
 * validated as those of the model were.
 */
export type ToolVerdict =
  | 'allow'
  | 'deny'
  | 'ask'
  | { deny: string }
  | { params: Record<string, unknown> }
  | ToolQuestion

/** A call that waits for an approval, as `'ask'` does. */
export interface ToolQuestion {
  ask: true
  /** The arguments to approve, if others than those of the model. They are validated first. */
  params?: Record<string, unknown>
  /** What the person who decides reads. */
  question?: string
  /** After how many milliseconds the approval expires, which denies the call. Default: the context's `approvalExpiresMs`. */
  expiresMs?: number
}

/** Which approvals {@link AgentEngine.approvals} lists. */
export interface ApprovalFilter {
  /** Those of a session, by its label or an alias. */
  session?: string
  runId?: string
  /** Default: all. */
  status?: ApprovalStatus
  /** The `next` of the previous page: an approval's id. */
  after?: string
  /** The limit of approvals: 1 to 1,000. Default 100. */
  limit?: number
}

/** Options of {@link AgentEngine.approve}. */
export interface ApproveOptions {
  /** The arguments with which the call runs, if others than those that were requested. They are validated. */
  params?: Record<string, unknown>
  /** Who decides. */
  by?: string
}

/** Options of {@link AgentEngine.deny}. */
export interface DenyOptions {
  /** What the model reads. */
  reason?: string
  /** Who decides. */
  by?: string
}

/** Options of {@link AgentEngine.provideToolResult}. */
export interface ProvideOptions {
  /** Who provides it. */
  by?: string
}

/** The last answer of a run and its calls, as `stopWhen` receives them. */
export interface RunStep {
  runId: string
  turnId: string
  sessionLabel: string
  /** The number of answers so far. */
  step: number
  messageId: string
  text: string
  toolCalls: AgentToolCall[]
  /** The tokens of the run so far. */
  usage: TokenUsage
}

/** The next call of a run, as `prepareStep` receives it. */
export interface NextStep {
  runId: string
  turnId: string
  sessionLabel: string
  /** The number of the answer, from 1. */
  step: number
  provider: string
  model: string
  /** The names of the run's tools. */
  tools: string[]
  /** The tokens of the run so far. */
  usage: TokenUsage
  /** The answer before, with its calls; null before the first. */
  last: RunStep | null
}

/** What changes for one answer of a run. */
export interface StepChanges {
  /** A model of the run: that of the context or one of its `fallbacks`, as `provider/model`, or a model of the same provider. It stays until it is changed. */
  model?: string
  /** The names of the tools on offer. A call of another one is a failure that the model reads. */
  tools?: readonly string[]
  toolChoice?: ToolChoice
}

/** Functions of the host that a run calls; those of a context replace those of the engine, one by one. */
export interface RunHooks {
  /**
   * Decides about each call before it runs. Whatever is no decision is a deny: a throw, another value, 30 seconds of silence. It is not
   * called again for a call that had started before a crash.
   */
  beforeToolCall?(call: ToolCallRequest): ToolVerdict | Promise<ToolVerdict>
  /** Receives what a tool returned; a returned value other than undefined replaces it. A throw is a process warning. */
  afterToolCall?(call: ToolCallRequest, result: unknown): unknown
  /**
   * Called after an answer with tools, before the next call of the model; true ends the run, completed, with the stop reason
   * `tool_use`. A throw is a process warning.
   */
  stopWhen?(step: RunStep): boolean | Promise<boolean>
  /**
   * Called before each answer, and may change how it is called for; a retry of the call is not another answer. What is wrong with the changes is a
   * warning of the result (`prepare_step`), and then nothing is changed; a throw is a process warning.
   */
  prepareStep?(
    step: NextStep,
  ): StepChanges | undefined | void | Promise<StepChanges | undefined | void>
}

/** The situation that a planner decides in. */
export interface PlanContext {
  runId: string
  turnId: string
  sessionLabel: string
  /** The hash of all that follows, of the planner's settings and of the tools' schemas. It has no id and no time. */
  inputHash: string
  /** The text of the newest user message. */
  message: string
  /** The number of the next step of the turn, from 1. */
  step: number
  /** The names of the run's tools. */
  tools: string[]
  /** The calls of this turn that have their result. Empty, unless the planner has `replan`. */
  observations: {
    toolName: string
    params: Record<string, unknown>
    result: string
    isError: boolean
  }[]
}

/**
 * What a planner decides. `direct`: the model is called. `tools`: these calls run first, and the model reads their results. `clarify`: the turn
 * ends with the question as its answer, and no model is called.
 */
export type Plan =
  | { kind: 'direct'; reason?: string }
  | {
      kind: 'tools'
      calls: readonly { toolName: string; params?: Readonly<Record<string, unknown>> }[]
      reason?: string
    }
  | { kind: 'clarify'; question: string; reason?: string }

/** Decides about a turn. The same context should have the same plan. A throw, or what is no plan, calls the model, with a warning. */
export type PlanFunction = (context: PlanContext) => Plan | Promise<Plan>

/** A planner with its settings. */
export interface PlannerOptions {
  /** The engine's heuristic (see {@link AssembledContext.planner}), or a function of the host. */
  plan: 'heuristic' | PlanFunction
  /**
   * For the heuristic: words that stand for a tool, or for the tools of a server by what is before `__` in their names. A message with such a
   * word runs the `search`, `list` or `query` of it.
   */
  keywords?: Readonly<Record<string, string>>
  /** Decides again after each round of tools. Planned calls are steps, so `maxIterations` bounds them. Default false. */
  replan?: boolean
}

/** Decides before the model is called. */
export type Planner = 'heuristic' | PlanFunction | PlannerOptions

/** The broker interface's six events. */
export type CoreStreamEvent = Extract<
  StreamEvent,
  {
    type: 'stream_start' | 'token' | 'tool_status' | 'reasoning' | 'stream_end' | 'stream_error'
  }
>

/**
 * Which events are delivered: `all` (default; without the fragments of `toolInput`), `core`, which is the broker interface's six,
 * or `all` with changes. The numbers of the others are left out: `seq` is that of the stored events.
 */
export type EventsOption = 'core' | 'all' | EventSelection

/** Groups of events besides {@link CoreStreamEvent}. Each is delivered by default, except `toolInput`. */
export interface EventSelection {
  usage?: boolean
  /** `waiting` and `retry`. */
  waiting?: boolean
  compaction?: boolean
  userMessage?: boolean
  toolProgress?: boolean
  modelSwitch?: boolean
  cacheBreak?: boolean
  /** `tool_input_delta`: the arguments of calls as they stream. Default false. */
  toolInput?: boolean
  /** `approval`: a call waits for a decision, or has one. */
  approval?: boolean
}

/** The fields of a context that an engine may have defaults for: all but those of one run. */
export type RunDefaults = {
  [Field in Exclude<
    keyof AssembledContext,
    | 'currentMessage'
    | 'history'
    | 'currentTurn'
    | 'abortSignal'
    | 'runId'
    | 'parentTurnId'
    | 'sourceEventId'
    | 'layers'
  >]?: AssembledContext[Field] | undefined
}

/**
 * The options of a run in the short form: everything of a context but its message. Defaults: the engine's `defaults`, else `role`
 * `unified`, `tools` none, `runId` a ULID, `toolsetName` `default`, `permissionsGranted` none, `workspacePath` the process's
 * directory, `timeoutMs` 600,000, `systemPrompt` empty. A `model` without a `provider` beside it names both:
 * `anthropic/claude-haiku-4-5`. Without `session` the turn is stored in no session: its label is `run:` and a ULID.
 */
export type RunOptions = {
  [Field in Exclude<keyof AssembledContext, 'currentMessage'>]?: AssembledContext[Field] | undefined
} & {
  /** The label of the session: a shorter name of `sessionLabel`. */
  session?: string | undefined
  /**
   * Aborts the run: a shorter name of `abortSignal`. With `AbortSignal.timeout` the run ends with the stop reason `timeout`, and
   * `error.detail.code` is `signal_timeout`.
   */
  signal?: AbortSignal | undefined
  callbacks?: AgentEngineCallbacks | undefined
}

/** Options of {@link AgentEngine.countTokens} in the short form. */
export type CountOptions = Omit<RunOptions, 'callbacks'> & {
  /** The provider counts, where its API can. Default false. */
  exact?: boolean | undefined
}

/**
 * What every asynchronous call of an engine and its ledger takes, among its options or its filter, else as its last argument.
 *
 * @example
 * await engine.ledger.search('invoice', { limit: 20, signal })
 * await engine.ledger.query('SELECT count(*) FROM turns', [], { signal: AbortSignal.timeout(1_000) })
 */
export interface CallOptions {
  /** Ends the wait: the call rejects with the signal's reason. What has begun in the ledger is not undone. */
  signal?: AbortSignal | undefined
}

/**
 * Inspects a request before it is sent over HTTP (an answer of a run, a summary, an exact count: see `purpose`), and may replace
 * its body: a returned object is sent, byte for byte as `JSON.stringify` writes it. Without a returned value the original body is
 * sent, even when the object was mutated. Keys are in headers, which it never receives. A throw, or a return value that is no
 * object, fails the run (`error.detail.code` is `on_request_failed`), the compaction or the count, and nothing is sent.
 */
export type OnRequest = (
  request: OutgoingRequest,
) => object | undefined | void | Promise<object | undefined | void>

/**
 * Callbacks of a run, in place of the iterator or in addition to it. They are read once, when the run begins. A throw in one does
 * not affect the run: it becomes a process warning (`AGENT_ENGINE_CALLBACK`), once per run.
 */
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
  /** Receives what a running tool passes to its `onUpdate`. */
  onToolUpdate?: (payload: { toolCallId: string; toolName: string; partial: unknown }) => void
}

/** The broker interface's handle of a running turn. */
export interface BrokerStreamHandle<Event = StreamEvent> {
  /**
   * Calls back with each event from now on; with `afterSeq`, first with those after that number that were delivered already.
   * Returns a function that ends it.
   */
  onEvent(callback: (event: Event) => void, options?: EventsFrom): () => void
  /** See {@link AgentRun.abort}. */
  abort(reason?: unknown): void
  /** Injects a message at the next tool boundary. False when the run accepts none any more, or compacts: queue it then. */
  steer(message: string): boolean
  isStreaming(): boolean
  isCompacting(): boolean
}

/** The broker interface's running turn. Every {@link AgentRun} is one. */
export interface BrokerExecution {
  /** Its events, while it runs. */
  stream: BrokerStreamHandle
  /** Its result, when it has ended. */
  result: Promise<AgentResult>
}

/** The result of a run whose `output` has a type. */
export type RunResult<Output> = unknown extends Output
  ? AgentResult
  : AgentResult & { output?: Output }

/**
 * A running turn: an async iterator over its events, with its result.
 *
 * @example
 * const run = engine.run(context)
 * for await (const event of run) if (event.type === 'token') process.stdout.write(event.text)
 * const { stopReason, usage } = await run.result
 */
export interface AgentRun<Event = StreamEvent, Output = unknown>
  extends AsyncIterableIterator<Event> {
  /** The `runId`: the host's, or the engine's ULID. */
  readonly id: string
  /**
   * Its turn in the ledger. Undefined until the turn is opened, which is when the run has its session; after the end it is
   * `result.turnId`.
   */
  readonly turnId: string | undefined
  /**
   * Resolves for every stop reason, after the commit and the terminal event. Rejects only for defects, with `duplicate_run` where the ledger
   * has a run with its id (nothing was sent or written then), and with `result_too_large`
   * where the result's JSON would have more than 256 MiB: the turn is in the ledger.
   */
  readonly result: Promise<RunResult<Output>>
  readonly stream: BrokerStreamHandle<Event>
  /**
   * Ends the run as aborted; the result settles within a quarter of a second, even when a tool ignores its signal. `result.abortReason` is
   * the reason. With a `TimeoutError`, as `AbortSignal.timeout` gives it, the run ends with the stop reason `timeout`.
   */
  abort(reason?: unknown): void
  /** See {@link BrokerStreamHandle.steer}. */
  steer(message: string): boolean
  /**
   * Another iteration of the events, from the first or any other number on, also after the end: each sees every event. Adjacent
   * deltas that were delivered before it began may be joined. Leaving it does not abort the run.
   *
   * @throws {AgentEngineError} `invalid_options`
   */
  events(options?: EventsFrom): AsyncIterableIterator<Event>
  [Symbol.asyncIterator](): AgentRun<Event, Output>
}

export interface LedgerOptions {
  /** The file. Several processes may use it at the same time. */
  path: string
  /** `normal`: a power cut may lose the last turns, a crash never does. Default `full`. */
  synchronous?: 'full' | 'normal'
  /**
   * `full` (default): a turn is written step by step, so that it can be resumed after a crash, and one process at a time
   * runs a session. `final`: a turn is written once, when it has ended.
   */
  journal?: 'full' | 'final'
  /** How long a session remains leased to a process whose heartbeat has stopped, in milliseconds. Default 15,000. */
  leaseMs?: number
  /**
   * How long the events of runs are stored; {@link AgentEngine.attach} and {@link Ledger.watch} deliver them. `false` stores none.
   * Needs the journal `full`. The first engine of a process that opens a ledger decides for all engines of the process.
   */
  events?: EventRetention | boolean
}

/**
 * A ledger in PostgreSQL 15 or newer, which the engines of many machines share. What it does not have yet is refused with the
 * code `unsupported`: forks at a tool call, and what only a file has.
 */
export interface PostgresLedgerOptions {
  /**
   * The server: `postgres://user:password@host:5432/database?sslmode=verify-full`. What it leaves out comes from `PGHOST`, `PGPORT`,
   * `PGUSER`, `PGDATABASE`, `PGPASSWORD` and the file that `PGPASSFILE` names. A connection to another machine is encrypted, unless
   * `sslmode=disable` is in it.
   */
  url: string
  /** The schema of the tables; it is created if it does not exist. Default `agent`. */
  schema?: string
  /** The most connections of this engine. Default 8. */
  pool?: number
  /**
   * The password, in place of the URL's and the environment's. A function is called for each new connection, so that passwords that expire
   * work; for the target of a copy, for each part of it.
   */
  password?: string | (() => string | Promise<string>)
  /**
   * `false`: no TLS. `true`: TLS, also to this machine. Else PEM texts: `ca` has certificates of more authorities, `cert` and `key` are those
   * by which the server knows this client.
   */
  ssl?: boolean | { ca?: string; cert?: string; key?: string }
  /** See {@link LedgerOptions.journal}. */
  journal?: 'full' | 'final'
  /** How long a session remains leased to a process whose heartbeat has stopped, in milliseconds. Default 15,000. */
  leaseMs?: number
  /**
   * How long a statement may wait for the server's answer, in milliseconds, 100 to 600,000. One that has none is cancelled and sent once
   * more over a new connection; a call without an answer fails with `storage_io`. A new connection may take `connect_timeout` of the
   * URL; without one, 10 seconds or this limit, whichever is shorter. Default 15,000.
   */
  timeoutMs?: number
  /** See {@link LedgerOptions.events}. */
  events?: EventRetention | boolean
}

/** What {@link Ledger.prune} deletes. */
export interface PruneOptions {
  /** Sessions that were last used before this time: a Date, or Unix milliseconds. */
  before: Date | number
  /** The number of newest sessions that stay whatever their age. Default 0. */
  keep?: number
  /** Counts, and deletes nothing. Default false. */
  dryRun?: boolean
  /** Overwrites what was deleted: the file is rewritten, and commits wait for that. Default false. */
  secure?: boolean
}

/** How long the events of a run remain in the ledger after its end. */
export interface EventRetention {
  /** In milliseconds. Default 604,800,000: seven days. */
  keepMs?: number
  /** The number of newest runs whose events remain. Default: unlimited. */
  keepTurns?: number
}

/** Where an iteration of events begins. */
export interface EventsFrom {
  /** Events up to this number are skipped. Default 0: all are delivered. */
  afterSeq?: number
}

/** Options of {@link AgentEngine.attach}. */
export interface AttachOptions extends EventsFrom {
  /** Which events are delivered. Default: the engine's `events`. */
  events?: EventsOption
}

/** An event of one of a session's runs. */
export interface SessionEvent {
  runId: string
  turnId: string
  event: StreamEvent
}

/**
 * Options of {@link AgentEngine.resume}: values that the ledger does not store, or that may change. All others are those with
 * which the turn began.
 */
export interface ResumeOptions extends RunHooks {
  /** The tools, with their functions. Default: none. */
  tools?: readonly AgentTool[]
  callbacks?: AgentEngineCallbacks
  /** Headers of the requests. The ledger does not store them, because they may be secret. */
  headers?: Readonly<Record<string, string>>
  /** The history, if the turn began with one of the host. Default: the session's, from the ledger. */
  history?: readonly Message[]
  /** The time limit from now on. Default: the limit with which the turn began, in full. */
  timeoutMs?: number
  toolTimeoutMs?: number
  abortSignal?: AbortSignal
  /** Which events the run delivers. Default: the engine's `events`. */
  events?: EventsOption
  /** What becomes of the run if a call waits for a decision. Default `wait`. */
  onApproval?: 'wait' | 'return'
  /** The planner. Default: the one with which the turn began; a function of it must be passed again, here or in the engine's options. */
  planner?: Planner
  /** The library's schema with which the turn began: without it the answer is compared with its JSON Schema only. */
  output?: StandardSchema<any, any>
}

/** For which context a toolset is: its fields, as far as it has them. */
export type ToolsetScope = Readonly<
  Partial<
    Pick<
      AssembledContext,
      'sessionLabel' | 'toolsetName' | 'role' | 'workspacePath' | 'permissionsGranted' | 'metadata'
    >
  >
>

/** The outcome for an interrupted turn when the engine was opened. */
export type RecoveredTurn =
  | { turn: InterruptedTurn; outcome: 'resumed'; run: AgentRun }
  | { turn: InterruptedTurn; outcome: 'discarded' | 'left' }
  | { turn: InterruptedTurn; outcome: 'failed'; error: unknown }

export interface AgentEngineOptions extends RunHooks {
  /**
   * What a context, or the options of a run, leave out. Tools are those of every run that passes none.
   *
   * @example
   * new AgentEngine({ defaults: { model: 'anthropic/claude-haiku-4-5', systemPrompt: 'Be brief.' } })
   */
  defaults?: RunDefaults
  /**
   * Tools by name: a context that passes no `tools` has those that its `toolsetName` names, and without one those of `default`. A function is called
   * for each such context.
   *
   * @example
   * toolsets: { coding: createCodingTools('/work'), support: ({ sessionLabel }) => toolsOf(sessionLabel) }
   */
  toolsets?: Readonly<
    Record<string, readonly AgentTool[] | ((scope: ToolsetScope) => readonly AgentTool[])>
  >
  /** Where turns are stored: a file, or a PostgreSQL server. Without it they are not stored. */
  ledger?: LedgerOptions | PostgresLedgerOptions
  /**
   * How turns that a crash has interrupted are handled when the engine is opened. `list` (default): not at all, see
   * {@link AgentEngine.recover}. `discard`: they are closed. `resume`: they continue with the options that `toolsFor` returns;
   * those whose session has continued without them are closed.
   */
  recovery?: 'list' | 'resume' | 'discard'
  /** Returns the options of a turn that is resumed when the engine is opened; null leaves the turn as it is. */
  toolsFor?: (
    turn: InterruptedTurn,
  ) => ResumeOptions | null | undefined | Promise<ResumeOptions | null | undefined>
  /**
   * Default: `anthropic` and `openai`, with their keys from `ANTHROPIC_API_KEY` and `OPENAI_API_KEY`. A known service needs only
   * its name: `{ groq: {}, ollama: {} }`; docs/services.md lists the services.
   */
  providers?: Readonly<Record<string, ProviderOptions | ScriptedProvider>>
  /**
   * Keys. Several keys of one provider are rotated: see {@link FailoverOptions}. A key is a text, `{ env: 'NAME' }`, or a
   * function that returns one.
   */
  authProfiles?: readonly (AuthProfile | AuthProfileWithFunction)[]
  /** Which events runs and attachments deliver, where a context or an attachment does not decide. Default `all`. */
  events?: EventsOption
  /** How runs continue when a key or a model fails. */
  failover?: FailoverOptions
  /**
   * Calls wait while their provider's rate limits, as its headers report them, are used up. All sessions share one queue per
   * provider, auth profile and model: interactive sessions come first, then workers, then summaries. Default on; `false`: no
   * call waits.
   */
  rateGovernor?: boolean | RateGovernorOptions
  models?: readonly ModelDeclaration[]
  /**
   * The hosts that providers and MCP servers may be at, for options that others write too: names and addresses, and `*.example.com` for all
   * beneath one. Without `providers` the default ones count. Default: any; addresses that are link-local or of cloud metadata are never called.
   */
  allowedHosts?: readonly string[]
  /** Limit of one tool in milliseconds, where neither the tool nor the context has one. */
  toolTimeoutMs?: number
  /** Inspects each request before it is sent, where the context has no `onRequest`. */
  onRequest?: OnRequest
  /** How a full window is reduced. `false`: never; a run that does not fit ends with `context_overflow`. */
  compaction?: CompactionOptions | false
  /**
   * Whether old tool results are shortened once the provider's cache is cold. `true` for the defaults; off by default.
   * Only requests are shortened: the ledger stores the whole results.
   */
  pruning?: PruningOptions | boolean
  /** When a run gets a warning because of its window, or is refused. */
  contextGuard?: ContextGuard
  /**
   * Hard limits in tokens and US dollars. The maximum cost of a call is reserved before it is sent, so that concurrent runs
   * cannot exceed a limit together; compactions and retries count too.
   *
   * @example
   * budgets: [{ per: 'run', maxTokens: 500_000 }, { per: 'day', maxCost: 20 }]
   */
  budgets?: readonly BudgetOptions[]
  /** Decides before the first call of the model of each run whose context has no `planner`. */
  planner?: Planner
  /**
   * What every run may do at most. A run's own `policy` can only narrow it.
   *
   * @example
   * policy: { deniedTools: ['bash'], maxToolCalls: 50 }
   */
  policy?: RunPolicy | readonly RunPolicy[]
  /**
   * MCP servers by name. Their tools are in every run as `name__tool`, unless its context's `mcp` says otherwise. A server is
   * started when a run, or `engine.mcp`, first needs it.
   *
   * @example
   * mcp: { files: { command: 'npx', args: ['-y', '@modelcontextprotocol/server-filesystem', '/data'] } }
   */
  mcp?: Readonly<Record<string, McpServerOptions>>
  /**
   * Remembers what is said, and finds it again: see {@link AgentEngine.memory}. It needs a `ledger`. Without it nothing is indexed.
   *
   * @example
   * new AgentEngine({ ledger: { path: 'agent.db' }, memory: true })
   */
  memory?: boolean | MemoryOptions
}

/** An MCP server: a program that the engine starts, or an address. */
export type McpServerOptions = McpProcessOptions | McpAddressOptions

/** What a server asks the user for (`elicitation/create`), with all fields of the protocol. */
export interface McpElicitation {
  server: string
  /** What the user is to read. */
  message: string
  /** The form of the answer: JSON Schema, flat. */
  requestedSchema?: unknown
  /** `url`: the user is to open an address. */
  mode?: string
  url?: string
  [field: string]: unknown
}

/** The answer to a {@link McpElicitation}. `content` is not checked here: the server does. */
export type McpElicited =
  | { action: 'accept'; content?: Readonly<Record<string, unknown>> }
  | { action: 'decline' | 'cancel' }

/** What a server asks a model for (`sampling/createMessage`), with all fields of the protocol. */
export interface McpSampling {
  server: string
  messages: { role: 'user' | 'assistant'; content: any }[]
  systemPrompt?: string
  maxTokens?: number
  [field: string]: unknown
}

/** The answer to a {@link McpSampling}: a text, or a message of the protocol. */
export type McpSampled =
  | string
  | { content: object; role?: 'assistant'; model?: string; stopReason?: string }
  | null
  | undefined

/** An MCP server that the engine starts, and speaks to over its input and output. */
export interface McpProcessOptions extends McpToolOptions {
  /** The program: a path, or a name in `PATH`. */
  command: string
  args?: readonly string[]
  /**
   * Variables for the server, beside `PATH`, `HOME`, `USER`, `LOGNAME`, `SHELL`, `LANG`, `TERM`, `TZ` and `TMPDIR` of this process. No other
   * variable of this process is passed on.
   */
  env?: Readonly<Record<string, string>>
  /** Where it runs. Default: the directory of this process. */
  cwd?: string
  url?: never
  headers?: never
  auth?: never
  allowInsecure?: never
}

/** An MCP server at an address (streamable HTTP). */
export interface McpAddressOptions extends McpToolOptions {
  /** Https, or http on this machine. */
  url: string
  /** Headers of each request. Their values are never shown. */
  headers?: Readonly<Record<string, string>>
  /**
   * Gives the bearer token, or `null` for none yet; called when one is needed, again before it expires, and once when the server refuses a
   * request for want of a better one. `createMcpOAuth` makes one that logs a user in.
   */
  auth?: (request: McpTokenRequest) => KeyGiven | null | Promise<KeyGiven | null>
  /** Whether plain http to another machine is allowed. Default false. */
  allowInsecure?: boolean
  command?: never
  args?: never
  env?: never
  cwd?: never
}

/** The argument of a server's `auth`. */
export interface McpTokenRequest {
  server: string
  /** True: the server has refused the last token, or wants one. */
  refused: boolean
  /** What it wants, if it says so: its header `WWW-Authenticate`. Of a server that nobody has to trust. */
  challenge?: string
}

/** A client that an authorization server knows. */
export interface McpOAuthClient {
  clientId: string
  clientSecret?: string
  /** How it proves who it is. Default: what the server supports. */
  authMethod?: 'client_secret_basic' | 'client_secret_post' | 'none'
}

/** The tokens of a login: secrets. */
export interface McpOAuthTokens {
  accessToken: string
  refreshToken?: string
  /** Milliseconds since 1970. */
  expiresAt?: number
  scope?: string
}

/** What {@link createMcpOAuth} stores, as JSON takes it: it has secrets. */
export interface McpOAuthState {
  /** The authorization server to which the rest belongs. */
  issuer?: string
  /** The address of the MCP server's own metadata, which names the authorization server that it trusts. */
  resourceMetadata?: string
  client?: McpOAuthClient
  tokens?: McpOAuthTokens
}

/** Options of {@link createMcpOAuth}. */
export interface McpOAuthOptions {
  /** The address of the MCP server, as in `mcp.<server>.url`. */
  url: string
  /**
   * Opens an address in the user's browser, and returns the whole address to which the browser is sent back (it begins with `redirectUri`). Without it a
   * `client` with a secret logs in as itself (`client_credentials`).
   */
  authorize?: (url: string) => string | Promise<string>
  /** Where the authorization server sends the browser, for example `http://127.0.0.1:33418/callback`. */
  redirectUri?: string
  /** A client that is registered already. Default: one is registered at the first login. */
  client?: McpOAuthClient
  /** The https address of a document about your application, for authorization servers that read one in place of a registration. */
  clientMetadataUrl?: string
  /** The name that a user sees at the login. */
  clientName?: string
  /** The scopes to ask for, with spaces between, where the server names none. Default: all that it has. */
  scope?: string
  /**
   * Hosts in an internal network that the login may call, as in `sso.corp.example`. A server that is public names no others: link-local and private
   * addresses, metadata services, and names such as `localhost` and `db.internal` are refused. Names are not resolved.
   */
  allowedHosts?: readonly string[]
  /** What `save` was given last. */
  load?: () => McpOAuthState | null | undefined | Promise<McpOAuthState | null | undefined>
  /** Stores tokens, for the next process: they are secrets. */
  save?: (state: McpOAuthState) => void | Promise<void>
}

/**
 * An `auth` function that logs a user in by OAuth 2.1, as MCP has it: it finds the authorization server (RFC 9728, RFC 8414), registers a
 * client, sends the user's browser there with PKCE, exchanges the code, and renews the token. A failure is the server's error in a run.
 *
 * @example
 * const url = 'https://mcp.example.com/mcp'
 * const auth = createMcpOAuth({ url, redirectUri, authorize: openBrowserAndWait })
 * const engine = new AgentEngine({ mcp: { example: { url, auth, startTimeoutMs: 300_000 } } })
 *
 * @throws {@link AgentEngineError} `invalid_options` for options that cannot be used.
 */
export declare function createMcpOAuth(
  options: McpOAuthOptions,
): (request: McpTokenRequest) => Promise<KeyGiven | null>

/** What all MCP servers have. */
export interface McpToolOptions {
  /**
   * Answers a server that asks the user for something. Without it such a request is declined. A throw is a process warning, and cancels it; so does the end
   * of the call, and ten minutes of silence.
   */
  onElicitation?: (request: McpElicitation) => McpElicited | Promise<McpElicited>
  /**
   * Answers a server that asks for an answer of a model: a text, or a message of the protocol. Without it, and with undefined or null, such a request is
   * declined. The server writes the whole prompt: show it to somebody, or bound what it costs.
   */
  onSampling?: (request: McpSampling) => McpSampled | Promise<McpSampled>
  /**
   * The revision of the protocol: one with a handshake (`2025-11-25` and older), or the one without (`2026-07-28`). Default `auto`: the
   * handshake is tried first.
   */
  protocol?: 'auto' | '2025-11-25' | '2026-07-28'
  /** How long it may take to start and to list its tools; a run waits that long for it. Default 30,000. */
  startTimeoutMs?: number
  /**
   * Limit of one call of a tool in milliseconds. Default: the context's or the engine's `toolTimeoutMs`, else 60,000. It is that of a question of
   * `engine.mcp`, too; default 60,000.
   */
  timeoutMs?: number
  /** Which of its tools are used: their names, or patterns with `*`. `deny` wins. Default: all. */
  tools?: { allow?: readonly string[]; deny?: readonly string[] }
  /** Whether calls of its tools need a permission. Default: `ask` in runs with a `beforeToolCall`, else `allow`. */
  permission?: ToolPermission
  /** How its tools run beside others. Default `sequential`. */
  executionMode?: ExecutionMode
  /**
   * Whether what the server says about its own tools counts: one that only reads then needs no permission, runs in parallel and may run again
   * after a crash; one that destroys asks. Default false.
   */
  trustAnnotations?: boolean
}

/** An MCP server, as it is now. */
export interface McpServerState {
  name: string
  /** `idle`: not started yet. `failed`: it does not run, and is started again when it is needed. */
  state: 'idle' | 'connecting' | 'ready' | 'failed' | 'closed'
  /** The revision of the protocol, once it is known. */
  protocol?: string
  /** What it calls itself. */
  server?: { name: string; version: string }
  /** The names of its tools in runs. */
  tools: string[]
  /** Tools of it that cannot be used. */
  refused: { tool: string; reason: string }[]
  /** Why it failed last. */
  error?: string
  /** The end of what it printed to standard error. */
  log?: string
}

/** A tool of an MCP server. */
export interface McpToolInfo {
  /** Its name in runs. */
  name: string
  server: string
  /** Its name at the server. */
  tool: string
  description: string
  /** The JSON Schema of its arguments. */
  parameters: Record<string, unknown>
  /** The JSON Schema of its structured result. */
  outputSchema: Record<string, unknown> | null
  replay: ReplayClass
}

/** A resource, as its server lists it. */
export interface McpResource {
  uri: string
  name: string
  title?: string
  description?: string
  mimeType?: string
  [field: string]: unknown
}

/** A family of resources, as its server lists it. */
export interface McpResourceTemplate {
  uriTemplate: string
  name: string
  title?: string
  description?: string
  mimeType?: string
  [field: string]: unknown
}

/** The contents of a resource: a text, or bytes in base64. */
export interface McpResourceContents {
  uri: string
  mimeType?: string
  text?: string
  blob?: string
  [field: string]: unknown
}

/** A prompt, as its server lists it. */
export interface McpPrompt {
  name: string
  title?: string
  description?: string
  arguments?: { name: string; description?: string; required?: boolean }[]
  [field: string]: unknown
}

/** A prompt with its arguments filled in. */
export interface McpPromptResult {
  description?: string
  messages: { role: 'user' | 'assistant'; content: Record<string, unknown> }[]
  [field: string]: unknown
}

/**
 * The MCP servers of an engine. A server that is needed and does not run is started. What cannot be had rejects with `mcp_failed`. Lists and
 * contents are the server's own words: treat them as untrusted.
 */
export interface McpServers {
  /** Each server, as it is now. */
  servers(): McpServerState[]
  /** The tools that a run would get. Those of servers that cannot be started are missing. */
  tools(options?: CallOptions): Promise<McpToolInfo[]>
  resources(server: string, options?: CallOptions): Promise<McpResource[]>
  resourceTemplates(server: string, options?: CallOptions): Promise<McpResourceTemplate[]>
  readResource(server: string, uri: string, options?: CallOptions): Promise<McpResourceContents[]>
  prompts(server: string, options?: CallOptions): Promise<McpPrompt[]>
  getPrompt(
    server: string,
    name: string,
    args?: Readonly<Record<string, string>>,
    options?: CallOptions,
  ): Promise<McpPromptResult>
  /** Ends a server and starts it again; all of them, where none is named. Runs under way keep the tools that they began with. */
  reload(server?: string, options?: CallOptions): Promise<void>
}

/** The argument of a key function. */
export interface KeyRequest {
  profileId: string
  /** True: the provider has refused the last key. */
  refused: boolean
}

/** A key as a function returns it. Without `expiresAt` it is cached until the provider refuses it. */
export type KeyGiven = string | { key: string; expiresAt?: number }

/** A profile whose key a function returns: called when a key is needed, once for all waiting runs, for at most a minute. */
export type AuthProfileWithFunction = { id: string; provider: string } & (
  | { type?: 'api_key' | 'token'; key: (request: KeyRequest) => KeyGiven | Promise<KeyGiven> }
  | {
      type: 'oauth'
      /** The first access token. */
      key?: KeyText
      /** When it expires, in Unix milliseconds. */
      expiresAt?: number
      /** Returns a new access token: called a minute before the old one expires, and when it was refused. */
      refresh: (request: KeyRequest) => KeyGiven | Promise<KeyGiven>
    }
)

/** How calls wait for rate limits. */
export interface RateGovernorOptions {
  /**
   * The longest wait of the first call in the queue because of headers alone, in milliseconds. It is sent after that, and if it is
   * answered, the headers are ignored for ten minutes. Default and maximum: 60,000.
   */
  maxWaitMs?: number
}

/**
 * How runs continue when a key or a model fails. A profile that fails is not used for a while, and the next one is used; where
 * none is left, the next model is used. Nothing is retried once a token of the message was delivered.
 *
 * @example
 * new AgentEngine({ failover: { fallbacks: ['claude-haiku-4-5'], order: { anthropic: ['work', 'home'] } } })
 */
export interface FailoverOptions {
  /** The cooldowns of a failed profile: 30 s, 1 min, 5 min; `legacy`: 1 min, 5 min, 25 min, 1 h. */
  ladder?: 'default' | 'legacy'
  /** The first cooldown after a billing failure, in milliseconds; doubled up to a day. Default 600,000. */
  billingBaseMs?: number
  /**
   * The longest wait while another model is available, in milliseconds: for a limited key, or a pause that a provider
   * requests. 0 to 60,000; default 2,000. Each wait is an event, `waiting`.
   */
  maxWaitMs?: number
  /**
   * How often a call that failed is sent again with the same key, waits for its rate limit included: 0 to 10, default 2. The next key and the next
   * model are used all the same.
   */
  maxRetries?: number
  /** The profiles of a provider that are used, in this order. Default: by type (oauth, token, key), then round robin. */
  order?: Readonly<Record<string, readonly string[]>>
  /** The fallback models, where a context names none. */
  fallbacks?: readonly (string | ModelName)[]
  /** The only models allowed as fallbacks; others are left out with a warning. */
  allow?: readonly (string | ModelName)[]
}

/** A way to reduce a context. `tool_result_truncation` shortens results in requests only; the ledger always stores everything. */
export type CompactionStrategy =
  | 'summary'
  | 'sliding_window'
  | 'hard_clear'
  | 'tool_result_truncation'

/**
 * How a full window is reduced: before a call that would not fit, and after one that the provider has refused.
 * Sessions in the ledger are compacted. With a `history` in the context, only the running turn is compacted.
 */
export interface CompactionOptions {
  /** Tried in order, until the context fits. Default `['summary']`. */
  strategies?: readonly CompactionStrategy[]
  /** The summariser's model; the run's by default. */
  model?: string
  /** The summariser's provider; needs `model`. */
  provider?: string
  /** Additional instructions for the summariser. */
  instructions?: string
  /** Compactions after a refused prompt, at most 3. Default 1. */
  maxOverflowRecoveries?: number
  /** Limit of one compaction in milliseconds. Default 300,000. */
  timeoutMs?: number
  /** `myclaw`: the last 10 messages are not summarised, and the summary has no sections. */
  preset?: 'myclaw'
  /**
   * Offers the model a built-in tool `recall` (`{ query, limit? }`), from the first call of every session. It searches the
   * original messages and tool results of the session's thread that are no longer in the context. Needs a ledger
   * (`invalid_options`); a host's tool named `recall` is then refused (`invalid_tool`). Default false.
   */
  recall?: boolean
}

/**
 * When old tool results are shortened: before a call so long after the previous one that the provider's cache no longer has the
 * prompt. A pruned result stays pruned while the cache is warm. Messages after the third-last answer are never pruned.
 *
 * @example
 * new AgentEngine({ ledger: { path: './agent.db' }, pruning: { trimAt: 0.2 } })
 */
export interface PruningOptions {
  /** Milliseconds since the last call from which the cache is cold. Default: the requested lifetime of the cache, 300,000. */
  idleMs?: number
  /** The share of the window from which results over 4,000 characters are cut to their first and last 1,500. Default 0.3. */
  trimAt?: number
  /** The share of the window above which results are left out, the oldest first. Default 0.5. */
  clearAt?: number
}

/** The context guard, in tokens. */
export interface ContextGuard {
  /** The share of the window from which `result.warnings` has an entry. Default 0.8. */
  warnThreshold?: number
  /** The maximum number of tokens of a prompt, for any window. */
  hardLimit?: number
  /** The minimum number of tokens that must remain for the answer. Default 0. */
  minAvailable?: number
  /** Runs are refused below this window. Default 16,000. */
  minWindow?: number
}

/** Options of {@link AgentEngine.close}. */
export interface CloseOptions {
  /** Aborts the runs that still run after this time, in milliseconds. */
  graceMs?: number
  /** True: aborts the running runs. Default false. */
  abort?: boolean
}

/** Options of {@link AgentEngine.compact}. */
export interface CompactOptions {
  /** Instructions for the summariser; they replace the engine's. */
  instructions?: string
  /** The summariser's model. Default: the engine's option, or the model of the session's last answer. */
  model?: string
  provider?: string
  /** Cancels the compaction; nothing is written then. */
  signal?: AbortSignal
}

/** Embeds texts: a vector for each, in their order. `null` for a text that cannot be embedded: it is found by its words. */
export type EmbedFunction = (
  texts: string[],
  options: { isQuery: boolean },
) =>
  | readonly (Float32Array | readonly number[] | null)[]
  | Promise<readonly (Float32Array | readonly number[] | null)[]>

/** A model of one of the engine's providers: OpenAI and servers that speak like it (vLLM, …), Ollama, Google, or Bedrock. */
export interface ProviderEmbedder {
  /** The provider, by its name in `providers`. It is called with the engine's keys, rate limits and budgets. */
  provider: string
  /** The provider's name of the model: `text-embedding-3-small`. */
  model: string
  /** The numbers of a vector that are requested. Default: the model's. */
  dimensions?: number
  /** The most texts of a call: 1 to 2,048. Default 64. */
  batch?: number
  /** The most milliseconds of a call. Default 30,000. */
  timeoutMs?: number
}

/** A function of the host that embeds. */
export interface HostEmbedder {
  /** The name of its model. Vectors of another name, or of other dimensions, are never compared with its own. Default `host`. */
  model?: string
  /** The numbers of a vector. Default: those of the first one. */
  dimensions?: number
  /** The most texts of a call: 1 to 2,048. Default 64. */
  batch?: number
  /** The most milliseconds of a call. Default 30,000. */
  timeoutMs?: number
  embed: EmbedFunction
}

/** What an engine remembers, and for whom. */
export interface MemoryOptions {
  /** What makes vectors of texts. `none` (default): searches are by words alone. */
  embedder?: ProviderEmbedder | EmbedFunction | HostEmbedder | 'none'
  /**
   * Where the texts of every session belong. Default: `persona` for a main session and the owner's direct messages, `session` for
   * others, so that a group never sees a private chat.
   */
  scope?: MemoryScopeKind
  /** The owner's names in direct messages: the `peer` of their sessions. Default: none. */
  owners?: readonly string[]
  /** The days after which half of what age costs a hit is lost. Default 30. */
  halfLifeDays?: number
  /**
   * How the closest vectors are found: `scan` (default) scans codes in each process, `pgvector` asks the extension of a PostgreSQL server.
   * Where the ledger is a file, or the server or the role has no index of it, they are scanned; `stats().models` says which, and why.
   */
  vectors?: VectorSearch
  /** Whether turns are indexed. Default true. */
  episodic?: boolean
  /** Whether the summaries of compactions are. Default true. */
  summaries?: boolean
  /**
   * The tools whose results are stored as facts of the type `tool_observation`, with the tool as the entity: names, which may end with `*`.
   * Default: none.
   */
  observations?: readonly string[]
  /** Facts that are found without being stored by hand. */
  facts?: { extract?: ExtractOptions }
}

/** A model that extracts facts from turns, after they were indexed. No turn waits for it. */
export interface ExtractOptions {
  /** A provider of the engine. Its keys, rate limits and budgets count; the session of the turn pays. */
  provider: string
  /** Its model. It is asked for JSON of a schema, where the API can enforce one. */
  model: string
  /** What it may use on a UTC day, over all processes: no call begins once it is used up, and the turns wait. Default: no limit. */
  budget?: { maxTokens?: number; maxCost?: number }
  /** The milliseconds of one call. Default 60,000. */
  timeoutMs?: number
}

/** What a context gets of the memory. */
export interface MemoryContext extends MemoryHits {
  /** A line for each hit, with its date and its source, the text quoted. Empty for nothing. */
  text: string
}

/** The memory of an engine. */
export interface AgentMemory {
  /**
   * What was said and what is known, the best first: by words and, with an embedder, by meaning.
   *
   * @example
   * const { hits } = await engine.memory.search('green tea', { session: 'main' })
   *
   * @throws {AgentEngineError} `invalid_options` without exactly one of `session`, `scopes` and `all`.
   */
  search(query: string, options: MemorySearchOptions & CallOptions): Promise<MemoryHits>
  /** The same as lines for a context, within `tokens` (default 1,000): at most 5 turns of 200 characters. */
  context(
    query: string,
    options: MemorySearchOptions & CallOptions & { tokens?: number },
  ): Promise<MemoryContext>
  /** Stores a fact. One that says the same in the same scope is returned instead. */
  storeFact(fact: NewFact, options?: CallOptions): Promise<MemoryFact>
  /**
   * Stores a fact in place of another one, which is listed with its end from then on.
   *
   * @param options `within`: a session; the other fact must belong where its texts do, as for a model that sees more than is its own.
   * @throws {AgentEngineError} `unknown_fact` if that one does not hold, or does not belong there.
   */
  supersede(
    id: string,
    fact: NewFact,
    options?: CallOptions & { within?: string },
  ): Promise<MemoryFact>
  /** Facts in the order in which they were stored. */
  facts(filter: FactFilter & CallOptions): Promise<Page<MemoryFact, number>>
  /** Forgets for good: texts, words and vectors. What is forgotten is not indexed again, and not imported. The ledger's turns stay. */
  forget(options: ForgetOptions & CallOptions): Promise<MemoryForgotten>
  /** The summary of a session's last compaction. */
  summary(session: string, options?: CallOptions): Promise<string | null>
  /** What the memory has, and what is left to do. */
  stats(options?: CallOptions): Promise<MemoryStats>
  /**
   * Indexes the turns that are not, such as older ones, and tries again to extract facts from turns that were skipped. With `vectors`, all
   * vectors are made anew; without it, those of former embedders are deleted, once each chunk has one of the current embedder.
   */
  reindex(options?: CallOptions & { vectors?: boolean }): Promise<MemoryReindex>
  /** All facts, superseded ones included. */
  export(options?: CallOptions): AsyncIterableIterator<MemoryFact>
  /** Stores the facts of an export. Those that are there, or were forgotten, are left out. */
  import(
    facts: Iterable<MemoryFact> | AsyncIterable<MemoryFact>,
    options?: CallOptions,
  ): Promise<{ facts: number; skipped: number }>
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
  /**
   * Runs a message: a model and a message are all that is needed, the rest has defaults (see {@link RunOptions}). An unknown option
   * is refused.
   *
   * @example
   * const engine = new AgentEngine({ defaults: { model: 'anthropic/claude-haiku-4-5' } })
   * const { text } = await engine.run('Hello?').result
   * await engine.run('And now?', { session: 'main', tools: [thermometer], signal }).result
   *
   * @throws {AgentEngineError} before anything is written or sent: `invalid_context`, `unknown_model`, … with `field`.
   */
  run(
    message: string | Message,
    options: RunOptions & { events: 'core' },
  ): AgentRun<CoreStreamEvent>
  run<Schema extends StandardSchema<any, any> | TypeBoxSchema>(
    message: string | Message,
    options: Omit<RunOptions, 'output'> & { output: Schema },
  ): AgentRun<StreamEvent, SchemaOutput<Schema>>
  run(message: string | Message, options?: RunOptions): AgentRun
  /**
   * Runs the context of the broker interface. Unknown fields have no effect: each name is one process warning
   * (`AGENT_ENGINE_CONTEXT_FIELDS`).
   *
   * @example
   * const run = engine.run(context)
   * for await (const event of run) if (event.type === 'token') process.stdout.write(event.text)
   *
   * @throws {AgentEngineError} before anything is written or sent: `invalid_context`, `unknown_model`, … with `field`.
   */
  run(
    context: AssembledContext & { events: 'core' },
    callbacks?: AgentEngineCallbacks,
  ): AgentRun<CoreStreamEvent>
  run<Schema extends StandardSchema<any, any> | TypeBoxSchema>(
    context: Omit<AssembledContext, 'output'> & { output: Schema },
    callbacks?: AgentEngineCallbacks,
  ): AgentRun<StreamEvent, SchemaOutput<Schema>>
  run(context: AssembledContext, callbacks?: AgentEngineCallbacks): AgentRun
  /** The known models, built in or declared in the options, by provider and name. */
  models(filter?: ModelFilter): ModelInfo[]
  /** The MCP servers of the options. */
  readonly mcp: McpServers
  /**
   * What is remembered.
   *
   * @throws {AgentEngineError} `no_memory` for an engine without the option `memory`.
   */
  readonly memory: AgentMemory
  /** The balances of the budgets that were used so far, in the order of the options. */
  budgets(): BudgetState[]
  /** What this machine enforces for coding tools. */
  capabilities(): EngineCapabilities
  /**
   * The known rate limits by provider, auth profile and model, computed from the headers of the last answers and the calls sent
   * since. Empty with `rateGovernor: false`.
   *
   * @example
   * for (const { model, requests, waiting } of engine.limits()) console.log(model, requests?.remaining, waiting)
   */
  limits(): LimitState[]
  /**
   * How many tokens the first call of a run of `context` would send: system prompt, tools, history (the session's in the
   * ledger, where the context names none) and current message. An estimate, unless `exact` is set and the provider's
   * API can count: then the provider counts. Nothing is written, and it does not wait for a run of the session.
   *
   * Rejects with an {@link AgentEngineError}: as `run` throws, or `provider_failed` with the provider's `error`.
   *
   * @example
   * const { tokens, promptLimit } = await engine.countTokens(context)
   * if (tokens > promptLimit * 0.8) await compact()
   */
  countTokens(
    context: AssembledContext,
    options?: { exact?: boolean | undefined } & CallOptions,
  ): Promise<TokenCount>
  /**
   * The same for a message, as {@link AgentEngine.run} takes it.
   *
   * @example
   * const { tokens } = await engine.countTokens('And now?', { session: 'main' })
   */
  countTokens(message: string | Message, options?: CountOptions): Promise<TokenCount>
  /**
   * Compacts a session between its turns: all but its newest turns become a summary. Null where there is nothing to
   * summarise. Rejects with the signal's reason if it was aborted before the end, and with `compaction_failed` if no summary
   * was accepted; the history is then unchanged.
   *
   * @example
   * const done = await engine.compact('agent:main:main', { instructions: 'Keep every invoice number.' })
   * if (done) console.log(`${done.tokensBefore} -> ${done.tokensAfter}`)
   */
  compact(label: string, options?: CompactOptions): Promise<CompactionResult | null>
  /**
   * The auth profiles and the windows in which they are not used, as the ledger has them now, those of other processes included.
   *
   * @example
   * for (const { id, windows } of await engine.profiles()) console.log(id, windows)
   */
  profiles(options?: CallOptions): Promise<ProfileState[]>
  /**
   * Clears the failures of a profile: it may be used again immediately.
   *
   * @throws {AgentEngineError} `unknown_profile`
   */
  resetProfile(id: string, options?: CallOptions): Promise<void>
  /** The ledger. @throws {AgentEngineError} `no_ledger` */
  readonly ledger: Ledger
  /**
   * The turns that were begun, have not ended and run nowhere, oldest first: their process ended or lost its lease.
   *
   * @example
   * for (const turn of await engine.recover()) {
   *   const run = await engine.resume(turn.turnId, { tools })
   *   console.log((await run.result).stopReason)
   * }
   */
  recover(options?: CallOptions): Promise<InterruptedTurn[]>
  /**
   * Continues an interrupted turn from its last commit point, in the same turn. Tools that finished are not run again.
   * Calls whose outcome is in doubt: `pure` and `idempotent` ones run again with the same idempotency key, `reconcilable`
   * ones are reported by `reconcile`, `unsafe` ones get the result `outcome_unknown`.
   *
   * @throws {AgentEngineError} `unknown_turn` for a turn that is not interrupted; what {@link AgentEngine.run} throws.
   */
  resume<Schema extends StandardSchema<any, any>>(
    turnId: string,
    options: Omit<ResumeOptions, 'output'> & { output: Schema },
  ): Promise<AgentRun<StreamEvent, SchemaOutput<Schema>>>
  resume(turnId: string, options?: ResumeOptions): Promise<AgentRun>
  /**
   * Closes an interrupted turn as failed with the code `interrupted`. Its messages and tool calls remain.
   *
   * @throws {AgentEngineError} `unknown_turn` for a turn that is not interrupted.
   */
  discard(turnId: string, options?: CallOptions): Promise<void>
  /**
   * The tool calls that wait for a decision, or have one, of all processes of the ledger; oldest first.
   *
   * @example
   * const { items } = await engine.approvals({ status: 'pending' })
   * for (const { id, toolName, params } of items) show(id, toolName, params)
   * @throws {AgentEngineError} `no_ledger`, `invalid_options`
   */
  approvals(filter?: ApprovalFilter & CallOptions): Promise<Page<Approval>>
  /**
   * Lets a call run that waits for an approval, also of a run in another process or after a restart: the run continues where its
   * tools are. A decision is final.
   *
   * @throws {AgentEngineError} `unknown_approval`; `already_decided`, whose message names who decided; `invalid_params` for `params` that
   * the tool's schema refuses.
   */
  approve(approvalId: string, options?: ApproveOptions & CallOptions): Promise<Approval>
  /**
   * Refuses a call that waits for an approval: the model reads the reason as the failure of the call.
   *
   * @throws {AgentEngineError} `unknown_approval`, `already_decided`
   */
  deny(approvalId: string, options?: DenyOptions & CallOptions): Promise<Approval>
  /**
   * The result of a call whose tool has no `run`, by the engine's id of the call: a value as a tool returns it, or an `Error`.
   *
   * @throws {AgentEngineError} `unknown_approval` for a call that waits for no result; `already_decided`; `invalid_params` for a value that
   * is no result.
   */
  provideToolResult(
    callId: string,
    value: unknown,
    options?: ProvideOptions & CallOptions,
  ): Promise<Approval>
  /**
   * The events of a run from any number on, in whichever process it runs: first the stored ones, then the new ones. Their
   * numbers have no gap. The iterator ends after the terminal event, or without one if the run's process ended: see
   * {@link AgentEngine.recover}, and attach again when the turn was resumed. Leaving the iterator does not abort the run. It
   * keeps the process alive while a `next()` waits, as a run does.
   *
   * The iterator rejects with `unknown_run`, with `events_expired` if the events are not stored (any more), or with `no_ledger`.
   *
   * @example
   * for await (const event of engine.attach('run-17', { afterSeq: lastSeen })) show(event)
   * @throws {AgentEngineError} `invalid_options`
   */
  attach(runId: string, options?: AttachOptions): AsyncIterableIterator<StreamEvent>
  /**
   * The runs in the ledger, the newest first, in whichever process they run or ran.
   *
   * @example
   * for (const { runId, status, process } of (await engine.runs({ session: 'main', limit: 10 })).items) {
   *   console.log(runId, status, process?.pid)
   * }
   *
   * @throws {AgentEngineError} `invalid_query`, `invalid_label`, `no_ledger`.
   */
  runs(filter?: RunFilter & CallOptions): Promise<Page<RunInfo>>
  /**
   * Where a run is; null where the ledger has none with that id.
   *
   * @example
   * const info = await engine.runInfo('run-17')
   * if (info?.status === 'interrupted') await engine.resume(info.turnId, { tools })
   */
  runInfo(runId: string, options?: CallOptions): Promise<RunInfo | null>
  /**
   * The result of a run: during the run, after it, after a restart, and from another process. It resolves when the run has ended.
   * Of a run that this engine does not run it has what the ledger stores: `warnings`, `undeliveredSteering`, `cacheBreaks` and
   * `tokenBudget` are empty.
   *
   * @example
   * const { text, usage } = await engine.resultOf('run-17', { signal: AbortSignal.timeout(60_000) })
   *
   * @throws {AgentEngineError} `unknown_run`; `run_interrupted` when no process runs it any more; `no_ledger`, `invalid_options`.
   */
  resultOf(runId: string, options?: CallOptions): Promise<AgentResult>
  /**
   * Aborts the run that is under way in a session, in any process of this machine; resolves when the command is in the ledger.
   * Needs the journal `full`.
   *
   * @throws {AgentEngineError} `not_running` where none is under way, `no_ledger`, `invalid_label`.
   */
  abortSession(label: string, options?: CallOptions): Promise<void>
  /**
   * Sends a message to the run that is under way in a session, in any process: see {@link AgentRun.steer}. False when the run
   * accepts none any more, or compacts.
   *
   * @throws {AgentEngineError} as `abortSession`; `invalid_options` for an empty text.
   */
  steerSession(label: string, text: string, options?: CallOptions): Promise<boolean>
  /** What `recovery` did when the engine was opened; empty for `list`. */
  readonly recovered: Promise<RecoveredTurn[]>
  /** Aborts all runs of this engine, as {@link AgentRun.abort} does; resolves when they have ended. Those of other processes go on. */
  abortAll(options?: CallOptions): Promise<void>
  /**
   * Refuses new runs, waits for the running ones to commit, and closes the connections and the ledger. Runs that still run after
   * `graceMs`, or at once with `abort`, are aborted; by default they are waited for.
   *
   * @example
   * process.once('SIGTERM', () => engine.close({ graceMs: 10_000 }))
   *
   * @throws {AgentEngineError} `invalid_options`
   */
  close(options?: CloseOptions): Promise<void>
  /** `await using engine = new AgentEngine()` closes it at the end of its block. */
  [Symbol.asyncDispose](): Promise<void>
}

/** Options of {@link Ledger.export}. */
export interface CopyOptions {
  /** Moves the ledger: nothing new is taken here any more once it is copied. Default false. */
  cutOver?: boolean
  /** How long a cut-over waits for the turns under way, in milliseconds. Default 60,000. */
  drainMs?: number
  /** Called with the sums so far. */
  onProgress?: (done: LedgerCopy) => void
}

export interface ExportOptions {
  /** Default `ledger`. */
  format?: LedgerFormat
  /** The label of the session. `pi` and `myclaw` need one; with `ledger`, the default is all sessions. */
  session?: string
}

/** Options of {@link Ledger.import}. */
export interface ImportOptions {
  /** Default `ledger`. */
  format?: LedgerFormat
  /** With `pi` and `myclaw`: the label of the imported session. Default `pi:<its id>`, `myclaw:<the name of the file>`. */
  session?: string
}

/** A part of a list. */
export interface Page<Item, After = string> {
  items: Item[]
  /** The `after` of the next page: the key of the last item. Null at the end of the list. */
  next: After | null
}

/** How a session is forked. */
export interface ForkOptions {
  label?: string
  /** The `callId` of a tool call of the turn. */
  atToolCall?: string
}

/** How a session is moved. */
export interface MoveOptions {
  /** The turn at which the session must point until then: its `threadId`, as it was read. */
  expectedHead?: string
}

/** The stored turns. Reads never wait for writes. */
export interface Ledger {
  /** Writes a finished turn, for a broker that commits turns itself, in one transaction. Resolves with the turn's id. */
  writeTurn(
    context: AssembledContext,
    result: AgentResultInput,
    options?: CallOptions,
  ): Promise<string>
  /** The session of a label or an alias, also while its first turn runs: its `threadId` is null then. */
  session(label: string, options?: CallOptions): Promise<SessionRow | null>
  /**
   * The messages that the next call would send, oldest first, of a session's label or of a turn. After a compaction they begin
   * with its summary, followed by the turns that it does not cover; {@link Ledger.ancestry} has the earlier turns.
   */
  history(labelOrTurnId: string, options?: CallOptions): Promise<HistoryMessage[]>
  turn(id: string, options?: CallOptions): Promise<TurnRow | null>
  /**
   * Creates a session that continues from `turnId`, with its persona. Default label: `fork-<ulid>`. With `atToolCall` (a call's
   * `callId`) it continues after the results of that call and of those in the same answer. The forked turn is never changed.
   *
   * @example
   * const call = result.toolCalls[0]
   * const retry = await engine.ledger.fork(result.turnId, { atToolCall: call.callId })
   * await engine.run({ ...context, sessionLabel: retry.label }).result
   *
   * @throws {AgentEngineError} `unknown_turn`, `unknown_tool_call`; `storage_constraint` for a label that is taken.
   */
  fork(turnId: string, options?: string | (ForkOptions & CallOptions)): Promise<SessionRow>
  /**
   * Moves the session's pointer to another turn of its own tree: one that ran in it, or an ancestor of the turn where it was
   * forked. The next run continues from that turn; every other turn stays in the ledger, and can be moved to again.
   *
   * @example
   * const { threadId } = await engine.ledger.session('main')
   * await engine.ledger.moveSession('main', earlier.turnId, { expectedHead: threadId })
   *
   * @throws {AgentEngineError} `unknown_session`; `unknown_turn`, also for a turn outside the tree; `stale_head` where the session
   * points at another turn than `expectedHead`; `storage_locked` while a turn of it runs, `awaiting_approval` while one waits.
   */
  moveSession(
    label: string,
    turnId: string,
    options?: MoveOptions & CallOptions,
  ): Promise<SessionRow>
  /**
   * Undoes the session's last compaction: the session's pointer moves to the turn before it, so that every message is in the
   * context again. Later turns stay in the ledger, outside the thread. Null where there is no compaction.
   */
  uncompact(label: string, options?: CallOptions): Promise<SessionRow | null>
  /**
   * The events of all runs in a session, in any process: those under way from their beginning, then all later runs. The
   * iterator ends when it is left (`break`) or when the engine closes (`engine_closed`); it does not keep the process alive.
   *
   * @throws {AgentEngineError} `invalid_label`
   */
  watch(label: string): AsyncIterableIterator<SessionEvent>
  /**
   * The turn and all its ancestors: the turn first, the root last.
   *
   * @example
   * let page: Page<TurnSummary> = await engine.ledger.ancestry(turnId)
   * while (page.next !== null) page = await engine.ledger.ancestry(turnId, { after: page.next })
   *
   * @throws {AgentEngineError} `unknown_turn`
   */
  ancestry(turnId: string, page?: PageOptions & CallOptions): Promise<Page<TurnSummary>>
  /** The children of a turn, in the order of their ids. @throws {AgentEngineError} `unknown_turn` */
  children(turnId: string, page?: PageOptions & CallOptions): Promise<Page<TurnSummary>>
  /**
   * What each of two turns has that the other has not: the last turn that both are or follow, and what came after it on each side.
   * `turns`, `messages` and `toolCalls` end at a limit, the sums do not.
   *
   * @example
   * const branch = await engine.ledger.fork(turnId, 'what-if')
   * const other = await engine.run('And if we heated?', { session: branch.label }).result
   * const { ancestor, a, b } = await engine.ledger.diff(head, other.turnId)
   * console.log(ancestor?.id, a.messages.length, b.usage.totalTokens)
   *
   * @throws {AgentEngineError} `unknown_turn`
   */
  diff(turnA: string, turnB: string, options?: DiffOptions & CallOptions): Promise<TurnDiff>
  /** Each move of a session's pointer, oldest first. @throws {AgentEngineError} `unknown_session` */
  sessionHistory(label: string, page?: PageOptions & CallOptions): Promise<Page<SessionMove>>
  /**
   * Where a session pointed at a time (a Date, or Unix milliseconds); null before its first turn.
   *
   * @example
   * const then = await engine.ledger.asOf('agent:main:main', new Date('2026-01-31T12:00:00Z'))
   * const seen = then === null ? [] : await engine.ledger.history(then.threadId)
   *
   * @throws {AgentEngineError} `unknown_session`
   */
  asOf(label: string, time: Date | number, options?: CallOptions): Promise<SessionMove | null>
  /**
   * The messages of users and assistants that contain every word of `text`, newest first. Words are compared without case; with
   * `*` at the end the last word is a prefix. Results of tools are not searched, and of each message only the first 256 KiB.
   * Every message that was committed before is found, although no commit waits for the index.
   *
   * @example
   * const { items, next } = await engine.ledger.search('invoice overd*', { limit: 20 })
   */
  search(text: string, options?: SearchOptions & CallOptions): Promise<Page<SearchHit, number>>
  /**
   * The usage of turns by session, agent, model, day (UTC) or a key of their metadata, in the order of the keys. Running turns are not included.
   *
   * @example
   * for (const { key, usage, cost } of (await engine.ledger.usage({ by: 'agent' })).items) {
   *   console.log(key, usage.totalTokens, cost ?? 'no price')
   * }
   */
  usage(filter: UsageFilter & CallOptions): Promise<Page<UsageRow>>
  /** The sessions, by their labels. @example await engine.ledger.sessions({ agentId: 'atlas', status: 'active' }) */
  sessions(filter?: SessionFilter & CallOptions): Promise<Page<SessionRow>>
  /**
   * The ended turns that match a filter: those of a session in the order of their ids, others in the order in which they were
   * written.
   *
   * @example
   * const { items } = await engine.ledger.turns({ metadata: { userId: 'u1' }, since: Date.now() - 86_400_000 })
   */
  turns(filter?: TurnFilter & CallOptions): Promise<Page<TurnSummary>>
  /**
   * Creates a session without a turn. A run creates its session itself: this is for one that has metadata before its first turn.
   *
   * @example
   * await engine.ledger.createSession('support:4711', { metadata: { userId: 'u1', channel: 'mail' } })
   *
   * @throws {AgentEngineError} `storage_constraint` for a label that is taken.
   */
  createSession(label: string, session?: SessionChange & CallOptions): Promise<SessionRow>
  /**
   * Sets what is given of a session. Metadata replaces what was there; null removes it.
   *
   * @example
   * await engine.ledger.updateSession('support:4711', { metadata: { userId: 'u1', solved: true } })
   *
   * @throws {AgentEngineError} `unknown_session`
   */
  updateSession(label: string, session: SessionChange & CallOptions): Promise<SessionRow>
  /**
   * Deletes a session: it is gone for every reader at once. Its turns stay, in no session, unless `turns` is given: then those that no
   * other session reaches are deleted too, in batches between the commits of runs. A session with a running or an interrupted turn is
   * refused. After a crash in the middle, the next deletion of any kind continues.
   *
   * @example
   * const { turns, blobs } = await engine.ledger.deleteSession('support:4711', { turns: true, dryRun: true })
   * await engine.ledger.deleteSession('support:4711', { turns: true, secure: true })
   *
   * @throws {AgentEngineError} `unknown_session`; `storage_locked` where a turn of it has not ended.
   */
  deleteSession(
    label: string,
    options?: DeleteSessionOptions & CallOptions,
  ): Promise<LedgerDeletion>
  /**
   * Deletes turns. A turn that another turn follows stays, and `retainedTurns` counts it, unless `followers` are deleted too. A session
   * whose head is deleted points at the nearest turn before it that stays. The compaction made of a deleted turn is deleted with it.
   *
   * @example
   * await engine.ledger.deleteTurns({ metadata: { userId: 'u1' } }, { followers: true, secure: true })
   *
   * @throws {AgentEngineError} `invalid_query` without any condition.
   */
  deleteTurns(
    filter: TurnSelection,
    options?: DeleteTurnsOptions & CallOptions,
  ): Promise<LedgerDeletion>
  /**
   * Deletes the sessions that were last used before a time, but not the `keep` newest, and with them the turns that no other session
   * reaches; also older turns that are in no thread. Sessions in which a turn is open stay.
   *
   * @example
   * const before = new Date(Date.now() - 90 * 86_400_000)
   * console.log(await engine.ledger.prune({ before, keep: 100, dryRun: true }))
   */
  prune(options: PruneOptions & CallOptions): Promise<LedgerDeletion>
  /**
   * Indexes the metadata of turns and sessions by a key, so that filters and reports of the key read only what they return. Without
   * an index they read all metadata. False where there is one already. Commits wait while the index is made.
   *
   * @example
   * await engine.ledger.indexMetadata('userId')
   * const { items } = await engine.ledger.usage({ by: 'metadata.userId' })
   */
  indexMetadata(key: string, options?: CallOptions): Promise<boolean>
  /** Removes the index of a key. False where there is none. @example await engine.ledger.unindexMetadata('userId') */
  unindexMetadata(key: string, options?: CallOptions): Promise<boolean>
  /** The tool calls, by turn. @example await engine.ledger.toolCalls({ toolName: 'bash', status: 'failed' }) */
  toolCalls(filter?: ToolCallFilter & CallOptions): Promise<Page<ToolCallRow>>
  /** The label of the session that a label or an alias names, whether or not the session exists yet. */
  resolve(label: string, options?: CallOptions): Promise<string>
  /**
   * Makes `alias` a name of the session `label` (or of another alias), wherever a label is accepted. This is also how a session is
   * renamed, because its label is its key and never changes. The session need not exist yet. The name of an active session is
   * refused; the name of an archived one is accepted.
   *
   * @example
   * await engine.ledger.alias('support', 'agent:main:dm:+49301234')
   * await engine.run({ ...context, sessionLabel: 'support' }).result
   *
   * @throws {AgentEngineError} `invalid_label`; `storage_constraint` for a cycle, and for more than 8 aliases in a row.
   */
  alias(alias: string, label: string, options?: CallOptions): Promise<AliasRow>
  /** Removes an alias; false where there was none. Its session is unchanged. */
  removeAlias(alias: string, options?: CallOptions): Promise<boolean>
  /** The aliases by name; with `sessionLabel`, only those that name it directly. */
  aliases(page?: PageOptions & { sessionLabel?: string } & CallOptions): Promise<Page<AliasRow>>
  /**
   * Archives a session: nothing is deleted, and an alias may get its name. Its next run makes it active again.
   *
   * @throws {AgentEngineError} `unknown_session`; `storage_locked` while a turn of it runs.
   */
  archive(label: string, options?: CallOptions): Promise<SessionRow>
  /** Makes an archived session active again. @throws {AgentEngineError} `storage_constraint` where an alias now has its name. */
  unarchive(label: string, options?: CallOptions): Promise<SessionRow>
  persona(id: string, options?: CallOptions): Promise<PersonaRow | null>
  /** The personas, by id. */
  personas(page?: PageOptions & CallOptions): Promise<Page<PersonaRow>>
  /**
   * Creates a persona, or changes its main session (default `agent:<id>:main`). That session is created on first use, and has this
   * persona.
   *
   * @throws {AgentEngineError} `storage_constraint` where another persona has that main session.
   */
  putPersona(id: string, options?: { mainSessionLabel?: string } & CallOptions): Promise<PersonaRow>
  /**
   * Read-only SQL. Never open the file with another SQLite in this process.
   *
   * A value over 64 KiB is in `blobs`, and not in its column of `messages` (`content`, `thinking`, `blocks_json`) or `tool_calls`
   * (`params_json`, `result_json`). `whole_text(name, column, blobs_json)` returns any of them as it was written; the view
   * `blob_references` lists which row refers to which blob.
   *
   * @example
   * await engine.ledger.query("SELECT whole_text('content', content, blobs_json) AS content FROM messages WHERE turn_id = ?", [id])
   */
  query(
    sql: string,
    params?: readonly (string | number | boolean | null)[],
    options?: CallOptions,
  ): Promise<QueryResult>
  /**
   * Checks the whole file: SQLite's integrity, the checksum of every row, and the invariants that {@link LedgerCheck} lists. Any
   * single changed byte of a value is found. Damage is in the report and is no error. Runs continue meanwhile.
   *
   * @example
   * const { ok, problems } = await engine.ledger.verify()
   * if (!ok) for (const { check, subject, message } of problems) console.error(check, subject, message)
   */
  verify(options?: CallOptions): Promise<LedgerReport>
  /**
   * Copies the ledger, as it is at one moment, to a new file that only its owner can read. Runs commit meanwhile.
   * Rejects with `storage_exists` (`field` is `path`) if the file exists, and never leaves a partial file.
   *
   * @example
   * const { bytes } = await engine.ledger.backup(`./backups/${Date.now()}.db`)
   */
  backup(path: string, options?: CallOptions): Promise<LedgerBackup>
  /**
   * The contents of the ledger in numbers, and its size.
   *
   * @example
   * const { turns, usage, fileBytes } = await engine.ledger.stats()
   */
  stats(options?: CallOptions): Promise<LedgerStats>
  /**
   * Rewrites the file without its free pages. Commits wait meanwhile, and the disk needs space for a second copy. Rejects
   * with `storage_locked` while another process writes, and with `storage_full`; the ledger is then unchanged.
   *
   * @example
   * const { bytesBefore, bytesAfter } = await engine.ledger.vacuum()
   */
  vacuum(options?: CallOptions): Promise<LedgerVacuum>
  /**
   * Writes sessions, as they are at one moment, to a new file that only its owner can read. Without options: all sessions in
   * the ledger's JSONL format (docs/jsonl.md), from which {@link Ledger.import} restores them unchanged. A file of `pi` or
   * `myclaw` contains one session. Running turns are not written. Rejects with `storage_exists` (`field` is `path`) and
   * `unknown_session`.
   *
   * @example
   * const { turns, problems } = await engine.ledger.export('./ledger.jsonl')
   * await engine.ledger.export('./main.jsonl', { format: 'pi', session: 'agent:main:main' })
   */
  export(path: string, options?: ExportOptions & CallOptions): Promise<LedgerExport>
  /**
   * Imports the sessions of a file. A damaged line is in `problems` with its number, and everything else is imported. Turns that
   * exist already are skipped, and the head of an existing session is never moved. Rejects with `invalid_import` (`field` is
   * `path`) for a file that does not have the format.
   *
   * @example
   * const { sessions, problems } = await engine.ledger.import('./old.jsonl', { format: 'pi' })
   * for (const { line, message } of problems) console.warn(line, message)
   */
  import(path: string, options?: ImportOptions & CallOptions): Promise<LedgerImport>
  /**
   * Copies turns, sessions and names to another ledger, a file or PostgreSQL, while turns run here. What is there is skipped, so it may
   * be called any number of times, also after it was interrupted. With `cutOver` this ledger then refuses new turns and messages
   * (`ledger_moved`), those under way end, and the rest is copied. Rejects with `storage_locked` where turns, messages, deliveries or tasks are
   * left that a copy does not have: this ledger is open again then.
   *
   * @example
   * await engine.ledger.copyTo({ url: 'postgres://db/agents' })
   * const { moved, verified } = await engine.ledger.copyTo({ url: 'postgres://db/agents' }, { cutOver: true })
   */
  copyTo(
    target: LedgerOptions | PostgresLedgerOptions,
    options?: CopyOptions & CallOptions,
  ): Promise<LedgerCopy>
}

/**
 * Copies everything that is still readable in a damaged ledger to a new one at `fresh`, page by page, even where SQLite refuses
 * the file. The damaged file is never written to. Rejects with an {@link AgentEngineError}: `storage_exists` (`field` is
 * `fresh`), `invalid_import` (`field` is `damaged`) where the file has no part of a ledger, `ledger_in_use` while an engine has it
 * open.
 *
 * @example
 * const { turns, problems } = await salvageLedger('./agent.db', './agent.saved.db')
 * for (const { code, message } of problems) console.warn(code, message)
 */
export declare function salvageLedger(
  damaged: string,
  fresh: string,
  options?: CallOptions,
): Promise<LedgerSalvage>

/** The result of a broker's own turn: the broker interface's fields; the fields that this engine adds are optional. */
export type AgentResultInput = Pick<AgentResult, 'stopReason' | 'durationMs' | 'usage'> &
  Partial<
    Omit<
      AgentResult,
      'stopReason' | 'durationMs' | 'usage' | 'messages' | 'toolCalls' | 'compaction' | 'error'
    >
  > & {
    /** `detail` is this engine's. */
    error?: Omit<AgentError, 'detail'> & Partial<Pick<AgentError, 'detail'>>
    /** A summary where `compactionType` is absent. */
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
  | 'invalid_params'
  | 'unknown_provider'
  | 'unknown_model'
  | 'unknown_profile'
  | 'engine_closed'
  | 'no_ledger'
  | 'no_memory'
  | 'ledger_foreign'
  | 'ledger_newer'
  | 'ledger_corrupt'
  | 'ledger_in_use'
  | 'ledger_replaced'
  | 'ledger_moved'
  | 'ledger_closed'
  | 'storage_full'
  | 'storage_read_only'
  | 'storage_locked'
  | 'storage_constraint'
  | 'storage_io'
  | 'unsupported'
  | 'storage_not_local'
  | 'read_expired'
  | 'no_file_descriptors'
  | 'storage_exists'
  | 'invalid_import'
  | 'stale_head'
  | 'stale_writer'
  | 'unknown_turn'
  | 'unknown_session'
  | 'unknown_run'
  | 'events_expired'
  | 'duplicate_run'
  | 'run_interrupted'
  | 'not_running'
  | 'unknown_tool_call'
  | 'invalid_target'
  | 'not_delivered'
  | 'context_failed'
  | 'delivery_failed'
  | 'unknown_approval'
  | 'unknown_fact'
  | 'already_decided'
  | 'awaiting_approval'
  | 'invalid_query'
  | 'provider_failed'
  | 'compaction_failed'
  | 'mcp_failed'
  | 'result_too_large'
  | 'addon_not_loaded'
  | 'internal'

/** Something that is wrong with an input. */
export interface AgentEngineIssue {
  /** Where: `history[3].content`. */
  path: string
  /** What is wrong, and what to pass instead. */
  message: string
}

/** A call was refused before anything was written or sent, or the ledger failed. */
export declare class AgentEngineError extends Error {
  readonly name: 'AgentEngineError'
  readonly code: AgentEngineErrorCode
  /**
   * Everything that is wrong with an input, in the order in which it was found; the message has a line for each. Empty where the error is
   * not about a value.
   *
   * @example
   * try {
   *   engine.run(context)
   * } catch (error) {
   *   if (error instanceof AgentEngineError) for (const { path, message } of error.issues) console.error(path, message)
   * }
   */
  readonly issues: readonly AgentEngineIssue[]
  /** The path of the first invalid value: `history[3].content`. */
  readonly path?: string
  /** The same as `path`. */
  readonly field?: string
  /** With `provider_failed`: the error of the provider or of the connection. */
  readonly error?: AgentError
}

/** A model that answers from a script: for tests and demos, without key or network. */
export interface ScriptedProvider {
  /** Opens the gate `name`: calls that wait at it continue, and later calls do not wait. */
  open(name: string): void
  /** The requests of the engine, oldest first (the last 1,000). */
  readonly requests: readonly ScriptedRequest[]
}

/**
 * Creates a scripted provider. Each call of the model consumes one reply.
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

/**
 * The parts of a session's label, where it follows one of the known grammars; kind `unknown` otherwise. Never throws.
 *
 * @example
 * parseSessionKey('agent:atlas:telegram:group:-100:thread:7').threadId // '7'
 */
export declare function parseSessionKey(label: string): SessionKey

/** Options of {@link buildSessionKey}. */
export interface SessionKeyOptions {
  /** Default `main`. */
  agentId?: string | undefined
  /** Which session direct messages go to. Default `main`: all to the agent's main session. */
  dmScope?: DmScope | undefined
}

/**
 * The label of an event's session. Different peers have different labels, whatever their ids are: one that could be read as
 * another part of a label is percent-encoded.
 *
 * @example
 * buildSessionKey({ channel: 'telegram', peer: { kind: 'group', id: '123' }, threadId: '456' })
 * // 'agent:main:telegram:group:123:thread:456'
 *
 * @throws {AgentEngineError} `invalid_options`
 */
export declare function buildSessionKey(event: RoutedEvent, options?: SessionKeyOptions): string

/**
 * A system prompt of its parts, in a fixed order; a section without a text is left out. The same parts give the same text, so
 * that the provider's prompt cache has it.
 *
 * @example
 * buildSystemPrompt({
 *   identity: 'You are Atlas.',
 *   tools: [{ name: 'read', description: 'Reads a file.' }],
 *   files: [{ path: 'AGENTS.md', content: readFileSync('AGENTS.md', 'utf8') }],
 * })
 *
 * @throws {AgentEngineError} `invalid_options`
 */
export declare function buildSystemPrompt(parts: PromptParts): string

/** A file that a patch changes. */
export interface PatchChange {
  path: string
  /** A file that is moved is `deleted` at its old path and `added` at its new one. */
  kind: 'added' | 'modified' | 'deleted'
  /** The text after the patch; null where it is deleted. */
  content: string | null
  /** The file that it was before, where it was moved or copied. */
  source?: string
  /** Where the hunks were applied, in the order of the patch. */
  hunks: PatchHunk[]
}

/** Where a hunk was applied. */
export interface PatchHunk {
  /** The line of the patch where it begins, from 1. */
  patchLine: number
  /** The line of the file, before the patch, from 1. */
  fileLine: number
  /** How far that is from the line that its header names; null where it names none. */
  offset: number | null
  /** What had to be ignored to find it; each also ignores what those before it do. */
  ignored: 'nothing' | 'line_endings' | 'trailing_whitespace' | 'whitespace' | 'punctuation'
}

/** What came of a patch: all changes, or all problems. */
export type PatchOutcome =
  | { applied: true; changes: PatchChange[] }
  | { applied: false; problems: { line: number; message: string }[] }

/**
 * Applies a patch to texts in memory, all of it or nothing: a unified diff (of git or `diff -u`), or the form that begins with
 * `*** Begin Patch`. Lines may have moved, and a model's slips in white space and quotes are forgiven where only one place fits.
 * What it reads and writes is the caller's: a path that is no key of `files` does not exist.
 *
 * @example
 * const outcome = await applyPatch(patch, { 'a.txt': await readFile('a.txt', 'utf8') })
 * if (outcome.applied) for (const { path, content } of outcome.changes) console.log(path, content)
 *
 * @throws {AgentEngineError} `invalid_options`
 */
export declare function applyPatch(
  patch: string,
  files: Readonly<Record<string, string>>,
): Promise<PatchOutcome>

/** What a host configures of an agent. It may have any other field. */
export interface AgentConfig {
  /** The model's id, or `provider/model`. */
  model?: string | undefined
  provider?: string | undefined
  /** The models to use when this one fails, in order. */
  fallbacks?: readonly (string | ModelName)[] | undefined
}

/** The agents of a host, and which sessions they have. */
export interface AgentsConfig<Config extends AgentConfig = AgentConfig> {
  /** By id. */
  agents: Readonly<Record<string, Config>>
  /** What an agent has where its own definition has nothing. */
  defaults?: Partial<Config> | undefined
  /** The agent of what no binding matches. Default: the only agent, else `main`. */
  defaultAgent?: string | undefined
  /** The most specific one that matches decides: peer, guild, account, channel, `accountId: '*'`. */
  bindings?: readonly Binding[] | undefined
  /** Agents with a main session of their own, by id. Default of `mainSession`: `agent:<persona>:main`. */
  personas?:
    | Readonly<
        Record<
          string,
          {
            agentId: string
            mainSession?: string | undefined
            /** The files of its agent's workspace that its prompts have, in their order; in place of the agent's `files`. */
            files?: readonly string[] | undefined
          }
        >
      >
    | undefined
  /** Which session the direct messages of events go to. Default `main`: all to the agent's main session. */
  dmScope?: DmScope | undefined
}

/** The ids of all agents, in alphabetical order. */
export declare function listAgentIds(config: AgentsConfig): string[]

/**
 * The agent of a session: the one that its label names, if it is configured; its persona's; the one whose binding matches where
 * the label says the session is; the default.
 *
 * @example
 * resolveSessionAgentId({ agents: { main: {}, coder: {} } }, 'agent:coder:main') // 'coder'
 */
export declare function resolveSessionAgentId(config: AgentsConfig, label: string): string

/** An agent's fields over the defaults, with its models resolved; undefined where it is not configured. */
export declare function resolveAgentConfig<Config extends AgentConfig>(
  config: AgentsConfig<Config>,
  agentId: string,
): Config | undefined

/**
 * An agent's models: its own, then the defaults. Undefined where it is not configured, or has no model.
 *
 * @example
 * resolveAgentModel({ agents: { main: { model: 'anthropic/claude-haiku-4-5' } } }, 'main')
 * // { provider: 'anthropic', model: 'claude-haiku-4-5', fallbacks: [] }
 */
export declare function resolveAgentModel(
  config: AgentsConfig,
  agentId: string,
): AgentModel | undefined

/** An agent of a {@link Broker}. */
export interface BrokerAgent extends AgentConfig {
  /** Who the agent is: the first section of its system prompt. */
  identity?: string | undefined
  /** The whole system prompt, in place of one that is built of the agent's parts. */
  systemPrompt?: string | undefined
  /** More parts of its system prompt. Identity and tools are those of the agent. */
  prompt?: Omit<PromptParts, 'identity' | 'tools'> | undefined
  /** The name of its tools in `toolsets`. Default: none. */
  toolset?: string | undefined
  /** Default `unified`. */
  role?: AgentRole | undefined
  /** The root of its workspace. Default: the working directory. */
  workspace?: string | undefined
  /**
   * The files of `workspace` that its prompts have, in their order: a missing one is a line of the prompt. Default: AGENTS.md, SOUL.md,
   * USER.md, TOOLS.md, IDENTITY.md, HEARTBEAT.md, MEMORY.md and BOOTSTRAP.md, as far as they exist. A session's prompt has them as they
   * were at its first turn, or at its last compaction.
   */
  files?: readonly string[] | undefined
  thinking?: ThinkingConfig | undefined
  maxIterations?: number | undefined
  maxResponseTokens?: number | undefined
  temperature?: number | undefined
  /** Limit of a turn in milliseconds. Default 600,000. */
  timeoutMs?: number | undefined
  /** What its turns may do at most. Holds together with the engine's `policy`. */
  policy?: RunPolicy | readonly RunPolicy[] | undefined
  /** When a session of the agent starts another thread, or a function of the session's label. Default: never. */
  reset?: SessionReset | ((sessionLabel: string) => SessionReset | null | undefined) | undefined
  /** What it may do with other agents. Default: nothing; it has none of the tools for it. */
  subagents?: SubagentOptions | undefined
  /** What one of its turns may spend, with the tasks that it gives. Default: no limit but the engine's `budgets`. */
  budgets?: AgentBudget | undefined
}

/**
 * A hard limit of a turn, in tokens, in US dollars, or in both. A task that the turn gives is reserved in it before it starts: it gets the
 * smaller of its own agent's budget and of what is left. What it has used is settled when it ends.
 */
export interface AgentBudget {
  /** Tokens, prompt and answer, as the provider counts them. */
  maxTokens?: number | null | undefined
  /** US dollars. A model without a price cannot be called then. */
  maxCost?: number | null | undefined
}

/**
 * When the thread of a session is over: its next turn starts another one under the same label, and knows nothing of the old
 * one, which stays in the ledger. With both, the sooner counts.
 */
export interface SessionReset {
  /** After so many milliseconds without a turn. */
  idleMs?: number | undefined
  /** At the first turn after this time of the day, such as `04:00`. */
  dailyAt?: string | undefined
  /** The time zone of `dailyAt`. Default that of this process. */
  zone?: string | undefined
}

/** What an agent may do with other agents. */
export interface SubagentOptions {
  /** The agents that it may start and write to. Default: itself. */
  allowAgents?: readonly string[] | undefined
  /** The models that it may name for a task. Default: those of the agent that gets the task. */
  allowModels?: readonly string[] | undefined
  /** How deep agents may start agents. Default 3. */
  maxDepth?: number | undefined
  /** How many agents one turn may start. Default 5. */
  maxChildren?: number | undefined
  /** How many agents of a session may be at work at once. Default 8. */
  maxConcurrent?: number | undefined
  /** Limit of a task in milliseconds, with its wait in the queue. Default: none but that of the agent's turn. */
  timeoutMs?: number | undefined
}

/** The turn that tools are for. */
export interface TurnScope {
  sessionLabel: string
  agentId: string
  turnId: string
  /** What the request of its last message had; undefined where an interrupted turn is resumed. */
  identity: unknown
  permissions: unknown
}

/** The turn whose context is put together. */
export interface LayerScope extends TurnScope {
  /** Its current message. */
  message: Message
  /** What the author of that message wrote. */
  text: string
}

/** How a broker puts contexts together. */
export interface ContextOptions {
  /**
   * Replaces, adds or removes layers of a context. `workspace`, `persona` and `session` are the system prompt, in the order of the list; a
   * text for `cortex` or `event` is put into a tag of its own before the message's text. A throw, or 30 s of silence, fails the messages of
   * the turn as `context_failed`. A message that is to enter a running turn has its own layers only, and only `cortex` and `event` count.
   */
  layers?:
    | ((
        layers: ContextLayer[],
        scope: LayerScope,
      ) => readonly LayerChange[] | Promise<readonly LayerChange[]>)
    | undefined
  /**
   * What a turn gets of the engine's memory, as a `cortex` layer: at most `limit` hits (default 10) within `tokens` (default 1,000), none of
   * which its context has anyway. `false`: nothing. A search that fails costs the layer, and not the turn.
   */
  memory?: boolean | { limit?: number; tokens?: number } | undefined
  /** The zone of times in contexts, `Europe/Berlin`. Default: that of the process. */
  timeZone?: string | undefined
}

/** A layer as a host's function returns it: it is measured anew. */
export type LayerChange = Pick<ContextLayer, 'name' | 'source' | 'text'>

/** Tools, or a function that gives those of a turn. */
export type Toolset =
  | readonly AgentTool[]
  | ((scope: TurnScope) => readonly AgentTool[] | Promise<readonly AgentTool[]>)

/** How messages wait for a session that is busy. */
export interface QueueOptions {
  /** Default `queue`. */
  mode?: QueueMode | undefined
  /** The mode of messages of a source, where a message has none. */
  bySource?: Readonly<Record<string, QueueMode>> | undefined
  /** What a `steer` message does: it enters the running turn (`inject`, the default), or is an `interrupt`. */
  steerPolicy?: 'inject' | 'interrupt' | undefined
  /** How long a `collect` message of a busy session waits for others, in milliseconds. Default 1,000. */
  debounceMs?: number | undefined
  /** How many messages of a session wait at most. Default 20. */
  cap?: number | undefined
  /** What happens to a message over the cap. Default `summarize`. */
  drop?: DropPolicy | undefined
  /** How often the sessions of other processes are looked at, in milliseconds. Default 2,000. */
  pulseMs?: number | undefined
}

/** The answer of a smart route: exactly one target, with a confidence of 0 to 1. */
export interface SmartRoute {
  thread?: string | undefined
  session?: string | undefined
  persona?: string | undefined
  confidence: number
}

/** How a {@link Broker} hands out deliveries. */
export interface OutboxOptions {
  /** Answers that are not delivered. Default `NO_REPLY` and `HEARTBEAT_OK`. */
  silent?: readonly string[] | undefined
  /**
   * The most milliseconds that the `delivery` listener has for one. Then it has failed: it is the event `error` with `delivery_failed`, and is
   * handed out again like one that was rejected. Default 60,000.
   */
  timeoutMs?: number | undefined
}

/** Options of a {@link Broker}. */
export interface BrokerOptions extends AgentsConfig<BrokerAgent> {
  /** Tools by name; an agent names its own with `toolset`. */
  toolsets?: Readonly<Record<string, Toolset>> | undefined
  /** `nexus`: messages of users interrupt, those of workers and timers follow. */
  queue?: QueueOptions | 'nexus' | undefined
  /** How answers are handed to the `delivery` listener. */
  outbox?: OutboxOptions | undefined
  /** How many turns run at once, those of workers apart. Default 4 and 8. */
  lanes?: { main?: number | undefined; worker?: number | undefined } | undefined
  /** Called first for a target with `smart: true`. What it does not answer within 2 s, or not surely, goes to the given target. */
  smartRoute?:
    | ((query: {
        message: string
        target: RoutingTarget
      }) => SmartRoute | null | undefined | Promise<SmartRoute | null | undefined>)
    | undefined
  /** From this confidence on a smart route is taken. Default 0.5. */
  smartRouteConfidence?: number | undefined
  context?: ContextOptions | undefined
  /** Decides about the tool calls of all turns, as {@link RunHooks.beforeToolCall}; in place of that of the engine. */
  beforeToolCall?: RunHooks['beforeToolCall'] | undefined
}

/** The event that a message came with, as the model reads it. */
export interface MessageEventContext {
  /** A text beside the message: what it quotes, what happened before. */
  text?: string | undefined
  /** An attribute of the event: `channel`, `from`, `time`. */
  [attribute: string]: string | number | boolean | null | undefined
}

/** A message for an agent. All but `to` and `message` may be absent. */
export interface NexusRequest {
  /** Exactly one of `thread`, `session`, `persona` and `event`. */
  to: RoutingTarget
  /** A text, or the blocks of a user's message. */
  message: string | Message
  /** Who sends: `user` (the default), `worker`, `timer`, … */
  source?: string | undefined
  mode?: QueueMode | undefined
  /**
   * What the message came with: attributes, and a `text`. It is a block of its own before the message (`origin: 'event'`), with the time
   * unless it names one. Default: the fields of `to.event`; without both there is no such block.
   */
  event?: MessageEventContext | undefined
  /** The source's id of the event: a message of an event that was sent before is a duplicate. */
  eventId?: string | undefined
  /** Where it came from; only messages of one route are collected. Default: that of `to.event`. */
  route?: Route | undefined
  /** Who sent it. Messages share a turn only where identity and permissions are equal. */
  identity?: unknown
  /** What the sender may do; stored with the turn. */
  permissions?: unknown
  /** Where the answer goes; passed through in `stream_start`, and in the turn's {@link Delivery}. */
  target?: unknown
  /** Whether the turn has a {@link Delivery}, if there is a target. Default `true` for `send`, `false` for `execute`. */
  outbox?: boolean | undefined
}

/** The proof that a message is stored: it is delivered, or visibly fails, exactly once. */
export interface SendReceipt {
  disposition: 'started' | 'queued' | 'steered' | 'duplicate' | 'rejected'
  /** The message's id in the queue; of a duplicate that of the first one. */
  itemId: string
  sessionLabel: string
  /** Whether the session was made for it, because its thread had been continued. */
  isFork: boolean
  /** Why the given target was taken, and not a smart route. */
  smartFallback?: SmartFallback
}

/** A message in a queue. */
export interface QueuedMessage {
  id: string
  sessionLabel: string
  source: string
  mode: QueueMode
  route: Route
  message: Message
  status: ItemStatus
  /** Why it has failed. */
  reason: FailedReason | null
  detail: string | null
  eventId: string | null
  /** The agent that has sent it; null for any other sender. */
  from: MessageSender | null
  /** How many turns were tried for it. */
  tries: number
  /** How many of them failed without being the provider's trouble. */
  failures: number
  /** It does not run before this time, in Unix milliseconds. */
  notBefore: number
  turnId: string | null
  createdAt: number
  claimedAt: number | null
  deliveredAt: number | null
}

/** A message that is followed. */
export interface MessageExecution extends BrokerExecution {
  /** When it is stored. */
  receipt: Promise<SendReceipt>
  /** The id of the run that has the message; undefined until one has begun. Each try is a run of its own. */
  readonly runId: string | undefined
}

/** The answer of an ended turn, for the place where its message came from. */
export interface Delivery {
  /** The same whenever it is handed out: the key by which a platform recognises a repetition. */
  turnId: string
  sessionLabel: string
  /** The `target` of the newest message of the turn that has one. */
  target: unknown
  /** How the turn has ended: a failed or aborted one may have a part of an answer, or none. */
  status: 'completed' | 'aborted' | 'failed'
  text: string
  /** The parts of the answer. */
  blocks: Block[]
  /** Those that are no text. */
  attachments: Block[]
  error: TurnError | null
  /** 1 at first; more where a former attempt has failed, or its process has ended. */
  attempt: number
}

/** A row of the outbox. */
export interface StoredDelivery {
  turnId: string
  sessionLabel: string
  target: unknown
  status: DeliveryStatus
  /** How often it was handed out. */
  tries: number
  /** How often that failed. */
  failures: number
  /** It is not handed out before this time, in Unix milliseconds. */
  notBefore: number
  /** The last failure. */
  error: string | null
  createdAt: number
  deliveredAt: number | null
}

/** Which deliveries are listed. */
export interface DeliveryListOptions {
  /** Default `pending`. */
  status?: DeliveryStatus | undefined
  session?: string | undefined
  /** The turn of the last delivery of the previous page. */
  after?: string | undefined
  /** 1 to 1,000. Default 100. */
  limit?: number | undefined
}

/** What becomes of the times of a schedule that passed while no process could take them. `once`: the latest counts. */
export type MisfirePolicy = 'skip' | 'once'

/** A message that is sent at times. Exactly one of `cron`, `at` and `every`. */
export interface ScheduleOptions {
  /** The host's id. The same schedule defined again stays as it is; another one replaces it. */
  id: string
  /** Minute, hour, day of the month, month, weekday; or `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`. */
  cron?: string | undefined
  /** The time zone of `cron`, such as `Europe/Berlin`. Default that of this process. */
  zone?: string | undefined
  /** Once, at this time: an ISO text or Unix milliseconds. */
  at?: Date | string | number | undefined
  /** An interval in milliseconds, from 1,000 on. */
  every?: number | undefined
  /** A time from which intervals are counted; the first due time, where it is yet to come. Default 1970, so that `3_600_000` is every full hour of UTC. */
  from?: Date | string | number | undefined
  /** Default `once`. A time is missed when it is a minute late. */
  misfire?: MisfirePolicy | undefined
  /** Where it goes; no `thread`, and no `smart`. */
  to: RoutingTarget
  message: string | Message
  /** Default `timer`. */
  source?: string | undefined
  mode?: QueueMode | undefined
  route?: Route | undefined
  identity?: unknown
  permissions?: unknown
  target?: unknown
  /** Default `true`, as for `send`. */
  outbox?: boolean | undefined
}

/** A schedule, as it is stored. */
export interface Schedule {
  id: string
  cron: string | null
  zone: string | null
  at: number | null
  every: number | null
  from: number | null
  misfire: MisfirePolicy
  sessionLabel: string
  message: Message
  /** When it is due next, in Unix milliseconds; null where no time comes. */
  nextAt: number | null
  /** The last due time for which a message was sent. */
  lastAt: number | null
  createdAt: number
}

/** The last event that a reader of a session has had. */
export interface SubscribeOptions {
  /** Its run. Default: none; then the reader has missed nothing. */
  runId?: string | undefined
  /** Its number in that run. Default 0: the run from its begin. */
  afterSeq?: number | undefined
}

/** What a {@link Broker} emits. */
export interface BrokerEvents {
  /** A turn has begun here. */
  run: { run: AgentRun; turnId: string; sessionLabel: string; agentId: string; itemIds: string[] }
  /**
   * Messages have ended, wait for another try, or have failed without a turn (`turnId` null, as where the turn was another process's).
   * The end of a message is in one event.
   */
  queue: { turnId: string | null; items: QueuedMessage[] }
  /**
   * The answer of a turn, to be passed on. It is acknowledged when the function's promise resolves; after a throw it is handed
   * out again, seven times at most. One listener, which keeps the process alive until it leaves or the broker is closed.
   */
  delivery: Delivery
  /** A delivery has failed seven times, and waits for {@link Broker.redeliver}. */
  deliveryParked: StoredDelivery
  /** A session has begun to run, to answer, to compact, or does nothing any more. Emitted for the turns of this process. */
  session: {
    sessionLabel: string
    agentId: string
    turnId: string
    state: 'idle' | 'running' | 'streaming' | 'compacting'
  }
  /** What a turn of this process has used, its compactions apart; `cost` in US dollars is null where a price is unknown. */
  usage: {
    sessionLabel: string
    agentId: string
    turnId: string
    usage: TokenUsage
    cost: number | null
  }
  /**
   * A call of a turn of this process waits for a decision, or was decided about: the row, as {@link Broker.approvals} has it. A turn
   * that ended in another process while it waited is only in the ledger.
   */
  approval: { phase: ApprovalPhase; approval: Approval }
  /** The ledger failed, or a turn could not begin. */
  error: Error
}

/**
 * Sends messages to agents: finds the session of each, and runs one turn of a session at a time, in the order of its queue. What
 * has a receipt survives the process.
 *
 * @example
 * const engine = new AgentEngine({ ledger: { path: 'nexus.db' } })
 * const broker = new Broker(engine, { agents: { main: { model: 'anthropic/claude-haiku-4-5' } } })
 * const { result } = broker.execute({ to: { session: 'main' }, message: 'Hi' })
 * console.log((await result).text)
 * await broker.close()
 */
export declare class Broker {
  /** @throws {AgentEngineError} `invalid_options`, `no_ledger` */
  constructor(engine: AgentEngine, options: BrokerOptions)

  /**
   * Queues a message. Resolves when it is stored.
   *
   * @throws {AgentEngineError} `invalid_target`, `invalid_options`, `invalid_label`, `unknown_turn`; any of storage
   */
  send(request: NexusRequest): Promise<SendReceipt>
  /**
   * {@link Broker.send}, followed: `result` is that of the last turn that was tried for the message. It rejects with
   * `not_delivered` where no turn has it: a duplicate, or a message that was rejected, dropped or cancelled.
   */
  execute(request: NexusRequest): MessageExecution
  /** The context of a message, as a turn would have it now. */
  assembleContext(request: NexusRequest): Promise<AssembledContext>
  /**
   * Runs an assembled context, past the queue: when its session has no turn. The events `run`, `session`, `usage` and `approval` have it as
   * any turn. Messages of the queue wait for its end: its handle steers it, and {@link Broker.abort} ends it.
   *
   * @throws {AgentEngineError} `invalid_context`, `invalid_label`; `engine_closed` where the broker is closed
   */
  runAgent(assembled: AssembledContext): BrokerExecution
  /** {@link Broker.runAgent}, in a session. */
  startBrokerExecution(
    assembled: AssembledContext,
    options?: { sessionKey?: string; sessionLabel?: string },
  ): BrokerExecution
  /** The session and the agent of a target. A thread's session is that of its turn, or made when a message is sent. */
  route(target: RoutingTarget): { thread?: string; sessionLabel?: string; agentId?: string }
  /** What a session is doing in this process. */
  state(label: string): 'idle' | 'running' | 'streaming' | 'compacting'
  /** The messages of a session that wait or are in a turn, in their order. */
  queue(label: string): Promise<QueuedMessage[]>
  /** Cancels a message that waits; false for any other. */
  cancel(itemId: string): Promise<boolean>
  /** A task that an agent has given another one; null for an unknown id. */
  dispatch(id: string): Promise<Dispatch | null>
  /** The newest 100 tasks that a session has given, oldest first. */
  dispatches(label: string): Promise<Dispatch[]>
  /** Cancels a task: one that waits has ended then, and the turn of another one is aborted. Null for an unknown id. */
  cancelDispatch(id: string): Promise<Dispatch | null>
  /** Aborts the turn of a session, in any process. `queue: 'clear'` also cancels the messages that wait. Default `keep`. */
  abort(label: string, options?: { queue?: 'keep' | 'clear' }): Promise<void>
  /** The queue of a session accepts messages, and neither begins, steers nor aborts a turn. */
  suspendQueue(label: string): Promise<void>
  resumeQueue(label: string): Promise<void>
  /** A new session that begins at a turn, whatever follows that turn; with a message, its first one is sent. */
  fork(
    turnId: string,
    message?: string | Message,
  ): Promise<{ sessionLabel: string; receipt: SendReceipt | null }>
  /** The calls that wait for a decision, or have one. See {@link AgentEngine.approvals}. */
  approvals(filter?: ApprovalFilter & CallOptions): Promise<Page<Approval>>
  /** Lets a call run that waits for an approval. See {@link AgentEngine.approve}. */
  approve(approvalId: string, options?: ApproveOptions & CallOptions): Promise<Approval>
  /** Refuses a call that waits for an approval, with a reason for the model. See {@link AgentEngine.deny}. */
  deny(approvalId: string, options?: string | (DenyOptions & CallOptions)): Promise<Approval>
  /**
   * The events of all runs in a session, in any process, from those of the run under way on. See {@link Ledger.watch}. With the last event
   * that a reader has had, what it has missed comes first, from the ledger.
   *
   * @throws {AgentEngineError} `invalid_options`; `unknown_run`, `events_expired` of the first `next()`
   */
  subscribe(label: string, options?: SubscribeOptions): AsyncIterableIterator<SessionEvent>
  /** Calls back with what the broker emits. Returns a function that ends it. */
  on<Name extends keyof BrokerEvents>(
    name: Name,
    listener: (event: BrokerEvents[Name]) => void,
  ): () => void
  /**
   * Sends a message at times: each due time has one message, whichever process with a broker takes it. Its event id is
   * `schedule:<id>:<due time>`.
   *
   * @throws {AgentEngineError} `invalid_target`, `invalid_options`; any of storage
   */
  schedule(schedule: ScheduleOptions): Promise<Schedule>
  /** Removes a schedule. False where there is none. */
  unschedule(id: string): Promise<boolean>
  schedules(): Promise<Schedule[]>
  /** The host has passed the answer of a turn on itself. False where no delivery of it waits. */
  delivered(turnId: string): Promise<boolean>
  /** Hands a parked delivery out again. False where it is not parked. */
  redeliver(turnId: string): Promise<boolean>
  /** The deliveries with a status, oldest first. */
  deliveries(options?: DeliveryListOptions): Promise<StoredDelivery[]>
  /**
   * Begins no turn from now on, and waits for those that run; after `drainMs` they are aborted. A turn that waits for an approval is left
   * waiting, and one that waits for such an agent is left open: its run rejects with `engine_closed`. Both, and the messages that wait,
   * are taken over by the next broker on the ledger. The engine stays open.
   */
  close(options?: { drainMs?: number }): Promise<void>
}
