'use strict'
// Tools that live in JavaScript: what the model is told of them, running them, and reading what they return.
// Whatever a tool does (throws, never answers, returns a circular object) becomes an answer for the model.

const { AgentEngineError, messageOf } = require('./errors.js')

/** The largest answer that crosses to the engine, in UTF-16 units. */
const MAX_ANSWER = 32 * 1024 * 1024

/** Checks the tools of a context and returns what crosses to the native side, and a map to run them by. */
function readTools(tools) {
  if (!Array.isArray(tools)) {
    throw new AgentEngineError(
      'invalid_context',
      '`tools`: is not an array; pass `[]` for none',
      'tools',
    )
  }
  const byName = new Map()
  const definitions = tools.map((tool, index) => {
    const path = `tools[${index}]`
    try {
      const definition = readTool(tool, path)
      byName.set(definition.name, tool)
      return definition
    } catch (error) {
      if (error instanceof AgentEngineError) throw error
      throw refused(path, 'cannot be read')
    }
  })
  return { definitions, byName }
}

function readTool(tool, path) {
  if (tool === null || typeof tool !== 'object') throw refused(path, 'is not a tool object')
  const { name, description, parameters, executionMode, timeoutMs, replay, retries } = tool
  if (name === undefined || name === null) throw refused(`${path}.name`, 'is missing')
  if (typeof name !== 'string') throw refused(`${path}.name`, 'is not a string')
  if (typeof tool.execute !== 'function' && typeof tool.run !== 'function') {
    throw refused(
      `${path}.execute`,
      'is not a function; give `execute(toolCallId, params, signal, onUpdate)` or `run(params, call)`',
    )
  }
  const definition = {
    name,
    description: description ?? '',
    parameters: parameters ?? { type: 'object', properties: {} },
    executionMode,
    timeoutMs,
    replay,
    retries,
  }
  for (const [field, value] of Object.entries(definition)) {
    const lost = typeof value === 'function' || typeof value === 'symbol'
    if (lost) throw refused(`${path}.${field}`, `is a ${typeof value}`)
    if (typeof value === 'number' && !Number.isFinite(value)) {
      throw refused(`${path}.${field}`, 'is not a finite number; leave it out for the default')
    }
  }
  return definition
}

function refused(field, why) {
  return new AgentEngineError('invalid_tool', `\`${field}\`: ${why}`, field)
}

/** Runs one call and returns the JSON of its answer, and the value as the tool returned it. */
async function runTool(tool, call, signal, onUpdate) {
  try {
    const { toolCallId, callId: idempotencyKey, arguments: params } = call
    const info = { toolCallId, idempotencyKey, signal, onUpdate }
    if (call.reconcile) return await reconcile(tool, params, info)
    const value =
      typeof tool.execute === 'function'
        ? await tool.execute(toolCallId, params, signal, onUpdate, info)
        : await tool.run(params, info)
    return { json: answer(value), value }
  } catch (error) {
    return { json: failure(messageOf(error, 'the tool')) }
  }
}

/** Asks the tool what became of a call that a crash left in doubt. A tool that cannot say is not run again. */
async function reconcile(tool, params, info) {
  if (typeof tool.reconcile !== 'function') return { json: unknown() }
  const said = await tool.reconcile(info.idempotencyKey, params, info)
  switch (said?.outcome) {
    case 'done': {
      const value = said.result === undefined ? null : said.result
      return { json: JSON.stringify({ ...JSON.parse(answer(value)), outcome: 'done' }), value }
    }
    case 'not_done':
      return { json: JSON.stringify({ content: [], isError: false, outcome: 'not_done' }) }
    default:
      return { json: unknown() }
  }
}

function unknown() {
  return JSON.stringify({ content: [], isError: true, outcome: 'unknown' })
}

function answer(value) {
  if (typeof value === 'string') {
    check(value.length)
    return checked({ content: [text(value)], resultJson: JSON.stringify(value), isError: false })
  }
  if (isPiResult(value)) {
    const content = value.content.map(block)
    check(content.reduce((sum, item) => sum + (item.text ?? item.data).length, 0))
    return checked({
      content,
      resultJson: withDetails(content, value.details),
      isError: value.isError === true,
    })
  }
  const json = JSON.stringify(value)
  if (json === undefined) {
    throw new TypeError(
      `the tool returned ${typeof value}; return a string, JSON, or { content: [...] }`,
    )
  }
  check(json.length)
  return checked({ content: [text(json)], resultJson: json, isError: false })
}

/** Before anything is made of it: a copy of what is too large would be too large too. */
function check(length) {
  if (length > MAX_ANSWER) {
    throw new RangeError(
      `the tool returned ${length} characters; at most ${MAX_ANSWER} are allowed`,
    )
  }
}

function checked(parts) {
  const json = JSON.stringify(parts)
  // Its text is in there twice: to be told, and to be kept.
  check(json.length / 2)
  return json
}

function isPiResult(value) {
  return value !== null && typeof value === 'object' && Array.isArray(value.content)
}

/** The stored result. Details are the host's own and need not be JSON, or small: they stay in this process then. */
function withDetails(content, details) {
  try {
    const json = JSON.stringify({ content, details })
    if (json.length <= MAX_ANSWER) return json
  } catch {}
  return JSON.stringify({ content })
}

function text(value) {
  return { type: 'text', text: value }
}

function block(item, index) {
  if (item?.type === 'text' && typeof item.text === 'string') return text(item.text)
  if (
    item?.type === 'image' &&
    typeof item.data === 'string' &&
    typeof item.mimeType === 'string'
  ) {
    return { type: 'image', mimeType: item.mimeType, data: item.data }
  }
  throw new TypeError(`content[${index}] of the tool's result is neither a text nor an image block`)
}

function failure(message) {
  return JSON.stringify({ content: [text(message)], isError: true })
}

module.exports = { readTools, runTool }
