// What a caller passes for a turn, made ready to cross: JSON text, and beside it what JSON cannot hold.
// It must never let a value that JSON would drop or change pass for one that was left out.

import { readTools } from '../tools/tools.js'
import { refusal } from '../values/errors.js'
import {
  isObject,
  readFields,
  readNamed,
  refuseList,
  refuseLost,
  toJson,
} from '../values/reader.js'
import { readSignal } from '../values/signals.js'

const CODE = 'invalid_context'

/** Fields that JSON.stringify would leave out or turn into null where they are a function, a symbol, NaN or Infinity. */
const OPTIONAL = [
  'history',
  'fallbacks',
  'authProfileId',
  'thinkingConfig',
  'toolChoice',
  'parallelToolCalls',
  'responseFormat',
  'stopSequences',
  'promptCache',
  'metadata',
  'headers',
  'providerTools',
  'maxResponseTokens',
  'temperature',
  'tokenBudget',
  'timeoutMs',
  'parentTurnId',
  'sourceEventId',
  'maxIterations',
  'toolTimeoutMs',
  'coalesce',
  'detached',
]
/** Fields that are objects: native parsing would read a list as their fields in order. */
const OBJECTS = [
  'thinkingConfig',
  'tokenBudget',
  'responseFormat',
  'promptCache',
  'metadata',
  'headers',
]
/** Where users, tools and models write. Half a surrogate pair in there must not lose the turn: it becomes U+FFFD. */
const CONTENT = /^(?:context\.)?(?:systemPrompt|currentMessage|history|tools|target)\b|^result\b/
/** Except what identifies something. */
const IDENTIFIERS = new Set(['id', 'name', 'toolCallId', 'toolName', 'callId', 'turnId', 'runId'])
const CALLBACKS = [
  'onPartialReply',
  'onReasoningStream',
  'onToolResult',
  'onAgentEvent',
  'onToolUpdate',
]

/** A context as it crosses, without functions and signals, and the tools by their names. */
function readContext(context) {
  const { abortSignal, onRequest, tools, ...rest } = readFields(context, 'context', CODE)
  const signal = readSignal(abortSignal, 'abortSignal', CODE)
  for (const field of OPTIONAL) refuseLost(rest[field], field, CODE)
  for (const field of OBJECTS) refuseList(rest[field], field, CODE)
  const { definitions, byName } = readTools(tools)
  return {
    fields: { ...rest, tools: definitions },
    tools: byName,
    signal,
    onRequest: readHook(onRequest, CODE),
  }
}

/** The caller's `onRequest`, where there is one. */
function readHook(hook, code) {
  if (hook === undefined || hook === null) return undefined
  if (typeof hook === 'function') return hook
  throw refusal(code, 'onRequest', 'is not a function')
}

/** The callbacks of a run, each read once: nothing of the caller's is read while events are handed out. */
function readCallbacks(callbacks) {
  const given = {}
  if (callbacks === undefined || callbacks === null) return given
  if (!isObject(callbacks)) throw refusal(CODE, 'callbacks', 'is not an object')
  const read = readNamed(callbacks, CALLBACKS, 'callbacks', CODE, 'callbacks.')
  for (const [name, callback] of Object.entries(read)) {
    if (callback === undefined || callback === null) continue
    if (typeof callback !== 'function') {
      throw refusal(CODE, `callbacks.${name}`, 'is not a function')
    }
    given[name] = callback
  }
  return given
}

/** The JSON of a context, or of a turn that a broker writes itself. */
function contextJson(value, root = 'context') {
  return toJson(value, root, codeAt, (path, key) => CONTENT.test(path) && !IDENTIFIERS.has(key))
}

function codeAt(path) {
  const field = path.replace(/^context\./, '')
  if (field.startsWith('tools[')) return 'invalid_tool'
  return field === 'sessionLabel' ? 'invalid_label' : CODE
}

export { contextJson, readCallbacks, readContext, readHook }
