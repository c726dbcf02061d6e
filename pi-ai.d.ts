// The types of `@nexus/agent-engine/pi-ai`: what `@mariozechner/pi-ai` (0.54 to 0.73) exports for calls of models, over the engine. Written by
// hand; `lib/pi-ai` is checked against them. They import nothing of pi: its own types fit by structure, in both directions.

export type KnownApi =
  | 'anthropic-messages'
  | 'azure-openai-responses'
  | 'bedrock-converse-stream'
  | 'google-generative-ai'
  | 'google-vertex'
  | 'mistral-conversations'
  | 'openai-completions'
  | 'openai-responses'
/** The wire API of a model; names of others can be registered. */
export type Api = KnownApi | (string & {})
export type Provider = string
export type ThinkingLevel = 'minimal' | 'low' | 'medium' | 'high' | 'xhigh'
export type CacheRetention = 'none' | 'short' | 'long'
/** The engine streams over HTTP: any transport is accepted, and none is used. */
export type Transport = any

/** Budgets of the thinking levels, in tokens. */
export interface ThinkingBudgets {
  minimal?: number
  low?: number
  medium?: number
  high?: number
}

export interface StreamOptions {
  temperature?: number
  maxTokens?: number
  signal?: AbortSignal
  apiKey?: string
  transport?: Transport
  /** Default: `short`, or `long` where `PI_CACHE_RETENTION` says so. */
  cacheRetention?: CacheRetention
  sessionId?: string
  /** Sees the body before it is sent. It may change it in place, or return another one. */
  onPayload?: (payload: any, model?: any) => any
  /** Sees the status and the headers of each response. The request takes the way of `fetch`. */
  onResponse?: (response: any, model?: any) => void | Promise<void>
  /** Sends the request in place of the engine's own client, for a proxy or a recording; slower. Not for Amazon Bedrock. */
  fetch?: typeof fetch
  /** A call that failed or was aborted rejects with a {@link ModelCallError}. Default: its answer has `stopReason: 'error'`, as in pi. */
  throwOnError?: boolean
  headers?: Record<string, string>
  timeoutMs?: number
  /** How often a call is sent again after a failure that passes, as long as no text of its answer has arrived: up to 10. Default: 0. */
  maxRetries?: number
  /** Accepted, and not used: a wait of more than 60 s that a server requests is never waited for. */
  maxRetryDelayMs?: number
  metadata?: Record<string, unknown>
}

export type ProviderStreamOptions = StreamOptions & Record<string, unknown>

export interface SimpleStreamOptions extends StreamOptions {
  reasoning?: ThinkingLevel
  thinkingBudgets?: ThinkingBudgets
}

/** The name of a provider, of those that pi knows. */
export type KnownProvider =
  | 'amazon-bedrock'
  | 'anthropic'
  | 'azure-openai-responses'
  | 'cerebras'
  | 'cloudflare-ai-gateway'
  | 'cloudflare-workers-ai'
  | 'deepseek'
  | 'fireworks'
  | 'github-copilot'
  | 'google'
  | 'google-antigravity'
  | 'google-gemini-cli'
  | 'google-vertex'
  | 'groq'
  | 'huggingface'
  | 'kimi-coding'
  | 'minimax'
  | 'minimax-cn'
  | 'mistral'
  | 'moonshotai'
  | 'moonshotai-cn'
  | 'openai'
  | 'openai-codex'
  | 'opencode'
  | 'opencode-go'
  | 'openrouter'
  | 'vercel-ai-gateway'
  | 'xai'
  | 'xiaomi'
  | 'xiaomi-token-plan-ams'
  | 'xiaomi-token-plan-cn'
  | 'xiaomi-token-plan-sgp'
  | 'zai'
export type ModelThinkingLevel = 'off' | ThinkingLevel
export type ThinkingLevelMap = Partial<Record<ModelThinkingLevel, string | null>>
export interface ProviderResponse {
  status: number
  headers: Record<string, string>
}
/** A text signature of OpenAI Responses, in the later of its two forms. */
export interface TextSignatureV1 {
  v: 1
  id: string
  phase?: 'commentary' | 'final_answer'
}

