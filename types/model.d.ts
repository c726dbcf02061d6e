// Written by the test in src/typescript.rs. Do not edit.

/**
 * Who speaks.
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
 * JSON text of what else the provider attached to this part (citations, ids, phases), replayed verbatim.
 */
providerData?: string, } | { "type": "image", 
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
 * JSON text of what else the provider attached (reasoning details, the field it came in).
 */
providerData?: string, } | { "type": "redacted_thinking", 
/**
 * The encrypted text, byte for byte.
 */
data: string, 
/**
 * JSON text of what else the provider attached, replayed verbatim.
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
 * JSON text of what else the provider attached (a thought signature).
 */
providerData?: string, } | { "type": "tool_result", 
/**
 * The provider's id of the call this answers.
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
 * Where an assistant message came from: what decides whether opaque blocks may be replayed.
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
 * The model that was asked.
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
 * Who speaks.
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
 * The provider's id of the call this answers (tool messages).
 */
toolCallId?: string, 
/**
 * True when the tool failed (tool messages).
 */
isError?: boolean, 
/**
 * The parts, in order: what the ledger stores and the provider gets back.
 */
blocks: Array<Block>, 
/**
 * Where an assistant message came from.
 */
provenance?: Provenance, 
/**
 * The provider's own stop reason (assistant messages).
 */
providerStopReason?: string, };

/**
 * Which part the agent plays.
 */
export type AgentRole = "manager" | "worker" | "unified";

/**
 * How much the model may think. Exactly one way is used, by what the model supports.
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
 * The ways to ask for thinking.
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
 * Whether the model must, may or may not call tools.
 */
export type ToolChoice = 'auto' | 'none' | 'required' | { 
/**
 * Its name.
 */
name: string, };

/**
 * The form of the answer's text, where the API can hold the model to one.
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
 * Whether the provider must hold the model to it exactly; true where left out.
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
 * What requests that share a prefix have in common, for APIs that route by it; derived from the session where left out.
 */
key?: string, };

/**
 * How long the provider may cache the prompt.
 */
export type CacheTtl = "off" | "5m" | "1h";

/**
 * How a tool may run beside the others of the same message.
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
 * What the context gave as `target`, or null.
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
 * One line about the outcome, at most 200 characters.
 */
summary?: string, 
/**
 * The assistant message that asked.
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
 * The model that is asked now.
 */
to: ModelName, 
/**
 * Why.
 */
reason: FailureKind, 
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
 * The attempt that is made after it, from 1.
 */
attempt: number, 
/**
 * Whom it asks.
 */
provider: string, 
/**
 * The model it asks.
 */
model: string, 
/**
 * The auth profile that is waited for; absent where the server needs none.
 */
profileId?: string, 
/**
 * When it ends, in Unix milliseconds; absent where that is not known (other calls go before it).
 */
until?: number, 
/**
 * How long it takes, in milliseconds; absent where that is not known.
 */
ms?: number, 
/**
 * The event's number.
 */
seq: number, } | { "type": "cache_break", 
/**
 * What broke, and what it cost.
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
 * The assistant message that ended; absent where the run has none.
 */
messageId?: string, 
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
 * The event's number.
 */
seq: number, };

/**
 * What happened to a tool call.
 */
export type ToolStatus = "started" | "completed" | "failed";

/**
 * The phases of `onAgentEvent`.
 */
export type AgentPhase = "start" | "streaming" | "tool_use" | "compaction_start" | "compaction_end" | "end";

/**
 * The broker interface's `AgentResult`, with what the ledger and the wallet know of it.
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
 * The sum over all calls of the provider. Those of a compaction are in the compaction's own turn, where it has one.
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
 * The compaction that was needed.
 */
compaction?: CompactionResult, 
/**
 * True when the ledger has the turn where it belongs; false without a ledger or with a `persistError`.
 */
persisted: boolean, 
/**
 * Why the ledger does not have it. With `stale_head` it does, beside the session's thread: another process had moved the
 * session on meanwhile, and its pointer stayed.
 */
persistError?: PersistError, 
/**
 * Every attempt at a provider, those of summaries among them.
 */
attempts: Array<Attempt>, 
/**
 * Steered messages that no model call has seen, because the run ended first.
 */
