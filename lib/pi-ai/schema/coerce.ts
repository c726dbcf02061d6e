// The coercions of a scalar to a type: as ajv's `coerceTypes` has them. It must never touch a value that has the type.

type Coerced = { value: unknown } | undefined

const NUMBER = /^\s*[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?\s*$/

/** Whether a value has a type of JSON Schema. */
function hasType(value: unknown, type: string): boolean {
  switch (type) {
    case 'null':
      return value === null
    case 'array':
      return Array.isArray(value)
    case 'object':
      return typeof value === 'object' && value !== null && !Array.isArray(value)
    case 'integer':
      return typeof value === 'number' && Number.isInteger(value)
    case 'number':
      return typeof value === 'number' && Number.isFinite(value)
    case 'string':
      return typeof value === 'string'
    case 'boolean':
      return typeof value === 'boolean'
    default:
      return true
  }
}

/** The value as the type; undefined where it cannot be one. */
function coerced(value: unknown, type: string): Coerced {
  switch (type) {
    case 'string':
      if (typeof value === 'number' || typeof value === 'boolean') return { value: String(value) }
      return value === null ? { value: '' } : undefined
    case 'number':
    case 'integer':
      return number(value, type === 'integer')
    case 'boolean':
      if (value === 'true' || value === 1) return { value: true }
      if (value === 'false' || value === 0 || value === null) return { value: false }
      return undefined
    case 'null':
      return value === '' || value === 0 || value === false ? { value: null } : undefined
    default:
      return undefined
  }
}

function number(value: unknown, integer: boolean): Coerced {
  if (value === null) return { value: 0 }
  if (typeof value === 'boolean') return { value: Number(value) }
  if (typeof value !== 'string' || !NUMBER.test(value)) return undefined
  const read = Number(value)
  return integer && !Number.isInteger(read) ? undefined : { value: read }
}

export { coerced, hasType }
