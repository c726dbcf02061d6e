// What `run` and `countTokens` are called with: a whole context, or a message with options (the short form). Both become a context.
// It must never treat an unknown field of the short form as absent.

import type { AssembledContext, RunDefaults, RunOptions } from '../../index.d.ts'
import type { Toolsets } from '../engine/toolsets.ts'
import { NativeEngine } from '../native/addon.ts'
import { isPlain } from '../values/bounded-json.ts'
import { clip, refusal } from '../values/errors.ts'
import { meant, unknownField } from '../values/field-names.ts'
import { noted, Problems, type Refuse, throwing } from '../values/problems.ts'
import { attempt, type Fields, readFields, readList } from '../values/reader.ts'
import { noteProblems } from './context.ts'
import { SMALLEST } from './smallest-context.ts'

const CODE = 'invalid_context'

/** The fields of a context. */
const FIELDS: Readonly<Record<keyof AssembledContext, true>> = {
  systemPrompt: true,
  history: true,
  currentTurn: true,
  currentMessage: true,
  tools: true,
  model: true,
  provider: true,
  fallbacks: true,
  authProfileId: true,
  thinkingConfig: true,
  toolChoice: true,
  parallelToolCalls: true,
  responseFormat: true,
  stopSequences: true,
  promptCache: true,
  metadata: true,
  layers: true,
  requestMetadata: true,
  headers: true,
  providerTools: true,
  maxResponseTokens: true,
  temperature: true,
  tokenBudget: true,
  timeoutMs: true,
  abortSignal: true,
  runId: true,
  sessionLabel: true,
  parentTurnId: true,
  role: true,
  toolsetName: true,
  permissionsGranted: true,
  sourceEventId: true,
  workspacePath: true,
  target: true,
  maxIterations: true,
  toolTimeoutMs: true,
  onRequest: true,
  coalesce: true,
  detached: true,
  onDuplicateRun: true,
  output: true,
  outputRetries: true,
  events: true,
  maxParallelTools: true,
  beforeToolCall: true,
  afterToolCall: true,
  stopWhen: true,
  prepareStep: true,
  onApproval: true,
  approvalExpiresMs: true,
  policy: true,
  mcp: true,
  planner: true,
}
const CONTEXT: readonly string[] = Object.keys(FIELDS)
const KNOWN: ReadonlySet<string> = new Set(CONTEXT)
/** The defaults of an engine that has none. */
const NO_DEFAULTS: Readonly<Fields> = Object.freeze({})
/** Fields that belong to one run. */
const OF_ONE_RUN: readonly string[] = [
  'currentMessage',
  'history',
  'currentTurn',
  'abortSignal',
  'runId',
  'parentTurnId',
  'sourceEventId',
  'layers',
] satisfies Exclude<keyof AssembledContext, keyof RunDefaults>[]
const DEFAULTS = CONTEXT.filter((name) => !OF_ONE_RUN.includes(name))
const OPTIONS: readonly string[] = [
  ...CONTEXT.filter((name) => name !== 'currentMessage'),
  ...(['session', 'signal', 'callbacks'] satisfies (keyof RunOptions)[]),
]
/** Other names of the same fields. */
const OTHERS = {
  system: 'systemPrompt',
  instructions: 'systemPrompt',
  prompt: 'systemPrompt',
  messages: 'history',
  maxTokens: 'maxResponseTokens',
  maxOutputTokens: 'maxResponseTokens',
  maxSteps: 'maxIterations',
  maxTurns: 'maxIterations',
  timeout: 'timeoutMs',
  thinking: 'thinkingConfig',
  reasoning: 'thinkingConfig',
  sessionId: 'session',
}
const CONTEXT_OTHERS = { ...OTHERS, sessionId: 'sessionLabel', signal: 'abortSignal' }

const DEFAULT_TIMEOUT_MS = 600_000
/** The unknown fields that this process was warned of, and the most that are remembered. */
const warned = new Set<string>()
const MAX_WARNED = 1_000

/** What a run was called with, as a context, and its callbacks, unread. */
interface RunInput {
  context: Fields
  callbacks: unknown
  /** Fields of the context were left out. */
  isShort: boolean
}

/** Reads the engine's `defaults`. */
function readDefaults(given: unknown, refuse: Refuse = throwing): Readonly<Fields> {
  if (given === undefined || given === null) return NO_DEFAULTS
  const code = 'invalid_options'
  const fields: Fields = {}
  for (const [name, value] of Object.entries(readFields(given, 'defaults', code, 'defaults.'))) {
    const path = `defaults.${clip(name)}`
    if (OF_ONE_RUN.includes(name)) {
      refuse(refusal(code, path, 'belongs to one run; pass it to `run`'))
    } else if (!DEFAULTS.includes(name)) {
      refuse(refusal(code, path, unknownField(name, 'a context', DEFAULTS, CONTEXT_OTHERS)))
    } else if (value !== undefined && value !== null) {
      fields[name] = value
    }
  }
  const tools = noted(refuse, () => readList(fields.tools, 'defaults.tools', code))
  if (tools !== undefined) fields.tools = tools
  const problems = new Problems()
  const check = (json: string) => NativeEngine.fieldProblems(json)
  noteProblems({ ...SMALLEST, ...fields }, problems, check)
  for (const { path, message } of problems.list) refuse(refusal(code, `defaults.${path}`, message))
  return withProvider(fields)
}

