// Written by the test in src/typescript.rs. Do not edit.

/**
 * The author of a message.
 */
export type Role = "user" | "assistant" | "system" | "tool";

/**
 * One part of a message. The JSON texts inside (`argumentsJson`, `rawJson`, `providerData`) are verbatim.
 */
export type Block = { "type": "text", 
/**
 * The text.
 */
text: string, 
/**
 * JSON text of the provider's other fields of this part (citations, ids, phases), replayed verbatim.
 */
providerData?: string, 
/**
 * Set on a text that the host put into a user's message: it is sent as it is, and is no part of the message's `content`.
 */
origin?: BlockOrigin, } | { "type": "image", 
/**
 * `image/png`, `image/jpeg`, `image/gif` or `image/webp`.
 */
mimeType: string, 
/**
 * The bytes in base64.
 */
data: string, } | { "type": "thinking", 
/**
 * The reasoning text; may be empty where the provider shows only a signature.
 */
thinking: string, 
/**
 * The provider's signature, byte for byte.
 */
signature?: string, 
/**
 * JSON text of the provider's other fields (reasoning details, the name of the field).
 */
providerData?: string, } | { "type": "redacted_thinking", 
/**
 * The encrypted text, byte for byte.
 */
data: string, 
/**
 * JSON text of the provider's other fields, replayed verbatim.
 */
providerData?: string, } | { "type": "tool_call", 
/**
 * The provider's id of the call; unique only within its message.
 */
id: string, 
/**
 * The tool's name.
 */
name: string, 
/**
 * The arguments as the provider sent them: JSON text, not yet validated.
 */
argumentsJson: string, 
/**
 * True when the response ended before this block closed; such a call is never run.
 */
incomplete?: boolean, 
/**
 * JSON text of the provider's other fields (a thought signature).
 */
providerData?: string, } | { "type": "tool_result", 
/**
 * The provider's id of the call.
 */
toolCallId: string, 
/**
 * The tool's name.
 */
toolName: string, 
/**
 * Text and image blocks.
 */
content: Array<Block>, 
/**
 * True when the tool failed; the content then gives the reason.
 */
isError: boolean, } | { "type": "opaque", 
/**
 * The block's JSON text.
 */
rawJson: string, };

/**
 * What the host put into a user's message beside the text of its author (docs/rules/prompts.md#layers).
 */
export type BlockOrigin = "event" | "memory";

/**
 * The origin of an assistant message: it decides whether opaque blocks may be replayed.
 */
export type Provenance = { 
/**
 * The provider's name in the engine's options.
 */
provider: string, 
/**
 * The wire API: `anthropic-messages`, `openai-chat`, …
 */
api: string, 
/**
 * The model that was called.
 */
model: string, 
/**
 * The provider's id of the response.
 */
responseId?: string, };

/**
 * The broker interface's `AgentMessage`, with the blocks it was derived from.
 */
export type AgentMessage = { 
/**
 * The engine's ULID.
 */
id: string, 
/**
 * The author.
 */
role: Role, 
/**
 * The visible text.
 */
content: string, 
/**
 * Order within the turn, from 0.
 */
sequence: number, 
/**
 * Unix milliseconds.
 */
createdAt: number, 
/**
 * The shown reasoning (assistant messages).
 */
thinking?: string, 
/**
 * The provider's id of the call (tool messages).
 */
toolCallId?: string, 
/**
 * True when the tool failed (tool messages).
 */
isError?: boolean, 
/**
 * The parts, in order, as the ledger stores them and the provider gets them back.
 */
blocks: Array<Block>, 
/**
 * The origin of an assistant message.
 */
provenance?: Provenance, 
/**
 * The provider's own stop reason (assistant messages).
 */
providerStopReason?: string, };

/**
 * The role of the agent.
 */
export type AgentRole = "manager" | "worker" | "unified";

/**
 * How much the model may think. Exactly one field is sent, by what the model supports.
 */
export type ThinkingConfig = { 
/**
 * `enabled` (with `budgetTokens`), `adaptive` or `disabled`.
 */
type?: ThinkingMode, 
/**
 * Tokens the model may think, at least 1,024.
 */
budgetTokens?: number, 
/**
 * How hard to think, for models that take an effort.
 */
effort?: ThinkingEffort, };

/**
 * The thinking modes.
 */
export type ThinkingMode = "enabled" | "adaptive" | "disabled";

/**
 * The effort levels of the providers' APIs.
 */
export type ThinkingEffort = "none" | "minimal" | "low" | "medium" | "high" | "xhigh" | "max";

/**
 * The broker interface's budget, in tokens, as context assembly calculated it.
 */
export type TokenBudget = { 
/**
 * The model's window.
 */
modelLimit?: number, 
/**
 * Reserved for the answer.
 */
reserveResponse?: number, 
/**
 * Reserved for tool definitions and results.
 */
reserveTools?: number, 
/**
 * What is left for the context.
 */
available?: number, 
/**
 * What the context uses.
 */
used?: number, 
/**
 * `available - used`.
 */
remaining?: number, };

/**
 * The layers of a context, in the order of docs/rules/prompts.md#layers.
 */
export type LayerName = "workspace" | "persona" | "session" | "cortex" | "event";

/**
 * Whether the model must, may or may not call tools.
 */
export type ToolChoice = 'auto' | 'none' | 'required' | { 
/**
 * Its name.
 */
name: string, };

/**
 * The format of the answer's text, where the API can enforce one.
 */
export type ResponseFormat = { "type": "json_object" } | { "type": "json_schema", 
/**
 * `[A-Za-z0-9_-]{1,64}`; `answer` where left out.
 */
name?: string, 
/**
 * The JSON Schema.
 */
schema: unknown, 
/**
 * Whether the provider must enforce the schema exactly; true where left out.
 */
strict?: boolean, };

/**
 * The provider's prompt cache.
 */
export type PromptCache = { 
/**
 * How long it is cached; default `5m`.
 */
ttl?: CacheTtl, 
/**
 * The routing key of requests that share a prefix, for APIs that use one; derived from the session where left out.
 */
key?: string, };

/**
 * How long the provider may cache the prompt.
 */
export type CacheTtl = "off" | "5m" | "1h";

/**
 * How a tool may run beside the other calls of the same message.
 */
export type ExecutionMode = "sequential" | "parallel";

/**
 * What may be done with a call whose outcome is unknown after a crash.
 */
export type ReplayClass = "pure" | "idempotent" | "reconcilable" | "unsafe";

/**
 * One event of a run's stream. `seq` counts from 1 without a gap.
 */
export type StreamEvent = { "type": "stream_start", 
/**
 * The host's id of the run.
 */
runId: string, 
/**
 * The session the run belongs to.
 */
sessionLabel: string, 
/**
 * The `target` of the context, or null.
 */
target: DeliveryTarget, 
/**
 * The event's number.
 */
seq: number, } | { "type": "token", 
/**
 * The text.
 */
text: string, 
/**
 * The assistant message it belongs to.
 */
messageId: string, 
/**
 * The event's number; the last one where deltas were merged.
 */
seq: number, 
/**
 * The first number, where deltas were merged (a reader more than 4,096 events behind).
 */
seqFrom?: number, } | { "type": "tool_status", 
/**
 * The tool.
 */
toolName: string, 
/**
 * The provider's id of the call.
 */
toolCallId: string, 
/**
 * What happened.
 */
status: ToolStatus, 
/**
 * The engine's id of the call: that of `toolCalls` and of the ledger.
 */
callId: string, 
/**
 * One line about the outcome, at most 200 characters.
 */
summary?: string, 
/**
 * How long the tool ran, in milliseconds; absent where it did not start.
 */
durationMs?: number, 
/**
 * Where it started: the arguments that the tool receives.
 */
params?: Record<string, unknown>, 
/**
 * Where it ended: what the tool returned.
 */
result?: unknown, 
/**
 * Where it ended: whether it failed.
 */
isError?: boolean, 
/**
 * The assistant message with the call.
 */
messageId: string, 
/**
 * The event's number.
 */
seq: number, } | { "type": "tool_progress", 
/**
 * The tool.
 */
toolName: string, 
/**
 * The provider's id of the call.
 */
toolCallId: string, 
/**
 * The engine's id of the call.
 */
callId: string, 
/**
 * The update.
 */
partial: unknown, 
/**
 * The number of the last event before it that is stored.
 */
seq: number, 
/**
 * Its own number after that event, from 1.
 */
sub: number, } | { "type": "tool_input_delta", 
/**
 * The provider's id of the call, where it is known.
 */
toolCallId?: string, 
/**
 * The tool, where it is known.
 */
toolName?: string, 
/**
 * The piece: a part of the JSON text.
 */
delta: string, 
/**
 * The position of the call's block in its message.
 */
index: number, 
/**
 * The assistant message with the call.
 */
messageId: string, 
/**
 * The number of the last event before it that is stored.
 */
seq: number, 
/**
 * Its own number after that event, from 1.
 */
sub: number, } | { "type": "usage", 
/**
 * What the call was for: the run's next answer, or a summary.
 */
purpose: CallPurpose, 
/**
 * The number of the call among the run's attempts, from 1.
 */
attempt: number, 
/**
 * The provider.
 */
provider: string, 
/**
 * The model.
 */
model: string, 
/**
 * The assistant message that it answered with; absent for a summary and a call that failed.
 */
messageId?: string, 
/**
 * Its tokens.
 */
usage: TokenUsage, 
/**
 * True where some of them are estimated.
 */
usageEstimated?: boolean, 
/**
 * US dollars; absent where the price is unknown.
 */
cost?: number, 
/**
 * The event's number.
 */
seq: number, } | { "type": "retry", 
/**
 * Why it failed.
 */
reason: FailureKind, 
/**
 * The number of the failed call among the run's attempts, from 1; the number of those before, if it was not sent.
 */
attempt: number, 
/**
 * The provider that failed.
 */
provider: string, 
/**
 * The model that failed.
 */
model: string, 
/**
 * The auth profile that failed; absent where the server needs none.
 */
profileId?: string, 
/**
 * The delay before the next call, in milliseconds.
 */
ms: number, 
/**
 * The event's number.
 */
seq: number, } | { "type": "compaction", 
/**
 * Which.
 */
phase: CompactionPhase, 
/**
 * Why: the context was near its limit, or the provider refused it.
 */
trigger: CompactionTrigger, 
/**
 * The estimated tokens of the context before it.
 */
tokensBefore: number, 
/**
 * Where it ended: those after it; unchanged where nothing was compacted.
 */
tokensAfter?: number, 
/**
 * The event's number.
 */
seq: number, } | { "type": "user_message", 
/**
 * The message's id in the ledger.
 */
messageId: string, 
/**
 * Its text.
 */
text: string, 
/**
 * The event's number.
 */
seq: number, } | { "type": "approval", 
/**
 * Which.
 */
phase: ApprovalPhase, 
/**
 * The id of the approval: the argument of `approve` and `deny`.
 */
approvalId: string, 
/**
 * What the call waits for.
 */
kind: ApprovalKind, 
/**
 * What became of it.
 */
status: ApprovalStatus, 
/**
 * The tool.
 */
toolName: string, 
/**
 * The engine's id of the call.
 */
callId: string, 
/**
 * The provider's id of the call.
 */
toolCallId: string, 
/**
 * The arguments that the decision is about; once approved with others, those.
 */
params: Record<string, unknown>, 
/**
 * Why `beforeToolCall` requested a decision.
 */
question?: string, 
/**
 * When it expires, in Unix milliseconds.
 */
expiresAt?: number, 
/**
 * Who decided.
 */
decidedBy?: string, 
/**
 * Why it was denied.
 */
reason?: string, 
/**
 * The assistant message with the call.
 */
messageId: string, 
/**
 * The event's number.
 */
seq: number, } | { "type": "reasoning", 
/**
 * The text.
 */
text: string, 
/**
 * The assistant message it belongs to.
 */
messageId: string, 
/**
 * The event's number; the last one where deltas were merged.
 */
seq: number, 
/**
 * The first number, where deltas were merged.
 */
seqFrom?: number, } | { "type": "model_switch", 
/**
 * The model that failed.
 */
from: ModelName, 
/**
 * The model that is called now.
 */
to: ModelName, 
/**
 * Why the previous one failed; absent where `prepareStep` chose the model.
 */
reason?: FailureKind, 
/**
 * The event's number.
 */
seq: number, } | { "type": "waiting", 
/**
 * Why.
 */
reason: FailureKind, 
/**
 * What the request is for: the run's next answer, or a summary.
 */
purpose: CallPurpose, 
/**
 * The number of the attempt that follows, from 1.
 */
attempt: number, 
/**
 * The provider.
 */
provider: string, 
/**
 * The model.
 */
model: string, 
/**
 * The auth profile that cools down; absent where the server needs none.
 */
profileId?: string, 
/**
 * When the wait ends, in Unix milliseconds; absent where that is unknown (other calls are sent first).
 */
until?: number, 
/**
 * How long the wait takes, in milliseconds; absent where that is unknown.
 */
ms?: number, 
/**
 * The event's number.
 */
seq: number, } | { "type": "cache_break", 
/**
 * The cause and the cost.
 */
cacheBreak: CacheBreak, 
/**
 * The event's number.
 */
seq: number, } | { "type": "stream_end", 
/**
 * The host's id of the run.
 */
runId: string, 
/**
 * True exactly once, after the commit.
 */
final: boolean, 
/**
 * True: the run has ended with `onApproval: 'return'`, and its turn continues after a decision.
 */
parked?: boolean, 
/**
 * The assistant message that ended; absent where the run has none.
 */
messageId?: string, 
/**
 * With `final`: why the agent stopped.
 */
stopReason?: StopReason, 
/**
 * With `final`: the turn.
 */
turnId?: string, 
/**
 * With `final`: the tokens of the run.
 */
usage?: TokenUsage, 
/**
 * With `final`: US dollars; absent where a price is unknown.
 */
cost?: number, 
/**
 * With `final`: whether the session continues from the turn in the ledger, as in the result.
 */
persisted?: boolean, 
/**
 * The event's number.
 */
seq: number, } | { "type": "stream_error", 
/**
 * The error's message.
 */
error: string, 
/**
 * Whether any token of this run was delivered.
 */
partial: boolean, 
/**
 * After how many milliseconds the message may be sent again, where that is known.
 */
retryAfterMs?: number, 
/**
 * Why the agent stopped: `error` or `timeout`.
 */
stopReason?: StopReason, 
/**
 * The turn.
 */
turnId?: string, 
/**
 * The tokens of the run.
 */
usage?: TokenUsage, 
/**
 * US dollars; absent where a price is unknown.
 */
cost?: number, 
/**
 * Whether the session continues from the turn in the ledger, as in the result.
 */
persisted?: boolean, 
/**
 * The kind of the error.
 */
kind?: AgentErrorKind, 
/**
 * Whether the same message may succeed later.
 */
retryable?: boolean, 
/**
 * The event's number.
 */
seq: number, };