undeliveredSteering: Array<string>, 
/**
 * The budget as it was after the last call: what the model takes, what is reserved, and what the context uses. Absent
 * where no call was about to be made.
 */
tokenBudget?: TokenBudget, 
/**
 * What the context asked for and the requests could not contain; warnings of the guard and of a failed compaction.
 */
warnings: Array<RunWarning>, 
/**
 * Where the provider's prompt cache was of less use than it should have been.
 */
cacheBreaks: Array<CacheBreak>, };

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
 * The arguments the tool got: parsed, coerced and valid; `{}` where they never were.
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
 * Where it stands.
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
 * The assistant message that asked.
 */
messageId: string, };

/**
 * Where a tool call stands.
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
 * How many tokens a context would send: the answer of `countTokens`.
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
 * The most tokens that a prompt may have.
 */
promptLimit: number, };

/**
 * One attempt at a provider, as the result and the ledger's `attempts_json` have it.
 */
export type Attempt = { 
/**
 * What the call was for; absent for an answer of the run.
 */
purpose?: CallPurpose, 
/**
 * The provider asked.
 */
provider: string, 
/**
 * The model asked.
 */
model: string, 
/**
 * The auth profile used.
 */
profileId?: string, 
/**
 * True when a complete response came back.
 */
ok: boolean, 
/**
 * The HTTP status, where there was one.
 */
status?: number, 
/**
 * The failure's kind; `refusal` also of a response that came whole.
 */
reason?: FailureKind, 
/**
 * How long it took, in milliseconds.
 */
ms: number, 
/**
 * What it used; absent where nothing was reported and nothing came.
 */
usage?: TokenUsage, 
/**
 * True where a part of `usage` is an estimate: nothing was reported, or a placeholder.
 */
usageEstimated?: boolean, 
/**
 * What that cost in US dollars, where the price is known.
 */
cost?: number, 
/**
 * How long it was held back before, for its provider's rate limits; absent where it was not. Not part of `ms`.
 */
heldMs?: number, };

/**
 * What a call of a model is for.
 */
export type CallPurpose = "run" | "summary" | "count";

/**
 * A model by name. Read from `"model"` as well.
 */
export type ModelName = { 
/**
 * The provider's name among the engine's; left out, the run's, or the one that knows the model.
 */
provider?: string, 
/**
 * The model's id.
 */
model: string, };

/**
 * An auth profile as a host is shown it.
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
 * What its key is.
 */
type: AuthType, 
/**
 * False: it is left alone now, whatever the model.
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
 * The windows in which it is left alone, that are not over.
 */
windows: Array<ProfileWindow>, };

/**
 * A time in which a profile is not asked.
 */
export type ProfileWindow = { 
/**
 * The model it is for; null for all of the profile's.
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
 * What is known beyond the kind.
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
 * After how many milliseconds another run may be worth it.
 */
retryAfterMs?: number, 
/**
 * Who set that time; present where `retryAfterMs` is.
 */
retryAfterSource?: RetryAfterSource, };

/**
 * Where `retryAfterMs` is from.
 */
export type RetryAfterSource = "provider" | "cooldown";

/**
 * The finer kinds, and the engine's own.
 */
export type FailureKind = "context_overflow" | "rate_limit" | "overloaded" | "server_error" | "timeout" | "network" | "billing" | "auth" | "auth_permanent" | "model_not_found" | "format" | "refusal" | "budget_exceeded" | "aborted" | "storage" | "unknown";

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
 * Something the engine did otherwise than the context asked, without failing for it. Reported once a run.
 */
export type RunWarning = { 
/**
 * A stable code: `unsupported_option`, `unusable_image`, …
 */
code: string, 
/**
 * The context's field, where it is about one: `temperature`, `metadata.team`.
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
 * The attempt of the run whose answer showed it, from 1.
 */
attempt: number, 
/**
 * What it is put down to.
 */
cause: CacheBreakCause, 
/**
 * The first part of the request that is another one; null where none is.
 */
part: CachePart | null, 
/**
 * What became of it.
 */
change: CacheChange | null, 
/**
 * The name of the tool or of the setting.
 */
name: string | null, 
/**
 * The place of the tool among the tools or of the message in the conversation as it is sent, from 0.
 */
index: number | null, 
/**
 * The message's id; null for one that is not there any more.
 */
messageId: string | null, 
/**
 * Whose message it is, or was.
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
 * Tokens that were paid anew for it.
 */
tokens: number, 
/**
 * What these cost, in US dollars; null where a price is unknown.
 */
cost: number | null, 
/**
 * Milliseconds since the call before.
 */
idleMs: number, };

