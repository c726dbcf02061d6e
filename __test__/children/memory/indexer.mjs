// A process whose engine remembers: runs turns in one session and prints each step of them and of the embedder, until it is killed.
// Arguments: file, name, the number of turns.
import { writeSync } from 'node:fs'
import { AgentEngine, scriptedProvider } from '../../../index.js'

const [file, name, count] = process.argv.slice(2)
/** In one write, so that a kill never leaves a partial line. */
const print = (line) => writeSync(1, `${line}\n`)

const replies = Array.from({ length: Number(count) }, () => ({ text: 'noted '.repeat(700) }))
const embed = (texts) => {
  print('at embed')
  return texts.map((text) => Float32Array.of(text.length, 1, 2, 3))
}
const engine = new AgentEngine({
  providers: { test: scriptedProvider(replies) },
  models: [{ provider: 'test', id: 'test-model', contextWindow: 1_000_000 }],
  defaults: { provider: 'test', model: 'test-model' },
  ledger: { path: file },
  memory: { embedder: { model: 'lengths', dimensions: 4, batch: 3, embed } },
})
for (let number = 0; number < Number(count); number++) {
  const { turnId, persisted } = await engine.run(`${name} ${number}`, { session: name }).result
  if (persisted) print(`turn ${turnId}`)
  if (number % 3 === 1) await engine.memory.search('noted', { session: name })
  print('at search')
}
print('sent')
setInterval(() => {}, 1_000)