/**
 * Which end of an approval an event reports.
 */
export type ApprovalPhase = "requested" | "decided";

/**
 * Which end of a compaction an event reports.
 */
export type CompactionPhase = "start" | "end";

/**
 * Why a running turn is compacted.
 */
export type CompactionTrigger = "context_limit" | "overflow";

/**
 * What happened to a tool call.
 */
export type ToolStatus = "started" | "completed" | "failed";

/**
 * The phases of `onAgentEvent`.
 */
export type AgentPhase = "start" | "streaming" | "tool_use" | "compaction_start" | "compaction_end" | "end";

/**
 * The broker interface's `AgentResult`, with what the ledger stored and what it cost.
 */
export type AgentResult = { 
/**
 * The turn's ULID; also without a ledger.
 */
turnId: string, 
/**
 * The host's id of the run.
 */
runId: string, 
/**
 * The text of the last assistant message; empty where there is none.
 */
text: string, 
/**
 * All messages in order: the query, assistant messages, tool results.
 */
messages: Array<AgentMessage>, 
/**
 * The blocks of the last assistant message, in order; empty where there is none.
 */
blocks: Array<Block>, 
/**
 * All tool calls with their results.
 */
toolCalls: Array<AgentToolCall>, 
/**
 * The sum over all provider calls. Those of a compaction are in the compaction's own turn, where it has one.
 */
usage: TokenUsage, 
/**
 * True when a call reported no usage, or a placeholder, and an estimate was counted in its place.
 */
usageEstimated: boolean, 
/**
 * The size of the context after the last call, in tokens; null while unknown. Never the sum.
 */
contextTokens: number | null, 
/**
 * US dollars of the calls in `usage`, by the catalogue's prices; null where a price is unknown, never 0 for it.
 */
cost: number | null, 
/**
 * Why the agent stopped.
 */
stopReason: StopReason, 
/**
 * Milliseconds from `run()` to the end.
 */
durationMs: number, 
/**
 * Why the run failed.
 */
error?: AgentError, 
/**
 * The value of the answer, as the schema of `output` or `responseFormat` makes it; absent where the run requested none, or ended
 * without an answer that fits. Not stored: the text is.
 */
output?: unknown, 
/**
 * The reason of the abort, where one was given to the signal or to `abort()`: that very value. Only a run of this process has it.
 */
abortReason?: unknown, 
/**
 * The compaction of this run, if one was needed.
 */
compaction?: CompactionResult, 
/**
 * True when the ledger has the turn in the session's thread; false without a ledger or with a `persistError`.
 */
persisted: boolean, 
/**
 * Why the ledger does not have it. With `stale_head` it has the turn beside the session's thread: another process had
 * moved the session's pointer meanwhile, and the pointer was not changed.
 */
persistError?: PersistError, 
/**
 * Every attempt at a provider, those of summaries included.
 */
attempts: Array<Attempt>, 
/**
 * Steered messages that no model call has seen, because the run ended first.
 */
undeliveredSteering: Array<string>, 
/**
 * The token budget after the last call: the window, the reserves, and what the context uses. Absent where no call was
 * prepared.
 */
tokenBudget?: TokenBudget, 
/**
 * Options of the context that the requests could not contain; warnings of the guard and of a failed compaction.
 */
warnings: Array<RunWarning>, 
/**
 * Breaks of the provider's prompt cache.
 */
cacheBreaks: Array<CacheBreak>, 
/**
 * The decisions of the run's planner, in order; absent where it has none.
 */
plans?: Array<PlanRecord>, 
/**
 * With `onApproval: 'return'`: the calls that wait for a decision. The turn has not ended; resume it after the decision.
 */
pendingApprovals?: Array<Approval>, 
/**
 * The permissions that calls of the run needed; absent where none needed one.
 */
permissionsUsed?: Permission[], };

/**
 * What was decided.
 */
export type PlanKind = "direct" | "tools" | "clarify";

/**
 * Who decides.
 */
export type PlannerKind = "heuristic" | "function";

/**
 * A decision of a planner, as it is in the result and, with its attempt, in the ledger's `attempts_json`.
 */
export type PlanRecord = { 
/**
 * What was decided.
 */
kind: PlanKind, 
/**
 * Why, as the planner says.
 */
reason: string, 
/**
 * The hash of all that the planner decides by: the same input and settings have the same hash.
 */
inputHash: string, 
/**
 * Who decided.
 */
planner: PlannerKind, 
/**
 * The assistant message with the planned calls, or the question; absent for `direct`.
 */
messageId?: string, };

/**
 * Why the agent stopped.
 */
export type StopReason = "end_turn" | "max_tokens" | "tool_use" | "timeout" | "aborted" | "error";

/**
 * The broker interface's `AgentToolCall`.
 */
export type AgentToolCall = { 
/**
 * The provider's id of the call.
 */
id: string, 
/**
 * The tool.
 */
toolName: string, 
/**
 * The arguments that the tool received: parsed, coerced and valid; `{}` where they never became valid.
 */
params: Record<string, unknown>, 
/**
 * What the tool returned.
 */
result?: unknown, 
/**
 * Why it failed.
 */
error?: string, 
/**
 * Its status.
 */
status: ToolCallStatus, 
/**
 * Unix milliseconds.
 */
startedAt: number, 
/**
 * Unix milliseconds.
 */
completedAt?: number, 
/**
 * Order within the turn, from 0.
 */
sequence: number, 
/**
 * The session of the subagent this call spawned.
 */
spawnedSessionLabel?: string, 
/**
 * The engine's ULID of the call: the tool's idempotency key and the ledger's id.
 */
callId: string, 
/**
 * The assistant message with the call.
 */
messageId: string, };

/**
 * The status of a tool call.
 */
export type ToolCallStatus = "pending" | "running" | "completed" | "failed";

/**
 * Tokens of one call, or summed over the calls of a turn. `total = input + output + cached + cacheWrite`.
 */
export type TokenUsage = { 
/**
 * Prompt tokens that were neither read from nor written to the cache.
 */
inputTokens: number, 
/**
 * Generated tokens, reasoning included.
 */
outputTokens: number, 
/**
 * Prompt tokens read from the provider's cache.
 */
cachedInputTokens: number, 
/**
 * Prompt tokens written to the provider's cache.
 */
cacheWriteTokens: number, 
/**
 * The part of `outputTokens` that was reasoning; 0 where the provider does not report it.
 */
reasoningTokens: number, 
/**
 * The sum of the first four.
 */
totalTokens: number, };

/**
 * How many tokens a context would send: the result of `countTokens`.
 */
export type TokenCount = { 
/**
 * Tokens of the whole prompt: the provider's count where `exact`, else the sum of the three estimates below.
 */
tokens: number, 
/**
 * Whether the provider counted.
 */
exact: boolean, 
/**
 * Estimate of the system prompt.
 */
systemTokens: number, 
/**
 * Estimate of the tools' names, descriptions and schemas.
 */
toolTokens: number, 
/**
 * Estimate of the history and the current message, as the model would see them.
 */
messageTokens: number, 
/**
 * The model's window: prompt and answer together.
 */
window: number, 
/**
 * The maximum number of tokens of a prompt.
 */
promptLimit: number, };

/**
 * One attempt at a provider, as it is in the result and in the ledger's `attempts_json`.
 */
export type Attempt = { 
/**
 * The purpose of the call; absent for an answer of the run.
 */
purpose?: CallPurpose, 
/**
 * The provider.
 */
provider: string, 
/**
 * The model.
 */
model: string, 
/**
 * The auth profile used.
 */
profileId?: string, 
/**
 * True when a complete response was received.
 */
ok: boolean, 
/**
 * The HTTP status, where there was one.
 */
status?: number, 
/**
 * The failure's kind; `refusal` also for a complete response.
 */
reason?: FailureKind, 
/**
 * How long it took, in milliseconds.
 */
ms: number, 
/**
 * Its usage; absent where nothing was reported and nothing was received.
 */
usage?: TokenUsage, 
/**
 * True where a part of `usage` is an estimate: nothing was reported, or a placeholder.
 */
usageEstimated?: boolean, 
/**
 * Its cost in US dollars, where the price is known.
 */
cost?: number, 
/**
 * How long it waited for its provider's rate limits before it was sent; absent where it did not. Not part of `ms`.
 */
heldMs?: number, 
/**
 * The decision, with the purpose `plan`.
 */
plan?: PlanRecord, };

/**
 * The purpose of a call of a model.
 */
export type CallPurpose = "run" | "summary" | "count" | "plan" | "embed" | "extract";

/**
 * A model by name. Read from `"model"` as well.
 */
export type ModelName = { 
/**
 * The provider's name among the engine's; default: the run's, or the one that has the model.
 */
provider?: string, 
/**
 * The model's id.
 */
model: string, };

/**
 * An auth profile as a host sees it.
 */
export type ProfileState = { 
/**
 * The profile's name.
 */
id: string, 
/**
 * The provider it is for.
 */
provider: string, 
/**
 * The kind of its key.
 */
type: AuthType, 
/**
 * False: it cools down now, whatever the model.
 */
available: boolean, 
/**
 * When it was last used, in Unix milliseconds; null for never.
 */
lastUsedAt: number | null, 
/**
 * When it last failed, in Unix milliseconds; null for never.
 */
lastFailureAt: number | null, 
/**
 * The windows in which it is not used, without expired ones.
 */
windows: Array<ProfileWindow>, };

/**
 * A time in which a profile is not used.
 */
export type ProfileWindow = { 
/**
 * The model it applies to; null for all models of the profile.
 */
model: string | null, 
/**
 * Why.
 */
reason: FailureKind, 
/**
 * Unix milliseconds.
 */
from: number, 
/**
 * Unix milliseconds.
 */
until: number, };

/**
 * The broker interface's `AgentError`, with `detail`.
 */
export type AgentError = { 
/**
 * The broker interface's kind.
 */
kind: AgentErrorKind, 
/**
 * What failed and what to do about it; redacted.
 */
message: string, 
/**
 * Whether the broker may try the run again.
 */
retryable: boolean, 
/**
 * The finer kind and its facts.
 */
detail: ErrorDetail, };

/**
 * The broker interface's closed set.
 */
export type AgentErrorKind = "context_overflow" | "auth_failure" | "rate_limit" | "model_error" | "timeout" | "compaction_failure" | "unknown";

