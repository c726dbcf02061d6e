// Copies a ledger and is killed after so many reports of progress. Arguments: the options of both ledgers as JSON, and the number.
import { AgentEngine } from '../../../index.js'

const [from, to, progress] = process.argv.slice(2)
const engine = new AgentEngine({ ledger: JSON.parse(from) })
let reports = 0
await engine.ledger.copyTo(JSON.parse(to), {
  cutOver: true,
  onProgress() {
    reports += 1
    if (reports === Number(progress)) process.kill(process.pid, 'SIGKILL')
  },
})
