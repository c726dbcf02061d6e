// The broker interface's own declarations, unchanged, and that a broker written for them compiles against the package. It is never run.
// `scripts/types/matrix.mjs` compiles it with the oldest and the newest TypeScript, strict and stricter, with and without the DOM.

import {
  AgentEngine,
  type AgentResult,
  type AgentRun,
  type AssembledContext,
  type BrokerExecution,
  type BrokerStreamHandle,
  type CoreStreamEvent,
  type StreamEvent,
} from '../../index.js'

/** What the interface names and leaves open, as its neighbours declare it. */
declare namespace broker {
  type DeliveryTarget = { platform: string; container: string }
  type Permission = { resource: string; level: 'read' | 'write' }
  type AgentRole = 'manager' | 'worker' | 'unified'
  interface Message {
    role: 'user' | 'assistant' | 'system'
    content: string
  }
  interface AgentTool {
    name: string
    label: string
    description: string
    parameters: unknown
    execute(id: string, params: unknown, signal?: AbortSignal): Promise<{ content: [] }>
  }
  interface ThinkingConfig {
    type: 'enabled'
    budgetTokens: number
  }
  interface TokenBudget {
    modelLimit: number
    reserveResponse: number
    reserveTools: number
    available: number
    used: number
    remaining: number
  }

  interface AssembledContext {
    systemPrompt: string
    history: Message[]
    currentMessage: Message
    tools: AgentTool[]
    model: string
    provider: string
    thinkingConfig?: ThinkingConfig
    maxResponseTokens?: number
    temperature?: number
    tokenBudget: TokenBudget
    timeoutMs: number
    abortSignal?: AbortSignal
    runId: string
    sessionLabel: string
    parentTurnId: string
    role: AgentRole
    toolsetName: string
    permissionsGranted: Permission[]
    sourceEventId?: string
    workspacePath: string
  }

  interface AgentResult {
    messages: AgentMessage[]
    toolCalls: AgentToolCall[]
    usage: TokenUsage
    stopReason: StopReason
    durationMs: number
    error?: AgentError
    compaction?: CompactionResult
  }
  interface AgentMessage {
    id: string
    role: 'user' | 'assistant' | 'system' | 'tool'
    content: string
    sequence: number
    createdAt: number
    thinking?: string
    toolCallId?: string
  }
  interface AgentToolCall {
    id: string
    toolName: string
    params: Record<string, unknown>
    result?: unknown
    error?: string
    status: 'pending' | 'running' | 'completed' | 'failed'
    startedAt: number
    completedAt?: number
    sequence: number
    spawnedSessionLabel?: string
  }
  interface TokenUsage {
    inputTokens: number
    outputTokens: number
    cachedInputTokens: number
    cacheWriteTokens: number
    reasoningTokens: number
    totalTokens: number
  }
  type StopReason = 'end_turn' | 'max_tokens' | 'tool_use' | 'timeout' | 'aborted' | 'error'
  interface AgentError {
    kind:
      | 'context_overflow'
      | 'auth_failure'
      | 'rate_limit'
      | 'model_error'
      | 'timeout'
      | 'compaction_failure'
      | 'unknown'
    message: string
    retryable: boolean
  }
  interface CompactionResult {
    summary: string
    summarizedThroughTurnId: string
    firstKeptTurnId: string
    turnsSummarized: number
    model: string
    provider: string
    tokensBefore: number
    tokensAfter: number
    summaryTokens: number
    summarizationInputTokens: number
    summarizationOutputTokens: number
    durationMs: number
    trigger: 'context_limit' | 'overflow_recovery'
  }

