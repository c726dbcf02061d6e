// One process of the cluster: an engine and a broker on the shared ledger, and two routes of HTTP. It must never know about the others:
// all that they share is in the server.
//
//   node examples/cluster/host.mjs <url of the server> <schema> <where answers go> <lease in ms>

import { once } from 'node:events'
import { createServer } from 'node:http'
import { json } from 'node:stream/consumers'
import { AgentEngine, Broker, scriptedProvider } from '../../index.js'

const [url, schema, outlet, leaseMs] = process.argv.slice(2)
const isReal = Boolean(process.env.ANTHROPIC_API_KEY)
const answer = { delayMs: 100, text: 'Hello!' }
const engine = new AgentEngine({
  ledger: { url, schema, pool: 8, leaseMs: Number(leaseMs) },
  ...(isReal ? {} : { providers: { demo: scriptedProvider([answer], { repeat: true }) } }),
})
const broker = new Broker(engine, {
  agents: {
    main: {
      identity: 'You are Atlas. Answer in one sentence.',
      model: isReal ? 'anthropic/claude-haiku-4-5' : 'demo/scripted',
    },
  },
})
broker.on('error', (error) => console.error(error))

// An answer is handed out by one process at a time, and again when that has failed or died: the turn's id tells a repetition.
broker.on('delivery', async ({ turnId, sessionLabel, target, status, text }) => {
  const body = JSON.stringify({ turnId, sessionLabel, target, status, text, by: process.pid })
  const { ok } = await fetch(outlet, { method: 'POST', body })
  if (!ok) throw new Error('the answer was not taken')
})

const server = createServer(async (request, response) => {
  try {
    const { id, session, text } = await json(request)
    const receipt = await broker.send({
      to: { session },
      message: text,
      mode: 'queue',
      eventId: id,
      route: { channel: 'cluster' },
      target: { id },
    })
    response.writeHead(202).end(JSON.stringify(receipt))
  } catch (error) {
    response.writeHead(503).end(JSON.stringify({ code: error.code, message: error.message }))
  }
})
server.listen(0, '127.0.0.1')
await once(server, 'listening')
console.log(`ready ${server.address().port}`)

// The end of the program that has started it is its own.
process.stdin.resume().once('end', async () => {
  server.closeAllConnections()
  server.close()
  await broker.close()
  await engine.close()
})