/**
 * The details beyond the kind.
 */
export type ErrorDetail = { 
/**
 * The finer kind.
 */
kind: FailureKind, 
/**
 * The HTTP status, where there was one.
 */
status?: number, 
/**
 * A stable code: the provider's, or the engine's (`stream_truncated`, `idle_timeout`, `stale_head`, …).
 */
code?: string, 
/**
 * After how many milliseconds another run may succeed.
 */
retryAfterMs?: number, 
/**
 * Who set that time; present where `retryAfterMs` is.
 */
retryAfterSource?: RetryAfterSource, };

/**
 * The source of `retryAfterMs`.
 */
export type RetryAfterSource = "provider" | "cooldown";

/**
 * The finer kinds, and the engine's own.
 */
export type FailureKind = "context_overflow" | "rate_limit" | "overloaded" | "server_error" | "timeout" | "network" | "billing" | "auth" | "auth_permanent" | "model_not_found" | "format" | "refusal" | "budget_exceeded" | "policy_max_tokens" | "output_invalid" | "aborted" | "storage" | "unknown";

/**
 * Why the ledger does not have a turn.
 */
export type PersistError = { 
/**
 * A stable code: `storage_full`, `stale_head`, …
 */
code: string, 
/**
 * What failed and what to do.
 */
message: string, };

/**
 * A setting of the context that the engine did not follow, without a failure. Reported once per run.
 */
export type RunWarning = { 
/**
 * A stable code: `unsupported_option`, `unusable_image`, …
 */
code: string, 
/**
 * The context's field, if it concerns one: `temperature`, `metadata.team`.
 */
field?: string, 
/**
 * What was left out, and why.
 */
message: string, };

/**
 * How a prompt cache broke: emitted as an event, and stored in the result and in the ledger.
 */
export type CacheBreak = { 
/**
 * The number of the attempt that showed it, from 1.
 */
attempt: number, 
/**
 * The cause.
 */
cause: CacheBreakCause, 
/**
 * The first part of the request that changed; null where none did.
 */
part: CachePart | null, 
/**
 * How it changed.
 */
change: CacheChange | null, 
/**
 * The name of the tool or of the setting.
 */
name: string | null, 
/**
 * The index of the tool among the tools, or of the message in the conversation as it is sent, from 0.
 */
index: number | null, 
/**
 * The message's id; null for one that was removed.
 */
messageId: string | null, 
/**
 * The role of the message.
 */
role: Role | null, 
/**
 * Tokens that the provider was expected to read from its cache.
 */
expectedTokens: number, 
/**
 * Tokens that it read.
 */
readTokens: number, 
/**
 * Tokens that were paid again because of it.
 */
tokens: number, 
/**
 * Their cost in US dollars; null where a price is unknown.
 */
cost: number | null, 
/**
 * Milliseconds since the previous call.
 */
idleMs: number, };

/**
 * The cause of a broken cache.
 */
export type CacheBreakCause = "prefix" | "expired" | "unexplained";

/**
 * A part of a request.
 */
export type CachePart = "system" | "tool" | "message" | "setting";

/**
 * How a part changed.
 */
export type CacheChange = "changed" | "inserted" | "removed" | "reordered";

/**
 * A request as the host sees it.
 */
export type OutgoingRequest = { 
/**
 * The provider's name among the engine's.
 */
provider: string, 
/**
 * The model.
 */
model: string, 
/**
 * The API that the body is written for.
 */
api: Api, 
/**
 * The URL; the values of a query are left out, because one may be a key.
 */
url: string, 
/**
 * The body, in the form of the provider's API.
 */
body: Record<string, any>, 
/**
 * The purpose: an answer of the run, a summary of its session, a count of tokens, or vectors or facts for the memory.
 */
purpose: CallPurpose, 
/**
 * The number of the attempt, from 1.
 */
attempt: number, 
/**
 * The run; for a manual compaction, the one that its turn is stored with; `system:memory` for the memory.
 */
runId: string, };

/**
 * The broker interface's `CompactionResult`.
 */
export type CompactionResult = { summary: string, summarizedThroughTurnId: string, firstKeptTurnId: string, turnsSummarized: number, model: string, provider: string, tokensBefore: number, tokensAfter: number, summaryTokens: number, summarizationInputTokens: number, summarizationOutputTokens: number, durationMs: number, trigger: 'context_limit' | 'overflow_recovery', 
/**
 * The strategy that was used.
 */
compactionType: 'summary' | 'sliding_window' | 'hard_clear' | 'tool_result_truncation', };

/**
 * A turn that was begun, has not ended, and runs nowhere: its process ended, or lost its lease.
 */
export type InterruptedTurn = { 
/**
 * The turn's ULID: the argument of `resume` and `discard`.
 */
turnId: string, 
/**
 * The host's id of the run.
 */
runId: string, 
/**
 * Its session.
 */
sessionLabel: string, 
/**
 * The turn it follows; null for a root.
 */
parentTurnId: string | null, 
/**
 * False: the session has continued without it, so it can only be discarded; or its stored context was altered
 * from outside, and it can only be left as it is.
 */
resumable: boolean, 
/**
 * Unix milliseconds.
 */
startedAt: number, 
/**
 * The provider.
 */
provider: string, 
/**
 * The model.
 */
model: string, 
/**
 * The host's own data; null where there is none.
 */
metadata: Record<string, unknown> | null, 
/**
 * Complete answers of the model so far.
 */
iterations: number, 
/**
 * The messages so far, in order.
 */
messages: Array<AgentMessage>, 
/**
 * The tool calls so far, in order.
 */
toolCalls: Array<InterruptedCall>, 
/**
 * True: it was not interrupted; calls of it wait for a decision, or have one and were not resumed since.
 */
awaitingApproval: boolean, 
/**
 * The approvals of its calls, decided or not, oldest first.
 */
approvals: Array<Approval>, };

/**
 * A tool call of an interrupted turn.
 */
export type InterruptedCall = { 
/**
 * Its replay class.
 */
replay: ReplayClass, 
/**
 * The provider's id of the call.
 */
id: string, 
/**
 * The tool.
 */
toolName: string, 
/**
 * The arguments that the tool received: parsed, coerced and valid; `{}` where they never became valid.
 */
params: Record<string, unknown>, 
/**
 * What the tool returned.
 */
result?: unknown, 
/**
 * Why it failed.
 */
error?: string, 
/**
 * Its status.
 */
status: ToolCallStatus, 
/**
 * Unix milliseconds.
 */
startedAt: number, 
/**
 * Unix milliseconds.
 */
completedAt?: number, 
/**
 * Order within the turn, from 0.
 */
sequence: number, 
/**
 * The session of the subagent this call spawned.
 */
spawnedSessionLabel?: string, 
/**
 * The engine's ULID of the call: the tool's idempotency key and the ledger's id.
 */
callId: string, 
/**
 * The assistant message with the call.
 */
messageId: string, };

/**
 * A tool call that waits for a decision, or has waited.
 */
export type Approval = { 
/**
 * Its ULID.
 */
id: string, 
/**
 * What the call waits for.
 */
kind: ApprovalKind, 
/**
 * What became of it.
 */
status: ApprovalStatus, 
/**
 * The turn of the call.
 */
turnId: string, 
/**
 * The host's id of the run.
 */
runId: string, 
/**
 * The session.
 */
sessionLabel: string, 
/**
 * The engine's id of the call.
 */
callId: string, 
/**
 * The provider's id of the call.
 */
toolCallId: string, 
/**
 * The assistant message with the call.
 */
messageId: string, 
/**
 * The tool.
 */
toolName: string, 
/**
 * The arguments that the decision is about; once approved with others, those.
 */
params: Record<string, unknown>, 
/**
 * The hash of these arguments, independent of white space and the order of keys.
 */
paramsHash: string, 
/**
 * Approved with other arguments: those that were requested.
 */
requestedParams?: Record<string, unknown>, 
/**
 * Why `beforeToolCall` requested a decision.
 */
question?: string, 
/**
 * Who decided, as the host named them.
 */
decidedBy?: string, 
/**
 * Why it was denied.
 */
reason?: string, 
/**
 * When the decision was requested, in Unix milliseconds.
 */
createdAt: number, 
/**
 * When it expires.
 */
expiresAt?: number, 
/**
 * When it was decided.
 */
decidedAt?: number, };

/**
 * What a call waits for.
 */
export type ApprovalKind = "approval" | "result";

/**
 * What became of an approval.
 */
export type ApprovalStatus = "pending" | "approved" | "denied" | "expired" | "provided" | "cancelled";

/**
 * Whether a call of a tool needs somebody's approval.
 */
export type ToolPermission = "allow" | "ask";

/**
 * The wire APIs the engine speaks.
 */
export type Api = "anthropic-messages" | "openai-chat" | "openai-responses" | "google-generative-ai" | "bedrock-converse" | "scripted";

/**
 * One provider, in the options. Under the name of a known service (`groq`, `openrouter`, `ollama`, …) every field has a
 * default.
 */
export type ProviderOptions = { 
/**
 * The API it speaks.
 */
api?: Api, 
/**
 * Its base URL; the API's path is added to it. https, unless it is this machine.
 */
baseUrl?: string, 
/**
 * The AWS region, for `api: 'bedrock-converse'`; by default the one in `baseUrl`, else that of `AWS_REGION`.
 */
region?: string, 
/**
 * The service (`vllm`, `azure`, …), if neither the host of `baseUrl` nor the provider's name shows it.
 */
flavor?: string, 
/**
 * The `api-version` of Azure, such as `2024-10-21`; without one `/openai/v1` is called.
 */
apiVersion?: string, 
/**
 * The deployment of Azure, for a dated `apiVersion`; the model's name by default.
 */
deployment?: string, 
/**
 * Headers sent with every request. Keys belong in `authProfiles`.
 */
headers?: { [key in string]: string }, 
/**
 * DNS, TCP and TLS together, in milliseconds; 10,000 by default.
 */
connectTimeoutMs?: number, 
/**
 * Until the answer begins, in milliseconds; 120,000 by default.
 */
headerTimeoutMs?: number, 
/**
 * Between two pieces of the answer, pings counted, in milliseconds; 300,000 by default.
 */
idleTimeoutMs?: number, 
/**
 * Between two parts of the answer, pings not counted, in milliseconds; 600,000 by default.
 */
noProgressTimeoutMs?: number, 
/**
 * Whether `prompt_cache_key` is sent, for the two OpenAI APIs; by default where the service is known to accept it.
 */
promptCacheKey?: boolean, 
/**
 * True: `baseUrl` may be plain http to another machine.
 */
allowInsecure?: boolean, 
/**
 * The value of the `anthropic-version` header.
 */
anthropicVersion?: string, 
/**
 * `env` for the proxy of the environment, or a proxy's URL; none by default.
 */
proxy?: string, 
/**
 * Authorities to trust besides the bundled ones, in PEM.
 */
caCertificates?: string, 
/**
 * The replies of the scripted provider; for `api: 'scripted'`.
 */
script?: Script, };

/**
 * One key of one provider, in the options.
 */
export type AuthProfile = { 
/**
 * A name for logs and attempts, such as `anthropic:work`.
 */
id: string, 
/**
 * The provider's name in `providers`.
 */
provider: string, 
/**
 * The kind of the key: `api_key` (default), `token` for one sent as `authorization: Bearer`, `oauth` for a token that
 * expires and is refreshed, or `aws` for one that signs requests (Bedrock).
 */
type?: AuthType, 
/**
 * The key, or the environment variable that holds it. For `aws` it may be left out: `AWS_ACCESS_KEY_ID`,
 * `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN` are then read.
 */
key?: AuthKey, 
/**
 * When `key` expires, in Unix milliseconds; for `oauth`.
 */
expiresAt?: number, };

/**
 * The kind of a key.
 */
export type AuthType = "api_key" | "token" | "oauth" | "aws";

/**
 * The source of the key.
 */
export type AuthKey = KeyText | AwsKey;

/**
 * A secret, or the environment variable that holds it.
 */
export type KeyText = string | { 
/**
 * The name.
 */
env: string, };

/**
 * An AWS access key.
 */
export type AwsKey = { 
/**
 * The key's id.
 */
accessKeyId: KeyText, 
/**
 * The secret key.
 */
secretAccessKey: KeyText, 
/**
 * The token of temporary credentials.
 */
sessionToken?: KeyText, };

/**
 * A hard limit on spending. A call that could exceed it is not made: its run ends with `budget_exceeded`. With a ledger it holds
 * over all processes that have the budget: each call is reserved there at its maximum, and settled at what it has used.
 */
