// The commands and their options, and how a command line is read. It must never run a command.

import { parseArgs } from 'node:util'
import { CommandError, EXIT } from './exit-codes.ts'

interface Option {
  type: 'string' | 'boolean'
  /** Several values: the option may stand several times. */
  multiple?: boolean
  short?: string
  /** What stands for the value in the help. */
  value?: string
  help: string
}
type Options = Readonly<Record<string, Option>>

interface Command {
  /** What follows the name: `<session | turn>`. */
  operands: string
  /** The least and the most operands. */
  count: readonly [number, number]
  help: string
  options: Options
}

/** Options of every command. */
const COMMON: Options = {
  ledger: {
    type: 'string',
    value: 'place',
    help: "the ledger: a file, or postgres://…; default: the config's, ~/.myclaw/agent.db",
  },
  config: { type: 'string', value: 'file', help: 'the config; default: ~/.myclaw/myclaw.json' },
  json: { type: 'boolean', help: 'print JSON, one object a line' },
  'no-color': { type: 'boolean', help: 'no colours, also on a terminal' },
  help: { type: 'boolean', short: 'h', help: 'print this' },
}
/** Options of the commands that call a model. */
const MODEL: Options = {
  provider: {
    type: 'string',
    value: 'name',
    help: 'the service: anthropic, openai, groq, ollama, …',
  },
  model: { type: 'string', value: 'id', help: 'the model, or service/model' },
  'base-url': { type: 'string', value: 'url', help: "the server's address" },
}
const SESSION: Options = {
  session: { type: 'string', short: 's', value: 'key', help: 'the session; default: main' },
}
const LIMIT: Options = {
  limit: { type: 'string', short: 'n', value: 'number', help: 'how many at most; default: 50' },
}

const COMMANDS = {
  chat: {
    operands: '',
    count: [0, 0],
    help: 'talk with the agent; what you type while it works steers it, Ctrl-C aborts, twice leaves',
    options: { ...SESSION, ...MODEL },
  },
  run: {
    operands: '"message"',
    count: [0, Number.POSITIVE_INFINITY],
    help: 'run one message; without one, or with -, it is read from the standard input',
    options: { ...SESSION, ...MODEL },
  },
  sessions: { operands: '', count: [0, 0], help: 'list the sessions', options: LIMIT },
  show: {
    operands: '<session | turn>',
    count: [1, 1],
    help: "print a session's messages, or a turn with its calls",
    options: {},
  },
  tree: {
    operands: '[session]',
    count: [0, 1],
    help: 'print the turns as a tree, with the sessions that point at them',
    options: LIMIT,
  },
  usage: {
    operands: '',
    count: [0, 0],
    help: 'print tokens and cost',
    options: {
      by: {
        type: 'string',
        value: 'what',
        help: 'session, agent, model, day, turn or metadata.<key>; default: model',
      },
      since: { type: 'string', value: 'date', help: 'only turns from this date on' },
      ...LIMIT,
    },
  },
  search: {
    operands: '<words>',
    count: [1, Number.POSITIVE_INFINITY],
    help: 'find messages with these words; the last word may end with *',
    options: { session: { ...SESSION.session, help: 'only in this session' } as Option, ...LIMIT },
  },
  verify: { operands: '', count: [0, 0], help: 'check the whole ledger', options: {} },
  recover: {
    operands: '[turn …]',
    count: [0, Number.POSITIVE_INFINITY],
    help: 'list interrupted turns; with --resume or --discard, end these or all of them',
    options: {
      resume: { type: 'boolean', help: 'continue them' },
      discard: { type: 'boolean', help: 'close them as failed' },
      ...MODEL,
    },
  },
  compact: {
    operands: '<session>',
    count: [1, 1],
    help: 'replace old messages of a session by a summary',
    options: {
      instructions: { type: 'string', value: 'text', help: 'what the summary must have' },
      ...MODEL,
    },
  },
  import: {
    operands: '<file | folder …>',
    count: [1, Number.POSITIVE_INFINITY],
    help: "import sessions: the ledger's JSONL, pi's or MyClaw's",
    options: {
      format: {
        type: 'string',
        value: 'name',
        help: 'ledger, pi or myclaw; default: by the content',
      },
      session: { ...SESSION.session, help: 'the key of the imported session' } as Option,
    },
  },
  export: {
    operands: '<file>',
    count: [1, 1],
    help: 'export sessions to a new file',
    options: {
      format: { type: 'string', value: 'name', help: 'ledger (default), pi or myclaw' },
      session: { ...SESSION.session, help: 'only this session' } as Option,
    },
  },
  backup: { operands: '<file>', count: [1, 1], help: 'copy the ledger to a new file', options: {} },
  doctor: {
    operands: '',
    count: [0, 0],
    help: 'check keys, model, sandbox, SQLite and Node.js, and say what is missing',
    options: MODEL,
  },
} as const satisfies Readonly<Record<string, Command>>

