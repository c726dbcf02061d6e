// `import` and `export`: sessions from files and to files. It must never overwrite a file.

import { closeSync, openSync, readdirSync, readSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { LedgerFormat, LedgerImport } from '../../../index.d.ts'
import { headerOf, withoutHeader } from '../../run-agent/transcripts.ts'
import { text, wrong } from '../arguments.ts'
import { type Context, type Run, usingLedger } from '../context.ts'
import { CommandError, EXIT } from '../exit-codes.ts'
import { bytes, counted } from '../output/format.ts'

const FORMATS: readonly unknown[] = ['ledger', 'pi', 'myclaw'] satisfies LedgerFormat[]
/** The first line of a file is in this many bytes, or does not tell its format. */
const HEAD = 65_536

const importFiles: Run = (context) => {
  const given = formatOf(context)
  const session = text(context.values, 'session')
  const files = context.operands.flatMap(filesAt)
  if (session !== undefined && files.length !== 1) {
    throw wrong('--session is for the import of one file', 'import')
  }
  return usingLedger(
    context,
    async (ledger) => {
      let code: number = EXIT.ok
      for (const file of files) {
        const format = given ?? detected(file)
        const label = session ?? (format === 'myclaw' ? keyIn(file) : undefined)
        const report = await ledger.import(file, {
          format,
          ...(label !== undefined && { session: label }),
        })
        const whole = format === 'myclaw' ? withoutHeader(file, report) : report
        if (whole.problems.length > 0) code = EXIT.problems
        print(context, file, whole)
      }
      return code
    },
    { create: true },
  )
}

function print({ out, json }: Context, file: string, report: LedgerImport): void {
  if (json) {
    out.json({ file, ...report })
    return
  }
  const { sessions, turns, messages, skippedTurns, problems } = report
  const skipped = skippedTurns === 0 ? '' : `, ${counted(skippedTurns, 'turn')} that existed`
  const what = `${counted(turns, 'turn')}, ${counted(messages, 'message')}${skipped}`
  out.line(`${out.safe(file)}: ${out.safe(sessions.join(', ') || 'no session')} (${what})`)
  for (const { line, message } of problems) {
    out.line(out.style('yellow', `  ${line === null ? '' : `line ${line}: `}${out.safe(message)}`))
  }
}

const exportFile: Run = (context) => {
  const { out, operands, values, json } = context
  const session = text(values, 'session')
  const format = formatOf(context)
  return usingLedger(context, async (ledger) => {
    const report = await ledger.export(operands[0] ?? '', {
      ...(format !== undefined && { format }),
      ...(session !== undefined && { session }),
    })
    if (json) out.json(report)
    else {
      const what = `${counted(report.sessions, 'session')}, ${counted(report.turns, 'turn')}`
      out.line(`${out.safe(report.path)}: ${what}, ${bytes(report.bytes)}`)
      for (const { message } of report.problems) out.line(out.style('yellow', out.safe(message)))
    }
    return report.problems.length === 0 ? EXIT.ok : EXIT.problems
  })
}

function formatOf({ values }: Context): LedgerFormat | undefined {
  const format = text(values, 'format')
  if (format === undefined || FORMATS.includes(format)) return format as LedgerFormat | undefined
  throw wrong(`--format is not one of ${FORMATS.join(', ')}`)
}

/** The file itself, or the JSONL files of a folder. */
function filesAt(path: string): string[] {
  try {
    if (!statSync(path).isDirectory()) return [path]
    return readdirSync(path)
      .filter((name) => name.endsWith('.jsonl'))
      .sort()
      .map((name) => join(path, name))
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw new CommandError(EXIT.notFound, `\`${path}\` cannot be read (${code})`)
  }
}

/** The format of a file, by its first line. */
function detected(file: string): LedgerFormat {
  const line = firstLine(file)
  const header = headerOf(line)
  if (header !== undefined) return header.sessionKey === undefined ? 'pi' : 'myclaw'
  try {
    return typeof JSON.parse(line).role === 'string' ? 'myclaw' : 'ledger'
  } catch {
    return 'ledger'
  }
}

/** The key that a transcript names. */
function keyIn(file: string): string | undefined {
  const key = headerOf(firstLine(file))?.sessionKey
  return typeof key === 'string' ? key : undefined
}

function firstLine(path: string): string {
  const file = openSync(path, 'r')
  try {
    const head = Buffer.alloc(HEAD)
    const length = readSync(file, head, 0, HEAD, 0)
    return head.toString('utf8', 0, length).split('\n', 1)[0] ?? ''
  } finally {
    closeSync(file)
  }
}

export { exportFile, importFiles }
