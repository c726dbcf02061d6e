// Runs turns on one session of a ledger that other processes use too. Arguments: file, name, number of turns, a JSON of
// options. Prints each result's outcome, in the order of the runs. With `tool`, each turn runs a tool that waits for a line
// on standard input; with `atOnce`, all turns are started before the first has ended; with `stepwise`, each turn waits for a line.
import { writeSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { context, scripted } from '../common.mjs'

const [file, name, count, changes = '{}'] = process.argv.slice(2)
const {
  tool = false,
  atOnce = false,
  stepwise = false,
  leaseMs,
  timeoutMs = 60_000,
  parent,
  history,
} = JSON.parse(changes)
const print = (line) => writeSync(1, `${line}\n`)
const script = tool ? [{ toolCalls: [{ name: 'wait', arguments: {} }] }, 'done'] : ['ok']
const { engine } = scripted(script, { ledger: { path: file, leaseMs } }, { repeat: true })
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const tools = [
  {
    name: 'wait',
    async run() {
      print('waiting')
      await lines.next()
      return 'went on'
    },
  },
]
function userTurn(turn) {
  const currentMessage = { role: 'user', content: `${name} ${turn}` }
  const requested = { currentMessage, sessionLabel: 'shared', tools, timeoutMs, history }
  return engine.run(context({ ...requested, parentTurnId: parent }))
}

const runs = Array.from({ length: atOnce ? Number(count) : 0 }, (_, turn) => userTurn(turn))
for (let turn = 0; turn < Number(count); turn++) {
  if (stepwise) {
    print('ready')
    await lines.next()
  }
  const { turnId, persisted, stopReason, error, persistError } = await (
    runs[turn] ?? userTurn(turn)
  ).result
  const codes = { code: error?.detail.code, persistCode: persistError?.code }
  print(`result ${JSON.stringify({ turnId, persisted, stopReason, ...codes })}`)
}
await engine.close()
process.exit(0)
