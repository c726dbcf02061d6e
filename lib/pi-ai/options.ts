// pi's options of a call as the fields of a context that calls may share. It must never send what the caller did not ask for.

import type { AssembledContext, ThinkingConfig, ToolChoice } from '../../index.d.ts'
import type {
  Context,
  Model,
  SimpleStreamOptions,
  StreamOptions,
  ThinkingBudgets,
  ThinkingLevel,
} from '../../pi-ai.d.ts'

type Fields = Partial<AssembledContext>

/** The most tokens of an answer, where the caller sets none. */
const MAX_TOKENS = 32_000
/** The least that an answer has beside its thinking. */
const MIN_OUTPUT = 1_024
const BUDGETS: Readonly<Record<string, number>> = {
  minimal: 1_024,
  low: 2_048,
  medium: 8_192,
  high: 16_384,
}
/** The limit of a run: pi has none, and the engine needs one. */
const TIMEOUT_MS = 24 * 3_600_000
/** A label that every ledger takes. */
const LABEL = /^[^\p{Cc}]{1,128}$/u

/** The fields that both forms of a call share. */
function fieldsOf(model: Model, context: Context, options: StreamOptions): Fields {
  const { temperature, maxTokens, sessionId, metadata, timeoutMs } = options
  const headers = { ...model.headers, ...options.headers }
  const user = metadata?.user_id
  const session = sessionId !== undefined && LABEL.test(sessionId) ? sessionId : undefined
  return {
    systemPrompt: context.systemPrompt ?? '',
    tools: (context.tools ?? []).map(({ name, description, parameters }) => ({
      name,
      description,
      parameters,
    })),
    provider: model.provider,
    model: model.id,
    sessionLabel: session ?? 'pi',
    promptCache: cacheOf(options, session),
    timeoutMs: timeoutMs ?? TIMEOUT_MS,
    ...(temperature !== undefined && { temperature }),
    ...(maxTokens && { maxResponseTokens: maxTokens }),
    ...(Object.keys(headers).length > 0 && { headers }),
    ...(typeof user === 'string' && { requestMetadata: { user_id: user } }),
  }
}

function cacheOf(options: StreamOptions, key: string | undefined): AssembledContext['promptCache'] {
  const wanted = options.cacheRetention ?? environmentRetention()
  if (wanted === 'none') return { ttl: 'off' }
  return { ttl: wanted === 'long' ? '1h' : '5m', ...(key !== undefined && { key }) }
}

function environmentRetention(): string {
  return process.env.PI_CACHE_RETENTION === 'long' ? 'long' : 'short'
}

/** The fields of a simple call: one level of thinking for all APIs. */
function simpleFields(model: Model, context: Context, options: SimpleStreamOptions): Fields {
  const fields = fieldsOf(model, context, options)
  const maxTokens = options.maxTokens || Math.min(model.maxTokens, MAX_TOKENS)
  fields.maxResponseTokens = maxTokens
  const { reasoning, thinkingBudgets } = options
  if (!reasoning || !model.reasoning) return fields
  if (isAdaptive(model)) {
    return {
      ...fields,
      thinkingConfig: { type: 'adaptive', effort: adaptiveEffort(model, reasoning) },
    }
  }
  if (model.api === 'anthropic-messages' || model.api === 'bedrock-converse-stream') {
    const { budget, most } = budgeted(model, maxTokens, reasoning, thinkingBudgets)
    const thinkingConfig: ThinkingConfig = { type: 'enabled', budgetTokens: budget }
    return { ...fields, maxResponseTokens: most, thinkingConfig }
  }
  const own = thinkingBudgets?.[reasoning as keyof ThinkingBudgets]
  if (own !== undefined && isGoogle(model)) {
    return { ...fields, thinkingConfig: { type: 'enabled', budgetTokens: own } }
  }
  return { ...fields, thinkingConfig: { effort: reasoning } }
}

const isGoogle = ({ api }: Model) => api === 'google-generative-ai' || api === 'google-vertex'

