// The JSON Schema of an output, as services with structured output take it: objects have the properties that it names and no others.
// It must never change a schema of the caller, or one whose meaning would change.

/** Keywords that OpenAI's strict mode has. */
const STRICT: ReadonlySet<string> = new Set([
  ...['type', 'properties', 'required', 'additionalProperties', 'items', 'anyOf', '$ref', '$defs'],
  ...['definitions', 'enum', 'const', 'title', 'description', 'pattern', 'format', 'multipleOf'],
  ...['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'minItems', 'maxItems'],
])
/** Keywords by which several schemas describe one object: none of them has all of its properties. */
const COMPOSED = ['allOf', 'not', 'if', 'dependentSchemas', 'patternProperties']
/** Those that do so beside `properties`. */
const COMPOSED_BESIDE = ['anyOf', 'oneOf', '$ref', '$dynamicRef']
/** Keywords with schemas by name, and those with one schema or a list of them. */
const NAMED = ['properties', '$defs', 'definitions']
const NESTED = ['items', 'prefixItems', 'anyOf', 'oneOf', 'additionalProperties']

type Schema = Record<string, unknown>

/** The schema for the model, and whether a service may enforce it exactly. */
interface OutputSchema {
  schema: unknown
  strict: boolean
}

/** Reads a schema from its JSON text. */
function outputSchema(json: string): OutputSchema {
  const schema: unknown = JSON.parse(json)
  if (isComposed(schema)) return { schema, strict: false }
  const strict = close(schema)
  return { schema, strict: strict && (schema as Schema).type === 'object' }
}

function isComposed(schema: unknown): boolean {
  if (!isSchema(schema)) return false
  if (COMPOSED.some((name) => name in schema)) return true
  if ('properties' in schema && COMPOSED_BESIDE.some((name) => name in schema)) return true
  return nestedIn(schema).some(isComposed)
}

/** Closes the objects of a schema, and returns whether it may be strict. */
function close(schema: unknown): boolean {
  if (!isSchema(schema)) return false
  const { type, properties, required } = schema
  if (properties !== undefined && !('additionalProperties' in schema)) {
    schema.additionalProperties = false
  }
  let strict = Object.keys(schema).every((name) => STRICT.has(name))
  if (properties !== undefined || type === 'object') {
    const all = Object.keys(properties ?? {})
    const isWhole = all.every((name) => Array.isArray(required) && required.includes(name))
    strict &&= schema.additionalProperties === false && isWhole
  }
  for (const nested of nestedIn(schema)) {
    if (!close(nested)) strict = false
  }
  return strict
}

function isSchema(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The schemas within a schema. */
function nestedIn(schema: Schema): unknown[] {
  const named = NAMED.flatMap((name) => (isSchema(schema[name]) ? Object.values(schema[name]) : []))
  const others = NESTED.flatMap((name) => {
    const nested = schema[name]
    if (Array.isArray(nested)) return nested
    return isSchema(nested) ? [nested] : []
  })
  return [...named, ...others]
}

export type { OutputSchema }
export { outputSchema }
