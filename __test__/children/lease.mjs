// Runs turns on one session of a ledger that other processes use too. Arguments: file, name, number of turns, a JSON of what
// differs. Prints each result's outcome. With `tool`, each turn runs a tool that waits for a line on standard input.
import { writeSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { context, scripted } from './common.mjs'

const [file, name, count, changes = '{}'] = process.argv.slice(2)
const { tool = false, leaseMs, timeoutMs = 60_000, parent } = JSON.parse(changes)
const say = (line) => writeSync(1, `${line}\n`)
const script = tool ? [{ toolCalls: [{ name: 'wait', arguments: {} }] }, 'done'] : ['ok']
const { engine } = scripted(script, { ledger: { path: file, leaseMs } }, { repeat: true })
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const tools = [
  {
    name: 'wait',
    async run() {
      say('waiting')
      await lines.next()
      return 'went on'
    },
  },
]
for (let turn = 0; turn < Number(count); turn++) {
  const currentMessage = { role: 'user', content: `${name} ${turn}` }
  const asked = { currentMessage, sessionLabel: 'shared', tools, timeoutMs, parentTurnId: parent }
  const { turnId, persisted, stopReason, error, persistError } = await engine.run(context(asked))
    .result
  say(
    `result ${JSON.stringify({ turnId, persisted, stopReason, code: error?.detail.code, persistCode: persistError?.code })}`,
  )
}
await engine.close()
process.exit(0)
