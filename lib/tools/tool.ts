// `tool()`: a plain tool from a definition with schemas of a library. It must never call the host's function with arguments that
// the library has not accepted, or pass a result on that it refuses.

import type { ToolCallInfo, TypedTool } from '../../index.d.ts'
import { refusal } from '../values/errors.ts'
import { isObject, readNamed } from '../values/reader.ts'
import { MADE, refuseUnknownOfMade } from './fields.ts'
import { conclude } from './generator.ts'
import { isError } from './result.ts'
import { type Check, readInput, readOutput } from './schema.ts'

const CODE = 'invalid_tool'
const PATH = 'tool'

/** Makes a tool. Everything that is wrong with its definition is refused here, and not when the model calls it. */
function tool(given: object): TypedTool<never, never> {
  if (!isObject(given)) {
    throw refusal(CODE, PATH, 'is not an object; pass `{ name, description, inputSchema, run }`')
  }
  refuseUnknownOfMade(given, PATH)
  const { inputSchema, jsonSchema, outputSchema, run, reconcile, ...rest } = readNamed(
    given,
    MADE,
    PATH,
    CODE,
    `${PATH}.`,
  )
  const name = readText(rest.name, 'name', "write what the model calls it by: `'read_file'`")
  readText(rest.description, 'description', 'write what it does, and when the model is to call it')
  if (typeof run !== 'function') {
    throw refusal(CODE, `${PATH}.run`, 'is not a function; write `run: (params, call) => …`')
  }
  const { parameters, check } = readInput(inputSchema, jsonSchema, PATH, name)
  const checkResult = readOutput(outputSchema, `${PATH}.outputSchema`, name)
  const made: Record<string, unknown> = {
    parameters: parameters ?? { type: 'object', properties: {} },
    run: (params: unknown, call: ToolCallInfo) =>
      runChecked({ run: run as Callable, self: given, check, checkResult }, params, call),
  }
  for (const [field, value] of Object.entries(rest)) {
    if (value !== undefined) made[field] = value
  }
  if (reconcile !== undefined && reconcile !== null) {
    if (typeof reconcile !== 'function') {
      throw refusal(CODE, `${PATH}.reconcile`, 'is not a function')
    }
    made.reconcile = async (key: string, params: unknown, call: ToolCallInfo) =>
      Reflect.apply(reconcile, given, [
        key,
        check === undefined ? params : await check(params),
        call,
      ])
  }
  return made as unknown as TypedTool<never, never>
}

function readText(value: unknown, field: string, way: string): string {
  const path = `${PATH}.${field}`
  if (value === undefined || value === null || value === '') {
    throw refusal(CODE, path, `is missing; ${way}`)
  }
  if (typeof value !== 'string') throw refusal(CODE, path, `is not a string; ${way}`)
  return value
}

type Callable = (...args: never[]) => unknown

interface Checked {
  run: Callable
  /** What `run` is called on. */
  self: object
  check: Check | undefined
  checkResult: Check | undefined
}

async function runChecked(
  { run, self, check, checkResult }: Checked,
  params: unknown,
  call: ToolCallInfo,
): Promise<unknown> {
  const checked = check === undefined ? params : await check(params)
  // A check may take its time; nothing begins after an abort.
  call.signal.throwIfAborted()
  const value = await conclude(await Reflect.apply(run, self, [checked, call]), call)
  if (isError(value)) throw value
  return checkResult === undefined ? value : checkResult(value)
}

export { tool }