/**
 * What a broken cache is put down to.
 */
export type CacheBreakCause = "prefix" | "expired" | "unexplained";

/**
 * A part of a request.
 */
export type CachePart = "system" | "tool" | "message" | "setting";

/**
 * What became of a part.
 */
export type CacheChange = "changed" | "inserted" | "removed" | "reordered";

/**
 * What a host is shown of a request.
 */
export type OutgoingRequest = { 
/**
 * The provider's name among the engine's.
 */
provider: string, 
/**
 * The model asked.
 */
model: string, 
/**
 * The API that the body is written for.
 */
api: Api, 
/**
 * Where it goes; the values of a query are left out, because one may be a key.
 */
url: string, 
/**
 * The body, as the provider's API has it.
 */
body: Record<string, any>, 
/**
 * What it is for: an answer of the run, a summary of its session, or a count of tokens.
 */
purpose: CallPurpose, 
/**
 * The attempt of the run, from 1.
 */
attempt: number, 
/**
 * The run; of a compaction that was asked for, the one its turn is stored with.
 */
runId: string, };

/**
 * The broker interface's `CompactionResult`.
 */
export type CompactionResult = { summary: string, summarizedThroughTurnId: string, firstKeptTurnId: string, turnsSummarized: number, model: string, provider: string, tokensBefore: number, tokensAfter: number, summaryTokens: number, summarizationInputTokens: number, summarizationOutputTokens: number, durationMs: number, trigger: 'context_limit' | 'overflow_recovery', 
/**
 * What made the room.
 */
compactionType: 'summary' | 'sliding_window' | 'hard_clear' | 'tool_result_truncation', };

/**
 * A turn that was begun, has not ended, and runs nowhere: its process is gone, or lost its lease.
 */
export type InterruptedTurn = { 
/**
 * The turn's ULID: what `resume` and `discard` take.
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
 * False: the session has gone on without it, so it can only be discarded; or its stored context was altered
 * from outside, and it can only be left.
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
toolCalls: Array<InterruptedCall>, };

/**
 * A tool call of an interrupted turn.
 */
export type InterruptedCall = { 
/**
 * What its tool declared may be done with it.
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
 * The arguments the tool got: parsed, coerced and valid; `{}` where they never were.
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
 * Where it stands.
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
 * The assistant message that asked.
 */
messageId: string, };

/**
 * The wire APIs the engine speaks.
 */
export type Api = "anthropic-messages" | "openai-chat" | "openai-responses" | "google-generative-ai" | "bedrock-converse" | "scripted";

/**
 * One provider, as the options name it. Under the name of a known service (`groq`, `openrouter`, `ollama`, …) every field
 * has a default.
 */
export type ProviderOptions = { 
/**
 * The API it speaks.
 */
api?: Api, 
/**
 * Where it is; the API's path is added to it. https, unless it is this machine.
 */
baseUrl?: string, 
/**
 * The AWS region, for `api: 'bedrock-converse'`; by default the one in `baseUrl`, else that of `AWS_REGION`.
 */
region?: string, 
/**
 * The service it is (`vllm`, `azure`, …), where neither the host of `baseUrl` nor the provider's name shows it.
 */
flavor?: string, 
/**
 * The `api-version` of Azure, such as `2024-10-21`; without one `/openai/v1` is asked.
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
 * Whether `prompt_cache_key` is sent, for the two OpenAI APIs; by default where the service is known to take it.
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
 * What the scripted provider answers; for `api: 'scripted'`.
 */
script?: Script, };

/**
 * One key of one provider, as the options name it.
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
 * What the key is: `api_key` (default), `token` for one that travels as `authorization: Bearer`, `oauth` for such a
 * one that ends and is refreshed, or `aws` for one that signs requests (Bedrock).
 */
type?: AuthType, 
/**
 * The key, or the environment variable that holds it. For `aws` it may be left out: `AWS_ACCESS_KEY_ID`,
 * `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN` are then read.
 */
key?: AuthKey, 
/**
 * When `key` ends, in Unix milliseconds; for `oauth`.
 */
expiresAt?: number, };