/** Options of a call that is not simple, by the API. What the engine does not send has no effect. */
export type AnthropicEffort = 'low' | 'medium' | 'high' | 'xhigh' | 'max'
export type AnthropicThinkingDisplay = 'summarized' | 'omitted'
export interface AnthropicOptions extends StreamOptions {
  thinkingEnabled?: boolean
  thinkingBudgetTokens?: number
  /** Of models that decide themselves how much they think. */
  effort?: any
  toolChoice?: 'auto' | 'any' | 'none' | { type: 'tool'; name: string }
  /** Accepted, and not used. */
  thinkingDisplay?: AnthropicThinkingDisplay
  /** Accepted, and not used. */
  interleavedThinking?: boolean
  /** Accepted, and not used: `fetch` sends the request in place of the engine's client. */
  client?: any
}
export interface OpenAICompletionsOptions extends StreamOptions {
  toolChoice?: 'auto' | 'none' | 'required' | { type: 'function'; function: { name: string } }
  reasoningEffort?: ThinkingLevel
}
export interface OpenAIResponsesOptions extends StreamOptions {
  reasoningEffort?: ThinkingLevel
  /** Accepted, and not used. */
  reasoningSummary?: 'auto' | 'detailed' | 'concise' | null
  /** Accepted, and not used. */
  serviceTier?: any
}
export interface AzureOpenAIResponsesOptions extends StreamOptions {
  reasoningEffort?: ThinkingLevel
  /** Accepted, and not used; so are the next ones: the model's `baseUrl` names the resource. */
  reasoningSummary?: 'auto' | 'detailed' | 'concise' | null
  azureApiVersion?: string
  azureResourceName?: string
  azureBaseUrl?: string
  azureDeploymentName?: string
}
export type GoogleThinkingLevel =
  | 'THINKING_LEVEL_UNSPECIFIED'
  | 'MINIMAL'
  | 'LOW'
  | 'MEDIUM'
  | 'HIGH'
export interface GoogleOptions extends StreamOptions {
  toolChoice?: 'auto' | 'none' | 'any'
  thinking?: { enabled: boolean; budgetTokens?: number; level?: GoogleThinkingLevel }
}
export interface GoogleVertexOptions extends GoogleOptions {
  /** Accepted, and not used; so is `location`: the environment or the model's `baseUrl` names them. */
  project?: string
  location?: string
}
export interface MistralOptions extends StreamOptions {
  toolChoice?:
    | 'auto'
    | 'none'
    | 'any'
    | 'required'
    | { type: 'function'; function: { name: string } }
  /** Accepted, and not used. */
  promptMode?: 'reasoning'
  reasoningEffort?: 'none' | 'high'
}
export type BedrockThinkingDisplay = 'summarized' | 'omitted'
export interface BedrockOptions extends StreamOptions {
  toolChoice?: 'auto' | 'any' | 'none' | { type: 'tool'; name: string }
  reasoning?: ThinkingLevel
  thinkingBudgets?: ThinkingBudgets
  /** Accepted, and not used; so are the next ones: the environment has the region and the credentials. */
  region?: string
  profile?: string
  interleavedThinking?: boolean
  thinkingDisplay?: BedrockThinkingDisplay
  requestMetadata?: Record<string, string>
  bearerToken?: string
}

/** Differences of servers that a model may declare. Accepted, and not read: see {@link Model}. */
export interface OpenAICompletionsCompat {
  supportsStore?: boolean
  supportsDeveloperRole?: boolean
  supportsReasoningEffort?: boolean
  supportsUsageInStreaming?: boolean
  maxTokensField?: 'max_completion_tokens' | 'max_tokens'
  requiresToolResultName?: boolean
  requiresAssistantAfterToolResult?: boolean
  requiresThinkingAsText?: boolean
  requiresMistralToolIds?: boolean
  requiresReasoningContentOnAssistantMessages?: boolean
  thinkingFormat?: any
  openRouterRouting?: OpenRouterRouting
  vercelGatewayRouting?: VercelGatewayRouting
  zaiToolStream?: boolean
  supportsStrictMode?: boolean
  cacheControlFormat?: 'anthropic'
  sendSessionAffinityHeaders?: boolean
  supportsLongCacheRetention?: boolean
}
export interface OpenAIResponsesCompat {
  sendSessionIdHeader?: boolean
  supportsLongCacheRetention?: boolean
}
export interface AnthropicMessagesCompat {
  supportsEagerToolInputStreaming?: boolean
  supportsLongCacheRetention?: boolean
}
export interface OpenRouterRouting {
  only?: string[]
  order?: string[]
  [field: string]: any
}
export interface VercelGatewayRouting {
  only?: string[]
  order?: string[]
}

