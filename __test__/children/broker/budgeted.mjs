// A process with a broker whose agent has a budget, and whose engine has two: its one message is under way until it is killed.
// Arguments: file, the model's address.
import { Broker } from '../../../index.js'
import { engineAt } from './setup.mjs'

const [file, url] = process.argv.slice(2)
const engine = engineAt(file, url, {
  budgets: [
    { per: 'run', maxTokens: 1_000_000 },
    { per: 'tree', maxTokens: 1_000_000 },
  ],
})
const broker = new Broker(engine, {
  agents: { main: { model: 'test-model', provider: 'test', budgets: { maxTokens: 1_000_000 } } },
})
await broker.send({ to: { session: 'main' }, message: 'Hi' })
