'use strict'
// What a caller passes, made ready to cross: JSON text, and beside it what JSON cannot hold.
// It must never let a value that JSON would drop or change pass for one that was left out.

const { AgentEngineError } = require('./errors.js')
const { readTools } = require('./tools.js')

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

/** A context as it crosses, without functions and signals, and the tools by their names. */
function readContext(context) {
  refuseOther(context, 'context', 'invalid_context')
  const { abortSignal, onRequest, tools, ...rest } = fieldsOf(context)
  if (abortSignal !== undefined && abortSignal !== null && !isSignal(abortSignal)) {
    throw new AgentEngineError(
      'invalid_context',
      '`abortSignal`: is not an AbortSignal',
      'abortSignal',
    )
  }
  for (const field of OPTIONAL) refuseLost(rest[field], field, 'invalid_context')
  for (const field of OBJECTS) refuseList(rest[field], field, 'invalid_context')
  const { definitions, byName } = readTools(tools)
  return {
    fields: { ...rest, tools: definitions },
    tools: byName,
    signal: abortSignal ?? undefined,
    onRequest: readHook(onRequest, 'invalid_context'),
  }
}

/** The caller's `onRequest`, where there is one. */
function readHook(hook, code) {
  if (hook === undefined || hook === null) return undefined
  if (typeof hook === 'function') return hook
  throw new AgentEngineError(code, '`onRequest`: is not a function', 'onRequest')
}

/** The caller's own fields, each read once. */
function fieldsOf(context) {
  const fields = {}
  for (const field of Object.keys(context)) {
    try {
      fields[field] = context[field]
    } catch {
      throw new AgentEngineError('invalid_context', `\`${field}\`: cannot be read`, field)
    }
  }
  return fields
}

function isSignal(value) {
  return (
    typeof value === 'object' &&
    typeof value.addEventListener === 'function' &&
    typeof value.aborted === 'boolean'
  )
}

/** Refuses what JSON would lose. */
function refuseLost(value, field, code) {
  const type = typeof value
  if (type === 'function' || type === 'symbol' || (type === 'number' && !Number.isFinite(value))) {
    const what = type === 'number' ? 'is not a finite number' : `is a ${type}`
    throw new AgentEngineError(code, `\`${field}\`: ${what}; leave it out for the default`, field)
  }
}

/** Refuses what is no plain object. */
function refuseOther(value, field, code) {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) {
    throw new AgentEngineError(code, `\`${field}\`: is not an object`, field)
  }
}

function refuseList(value, field, code) {
  if (Array.isArray(value))
    throw new AgentEngineError(code, `\`${field}\`: is a list, not an object`, field)
}

/** JSON of what the caller gave; what JSON cannot hold is a typed error at its field, or else at `root`. */
function toJson(value, root, code = 'invalid_context') {
  try {
    return JSON.stringify(value)
  } catch (error) {
    const field = culprit(value) ?? root
    const why = `\`${field}\`: cannot be written as JSON: ${reason(error)}`
    throw new AgentEngineError(field.startsWith('tools[') ? 'invalid_tool' : code, why, field)
  }
}

/** The field that JSON cannot hold; of a tool, by its place in the list. */
function culprit(value) {
  for (const [field, inner] of Object.entries(value)) {
    if (isJson(inner)) continue
    if (field !== 'tools' || !Array.isArray(inner)) return field
    const index = inner.findIndex((tool) => !isJson(tool))
    const part = Object.keys(inner[index] ?? {}).find((key) => !isJson(inner[index][key]))
    return `tools[${index}]${part === undefined ? '' : `.${part}`}`
  }
  return undefined
}

function isJson(value) {
  try {
    JSON.stringify(value)
    return true
  } catch {
    return false
  }
}

/** The first line: V8 draws the circle in those that follow. */
function reason(error) {
  try {
    return String(error.message).split('\n')[0].slice(0, 200)
  } catch {
    return 'it throws'
  }
}

module.exports = { readContext, readHook, toJson, refuseLost, refuseList, refuseOther }
