// A process with a broker and an outbox: sends messages with a target to two sessions, delivers what it gets, and prints each step
// until it is killed, or until nothing waits and `end` is set. Arguments: ledger, log, the model's address, name, the number of
// messages, `end` or `stay`.
import { appendFileSync } from 'node:fs'
import { Broker } from '../../../index.js'
import { engineAt, print } from './setup.mjs'

const [file, log, url, name, count, until] = process.argv.slice(2)
/** The log is of all processes: an appended line is whole, and in the order of the writes. */
const note = (line) => appendFileSync(log, `${line}\n`)

const engine = engineAt(file, url)
const broker = new Broker(engine, {
  agents: { main: { model: 'test-model', provider: 'test' } },
  queue: { pulseMs: 20, debounceMs: 0, cap: 1_000 },
})
broker.on('delivery', async ({ turnId, sessionLabel, target, attempt }) => {
  note(`begin ${name} ${turnId} ${sessionLabel}`)
  print('at begin')
  await new Promise(setImmediate)
  // Some fail once.
  if (attempt === 1 && target.number % 5 === 4) {
    note(`end ${name} ${turnId}`)
    throw new Error('no network')
  }
  print('at middle')
  note(`end ${name} ${turnId}`)
  print('at end')
})
broker.on('run', ({ run }) => {
  run.stream.onEvent(({ type }) => {
    if (type !== 'token') print(`at ${type}`)
  })
})
for (let number = 0; number < Number(count); number++) {
  const session = ['one', 'two'][number % 2]
  const target = { number }
  const { itemId } = await broker.send({ to: { session }, message: `<${name}-${number}>`, target })
  print(`receipt ${itemId}`)
}
print('sent')
if (until === 'end') {
  const waits = async () =>
    (await broker.queue('one')).length + (await broker.queue('two')).length > 0 ||
    (await broker.deliveries()).length > 0
  while (await waits()) await new Promise((resolve) => setTimeout(resolve, 10))
  await broker.close()
  await engine.close()
  print('ended')
} else {
  // A process whose messages run elsewhere also reaches each number of lines.
  setInterval(() => print('at rest'), 20)
}
