// Runs turns of five messages and two tool calls in a loop, two sessions in parallel, and prints the session and the id of
// each turn once its result is persisted. It is killed from outside and must never end by itself.
import { writeSync } from 'node:fs'
import { context, scripted } from '../common.mjs'

const [file, journal] = process.argv.slice(2)
const step = { text: 'x'.repeat(6000), toolCalls: [{ name: 'echo', arguments: { of: 1 } }] }
const { engine } = scripted([step], { ledger: { path: file, journal } }, { repeat: true })
const tools = [{ name: 'echo', run: ({ of }) => ({ of, padding: 'y'.repeat(5000) }) }]

async function loop(sessionLabel) {
  for (;;) {
    // Without the earlier messages, so that the cost of a turn does not depend on the length of the thread.
    const run = engine.run(context({ sessionLabel, tools, history: [], maxIterations: 2 }))
    const { turnId, persisted } = await run.result
    // In one write, so that a kill never leaves a partial line.
    if (persisted) writeSync(1, `${sessionLabel} ${turnId}\n`)
  }
}

await Promise.all([loop('one'), loop('two')])
