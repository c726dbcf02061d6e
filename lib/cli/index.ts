#!/usr/bin/env node
// The program `nexus-agent`. It reads the command line, runs one command, and ends with its exit code. It must never do the work of a
// command itself.

import { AgentEngineError } from '../../index.js'
import { version as packageVersion } from '../../package.json'
import { closeAgents } from '../run-agent/agents.ts'
import { type CommandName, type Line, readLine } from './arguments.ts'
import { chat } from './commands/chat.ts'
import { doctor } from './commands/doctor.ts'
import { search, sessions, usage } from './commands/lists.ts'
import { backup, compact, verify } from './commands/maintenance.ts'
import { recover } from './commands/recover.ts'
import { run } from './commands/run.ts'
import { show } from './commands/show.ts'
import { exportFile, importFiles } from './commands/transfer.ts'
import { tree } from './commands/tree.ts'
import type { Run } from './context.ts'
import { CommandError, EXIT } from './exit-codes.ts'
import { help } from './help.ts'
import { Output } from './output/output.ts'

const RUN: Readonly<Record<CommandName, Run>> = {
  chat,
  run,
  sessions,
  show,
  tree,
  usage,
  search,
  verify,
  recover,
  compact,
  import: importFiles,
  export: exportFile,
  backup,
  doctor,
}

/** Codes of the engine that mean wrong arguments, and those that mean that something does not exist. */
const USAGE = /^(?:invalid_(?!import)|unknown_(?:provider|model|profile))/
const NOT_FOUND = /^unknown_/

/** The runs under way, and the exit code of a program that must end. */
const runs = new Set<{ abort(): void }>()
let endCode: number | undefined

async function main(argv: readonly string[]): Promise<number> {
  const err = new Output(process.stderr, argv.includes('--no-color'), process.env)
  try {
    return await runLine(readLine(argv), err)
  } catch (error) {
    err.line(`${err.style('red', 'nexus-agent:')} ${err.safe(messageOf(error))}`)
    return exitCodeOf(error)
  } finally {
    await closeAgents()
  }
}

async function runLine({ command, help: wantsHelp, version, values, operands }: Line, err: Output) {
  const out = new Output(process.stdout, values['no-color'] === true, process.env)
  if (version) out.line(packageVersion)
  else if (wantsHelp || command === undefined) out.write(help(command))
  else {
    const { stdin, env } = process
    const json = values.json === true
    return RUN[command]({ out, err, stdin, env, values, operands, json, runs })
  }
  return EXIT.ok
}

function messageOf(error: unknown): string {
  if (error instanceof CommandError || error instanceof AgentEngineError) return error.message
  // A defect: its place helps.
  return error instanceof Error ? (error.stack ?? error.message) : String(error)
}

function exitCodeOf(error: unknown): number {
  if (error instanceof CommandError) return error.exitCode
  if (!(error instanceof AgentEngineError)) return EXIT.failed
  if (USAGE.test(error.code)) return EXIT.usage
  return NOT_FOUND.test(error.code) ? EXIT.notFound : EXIT.failed
}

/** Ends the program, after the commit of a run that is under way. */
function end(code: number): void {
  endCode ??= code
  if (runs.size === 0) process.exit(endCode)
  for (const run of runs) run.abort()
}

// Whoever reads the output may leave before its end: `nexus-agent sessions | head -1`.
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    end(error.code === 'EPIPE' ? EXIT.brokenPipe : EXIT.failed)
  })
}
process.on('SIGTERM', () => end(EXIT.terminated))
process.on('SIGHUP', () => end(EXIT.hangUp))

main(process.argv.slice(2)).then((code) => {
  process.exitCode = endCode ?? code
  // A terminal that is still read would keep the process alive.
  process.stdin.unref?.()
})
