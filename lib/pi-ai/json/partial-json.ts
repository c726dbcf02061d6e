// JSON that is still being written: what it has so far, each character read once. It must never read what was read before.

const QUOTE = 0x22
const BACKSLASH = 0x5c

/** A list or an object that is open, and the key whose value comes next. */
interface Open {
  value: unknown[] | Record<string, unknown>
  key: string
}

/** What is read next. */
type State =
  | 'value'
  | 'key'
  | 'colon'
  | 'after'
  | 'string'
  | 'name'
  | 'literal'
  | 'ended'
  | 'broken'

const ESCAPES: Readonly<Record<string, string>> = {
  '"': '"',
  '\\': '\\',
  '/': '/',
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
}
const LITERALS: readonly (readonly [string, unknown])[] = [
  ['true', true],
  ['false', false],
  ['null', null],
]

class PartialJson {
  #open: Open[] = []
  #root: unknown
  #state: State = 'value'
  /** The text of a string, a key or a literal so far. */
  #text = ''
  /** The beginning of an escape that is not whole. */
  #escape = ''

  /** What the text has so far; undefined where it has no value yet. */
  value(): unknown {
    if (this.#state === 'string') this.#put(this.#text)
    else if (this.#state === 'literal') this.#literal(true)
    return this.#root
  }

  push(text: string): void {
    let at = 0
    while (at < text.length && this.#state !== 'broken' && this.#state !== 'ended') {
      at =
        this.#state === 'string' || this.#state === 'name'
          ? this.#string(text, at)
          : this.#token(text, at)
    }
  }

  /** Reads on in a string, from `at`. Returns where it stopped. */
  #string(text: string, from: number): number {
    let at = from
    if (this.#escape !== '') {
      this.#escape += text[at++]
      this.#unescape()
      return at
    }
    while (at < text.length) {
      const code = text.charCodeAt(at)
      if (code === QUOTE || code === BACKSLASH) break
      at++
    }
    this.#text += text.slice(from, at)
    if (at === text.length) return at
    if (text.charCodeAt(at) === BACKSLASH) {
      this.#escape = '\\'
    } else if (this.#state === 'name') {
      const open = this.#open.at(-1)
      if (open !== undefined) open.key = this.#text
      this.#state = 'colon'
    } else {
      this.#put(this.#text)
      this.#close()
    }
    return at + 1
  }

  #unescape(): void {
    const kind = this.#escape[1] as string
    if (kind === 'u') {
      if (this.#escape.length < 6) return
      this.#text += String.fromCharCode(Number.parseInt(this.#escape.slice(2), 16))
    } else {
      this.#text += ESCAPES[kind] ?? ''
    }
    this.#escape = ''
  }

  /** Reads one character outside of a string. */
  #token(text: string, at: number): number {
    const character = text[at] as string
    if (this.#state === 'literal') {
      if (/[^\s,\]}]/.test(character)) {
        this.#text += character
        return at + 1
      }
      this.#literal(false)
      this.#close()
      return at
    }
    if (/\s/.test(character)) return at + 1
    if (character === '}' || character === ']') {
      this.#open.pop()
      this.#close()
    } else if (this.#state === 'value') {
      this.#begin(character)
    } else if (this.#state === 'key' && character === '"') {
      this.#text = ''
      this.#state = 'name'
    } else if (this.#state === 'colon' && character === ':') {
      this.#state = 'value'
    } else if (this.#state === 'after' && character === ',') {
      this.#state = Array.isArray(this.#open.at(-1)?.value) ? 'value' : 'key'
    } else {
      this.#state = 'broken'
    }
    return at + 1
  }

  #begin(character: string): void {
    if (character === '{' || character === '[') {
      const value = character === '{' ? {} : []
      this.#put(value)
      this.#settle()
      this.#open.push({ value, key: '' })
      this.#state = character === '{' ? 'key' : 'value'
    } else if (character === '"') {
      this.#text = ''
      this.#state = 'string'
    } else {
      this.#text = character
      this.#state = 'literal'
    }
  }

  /** Puts a value where the next one belongs; the same place until it is settled. */
  #put(value: unknown): void {
    const open = this.#open.at(-1)
    if (open === undefined) this.#root = value
    else if (Array.isArray(open.value)) open.value[Number(open.key)] = value
    else Object.defineProperty(open.value, open.key, { value, ...WRITABLE })
  }

  /** The value that was put is whole: the next one of a list goes behind it. */
  #settle(): void {
    const open = this.#open.at(-1)
    if (open !== undefined && Array.isArray(open.value)) open.key = String(open.value.length)
  }

  #close(): void {
    this.#settle()
    this.#state = this.#open.length === 0 ? 'ended' : 'after'
  }

  /** A number, true, false or null; a part of one where it is not whole. */
  #literal(partial: boolean): void {
    const text = this.#text
    const named = LITERALS.find(([name]) => (partial ? name.startsWith(text) : name === text))
    if (named !== undefined) {
      this.#put(named[1])
      return
    }
    const number = Number(partial ? text.replace(/[-+.eE]+$/, '') : text)
    if (text !== '' && /\d/.test(text) && !Number.isNaN(number)) this.#put(number)
    else if (!partial) this.#state = 'broken'
  }
}

const WRITABLE = { writable: true, enumerable: true, configurable: true }

/** The value of JSON that may not be whole; `{}` where there is none. */
function parseStreamingJson(text: string | undefined): unknown {
  if (!text || text.trim() === '') return {}
  try {
    return JSON.parse(text)
  } catch {
    const parser = new PartialJson()
    parser.push(text)
    return parser.value() ?? {}
  }
}

export { PartialJson, parseStreamingJson }
