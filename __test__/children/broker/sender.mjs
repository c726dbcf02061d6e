// A process with a broker: sends messages to one session, prints each receipt and each step of its runs, and works the queue
// until it is killed, or until nothing waits and `end` is set. Arguments: file, the model's address, name, the number of
// messages, `end` or `stay`.
import { Broker } from '../../../index.js'
import { engineAt, print } from './setup.mjs'

const [file, url, name, count, until] = process.argv.slice(2)

const engine = engineAt(file, url)
const note = {
  name: 'note',
  description: 'Notes.',
  run: () => {
    print('at tool')
    return 'noted'
  },
}
const broker = new Broker(engine, {
  agents: { main: { model: 'test-model', provider: 'test', toolset: 'house' } },
  toolsets: { house: [note] },
  queue: { pulseMs: 20, debounceMs: 0, cap: 1_000 },
})
broker.on('run', ({ run }) => {
  run.stream.onEvent(({ type }) => {
    if (type !== 'token') print(`at ${type}`)
  })
})
const modes = ['queue', 'collect', 'steer', 'interrupt', 'steer-backlog']
for (let number = 0; number < Number(count); number++) {
  const message = `<${name}-${number}>`
  const mode = modes[number % modes.length]
  const { itemId } = await broker.send({ to: { session: 'main' }, message, mode })
  print(`receipt ${itemId} ${message}`)
}
print('sent')
if (until === 'end') {
  const isEmpty = async () => (await broker.queue('main')).length === 0
  while (!(await isEmpty())) await new Promise((resolve) => setTimeout(resolve, 10))
  await broker.close()
  await engine.close()
  print('ended')
} else setInterval(() => {}, 1_000)
