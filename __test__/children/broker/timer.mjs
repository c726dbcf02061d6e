// A process with a broker that defines schedules, each for one time, and prints each step until it is killed, or until all are done
// and `end` is set. Arguments: ledger, the model's address, the first time, the number of schedules, `end` or `stay`.
import { Broker } from '../../../index.js'
import { engineAt, print } from './setup.mjs'

const [file, url, first, count, until] = process.argv.slice(2)

const engine = engineAt(file, url)
const broker = new Broker(engine, {
  agents: { main: { model: 'test-model', provider: 'test' } },
  queue: { pulseMs: 20 },
})
broker.on('run', () => print('at run'))
broker.on('queue', () => print('at queue'))
for (let number = 0; number < Number(count); number++) {
  const at = Number(first) + number * 25
  await broker.schedule({ id: `s${number}`, at, to: { session: 'main' }, message: `<${number}>` })
  print(`defined ${number}`)
}
if (until === 'end') {
  const waits = async () =>
    (await broker.schedules()).some(({ nextAt }) => nextAt !== null) ||
    (await broker.queue('main')).length > 0
  while (await waits()) await new Promise((resolve) => setTimeout(resolve, 10))
  await broker.close()
  await engine.close()
  print('ended')
} else setInterval(() => print('at rest'), 20)