/**
 * What a key is.
 */
export type AuthType = "api_key" | "token" | "oauth" | "aws";

/**
 * Where the key is.
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
 * A hard limit on what may be spent. A call that could pass it is not made: its run ends with `budget_exceeded`. What was
 * spent before is read from the ledger when a session, an agent or a day first pays; other processes' later runs are not
 * seen.
 */
export type BudgetOptions = { 
/**
 * What it is counted over.
 */
per: BudgetPer, 
/**
 * The one session (its label) or agent (its id) it is for. Default: each has its own.
 */
only?: string, 
/**
 * Tokens, prompt and answer, as the provider counts them.
 */
maxTokens?: number, 
/**
 * US dollars, by the catalogue's prices or the model's declared `cost`. A model without a price cannot be asked.
 */
maxCost?: number, };

/**
 * What a budget is counted over: one run, all runs of a session, of an agent, or of a day (UTC).
 */
export type BudgetPer = "run" | "session" | "agent" | "day";

/**
 * What a budget stands at.
 */
export type BudgetState = { 
/**
 * What it is counted over.
 */
per: BudgetPer, 
/**
 * Whose it is: the turn's id, the session's label, the agent's id, or the date (UTC, `2026-01-31`).
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
 * Tokens held back for calls under way, at their worst.
 */
heldTokens: number, 
/**
 * US dollars held back for calls under way.
 */
heldCost: number, };

/**
 * What is known of the rate limits of a model asked with one auth profile.
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
 * Calls that are held back.
 */
waiting: number, 
/**
 * Milliseconds in which none goes, after a refusal for the rate.
 */
closedForMs: number, };

/**
 * A rate limit as it stands by the last answers and what was sent since.
 */
export type RateLimitState = { 
/**
 * The most of it.
 */
limit: number, 
/**
 * What is left, with the calls under way counted at their estimates.
 */
remaining: number, 
/**
 * In so many milliseconds all of it is back.
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
 * The name that requests carry.
 */
id: string, 
/**
 * The wire API, so that what is known of the model elsewhere on that API is used here too, but for the price.
 */
api?: Api, 
/**
 * The name for people.
 */
name?: string, 
/**
 * Tokens of prompt and answer together. Needed where the catalogue does not know the model.
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
 * What a prompt may hold.
 */
input?: Array<Modality>, 
/**
 * Whether it can think.
 */
reasoning?: boolean, 
/**
 * How it may be asked to think.
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
 * Who serves it: `anthropic`, `openrouter`, …; `open` for weights that anyone may serve.
 */
provider: string, 
/**
 * The name that requests carry. After a resolution by suffix this is the catalogue's name, not the one asked for.
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
 * What a prompt may hold.
 */
input: Array<Modality>, 
/**
 * Whether it can think.
 */
reasoning: boolean, 
/**
 * How it may be asked to think; null where it cannot or where that is unknown.
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
 * Where the facts are from: a key of the data file's `sources`, `declared`, or `assumed`.
 */
source: string, };

/**
 * What the models listed must have; all of them where nothing is named.
 */
export type ModelFilter = { 
/**
 * Who serves it.
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
 * What a prompt may hold.
 */
input?: Modality, };

/**
 * A kind of prompt content.
 */
export type Modality = "text" | "image";

/**
 * The ways a model may be asked to think.
 */
