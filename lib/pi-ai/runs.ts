// The run of a call. What calls have in common (the prompt, the tools, the options) is read once by the engine, as long as it is the same. It must never
// run with what a host has changed since.

import type {
  AgentRun,
  AssembledContext,
  AgentEngine as Engine,
  RunOptions,
} from '../../index.d.ts'
import { PREPARE, type PreparedRun, type Preparing } from '../engine/prepared.ts'
import type { Conversation } from './messages/conversation.ts'
import { isSameValue, plainOf, UNUSUAL } from './messages/plain-copy.ts'

type Fields = Partial<AssembledContext>
type Own = Pick<RunOptions, 'signal' | 'onRequest'>

/** Fields that were prepared, as a copy, and how runs with them begin. */
interface Prepared {
  of: unknown
  begin: PreparedRun
}

/** The prepared fields of one engine: several agents may use one model. */
const MAX_PREPARED = 8
/** The events that pi's stream is made of, and the one that says that an answer begins again. */
const EVENTS = {
  toolInput: true,
  waiting: true,
  usage: false,
  compaction: false,
  userMessage: false,
  toolProgress: false,
  modelSwitch: false,
  cacheBreak: false,
  approval: false,
} as const

/** By engine, the most recently used first. */
const prepared = new WeakMap<Engine, Prepared[]>()

/** Begins a run. @throws where the engine refuses it. */
function beginRun(engine: Engine, fields: Fields, conversation: Conversation, own: Own): AgentRun {
  try {
    const begin = preparedFor(engine, fields)
    if (begin !== undefined) return begin({ ...conversation, ...own })
  } catch {
    // The engine says what is wrong, with the paths of a whole context.
  }
  const { currentMessage, ...others } = conversation
  return engine.run(currentMessage, { ...completed(fields), ...others, ...own })
}

function preparedFor(engine: Engine, fields: Fields): PreparedRun | undefined {
  const known = prepared.get(engine) ?? []
  // A run is in the folder of the process.
  const all = { ...fields, workspacePath: process.cwd() }
  const at = known.findIndex(({ of }) => isSameValue(all, of))
  if (at === 0) return known[0]?.begin
  const [found = prepare(engine, all)] = at < 0 ? [] : known.splice(at, 1)
  if (found === undefined) return undefined
  prepared.set(engine, [found, ...known].slice(0, MAX_PREPARED))
  return found.begin
}

function prepare(engine: Engine, fields: Fields): Prepared | undefined {
  const of = plainOf(fields)
  if (of === UNUSUAL) return undefined
  const preparing = engine as Engine & Preparing
  return { of, begin: preparing[PREPARE](completed(of as Fields)) }
}

/** With what all runs have. */
function completed(fields: Fields): RunOptions {
  return {
    ...fields,
    tools: (fields.tools ?? []).map((tool) => ({ ...tool, run: neverRun })),
    maxIterations: 1,
    outputRetries: 0,
    events: EVENTS,
    mcp: false,
  }
}

/** The run ends with the answer: its calls are the caller's. */
function neverRun(): never {
  throw new Error('calls of this tool are answered by the caller')
}

export { beginRun }
