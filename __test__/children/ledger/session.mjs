// Runs turns on the session `shared` of a ledger, beside another such process, and prints the id of every persisted turn.
// Arguments: file, name, number of turns. It must never hide another failure than a moved head.
import { context, scripted } from '../common.mjs'

const [file, name, count] = process.argv.slice(2)
const options = { ledger: { path: file, synchronous: 'normal' } }
const { engine } = scripted([{ text: 'ok' }], options, { repeat: true })
for (let turn = 0; turn < Number(count); turn++) {
  const currentMessage = { role: 'user', content: `${name} ${turn}` }
  const result = await engine.run(context({ currentMessage, sessionLabel: 'shared' })).result
  if (result.persisted) console.log(result.turnId)
  else if (result.persistError.code !== 'stale_head') throw new Error(result.persistError.message)
}
await engine.close()