export type BudgetOptions = { 
/**
 * What it is counted over.
 */
per: BudgetPer, 
/**
 * The only session (its label) or agent (its id) it applies to. Default: each has its own.
 */
only?: string, 
/**
 * Tokens, prompt and answer, as the provider counts them.
 */
maxTokens?: number, 
/**
 * US dollars, by the catalogue's prices or the model's declared `cost`. A model without a price cannot be called.
 */
maxCost?: number, };

/**
 * What a budget is counted over: one run, a run with those of the agents that work for it (`tree`), all runs of a session, of an
 * agent, or of a day (UTC).
 */
export type BudgetPer = "run" | "tree" | "session" | "agent" | "day";

/**
 * The balance of a budget.
 */
export type BudgetState = { 
/**
 * What it is counted over.
 */
per: BudgetPer, 
/**
 * Its key: the turn's id (of a tree that at its top), the session's label, the agent's id, or the date (UTC, `2026-01-31`).
 */
key: string, 
/**
 * Its limit in tokens.
 */
maxTokens?: number, 
/**
 * Its limit in US dollars.
 */
maxCost?: number, 
/**
 * Tokens spent.
 */
usedTokens: number, 
/**
 * US dollars spent, where they are known.
 */
usedCost: number, 
/**
 * Tokens reserved for calls under way, at their largest possible size.
 */
heldTokens: number, 
/**
 * US dollars reserved for calls under way.
 */
heldCost: number, };

/**
 * Limits of a run. Of several (the engine's, an agent's, the run's own) each limit holds, so that the smaller one counts.
 * The values are the caller's; nothing is read from a server.
 *
 * @example
 * ```ts
 * const policy: RunPolicy = { allowedTools: ['read', 'grep', 'github__*'], deniedTools: ['github__delete_*'], maxToolCalls: 20 }
 * ```
 */
export type RunPolicy = { 
/**
 * The tools that may be called: names, in which `*` stands for any characters and `?` for one. Others are not offered to
 * the model, and a call of one is answered with an error. Default: all.
 */
allowedTools?: Array<string>, 
/**
 * The tools that may not be called, of the same form; stronger than `allowedTools`. Default: none.
 */
deniedTools?: Array<string>, 
/**
 * The most calls of tools. Each call over it is answered with an error that says so, and the run goes on.
 */
maxToolCalls?: number, 
/**
 * The most characters of a tool's result that the model reads; the rest is cut from the middle. The ledger has the whole.
 */
maxResultChars?: number, 
/**
 * The most tokens of all calls of the model, prompts and answers, as the provider counts them. Once they are used, the
 * model is not called again: the run ends with an error of `detail.kind` `policy_max_tokens`.
 */
maxTokens?: number, 
/**
 * The most calls of the model, as `maxIterations`.
 */
maxSteps?: number, 
/**
 * The most milliseconds of the run, as `timeoutMs`.
 */
timeoutMs?: number, 
/**
 * The most tools that run at once, as `maxParallelTools`.
 */
maxParallel?: number, };

/**
 * The known rate limits of a model under one auth profile.
 */
export type LimitState = { 
/**
 * The provider.
 */
provider: string, 
/**
 * The auth profile; absent for a server without keys.
 */
profileId?: string, 
/**
 * The model.
 */
model: string, 
/**
 * Requests.
 */
requests?: RateLimitState, 
/**
 * Tokens, prompt and answer.
 */
tokens?: RateLimitState, 
/**
 * Tokens of prompts.
 */
input?: RateLimitState, 
/**
 * Tokens of answers.
 */
output?: RateLimitState, 
/**
 * Calls that were sent and have not ended.
 */
inFlight: number, 
/**
 * Calls that wait.
 */
waiting: number, 
/**
 * Milliseconds in which no call is sent, after a refusal for the rate.
 */
closedForMs: number, };

/**
 * A rate limit, computed from the last answers and the calls sent since.
 */
export type RateLimitState = { 
/**
 * The maximum.
 */
limit: number, 
/**
 * What remains, with the calls under way counted at their estimates.
 */
remaining: number, 
/**
 * Milliseconds until the limit is full again.
 */
fullInMs: number, };

/**
 * A model as a host declares it. Missing fields have the catalogue's values.
 */
export type ModelDeclaration = { 
/**
 * The provider's name in the options.
 */
provider: string, 
/**
 * The name in requests.
 */
id: string, 
/**
 * The wire API: facts of the model at other providers of that API apply here too, except the price.
 */
api?: Api, 
/**
 * The name for people.
 */
name?: string, 
/**
 * Tokens of prompt and answer together. Required where the catalogue does not have the model.
 */
contextWindow?: number, 
/**
 * Tokens of prompt, where they are capped below the window.
 */
maxInputTokens?: number, 
/**
 * Tokens of one answer.
 */
maxOutputTokens?: number, 
/**
 * What a prompt may contain.
 */
input?: Array<Modality>, 
/**
 * Whether it can think.
 */
reasoning?: boolean, 
/**
 * Which thinking settings it supports.
 */
thinking?: ThinkingCapability, 
/**
 * False where the provider refuses a temperature.
 */
temperature?: boolean, 
/**
 * Prices; 0 for a free model.
 */
cost?: ModelCost, 
/**
 * Other names of the same model.
 */
aliases?: Array<string>, };

/**
 * One model at one provider.
 */
export type ModelInfo = { 
/**
 * The provider: `anthropic`, `openrouter`, …; `open` for weights that anyone may serve.
 */
provider: string, 
/**
 * The name in requests. After a resolution by suffix this is the catalogue's name, not the requested one.
 */
id: string, 
/**
 * The wire API the provider speaks for it: `anthropic-messages`, `openai-chat`, `openai-responses`,
 * `google-generative-ai` or `bedrock-converse`; null where a declaration left it open.
 */
api: string | null, 
/**
 * The name for people.
 */
name: string, 
/**
 * Tokens of prompt and answer together.
 */
contextWindow: number, 
/**
 * Tokens of prompt, where the provider caps them below the window.
 */
maxInputTokens: number | null, 
/**
 * Tokens of one answer, thinking included.
 */
maxOutputTokens: number, 
/**
 * What a prompt may contain.
 */
input: Array<Modality>, 
/**
 * Whether it can think.
 */
reasoning: boolean, 
/**
 * Which thinking settings it supports; null where it cannot think or where that is unknown.
 */
thinking: ThinkingCapability | null, 
/**
 * False where the provider refuses a temperature: leave the field out then.
 */
temperature: boolean, 
/**
 * Prices; null where they are unknown.
 */
cost: ModelCost | null, 
/**
 * Other names of the same model at this provider.
 */
aliases: Array<string>, 
/**
 * The day the provider stops serving it, `YYYY-MM-DD`, where announced.
 */
retires: string | null, 
/**
 * The source of the facts: a key of the data file's `sources`, `declared`, or `assumed`.
 */
source: string, };

/**
 * The conditions of a list of models; all models where none is set.
 */
export type ModelFilter = { 
/**
 * The provider.
 */
provider?: string, 
/**
 * The API that its provider speaks for it.
 */
api?: Api, 
/**
 * Whether it can think.
 */
reasoning?: boolean, 
/**
 * What a prompt may contain.
 */
input?: Modality, };

/**
 * A kind of prompt content.
 */
export type Modality = "text" | "image";

/**
 * The thinking settings of a model.
 */
export type ThinkingCapability = { 
/**
 * It supports `adaptive`: the model decides.
 */
adaptive: boolean, 
/**
 * It supports a budget in tokens.
 */
budget: boolean, 
/**
 * The efforts it supports, lowest first; empty where it supports none.
 */
efforts: Array<ThinkingEffort>, 
/**
 * Whether thinking can be switched off.
 */
canDisable: boolean, };

/**
 * Prices in US dollars per million tokens. A price that is null is unknown.
 */
export type ModelCost = { 
/**
 * Prompt tokens outside the cache.
 */
input: number, 
/**
 * Generated tokens, thinking included.
 */
output: number, 
/**
 * Prompt tokens read from the cache.
 */
cacheRead: number | null, 
/**
 * Prompt tokens written to the cache for its usual time (5 minutes at Anthropic).
 */
cacheWrite: number | null, 
/**
 * Prompt tokens written to the cache for an hour.
 */
cacheWrite1h: number | null, 
/**
 * Other prices for long prompts.
 */
tiers: Array<CostTier>, };

/**
 * The prices of a call with a prompt longer than a step. They apply to all of its tokens.
 */
export type CostTier = { 
/**
 * The step, in tokens of prompt, cached ones included.
 */
inputTokensAbove: number, 
/**
 * As [`ModelCost::input`].
 */
input: number, 
/**
 * As [`ModelCost::output`].
 */
output: number, 
/**
 * As [`ModelCost::cache_read`].
 */
cacheRead: number | null, 
/**
 * As [`ModelCost::cache_write`].
 */
cacheWrite: number | null, 
/**
 * As [`ModelCost::cache_write_1h`].
 */
cacheWrite1h: number | null, };

/**
 * The replies of a scripted provider: one per call, in order.
 */
export type Script = Array<ScriptedReply> | ScriptedReplies;

/**
 * The replies, and whether they repeat.
 */
export type ScriptedReplies = { 
/**
 * The replies.
 */
replies: Array<ScriptedReply>, 
/**
 * True: start again after the last. Otherwise further calls fail with `script_exhausted`.
 */
repeat?: boolean, };

/**
 * One reply.
 */
export type ScriptedReply = string | ScriptedParts;

/**
 * The parts of a reply, in the order of these fields; `steps` instead defines an exact order.
 */
export type ScriptedParts = { 
/**
 * Waits at this gate first, until the test opens it.
 */
gate?: string, 
/**
 * Waits this long, in milliseconds.
 */
delayMs?: number, 
/**
 * Shown reasoning.
 */
thinking?: string, 
/**
 * Its signature.
 */
signature?: string, 
/**
 * Visible text.
 */
text?: string, 
/**
 * Tool calls.
 */
toolCalls?: Array<ScriptedCall>, 
/**
 * The reported usage; none where absent.
 */
usage?: ScriptedUsage, 
/**
 * Fails here.
 */
error?: ScriptedError, 
/**
 * Why it stops; `tool_use` with tool calls, else `end_turn`.
 */
stopReason?: ScriptedStop, 
/**
 * The size of the deltas of text, thinking and arguments in characters; whole where absent.
 */
chunkSize?: number, 
/**
 * An exact order; only `chunkSize` may be set beside it.
 */
steps?: Array<ScriptedStep>, };

/**
 * One step of a reply. Consecutive texts belong to one block, also with waits between them.
 */
export type ScriptedStep = { 
/**
 * The text.
 */
text: string, } | { 
/**
 * The text.
 */
thinking: string, 
/**
 * The block's signature.
 */
signature?: string, } | { 
/**
 * The call.
 */
toolCall: ScriptedCall, } | { 
/**
 * Milliseconds.
 */
delayMs: number, } | { 
/**
 * The gate.
 */
gate: string, } | { 
/**
 * The counts.
 */
usage: ScriptedUsage, } | { 
/**
 * Why.
 */
stop: ScriptedStop, } | { 
/**
 * How.
 */
error: ScriptedError, } | { 
/**
 * Always `true`.
 */
truncate: true, };

/**
 * A call of a tool.
 */
export type ScriptedCall = { 
/**
 * The provider's id of the call; `call_1`, `call_2`, … where absent.
 */
id?: string, 
/**
 * The tool.
 */
name: string, 
/**
 * The arguments; `{}` where absent.
 */
arguments?: unknown, 
/**
 * The arguments as text, sent as it is, so that it need not be JSON.
 */
argumentsText?: string, };

/**
 * Token counts, as `TokenUsage` names them; 0 where absent.
 */
export type ScriptedUsage = { 
/**
 * Prompt tokens outside the cache.
 */
inputTokens?: number, 
/**
 * Generated tokens, reasoning included.
 */
outputTokens?: number, 
/**
 * Read from the cache.
 */
cachedInputTokens?: number, 
/**
 * Written to the cache.
 */
cacheWriteTokens?: number, 
/**
 * The reasoning part of the output.
 */
reasoningTokens?: number, };

/**
 * A failure, by its kind or by an HTTP status.
 */
export type ScriptedError = { 
/**
 * The kind; else `status` decides, else `server_error`.
 */
kind?: FailureKind, 
/**
 * The HTTP status.
 */
status?: number, 
/**
 * A stable code.
 */
code?: string, 
/**
 * Its text.
 */
message?: string, 
/**
 * The wait that it requests, in milliseconds.
 */
retryAfterMs?: number, };

/**
 * Why a reply stops.
 */
