// Opens a ledger, deletes from it in one way, and prints what was deleted; it is killed from outside at a chosen operation. Arguments:
// file, the way.
import { writeSync } from 'node:fs'
import { AgentEngine } from '../../../index.js'
import { ledgerAt } from '../ledger-at.mjs'

const [file, way] = process.argv.slice(2)
const engine = new AgentEngine({ ledger: ledgerAt(file) })
const { ledger } = engine
const ways = {
  session: () => ledger.deleteSession('doomed', { turns: true }),
  turns: () => ledger.deleteTurns({ metadata: { doomed: true } }, { followers: true }),
  secure: () => ledger.deleteSession('doomed', { turns: true, secure: true }),
}
const { turns } = await ways[way]()
writeSync(1, `deleted ${turns}\n`)
await engine.close()
