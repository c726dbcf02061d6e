// What a command works with: its options, where it writes, the ledger, and the agent of the config. It must never create a ledger for a
// command that only reads.

import { existsSync, mkdirSync } from 'node:fs'
import { dirname } from 'node:path'
import type { Ledger } from '../../index.d.ts'
import { AgentEngine } from '../../index.js'
import { type Agent, withAgent } from '../run-agent/agents.ts'
import { isOnServer, ledgerOptions } from '../run-agent/config/ledger.ts'
import { readLedgerPath, readSettings, type Settings } from '../run-agent/config/settings.ts'
import { ensureDirectories } from '../run-agent/workspace.ts'
import { text, type Values } from './arguments.ts'
import { CommandError, EXIT } from './exit-codes.ts'
import type { Output } from './output/output.ts'

interface Context {
  readonly out: Output
  readonly err: Output
  readonly stdin: NodeJS.ReadStream
  readonly env: NodeJS.ProcessEnv
  readonly values: Values
  readonly operands: readonly string[]
  /** JSON is to be printed. */
  readonly json: boolean
  /** The runs and compactions under way: they are aborted where the program must end. */
  readonly runs: Set<{ abort(): void }>
}

/** Runs a command, and returns its exit code. */
type Run = (context: Context) => Promise<number>

/** The config with the options of the command line. */
function settingsOf({ values, env }: Context): Settings {
  return readSettings(text(values, 'config'), undefined, env, {
    provider: text(values, 'provider'),
    model: text(values, 'model'),
    baseUrl: text(values, 'base-url'),
    ledger: text(values, 'ledger'),
  })
}

/** Calls `use` with the agent of the config, whose directories exist then. */
function usingAgent(
  context: Context,
  use: (agent: Agent, settings: Settings) => Promise<number>,
): Promise<number> {
  const settings = settingsOf(context)
  ensureDirectories(settings.paths, settings.workspace)
  return withAgent(settings, (agent) => use(agent, settings))
}

function ledgerPath({ values, env }: Context): string {
  return readLedgerPath(text(values, 'config'), env, text(values, 'ledger'))
}

/** Calls `use` with the ledger, which must exist unless it may be made. */
async function usingLedger(
  context: Context,
  use: (ledger: Ledger, engine: AgentEngine) => Promise<number>,
  { create = false } = {},
): Promise<number> {
  const path = ledgerPath(context)
  if (isOnServer(path)) return usingEngine(path, use)
  if (create) mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  else if (!existsSync(path)) {
    const what = 'run a message first, or name another file with --ledger'
    throw new CommandError(EXIT.notFound, `there is no ledger at \`${path}\`; ${what}`)
  }
  return usingEngine(path, use)
}

async function usingEngine(
  path: string,
  use: (ledger: Ledger, engine: AgentEngine) => Promise<number>,
): Promise<number> {
  const engine = new AgentEngine({ ledger: ledgerOptions(path) })
  try {
    return await use(engine.ledger, engine)
  } finally {
    await engine.close()
  }
}

/** At most `most` items of a list that comes in pages. */
async function pages<Item, After>(
  read: (after: After | undefined) => Promise<{ items: Item[]; next: After | null }>,
  most: number,
): Promise<Item[]> {
  const items: Item[] = []
  let after: After | undefined
  do {
    const page = await read(after)
    items.push(...page.items)
    after = page.next ?? undefined
  } while (after !== undefined && items.length < most)
  return items.slice(0, most)
}

export type { Context, Run }
export { ledgerPath, pages, settingsOf, usingAgent, usingLedger }
