// The types of `@nexus/agent-engine/pi-agent`: what `@mariozechner/pi-agent-core` (0.54 to 0.73) exports, over the engine. Written by hand;
// `lib/pi-agent` is checked against them. They import nothing of pi: its own types fit by structure.

import type {
  AssistantMessage,
  AssistantMessageEvent,
  AssistantMessageEventStream,
  Context,
  EventStream,
  ImageContent,
  Message,
  Model,
  SimpleStreamOptions,
  TextContent,
  ThinkingBudgets,
  Tool,
  ToolCall,
  ToolResultMessage,
  Transport,
  Usage,
} from './pi-ai.js'

/**
 * Whose loop it is. `0.54` (the default): tools run one after the other, and a steered message skips the calls that have not begun.
 * `0.73`: tools run at the same time, steered messages come after all of them, and subscribers are awaited.
 */
export type Semantics = '0.54' | '0.73'

export type ThinkingLevel = 'off' | 'minimal' | 'low' | 'medium' | 'high' | 'xhigh'
export type ToolExecutionMode = 'sequential' | 'parallel'
export type QueueMode = 'all' | 'one-at-a-time'

/** Calls a model. What it throws is a message of the run. */
export type StreamFn = (model: any, context: any, options?: any) => any

export interface ProxyStreamOptions extends SimpleStreamOptions {
  authToken: string
  /** Of the server: its `/api/stream` answers with events. */
  proxyUrl: string
}

/** An event of a server: pi's, without the message so far. */
export type ProxyAssistantMessageEvent =
  | { type: 'start' }
  | { type: 'text_start' | 'thinking_start'; contentIndex: number }
  | {
      type: 'text_delta' | 'thinking_delta' | 'toolcall_delta'
      contentIndex: number
      delta: string
    }
  | { type: 'text_end' | 'thinking_end'; contentIndex: number; contentSignature?: string }
  | { type: 'toolcall_start'; contentIndex: number; id: string; toolName: string }
  | { type: 'toolcall_end'; contentIndex: number }
  | { type: 'done'; reason: 'stop' | 'length' | 'toolUse'; usage: Usage }
  | { type: 'error'; reason: 'aborted' | 'error'; errorMessage?: string; usage: Usage }

/** A `streamFn` for a program without keys: a server of its own calls the model. */
export declare function streamProxy(
  model: Model<any>,
  context: Context,
  options: ProxyStreamOptions,
): AssistantMessageEventStream

/** Roles of the host, by declaration merging. */
// biome-ignore lint/suspicious/noEmptyInterface: hosts add to it.
export interface CustomAgentMessages {}

/** A message of a model, or one of the host's own roles, which `convertToLlm` translates. */
export type AgentMessage = Message | CustomAgentMessages[keyof CustomAgentMessages]

export interface AgentToolResult<Details = any> {
  content: (TextContent | ImageContent)[]
  /** The host's: never sent to a model, and passed on as it is. */
  details: Details
  /** The run ends after this message's calls, if all of them say so. */
  terminate?: boolean
}

export type AgentToolUpdateCallback<Details = any> = (partial: AgentToolResult<Details>) => void

export interface AgentTool<Parameters = any, Details = any> extends Tool<Parameters> {
  label: string
  /** Runs before the validation. */
  prepareArguments?: (args: unknown) => any
  /** A throw is a failure that the model reads. */
  execute: (
    toolCallId: string,
    params: any,
    signal?: AbortSignal,
    onUpdate?: AgentToolUpdateCallback<Details>,
  ) => Promise<AgentToolResult<Details>>
  executionMode?: ToolExecutionMode
}

export interface AgentContext {
  systemPrompt: string
  messages: AgentMessage[]
  tools?: AgentTool[]
}

export type AgentToolCall = ToolCall

export interface BeforeToolCallContext {
  assistantMessage: AssistantMessage
  toolCall: ToolCall
  /** The validated arguments. What is changed in them is not validated again. */
  args: unknown
  context: AgentContext
}

export interface BeforeToolCallResult {
  block?: boolean
  reason?: string
}

export interface AfterToolCallContext extends BeforeToolCallContext {
  result: AgentToolResult
  isError: boolean
}

/** Fields that replace those of the result. */
export interface AfterToolCallResult {
  content?: (TextContent | ImageContent)[]
  details?: unknown
  isError?: boolean
  terminate?: boolean
}