export type ThinkingCapability = { 
/**
 * It takes `adaptive`: the model decides.
 */
adaptive: boolean, 
/**
 * It takes a budget in tokens.
 */
budget: boolean, 
/**
 * The efforts it takes, weakest first; empty where it takes none.
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
 * The prices of a call whose whole prompt is longer than a step. They hold for all of its tokens.
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
 * What a scripted provider answers: one reply per call, in order.
 */
export type Script = Array<ScriptedReply> | ScriptedReplies;

/**
 * The replies, and what comes after the last.
 */
export type ScriptedReplies = { 
/**
 * The replies.
 */
replies: Array<ScriptedReply>, 
/**
 * True: begin again after the last. Otherwise further calls fail with `script_exhausted`.
 */
repeat?: boolean, };

/**
 * One reply.
 */
export type ScriptedReply = string | ScriptedParts;

/**
 * The parts of a reply. They come in the order of these fields; `steps` instead gives an order of its own.
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
 * Calls of tools.
 */
toolCalls?: Array<ScriptedCall>, 
/**
 * The usage reported; none where absent.
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
 * Text, thinking and arguments come in pieces of this many characters; whole where absent.
 */
chunkSize?: number, 
/**
 * An exact order; only `chunkSize` goes with it.
 */
steps?: Array<ScriptedStep>, };

/**
 * One step of a reply. Texts that follow each other belong to one block, also with waits between them.
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
 * How long it asks to wait, in milliseconds.
 */
retryAfterMs?: number, };

/**
 * Why a reply stops.
 */
export type ScriptedStop = "end_turn" | "stop_sequence" | "tool_use" | "max_tokens" | "context_full" | "refusal" | "content_filter" | "pause" | "malformed_tool_call" | "error" | "other";

/**
 * One request, as the assertions see it.
 */
export type ScriptedRequest = { 
/**
 * The model asked for.
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
 * The names of the tools on offer.
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
 * The turn the next one follows; null until the first turn.
 */
threadId: string | null, 
/**
 * The persona; `default` where none was inherited.
 */
personaId: string, 
/**
 * The agent that the label names, else that of the turn it began at, else the persona: whose usage the session's is.
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
 * What the subagent was asked to do.
 */
taskDescription: string | null, 
/**
 * How far the subagent is.
 */
taskStatus: 'pending' | 'running' | 'completed' | 'failed' | 'aborted' | null, 
/**
 * What routes messages here.
 */
routingKey: string | null, 
/**
 * What made the session, where it was not a run.
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
 * Whether it is in use.
 */
status: 'active' | 'archived', };

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
 * How it ended.
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
 * Turns above it: 0 for a root.
 */
depth: number, 
/**
 * True when a turn follows it.
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
 * The part the agent played.
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
 * The permissions snapshot, as it was given.
 */
permissionsGranted: unknown, 
/**
 * The permissions that were used, where the host recorded them.
 */
permissionsUsed: unknown, 
/**
 * The sum over the turn's calls of the provider.
 */
usage: TokenUsage, 
/**
 * True when a part of it was estimated.
 */
usageEstimated: boolean, 
/**
 * The tokens of this turn and all above it.
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
 * The ids of the messages that asked.
 */
queryMessageIds: Array<string>, 
/**
 * The id of the final assistant message.
 */
responseMessageId: string | null, 
/**
 * How many tool calls it has.
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
 * What a compaction turn summarised.
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
 * Who speaks.
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
 * The provider's id of the call this answers (tool messages).
 */
toolCallId?: string, 
/**
 * True when the tool failed (tool messages).
 */
isError?: boolean, 
/**
 * The parts, in order: what the ledger stores and the provider gets back.
 */
blocks: Array<Block>, 
/**
 * Where an assistant message came from.
 */
provenance?: Provenance, 
/**
 * The provider's own stop reason (assistant messages).
 */
providerStopReason?: string, };

/**
 * The answer of `ledger.query`.
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
 * Why rows are missing; null when none are.
 */
truncated: Truncation | null, };

/**
 * The limit at which a result was cut.
 */
export type Truncation = "rows" | "bytes";

/**
 * What was checked. The last eleven are the invariants of the schema, in this order.
 */
export type LedgerCheck = "integrity" | "references" | "checksum" | "tree" | "thread_tokens" | "children" | "pointer" | "open_turns" | "messages" | "tool_calls" | "compactions" | "blobs" | "search";

/**
 * Something that does not hold.
 */
export type LedgerProblem = { 
/**
 * What was checked.
 */
check: LedgerCheck, 
/**
 * What names the row: a session's label, the id of a turn, message or call, a blob's hash, the name of a table; null where the file as a whole is meant.
 */
subject: string | null, 
/**
 * What is wrong, without a word of any message.
 */
message: string, };