export type ScriptedStop = "end_turn" | "stop_sequence" | "tool_use" | "max_tokens" | "context_full" | "refusal" | "content_filter" | "pause" | "malformed_tool_call" | "error" | "other";

/**
 * One recorded request.
 */
export type ScriptedRequest = { 
/**
 * The model.
 */
model: string, 
/**
 * The system prompt.
 */
system: string, 
/**
 * The messages, as the transcript projected them.
 */
messages: Array<unknown>, 
/**
 * The names of the tools.
 */
tools: Array<string>, 
/**
 * Cap of the answer in tokens.
 */
maxTokens: number, 
/**
 * Sampling temperature.
 */
temperature?: number, 
/**
 * The auth profile used.
 */
profileId?: string, };

/**
 * A session: a label that points at a turn.
 */
export type SessionRow = { 
/**
 * The label, which is the key.
 */
label: string, 
/**
 * Its head, which the next turn follows; null until the first turn.
 */
threadId: string | null, 
/**
 * The persona; `default` where none was inherited.
 */
personaId: string, 
/**
 * The agent to which the session's usage counts: the one in the label, else that of the turn it began at, else the persona.
 */
agentId: string, 
/**
 * True for the session of a subagent.
 */
isSubagent: boolean, 
/**
 * The session that spawned this one.
 */
parentSessionLabel: string | null, 
/**
 * The turn in which it was spawned.
 */
parentTurnId: string | null, 
/**
 * The tool call that spawned it.
 */
spawnToolCallId: string | null, 
/**
 * The task of the subagent.
 */
taskDescription: string | null, 
/**
 * The status of the subagent.
 */
taskStatus: 'pending' | 'running' | 'completed' | 'failed' | 'aborted' | null, 
/**
 * The routing data of its messages.
 */
routingKey: string | null, 
/**
 * What created the session, where it was not a run.
 */
origin: string | null, 
/**
 * The session's id in the system it came from.
 */
originSessionId: string | null, 
/**
 * Unix milliseconds.
 */
createdAt: number, 
/**
 * Unix milliseconds.
 */
updatedAt: number, 
/**
 * Its status.
 */
status: 'active' | 'archived', 
/**
 * The host's own data; null where there is none.
 */
metadata: Record<string, unknown> | null, };

/**
 * A turn with its messages and tool calls.
 */
export type TurnRow = { 
/**
 * The turn's ULID.
 */
id: string, 
/**
 * The turn it follows; null for a root.
 */
parentTurnId: string | null, 
/**
 * A run, or a summary of earlier turns.
 */
turnType: 'normal' | 'compaction', 
/**
 * Its status.
 */
status: 'pending' | 'streaming' | 'completed' | 'aborted' | 'failed', 
/**
 * The session it was run in.
 */
sessionLabel: string, 
/**
 * The host's id of the run.
 */
runId: string, 
/**
 * The number of its ancestors: 0 for a root.
 */
depth: number, 
/**
 * True when another turn follows it.
 */
hasChildren: boolean, 
/**
 * Unix milliseconds.
 */
startedAt: number, 
/**
 * Unix milliseconds.
 */
completedAt: number | null, 
/**
 * The model.
 */
model: string | null, 
/**
 * The provider.
 */
provider: string | null, 
/**
 * The role of the agent.
 */
role: AgentRole, 
/**
 * The toolset's name.
 */
toolsetName: string | null, 
/**
 * The names of the tools on offer.
 */
toolsAvailable: Array<string>, 
/**
 * The permissions snapshot, as it was passed.
 */
permissionsGranted: unknown, 
/**
 * The permissions that were used, where the host recorded them.
 */
permissionsUsed: unknown, 
/**
 * The sum over the turn's provider calls.
 */
usage: TokenUsage, 
/**
 * True when a part of it was estimated.
 */
usageEstimated: boolean, 
/**
 * The tokens of this turn and its ancestors.
 */
threadTokens: number, 
/**
 * The size of the context after the last call; null while unknown.
 */
contextTokens: number | null, 
/**
 * US dollars; null where a price is unknown.
 */
cost: number | null, 
/**
 * The ids of the user messages.
 */
queryMessageIds: Array<string>, 
/**
 * The id of the final assistant message.
 */
responseMessageId: string | null, 
/**
 * The number of its tool calls.
 */
toolCallCount: number, 
/**
 * The event that triggered it.
 */
sourceEventId: string | null, 
/**
 * The workspace's root.
 */
workspacePath: string | null, 
/**
 * The host's own data; null where there is none.
 */
metadata: Record<string, unknown> | null, 
/**
 * Why the agent stopped.
 */
stopReason: StopReason | null, 
/**
 * Why it failed.
 */
error: TurnError | null, 
/**
 * Every attempt at a provider.
 */
attempts: Array<Attempt>, 
/**
 * The compaction of a compaction turn.
 */
compaction: CompactionResult | null, 
/**
 * The messages, in order.
 */
messages: Array<AgentMessage>, 
/**
 * The tool calls, in order.
 */
toolCalls: Array<AgentToolCall>, };

/**
 * Why a stored turn failed.
 */
export type TurnError = { 
/**
 * The broker interface's kind.
 */
kind: AgentErrorKind, 
/**
 * What failed and what to do about it.
 */
message: string, 
/**
 * Whether the run may be tried again.
 */
retryable: boolean, 
/**
 * The stable code: the provider's, or the engine's (`interrupted`, `run_timeout`, …); null where there is none.
 */
code: string | null, };

/**
 * A message of a session's history, with the turn it belongs to.
 */
export type HistoryMessage = { 
/**
 * The turn.
 */
turnId: string, 
/**
 * The engine's ULID.
 */
id: string, 
/**
 * The author.
 */
role: Role, 
/**
 * The visible text.
 */
content: string, 
/**
 * Order within the turn, from 0.
 */
sequence: number, 
/**
 * Unix milliseconds.
 */
createdAt: number, 
/**
 * The shown reasoning (assistant messages).
 */
thinking?: string, 
/**
 * The provider's id of the call (tool messages).
 */
toolCallId?: string, 
/**
 * True when the tool failed (tool messages).
 */
isError?: boolean, 
/**
 * The parts, in order, as the ledger stores them and the provider gets them back.
 */
blocks: Array<Block>, 
/**
 * The origin of an assistant message.
 */
provenance?: Provenance, 
/**
 * The provider's own stop reason (assistant messages).
 */
providerStopReason?: string, };

/**
 * The result of `ledger.query`.
 */
export type QueryResult = { 
/**
 * The columns' names in order; a repeated one carries a number.
 */
columns: Array<string>, 
/**
 * The rows, each an object by column. Integers beyond 2^53 and infinite numbers are strings, blobs are hex.
 */
rows: Record<string, string | number | null>[], 
/**
 * The limit that cut the result; null when it is whole.
 */
truncated: Truncation | null, };

/**
 * The limit at which a result was cut.
 */
export type Truncation = "rows" | "bytes";

/**
 * Which check failed. The last eleven are the invariants of the schema, in this order.
 */
export type LedgerCheck = "integrity" | "references" | "checksum" | "tree" | "thread_tokens" | "children" | "pointer" | "open_turns" | "messages" | "tool_calls" | "compactions" | "blobs" | "search";

/**
 * A check that failed.
 */
export type LedgerProblem = { 
/**
 * Which check.
 */
check: LedgerCheck, 
/**
 * The key of the row: a session's label, the id of a turn, message or call, a blob's hash, the name of a table; null for
 * the file as a whole.
 */
subject: string | null, 
/**
 * What is wrong, without any text of a message.
 */
message: string, };

/**
 * How much was checked.
 */
export type LedgerChecked = { 
/**
 * Sessions.
 */
sessions: number, 
/**
 * Turns, running ones included.
 */
turns: number, 
/**
 * Messages whose checksum was compared.
 */
messages: number, 
/**
 * Tool calls.
 */
toolCalls: number, 
/**
 * Values over 64 KiB, each distinct one once.
 */
blobs: number, };

/**
 * What `ledger.verify()` found.
 */
export type LedgerReport = { 
/**
 * True when nothing is wrong.
 */
ok: boolean, 
/**
 * What is wrong, at most 1,000 entries.
 */
problems: Array<LedgerProblem>, 
/**
 * True when there is more than `problems` names.
 */
truncated: boolean, 
/**
 * How much was checked.
 */
checked: LedgerChecked, 
/**
 * How long it took, in milliseconds.
 */
durationMs: number, };

/**
 * What `ledger.backup(path)` wrote.
 */
export type LedgerBackup = { 
/**
 * Its path, with links and folders resolved.
 */
path: string, 
/**
 * Its size.
 */
bytes: number, };

/**
 * The result of `ledger.stats()`.
 */
export type LedgerStats = { 
/**
 * The ledger's own ULID.
 */
ledgerId: string, 
/**
 * When it was created, in Unix milliseconds.
 */
createdAt: number, 
/**
 * The version of the package that created it.
 */
engineVersion: string, 
/**
 * The version of its schema.
 */
schemaVersion: number, 
/**
 * Its path, with links and folders resolved.
 */
path: string, 
/**
 * The file's bytes, without its log.
 */
fileBytes: number, 
/**
 * The bytes of the log beside it.
 */
logBytes: number, 
/**
 * The bytes that `ledger.vacuum()` would free.
 */
freeBytes: number, 
/**
 * Sessions that are visible to readers.
 */
sessions: number, 
/**
 * Turns by how they ended.
 */
turns: TurnCounts, 
/**
 * Messages of turns that have ended.
 */
messages: number, 
/**
 * Tool calls of turns that have ended.
 */
toolCalls: number, 
/**
 * Values over 64 KiB: texts, arguments, results, images.
 */
blobs: BlobCounts, 
/**
 * The sum over all turns that have ended, compactions included.
 */
usage: TokenUsage, 
/**
 * US dollars, over the turns whose price is known.
 */
cost: number, 
/**
 * Turns that used tokens at an unknown price.
 */
unpricedTurns: number, 
/**
 * When the first turn began, in Unix milliseconds; null without a turn.
 */
firstTurnAt: number | null, 
/**
 * When the last turn began; null without a turn.
 */
lastTurnAt: number | null, };

/**
 * Turns by how they ended.
 */
export type TurnCounts = { 
/**
 * Completed, or ended at a cap; without compactions.
 */
completed: number, 
/**
 * Aborted.
 */
aborted: number, 
/**
 * Failed or timed out.
 */
failed: number, 
/**
 * Running, or interrupted.
 */
open: number, 
/**
 * Summaries of earlier turns.
 */
compactions: number, };

/**
 * Values over 64 KiB, which are stored apart from their rows, each distinct one once.
 */
export type BlobCounts = { 
/**
 * Their number.
 */
count: number, 
/**
 * Their bytes before compression.
 */
bytes: number, 
/**
 * Their bytes in the file: compressed where that saves a tenth.
 */
storedBytes: number, 
/**
 * The bytes saved because each is stored once and not in every row that refers to it.
 */
savedBytes: number, };

/**
 * What `ledger.vacuum()` did.
 */
export type LedgerVacuum = { 
/**
 * The file's bytes before.
 */
bytesBefore: number, 
/**
 * The file's bytes after. While a read is under way, the file shrinks only at the next checkpoint.
 */
bytesAfter: number, };

/**
 * The result of `salvageLedger(damaged, fresh)`.
 */
export type LedgerSalvage = { 
/**
 * The path of the fresh ledger, with links and folders resolved.
 */
path: string, 
/**
 * Pages that were read.
 */
pages: number, 
/**
 * Rows that the header of a page counts and that cannot be read.
 */
lostRows: number, 
/**
 * Sessions that were saved.
 */
sessions: number, 
/**
 * Turns that were saved.
 */
turns: number, 
/**
 * Messages that were saved, each unaltered.
 */
messages: number, 
/**
 * Tool calls that were saved.
 */
toolCalls: number, 
/**
 * Facts of the memory that were saved, superseded ones included.
 */
facts: number, 
/**
 * Turns that the next engine with a memory indexes anew; 0 for a ledger without a memory.
 */
indexedTurns: number, 
/**
 * What was lost or reconstructed; at most 1,000 entries. `line` is null.
 */
problems: Array<TransferProblem>, 
/**
 * True when there are more problems than `problems` contains.
 */
truncated: boolean, };

/**
 * A file format.
 */
export type LedgerFormat = "ledger" | "pi" | "myclaw";

/**
 * What `ledger.export(path)` wrote.
 */
