// The schemas of a tool: JSON Schema (TypeBox is), or those of a library that implements Standard Schema. What the model gets
// is JSON Schema; what the library checks, it checks itself. It must never load a library: only the schema's own methods are called.

import * as addon from '../native/addon.ts'
import { boundedJson } from '../values/bounded-json.ts'
import { type AgentEngineError, fromNative, ownText, refusal } from '../values/errors.ts'
import { toJson } from '../values/json.ts'
import { attempt, reason } from '../values/reader.ts'
import { type Issue, lines, refusedArguments, refusedResult } from './validation.ts'

const CODE = 'invalid_tool'
/** Characters of JSON of a result that is compared with a JSON Schema. */
const MAX_RESULT = 4 * 1024 * 1024
const TARGET = { target: 'draft-2020-12' }

/** Checks a value, and gives it as the schema makes it. Throws the sentence for the model. */
type Check = (value: unknown) => unknown

/** How a host passes its own JSON Schema beside a library's: as this expression, where there is one. */
type Beside = (json?: string) => string

const besideInput: Beside = (json) => `\`jsonSchema${json === undefined ? '' : `: ${json}`}\``
const besideOutput: Beside = (json = '…') =>
  `\`responseFormat: { type: 'json_schema', schema: ${json} }\``

/** What is used of a Standard Schema, with its own ways to JSON Schema. */
interface Standard {
  '~standard': {
    vendor?: unknown
    validate(value: unknown): unknown
    jsonSchema?: { input?: unknown }
  }
  /** Zod's. */
  toJSONSchema?: unknown
  /** ArkType's. */
  toJsonSchema?: unknown
  in?: unknown
}

/** The JSON Schema of a tool's arguments, and the check of the library that it came from. */
function readInput(
  given: unknown,
  jsonSchema: unknown,
  path: string,
  tool: string,
): { parameters: unknown; check: Check | undefined } {
  const at = `${path}.inputSchema`
  const own = jsonSchema === undefined || jsonSchema === null ? undefined : jsonSchema
  if (own !== undefined) refuseNoJsonSchema(own, `${path}.jsonSchema`)
  if (given === undefined || given === null) {
    if (own !== undefined) {
      throw refusal(CODE, `${path}.jsonSchema`, 'is beside no `inputSchema`; pass it as that')
    }
    return { parameters: undefined, check: undefined }
  }
  if (isStandard(given, at)) {
    const check = standardCheck(given, (issues, value) => refusedArguments(tool, issues, value))
    return { parameters: own ?? generatedInput(given, at), check }
  }
  refuseNoJsonSchema(given, at)
  if (own !== undefined) {
    const why = 'is for a schema of a library; `inputSchema` is JSON Schema already'
    throw refusal(CODE, `${path}.jsonSchema`, why)
  }
  return { parameters: given, check: undefined }
}

/** The JSON Schemas of the libraries' schemas that were used for outputs, as text. */
const generatedOutputs = new WeakMap<object, string>()

/**
 * The JSON Schema of a run's output as text, and the check of the library that it came from. `generates`: the host passes no JSON Schema
 * for the model beside it; else there is no text.
 */
function readOutputSchema(
  given: unknown,
  generates: boolean,
): { json: string; check: Check | undefined } {
  const path = 'output'
  try {
    if (!isStandard(given, path)) {
      refuseNoJsonSchema(given, path, false)
      return { json: generates ? compile(given, path).json : '', check: undefined }
    }
    let json = generates ? generatedOutputs.get(given) : ''
    if (json === undefined) {
      json = compile(generated(given, path, besideOutput), path).json
      generatedOutputs.set(given, json)
    }
    return { json, check: standardCheck(given, lines) }
  } catch (error) {
    const [issue] = (error as AgentEngineError).issues
    throw refusal('invalid_context', path, issue?.message ?? 'cannot be read')
  }
}

/** The check of a tool's results. */
function readOutput(given: unknown, path: string, tool: string): Check | undefined {
  if (given === undefined || given === null) return undefined
  if (isStandard(given, path)) {
    return standardCheck(given, (issues) => refusedResult(tool, lines(issues)))
  }
  refuseNoJsonSchema(given, path, false)
  const { schema } = compile(given, path)
  return (value) => {
    const { json: written, cut } = boundedJson(value, MAX_RESULT, 'the result')
    const why = cut ? '\n  - root: is too large to be checked' : schema.mismatch(written ?? 'null')
    if (why !== null) throw new TypeError(refusedResult(tool, why))
    return value
  }
}

/** Compiles JSON Schema, which is refused where it cannot be used. */
function compile(
  given: unknown,
  path: string,
): { json: string; schema: InstanceType<typeof addon.NativeResultSchema> } {
  const json = toJson(given, path, () => CODE)
  try {
    return { json, schema: new addon.NativeResultSchema(json) }
  } catch (error) {
    throw refusal(CODE, path, ownText(fromNative(error)))
  }
}

