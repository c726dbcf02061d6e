// A process with a broker that does one of everything: a message that is queued, taken and delivered, one that enters its turn, a task
// for another agent with its result, answers in the outbox, and a schedule. Whichever process does a step, it is done once: messages
// have ids of their events. Arguments: ledger, the model's address, the time of the schedule.
import { Broker } from '../../../index.js'
import { engineAt, print } from './setup.mjs'

const [file, url, at] = process.argv.slice(2)

const engine = engineAt(file, url)
const send = async (message, mode) => {
  const to = { session: 'main' }
  const { itemId } = await broker.send({ to, message, mode, eventId: message, target: { message } })
  print(`receipt ${itemId} ${message}`)
}
const note = {
  name: 'note',
  description: 'Notes.',
  replay: 'idempotent',
  run: async () => {
    await send('<two>', 'steer')
    return 'noted'
  },
}
const model = { model: 'test-model', provider: 'test' }
const broker = new Broker(engine, {
  agents: {
    main: {
      ...model,
      systemPrompt: 'manager',
      subagents: { allowAgents: ['coder'] },
      toolset: 'it',
    },
    coder: { ...model, systemPrompt: 'worker' },
  },
  defaultAgent: 'main',
  toolsets: { it: [note] },
  queue: { pulseMs: 20, debounceMs: 0 },
})
broker.on('delivery', () => {})
await broker.schedule({ id: 's', at: Number(at), to: { session: 'main' }, message: '<three>' })
await send('<one>', 'queue')
const open = `SELECT (SELECT count(*) FROM queue_items WHERE status IN ('pending', 'processing'))
  + (SELECT count(*) FROM dispatches WHERE status = 'active')
  + (SELECT count(*) FROM deliveries WHERE status NOT IN ('delivered', 'parked'))
  + (SELECT count(*) FROM schedules WHERE next_at IS NOT NULL) AS open`
while ((await engine.ledger.query(open)).rows[0].open > 0) {
  await new Promise((resolve) => setTimeout(resolve, 5))
}
await broker.close()
await engine.close()
print('ended')