  interface AgentEngineCallbacks {
    onPartialReply: (payload: { text: string; messageId?: string }) => void
    onReasoningStream: (payload: { text: string }) => void
    onToolResult: (payload: {
      toolCallId: string
      toolName: string
      status: 'started' | 'completed' | 'failed'
      summary?: string
    }) => void
    onAgentEvent: (event: {
      phase: 'start' | 'streaming' | 'tool_use' | 'compaction_start' | 'compaction_end' | 'end'
      timestamp: number
    }) => void
  }
  type StreamEvent =
    | { type: 'stream_start'; runId: string; sessionLabel: string; target: DeliveryTarget }
    | { type: 'token'; text: string }
    | {
        type: 'tool_status'
        toolName: string
        toolCallId: string
        status: 'started' | 'completed' | 'failed'
        summary?: string
      }
    | { type: 'reasoning'; text: string }
    | { type: 'stream_end'; runId: string; final?: boolean }
    | { type: 'stream_error'; error: string; partial: boolean }
  interface BrokerStreamHandle {
    onEvent(callback: (event: StreamEvent) => void): void
    abort(): void
    steer(message: string): boolean
    isStreaming(): boolean
    isCompacting(): boolean
  }
}

declare const context: broker.AssembledContext
declare const callbacks: broker.AgentEngineCallbacks
declare const result: broker.AgentResult

// A context of the interface is one of the package, and its callbacks are.
context satisfies AssembledContext
const engine = new AgentEngine({ ledger: { path: './agent.db' } })
const run: AgentRun = engine.run(context, callbacks)
const counted = engine.countTokens(context)
counted satisfies Promise<{ tokens: number }>

// A run is what the interface's broker returns, and its result is one of the interface.
const execution: BrokerExecution = run
const stream: BrokerStreamHandle = execution.stream
stream.steer('Go on.') satisfies boolean
declare const made: AgentResult
made satisfies broker.AgentResult
async function whole(): Promise<broker.AgentResult> {
  return execution.result
}
whole() satisfies Promise<broker.AgentResult>

// A result that a broker has made itself is written as it is.
engine.ledger.writeTurn(context, result) satisfies Promise<string>

// Its six events, as an event of the package has them; the delivery target is the host's own.
type Six = Exclude<broker.StreamEvent, { type: 'stream_start' }>
declare const event: Extract<StreamEvent, { type: Six['type'] }>
event satisfies Six

// With `events: 'core'` a run delivers those six alone. What reads events of the interface reads these, and its handle is one of the
// interface; each field of the interface has the same type on both sides, except that some are always there.
const six = engine.run({ ...context, events: 'core' })
declare const core: CoreStreamEvent
type Given = Six | { type: 'stream_start'; runId: string; sessionLabel: string; target: unknown }
core satisfies Given
declare function read(event: Given): void
six.stream.onEvent(read) satisfies () => void
declare function use(handle: { onEvent(callback: (event: Given) => void): void }): void
use(six.stream)
type Of<Event, Type> = Extract<Event, { type: Type }>
type Ours<Type extends Six['type']> = Required<
  Pick<Of<CoreStreamEvent, Type>, keyof Of<Six, Type> & keyof Of<CoreStreamEvent, Type>>
>
type Theirs<Type extends Six['type']> = Required<Of<Six, Type>>
declare const ours: { [Type in Six['type']]: Ours<Type> }
declare const theirs: { [Type in Six['type']]: Theirs<Type> }
ours satisfies typeof theirs
theirs satisfies typeof ours

// An optional field may be there as `undefined`.
declare const maybe: { text: string | undefined; number: number | undefined }
new AgentEngine({
  toolTimeoutMs: maybe.number,
  ledger: { path: './agent.db', leaseMs: maybe.number },
  providers: { p: { api: 'openai-chat', baseUrl: maybe.text, headers: undefined } },
  failover: undefined,
})
engine.run('Hello?', { model: maybe.text, thinkingConfig: { type: 'adaptive', effort: undefined } })
engine.ledger.sessions({ prefix: maybe.text, limit: maybe.number })

async function scoped() {
  await using inner = new AgentEngine()
  return inner.run('Hello?', { model: 'p/m' }).result
}
scoped() satisfies Promise<AgentResult>
