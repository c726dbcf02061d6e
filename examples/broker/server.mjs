// A host of a broker: this file chooses the model and the port. It must stay small enough to be read as a recipe.
//
//   ANTHROPIC_API_KEY=… node examples/broker/server.mjs claude-haiku-4-5
//   node examples/broker/server.mjs          without a key a script answers
//
//   curl -H 'content-type: application/json' -d '{"id":"1","channel":"shop","from":"ann","text":"Where is my order?"}' \
//     http://127.0.0.1:8080/messages
//   curl -N 'http://127.0.0.1:8080/events?session=agent:support:shop:group:ann'

import { once } from 'node:events'
import { AgentEngine, scriptedProvider } from '../../index.js'
import { brokerHost } from './host.mjs'

const isReal = Boolean(process.env.ANTHROPIC_API_KEY)
const engine = new AgentEngine({
  ledger: { path: 'broker.db' },
  ...(isReal
    ? {}
    : { providers: { demo: scriptedProvider([{ text: 'Hello!' }], { repeat: true }) } }),
})
const host = brokerHost(engine, {
  model: {
    provider: isReal ? 'anthropic' : 'demo',
    model: process.argv[2] ?? (isReal ? 'claude-haiku-4-5' : 'scripted'),
  },
  workspace: process.cwd(),
})
host.server.listen(Number(process.env.PORT ?? 8080), '127.0.0.1')
await once(host.server, 'listening')
console.log(`http://127.0.0.1:${host.server.address().port}`)

process.once('SIGINT', async () => {
  await host.close()
  await engine.close()
})