/** What a failed call notes in its message, in pi. */
export interface DiagnosticErrorInfo {
  name?: string
  message: string
  stack?: string
  code?: string | number
}
export interface AssistantMessageDiagnostic {
  type: string
  timestamp: number
  error?: DiagnosticErrorInfo
  details?: Record<string, unknown>
}

export type StreamFunction = (
  model: Model<any>,
  context: Context,
  options?: any,
) => AssistantMessageEventStream

export interface TextContent {
  type: 'text'
  text: string
  textSignature?: string
}

export interface ThinkingContent {
  type: 'thinking'
  thinking: string
  thinkingSignature?: string
  /** The provider hides the text: the signature is what it has to get back. */
  redacted?: boolean
}

export interface ImageContent {
  type: 'image'
  /** Base64. */
  data: string
  mimeType: string
}

export interface ToolCall {
  type: 'toolCall'
  id: string
  name: string
  arguments: Record<string, any>
  thoughtSignature?: string
}

/** Tokens; `input` excludes those of the cache. The cost is in US dollars. */
export interface Usage {
  input: number
  output: number
  cacheRead: number
  cacheWrite: number
  totalTokens: number
  cost: { input: number; output: number; cacheRead: number; cacheWrite: number; total: number }
}

export type StopReason = 'stop' | 'length' | 'toolUse' | 'error' | 'aborted'

export interface UserMessage {
  role: 'user'
  content: string | (TextContent | ImageContent)[]
  timestamp: number
}

export interface AssistantMessage {
  role: 'assistant'
  content: (TextContent | ThinkingContent | ToolCall)[]
  api: Api
  provider: Provider
  model: string
  responseModel?: string
  responseId?: string
  diagnostics?: any[]
  usage: Usage
  stopReason: StopReason
  errorMessage?: string
  timestamp: number
}

export interface ToolResultMessage<Details = any> {
  role: 'toolResult'
  toolCallId: string
  toolName: string
  content: (TextContent | ImageContent)[]
  /** The host's: never sent to a model. */
  details?: Details
  isError: boolean
  timestamp: number
}

export type Message = UserMessage | AssistantMessage | ToolResultMessage

export interface Tool<Parameters = any> {
  name: string
  description: string
  /** TypeBox, or JSON Schema. */
  parameters: Parameters
}

export interface Context {
  systemPrompt?: string
  messages: Message[]
  tools?: Tool[]
}

/** What happens while an answer arrives. `partial` is one object for the whole stream. */
export type AssistantMessageEvent =
  | { type: 'start'; partial: AssistantMessage }
  | { type: 'text_start'; contentIndex: number; partial: AssistantMessage }
  | { type: 'text_delta'; contentIndex: number; delta: string; partial: AssistantMessage }
  | { type: 'text_end'; contentIndex: number; content: string; partial: AssistantMessage }
  | { type: 'thinking_start'; contentIndex: number; partial: AssistantMessage }
  | { type: 'thinking_delta'; contentIndex: number; delta: string; partial: AssistantMessage }
  | { type: 'thinking_end'; contentIndex: number; content: string; partial: AssistantMessage }
  | { type: 'toolcall_start'; contentIndex: number; partial: AssistantMessage }
  | { type: 'toolcall_delta'; contentIndex: number; delta: string; partial: AssistantMessage }
  | { type: 'toolcall_end'; contentIndex: number; toolCall: ToolCall; partial: AssistantMessage }
  | { type: 'done'; reason: 'stop' | 'length' | 'toolUse'; message: AssistantMessage }
  | { type: 'error'; reason: 'aborted' | 'error'; error: AssistantMessage }