export type LedgerExport = { 
/**
 * Its path, with links and folders resolved.
 */
path: string, 
/**
 * Its size.
 */
bytes: number, 
/**
 * Its lines.
 */
lines: number, 
/**
 * The sessions in it.
 */
sessions: number, 
/**
 * The turns in it.
 */
turns: number, 
/**
 * Running turns, which are not in it.
 */
openTurns: number, 
/**
 * What could not be read, at most 1,000 entries.
 */
problems: Array<TransferProblem>, 
/**
 * True when there are more than `problems` has.
 */
truncated: boolean, 
/**
 * Parts of messages that the format does not support, by kind.
 */
leftOut: { [key in string]: number }, };

/**
 * What `ledger.import(path)` did.
 */
export type LedgerImport = { 
/**
 * The labels of the sessions it created.
 */
sessions: Array<string>, 
/**
 * Turns it added.
 */
turns: number, 
/**
 * Messages it added.
 */
messages: number, 
/**
 * Tool calls it added.
 */
toolCalls: number, 
/**
 * Turns that existed already, by their id.
 */
skippedTurns: number, 
/**
 * What was changed or left out, at most 1,000 entries.
 */
problems: Array<TransferProblem>, 
/**
 * True when there are more than `problems` has.
 */
truncated: boolean, 
/**
 * Entries of kinds that a ledger does not store, by kind.
 */
leftOut: { [key in string]: number }, };

/**
 * What `ledger.copyTo(target)` did.
 */
export type LedgerCopy = { 
/**
 * Turns that were copied.
 */
turns: number, 
/**
 * Turns that the copy had already.
 */
skippedTurns: number, 
/**
 * Turns that were read from both ledgers, and compared.
 */
comparedTurns: number, 
/**
 * Sessions that point in the copy where they point here.
 */
sessions: number, 
/**
 * Sessions that have newer turns here: another call copies them.
 */
behind: number, 
/**
 * Turns that have not ended, which are not copied.
 */
openTurns: number, 
/**
 * True when every turn and every session that was copied is the same in both ledgers.
 */
verified: boolean, 
/**
 * True when this ledger is closed for new turns, and the copy has everything that is copied.
 */
moved: boolean, 
/**
 * What this ledger has and the copy has not, by kind: `queueItems`, `deliveries`, `schedules`, `dispatches`, `facts`, `budgets`.
 */
left: { [key in string]: number }, 
/**
 * What was changed or left out, at most 1,000 entries.
 */
problems: Array<TransferProblem>, 
/**
 * True when there are more than `problems` has.
 */
truncated: boolean, };

/**
 * Something that was changed or left out. Everything else was transferred as it is.
 */
export type TransferProblem = { 
/**
 * The number of the line, from 1; null for no particular line.
 */
line: number | null, 
/**
 * Why.
 */
code: TransferCode, 
/**
 * What was done with it, without any of its content.
 */
message: string, };

/**
 * Why something was changed or left out.
 */
export type TransferCode = "damaged_line" | "invalid_line" | "refused" | "reattached" | "lost_reference" | "session_exists" | "rebuilt" | "unreadable" | "differs";

/**
 * Which part of a list.
 */
export type PageOptions = { 
/**
 * The `next` of the previous page.
 */
after?: string, 
/**
 * The limit of items: 1 to 1,000. Default 100.
 */
limit?: number, };

/**
 * A turn without its messages and tool calls; `ledger.turn(id)` returns them.
 */
export type TurnSummary = { 
/**
 * The turn's ULID.
 */
id: string, 
/**
 * The turn it follows; null for a root.
 */
parentTurnId: string | null, 
/**
 * A run, or a summary of earlier turns.
 */
turnType: 'normal' | 'compaction', 
/**
 * Its status.
 */
status: 'completed' | 'aborted' | 'failed', 
/**
 * The session it was run in.
 */
sessionLabel: string, 
/**
 * The host's id of the run.
 */
runId: string, 
/**
 * The number of its ancestors: 0 for a root.
 */
depth: number, 
/**
 * True when another turn follows it.
 */
hasChildren: boolean, 
/**
 * Unix milliseconds.
 */
startedAt: number, 
/**
 * Unix milliseconds.
 */
completedAt: number | null, 
/**
 * The model.
 */
model: string | null, 
/**
 * The provider.
 */
provider: string | null, 
/**
 * The role of the agent.
 */
role: AgentRole, 
/**
 * The sum over the turn's provider calls.
 */
usage: TokenUsage, 
/**
 * US dollars; null where a price is unknown.
 */
cost: number | null, 
/**
 * The number of its tool calls.
 */
toolCallCount: number, 
/**
 * Why the agent stopped.
 */
stopReason: StopReason | null, 
/**
 * The host's own data; null where there is none.
 */
metadata: Record<string, unknown> | null, };

/**
 * A move of a session's pointer.
 */
export type SessionMove = { 
/**
 * Its number in the ledger.
 */
id: number, 
/**
 * The session.
 */
sessionLabel: string, 
/**
 * The turn it points at since then.
 */
threadId: string, 
/**
 * Unix milliseconds.
 */
changedAt: number, };

/**
 * The filter of a search.
 */
export type SearchOptions = { 
/**
 * Only messages of turns that were run in this session.
 */
sessionLabel?: string, 
/**
 * The `next` of the previous page.
 */
after?: number, 
/**
 * The limit of hits: 1 to 1,000. Default 100.
 */
limit?: number, };

/**
 * A message that has every word of the search.
 */
export type SearchHit = { 
/**
 * The message.
 */
messageId: string, 
/**
 * Its turn.
 */
turnId: string, 
/**
 * The session the turn was run in.
 */
sessionLabel: string, 
/**
 * The role of its author.
 */
role: 'user' | 'assistant' | 'system', 
/**
 * Unix milliseconds.
 */
createdAt: number, 
/**
 * The text around the first word that was found: at most 160 characters, `…` where something was left out.
 */
excerpt: string, };

/**
 * The key by which usage is grouped.
 * `turn` is one request of the host: its single calls are in `TurnRow.attempts`. `session` is the session the turn was run in,
 * `agent` that session's agent (`SessionRow.agentId`), `model` the provider and its model, `day` the day the turn began, in UTC.
 * `metadata.userId` is the value of the key `userId` in the metadata of the turn; turns without the key are not counted.
 */
export type UsageBy = 'turn' | 'session' | 'agent' | 'model' | 'day' | `metadata.${string}`;

/**
 * The filter of a usage report.
 */
export type UsageFilter = { 
/**
 * The key of the groups.
 */
by: UsageBy, 
/**
 * Only the turns of a session.
 */
sessionLabel?: string, 
/**
 * Only those of an agent's sessions.
 */
agentId?: string, 
/**
 * Only those of a provider.
 */
provider?: string, 
/**
 * Only those of a model.
 */
model?: string, 
/**
 * Only those that began at this time or later: Unix milliseconds.
 */
since?: number, 
/**
 * Only those that began before this time: Unix milliseconds.
 */
until?: number, 
/**
 * Only those whose metadata has these values, by key: at most 8.
 */
metadata?: Readonly<Record<string, string | number | boolean>>, 
/**
 * The `next` of the previous page: a key.
 */
after?: string, 
/**
 * The limit of rows: 1 to 1,000. Default 100.
 */
limit?: number, };

/**
 * The usage of one group.
 */
export type UsageRow = { 
/**
 * The turn's id, the session's label, the agent, `provider/model`, the day as `2026-01-31`, or the value of the metadata:
 * a string as it is, anything else as JSON.
 */
key: string, 
/**
 * The number of turns, without compactions.
 */
turns: number, 
/**
 * Their usage.
 */
usage: TokenUsage, 
/**
 * How many of them have a partly estimated usage.
 */
estimatedTurns: number, 
/**
 * US dollars of the turns with a known price; null where there are none.
 */
cost: number | null, 
/**
 * The number of turns with an unknown price: their cost is not in `cost`.
 */
unpricedTurns: number, 
/**
 * The number of compactions.
 */
compactions: number, 
/**
 * Their usage, which is not in `usage`.
 */
compactionUsage: TokenUsage, 
/**
 * US dollars of those with a known price, which are not in `cost`; null where there are none.
 */
compactionCost: number | null, 
/**
 * The number of calls of models for the memory: vectors of texts, and facts of turns. They belong to no turn: those for vectors to the
 * session `system:memory`, those for facts to the session of the turn. With `since` or `until` whole days (UTC) are counted.
 */
memoryCalls: number, 
/**
 * Their usage, which is not in `usage`.
 */
memoryUsage: TokenUsage, 
/**
 * US dollars of those with a known price, which are not in `cost`; null where there are none.
 */
memoryCost: number | null, };

/**
 * The status of a session.
 */
export type SessionStatus = "active" | "archived";

/**
 * The filter of a list of sessions.
 */
export type SessionFilter = { 
/**
 * Those of an agent: see `SessionRow.agentId`.
 */
agentId?: string, 
/**
 * Those of a persona.
 */
personaId?: string, 
/**
 * Those spawned by this session.
 */
parentSessionLabel?: string, 
/**
 * Those with this prefix of the label.
 */
prefix?: string, 
/**
 * Active or archived ones.
 */
status?: SessionStatus, 
/**
 * Only sessions of subagents, or only others.
 */
isSubagent?: boolean, 
/**
 * Those whose metadata has these values, by key: at most 8.
 */
metadata?: Readonly<Record<string, string | number | boolean>>, 
/**
 * The `next` of the previous page: a label.
 */
after?: string, 
/**
 * The limit of sessions: 1 to 1,000. Default 100.
 */
limit?: number, };

/**
 * Where a run is. `waiting`: another run of its session comes first. `awaiting_approval`: a call waits for a decision. `interrupted`: its process has ended, or lost its lease;
 * the turn can be resumed where it was opened. The others are those of its turn.
 */
export type RunStatus = "waiting" | "running" | "awaiting_approval" | "interrupted" | "completed" | "aborted" | "failed";

/**
 * The process of a run.
 */
export type RunProcess = { 
/**
 * Its id, on the machine where the run is.
 */
pid: number, 
/**
 * Whether it is this process.
 */
current: boolean, };

/**
 * A run in the ledger.
 */
export type RunInfo = { 
/**
 * The host's id.
 */
runId: string, 
/**
 * Its turn; `ledger.turn(id)` has it once it is opened.
 */
turnId: string, 
/**
 * Its session.
 */
sessionLabel: string, 
/**
 * Where it is.
 */
status: RunStatus, 
/**
 * The number of its last stored event; 0 where none is stored.
 */
lastSeq: number, 
/**
 * Unix milliseconds.
 */
startedAt: number, 
/**
 * Unix milliseconds; null before its end.
 */
endedAt: number | null, 
/**
 * The process that runs it, or in which it waits; null where none does.
 */
process: RunProcess | null, };

/**
 * The filter of a list of runs.
 */
export type RunFilter = { 
/**
 * Those of a session, by its label or an alias.
 */
session?: string, 
/**
 * Those with a status.
 */
status?: RunStatus, 
/**
 * The `next` of the previous page.
 */
cursor?: string, 
/**
 * The limit of items: 1 to 1,000. Default 100.
 */
limit?: number, };

/**
 * Options of a deleted session.
 */
export type DeleteSessionOptions = { 
/**
 * Also its turns, where no other session reaches them. Default false: they stay, in no session.
 */
turns?: boolean, 
/**
 * Counts, and deletes nothing. Default false.
 */
dryRun?: boolean, 
/**
 * Overwrites what was deleted: the file is rewritten, and commits wait for that. Default false.
 */
secure?: boolean, };

/**
 * Options of deleted turns.
 */
export type DeleteTurnsOptions = { 
/**
 * Also every turn that follows them. Default false: a turn that another turn follows stays with it.
 */
followers?: boolean, 
/**
 * Counts, and deletes nothing. Default false.
 */
dryRun?: boolean, 
/**
 * Overwrites what was deleted: the file is rewritten, and commits wait for that. Default false.
 */
secure?: boolean, };

/**
 * The turns that are deleted: those that match every condition. At least one is given.
 */
export type TurnSelection = { 
/**
 * Those with these ids, at most 1,000.
 */
ids?: Array<string>, 
/**
 * Those that were run in a session.
 */
sessionLabel?: string, 
/**
 * Those that ended so.
 */
status?: 'completed' | 'aborted' | 'failed', 
/**
 * Those that began at this time or later: Unix milliseconds.
 */
since?: number, 
/**
 * Those that began before this time: Unix milliseconds.
 */
until?: number, 
/**
 * Those whose metadata has these values, by key: at most 8.
 */
metadata?: Readonly<Record<string, string | number | boolean>>, };

/**
 * How much was deleted, or would be.
 */
