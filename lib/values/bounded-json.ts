// JSON of an untrusted value, written up to a limit: a larger value is cut, and the rest is not traversed.
// It must never read a value twice, or more of it than the limit allows.

import { types } from 'node:util'

const { isBoxedPrimitive, isNumberObject, isStringObject, isSymbolObject } = types
/** `JSON.isRawJSON`, which the Node.js of this process may lack. */
const { isRawJSON: isRawJson } = JSON as {
  isRawJSON?: (value: unknown) => value is { rawJSON: string }
}

/** The maximum number of written values. */
const MAX_VALUES = 200_000

/** The maximum depth: a reader of the JSON must not run out of stack. */
const MAX_DEPTH = 5_000

/** Characters of a path or a name in a message. */
const MAX_SHOWN = 100

/** Thrown when the limit is used up; what was written so far remains. */
const FULL = Symbol('full')

/** A list or an object that is being written. `keys` is undefined for a list; `any`: an item of it was written. */
interface Frame {
  value: Readonly<Record<string | number, unknown>>
  keys: readonly string[] | undefined
  length: number
  next: number
  any: boolean
  /** A function or a symbol of it was left out. */
  lost: boolean
}

class Writer {
  out: string[] = []
  #left: number
  #values = MAX_VALUES
  /** The lists and objects that are open, outermost first. */
  #open: Frame[] = []
  #ancestors = new Set<object>()
  /** What the whole value is called, where none of its objects may become `{}`. */
  #strict: string | undefined

  constructor(limit: number, strict: string | undefined) {
    this.#left = limit
    this.#strict = strict
  }

  /** Writes a value as JSON.stringify does; false where it has no JSON. It never recurses: the stack is not its bound. */
  write(value: unknown): boolean {
    if (!this.#value(value, '')) return false
    for (let frame = this.#open.at(-1); frame !== undefined; frame = this.#open.at(-1)) {
      if (frame.next < frame.length) this.#next(frame)
      else this.#close(frame)
    }
    return true
  }

  /** Writes one value, or the beginning of a list or an object. */
  #value(given: unknown, key: string | number): boolean {
    if (--this.#values < 0) throw FULL
    let value = given
    if ((typeof value === 'object' && value !== null) || typeof value === 'bigint') {
      if (ArrayBuffer.isView(value)) {
        this.#view(value)
        return true
      }
      const { toJSON } = value as { toJSON?: unknown }
      if (typeof toJSON === 'function') value = Reflect.apply(toJSON, value, [String(key)])
      if (isBoxedPrimitive(value)) value = unboxed(value)
    }
    switch (typeof value) {
      case 'string':
        this.#string(value)
        return true
      case 'number':
        this.#put(Number.isFinite(value) ? String(value) : 'null')
        return true
      case 'boolean':
        this.#put(value ? 'true' : 'false')
        return true
      case 'bigint':
        throw new TypeError('Do not know how to serialize a BigInt')
      case 'object':
        if (value === null) this.#put('null')
        else if (isRawJson?.(value)) this.#put(value.rawJSON)
        else this.#begin(value)
        return true
      default:
        return false
    }
  }

  #begin(value: object): void {
    if (this.#ancestors.has(value)) {
      throw new TypeError('Converting circular structure to JSON')
    }
    if (this.#open.length >= MAX_DEPTH) {
      throw new RangeError(`it is nested too deep: more than ${MAX_DEPTH} levels`)
    }
    const keys = Array.isArray(value) ? undefined : Object.keys(value)
    const length = keys === undefined ? Number((value as unknown[]).length) : keys.length
    this.#put(keys === undefined ? '[' : '{')
    this.#ancestors.add(value)
    this.#open.push({
      value: value as Frame['value'],
      keys,
      length,
      next: 0,
      any: false,
      lost: false,
    })
  }

  #next(frame: Frame): void {
    const index = frame.next++
    const key = frame.keys === undefined ? index : frame.keys[index]
    const mark = this.out.length
    const left = this.#left
    if (frame.any) this.#put(',')
    if (typeof key === 'string') {
      this.#string(key)
      this.#put(':')
    }
    const inner = frame.value[key]
    if (this.#value(inner, key)) {
      frame.any = true
    } else if (frame.keys === undefined) {
      frame.any = true
      this.#put('null')
    } else {
      this.out.length = mark
      this.#left = left
      frame.lost ||= inner !== undefined
    }
  }

  #close(frame: Frame): void {
    if (this.#strict !== undefined && frame.keys !== undefined && !frame.any) {
      if (frame.lost || !isPlain(frame.value))
        throw new TypeError(this.#emptied(frame, this.#strict))
    }
    this.#put(frame.keys === undefined ? ']' : '}')
    this.#ancestors.delete(frame.value)
    this.#open.pop()
  }

  /** Why an object is refused of which only `{}` would be left. */
  #emptied({ value }: Frame, whole: string): string {
    let path = ''
    for (const { keys, next } of this.#open.slice(0, -1)) {
      const key = keys?.[next - 1]
      path += key === undefined ? `[${next - 1}]` : path === '' ? key : `.${key}`
    }
    const at = path === '' ? whole : `\`${path.slice(0, MAX_SHOWN)}\` of ${whole}`
    if (isPlain(value)) return `${at} has functions only, which have no JSON form; return data`
    const made = value as { constructor?: { name?: unknown } }
    const name = String(made.constructor?.name ?? '').slice(0, MAX_SHOWN)
    const way = INSTEAD[name] ?? 'return its data in a plain object, or give it a `toJSON`'
    return `${at} is an instance of ${name === '' ? 'a class' : name}, which has no JSON form; ${way}`
  }

  /** The items of a typed array, without a list of its keys; a Buffer in the form of its `toJSON`. */
  #view(value: ArrayBufferView): void {
    const buffer = Buffer.isBuffer(value)
    this.#put(buffer ? '{"type":"Buffer","data":[' : '{')
    const items = value as unknown as ArrayLike<number | bigint>
    const length = value instanceof DataView ? 0 : items.length
    for (let index = 0; index < length; index++) {
      if (--this.#values < 0) throw FULL
      const item = items[index]
      if (typeof item === 'bigint') throw new TypeError('Do not know how to serialize a BigInt')
      const json = Number.isFinite(item) ? String(item) : 'null'
      this.#put(`${index > 0 ? ',' : ''}${buffer ? '' : `"${index}":`}${json}`)
    }
    this.#put(buffer ? ']}' : '}')
  }

  /** Longer values are not read to their end. */
  #string(text: string): void {
    const json = JSON.stringify(text.length > this.#left ? text.slice(0, this.#left) : text)
    if (json.length > this.#left || text.length > this.#left) {
      this.out.push(json.slice(0, this.#left))
      throw FULL
    }
    this.#put(json)
  }

  #put(json: string): void {
    if (json.length > this.#left) throw FULL
    this.#left -= json.length
    this.out.push(json)
  }
}

/** What to return instead of an object that has no JSON form. */
const INSTEAD: Readonly<Record<string, string>> = {
  Map: 'return `Object.fromEntries(map)` or `[...map]`',
  Set: 'return `[...set]`',
  Promise: 'await it',
  Error: 'return its message',
  Headers: 'return `Object.fromEntries(headers)`',
  Response: 'return its text or its JSON',
}

/** Whether an object is of no class, in whatever realm it was made. */
function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || Object.getPrototypeOf(prototype) === null
}

