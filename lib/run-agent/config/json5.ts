// Reads JSON5: JSON with comments, trailing commas, single quotes and bare keys. It must never accept what JSON5 does not, or name more
// of the text in an error than one character: the text may have keys.

/** The deepest nesting: a text from a file must not end the process. */
const MAX_DEPTH = 200
const WHITE = /[\s\u200b\ufeff]/u
const KEY_START = /[\p{L}\p{Nl}$_]/u
const KEY_PART = /[\p{L}\p{Nl}\p{Mn}\p{Mc}\p{Nd}\p{Pc}$\u200c\u200d]/u
const NUMBER = /[+-]?(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|Infinity|NaN)/y
const ESCAPES: Readonly<Record<string, string>> = {
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
  v: '\v',
  '0': '\0',
}
const WORDS: Readonly<Record<string, unknown>> = { true: true, false: false, null: null }

/** Where and why a text is no JSON5. */
class Json5Error extends Error {
  readonly line: number
  readonly column: number

  constructor(why: string, text: string, at: number) {
    const before = text.slice(0, at).split('\n')
    const line = before.length
    const column = (before.at(-1)?.length ?? 0) + 1
    super(`line ${line}, column ${column}: ${why}`)
    this.line = line
    this.column = column
  }
}

/** The value of a JSON5 text. */
function parseJson5(text: string): unknown {
  const reader = new Reader(text)
  const value = reader.value(0)
  reader.skip()
  if (!reader.ended) throw reader.unexpected()
  return value
}

class Reader {
  readonly #text: string
  #at = 0

  constructor(text: string) {
    this.#text = text
  }

  get ended(): boolean {
    return this.#at >= this.#text.length
  }

  /** The refusal of the next character. */
  unexpected(): Json5Error {
    if (this.ended) return this.#error('the text ends too early')
    const next = String.fromCodePoint(this.#text.codePointAt(this.#at) as number)
    return this.#error(`unexpected \`${next === '`' ? "'" : next}\``)
  }

  /** Skips white space and comments. */
  skip(): void {
    for (;;) {
      if (WHITE.test(this.#next)) this.#at += 1
      else if (this.#text.startsWith('//', this.#at)) this.#skipLine()
      else if (this.#text.startsWith('/*', this.#at)) this.#skipBlock()
      else return
    }
  }

  value(depth: number): unknown {
    if (depth > MAX_DEPTH) throw this.#error(`is nested more than ${MAX_DEPTH} levels deep`)
    this.skip()
    const next = this.#next
    if (next === '{') return this.#object(depth)
    if (next === '[') return this.#array(depth)
    if (next === '"' || next === "'") return this.#string()
    for (const [word, value] of Object.entries(WORDS)) {
      if (this.#text.startsWith(word, this.#at) && !this.#continues(this.#at + word.length)) {
        this.#at += word.length
        return value
      }
    }
    return this.#number()
  }

  #object(depth: number): Record<string, unknown> {
    const fields: Record<string, unknown> = {}
    this.#at += 1
    for (;;) {
      this.skip()
      if (this.#take('}')) return fields
      const key = this.#next === '"' || this.#next === "'" ? this.#string() : this.#key()
      this.skip()
      if (!this.#take(':')) throw this.unexpected()
      // `__proto__` is a key like any other.
      const value = this.value(depth + 1)
      Object.defineProperty(fields, key, {
        value,
        enumerable: true,
        configurable: true,
        writable: true,
      })
      this.skip()
      if (this.#take('}')) return fields
      if (!this.#take(',')) throw this.unexpected()
    }
  }

  #array(depth: number): unknown[] {
    const items: unknown[] = []
    this.#at += 1
    for (;;) {
      this.skip()
      if (this.#take(']')) return items
      items.push(this.value(depth + 1))
      this.skip()
      if (this.#take(']')) return items
      if (!this.#take(',')) throw this.unexpected()
    }
  }

  #key(): string {
    const from = this.#at
    if (!KEY_START.test(this.#next)) throw this.unexpected()
    while (!this.ended && KEY_PART.test(this.#next)) this.#at += this.#next.length
    return this.#text.slice(from, this.#at)
  }

  #string(): string {
    const quote = this.#next
    this.#at += 1
    let text = ''
    for (;;) {
      const next = this.#next
      if (next === '' || next === '\n' || next === '\r') {
        throw this.#error('a text is not closed on its line')
      }
      this.#at += next.length
      if (next === quote) return text
      text += next === '\\' ? this.#escape() : next
    }
  }

  #escape(): string {
    const next = this.#next
    if (next === '') throw this.unexpected()
    this.#at += next.length
    if (next === 'x') return this.#code(2)
    if (next === 'u') return this.#code(4)
    if (next === '\r' && this.#next === '\n') this.#at += 1
    if (next === '\n' || next === '\r' || next === '\u2028' || next === '\u2029') return ''
    if (/[1-9]/.test(next) || (next === '0' && /\d/.test(this.#next))) {
      this.#at -= 1
      throw this.unexpected()
    }
    return ESCAPES[next] ?? next
  }

  #code(digits: number): string {
    const hex = this.#text.slice(this.#at, this.#at + digits)
    if (hex.length < digits || /[^0-9a-fA-F]/.test(hex)) throw this.unexpected()
    this.#at += digits
    return String.fromCharCode(Number.parseInt(hex, 16))
  }

  #number(): number {
    NUMBER.lastIndex = this.#at
    const [written] = NUMBER.exec(this.#text) ?? []
    if (written === undefined) throw this.unexpected()
    // JSON5 has no octal numbers.
    if (/^[+-]?0\d/.test(written) || this.#continues(this.#at + written.length)) {
      throw this.unexpected()
    }
    this.#at += written.length
    const sign = written.startsWith('-') ? -1 : 1
    return sign * Number(written.replace(/^[+-]/, ''))
  }

  /** Whether a word goes on at a position. */
  #continues(at: number): boolean {
    const point = this.#text.codePointAt(at)
    return point !== undefined && KEY_PART.test(String.fromCodePoint(point))
  }

  #skipLine(): void {
    const end = /[\n\r\u2028\u2029]/g
    end.lastIndex = this.#at
    this.#at = end.exec(this.#text)?.index ?? this.#text.length
  }

  #skipBlock(): void {
    const end = this.#text.indexOf('*/', this.#at + 2)
    if (end < 0) throw this.#error('a comment is not closed')
    this.#at = end + 2
  }

  #take(wanted: string): boolean {
    if (this.#next !== wanted) return false
    this.#at += 1
    return true
  }

  /** The next character; empty at the end. */
  get #next(): string {
    const point = this.#text.codePointAt(this.#at)
    return point === undefined ? '' : String.fromCodePoint(point)
  }

  #error(why: string): Json5Error {
    return new Json5Error(why, this.#text, this.#at)
  }
}

export { Json5Error, parseJson5 }
