// `chat`: a conversation in a terminal, or one message a line from a pipe. It must never lose a line that was typed.

import { createInterface } from 'node:readline'
import type { AgentResult, AgentRun } from '../../../index.d.ts'
import type { Agent } from '../../run-agent/agents.ts'
import type { Settings } from '../../run-agent/config/settings.ts'
import { startTurn } from '../../run-agent/run-agent.ts'
import { importTranscript } from '../../run-agent/transcripts.ts'
import { text } from '../arguments.ts'
import { Screen } from '../chat/screen.ts'
import { type Context, type Run, usingAgent } from '../context.ts'
import { EXIT } from '../exit-codes.ts'
import { AnswerWriter, summaryOf } from '../output/answer.ts'
import { count, counted, money } from '../output/format.ts'
import { exitCodeOf } from './run.ts'

const HELP = `A line is a message; while the agent works it steers it. Ctrl-C aborts, twice leaves.
/new      begin a new session
/compact  replace old messages by a summary
/usage    tokens and cost of this session
/exit     leave, as Ctrl-D does
`

const chat: Run = (context) =>
  usingAgent(context, (agent, settings) => {
    const { out, stdin, env } = context
    const isInteractive = out.isTerminal && stdin.isTTY === true && env.TERM !== 'dumb'
    return isInteractive
      ? new Conversation(context, agent, settings).talk()
      : talkInPipe(context, agent, settings)
  })

class Conversation {
  readonly #context: Context
  readonly #agent: Agent
  readonly #settings: Settings
  readonly #screen: Screen
  #session: string
  #run: AgentRun | undefined
  #compaction: AbortController | undefined
  /** Ctrl-C was pressed, and nothing since. */
  #isInterrupted = false
  #isLeaving = false
  /** Lines that no run has taken: the next messages. */
  #next: string[] = []
  /** Those of a run that the user has aborted: the beginning of the next message. */
  #draft = ''