/** The primitive in a `Number`, `String`, `Boolean` or `BigInt` object. */
function unboxed(value: object): unknown {
  if (isNumberObject(value)) return Number(value)
  if (isStringObject(value)) return String(value)
  return isSymbolObject(value) ? value : value.valueOf()
}

/**
 * The JSON of `value` in at most `limit` characters. `cut`: it is the beginning of a longer text, and no JSON any more.
 * `json` is undefined for a value without JSON. Throws as JSON.stringify does, and passes on throws of the caller's code.
 * With `strict`, what the value is called, it also throws for an object that would become `{}` although it is more: a Map, an error.
 */
function boundedJson(
  value: unknown,
  limit: number,
  strict?: string,
): { json: string | undefined; cut: boolean } {
  const writer = new Writer(limit, strict)
  try {
    const written = writer.write(value)
    return { json: written ? writer.out.join('') : undefined, cut: false }
  } catch (error) {
    if (error !== FULL) throw error
    return { json: writer.out.join(''), cut: true }
  }
}

/** The longest beginning of `text` (or end) whose JSON has at most `limit` characters. It never cuts through a character. */
function fitting(text: string, limit: number, end = false): string {
  let length = Math.min(text.length, limit)
  for (;;) {
    const part = whole(end ? text.slice(text.length - length) : text.slice(0, length), text, end)
    const json = JSON.stringify(part).length
    if (json <= limit || length === 0) return part
    // Every round removes the excess in proportion, and at least one character.
    length = Math.max(0, Math.min(Math.floor((length * limit) / json), length - 1))
  }
}

/** A part of `text` without a lone surrogate at the cut. */
function whole(part: string, text: string, end: boolean): string {
  if (part.length === text.length || part === '') return part
  if (end) return isLow(part.charCodeAt(0)) ? part.slice(1) : part
  const last = part.charCodeAt(part.length - 1)
  return last >= 0xd800 && last <= 0xdbff ? part.slice(0, -1) : part
}

/** Whether a UTF-16 unit is the second half of a surrogate pair. */
function isLow(unit: number): boolean {
  return unit >= 0xdc00 && unit <= 0xdfff
}

export { boundedJson, fitting, isPlain }
