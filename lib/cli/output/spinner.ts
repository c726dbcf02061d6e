// A line at the end of a terminal that shows that an answer is waited for. It must never be where no terminal is, nor stay in what was written.

const FRAMES = ['-', '\\', '|', '/'] as const
const FRAME_MS = 120

/** Where the line is drawn: again with another text, or taken away. */
interface StatusLine {
  draw(text: string): void
  erase(): void
}

class Spinner {
  readonly #line: StatusLine
  readonly #now: () => number
  #timer: NodeJS.Timeout | undefined
  #begun = 0
  #frame = 0

  constructor(line: StatusLine, now = () => Date.now()) {
    this.#line = line
    this.#now = now
  }

  start(): void {
    if (this.#timer !== undefined) return
    this.#begun = this.#now()
    this.#timer = setInterval(() => this.#draw(), FRAME_MS)
    this.#timer.unref()
    this.#draw()
  }

  stop(): void {
    if (this.#timer === undefined) return
    clearInterval(this.#timer)
    this.#timer = undefined
    this.#line.erase()
  }

  #draw(): void {
    const seconds = Math.floor((this.#now() - this.#begun) / 1000)
    this.#frame = (this.#frame + 1) % FRAMES.length
    const time = seconds === 0 ? '' : ` ${seconds} s`
    this.#line.draw(`${FRAMES[this.#frame]} waiting${time}`)
  }
}

export type { StatusLine }
export { Spinner }
