// Tools in JavaScript: sends their definitions to the native side, and runs them.
// It must never let a tool's behaviour (a throw, a hang, a circular object) be anything but an answer for the model.

import type { ToolCallInfo } from '../../index.d.ts'
import { type AgentEngineError, messageOf, refusal } from '../values/errors.ts'
import { noted, type Refuse, throwing } from '../values/problems.ts'
import { isObject, readList, readNamed } from '../values/reader.ts'
import { refuseUnknown, warnOfUnknown } from './fields.ts'
import { conclude } from './generator.ts'
import { answer, failure, isError, unknown } from './result.ts'
import { whyNoParameters } from './schema.ts'

const CODE = 'invalid_tool'

const DEFINED = [
  'name',
  'description',
  'parameters',
  'executionMode',
  'timeoutMs',
  'maxResultChars',
  'replay',
  'retries',
  'permission',
] as const
const CALLED = ['execute', 'run', 'reconcile'] as const

/** A tool's functions, each read once, and the tool itself, on which they are called. */
type Tool = Record<(typeof CALLED)[number], unknown> & { self: object }

/** A call as the native side sends it. */
interface ToolCall {
  execution: number
  callId: string
  toolCallId: string
  runId: string
  turnId: string
  sessionLabel: string
  messageId: string
  name: string
  arguments: unknown
  /** Set for a call in doubt, where the tool's `reconcile` is called, and for one that `beforeToolCall` decides about. */
  instead?: 'reconcile' | 'decide' | 'replace'
  /** What a tool that was called elsewhere returned: `afterToolCall` may replace it. */
  result?: unknown
}

/** The JSON of an answer, and the value as the tool returned it. */
interface ToolAnswer {
  json: string
  value?: unknown
}

type Callable = (...args: never[]) => unknown

/** A tool's definition for the native side. */
type Definition = { name: string } & Record<string, unknown>

/** Checks the tools of a context; returns their definitions for the native side, and a map to run them. */
function readTools(
  tools: unknown,
  refuse: Refuse = throwing,
): { definitions: Definition[]; byName: Map<string, Tool> } {
  const list = readList(tools, 'tools', 'invalid_context')
  if (list === undefined) {
    throw refusal('invalid_context', 'tools', 'is not an array; pass `[]` for none')
  }
  const byName = new Map<string, Tool>()
  const definitions = list.map((given, index) => {
    const read = noted(refuse, () => readTool(given, `tools[${index}]`, refuse))
    // Only while all problems are listed: a tool that has none.
    if (read === undefined) return { name: `tool_${index}`, description: '', parameters: {} }
    byName.set(read.definition.name, read.tool)
    return read.definition
  })
  return { definitions, byName }
}

/** A tool's definition, and its functions, each read once. */
function readTool(
  given: unknown,
  path: string,
  refuse: Refuse,
): { definition: Definition; tool: Tool } {
  if (!isObject(given)) throw refused(path, 'is not a tool object')
  const at = `${path}.`
  const { name, description, parameters, ...rest } = readNamed(given, DEFINED, path, CODE, at)
  const functions = readNamed(given, CALLED, path, CODE, at)
  const unnamed = name === undefined || name === null
  if (unnamed) refuse(refused(`${path}.name`, 'is missing'))
  else if (typeof name !== 'string') refuse(refused(`${path}.name`, 'is not a string'))
  const { execute, run } = functions
  // It runs elsewhere: its calls wait for `provideToolResult`.
  const isExternal = !isThere(execute) && !isThere(run)
  if (isThere(execute) && isThere(run)) {
    const why =
      'is there beside `run`; give one: `run(params, call)`, or `execute(toolCallId, params, signal, onUpdate)` as pi has it'
    refuse(refused(`${path}.execute`, why))
  } else if (!isExternal && typeof execute !== 'function' && typeof run !== 'function') {
    const why =
      'is not a function; give `execute(toolCallId, params, signal, onUpdate)` or `run(params, call)`'
    refuse(refused(`${path}.execute`, why))
  }
  if (isThere(run) || isExternal) refuseUnknown(given, path, refuse)
  else warnOfUnknown(given, String(name), path)
  const unusable = whyNoParameters(parameters, `${path}.parameters`)
  if (unusable !== undefined) refuse(refused(`${path}.parameters`, unusable))
  const schema = unusable === undefined ? parameters : undefined
  const definition: Definition = {
    name: typeof name === 'string' ? name : path.replaceAll(/[[\]]/g, '_'),
    description: description ?? '',
    parameters: schema ?? { type: 'object', properties: {} },
    ...rest,
  }
  if (isExternal) definition.external = true
  for (const [field, value] of Object.entries(definition)) {
    const lost = typeof value === 'function' || typeof value === 'symbol'
    if (lost) refuse(refused(`${path}.${field}`, `is a ${typeof value}`))
    const endless = typeof value === 'number' && !Number.isFinite(value)
    if (endless) {
      refuse(refused(`${path}.${field}`, 'is not a finite number; leave it out for the default'))
    }
    if (lost || endless) delete definition[field]
  }
  return { definition, tool: { ...functions, self: given } }
}

function isThere(value: unknown): boolean {
  return value !== undefined && value !== null
}

function refused(field: string, why: string): AgentEngineError {
  return refusal(CODE, field, why)
}

/** Runs one call and returns the JSON of its answer, and the value as the tool returned it. */
async function runTool(
  tool: Tool | undefined,
  call: ToolCall,
  signal: AbortSignal,
  onUpdate: (partial: unknown) => void,
  after?: (value: unknown) => Promise<unknown>,
): Promise<ToolAnswer> {
  try {
    const { toolCallId, callId: idempotencyKey, arguments: params } = call
    const { runId, turnId, sessionLabel, messageId } = call
    const about = { runId, turnId, sessionLabel, messageId, toolCallId, idempotencyKey }
    const info: ToolCallInfo = { ...about, signal, onUpdate }
    if (call.instead === 'replace') {
      const value = await after?.(call.result)
      return { json: answer(value), value }
    }
    if (tool === undefined) throw new Error(`there is no tool \`${call.name}\``)
    if (call.instead === 'reconcile') return await reconcile(tool, params, info)
    const returned: unknown = await (typeof tool.execute === 'function'
      ? Reflect.apply(tool.execute, tool.self, [toolCallId, params, signal, onUpdate, info])
      : Reflect.apply(tool.run as Callable, tool.self, [params, info]))
    const concluded = await conclude(returned, info)
    if (isError(concluded)) throw concluded
    const value = after === undefined ? concluded : await after(concluded)
    if (isError(value)) throw value
    return { json: answer(value), value }
  } catch (error) {
    return { json: failure(messageOf(error, 'the tool')) }
  }
}

/** Calls `reconcile` for a call in doubt after a crash. With an unknown outcome the tool is not run again. */
async function reconcile(tool: Tool, params: unknown, info: ToolCallInfo): Promise<ToolAnswer> {
  if (typeof tool.reconcile !== 'function') return { json: unknown() }
  const report: { outcome?: unknown; result?: unknown } | null | undefined = await Reflect.apply(
    tool.reconcile,
    tool.self,
    [info.idempotencyKey, params, info],
  )
  switch (report?.outcome) {
    case 'done': {
      const { result } = report
      const value = result === undefined ? null : result
      return { json: JSON.stringify({ ...JSON.parse(answer(value)), outcome: 'done' }), value }
    }
    case 'not_done':
      return { json: JSON.stringify({ content: [], isError: false, outcome: 'not_done' }) }
    default:
      return { json: unknown() }
  }
}

export type { Tool, ToolCall }
export { readTools, runTool }