/**
 * Reads what a run is called with. A text, or an object with `content` or `blocks` and without `currentMessage`, is the message of the short
 * form, and `second` its options; everything else is a whole context, and `second` its callbacks.
 */
function readInput(
  first: unknown,
  second: unknown,
  { defaults, newId, toolsets }: OfEngine,
  refuse: Refuse = throwing,
): RunInput {
  const input = readForm(first, second, defaults, refuse)
  const { context } = input
  if (toolsets !== undefined && (context.tools === undefined || context.tools === null)) {
    context.tools = noted(refuse, () => toolsets.of(context))
  }
  if (input.isShort) fillShort(context, newId())
  return input
}

/** What an engine adds to what it is called with. */
interface OfEngine {
  defaults: Readonly<Fields>
  newId: () => string
  toolsets: Toolsets | undefined
}

function readForm(
  first: unknown,
  second: unknown,
  defaults: Readonly<Fields>,
  refuse: Refuse,
): RunInput {
  if (typeof first === 'string') {
    return short({ role: 'user', content: first }, second, defaults, refuse)
  }
  const fields = readFields(first, 'context', CODE)
  if (('content' in fields || 'blocks' in fields) && !('currentMessage' in fields)) {
    return short(fields, second, defaults, refuse)
  }
  dropUnknown(fields, first as object)
  return { context: merged(defaults, fields), callbacks: second, isShort: false }
}

/** The context of a message with options. */
function short(
  currentMessage: Fields,
  second: unknown,
  defaults: Readonly<Fields>,
  refuse: Refuse,
): RunInput {
  const given = second === undefined ? {} : readFields(second, 'options', CODE)
  for (const [name, value] of Object.entries(given)) {
    if (OPTIONS.includes(name) || value === undefined) continue
    refuse(refusal(CODE, clip(name), unknownField(name, "a run's options", OPTIONS, OTHERS)))
    delete given[name]
  }
  const { callbacks, ...fields } = given
  noted(refuse, () => renamed(fields, 'session', 'sessionLabel'))
  noted(refuse, () => renamed(fields, 'signal', 'abortSignal'))
  return { context: { ...merged(defaults, fields), currentMessage }, callbacks, isShort: true }
}

/** What a context of the short form leaves out. */
function fillShort(context: Fields, id: string): void {
  fill(context, 'systemPrompt', '')
  fill(context, 'tools', [])
  fill(context, 'role', 'unified')
  fill(context, 'toolsetName', 'default')
  fill(context, 'permissionsGranted', [])
  fill(context, 'workspacePath', process.cwd())
  fill(context, 'timeoutMs', DEFAULT_TIMEOUT_MS)
  fill(context, 'runId', id)
  // In no session: docs/rules/sessions-and-ledger.md#runs-without-a-session.
  fill(context, 'sessionLabel', `run:${id}`)
}

/** The fields of `fields`, and the defaults of those that it does not have. `fields` is not used afterwards. */
function merged(defaults: Readonly<Fields>, fields: Fields): Fields {
  const own = withProvider(fields)
  if (defaults === NO_DEFAULTS) return own
  const context: Fields = { ...defaults }
  for (const name in own) {
    if (own[name] !== undefined) context[name] = own[name]
  }
  return context
}

/** A `model` without a `provider` beside it names both: `anthropic/claude-haiku-4-5`. */
function withProvider(fields: Fields): Fields {
  const { model, provider } = fields
  if (typeof model !== 'string' || (provider !== undefined && provider !== null)) return fields
  const slash = model.indexOf('/')
  if (slash < 0) return fields
  return { ...fields, provider: model.slice(0, slash), model: model.slice(slash + 1) }
}

function fill(context: Fields, name: keyof AssembledContext, value: unknown): void {
  if (context[name] === undefined || context[name] === null) context[name] = value
}

/** The short form has shorter names for two fields. */
function renamed(fields: Fields, name: keyof RunOptions, to: keyof AssembledContext): void {
  const value = fields[name]
  delete fields[name]
  if (value === undefined || value === null) return
  if (fields[to] !== undefined && fields[to] !== null) {
    throw refusal(CODE, name, `is there beside \`${to}\`, which is the same; pass one of them`)
  }
  fields[to] = value
}

/** Drops the unknown fields of a whole context. Hosts extend contexts: these have no effect. Each name is a warning of the process, once. */
function dropUnknown(fields: Fields, context: object): void {
  let warns: boolean | undefined
  for (const name in fields) {
    if (KNOWN.has(name)) continue
    // An instance of a class has state of its own in its fields.
    warns ??= attempt(() => isPlain(context), 'context', CODE)
    if (warns && fields[name] !== undefined) warnOfUnknown(name)
    fields[name] = undefined
  }
}

function warnOfUnknown(name: string): void {
  if (warned.has(name) || warned.size >= MAX_WARNED) return
  warned.add(name)
  const other = meant(name, CONTEXT, CONTEXT_OTHERS)
  const way = other === undefined ? '' : `; did you mean \`${other}\`?`
  process.emitWarning(
    `the context has a field that is not known and has no effect: \`${clip(name)}\`${way}`,
    { code: 'AGENT_ENGINE_CONTEXT_FIELDS' },
  )
}

export type { OfEngine, RunInput }
export { NO_DEFAULTS, readDefaults, readInput }