export interface ShouldStopAfterTurnContext {
  message: AssistantMessage
  toolResults: ToolResultMessage[]
  context: AgentContext
  newMessages: AgentMessage[]
}

type Hook<Result> = (context: any, signal?: AbortSignal) => Promise<Result | undefined>

export interface AgentLoopConfig extends SimpleStreamOptions {
  model: Model<any>
  convertToLlm: (messages: any[]) => Message[] | Promise<Message[]>
  transformContext?: (messages: any[], signal?: AbortSignal) => Promise<any[]>
  getApiKey?: (provider: string) => Promise<string | undefined> | string | undefined
  getSteeringMessages?: () => Promise<any[]>
  getFollowUpMessages?: () => Promise<any[]>
  toolExecution?: ToolExecutionMode
  beforeToolCall?: Hook<BeforeToolCallResult>
  afterToolCall?: Hook<AfterToolCallResult>
  shouldStopAfterTurn?: (context: any) => boolean | Promise<boolean>
  /** Default `0.54`. */
  semantics?: Semantics
  /** Limit of one call of a tool in milliseconds. Default: none. */
  toolTimeoutMs?: number
  /** How many tools run at the same time. Default 8. */
  maxParallelTools?: number
  /** How long a tool or a stream may take to stop after an abort, in milliseconds. Default 250. */
  abortGraceMs?: number
}

export type AgentEvent =
  | { type: 'agent_start' }
  | { type: 'agent_end'; messages: AgentMessage[] }
  | { type: 'turn_start' }
  | { type: 'turn_end'; message: AgentMessage; toolResults: ToolResultMessage[] }
  | { type: 'message_start'; message: AgentMessage }
  | {
      type: 'message_update'
      message: AgentMessage
      assistantMessageEvent: AssistantMessageEvent
    }
  | { type: 'message_end'; message: AgentMessage }
  | { type: 'tool_execution_start'; toolCallId: string; toolName: string; args: any }
  | {
      type: 'tool_execution_update'
      toolCallId: string
      toolName: string
      args: any
      partialResult: any
    }
  | {
      type: 'tool_execution_end'
      toolCallId: string
      toolName: string
      result: any
      isError: boolean
    }

export type AgentEventSink = (event: AgentEvent) => Promise<void> | void

/**
 * Runs the loop with new messages. The result are the messages of this run, with the prompts. The type argument is the stream that the caller's
 * declarations have: pi's own, where a function of pi's is expected.
 */
export declare function agentLoop<Stream = EventStream<AgentEvent, AgentMessage[]>>(
  prompts: AgentMessage[],
  context: AgentContext,
  config: AgentLoopConfig,
  signal?: AbortSignal,
  streamFn?: StreamFn,
): Stream
/**
 * Runs the loop from a context that ends with a message of the user or the result of a tool.
 *
 * @throws where it is empty, or ends with an answer.
 */
export declare function agentLoopContinue<Stream = EventStream<AgentEvent, AgentMessage[]>>(
  context: AgentContext,
  config: AgentLoopConfig,
  signal?: AbortSignal,
  streamFn?: StreamFn,
): Stream
/** {@link agentLoop}, with a function that receives the events and is awaited. */
export declare function runAgentLoop(
  prompts: AgentMessage[],
  context: AgentContext,
  config: AgentLoopConfig,
  emit: AgentEventSink,
  signal?: AbortSignal,
  streamFn?: StreamFn,
): Promise<AgentMessage[]>
/** {@link agentLoopContinue}, with a function that receives the events and is awaited. */
export declare function runAgentLoopContinue(
  context: AgentContext,
  config: AgentLoopConfig,
  emit: AgentEventSink,
  signal?: AbortSignal,
  streamFn?: StreamFn,
): Promise<AgentMessage[]>

/** The state of an agent, under the names of both versions. */
export interface AgentState {
  systemPrompt: string
  model: Model<any>
  thinkingLevel: ThinkingLevel
  get tools(): any[]
  set tools(tools: AgentTool[])
  get messages(): any[]
  set messages(messages: AgentMessage[])
  isStreaming: boolean
  /** The answer under way; null where there is none. */
  streamMessage: any
  /** The same; undefined where there is none. */
  streamingMessage?: any
  pendingToolCalls: Set<string>
  /** Why the last answer failed. */
  error?: string
  /** The same. */
  errorMessage?: string
}

