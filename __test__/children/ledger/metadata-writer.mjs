// Runs twenty turns with metadata in a session of its own, and prints how many were persisted. Argument: the ledger's file.
import { context, scripted } from '../common.mjs'

const [path] = process.argv.slice(2)
const { engine } = scripted(['ok'], { ledger: { path } }, { repeat: true })
let persisted = 0
for (let n = 0; n < 20; n++) {
  const run = engine.run(context({ sessionLabel: 'there', metadata: { userId: 'other', n } }))
  if ((await run.result).persisted) persisted++
}
await engine.close()
console.log(persisted)
