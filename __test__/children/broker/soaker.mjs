// A host with a broker that works for long: messages over many sessions, with a restart of engine and broker after each part while
// messages wait. It prints a line of JSON when all have ended: its memory after each part, and what became of the receipts. Needs
// --expose-gc. Arguments: file, the model's address, the number of messages, of sessions, and of messages between two restarts.
import { readFileSync, writeSync } from 'node:fs'
import { AgentEngine, Broker } from '../../../index.js'

const [file, url, ...numbers] = process.argv.slice(2)
const [messages, sessions, part] = numbers.map(Number)
/** As many as a host has open at once. */
const OPEN = 100

/** Memory of the process's own, in MiB; the kernel's count, without pages of files. */
function own() {
  global.gc()
  const [, kib] = /^RssAnon:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8'))
  return Math.round(Number(kib) / 1024)
}

function open() {
  const engine = new AgentEngine({
    providers: { test: { api: 'anthropic-messages', baseUrl: url } },
    authProfiles: [
      { id: 'p1', provider: 'test', type: 'api_key', key: 'sk-test-canary-0123456789' },
    ],
    models: [
      { provider: 'test', id: 'test-model', contextWindow: 200_000, maxOutputTokens: 8_192 },
    ],
    failover: { maxWaitMs: 10 },
    ledger: { path: file, synchronous: 'normal' },
  })
  const broker = new Broker(engine, {
    agents: { main: { model: 'test-model', provider: 'test' } },
    queue: { pulseMs: 50, cap: 10_000 },
  })
  return { engine, broker }
}

const count = 'SELECT status, reason, count(*) AS n FROM queue_items GROUP BY status, reason'
const waits = "SELECT count(*) AS n FROM queue_items WHERE status IN ('pending', 'processing')"

let { engine, broker } = open()
const memory = []
let receipts = 0
for (let at = 0; at < messages; at += part) {
  for (let number = at; number < Math.min(at + part, messages); number++) {
    const session = `agent:main:dm:user${number % sessions}`
    const message = `<${number}> ${'please '.repeat(number % 20)}`
    const { disposition } = await broker.send({ to: { session }, message, eventId: `e${number}` })
    if (disposition !== 'duplicate' && disposition !== 'rejected') receipts++
    // The host does not run ahead of its model without end.
    while (number % OPEN === OPEN - 1) {
      const { rows } = await engine.ledger.query(waits)
      if (rows[0].n < OPEN) break
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
  }
  // What waits is left for the next one.
  await broker.close()
  await engine.close()
  memory.push(own())
  ;({ engine, broker } = open())
}
for (;;) {
  const { rows } = await engine.ledger.query(waits)
  if (rows[0].n === 0) break
  await new Promise((resolve) => setTimeout(resolve, 20))
}
const { rows: ends } = await engine.ledger.query(count)
// The row of a failed try has the message, too, and is in no history.
const asked = []
for (let user = 0; user < Math.min(sessions, messages); user++)
  for (const { role, content } of await engine.ledger.history(`agent:main:dm:user${user}`))
    if (role === 'user') asked.push(content)
const interrupted = await engine.recover()
await broker.close()
await engine.close()
const texts = { n: asked.length, different: new Set(asked).size }
const report = { receipts, memory, ends, asked: texts, interrupted: interrupted.length }
writeSync(1, `${JSON.stringify(report)}\n`)
