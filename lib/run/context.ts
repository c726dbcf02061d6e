// A caller's context, prepared for the native side: JSON text, and separately the values that JSON cannot hold.
// It must never treat a value that JSON would drop or change as absent.

import type { AgentEngineCallbacks, AssembledContext, OnRequest } from '../../index.d.ts'
import { readTools, type Tool } from '../tools/tools.ts'
import { type Code, refusal } from '../values/errors.ts'
import { toJson } from '../values/json.ts'
import { noted, type Problems, type Refuse, throwing } from '../values/problems.ts'
import {
  type Fields,
  isObject,
  readFields,
  readList,
  readNamed,
  refuseList,
  refuseLost,
} from '../values/reader.ts'
import { readSignal, type Signal } from '../values/signals.ts'
import { readSkipped } from './event-groups.ts'
import { type OwnHooks, takeHooks } from './hooks.ts'
import { type Output, takeOutput } from './output.ts'

const CODE = 'invalid_context'

/** Fields that JSON.stringify would leave out or turn into null where they are a function, a symbol, NaN or Infinity. */
const OPTIONAL: ReadonlySet<string> = new Set<keyof AssembledContext>([
  'history',
  'currentTurn',
  'fallbacks',
  'authProfileId',
  'thinkingConfig',
  'toolChoice',
  'parallelToolCalls',
  'responseFormat',
  'stopSequences',
  'promptCache',
  'metadata',
  'layers',
  'requestMetadata',
  'headers',
  'providerTools',
  'maxResponseTokens',
  'temperature',
  'tokenBudget',
  'timeoutMs',
  'parentTurnId',
  'sourceEventId',
  'target',
  'maxIterations',
  'toolTimeoutMs',
  'maxParallelTools',
  'coalesce',
  'detached',
  'onApproval',
  'approvalExpiresMs',
  'policy',
  'mcp',
  'planner',
])
/** Fields that are objects: native parsing would read a list as their fields in order. */
const OBJECTS: ReadonlySet<string> = new Set<keyof AssembledContext>([
  'thinkingConfig',
  'tokenBudget',
  'responseFormat',
  'promptCache',
  'metadata',
  'requestMetadata',
  'headers',
  'planner',
])
/** Texts of users, tools and models. A lone surrogate in them must not lose the turn: it becomes U+FFFD. */
const CONTENT =
  /^(?:context\.)?(?:systemPrompt|currentMessage|currentTurn|history|tools|target)\b|^result\b/
/** Except ids. */
const IDENTIFIERS = new Set<string | number | undefined>([
  'id',
  'name',
  'toolCallId',
  'toolName',
  'callId',
  'turnId',
  'runId',
])
const CALLBACKS = [
  'onPartialReply',
  'onReasoningStream',
  'onToolResult',
  'onAgentEvent',
  'onToolUpdate',
] as const satisfies readonly (keyof AgentEngineCallbacks)[]

/** A context after reading: the JSON for the native side, and the values that stay in JavaScript. */
interface ReadContext {
  fields: Fields
  tools: Map<string, Tool>
  signal: Signal | undefined
  onRequest: OnRequest | undefined
  hooks: OwnHooks | undefined
  /** Whether the run attaches to another one with its id. */
  attaches: boolean
  /** Undefined where the run requests none. */
  output: Output | undefined
  /** The groups of events that are left out; undefined where the context has no `events`. */
  skipped: number | undefined
}

/**
 * A context whose fields were read: without functions and signals, and the tools by their names. It is the same object, so that
 * nothing is copied: the fields that stay in JavaScript are `undefined` in it.
 */
