// Stable placeholders in place of what differs from run to run: ids, times, durations. It must never change what it is given.

import type { Scrubbed } from '../../testing.d.ts'

/** A ULID or a UUID, also inside of a longer text. */
const IDS =
  /\b(?:[0-7][0-9A-HJKMNP-TV-Z]{25}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\b/g
const TIME = /(?:At|_at)$|^(?:from|until|timestamp|deadline|valid_?(?:[Ff]rom|[Tt]o))$/
const DURATION = /(?:Ms|_ms)$|^ms$/
/** What an id names, by its field; the columns of the ledger as well. */
const KINDS: [kind: string, field: RegExp][] = [
  ['turn', /turn_?id$|^thread_?id$/i],
  ['message', /message_?id$/i],
  ['call', /^call_?id$|^idempotency_?key$/i],
  ['run', /^run_?id$/i],
]

class Scrubber {
  /** The placeholders so far, by id. */
  #placeholders = new Map<string, string>()
  #counts = new Map<string, number>()

  value(value: unknown, name: string, parent: object): unknown {
    switch (typeof value) {
      case 'number':
        if (TIME.test(name)) return '<time>'
        return DURATION.test(name) ? '<ms>' : value
      case 'string':
        return value.replaceAll(IDS, (id) => this.#placeholder(id, name, parent))
      case 'object':
        return value === null ? null : this.#object(value, name)
      default:
        return value
    }
  }

  #object(value: object, name: string): unknown {
    if (value instanceof Date) return '<time>'
    // The entries of a list are named as the list is.
    if (Array.isArray(value)) return value.map((entry) => this.value(entry, name, value))
    const entries = Object.entries(value)
    return Object.fromEntries(entries.map(([key, field]) => [key, this.value(field, key, value)]))
  }

  #placeholder(id: string, name: string, parent: object): string {
    const known = this.#placeholders.get(id)
    if (known !== undefined) return known
    const kind = kindOf(name, parent)
    const count = (this.#counts.get(kind) ?? 0) + 1
    this.#counts.set(kind, count)
    const placeholder = `<${kind}-${count}>`
    this.#placeholders.set(id, placeholder)
    return placeholder
  }
}

function kindOf(name: string, parent: object): string {
  if (name === 'id') {
    if ('turnType' in parent || 'turn_type' in parent) return 'turn'
    return 'role' in parent ? 'message' : 'id'
  }
  return KINDS.find(([, field]) => field.test(name))?.[0] ?? 'id'
}

/** A copy with placeholders. */
function scrub<Value>(value: Value): Scrubbed<Value> {
  return new Scrubber().value(value, '', {}) as Scrubbed<Value>
}

export { scrub }
