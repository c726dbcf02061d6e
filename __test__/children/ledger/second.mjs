// An engine has the ledger open; then the SQLite of Node.js itself opens the same file in this process, and closes it again
// or not. Prints as JSON: the results until one is not written, the errors of later calls, and the content of the ledger when
// it is opened again. Arguments: file, what the other SQLite does.

import { DatabaseSync } from 'node:sqlite'
import { setTimeout as pause } from 'node:timers/promises'
import { context, scripted } from '../common.mjs'

const [path, mode] = process.argv.slice(2)
const open = () => scripted(Array(200).fill('ok'), { ledger: { path } }).engine
const code = (promise) =>
  promise.then(
    () => 'done',
    (error) => error.code,
  )
const engine = open()
const acknowledged = []
const turn = async (from) => {
  const { turnId, persisted, persistError } = await from.run(context()).result
  if (persisted) acknowledged.push(turnId)
  return persistError?.code
}
await turn(engine)
// The engine does nothing more for the turn: a second SQLite cuts the shared index as it opens the ledger, and who reads it in that
// moment gets a SIGBUS (docs/rules/faults.md#no-second-sqlite).
await engine.ledger.archive('agent:main:main')
await engine.ledger.query('SELECT 1')
const other = new DatabaseSync(path, { readOnly: mode.includes('read') })
if (!mode.includes('idle')) other.prepare('SELECT count(*) FROM turns').get()
if (mode.includes('write')) other.exec('CREATE TABLE stranger (id)')
if (mode.includes('closed')) other.close()
let found
for (let tries = 0; found === undefined && tries < 100; tries++) {
  found = await turn(engine)
  // The engine checks for it once a second.
  await pause(50)
}
const { ledger } = engine
const later = [await code(ledger.verify()), await code(ledger.query('SELECT 1'))]
if (!mode.includes('closed')) other.close()
later.push(await code(ledger.verify()), (await turn(engine)) ?? 'written')
await engine.close()
const again = open()
const { ok, problems } = await again.ledger.verify()
const { rows } = await again.ledger.query('SELECT id FROM turns')
const there = new Set(rows.map(({ id }) => id))
const lost = acknowledged.filter((id) => !there.has(id)).length
const whole = (await turn(again)) ?? 'written'
await again.close()
console.log(JSON.stringify({ found, later, ok, problems, lost, whole }))