function readContext(context: Fields, refuse: Refuse = throwing): ReadContext {
  const hooks = takeHooks(context, CODE, refuse)
  const { abortSignal, onRequest, onDuplicateRun, tools, events, layers } = context
  if (abortSignal !== undefined) context.abortSignal = undefined
  if (onRequest !== undefined) context.onRequest = undefined
  if (onDuplicateRun !== undefined) context.onDuplicateRun = undefined
  if (events !== undefined) context.events = undefined
  const output = noted(refuse, () => takeOutput(context))
  const signal = noted(refuse, () => readSignal(abortSignal, 'abortSignal', CODE))
  for (const name in context) {
    try {
      if (OPTIONAL.has(name)) refuseLost(context[name], name, CODE)
      if (OBJECTS.has(name)) refuseList(context[name], name, CODE)
    } catch (error) {
      refuse(error)
      context[name] = undefined
    }
  }
  if (layers !== undefined) context.layers = noted(refuse, () => withoutTexts(layers))
  const none = { definitions: [], byName: new Map() }
  const { definitions, byName } = noted(refuse, () => readTools(tools, refuse), none)
  context.tools = definitions
  return {
    fields: context,
    tools: byName,
    signal,
    onRequest: noted(refuse, () => readHook(onRequest, CODE)),
    hooks,
    output,
    attaches: noted(refuse, () => readOnDuplicate(onDuplicateRun), false),
    skipped:
      events === undefined ? undefined : noted(refuse, () => readSkipped(events, CODE), undefined),
  }
}

/** Layers as they are recorded: their texts are in the prompt and in the message. */
function withoutTexts(layers: unknown): unknown {
  if (layers === null) return undefined
  const list = readList(layers, 'layers', CODE)
  if (list === undefined) throw refusal(CODE, 'layers', 'is not a list of layers')
  return list.map((layer, at) => {
    const { text: _, ...recorded } = readFields(layer, `layers[${at}]`, CODE)
    return recorded
  })
}

/** Whether `onDuplicateRun` is `attach`. */
function readOnDuplicate(given: unknown): boolean {
  if (given === undefined || given === null || given === 'refuse') return false
  if (given === 'attach') return true
  throw refusal(CODE, 'onDuplicateRun', "is neither 'refuse' nor 'attach'")
}

/** The caller's `onRequest`, where there is one. */
function readHook(hook: unknown, code: Code): OnRequest | undefined {
  if (hook === undefined || hook === null) return undefined
  if (typeof hook === 'function') return hook as OnRequest
  throw refusal(code, 'onRequest', 'is not a function')
}

/** The callbacks of a run, each read once: no object of the caller is read while events are delivered. */
function readCallbacks(callbacks: unknown, refuse: Refuse = throwing): AgentEngineCallbacks {
  const given: Fields = {}
  if (callbacks === undefined || callbacks === null) return given
  if (!isObject(callbacks)) throw refusal(CODE, 'callbacks', 'is not an object')
  const read = readNamed(callbacks, CALLBACKS, 'callbacks', CODE, 'callbacks.')
  for (const [name, callback] of Object.entries(read)) {
    if (callback === undefined || callback === null) continue
    if (typeof callback !== 'function') {
      refuse(refusal(CODE, `callbacks.${name}`, 'is not a function'))
    }
    given[name] = callback
  }
  return given
}

/** The JSON of a context, or of a broker's own turn. */
function contextJson(value: unknown, root = 'context'): string {
  return toJson(value, root, codeAt, (path, key) => CONTENT.test(path) && !IDENTIFIERS.has(key))
}

/** Notes all problems of a context; `native` lists those of its JSON. */
function noteProblems(context: Fields, problems: Problems, native: (json: string) => string): void {
  const { fields } = readContext(context, problems.note)
  const before = problems.list.length
  for (;;) {
    const json = noted(problems.note, () => contextJson(fields))
    if (json !== undefined) {
      const known = new Set(problems.list.map(({ path }) => topOf(path)))
      const found = problems.list.length
      problems.add(native(json))
      // What is missing because its problem is noted already, and what follows from it.
      const fresh = problems.list.splice(found).filter(({ path }) => {
        const top = topOf(path)
        if (top === 'toolChoice') return !known.has('tools')
        return fields[top] !== undefined || !known.has(top)
      })
      problems.list.push(...fresh)
      return
    }
    // A value of this field has no JSON: the others are read without it.
    const top = topOf(problems.list.at(-1)?.path ?? '')
    if (fields[top] === undefined || problems.list.length === before) return
    fields[top] = undefined
  }
}

/** The field of a context that a path leads into. */
function topOf(path: string): string {
  return path.replace(/^context\./, '').replace(/[.[].*$/s, '')
}

/** The code of a refusal at a path of a context. */
function codeAt(path: string): Code {
  const field = path.replace(/^context\./, '')
  if (field.startsWith('tools[')) return 'invalid_tool'
  return field === 'sessionLabel' ? 'invalid_label' : CODE
}

export type { ReadContext }
export { contextJson, noteProblems, readCallbacks, readContext, readHook }
