// The exit codes of the command line, which the guide documents. It must never hold logic.

const EXIT = {
  ok: 0,
  /** A run or a command failed. */
  failed: 1,
  /** Wrong arguments, or a wrong config. */
  usage: 2,
  /** A session, a turn or a file that does not exist. */
  notFound: 3,
  /** `verify`, `import` and `doctor` found something wrong. */
  problems: 4,
  /** Aborted by Ctrl-C. */
  interrupted: 130,
  /** The terminal has gone. */
  hangUp: 129,
  /** The reader of the output has gone. */
  brokenPipe: 141,
  /** Ended by SIGTERM. */
  terminated: 143,
} as const

/** Why a command ends early: what is written to the standard error, and the exit code. */
class CommandError extends Error {
  readonly exitCode: number

  constructor(exitCode: number, message: string) {
    super(message)
    this.exitCode = exitCode
  }
}

export { CommandError, EXIT }