export interface Model<TApi extends Api = any> {
  id: string
  name: string
  api: TApi
  provider: Provider
  baseUrl: string
  reasoning: boolean
  input: ('text' | 'image')[]
  /** US dollars per million tokens. */
  cost: { input: number; output: number; cacheRead: number; cacheWrite: number }
  contextWindow: number
  maxTokens: number
  headers?: Record<string, string>
  /** Accepted, and not read: the engine knows the differences of servers by their host and name. */
  compat?: any
  thinkingLevelMap?: any
}

/** Events between one who pushes and those who iterate. Several iterations share them. */
export declare class EventStream<T, R = T> implements AsyncIterable<T> {
  constructor(isComplete: (event: T) => boolean, extractResult: (event: T) => R)
  push(event: T): void
  end(result?: R): void
  [Symbol.asyncIterator](): AsyncIterator<T>
  /** Never rejects: a failure is a message. Pending for ever if the stream ends without a terminal event and without a result. */
  result(): Promise<R>
}

export declare class AssistantMessageEventStream extends EventStream<
  AssistantMessageEvent,
  AssistantMessage
> {
  constructor()
}

/** The type argument is the stream that the caller's declarations have: pi's own, for a function that is passed to pi. */
export declare function createAssistantMessageEventStream<
  Stream = AssistantMessageEventStream,
>(): Stream

/**
 * Calls a model, with the options of its API.
 *
 * @throws where no key is given and the environment has none.
 */
export declare function stream<Stream = AssistantMessageEventStream>(
  model: Model<any>,
  context: Context,
  options?: any,
): Stream
export declare function complete(
  model: Model<any>,
  context: Context,
  options?: any,
): Promise<AssistantMessage>
/**
 * Calls a model, with options that all APIs share.
 *
 * @example
 * const stream = streamSimple(getModel('anthropic', 'claude-haiku-4-5'), { messages }, { reasoning: 'low' })
 * for await (const event of stream) if (event.type === 'text_delta') process.stdout.write(event.delta)
 * const { usage } = await stream.result()
 *
 * @throws where no key is given and the environment has none.
 */
export declare function streamSimple<Stream = AssistantMessageEventStream>(
  model: Model<any>,
  context: Context,
  options?: SimpleStreamOptions,
): Stream
export declare function completeSimple(
  model: Model<any>,
  context: Context,
  options?: SimpleStreamOptions,
): Promise<AssistantMessage>

/** The engine's calls of one API, whatever is registered for it. @throws as {@link stream} */
export declare function streamAnthropic<Stream = AssistantMessageEventStream>(
  model: Model<any>,
  context: Context,
  options?: AnthropicOptions,
): Stream
export declare function streamAzureOpenAIResponses<Stream = AssistantMessageEventStream>(
  model: Model<any>,
  context: Context,
  options?: AzureOpenAIResponsesOptions,
): Stream
export declare function streamGoogle<Stream = AssistantMessageEventStream>(
  model: Model<any>,
  context: Context,
  options?: GoogleOptions,
): Stream
export declare function streamGoogleVertex<Stream = AssistantMessageEventStream>(
  model: Model<any>,
  context: Context,
  options?: GoogleVertexOptions,
): Stream
export declare function streamMistral<Stream = AssistantMessageEventStream>(
  model: Model<any>,
  context: Context,
  options?: MistralOptions,
): Stream
export declare function streamOpenAICompletions<Stream = AssistantMessageEventStream>(
  model: Model<any>,
  context: Context,
  options?: OpenAICompletionsOptions,
): Stream
export declare function streamOpenAIResponses<Stream = AssistantMessageEventStream>(
  model: Model<any>,
  context: Context,
  options?: OpenAIResponsesOptions,
): Stream
type SimpleCall = <Stream = AssistantMessageEventStream>(
  model: Model<any>,
  context: Context,
  options?: SimpleStreamOptions,
) => Stream
export declare const streamSimpleAnthropic: SimpleCall
export declare const streamSimpleAzureOpenAIResponses: SimpleCall
export declare const streamSimpleGoogle: SimpleCall
export declare const streamSimpleGoogleVertex: SimpleCall
export declare const streamSimpleMistral: SimpleCall
export declare const streamSimpleOpenAICompletions: SimpleCall
export declare const streamSimpleOpenAIResponses: SimpleCall

