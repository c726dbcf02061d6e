// Tools that live in JavaScript: what the model is told of them, and running them.
// Whatever a tool does (throws, never answers, returns a circular object) becomes an answer for the model.

const CODE = 'invalid_tool'

import { messageOf, refusal } from '../values/errors.js'
import { isObject, readList, readNamed } from '../values/reader.js'
import { answer, failure, unknown } from './result.js'

const DEFINED = [
  'name',
  'description',
  'parameters',
  'executionMode',
  'timeoutMs',
  'replay',
  'retries',
]
const CALLED = ['execute', 'run', 'reconcile']

/** Checks the tools of a context and returns what crosses to the native side, and a map to run them by. */
function readTools(tools) {
  const list = readList(tools, 'tools', 'invalid_context')
  if (list === undefined) {
    throw refusal('invalid_context', 'tools', 'is not an array; pass `[]` for none')
  }
  const byName = new Map()
  const definitions = list.map((given, index) => {
    const { definition, tool } = readTool(given, `tools[${index}]`)
    byName.set(definition.name, tool)
    return definition
  })
  return { definitions, byName }
}

/** A tool's definition, and its functions, each read once. */
function readTool(given, path) {
  if (!isObject(given)) throw refused(path, 'is not a tool object')
  const at = `${path}.`
  const { name, description, parameters, ...rest } = readNamed(given, DEFINED, path, CODE, at)
  const functions = readNamed(given, CALLED, path, CODE, at)
  if (name === undefined || name === null) throw refused(`${path}.name`, 'is missing')
  if (typeof name !== 'string') throw refused(`${path}.name`, 'is not a string')
  if (typeof functions.execute !== 'function' && typeof functions.run !== 'function') {
    throw refused(
      `${path}.execute`,
      'is not a function; give `execute(toolCallId, params, signal, onUpdate)` or `run(params, call)`',
    )
  }
  const definition = {
    name,
    description: description ?? '',
    parameters: parameters ?? { type: 'object', properties: {} },
    ...rest,
  }
  for (const [field, value] of Object.entries(definition)) {
    const lost = typeof value === 'function' || typeof value === 'symbol'
    if (lost) throw refused(`${path}.${field}`, `is a ${typeof value}`)
    if (typeof value === 'number' && !Number.isFinite(value)) {
      throw refused(`${path}.${field}`, 'is not a finite number; leave it out for the default')
    }
  }
  return { definition, tool: { ...functions, self: given } }
}

function refused(field, why) {
  return refusal(CODE, field, why)
}

/** Runs one call and returns the JSON of its answer, and the value as the tool returned it. */
async function runTool(tool, call, signal, onUpdate) {
  try {
    const { toolCallId, callId: idempotencyKey, arguments: params } = call
    const info = { toolCallId, idempotencyKey, signal, onUpdate }
    if (call.reconcile) return await reconcile(tool, params, info)
    const value = await (typeof tool.execute === 'function'
      ? Reflect.apply(tool.execute, tool.self, [toolCallId, params, signal, onUpdate, info])
      : Reflect.apply(tool.run, tool.self, [params, info]))
    return { json: answer(value), value }
  } catch (error) {
    return { json: failure(messageOf(error, 'the tool')) }
  }
}

/** Asks the tool what became of a call that a crash left in doubt. A tool that cannot say is not run again. */
async function reconcile(tool, params, info) {
  if (typeof tool.reconcile !== 'function') return { json: unknown() }
  const said = await Reflect.apply(tool.reconcile, tool.self, [info.idempotencyKey, params, info])
  switch (said?.outcome) {
    case 'done': {
      const result = said.result
      const value = result === undefined ? null : result
      return { json: JSON.stringify({ ...JSON.parse(answer(value)), outcome: 'done' }), value }
    }
    case 'not_done':
      return { json: JSON.stringify({ content: [], isError: false, outcome: 'not_done' }) }
    default:
      return { json: unknown() }
  }
}

export { readTools, runTool }
