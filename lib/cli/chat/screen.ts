// The terminal of a chat: what the agent writes scrolls by, and a line is edited below it. While somebody types, output waits, so that the
// two never mix. It must never know what a line means.

import {
  clearScreenDown,
  createInterface,
  cursorTo,
  type Interface,
  moveCursor,
} from 'node:readline'
import { Writable } from 'node:stream'
import type { Output } from '../output/output.ts'
import type { StatusLine } from '../output/spinner.ts'

interface Listeners {
  /** A line that was typed while the agent worked. */
  onLine(line: string): void
  /** Ctrl-C. */
  onInterrupt(): void
}

/** What readline writes to: the terminal, or nothing while the agent writes there. */
class LineOutput extends Writable {
  isMuted = false
  readonly isTTY = true
  readonly #terminal: NodeJS.WriteStream

  /** Called when the terminal has another size, before readline draws its line again. */
  readonly #onResize: () => void

  constructor(terminal: NodeJS.WriteStream, onResize: () => void) {
    super({ decodeStrings: false })
    this.#terminal = terminal
    this.#onResize = onResize
    terminal.on('resize', this.#resized)
  }

  get columns(): number {
    return this.#terminal.columns
  }

  get rows(): number {
    return this.#terminal.rows
  }

  override _write(chunk: string, _encoding: BufferEncoding, done: () => void): void {
    if (!this.isMuted) this.#terminal.write(chunk)
    done()
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#terminal.off('resize', this.#resized)
    done(error)
  }

  readonly #resized = () => {
    if (!this.isMuted) this.#onResize()
    this.emit('resize')
  }
}

class Screen implements StatusLine {
  readonly #lines: Interface
  readonly #lineOutput: LineOutput
  readonly #input: NodeJS.ReadStream
  readonly #terminal: NodeJS.WriteStream
  readonly #output: Output
  readonly #listeners: Listeners
  /** Output that waits until the line is sent. */
  #waiting: string[] = []
  #isBusy = false
  #isTyping = false
  /** Whether the last output did not end its line. */
  #isMidLine = false
  /** Whether the last line is a status. */
  #hasStatus = false
  #isClosed = false
  /** The lines of the answer so far: what is pasted comes in one go. */
  #pasted: string[] = []
  /** Lines that came when nobody asked. */
  #early: string[] = []
  #answer: ((line: string | undefined) => void) | undefined

