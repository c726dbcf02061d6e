// `verify`, `backup` and `compact`: care of a ledger. It must never change a ledger that is only checked.

import { text } from '../arguments.ts'
import { type Run, usingAgent, usingLedger } from '../context.ts'
import { EXIT } from '../exit-codes.ts'
import { bytes, count, counted, duration } from '../output/format.ts'

const verify: Run = (context) =>
  usingLedger(context, async (ledger) => {
    const { out, json } = context
    const report = await ledger.verify()
    if (json) out.json(report)
    else {
      const { ok, problems, truncated, checked, durationMs } = report
      for (const { check, subject, message } of problems) {
        out.line(`${out.style('red', check)} ${out.safe(subject ?? '-')}: ${out.safe(message)}`)
      }
      if (truncated) out.line('… and more problems')
      const what = `${counted(checked.turns, 'turn')}, ${counted(checked.messages, 'message')}`
      const found = ok ? out.style('green', 'sound') : out.style('red', 'damaged')
      out.line(`${found}: ${what} checked in ${duration(durationMs)}`)
    }
    return report.ok ? EXIT.ok : EXIT.problems
  })

const backup: Run = (context) =>
  usingLedger(context, async (ledger) => {
    const { out, operands, json } = context
    const done = await ledger.backup(operands[0] ?? '')
    if (json) out.json(done)
    else out.line(`${out.safe(done.path)}: ${bytes(done.bytes)}`)
    return EXIT.ok
  })

const compact: Run = (context) =>
  usingAgent(context, async ({ engine }, settings) => {
    const { out, values, operands, json } = context
    const [label = ''] = operands
    const instructions = text(values, 'instructions')
    const controller = new AbortController()
    context.runs.add(controller)
    const done = await engine
      .compact(label, {
        provider: settings.provider,
        model: settings.model,
        signal: controller.signal,
        ...(instructions !== undefined && { instructions }),
      })
      .finally(() => context.runs.delete(controller))
    if (json) out.json(done)
    else if (done === null) out.line('there is nothing to summarise')
    else {
      const { turnsSummarized, tokensBefore, tokensAfter } = done
      const change = `${count(tokensBefore)} -> ${count(tokensAfter)} tokens`
      out.line(`${counted(turnsSummarized, 'turn')} summarised: ${change}`)
    }
    return EXIT.ok
  })

export { backup, compact, verify }
