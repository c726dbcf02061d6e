// Runs turns in many sessions of a ledger, prints `ready`, and then deletes the sessions one after the other, with a line for each; it
// is killed from outside in the middle. Argument: the ledger's file.
import { writeSync } from 'node:fs'
import { context, scripted } from '../common.mjs'

const [path] = process.argv.slice(2)
const SESSIONS = 6
const TURNS = 30
const { engine } = scripted(
  ['x'.repeat(3_000)],
  { ledger: { path, synchronous: 'normal' } },
  { repeat: true },
)
await Promise.all(
  Array.from({ length: SESSIONS }, async (_, session) => {
    for (let n = 0; n < TURNS; n++) {
      const currentMessage = { role: 'user', content: `doomed ${session} ${n}` }
      const run = engine.run(context({ sessionLabel: `s${session}`, history: [], currentMessage }))
      await run.result
    }
  }),
)
writeSync(1, 'ready\n')
for (let session = 0; session < SESSIONS; session++) {
  await engine.ledger.deleteSession(`s${session}`, { turns: true })
  writeSync(1, `deleted ${session}\n`)
}
setInterval(() => {}, 1_000)