export type LedgerDeletion = { 
/**
 * Sessions.
 */
sessions: number, 
/**
 * Turns, compactions included.
 */
turns: number, 
/**
 * Their messages.
 */
messages: number, 
/**
 * Their tool calls.
 */
toolCalls: number, 
/**
 * Runs whose events were stored.
 */
runs: number, 
/**
 * Values over 64 KiB that nothing else uses.
 */
blobs: number, 
/**
 * Selected turns that stay, because a turn that stays follows them or a session needs them.
 */
retainedTurns: number, 
/**
 * True where the deleted data was overwritten; always false without `secure`.
 */
overwritten: boolean, };

/**
 * What becomes of metadata.
 */
export type MetadataChange = Readonly<Record<string, unknown>> | null;

/**
 * What a host sets on a session.
 */
export type SessionChange = { 
/**
 * The host's own data, which replaces what is there: a JSON object of at most 16 KiB. Null removes it.
 */
metadata?: MetadataChange, };

/**
 * The filter of a list of turns.
 */
export type TurnFilter = { 
/**
 * Those that were run in a session.
 */
sessionLabel?: string, 
/**
 * Those that ended so.
 */
status?: 'completed' | 'aborted' | 'failed', 
/**
 * Those of a provider.
 */
provider?: string, 
/**
 * Those of a model.
 */
model?: string, 
/**
 * Those that began at this time or later: Unix milliseconds.
 */
since?: number, 
/**
 * Those that began before this time: Unix milliseconds.
 */
until?: number, 
/**
 * Those whose metadata has these values, by key: at most 8.
 */
metadata?: Readonly<Record<string, string | number | boolean>>, 
/**
 * The `next` of the previous page: a turn's id.
 */
after?: string, 
/**
 * The limit of turns: 1 to 1,000. Default 100.
 */
limit?: number, };

/**
 * Options of a comparison.
 */
export type DiffOptions = { 
/**
 * The limit of turns of a side whose content is returned: 1 to 1,000. Default 100. A side also ends at 16 MiB of content.
 */
limit?: number, };

/**
 * One side of a comparison: the turns after the common ancestor, up to the turn of the side.
 */
export type DiffSide = { 
/**
 * The number of all its turns, compactions included.
 */
turnCount: number, 
/**
 * The sum of the usage of all of them.
 */
usage: TokenUsage, 
/**
 * US dollars of those with a known price; null where there are none.
 */
cost: number | null, 
/**
 * The number of turns with an unknown price: their cost is not in `cost`.
 */
unpricedTurns: number, 
/**
 * The first turns, oldest first.
 */
turns: Array<TurnSummary>, 
/**
 * The messages of `turns`.
 */
messages: Array<HistoryMessage>, 
/**
 * The tool calls of `turns`.
 */
toolCalls: Array<ToolCallRow>, 
/**
 * True where there are more turns than `turns` has.
 */
truncated: boolean, };

/**
 * Two turns compared.
 */
export type TurnDiff = { 
/**
 * The last turn that both are or follow; null for turns of different trees.
 */
ancestor: TurnSummary | null, 
/**
 * What the first turn has that the second has not.
 */
a: DiffSide, 
/**
 * What the second turn has that the first has not.
 */
b: DiffSide, };

/**
 * The filter of a list of tool calls.
 */
export type ToolCallFilter = { 
/**
 * Those of a turn.
 */
turnId?: string, 
/**
 * Those of the turns that were run in a session.
 */
sessionLabel?: string, 
/**
 * Those of a tool.
 */
toolName?: string, 
/**
 * Those with this status.
 */
status?: ToolCallStatus, 
/**
 * The `next` of the previous page: a call's `callId`.
 */
after?: string, 
/**
 * The limit of calls: 1 to 1,000. Default 100. A page also ends at 16 MiB of results.
 */
limit?: number, };

/**
 * A tool call with its turn and session.
 */
export type ToolCallRow = { 
/**
 * The turn.
 */
turnId: string, 
/**
 * The session the turn was run in.
 */
sessionLabel: string, 
/**
 * The provider's id of the call.
 */
id: string, 
/**
 * The tool.
 */
toolName: string, 
/**
 * The arguments that the tool received: parsed, coerced and valid; `{}` where they never became valid.
 */
params: Record<string, unknown>, 
/**
 * What the tool returned.
 */
result?: unknown, 
/**
 * Why it failed.
 */
error?: string, 
/**
 * Its status.
 */
status: ToolCallStatus, 
/**
 * Unix milliseconds.
 */
startedAt: number, 
/**
 * Unix milliseconds.
 */
completedAt?: number, 
/**
 * Order within the turn, from 0.
 */
sequence: number, 
/**
 * The session of the subagent this call spawned.
 */
spawnedSessionLabel?: string, 
/**
 * The engine's ULID of the call: the tool's idempotency key and the ledger's id.
 */
callId: string, 
/**
 * The assistant message with the call.
 */
messageId: string, };

/**
 * Another name of a session.
 */
export type AliasRow = { 
/**
 * The name.
 */
alias: string, 
/**
 * The session's label, or another alias.
 */
sessionLabel: string, 
/**
 * Unix milliseconds.
 */
createdAt: number, 
/**
 * Unix milliseconds.
 */
updatedAt: number, };

/**
 * An identity with its main session.
 */
export type PersonaRow = { 
/**
 * The persona.
 */
id: string, 
/**
 * The label of its main session, which may not exist yet.
 */
mainSessionLabel: string, 
/**
 * Unix milliseconds.
 */
createdAt: number, 
/**
 * Unix milliseconds.
 */
updatedAt: number, };

/**
 * What kind of session a label names.
 */
export type SessionKind = "main" | "dm" | "group" | "worker" | "subagent" | "fork" | "system" | "run" | "unknown";

/**
 * The parts of a session's label. Parts that the label lacks are null.
 */
export type SessionKey = { 
/**
 * What kind of session it is.
 */
kind: SessionKind, 
/**
 * The agent.
 */
agentId: string | null, 
/**
 * Where a group is: `telegram`, `discord`, …
 */
platform: string | null, 
/**
 * The group.
 */
container: string | null, 
/**
 * The other person of a direct conversation.
 */
peer: string | null, 
/**
 * The thread in the group.
 */
threadId: string | null, 
/**
 * The persona.
 */
personaId: string | null, 
/**
 * The ULID or UUID of a worker, a subagent, a fork or a run; the purpose of a system session.
 */
id: string | null, };

/**
 * How far something that is remembered reaches.
 */
export type MemoryScopeKind = "session" | "persona" | "agent" | "global";

/**
 * Where something that is remembered belongs.
 */
export type MemoryScope = { 
/**
 * How far it reaches.
 */
kind: MemoryScopeKind, 
/**
 * The session's label, the persona or the agent; left out for `global`.
 */
id?: string, };

/**
 * What something that is remembered was made of.
 */
export type MemoryKind = "turn" | "fact" | "summary";

/**
 * Why something was found.
 */
export type MemoryWhy = "words" | "vector" | "both";

/**
 * The options of a search.
 */
export type MemorySearchOptions = { 
/**
 * What this session may see. One of `session`, `scopes` and `all` is needed.
 */
session?: string, 
/**
 * What is in these scopes.
 */
scopes?: Array<MemoryScope>, 
/**
 * What is in any scope: never for an answer that a user sees.
 */
all?: boolean, 
/**
 * Only these kinds. Default: all.
 */
kinds?: Array<MemoryKind>, 
/**
 * Only what was written at this time or later, in Unix milliseconds.
 */
since?: number, 
/**
 * Only what was written before this time.
 */
until?: number, 
/**
 * The limit of hits: 1 to 100. Default 10.
 */
limit?: number, 
/**
 * Only hits with at least this score: 0 to 1. The best hit of both lists has 1.
 */
minScore?: number, 
/**
 * Turns that are left out, such as those that the context has already.
 */
excludeTurns?: Array<string>, 
/**
 * Leaves out what the next context of this session has anyway: its turns since the last compaction, and its summary.
 */
excludeContextOf?: string, };

/**
 * What was found.
 */
export type MemoryHit = { 
/**
 * What it is of.
 */
kind: MemoryKind, 
/**
 * Where it belongs.
 */
scope: MemoryScope, 
/**
 * The session of its turn; null for a fact.
 */
sessionLabel: string | null, 
/**
 * Its turn; null for a fact.
 */
turnId: string | null, 
/**
 * The role of the message's author; null for a fact.
 */
role: 'user' | 'assistant' | 'system' | null, 
/**
 * The text: at most 400 tokens of it.
 */
excerpt: string, 
/**
 * Unix milliseconds.
 */
createdAt: number, 
/**
 * The rank as a number: 1 is the best possible.
 */
score: number, 
/**
 * Why it was found.
 */
why: MemoryWhy, 
/**
 * The fact.
 */
fact: MemoryFact | null, 
/**
 * Other facts of the same type about the same entity that hold as well.
 */
conflicts: Array<MemoryFact>, };

/**
 * The hits of a search.
 */
export type MemoryHits = { 
/**
 * The best first.
 */
hits: Array<MemoryHit>, 
/**
 * The model whose vectors were searched. Null where only words were.
 */
model: string | null, 
/**
 * Why only words were searched, although the engine has an embedder.
 */
problem: string | null, };

/**
 * What a memory has found for a layer.
 */
export type RecalledLayer = { 
/**
 * What is in the text, in its order.
 */
hits: Array<RecalledHit>, 
/**
 * Why the embedder's vectors were not searched, or why nothing was. Null where nothing failed.
 */
problem: string | null, };

/**
 * Something that a memory has put into a context.
 */
export type RecalledHit = { 
/**
 * What it is of.
 */
kind: MemoryKind, 
/**
 * The id of the turn, or of the fact.
 */
id: string, 
/**
 * Why it was found. A fact that conflicts with one that was found comes for the same reason.
 */
why: MemoryWhy, };

/**
 * The origin of a fact.
 */
export type FactSource = { 
/**
 * The turn it was learned in. With that turn it is deleted.
 */
turnId?: string, 
/**
 * The tool call it was learned from.
 */
callId?: string, };

/**
 * A fact that is stored.
 */
export type MemoryFact = { 
/**
 * Its ULID.
 */
id: string, 
/**
 * What it is about: a person, a project, a tool.
 */
entity: string, 
/**
 * What kind of fact it is: `preference`, `address`, `tool_observation`.
 */
type: string, 
/**
 * What is known.
 */
content: any, 
/**
 * Where it belongs.
 */
scope: MemoryScope, 
/**
 * Where it comes from.
 */
source: FactSource, 
/**
 * How sure it is: 0 to 1.
 */
confidence: number, 
/**
 * Since when it holds, in Unix milliseconds.
 */
validFrom: number, 
/**
 * Until when it held. Null while it holds.
 */
validTo: number | null, 
/**
 * The fact that has replaced it.
 */
supersededBy: string | null, 
/**
 * Unix milliseconds.
 */
createdAt: number, };

/**
 * A fact to store.
 */
export type NewFact = { 
/**
 * What it is about: 1 to 512 bytes.
 */
entity: string, 
/**
 * What kind of fact it is: 1 to 128 bytes.
 */
type: string, 
/**
 * What is known: any JSON of at most 64 KiB.
 */
content: unknown, 
/**
 * The session it belongs to: the fact gets the scope of that session. Either this or `scope`.
 */
session?: string, 
/**
 * Where it belongs.
 */
scope?: MemoryScope, 
/**
 * Where it comes from.
 */
source?: FactSource, 
/**
 * How sure it is: 0 to 1. Default 1.
 */
confidence?: number, 
/**
 * Since when it holds, in Unix milliseconds. Default: now.
 */
validFrom?: number, };

/**
 * Which facts are listed.
 */
export type FactFilter = { 
/**
 * Those that this session may see. One of `session`, `scopes` and `all` is needed.
 */
session?: string, 
/**
 * Those of these scopes.
 */
scopes?: Array<MemoryScope>, 
/**
 * Those of every scope.
 */
all?: boolean, 
/**
 * The one with this id.
 */
id?: string, 
/**
 * Those about this entity.
 */
entity?: string, 
/**
 * Those of this type.
 */
type?: string, 
/**
 * Also those that were superseded.
 */
superseded?: boolean, 
/**
 * The `next` of the previous page.
 */
after?: number, 
/**
 * The limit of items: 1 to 1,000. Default 100.
 */
limit?: number, };

/**
 * How the closest vectors are found before they are ranked exactly.
 */
export type VectorSearch = "scan" | "pgvector";

/**
 * The vectors of a model.
 */
