// A process that submits runs with given ids, one for each line on standard input, and prints what came of each. Arguments: file, the
// number of runs, `onDuplicateRun`.
import { writeSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { context, scripted } from '../common.mjs'

const [file, rounds, onDuplicateRun] = process.argv.slice(2)
const print = (value) => writeSync(1, `${value}\n`)

const replies = [{ text: 'one two', chunkSize: 4 }]
const { engine } = scripted(replies, { ledger: { path: file } }, { repeat: true })
await engine.ledger.stats()
print('ready')
let round = 0
for await (const _ of createInterface({ input: process.stdin })) {
  const run = engine.run(context({ runId: `round-${round}`, onDuplicateRun }))
  const seqs = []
  let last
  try {
    for await (const { type, seq } of run) {
      seqs.push(seq)
      last = type
    }
    const { turnId, text } = await run.result
    const gapless = seqs.every((seq, index) => seq === index + 1)
    print(JSON.stringify({ turnId, text, last, gapless }))
  } catch ({ code }) {
    print(JSON.stringify({ code }))
  }
  if (++round === Number(rounds)) break
}
await engine.close()
process.stdin.destroy()
