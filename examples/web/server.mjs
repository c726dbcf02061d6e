// A chat in the browser: this file chooses the model and the port. It must stay small enough to be read as a recipe.
//
//   ANTHROPIC_API_KEY=… node examples/web/server.mjs claude-haiku-4-5
//   node examples/web/server.mjs          without a key a script answers
//
// Then open http://127.0.0.1:8080 (or PORT).

import { once } from 'node:events'
import { AgentEngine, scriptedProvider } from '../../index.js'
import { chatServer } from './chat-server.mjs'

const isReal = Boolean(process.env.ANTHROPIC_API_KEY)
const call = { name: 'thermometer', arguments: { where: 'outside' } }
const script = scriptedProvider(
  [
    { steps: [{ text: 'Let me look. ' }, { delayMs: 800 }, { toolCall: call }] },
    {
      steps: ['It ', 'is ', 'eleven ', 'degrees.'].flatMap((text) => [{ delayMs: 250 }, { text }]),
    },
  ],
  { repeat: true },
)

const engine = new AgentEngine({
  ledger: { path: 'web-chat.db' },
  ...(isReal ? {} : { providers: { demo: script } }),
})

const thermometer = {
  name: 'thermometer',
  description: 'The temperature in degrees Celsius',
  parameters: { type: 'object', properties: { where: { type: 'string' } }, required: ['where'] },
  run: () => ({ celsius: 11 }),
}

const server = chatServer(engine, {
  provider: isReal ? 'anthropic' : 'demo',
  model: process.argv[2] ?? (isReal ? 'claude-haiku-4-5' : 'scripted'),
  tools: [thermometer],
})
server.listen(Number(process.env.PORT ?? 8080), '127.0.0.1')
await once(server, 'listening')
console.log(`http://127.0.0.1:${server.address().port}`)

process.once('SIGINT', async () => {
  server.close()
  server.closeAllConnections()
  await engine.close()
})
