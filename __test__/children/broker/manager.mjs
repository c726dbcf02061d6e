// A process with a broker whose agent gives tasks to another one: sends messages to one session, prints each receipt and each step of
// all runs, and works the queues until it is killed, or until nothing waits and `end` is set. Arguments: file, the model's address,
// name, the number of messages, `end` or `stay`.
import { Broker } from '../../../index.js'
import { engineAt, print } from './setup.mjs'

const [file, url, name, count, until] = process.argv.slice(2)

const engine = engineAt(file, url)
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
  // The dispatches first: their results are in the queue from their ends on.
  const isOver = async () =>
    (await broker.dispatches('main')).every(({ status }) => status !== 'active') &&
    (await broker.queue('main')).length === 0
  while (!(await isOver())) await new Promise((resolve) => setTimeout(resolve, 20))
  await broker.close()
  await engine.close()
  print('ended')
} else setInterval(() => {}, 1_000)
