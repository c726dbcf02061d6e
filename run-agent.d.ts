// The types of `@nexus/agent-engine/run-agent`: a message of a session to its reply, with the tools of a workspace. Written by hand;
// `lib/run-agent` is checked against them. The messages and events of an answer have pi's form, and fit its types by structure.

import type {
  AgentErrorKind,
  Api,
  BashOptions,
  CodingToolName,
  ErrorDetail,
  FailureKind,
  StopReason,
  ThinkingConfig,
} from './index.js'

/** A key of the provider. */
export interface RunAgentProfile {
  /** A name, as events and the ledger have it. */
  id: string
  /** The key. In a config file `${NAME}` is a variable of the environment. */
  apiKey: string
  /** `token`: sent as `authorization: Bearer`. Default `api_key`. */
  type?: 'api_key' | 'token' | undefined
}

/** How the agent works. */
export interface RunAgentAgentConfig {
  /** The directory of the tools, created if it does not exist. Default `~/.myclaw/workspace`. */
  workspaceDir?: string | undefined
  /** The first section of the system prompt. */
  identity?: string | undefined
  /** In place of `provider.name`. */
  provider?: string | undefined
  /** In place of `provider.model`. */
  model?: string | undefined
  /** The maximum number of calls of the model for a message. Default 25. */
  maxIterations?: number | undefined
  /** As `provider.maxRetries`, which is stronger. */
  maxRetries?: number | undefined
  /** The most characters of a tool's result that the model reads. Default 50,000. */
  maxToolResultChars?: number | undefined
  /** The most tokens of an answer. */
  maxResponseTokens?: number | undefined
  /** The window of a model that the catalogue does not have, in tokens. Default 128,000. */
  contextWindow?: number | undefined
  temperature?: number | undefined
  thinkingConfig?: ThinkingConfig | undefined
  /** The limit of a whole message, in milliseconds. Default 600,000. */
  timeoutMs?: number | undefined
  /** Default `read`, `write`, `edit`, `bash` and `apply_patch`. */
  tools?: CodingToolName[] | undefined
  /** How `bash` runs commands. */
  bash?: BashOptions | undefined
  /** Directories that the tools may read besides the workspace. */
  readRoots?: string[] | undefined
  /** The ledger's file, or a server as `postgres://…`. Default `~/.myclaw/agent.db`. */
  ledger?: string | undefined
}

/** Which model is called, and how. */
export interface RunAgentProviderConfig {
  /** A known service (`anthropic`, `openai`, `groq`, `ollama`, …), or any name with an `api` and a `baseUrl`. */
  name?: string | undefined
  model?: string | undefined
  baseUrl?: string | undefined
  api?: Exclude<Api, 'scripted'> | undefined
  /** The keys. One that fails (authentication, rate limit, billing) is replaced by the next. Default: the service's variable. */
  authProfiles?: RunAgentProfile[] | undefined
  /** How often a failed call is repeated with another profile. Default 3. */
  maxRetries?: number | undefined
  /** The models that are called when this one fails, as `service/model`. */
  fallbacks?: string[] | undefined
}

/**
 * The config of an agent, as `~/.myclaw/myclaw.json` has it. Without a provider and a model they are chosen by the keys in the
 * environment: `ANTHROPIC_API_KEY`, `OPENAI_API_KEY`, `GEMINI_API_KEY`.
 */
export interface RunAgentConfig {
  agent?: RunAgentAgentConfig | undefined
  provider?: RunAgentProviderConfig | undefined
  /** The host's own. */
  channels?: object | undefined
  /** The host's own. */
  gateway?: object | undefined
  /** The host's own. */
  logging?: object | undefined
}

/** US dollars. */
export interface RunAgentCost {
  input: number
  output: number
  cacheRead: number
  cacheWrite: number
  total: number
}

/** The usage of one call in pi's form, where an unknown price is 0. */
export interface PiUsage {
  /** Tokens of prompt that were neither read from nor written to a cache. */
  input: number
  output: number
  cacheRead: number
  cacheWrite: number
  /** The sum of the four. */
  totalTokens: number
  cost: RunAgentCost
}

/** Tokens, and what they cost: null where a price is unknown. */
export interface RunAgentUsage extends Omit<PiUsage, 'cost'> {
  cost: RunAgentCost | null
}