  constructor(
    input: NodeJS.ReadStream,
    terminal: NodeJS.WriteStream,
    output: Output,
    listeners: Listeners,
  ) {
    this.#input = input
    this.#terminal = terminal
    this.#output = output
    this.#listeners = listeners
    this.#lineOutput = new LineOutput(terminal, () => this.#resized())
    this.#lines = createInterface({ input, output: this.#lineOutput, terminal: true })
    this.#lines.on('line', (line) => this.#entered(line))
    this.#lines.on('close', () => this.#close())
    this.#lines.on('SIGINT', () => listeners.onInterrupt())
    input.on('keypress', this.#keypress)
  }

  /** What the user types next, beginning with a draft: a line, or the lines that are pasted at once; undefined when the input has ended. */
  ask(draft: string): Promise<string | undefined> {
    const early = this.#early.shift()
    if (early !== undefined) {
      const line = draft === '' ? early : `${draft} ${early}`
      this.#print(`${this.#output.style('bold', 'you> ')}${this.#output.safe(line)}\n`)
      return Promise.resolve(line)
    }
    if (this.#isClosed) return Promise.resolve(undefined)
    return new Promise((resolve) => {
      this.#answer = resolve
      this.#prompt('you> ')
      if (draft !== '') this.#lines.write(draft)
    })
  }

  /** Writes what the agent says, or what happens. */
  write(text: string): void {
    if (text === '') return
    if (this.#isTyping || this.#answer !== undefined) this.#waiting.push(text)
    else this.#print(text)
    if (this.#answer !== undefined) this.#insert()
  }

  /** Shows a status below the output, unless a line is edited there. */
  draw(text: string): void {
    const isTaken = this.#isTyping || this.#answer !== undefined || this.#isMidLine
    if (isTaken || this.#isClosed || this.#output.status === undefined) return
    this.#output.status.draw(text)
    this.#hasStatus = true
  }

  erase(): void {
    if (this.#hasStatus) this.#output.status?.erase()
    this.#hasStatus = false
  }

  /** From now on the agent works: a line that is typed is for `onLine`. */
  busy(): void {
    this.#isBusy = true
    this.#lineOutput.isMuted = true
  }

  /** The agent has ended: what was typed until then is the beginning of the next message. */
  idle(): void {
    this.#isBusy = false
    if (this.#isTyping) this.#erase()
    this.#isTyping = false
    this.#flush()
  }

  /** Whether the user has begun to type. */
  get hasText(): boolean {
    return this.#lines.line !== ''
  }

  /** Forgets what was typed. */
  clear(): void {
    if (!this.#lineOutput.isMuted) this.#erase()
    this.#lines.write(null, { ctrl: true, name: 'e' })
    this.#lines.write(null, { ctrl: true, name: 'u' })
    if (this.#answer !== undefined) this.#prompt('you> ')
  }

  close(): void {
    if (!this.#isClosed) this.#lines.close()
  }

  readonly #keypress = () => {
    if (!this.#isBusy || this.#isClosed) return
    const hasText = this.#lines.line !== ''
    if (hasText && !this.#isTyping) {
      this.erase()
      this.#isTyping = true
      if (this.#isMidLine) this.#print('\n')
      this.#prompt('steer> ')
    } else if (!hasText && this.#isTyping) {
      // Everything was deleted.
      this.#erase()
      this.#resume()
    }
  }

  #entered(line: string): void {
    this.#isMidLine = false
    if (this.#answer !== undefined) {
      if (this.#pasted.push(line) === 1) setImmediate(() => this.#deliver())
    } else if (this.#isTyping) {
      this.#listeners.onLine(line)
      this.#resume()
    } else if (line.trim() !== '') {
      if (this.#isBusy) this.#listeners.onLine(line)
      else this.#early.push(line)
    }
  }

  /** The lines are the answer. What follows the last one stays for the next. */
  #deliver(): void {
    const answer = this.#answer
    if (answer === undefined) return
    if (this.hasText && !this.#isClosed) this.#erase()
    this.#answer = undefined
    this.#lineOutput.isMuted = true
    answer(this.#pasted.splice(0).join('\n'))
  }

  /** The agent's output goes on. */
  #resume(): void {
    this.#isTyping = false
    this.#lineOutput.isMuted = true
    this.#flush()
  }

  #flush(): void {
    const waiting = this.#waiting
    this.#waiting = []
    for (const text of waiting) this.#print(text)
  }

  /** Writes above the line that is being edited. */
  #insert(): void {
    this.#erase()
    this.#flush()
    this.#prompt('you> ')
  }

  #print(text: string): void {
    this.erase()
    this.#terminal.write(text)
    this.#isMidLine = !text.endsWith('\n')
  }

  #prompt(text: string): void {
    if (this.#isMidLine) this.#print('\n')
    this.#lineOutput.isMuted = false
    this.#lines.setPrompt(this.#output.style('bold', text))
    // With what has been typed.
    this.#lines.prompt(true)
  }

  /** The terminal has wrapped the line anew, of which readline knows nothing: it would leave rows of it behind. */
  #resized(): void {
    this.#erase()
    ;(this.#lines as Interface & { prevRows: number }).prevRows = 0
  }

  /** Removes the line that is being edited from the terminal. */
  #erase(): void {
    const { rows } = this.#lines.getCursorPos()
    moveCursor(this.#terminal, 0, -rows)
    cursorTo(this.#terminal, 0)
    clearScreenDown(this.#terminal)
  }

  #close(): void {
    this.#isClosed = true
    // The shell's prompt has a line of its own.
    this.erase()
    if (this.#answer !== undefined || this.#isTyping || this.#isMidLine) this.#terminal.write('\n')
    this.#input.off('keypress', this.#keypress)
    this.#lineOutput.destroy()
    if (this.#pasted.length > 0) this.#deliver()
    this.#answer?.(undefined)
    this.#answer = undefined
  }
}

export { Screen }