type CommandName = keyof typeof COMMANDS

/** The options of a command line; each is absent, a text or true. */
type Values = Readonly<Record<string, string | boolean | undefined>>

interface Line {
  /** Absent: help or the version was requested. */
  command: CommandName | undefined
  help: boolean
  version: boolean
  values: Values
  operands: readonly string[]
}

/** Reads a command line. Options may stand before the command, too. */
function readLine(argv: readonly string[]): Line {
  const at = argv.findIndex((word, index) => isCommand(word) && !isValue(argv, index))
  if (at < 0) return withoutCommand(argv)
  const command = argv[at] as CommandName
  const rest = [...argv.slice(0, at), ...argv.slice(at + 1)]
  const { values, positionals } = parse(rest, optionsOf(command), command)
  const [least, most] = COMMANDS[command].count
  const help = values.help === true
  if (!help && (positionals.length < least || positionals.length > most)) {
    const { operands } = COMMANDS[command]
    throw wrong(`\`${command}\` takes ${operands === '' ? 'no operands' : operands}`, command)
  }
  return { command, help, version: false, values, operands: positionals }
}

function withoutCommand(argv: readonly string[]): Line {
  const first = argv.find((word) => !word.startsWith('-'))
  if (first !== undefined) throw wrong(`there is no command \`${clipped(first)}\``)
  const options = { ...COMMON, version: { type: 'boolean', short: 'V', help: '' } } as const
  const { values } = parse(argv, options, undefined)
  const version = values.version === true
  return { command: undefined, help: !version, version, values, operands: [] }
}

function parse(args: readonly string[], options: Options, command: CommandName | undefined) {
  try {
    const { values, positionals } = parseArgs({
      args: [...args],
      options: options as Record<string, { type: 'string' | 'boolean'; short: string }>,
      allowPositionals: true,
    })
    return { values: values as Values, positionals }
  } catch (error) {
    // The first sentence names the argument; the others are about parseArgs.
    const [sentence = ''] = (error as Error).message.split('. ')
    throw wrong(sentence.replaceAll("'", '`'), command)
  }
}

/** Whether a word is the value of the option before it. */
function isValue(argv: readonly string[], index: number): boolean {
  const before = argv[index - 1] ?? ''
  const all: Options = Object.assign({}, COMMON, MODEL, SESSION)
  return before.startsWith('--') && all[before.slice(2)]?.type === 'string'
}

function isCommand(word: string): word is CommandName {
  return Object.hasOwn(COMMANDS, word)
}

function optionsOf(command: CommandName): Options {
  return { ...COMMANDS[command].options, ...COMMON }
}

/** The text of an option. */
function text(values: Values, name: string): string | undefined {
  const value = values[name]
  return typeof value === 'string' ? value : undefined
}

/** The whole number of an option. */
function number(values: Values, name: string, otherwise: number): number {
  const given = text(values, name)
  if (given === undefined) return otherwise
  if (!/^[1-9]\d{0,8}$/.test(given)) throw wrong(`--${name} is not a number from 1 on`)
  return Number(given)
}

function wrong(why: string, command?: CommandName): CommandError {
  const help = command === undefined ? 'nexus-agent --help' : `nexus-agent ${command} --help`
  return new CommandError(EXIT.usage, `${why}; see ${help}`)
}

function clipped(word: string): string {
  return word.length > 40 ? `${word.slice(0, 40)}…` : word
}

export type { CommandName, Line, Option, Options, Values }
export { COMMANDS, COMMON, number, optionsOf, readLine, text, wrong }
