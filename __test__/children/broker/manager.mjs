// A process with a broker whose agent gives tasks to another one: sends messages to one session, prints each receipt and each step of
// all runs, and works the queues until it is killed, or until nothing waits and `end` is set. Arguments: file, the model's address,
// name, the number of messages, `end` or `stay`.
import { writeSync } from 'node:fs'
import { AgentEngine, Broker } from '../../../index.js'

const [file, url, name, count, until] = process.argv.slice(2)
/** In one write, so that a kill never leaves a partial line. */
const print = (line) => writeSync(1, `${line}\n`)

const engine = new AgentEngine({
  providers: { test: { api: 'anthropic-messages', baseUrl: url } },
  authProfiles: [{ id: 'p1', provider: 'test', type: 'api_key', key: 'sk-test-canary-0123456789' }],
  models: [{ provider: 'test', id: 'test-model', contextWindow: 200_000, maxOutputTokens: 8_192 }],
  ledger: { path: file },
})
const model = { model: 'test-model', provider: 'test' }
const broker = new Broker(engine, {
  agents: {
    main: { ...model, systemPrompt: 'manager', subagents: { allowAgents: ['coder'] } },
    coder: { ...model, systemPrompt: 'worker' },
  },
  defaultAgent: 'main',
  queue: { pulseMs: 20, cap: 1_000 },
})
broker.on('run', ({ run }) => {
  run.stream.onEvent(({ type }) => {
    if (type !== 'token') print(`at ${type}`)
  })
})
for (let number = 0; number < Number(count); number++) {
  const message = `<${name}-${number}>`
  const { itemId } = await broker.send({ to: { session: 'main' }, message })
  print(`receipt ${itemId} ${message}`)
}
print('sent')
if (until === 'end') {
  const open = `SELECT (SELECT count(*) FROM queue_items WHERE status IN ('pending', 'processing'))
    + (SELECT count(*) FROM dispatches WHERE status = 'active') AS open`
  const isOver = async () => (await engine.ledger.query(open)).rows[0].open === 0
  while (!(await isOver())) await new Promise((resolve) => setTimeout(resolve, 20))
  await broker.close()
  await engine.close()
  print('ended')
} else setInterval(() => {}, 1_000)