/**
 * How much was looked at.
 */
export type LedgerChecked = { 
/**
 * Sessions.
 */
sessions: number, 
/**
 * Turns, also those that run.
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
 * Values over 64 KiB, each of which stands once.
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
 * How much was looked at.
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
 * Where it stands, with links and folders resolved.
 */
path: string, 
/**
 * Its size.
 */
bytes: number, };

/**
 * The answer of `ledger.stats()`.
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
 * Where it is, with links and folders resolved.
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
 * What `ledger.vacuum()` would give back, in bytes.
 */
freeBytes: number, 
/**
 * Sessions that readers see.
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
 * What is over 64 KiB: texts, arguments, results, images.
 */
blobs: BlobCounts, 
/**
 * The sum over all turns that have ended, compactions too.
 */
usage: TokenUsage, 
/**
 * US dollars, over the turns whose price is known.
 */
cost: number, 
/**
 * Turns that used tokens at a price nobody knows.
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
 * Ended by themselves, or at a cap; without compactions.
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
 * Values over 64 KiB, which stand apart from their rows, each distinct one once.
 */
export type BlobCounts = { 
/**
 * How many there are.
 */
count: number, 
/**
 * Their bytes as texts.
 */
bytes: number, 
/**
 * The bytes that the file has of them: compressed where that saves a tenth.
 */
storedBytes: number, 
/**
 * What the file would have more of if each stood in every row that names it, in bytes.
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
 * The file's bytes after. While a read is under way the file stays as it was until the next checkpoint.
 */
bytesAfter: number, };

/**
 * What `salvageLedger(damaged, fresh)` could save.
 */
export type LedgerSalvage = { 
/**
 * Where the fresh ledger stands, with links and folders resolved.
 */
path: string, 
/**
 * Pages that were looked at.
 */
pages: number, 
/**
 * Rows that a page says it has, and that cannot be read.
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
 * Messages that were saved, each as it was written.
 */
messages: number, 
/**
 * Tool calls that were saved.
 */
toolCalls: number, 
/**
 * What is known to be lost, or was put together anew; at most 1,000 entries. `line` is null.
 */
problems: Array<TransferProblem>, 
/**
 * True when there is more than `problems` names.
 */
truncated: boolean, };

/**
 * A format of files.
 */
export type LedgerFormat = "ledger" | "pi" | "myclaw";

/**
 * What `ledger.export(path)` wrote.
 */
export type LedgerExport = { 
/**
 * Where it stands, with links and folders resolved.
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
 * Turns that still run, and are not in it.
 */
openTurns: number, 
/**
 * What could not be read, at most 1,000 entries.
 */
problems: Array<TransferProblem>, 
/**
 * True when there is more than `problems` names.
 */
truncated: boolean, 
/**
 * Parts of messages that the format has no place for, by kind.
 */
leftOut: { [key in string]: number }, };

/**
 * What `ledger.import(path)` did.
 */
export type LedgerImport = { 
/**
 * The labels of the sessions that it made.
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
 * Turns that were there already, by their id.
 */
skippedTurns: number, 
/**
 * What was not taken as it stands, at most 1,000 entries.
 */
problems: Array<TransferProblem>, 
/**
 * True when there is more than `problems` names.
 */
truncated: boolean, 
/**
 * Entries of kinds that have no place here, by kind.
 */
leftOut: { [key in string]: number }, };

/**
 * Something that was not taken as it stands. Everything else was.
 */
export type TransferProblem = { 
/**
 * The number of the line, from 1; null where no line is meant.
 */
line: number | null, 
/**
 * Why.
 */
code: TransferCode, 
/**
 * What became of it, without a word of its content.
 */
message: string, };

/**
 * Why something was not taken as it stands.
 */
export type TransferCode = "damaged_line" | "invalid_line" | "refused" | "reattached" | "lost_reference" | "session_exists" | "rebuilt" | "unreadable";

/**
 * Which part of a list.
 */
export type PageOptions = { 
/**
 * The `next` of the page before.
 */
after?: string, 
/**
 * Items at most: 1 to 1,000. Default 100.
 */
limit?: number, };

