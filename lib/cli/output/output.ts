// Where the command line writes: text, colours where there is a terminal, and JSON lines. It must never send a control character of a
// model or a tool to a terminal: it could clear the screen, or write to the clipboard.

import type { WriteStream } from 'node:tty'
import type { StatusLine } from './spinner.ts'

type Style = 'bold' | 'dim' | 'red' | 'green' | 'yellow' | 'cyan'
const CODES: Readonly<Record<Style, readonly [number, number]>> = {
  bold: [1, 22],
  dim: [2, 22],
  red: [31, 39],
  green: [32, 39],
  yellow: [33, 39],
  cyan: [36, 39],
}
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not reach a terminal
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g

/** Of the line that the cursor is in. */
const ERASE_TO_END = '\u001b[K'

/** A stream of the process: the standard output, or the standard error. */
class Output {
  readonly #stream: NodeJS.WriteStream
  /** Whether somebody looks at it. */
  readonly isTerminal: boolean
  readonly #hasColours: boolean
  /** The line below what was written; absent where none can be drawn. */
  readonly status: StatusLine | undefined

  constructor(stream: NodeJS.WriteStream, noColour: boolean, env: NodeJS.ProcessEnv) {
    this.#stream = stream
    this.isTerminal = stream.isTTY === true
    const forced = env.FORCE_COLOR !== undefined && env.FORCE_COLOR !== '0'
    this.#hasColours =
      !noColour &&
      !env.NO_COLOR &&
      (forced || (this.isTerminal && env.TERM !== 'dumb' && env.FORCE_COLOR !== '0'))
    if (this.isTerminal && env.TERM !== 'dumb') {
      this.status = {
        draw: (text) => this.write(`\r${this.style('dim', text)}${ERASE_TO_END}`),
        erase: () => this.write(`\r${ERASE_TO_END}`),
      }
    }
  }

  /** The width of the terminal; of what is no terminal, a width that fits everywhere. */
  get columns(): number {
    return (this.#stream as WriteStream).columns || 80
  }

  write(text: string): void {
    if (text !== '') this.#stream.write(text)
  }

  line(text = ''): void {
    this.write(`${text}\n`)
  }

  json(value: unknown): void {
    this.line(JSON.stringify(value))
  }

  /** A text of others: without control characters on a terminal, unchanged in a file or a pipe. */
  safe(text: string): string {
    return this.isTerminal ? text.replace(CONTROL, '') : text
  }

  /** The same in one line of at most `most` characters. */
  short(text: string, most: number): string {
    const line = this.safe(text.replace(/\s+/g, ' ').trim())
    return line.length <= most ? line : `${line.slice(0, Math.max(most - 1, 0)).toWellFormed()}…`
  }

  style(style: Style, text: string): string {
    if (!this.#hasColours || text === '') return text
    const [on, off] = CODES[style]
    return `\u001b[${on}m${text}\u001b[${off}m`
  }

  /** Rows of cells, in columns; a number stands at the right. */
  table(head: readonly string[], rows: readonly (readonly (string | number)[])[]): void {
    const cells = rows.map((row) => row.map((cell) => this.safe(String(cell))))
    const isNumber = head.map((_, at) => rows.every((row) => typeof row[at] === 'number'))
    const width = head.map((title, at) =>
      Math.max(title.length, ...cells.map((row) => row[at]?.length ?? 0)),
    )
    const written = (row: readonly string[]) =>
      row
        .map((cell, at) =>
          isNumber[at] ? cell.padStart(width[at] ?? 0) : cell.padEnd(width[at] ?? 0),
        )
        .join('  ')
        .trimEnd()
    if (rows.length > 0) this.line(this.style('dim', written(head)))
    for (const row of cells) this.line(written(row))
  }
}

export { Output }
