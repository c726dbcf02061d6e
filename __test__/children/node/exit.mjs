// The end of a process with an engine; the first argument chooses the case. No case closes the engine.
import { writeSync } from 'node:fs'
import { context, scripted } from '../common.mjs'

const [way, file] = process.argv.slice(2)
const ledger = file === undefined ? undefined : { path: file }
const print = (text) => writeSync(1, `${text}\n`)
const many = (engine, count, changes) =>
  Array.from({ length: count }, (_, n) =>
    engine.run(context({ sessionLabel: `s${n}`, ...changes })),
  )

const ways = {
  idle() {
    scripted(['x'], { ledger })
    print('made')
  },
  async finished() {
    const { engine } = scripted(['x'], { ledger })
    const { stopReason } = await engine.run(context()).result
    print(stopReason)
  },
  async left() {
    const { engine } = scripted([{ steps: [{ text: 'a' }, { gate: 'never' }] }], { ledger })
    for await (const event of engine.run(context())) if (event.type === 'token') break
    print('left')
  },
  async queried() {
    const { engine } = scripted(['x'], { ledger })
    await engine.run(context()).result
    const { rows } = await engine.ledger.query('select count(*) as n from turns')
    print(rows[0].n)
  },
  async closed() {
    const { engine } = scripted(['x'], { ledger })
    await engine.run(context()).result
    await engine.close()
    print('closed')
  },
  // Nothing is awaited: the process lives until the run has committed, and no longer.
  unawaited() {
    const { engine } = scripted([{ delayMs: 200, text: 'x' }, 'done'], { ledger })
    engine.run(context({ runId: 'unawaited' }))
  },
  unawaitedTool() {
    const { engine } = scripted([{ toolCalls: [{ name: 'wait' }] }, 'done'], { ledger })
    // Its timer is the only waiting object of JavaScript, and is unref'd: the run holds the process.
    const run = () => new Promise((resolve) => setTimeout(resolve, 100, 'ok').unref())
    engine.run(context({ runId: 'unawaited', tools: [{ name: 'wait', run }] }))
  },
  unawaitedClose() {
    const { engine } = scripted([{ delayMs: 100, text: 'x' }], { ledger })
    engine.run(context({ runId: 'unawaited' }))
    engine.close()
  },
  async exit() {
    const { engine } = scripted(
      [{ text: 'x'.repeat(5_000_000), chunkSize: 1 }],
      { ledger },
      { repeat: true },
    )
    const runs = many(engine, 20)
    await Promise.all(runs.map((run) => run.next()))
    await runs[0].next()
    process.exit(7)
  },
  async exitInTool() {
    const { engine } = scripted([{ toolCalls: [{ name: 'leave' }] }], { ledger }, { repeat: true })
    many(engine, 20, { tools: [{ name: 'leave', run: () => process.exit(7) }] })
    await new Promise(() => {})
  },
  exitInCallback() {
    const { engine } = scripted([{ text: 'abc', chunkSize: 1 }], { ledger })
    engine.run(context(), { onPartialReply: () => process.exit(7) })
  },
  exitInCommit() {
    const { engine } = scripted(['x'], { ledger }, { repeat: true })
    const runs = many(engine, 50)
    runs[0].result.then(() => process.exit(7))
  },
  exitAtOnce() {
    const { engine } = scripted(['x'], { ledger }, { repeat: true })
    many(engine, 20)
    process.exit(7)
  },
  async uncaught() {
    const { engine } = scripted([{ gate: 'never' }], { ledger }, { repeat: true })
    many(engine, 20)
    setImmediate(() => {
      throw new Error('the host fails')
    })
  },
}

await ways[way]()