  constructor(context: Context, agent: Agent, settings: Settings) {
    this.#context = context
    this.#agent = agent
    this.#settings = settings
    this.#session = text(context.values, 'session') ?? 'main'
    this.#screen = new Screen(context.stdin, process.stdout, context.out, {
      onLine: (line) => this.#steer(line),
      onInterrupt: () => this.#interrupt(),
    })
  }

  async talk(): Promise<number> {
    const { provider, model, workspace } = this.#settings
    this.#note(`${provider} ${model}, session ${this.#session}, in ${workspace}; /help`)
    for (;;) {
      const given = this.#next.shift() ?? (await this.#screen.ask(this.#draft))
      this.#draft = ''
      if (given === undefined) break
      this.#isInterrupted = false
      const [line = '', ...more] = given.startsWith('/') ? given.split('\n') : [given]
      // A command is a line.
      this.#next.unshift(...more)
      const message = line.trim()
      if (['/exit', '/quit', 'exit', 'quit'].includes(message)) break
      if (message.startsWith('/')) await this.#command(message)
      else if (message !== '') await this.#answer(message)
      if (this.#isLeaving) break
    }
    this.#screen.close()
    return this.#isLeaving ? EXIT.interrupted : EXIT.ok
  }

  async #answer(message: string): Promise<void> {
    const { ledger } = this.#agent.engine
    await importTranscript(ledger, this.#settings.paths.sessions, this.#session)
    const run = startTurn(this.#agent, this.#settings, this.#session, message, { events: 'all' })
    this.#run = run
    this.#context.runs.add(run)
    this.#screen.busy()
    const write = (text: string) => this.#screen.write(text)
    const writer = new AnswerWriter(this.#context.out, write, this.#screen)
    const isStreamed = this.#context.env.MYCLAW_NO_STREAM !== '1'
    const end = run.stream.onEvent((event) => {
      if (isStreamed || event.type !== 'token') writer.event(event)
    })
    const result = await run.result
    end()
    this.#run = undefined
    this.#context.runs.delete(run)
    writer.end()
    if (!isStreamed) this.#screen.write(`${this.#context.out.safe(result.text)}\n`)
    this.#next.unshift(...result.undeliveredSteering)
    if (result.stopReason === 'aborted') {
      this.#draft = this.#next.join(' ')
      this.#next = []
    }
    this.#note(result.stopReason === 'aborted' ? 'aborted; Ctrl-C again leaves' : summaryOf(result))
    this.#screen.idle()
  }

  #steer(line: string): void {
    const message = line.trim()
    if (message === '') return
    this.#isInterrupted = false
    if (this.#run?.steer(message) === true) return
    this.#next.push(message)
    this.#note('it is sent next')
  }

  /** The first Ctrl-C aborts the run, or warns; the second leaves. */
  #interrupt(): void {
    if (this.#isInterrupted) {
      this.#isLeaving = true
      this.#run?.abort()
      this.#compaction?.abort()
      this.#screen.close()
      return
    }
    this.#isInterrupted = true
    if (this.#screen.hasText) this.#screen.clear()
    if (this.#run !== undefined) this.#run.abort()
    else if (this.#compaction !== undefined) this.#compaction.abort()
    else this.#note('Ctrl-C again leaves')
  }

  async #command(message: string): Promise<void> {
    const { engine } = this.#agent
    switch (message) {
      case '/help':
        this.#screen.write(HELP)
        return
      case '/new': {
        const { label } = await engine.ledger.createSession(`chat:${Date.now().toString(36)}`)
        this.#session = label
        this.#note(`session ${label}`)
        return
      }
      case '/usage':
        await this.#usage()
        return
      case '/compact':
        await this.#compact()
        return
      default:
        this.#note(`there is no command \`${message}\`; /help`)
    }
  }

  async #usage(): Promise<void> {
    const { items } = await this.#agent.engine.ledger.usage({
      by: 'session',
      sessionLabel: this.#session,
    })
    for (const { turns, usage, cost } of items) {
      this.#note(`${counted(turns, 'turn')}, ${count(usage.totalTokens)} tokens, ${money(cost)}`)
    }
    if (items.length === 0) this.#note('no turn yet')
  }

  async #compact(): Promise<void> {
    const { provider, model } = this.#settings
    const controller = new AbortController()
    const { signal } = controller
    this.#compaction = controller
    this.#context.runs.add(controller)
    this.#screen.busy()
    try {
      const done = await this.#agent.engine.compact(this.#session, { provider, model, signal })
      const change = done && `${count(done.tokensBefore)} -> ${count(done.tokensAfter)} tokens`
      this.#note(change ?? 'there is nothing to summarise')
    } catch (error) {
      this.#note(signal.aborted ? 'aborted; Ctrl-C again leaves' : (error as Error).message)
    } finally {
      this.#compaction = undefined
      this.#context.runs.delete(controller)
      this.#screen.idle()
    }
  }

  #note(text: string): void {
    const { out } = this.#context
    this.#screen.write(`${out.style('dim', out.safe(text))}\n`)
  }
}

/** Each line of the input is a message; each answer is written when it is complete. */
async function talkInPipe(context: Context, agent: Agent, settings: Settings): Promise<number> {
  const { out, err, stdin, json, values } = context
  const session = text(values, 'session') ?? 'main'
  await importTranscript(agent.engine.ledger, settings.paths.sessions, session)
  let running: AgentRun | undefined
  let isInterrupted = false
  const interrupt = () => {
    if (isInterrupted) process.exit(EXIT.interrupted)
    isInterrupted = true
    running?.abort()
  }
  process.on('SIGINT', interrupt)
  try {
    for await (const line of createInterface({ input: stdin })) {
      if (line.trim() === '') continue
      const run = startTurn(agent, settings, session, line, { events: 'all' })
      running = run
      context.runs.add(run)
      if (json) for await (const event of run) out.json(event)
      const result: AgentResult = await run.result
      running = undefined
      context.runs.delete(run)
      if (json) out.json({ type: 'result', result })
      else if (result.text !== '') out.line(out.safe(result.text))
      if (result.error !== undefined && !json) {
        err.line(`nexus-agent: ${err.safe(result.error.message)}`)
      }
      const code = exitCodeOf(result)
      if (code !== EXIT.ok) return code
    }
    return isInterrupted ? EXIT.interrupted : EXIT.ok
  } finally {
    process.off('SIGINT', interrupt)
  }
}

export { chat }
