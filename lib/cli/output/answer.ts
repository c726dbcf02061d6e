// A run as people read it: the answer as it is written, and a line for each tool, retry and wait. It must never decide where a text goes.

import type { AgentResult, StreamEvent } from '../../../index.d.ts'
import { count, duration, money } from './format.ts'
import type { Output } from './output.ts'
import { Spinner, type StatusLine } from './spinner.ts'

/** The longest line about a tool. */
const LINE = 100

/** Writes the events of a run. */
class AnswerWriter {
  readonly #output: Output
  readonly #write: (text: string) => void
  /** What the last text belongs to: a message, or its thinking. Each begins on a line of its own. */
  #part: string | undefined
  #isMidLine = false
  /** While nothing is written; absent without a terminal. */
  readonly #spinner: Spinner | undefined

  constructor(
    output: Output,
    write = (text: string) => output.write(text),
    status: StatusLine | undefined = output.status,
  ) {
    this.#output = output
    this.#write = write
    this.#spinner = status && new Spinner(status)
  }

  event(event: StreamEvent): void {
    if (event.type === 'stream_start') this.#spinner?.start()
    else if (event.type === 'token') this.#text(event.messageId, event.text, false)
    else if (event.type === 'reasoning') this.#text(`${event.messageId} thinks`, event.text, true)
    else if (event.type === 'tool_status') this.#tool(event)
    else this.#other(event)
  }

  #other(event: StreamEvent): void {
    switch (event.type) {
      case 'retry':
        this.#note('yellow', `${event.model} failed (${event.reason}); calling again`)
        break
      case 'waiting': {
        const { ms, reason } = event
        this.#note('yellow', `waiting${ms === undefined ? '' : ` ${duration(ms)}`} (${reason})`)
        break
      }
      case 'model_switch':
        this.#note('yellow', `continuing with ${event.to.model}`)
        break
      case 'compaction': {
        const { phase, tokensBefore, tokensAfter = tokensBefore } = event
        const change = `context: ${count(tokensBefore)} -> ${count(tokensAfter)} tokens`
        this.#note('dim', phase === 'start' ? 'summarising old messages' : change)
        break
      }
      case 'stream_error':
        this.#note('red', `failed: ${event.error}`)
        break
    }
  }

  /** Ends the line of the answer, or what stands for it. */
  end(): void {
    this.#spinner?.stop()
    this.#endLine()
  }

  #endLine(): void {
    if (this.#isMidLine) this.#write('\n')
    this.#isMidLine = false
    this.#part = undefined
  }

  #text(part: string, text: string, isThinking: boolean): void {
    if (this.#part !== part) this.#endLine()
    this.#part = part
    const safe = this.#output.safe(text)
    if (safe === '') return
    this.#spinner?.stop()
    this.#write(isThinking ? this.#output.style('dim', safe) : safe)
    this.#isMidLine = !safe.endsWith('\n')
  }

  #tool(event: Extract<StreamEvent, { type: 'tool_status' }>): void {
    const { status, toolName, params, durationMs = 0, summary } = event
    if (status === 'started') {
      const input = Object.keys(params ?? {}).length === 0 ? '' : JSON.stringify(params)
      this.#note('cyan', `${toolName} ${input}`, '>')
      return
    }
    const failed = status === 'failed' || event.isError === true
    const result = summary === undefined ? '' : `: ${summary}`
    this.#note(
      failed ? 'red' : 'dim',
      `${toolName} ${failed ? 'failed' : 'done'} (${duration(durationMs)})${result}`,
      failed ? '!' : '<',
    )
  }

  #note(style: 'cyan' | 'dim' | 'red' | 'yellow', text: string, mark = '*'): void {
    this.end()
    const line = this.#output.short(text, Math.min(this.#output.columns - 3, LINE))
    this.#write(`${this.#output.style(style, `${mark} ${line}`)}\n`)
    this.#spinner?.start()
  }
}

/** What a run took, in one line. */
function summaryOf({ usage, cost, durationMs, stopReason }: AgentResult): string {
  const tokens = `${count(usage.totalTokens)} tokens`
  const ended = stopReason === 'end_turn' ? '' : ` | ${stopReason}`
  return `${duration(durationMs)} | ${tokens} | ${money(cost)}${ended}`
}

export { AnswerWriter, summaryOf }