export type ApiStreamFunction = StreamFunction
export type ApiStreamSimpleFunction = (
  model: Model<any>,
  context: Context,
  options?: SimpleStreamOptions,
) => AssistantMessageEventStream

/** The calls of one API. */
export interface ApiProvider {
  api: Api
  stream: StreamFunction
  streamSimple: StreamFunction
}

/** Replaces the calls of an API in this process. `sourceId` names who did. */
export declare function registerApiProvider(
  provider: { api: Api; stream: (...call: any[]) => any; streamSimple: (...call: any[]) => any },
  sourceId?: string,
): void
export declare function getApiProvider(api: Api): ApiProvider | undefined
export declare function getApiProviders(): ApiProvider[]
export declare function unregisterApiProviders(sourceId: string): void
export declare function clearApiProviders(): void
/** Registers the engine for all its APIs. */
export declare function registerBuiltInApiProviders(): void
/** Unregisters all others. */
export declare function resetApiProviders(): void

/** A model of the engine's catalogue. Undefined for an unknown one, as in pi, whose type does not say so. */
export declare function getModel(provider: Provider, modelId: string): Model<any>
export declare function getModels(provider: Provider): Model<any>[]
export declare function getProviders(): any[]
/** Sets `usage.cost` by the model's prices, and returns it. */
export declare function calculateCost(model: Model<any>, usage: Usage): Usage['cost']
export declare function supportsXhigh(model: Model<any>): boolean
/** The thinking levels that a model has, with `off`. */
export declare function getSupportedThinkingLevels(model: Model<any>): ModelThinkingLevel[]
/** The level, or the nearest one that the model has: a higher one first. */
export declare function clampThinkingLevel(
  model: Model<any>,
  level: ModelThinkingLevel,
): ModelThinkingLevel
export declare function modelsAreEqual(
  a: Model<any> | null | undefined,
  b: Model<any> | null | undefined,
): boolean

/** The key of a provider in the environment. */
export declare function getEnvApiKey(provider: Provider): string | undefined

/** The variables of the environment that have a key of a provider; undefined where none has. */
export declare function findEnvKeys(provider: Provider): string[] | undefined

/** Whether an answer failed because its context was too long. */
export declare function isContextOverflow(
  message: AssistantMessage,
  contextWindow?: number,
): boolean
export declare function getOverflowPatterns(): RegExp[]

/** The messages as another model may read them: without foreign signatures and failed answers, a result for each call. */
export declare function transformMessages(
  messages: Message[],
  model: Model<any>,
  normalizeToolCallId?: (id: string, model: Model<any>, source: AssistantMessage) => string,
): Message[]

/**
 * The arguments of a call as its tool gets them: a copy, coerced. Coercions and texts are those of the version: ajv's of 0.54 (the default), TypeBox's of 0.73.
 *
 * @throws an error whose message is for the model.
 */
export declare function validateToolArguments(
  tool: Tool,
  toolCall: ToolCall,
  options?: { semantics?: '0.54' | '0.73' },
): any
/** @throws as {@link validateToolArguments}, and for an unknown tool. */
export declare function validateToolCall(tools: readonly Tool[], toolCall: ToolCall): any

/** The value of JSON that may not be whole. */
export declare function parseStreamingJson(partialJson: string | undefined): any

/** JSON whose texts have raw control characters or wrong escapes, mended. */
export declare function repairJson(json: string): string
/** @throws a SyntaxError where that does not help. */
export declare function parseJsonWithRepair<Value = any>(json: string): Value

type IsAny<Given> = 0 extends 1 & Given ? true : false
// @ts-ignore: any where it is not installed.
type Sinclair = typeof import('@sinclair/typebox').Type
// @ts-ignore: any where it is not installed.
type TypeBox = typeof import('typebox').Type
/** TypeBox's `Type`, where `@sinclair/typebox` or `typebox` is installed; any where neither is. */
export declare const Type: IsAny<Sinclair> extends true ? TypeBox : Sinclair