/** Whether a value implements Standard Schema. ArkType's are functions. */
function isStandard(value: unknown, path: string): value is Standard {
  return attempt(
    () => {
      if ((typeof value !== 'object' && typeof value !== 'function') || value === null) return false
      const { '~standard': standard } = value as Partial<Standard>
      return typeof standard?.validate === 'function'
    },
    path,
    CODE,
  )
}

function standardCheck(
  schema: Standard,
  message: (issues: readonly Issue[], value: unknown) => string,
): Check {
  const standard = schema['~standard']
  return async (value) => {
    const checked = (await standard.validate(value)) as { issues?: unknown; value?: unknown }
    const { issues } = checked
    if (issues === undefined || issues === null) return checked.value
    throw new TypeError(message(Array.isArray(issues) ? issues : [{ message: issues }], value))
  }
}

/** The JSON Schema of a tool's arguments by a library's schema. */
function generatedInput(schema: Standard, path: string): unknown {
  // Arguments are always an object, and providers want to read so.
  const parameters = { type: 'object', ...generated(schema, path, besideInput) }
  refuseOtherType(parameters, path)
  return parameters
}

/** The JSON Schema of what a library's schema takes; `beside` is how a host passes its own. */
function generated(schema: Standard, path: string, beside: Beside): Record<string, unknown> {
  let json: unknown
  try {
    json = byItself(schema)
  } catch (error) {
    const why = `cannot be turned into JSON Schema (${reason(error)}); pass the JSON Schema for the model as ${beside()} beside it`
    throw refusal(CODE, path, why)
  }
  if (typeof json !== 'object' || json === null) {
    throw refusal(CODE, path, `has no JSON Schema of its own; ${wayOut(schema, beside)}`)
  }
  // The dialect is of no use to a model.
  const { $schema: _, ...rest } = json as Record<string, unknown>
  return rest
}

/** Standard JSON Schema, else the method of Zod, else that of ArkType; undefined where it has none. */
function byItself(schema: Standard): unknown {
  const { jsonSchema } = schema['~standard']
  if (typeof jsonSchema?.input === 'function') return jsonSchema.input(TARGET)
  if (typeof schema.toJSONSchema === 'function') return schema.toJSONSchema({ io: 'input' })
  // What goes in, before its morphs.
  const input = (schema.in ?? schema) as Standard
  return typeof input.toJsonSchema === 'function' ? input.toJsonSchema() : undefined
}

function wayOut(schema: Standard, beside: Beside): string {
  switch (schema['~standard'].vendor) {
    case 'zod':
      return `update Zod to 4.2 or later, or pass ${beside("z.toJSONSchema(schema, { io: 'input' })")} beside it`
    case 'valibot':
      return `pass \`toStandardJsonSchema(schema)\` of \`@valibot/to-json-schema\` instead, or ${beside('toJsonSchema(schema)')} beside it`
    default:
      return `pass the JSON Schema for the model as ${beside()} beside it`
  }
}

/** Refuses what is no JSON Schema, and names what it seems to be. `args`: it is of arguments, which are an object. */
function refuseNoJsonSchema(given: unknown, path: string, args = true): void {
  if (
    typeof given === 'function' ||
    typeof given !== 'object' ||
    given === null ||
    Array.isArray(given)
  ) {
    throw refusal(CODE, path, `is no schema; pass JSON Schema, TypeBox, or a Standard Schema`)
  }
  const why = attempt(() => looksOtherwise(given as Record<string, unknown>), path, CODE)
  if (why !== undefined) throw refusal(CODE, path, why)
  if (args) refuseOtherType(given as Record<string, unknown>, path)
}

function looksOtherwise(given: Record<string, unknown>): string | undefined {
  if ('_def' in given && typeof given.safeParse === 'function') {
    return 'is a schema of a Zod before 3.24; update Zod to 4.2 or later'
  }
  const [field] = Object.entries(given).find(([, value]) => isStandard(value, '')) ?? []
  if (field !== undefined) {
    return 'is an object of schemas; wrap it: `z.object({ … })`, `v.object({ … })`, `type({ … })`'
  }
  return undefined
}

function refuseOtherType({ type }: Record<string, unknown>, path: string): void {
  if (type === undefined || type === 'object') return
  if (Array.isArray(type) && type.includes('object')) return
  throw refusal(CODE, path, "is not the schema of an object: a tool's arguments are one")
}

/** Why `parameters` of a tool that did not pass `tool()` cannot be used; undefined where it is JSON Schema. */
function whyNoParameters(given: unknown, path: string): string | undefined {
  if (!isStandard(given, path)) return undefined
  const { vendor } = given['~standard']
  const whose = typeof vendor === 'string' && vendor.length <= 40 ? ` of ${vendor}` : ''
  return `is a schema${whose}, and JSON Schema is needed; pass \`tool({ …, inputSchema })\` instead`
}

export type { Check }
export { readInput, readOutput, readOutputSchema, whyNoParameters }
