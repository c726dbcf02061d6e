// Opens a ledger with the SQLite of Node.js itself, then opens the same file with an engine, and prints the code of the
// error; then the same after that SQLite has closed it. It must never write to the file.
import { DatabaseSync } from 'node:sqlite'
import { scripted } from '../common.mjs'

const [path] = process.argv.slice(2)
const other = new DatabaseSync(path, { readOnly: true })
let code = 'opened'
try {
  scripted([], { ledger: { path } })
} catch (error) {
  code = error.code
}
other.close()
const { engine } = scripted([], { ledger: { path } })
const { rows } = await engine.ledger.query('SELECT count(*) AS turns FROM turns')
console.log(`${code} ${rows[0].turns}`)
await engine.close()
