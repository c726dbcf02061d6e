// Runs two turns with a tool on a ledger whose files fail at some moment, and then reads them. Prints a line each, and exits
// immediately at its end, so that nothing is written after it; it closes the ledger only if a truncation must fail.
// Arguments: file, what fails.
import { writeSync } from 'node:fs'
import { context, scripted } from '../common.mjs'

const [path, kind] = process.argv.slice(2)
const print = (what) => writeSync(1, `${JSON.stringify(what)}\n`)
/** Events that are written before the turn's next commit, on their own: no run waits for that write. */
const slow = (...texts) => ({ steps: texts.flatMap((text) => [{ delayMs: 40 }, { text }]) })
const replies = [
  { text: 'x'.repeat(70_000), toolCalls: [{ name: 'add', arguments: {} }] },
  slow('o', 'ne'),
  { toolCalls: [{ name: 'add', arguments: {} }] },
  slow('t', 'wo'),
]
let runs = 0
const add = {
  name: 'add',
  replay: 'pure',
  run: () => `ran ${++runs}`,
}
let engine
try {
  engine = scripted(replies, { ledger: { path } }).engine
} catch ({ code }) {
  print({ open: code })
}
if (engine) {
  for (const turn of ['first', 'second']) {
    const run = engine.run(context({ tools: [add] }))
    const ends = []
    run.stream.onEvent((event) => {
      if (event.type === 'stream_error' || (event.type === 'stream_end' && event.final))
        ends.push(event)
    })
    const { turnId, stopReason, persisted, persistError, error, messages } = await run.result
    const codes = [persistError?.code, error?.detail.code]
    print({
      turn,
      turnId,
      stopReason,
      persisted,
      codes,
      ends: ends.length,
      answer: messages.at(-1)?.content,
    })
  }
  const checked = await engine.ledger.verify().then(
    ({ ok, problems }) => (ok ? 'ok' : problems.map((problem) => problem.check)),
    ({ code }) => code,
  )
  print({ checked })
  if (kind === 'truncate') await engine.close()
}
process.kill(process.pid, 'SIGKILL')