export interface AgentOptions {
  initialState?: {
    systemPrompt?: string
    model?: Model<any>
    thinkingLevel?: ThinkingLevel
    tools?: AgentTool[]
    messages?: AgentMessage[]
    [field: string]: any
  }
  convertToLlm?: (messages: any[]) => Message[] | Promise<Message[]>
  transformContext?: (messages: any[], signal?: AbortSignal) => Promise<any[]>
  steeringMode?: QueueMode
  followUpMode?: QueueMode
  streamFn?: StreamFn
  sessionId?: string
  getApiKey?: (provider: string) => Promise<string | undefined> | string | undefined
  onPayload?: SimpleStreamOptions['onPayload']
  onResponse?: SimpleStreamOptions['onResponse']
  beforeToolCall?: AgentLoopConfig['beforeToolCall']
  afterToolCall?: AgentLoopConfig['afterToolCall']
  thinkingBudgets?: ThinkingBudgets
  transport?: Transport
  maxRetryDelayMs?: number
  toolExecution?: ToolExecutionMode
  /** Default: {@link Agent.defaultSemantics}, which is `0.54`. */
  semantics?: Semantics
  /** See {@link AgentLoopConfig.toolTimeoutMs}. */
  toolTimeoutMs?: number
  /** See {@link AgentLoopConfig.maxParallelTools}. */
  maxParallelTools?: number
  /** See {@link AgentLoopConfig.abortGraceMs}. */
  abortGraceMs?: number
}

/**
 * A conversation with a model and its tools, in memory: with the methods of 0.54 and the accessors of later versions.
 *
 * @example
 * const agent = new Agent({ initialState: { model: getModel('anthropic', 'claude-haiku-4-5'), tools } })
 * agent.subscribe((event) => console.log(event.type))
 * await agent.prompt('What time is it in Rome?')
 */
export declare class Agent {
  /** The semantics of agents that name none: for code of pi's that makes its own, with this module in place of pi's. */
  static defaultSemantics: Semantics
  constructor(options?: AgentOptions)
  /** Read at each run: it may be replaced and wrapped at any time. */
  streamFn: StreamFn
  convertToLlm: (messages: any[]) => Message[] | Promise<Message[]>
  transformContext?: (messages: any[], signal?: AbortSignal) => Promise<any[]>
  getApiKey?: (provider: string) => Promise<string | undefined> | string | undefined
  onPayload?: SimpleStreamOptions['onPayload']
  onResponse?: SimpleStreamOptions['onResponse']
  beforeToolCall?: AgentLoopConfig['beforeToolCall']
  afterToolCall?: AgentLoopConfig['afterToolCall']
  toolExecution: ToolExecutionMode
  sessionId: string | undefined
  thinkingBudgets: ThinkingBudgets | undefined
  transport: Transport
  maxRetryDelayMs: number | undefined
  readonly semantics: Semantics
  /** The live state. */
  get state(): AgentState
  /** Aborted with the run under way; undefined where there is none. */
  get signal(): AbortSignal | undefined
  get steeringMode(): QueueMode
  set steeringMode(mode: QueueMode)
  get followUpMode(): QueueMode
  set followUpMode(mode: QueueMode)
  /** Receives each event. Returns a function that ends it. */
  subscribe(listener: (event: any, signal: AbortSignal) => any): () => void
  setSystemPrompt(prompt: string): void
  setModel(model: Model<any>): void
  setThinkingLevel(level: ThinkingLevel): void
  setTransport(transport: Transport): void
  setSteeringMode(mode: QueueMode): void
  getSteeringMode(): QueueMode
  setFollowUpMode(mode: QueueMode): void
  getFollowUpMode(): QueueMode
  setTools(tools: any[]): void
  replaceMessages(messages: any[]): void
  appendMessage(message: any): void
  clearMessages(): void
  /** Injects a message into the run: see {@link Semantics}. */
  steer(message: any): void
  /** A message for when the run would end. */
  followUp(message: any): void
  clearSteeringQueue(): void
  clearFollowUpQueue(): void
  clearAllQueues(): void
  hasQueuedMessages(): boolean
  /** Runs the loop with new messages, to its end. Rejects while another run is under way. */
  prompt(message: any): Promise<void>
  prompt(input: string, images?: ImageContent[]): Promise<void>
  /** Runs the loop from the state: after a failure, or with what is queued. */
  continue(): Promise<void>
  abort(): void
  waitForIdle(): Promise<void>
  reset(): void
}