/**
 * A turn without its messages and tool calls; `ledger.turn(id)` has them.
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
 * How it ended.
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
 * Turns above it: 0 for a root.
 */
depth: number, 
/**
 * True when a turn follows it.
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
 * The part the agent played.
 */
role: AgentRole, 
/**
 * The sum over the turn's calls of the provider.
 */
usage: TokenUsage, 
/**
 * US dollars; null where a price is unknown.
 */
cost: number | null, 
/**
 * How many tool calls it has.
 */
toolCallCount: number, 
/**
 * Why the agent stopped.
 */
stopReason: StopReason | null, };

/**
 * A session's pointer, as it was moved.
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
 * The turn it pointed at from then on.
 */
threadId: string, 
/**
 * Unix milliseconds.
 */
changedAt: number, };

/**
 * What of the search is asked for.
 */
export type SearchOptions = { 
/**
 * Only messages of turns that were run in this session.
 */
sessionLabel?: string, 
/**
 * The `next` of the page before.
 */
after?: number, 
/**
 * Hits at most: 1 to 1,000. Default 100.
 */
limit?: number, };

/**
 * A message that holds every word that was searched for.
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
 * What stands around the first word that was found: at most 160 characters, `…` where something was left out.
 */
excerpt: string, };

/**
 * What usage is added up by.
 */
export type UsageBy = "turn" | "session" | "agent" | "model" | "day";

/**
 * Which usage.
 */
export type UsageFilter = { 
/**
 * What it is added up by.
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
 * Only those that began then or later: Unix milliseconds.
 */
since?: number, 
/**
 * Only those that began before: Unix milliseconds.
 */
until?: number, 
/**
 * The `next` of the page before: a key.
 */
after?: string, 
/**
 * Rows at most: 1 to 1,000. Default 100.
 */
limit?: number, };

/**
 * What was used under one key.
 */
export type UsageRow = { 
/**
 * The turn's id, the session's label, the agent, `provider/model`, or the day as `2026-01-31`.
 */
key: string, 
/**
 * The turns, without compactions.
 */
turns: number, 
/**
 * What they used.
 */
usage: TokenUsage, 
/**
 * How many of them estimated a part of it.
 */
estimatedTurns: number, 
/**
 * US dollars of the turns whose price is known; null where none is.
 */
cost: number | null, 
/**
 * The turns whose price is unknown: their cost is not in `cost`.
 */
unpricedTurns: number, 
/**
 * The compactions.
 */
compactions: number, 
/**
 * What they used, which is not in `usage`.
 */
compactionUsage: TokenUsage, 
/**
 * US dollars of those whose price is known, which are not in `cost`; null where none is.
 */
compactionCost: number | null, };

/**
 * Whether a session is in use.
 */
export type SessionStatus = "active" | "archived";

/**
 * Which sessions.
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
 * Those that a session spawned.
 */
parentSessionLabel?: string, 
/**
 * Those whose label begins so.
 */
prefix?: string, 
/**
 * Those in use, or those that were archived.
 */
status?: SessionStatus, 
/**
 * Only subagents' sessions, or only others.
 */
isSubagent?: boolean, 
/**
 * The `next` of the page before: a label.
 */
after?: string, 
/**
 * Sessions at most: 1 to 1,000. Default 100.
 */
limit?: number, };

/**
 * Which tool calls.
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
 * Those that ended so.
 */
status?: ToolCallStatus, 
/**
 * The `next` of the page before: a call's `callId`.
 */
after?: string, 
/**
 * Calls at most: 1 to 1,000. Default 100. A page also ends where its results come to 16 MiB.
 */
limit?: number, };

/**
 * A tool call, with where it was made.
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
 * The arguments the tool got: parsed, coerced and valid; `{}` where they never were.
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
 * Where it stands.
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
 * The assistant message that asked.
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
 * The label of its main session, which may not be there yet.
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
export type SessionKind = "main" | "dm" | "group" | "worker" | "subagent" | "fork" | "system" | "unknown";

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
 * Whom a direct conversation is with.
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
 * The ULID or UUID of a worker, a subagent or a fork; the purpose of a system session.
 */
id: string | null, };