/** A call of a tool in pi's form. */
export interface PiToolCall {
  type: 'toolCall'
  id: string
  name: string
  arguments: Record<string, unknown>
}

/** An answer of the model in pi's form. */
export interface AssistantMessage {
  role: 'assistant'
  content: ({ type: 'text'; text: string } | { type: 'thinking'; thinking: string } | PiToolCall)[]
  api: string
  provider: string
  model: string
  usage: PiUsage
  stopReason: 'stop' | 'length' | 'toolUse' | 'error' | 'aborted'
  errorMessage?: string
  /** Unix milliseconds. */
  timestamp: number
}

/** An event of an answer in pi's form. `partial` is the message so far: one object, which grows. */
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
  | {
      type: 'toolcall_end'
      contentIndex: number
      toolCall: PiToolCall
      partial: AssistantMessage
    }
  | { type: 'done'; reason: 'stop' | 'length' | 'toolUse'; message: AssistantMessage }
  | { type: 'error'; reason: 'aborted' | 'error'; error: AssistantMessage }

/** What {@link RunAgentParams.onEvent} receives: each answer's events in pi's form, and what happens between answers. */
export type RunAgentEvent =
  | AssistantMessageEvent
  | { type: 'tool_start'; toolName: string; toolCallId: string; params: Record<string, unknown> }
  | {
      type: 'tool_end'
      toolName: string
      toolCallId: string
      durationMs: number
      isError: boolean
      result?: unknown
    }
  /** A call failed and is repeated in `ms` milliseconds; `profileId` is the profile that failed. */
  | { type: 'retry'; attempt: number; reason: FailureKind; ms: number; profileId?: string }
  /** Old messages became a summary. */
  | { type: 'compaction'; tokensBefore: number; tokensAfter: number }

export interface RunAgentParams {
  /** The session: its messages are in the ledger. */
  sessionKey: string
  userMessage: string
  /** A config, or the path of a file with one (JSON5). Default: `~/.myclaw/myclaw.json`. */
  config?: RunAgentConfig | string | undefined
  /** Aborts the run. */
  signal?: AbortSignal | undefined
  /** Receives the answer as it is written. A throw in it is a process warning and does not end the run. */
  onEvent?(event: RunAgentEvent): void
  /** Rejects where the run failed: with the signal's reason for an abort, else with a {@link RunAgentFailure}. Default false. */
  throwOnError?: boolean | undefined
  /** In place of `~/.myclaw`. */
  stateDir?: string | undefined
}

/** Why a run failed. */
export interface RunAgentError {
  kind: AgentErrorKind | 'aborted'
  message: string
  /** Whether the same message may succeed later. */
  retryable: boolean
  detail?: ErrorDetail
}

export interface RunAgentResult {
  /** The text of the last answer. */
  reply: string
  /** The sum of all calls of the model, without those of summaries. */
  usage: RunAgentUsage
  /** The usage of the last call: what the context has now. */
  lastCallUsage: RunAgentUsage
  /** The number of answers. */
  iterations: number
  maxIterationsReached: boolean
  stopReason: StopReason
  /** The turn in the ledger. */
  turnId: string
  error?: RunAgentError
}

/** A failed run, with `throwOnError`. */
export declare class RunAgentFailure extends Error {
  readonly name: 'RunAgentFailure'
  readonly kind: RunAgentError['kind']
  readonly result: RunAgentResult
  private constructor()
}

/**
 * Runs a message of a session with the tools of a workspace, and resolves with the reply. The workspace is created if it does not exist,
 * and its Markdown files (`AGENTS.md`, …) are in the system prompt. The session continues where it ended; a transcript of it in
 * `~/.myclaw/sessions` is imported when the session is first used.
 *
 * @example
 * const { reply, usage } = await runAgent({
 *   sessionKey: 'main',
 *   userMessage: 'Which port does the server use?',
 *   config: { agent: { workspaceDir: '~/my-project' } },
 *   onEvent: (event) => event.type === 'text_delta' && process.stdout.write(event.delta),
 * })
 *
 * @throws {AgentEngineError} `invalid_options` with every problem of the config, before anything is written or sent; what
 * `engine.run` throws.
 */
export declare function runAgent(params: RunAgentParams): Promise<RunAgentResult>

/**
 * Closes the engines behind `runAgent` when their runs have ended. They close by themselves after half a minute without a run, and keep no
 * process alive.
 */
export declare function closeAgents(): Promise<void>