export type MemoryModel = { 
/**
 * The embedder's name: `openai/text-embedding-3-small`.
 */
name: string, 
/**
 * The numbers of a vector.
 */
dimensions: number, 
/**
 * The stored vectors.
 */
vectors: number, 
/**
 * Whether the engine embeds with it.
 */
current: boolean, 
/**
 * How they are searched.
 */
search: VectorSearch, 
/**
 * Why they are scanned although the host asked for pgvector, or what failed last in its index. Null where nothing is wrong.
 */
searchProblem: string | null, };

/**
 * The extraction of facts by a model.
 */
export type MemoryExtraction = { 
/**
 * The indexed turns whose facts are not extracted yet.
 */
pending: number, 
/**
 * The turns whose facts could not be extracted.
 */
skipped: number, 
/**
 * The reason of the last one.
 */
skippedProblem: string | null, 
/**
 * The tokens that its calls have used.
 */
tokens: number, 
/**
 * Their cost in US dollars. Null where a model has no price.
 */
cost: number | null, 
/**
 * The last failure. Null where the last attempt succeeded.
 */
problem: string | null, };

/**
 * What the memory has, what it still has to do, and what that has cost.
 */
export type MemoryStats = { 
/**
 * The tokens that were embedded.
 */
embeddedTokens: number, 
/**
 * Their cost in US dollars. Null where a model has no price.
 */
cost: number | null, 
/**
 * The extraction of facts; null for an engine whose memory has none.
 */
extraction: MemoryExtraction | null, 
/**
 * The last failure of the indexer or of the embedder. Null where the last attempt succeeded.
 */
problem: string | null, 
/**
 * The turns that are indexed.
 */
turns: number, 
/**
 * The chunks of texts, facts and summaries included.
 */
chunks: number, 
/**
 * The facts that hold.
 */
facts: number, 
/**
 * The ended turns that are not indexed yet.
 */
pendingTurns: number, 
/**
 * The chunks that have no vector of the engine's embedder yet. They are found by words.
 */
pendingVectors: number, 
/**
 * The chunks that the embedder refused. They are found by words.
 */
skipped: number, 
/**
 * The reason of the last one.
 */
skippedProblem: string | null, 
/**
 * The turns whose text was longer than is indexed: the rest of it is not found.
 */
clippedTurns: number, 
/**
 * What was forgotten and stays so.
 */
forgotten: number, 
/**
 * The vectors, by model.
 */
models: Array<MemoryModel>, };

/**
 * What is forgotten. Exactly one of the four.
 */
export type ForgetOptions = { 
/**
 * A fact.
 */
id?: string, 
/**
 * All facts about an entity, superseded ones included.
 */
entity?: string, 
/**
 * A turn, and the facts that were learned in it.
 */
turnId?: string, 
/**
 * All turns of a session, and the facts that were learned in them.
 */
session?: string, 
/**
 * Only in these scopes.
 */
scopes?: Array<MemoryScope>, 
/**
 * Only where the texts of this session belong. Either this or `scopes`.
 */
within?: string, 
/**
 * Rewrites the file as well, which takes time and space: no free page has the text any more.
 */
secure?: boolean, };

/**
 * What was forgotten.
 */
export type MemoryForgotten = { 
/**
 * The turns.
 */
turns: number, 
/**
 * The facts.
 */
facts: number, 
/**
 * The chunks of their texts.
 */
chunks: number, 
/**
 * The turns with compaction summaries of texts that were forgotten: they may quote them. Delete them from the ledger to remove them.
 */
summaries: Array<string>, 
/**
 * Whether its bytes were overwritten in the file and the log was emptied. False if a reader holds the log back.
 */
overwritten: boolean, };

/**
 * The progress of `reindex()`.
 */
export type MemoryReindex = { 
/**
 * The turns that are indexed next.
 */
turns: number, 
/**
 * The chunks that are embedded next.
 */
chunks: number, };

/**
 * What kind of conversation it is in.
 */
export type PeerKind = "dm" | "group" | "channel";

/**
 * The other side of a conversation.
 */
export type Peer = { 
/**
 * What kind of conversation it is.
 */
kind: PeerKind, 
/**
 * The person, the group or the channel.
 */
id: string, };

/**
 * Where an event came from.
 */
export type RoutedEvent = { 
/**
 * The platform: `telegram`, `discord`, …
 */
channel?: string, 
/**
 * The host's account on it.
 */
accountId?: string, 
/**
 * The other side.
 */
peer?: Peer, 
/**
 * The guild, workspace or team that the conversation is in.
 */
guildId?: string, 
/**
 * The thread in the conversation.
 */
threadId?: string, };

/**
 * Where a message goes, as the host writes it.
 */
export type RoutingTarget = { 
/**
 * A turn: its conversation goes on from there.
 */
thread?: string, 
/**
 * A session, by its label or an alias.
 */
session?: string, 
/**
 * A persona: its main session.
 */
persona?: string, 
/**
 * Where the message came from: the bindings decide which agent, and the session's label is built.
 */
event?: RoutedEvent, 
/**
 * Whether the host's smart route is tried first.
 */
smart?: boolean, };

/**
 * Why the given target is taken.
 */
export type SmartFallback = "threw" | "timeout" | "no_answer" | "invalid" | "low_confidence" | "unknown";

/**
 * How a message is delivered to a session that is busy. An idle session runs it at once.
 */
export type QueueMode = "queue" | "followup" | "collect" | "interrupt" | "steer" | "steer-backlog";

/**
 * How an agent gets the answer of the one that it gives a task.
 */
export type DispatchKind = "spawn" | "dispatch";

/**
 * What became of a dispatch so far.
 */
export type DispatchStatus = "active" | "ok" | "error" | "timeout" | "aborted";

/**
 * Why a dispatch is cancelled.
 */
export type DispatchCancel = "requested" | "parent_ended";

/**
 * A task that one agent has given another one.
 */
export type Dispatch = { 
/**
 * Its id: the engine's ULID of the call that made it, and the id of its message in the queue.
 */
id: string, 
/**
 * How the answer gets back.
 */
kind: DispatchKind, 
/**
 * What became of it so far.
 */
status: DispatchStatus, 
/**
 * The session that made it.
 */
parentSession: string, 
/**
 * The turn that made it.
 */
parentTurnId: string, 
/**
 * The turn at the top of the tree: no dispatch began it.
 */
rootTurnId: string, 
/**
 * The session that has it.
 */
sessionLabel: string, 
/**
 * The agent that has it.
 */
agentId: string, 
/**
 * The model that it has instead of its agent's.
 */
model: string | null, 
/**
 * Whether the session was made for it.
 */
isNew: boolean, 
/**
 * How many dispatches it is away from a session that nobody dispatched to.
 */
depth: number, 
/**
 * How many messages between agents it follows.
 */
hops: number, 
/**
 * Whether it goes on when the turn that made it is aborted.
 */
isDetached: boolean, 
/**
 * Why it is cancelled; null for one that is not.
 */
cancelled: DispatchCancel | null, 
/**
 * When its time is over, in Unix milliseconds; null for no limit.
 */
deadline: number | null, 
/**
 * The turn that has answered it.
 */
turnId: string | null, 
/**
 * The answer, or why there is none; null while it is active.
 */
text: string | null, 
/**
 * The tokens of its turn.
 */
usage: TokenUsage | null, 
/**
 * What its turn cost, in US dollars; null where that is unknown.
 */
cost: number | null, 
/**
 * The message of the queue that has its result, for the kind `dispatch`.
 */
resultItemId: string | null, 
/**
 * Unix milliseconds.
 */
createdAt: number, 
/**
 * Unix milliseconds.
 */
endedAt: number | null, 
/**
 * The tokens that it may spend, with the tasks that it gives; null for no limit of its own.
 */
maxTokens: number | null, 
/**
 * The same in US dollars.
 */
maxCost: number | null, };

/**
 * What a message from an agent is.
 */
export type AgentMessageKind = "task" | "message" | "worker_result";

/**
 * The agent that has sent a message of a queue.
 */
export type MessageSender = { 
/**
 * What the message is.
 */
kind: AgentMessageKind, 
/**
 * Its session.
 */
fromSession: string, 
/**
 * Its turn; absent for the result of a task without a turn.
 */
fromTurn?: string, 
/**
 * The agent.
 */
fromAgent: string, 
/**
 * How many messages between agents this one follows, itself included.
 */
hops: number, 
/**
 * The dispatch of a task or of its result.
 */
dispatchId?: string, 
/**
 * How the task has ended.
 */
status?: DispatchStatus, 
/**
 * The tokens of its turn.
 */
usage?: TokenUsage, };

/**
 * Where a message came from and where its answer goes. Messages of different routes are never collected in one turn.
 */
export type Route = { 
/**
 * The platform: `telegram`, `discord`, …
 */
channel?: string, 
/**
 * The account of the host on it.
 */
account?: string, 
/**
 * The thread.
 */
thread?: string, };

/**
 * What became of a delivery so far.
 */
export type DeliveryStatus = "pending" | "delivered" | "parked";

/**
 * Which message a full queue drops.
 */
export type DropPolicy = "old" | "new" | "summarize";

/**
 * Why a message has failed for good.
 */
export type FailedReason = "run_failed" | "interrupted" | "poisoned" | "dropped" | "cancelled" | "rejected";

/**
 * What became of a message so far.
 */
export type ItemStatus = "pending" | "processing" | "delivered" | "failed";

/**
 * Which session direct messages go to.
 */
export type DmScope = "main" | "per-peer";

/**
 * What an event must be to match.
 */
export type BindingMatch = { 
/**
 * The platform.
 */
channel?: string, 
/**
 * The host's account; `*` for any.
 */
accountId?: string, 
/**
 * The other side of the conversation.
 */
peer?: Peer, 
/**
 * The guild.
 */
guildId?: string, };

/**
 * The events of an agent.
 */
export type Binding = { 
/**
 * The agent.
 */
agentId: string, 
/**
 * Which events; all that is given must match.
 */
match: BindingMatch, };

/**
 * The models of an agent, in the order in which they are tried.
 */
export type AgentModel = { 
/**
 * The provider's name.
 */
provider?: string, 
/**
 * The model's id.
 */
model: string, 
/**
 * The models to use when it fails.
 */
fallbacks: (string | ModelName)[], };

/**
 * How much a system prompt has.
 */
export type PromptMode = "full" | "minimal" | "none";

/**
 * A tool as the prompt describes it.
 */
export type PromptTool = { 
/**
 * Its name.
 */
name: string, 
/**
 * What it does.
 */
description?: string, 
/**
 * When to use it and when not, a line each.
 */
guidelines?: Array<string>, };

/**
 * A skill: instructions that the agent reads when it needs them.
 */
export type PromptSkill = { 
/**
 * Its name.
 */
name: string, 
/**
 * When it helps.
 */
description?: string, 
/**
 * The file to read.
 */
path?: string, 
/**
 * The whole text, in place of a file to read.
 */
content?: string, };

/**
 * The machine that the agent runs on.
 */
export type PromptRuntime = { 
/**
 * The operating system.
 */
os?: string, 
/**
 * The zone of the times that messages name, `Europe/Berlin`.
 */
timeZone?: string, 
/**
 * The version of Node.js.
 */
node?: string, 
/**
 * The shell.
 */
shell?: string, };

/**
 * A file of the workspace.
 */
export type PromptFile = { 
/**
 * Its path, as the model may name it.
 */
path: string, 
/**
 * Its text; null where an expected file is missing.
 */
content: string | null, 
/**
 * Why it has no text, where it is not missing: `leads outside of the workspace`.
 */
problem?: string, };

/**
 * How much of the files the prompt has, in characters.
 */
export type FileCaps = { 
/**
 * Of one file. Default 20,000.
 */
perFile?: number, 
/**
 * Of all files. Default 24,000.
 */
total?: number, };

/**
 * What a system prompt is made of. A section without a text is left out.
 */
export type PromptParts = { 
/**
 * Default `full`.
 */
mode?: PromptMode, 
/**
 * Who the agent is.
 */
identity?: string, 
/**
 * What it must not do.
 */
safety?: string, 
/**
 * Its tools, in their order.
 */
tools?: Array<PromptTool>, 
/**
 * Its skills, in their order.
 */
skills?: Array<PromptSkill>, 
/**
 * How it uses its memory.
 */
memory?: string, 
/**
 * The folder it works in.
 */
workspace?: string, 
/**
 * The workspace's files, in their order.
 */
files?: Array<PromptFile>, 
/**
 * How much of the files it has.
 */
caps?: FileCaps, 
/**
 * The machine.
 */
runtime?: PromptRuntime, 
/**
 * Whether the session is the agent's main session. `MEMORY.md` is in no other: it may have what a group must not read.
 */
isMainSession?: boolean, };
