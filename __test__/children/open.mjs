// Opens a ledger, which brings it up to date, and closes it. Arguments: the file. It is killed from outside.
import { AgentEngine } from '../../index.js'

const engine = new AgentEngine({ ledger: { path: process.argv[2] } })
await engine.ledger.stats()
await engine.close()
