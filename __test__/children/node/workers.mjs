// Workers with engines, in a process whose main thread may never load the addon; the first argument chooses the case.
import { once } from 'node:events'
import { writeSync } from 'node:fs'
import { Worker } from 'node:worker_threads'

const [way, file, count] = process.argv.slice(2)
const script = new URL('./worker.mjs', import.meta.url)
const print = (value) =>
  writeSync(1, `${typeof value === 'string' ? value : JSON.stringify(value)}\n`)
const start = (kind, name) =>
  new Worker(script, { workerData: { way: kind, name, file: file || undefined } })

async function three() {
  const workers = ['a', 'b', 'c'].map((name) => start('ends', name))
  return Promise.all(
    workers.map(async (worker) => {
      const [[answers], [code]] = await Promise.all([once(worker, 'message'), once(worker, 'exit')])
      return [answers, code]
    }),
  )
}

/** Terminates three workers at a time in the middle of their runs. */
async function terminate(total) {
  for (let done = 0; done < total; done += 3) {
    await Promise.all(
      ['a', 'b', 'c'].map(async (name) => {
        const worker = start('goesOn', name)
        await once(worker, 'message')
        await worker.terminate()
      }),
    )
  }
}

const ways = {
  async three() {
    print(await three())
  },
  /** Only workers load the addon: the end of the last one would unload it. */
  async reload() {
    for (let round = 0; round < 3; round++) {
      const answers = await three()
      print(answers.every(([, code]) => code === 0))
    }
  },
  async terminate() {
    await terminate(Number(count))
    print('survived')
  },
  async terminateBesideMain() {
    const { context, scripted } = await import('../common.mjs')
    const { engine } = scripted([{ text: 'x'.repeat(2_000), chunkSize: 1 }], {}, { repeat: true })
    let ended = false
    const main = (async () => {
      let runs = 0
      while (!ended) {
        for await (const _ of engine.run(context()));
        runs++
      }
      return runs > 0
    })()
    await terminate(Number(count))
    ended = true
    print(await main)
  },
  async exit() {
    const workers = ['a', 'b', 'c'].map((name) => start('goesOn', name))
    await Promise.all(workers.map((worker) => once(worker, 'message')))
    process.exit(7)
  },
}

await ways[way]()
