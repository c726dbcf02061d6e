// A worker with runs of its own: one that ends and posts its answers, or many until the worker is terminated.
import { parentPort, workerData } from 'node:worker_threads'
import { context, scripted } from '../common.mjs'

const { way, name, file } = workerData
const ledger = file === undefined ? undefined : { path: file, synchronous: 'normal' }
const tools = [{ name: 'echo', run: (params) => params }]

const ways = {
  async ends() {
    const { engine } = scripted(
      [
        { text: 'abc', toolCalls: [{ name: 'echo', arguments: { name } }], chunkSize: 1 },
        `done ${name}`,
      ],
      { ledger },
      { repeat: true },
    )
    const answers = []
    for (let n = 0; n < 10; n++) {
      const run = engine.run(context({ sessionLabel: `${name}-${n}`, tools }))
      let text = ''
      for await (const event of run) if (event.type === 'token') text += event.text
      answers.push([text, (await run.result).stopReason])
    }
    await engine.close()
    parentPort.postMessage(answers)
  },
  /** Every phase in parallel, forever: floods, tools, waits, commits, queries. */
  async goesOn() {
    const { engine } = scripted(
      [
        { text: 'x'.repeat(5_000), chunkSize: 1 },
        { toolCalls: [{ name: 'echo' }, { name: 'echo' }] },
        { delayMs: 5, text: 'y' },
        'short',
      ],
      { ledger },
      { repeat: true },
    )
    const lane = async (n) => {
      for (;;) {
        const run = engine.run(context({ sessionLabel: `${name}-${n}`, tools }))
        if (n % 2 === 0) for await (const _ of run);
        await run.result
        if (n % 3 === 0 && ledger !== undefined)
          await engine.ledger.query('select count(*) from turns')
        // Some are never read, and some are aborted.
        if (n % 4 === 0) engine.run(context({ sessionLabel: `${name}-left`, tools })).abort()
      }
    }
    for (let n = 0; n < 8; n++) lane(n)
    await engine.run(context({ sessionLabel: `${name}-first`, tools })).result
    parentPort.postMessage('running')
  },
}

await ways[way]()
