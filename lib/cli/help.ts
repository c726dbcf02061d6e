// The help of the command line. It must never describe what the table of commands does not have.

import {
  COMMANDS,
  COMMON,
  type CommandName,
  type Option,
  type Options,
  optionsOf,
} from './arguments.ts'

/** The help of a command, or of all. */
function help(command: CommandName | undefined): string {
  return command === undefined ? overview() : detail(command)
}

function overview(): string {
  const rows = Object.entries(COMMANDS).map(([name, { operands, help }]) => [
    `${name} ${operands}`.trim(),
    help,
  ])
  return [
    'Runs agents, and looks after their ledger.',
    '',
    'nexus-agent <command> [options]',
    '',
    ...aligned(rows),
    '',
    'Options of every command:',
    ...aligned(rowsOf(COMMON)),
    '',
    'Exit codes: 0 done, 1 failed, 2 wrong arguments or config, 3 not found, 4 problems found, 130 aborted by Ctrl-C.',
    '',
  ].join('\n')
}

function detail(command: CommandName): string {
  const { operands, help } = COMMANDS[command]
  return [
    `${help[0]?.toUpperCase()}${help.slice(1)}.`,
    '',
    `nexus-agent ${`${command} ${operands}`.trim()} [options]`,
    '',
    ...aligned(rowsOf(optionsOf(command))),
    '',
  ].join('\n')
}

function rowsOf(options: Options): string[][] {
  return Object.entries(options).map(([name, option]) => [written(name, option), option.help])
}

function written(name: string, { short, value }: Option): string {
  const before = short === undefined ? '    ' : `-${short}, `
  return `${before}--${name}${value === undefined ? '' : ` <${value}>`}`
}

function aligned(rows: readonly (readonly string[])[]): string[] {
  const width = Math.max(...rows.map(([left = '']) => left.length))
  return rows.map(([left = '', right]) => `  ${left.padEnd(width)}  ${right}`)
}

export { help }