// @ts-ignore: any where it is not installed.
type SinclairSchema = import('@sinclair/typebox').TSchema
// @ts-ignore: any where it is not installed.
type TypeBoxSchema = import('typebox').TSchema
// @ts-ignore: any where it is not installed.
type TypeBoxStatic<Schema> = import('typebox').Static<Schema>
type Installed<Given> = IsAny<Given> extends true ? never : Given
type Schemas = Installed<SinclairSchema> | Installed<TypeBoxSchema>
/** A schema of TypeBox; any where none is installed. */
export type TSchema = [Schemas] extends [never] ? any : Schemas
/** The type of the values of a schema. */
export type Static<Schema> = Schema extends { static: infer Value } ? Value : TypeBoxStatic<Schema>

/** What a failed call rejects with, with `throwOnError`. */
export declare class ModelCallError extends Error {
  constructor(answer: AssistantMessage)
  readonly name: 'ModelCallError'
  readonly answer: AssistantMessage
}

export type OAuthProviderId = string
export interface OAuthCredentials {
  refresh: string
  access: string
  /** Unix milliseconds. */
  expires: number
  [key: string]: unknown
}
export type OAuthProvider = OAuthProviderId
export interface OAuthPrompt {
  message: string
  placeholder?: string
  allowEmpty?: boolean
}
export interface OAuthAuthInfo {
  url: string
  instructions?: string
}
export interface OAuthSelectOption {
  id: string
  label: string
}
export interface OAuthSelectPrompt {
  message: string
  options: OAuthSelectOption[]
}
export interface OAuthLoginCallbacks {
  onAuth: (info: OAuthAuthInfo) => void
  onPrompt: (prompt: OAuthPrompt) => Promise<string>
  onProgress?: (message: string) => void
  onManualCodeInput?: () => Promise<string>
  onSelect?: (prompt: OAuthSelectPrompt) => Promise<string | undefined>
  signal?: AbortSignal
}
export interface OAuthProviderInterface {
  readonly id: string
  readonly name: string
  login(callbacks: OAuthLoginCallbacks): Promise<OAuthCredentials>
  usesCallbackServer?: boolean
  refreshToken(credentials: OAuthCredentials): Promise<OAuthCredentials>
  getApiKey(credentials: OAuthCredentials): string
  modifyModels?(models: Model<any>[], credentials: OAuthCredentials): Model<any>[]
}
export interface OAuthProviderInfo {
  id: string
  name: string
  available: boolean
}

/** A login that this package does not have: it has none of its own. */
export declare class LoginUnavailableError extends Error {
  constructor(provider: string)
  readonly name: 'LoginUnavailableError'
  readonly code: 'login_unavailable'
  readonly provider: string
}
/** Adds a login, for example one of pi's. */
export declare function registerOAuthProvider(provider: OAuthProviderInterface): void
export declare function getOAuthProvider(id: string): OAuthProviderInterface | undefined
export declare function getOAuthProviders(): OAuthProviderInterface[]
export declare function getOAuthProviderInfoList(): OAuthProviderInfo[]
/** @throws {LoginUnavailableError} */
export declare function refreshOAuthToken(
  id: string,
  credentials: OAuthCredentials,
): Promise<OAuthCredentials>
/** The key of credentials, which are refreshed where they have expired; null without any. @throws {LoginUnavailableError} */
export declare function getOAuthApiKey(
  id: string,
  credentials: Record<string, OAuthCredentials>,
): Promise<{ newCredentials: OAuthCredentials; apiKey: string } | null>
/** The login that is registered for `anthropic`; so are the next ones. @throws {LoginUnavailableError} */
export declare function loginAnthropic(callbacks: OAuthLoginCallbacks): Promise<OAuthCredentials>
export declare function loginGitHubCopilot(
  callbacks: OAuthLoginCallbacks,
): Promise<OAuthCredentials>
export declare function loginAntigravity(callbacks: OAuthLoginCallbacks): Promise<OAuthCredentials>
export declare function loginGeminiCli(callbacks: OAuthLoginCallbacks): Promise<OAuthCredentials>
export declare function loginOpenAICodex(callbacks: OAuthLoginCallbacks): Promise<OAuthCredentials>
/** The schema of a text that is one of `values`. */
export declare function StringEnum(
  values: readonly string[],
  options?: { description?: string; default?: string },
): any