/** The version in a name of Claude: `claude-opus-5-5`, `anthropic.claude-sonnet-4-6`, `claude-opus-4.7`. A date is none. */
const CLAUDE = /claude-(?:[a-z]+-)?(\d{1,2})(?!\d)(?:[-.](\d{1,2})(?!\d))?/
/** From this version of Claude on a model decides itself how much it thinks, and takes an effort in place of a budget. */
const ADAPTIVE_FROM = 4.06

/** The version of a model of Anthropic as a number: 4.06 for 4.6; undefined for others. */
function claudeVersion({ api, id }: Model): number | undefined {
  if (api !== 'anthropic-messages' && api !== 'bedrock-converse-stream') return undefined
  const [, major, minor = '0'] = CLAUDE.exec(id) ?? []
  return major === undefined ? undefined : Number(major) + Number(minor) / 100
}

function isAdaptive(model: Model): boolean {
  const version = claudeVersion(model)
  return version !== undefined && version >= ADAPTIVE_FROM
}

function adaptiveEffort(model: Model, level: ThinkingLevel): ThinkingConfig['effort'] {
  const mapped = model.thinkingLevelMap?.[level]
  if (typeof mapped === 'string') return mapped as ThinkingConfig['effort']
  if (level === 'minimal') return 'low'
  // 4.6 has no effort of that name.
  return level === 'xhigh' && claudeVersion(model) === ADAPTIVE_FROM ? 'max' : level
}

/** The budget of a level, and the most tokens of an answer with it. */
function budgeted(
  model: Model,
  maxTokens: number,
  level: ThinkingLevel,
  given: ThinkingBudgets | undefined,
): { budget: number; most: number } {
  const budgets: Record<string, number | undefined> = { ...BUDGETS, ...given }
  const wanted = budgets[level === 'xhigh' ? 'high' : level] ?? MIN_OUTPUT
  const most = Math.min(maxTokens + wanted, model.maxTokens)
  // The API takes no smaller budget.
  const budget = most <= wanted ? Math.max(MIN_OUTPUT, most - MIN_OUTPUT) : wanted
  return { budget, most }
}

/** What a call that is not simple may have beside the shared options: the names of pi's own providers. */
interface ProviderFields {
  thinkingEnabled?: boolean
  thinkingBudgetTokens?: number
  effort?: ThinkingConfig['effort']
  reasoningEffort?: ThinkingConfig['effort']
  thinking?: { enabled: boolean; budgetTokens?: number; level?: string }
  toolChoice?: unknown
}

/** The fields of a call with the options of its API. */
function providerFields(model: Model, context: Context, options: StreamOptions): Fields {
  const fields = fieldsOf(model, context, options)
  const { toolChoice, ...rest } = options as ProviderFields
  const thinkingConfig = model.reasoning ? thinkingOf(model, rest) : undefined
  const choice = choiceOf(toolChoice)
  return {
    ...fields,
    ...(thinkingConfig && { thinkingConfig }),
    ...(choice && { toolChoice: choice }),
  }
}

function thinkingOf(model: Model, fields: ProviderFields): ThinkingConfig | undefined {
  const { thinkingEnabled, thinkingBudgetTokens, effort, reasoningEffort, thinking } = fields
  if (thinking?.enabled) {
    if (thinking.budgetTokens !== undefined) {
      return { type: 'enabled', budgetTokens: thinking.budgetTokens }
    }
    return { effort: (thinking.level?.toLowerCase() ?? 'medium') as ThinkingConfig['effort'] }
  }
  if (reasoningEffort) return { effort: reasoningEffort }
  if (!thinkingEnabled) return undefined
  if (isAdaptive(model)) return { type: 'adaptive', ...(effort && { effort }) }
  return { type: 'enabled', budgetTokens: thinkingBudgetTokens ?? MIN_OUTPUT }
}

/** pi's choices of all APIs. */
function choiceOf(given: unknown): ToolChoice | undefined {
  if (given === 'auto' || given === 'none' || given === 'required') return given
  if (given === 'any') return 'required'
  if (typeof given !== 'object' || given === null) return undefined
  const { name, function: of } = given as { name?: string; function?: { name?: string } }
  const wanted = name ?? of?.name
  return wanted === undefined ? undefined : { name: wanted }
}

export { providerFields, simpleFields }
