// Appends to a session of pi's in a ledger, and prints the id of each entry as soon as its append has returned. It must never end by itself.

import { dirname } from 'node:path'
import { AgentEngine } from '../../../index.js'
import { LedgerSessions } from '../../../pi-session.js'

const [, , path, id] = process.argv
const engine = new AgentEngine({ ledger: { path } })
const options = { cwd: '/work', spoolDir: dirname(path) }
const session = await new LedgerSessions(engine.ledger, options).create({ id })
for (let at = 0; ; at++) {
  const entry = session.appendMessage({ role: 'user', content: `message ${at}`, timestamp: at })
  if (!process.stdout.write(`${entry}\n`)) {
    await new Promise((resolve) => process.stdout.once('drain', resolve))
  }
  // Some are in the ledger when the kill comes, some are not.
  if (at % 7 === 0) await new Promise((resolve) => setImmediate(resolve))
}
