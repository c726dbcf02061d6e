// A process that runs turns, follows them or watches a session, and prints the events, a line of JSON each. Arguments: file,
// the task, and a JSON of options. A line `open NAME` on standard input opens a gate of its script, `go` starts it. It is
// killed from outside at any moment.
import { writeSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { context, scripted } from '../common.mjs'

const [file, mode, changes = '{}'] = process.argv.slice(2)
const { replies = ['ok'], runId, label = 'main', afterSeq, events } = JSON.parse(changes)

/** In one write, so that a kill never leaves a partial line. */
const print = (value) => writeSync(1, `${JSON.stringify(value)}\n`)

const { engine, provider } = scripted(replies, { ledger: { path: file, events } }, { repeat: true })
const tools = [{ name: 'echo', run: ({ of }) => `echo ${of}` }]

let go
const went = new Promise((resolve) => {
  go = resolve
})
if (mode !== 'attach' && mode !== 'crash') {
  createInterface({ input: process.stdin }).on('line', (line) => {
    const [word, name] = line.split(' ')
    if (word === 'open') provider.open(name)
    else go()
  })
}

if (mode === 'run') {
  const run = engine.run(context({ sessionLabel: label, tools, ...(runId ? { runId } : {}) }))
  for await (const event of run) print(event)
  const { stopReason, messages, undeliveredSteering } = await run.result
  const users = messages.filter(({ role }) => role === 'user').map(({ content }) => content)
  print({ stopReason, users, undeliveredSteering })
} else if (mode === 'attach') {
  print('attaching')
  for await (const event of engine.attach(runId, { afterSeq })) print(event)
  print('over')
} else if (mode === 'watch') {
  const watch = engine.ledger.watch(label)
  print('watching')
  let left = 2
  // A watch alone does not hold the process; standard input does until here.
  for await (const { runId, event } of watch) {
    print({ runId, event })
    if (event.final && --left === 0) break
  }
} else if (mode === 'idle') {
  // Only a watch: the process ends by itself.
  engine.ledger.watch(label).next()
  process.stdin.destroy()
  print('watching')
} else if (mode === 'crash') {
  for (let turn = 0; ; turn++) {
    const run = engine.run(context({ sessionLabel: label, tools, runId: `${runId}-${turn}` }))
    for await (const event of run) print([`${runId}-${turn}`, event])
    const { persisted, persistError, error } = await run.result
    if (!persisted) throw new Error(`not persisted: ${JSON.stringify(persistError ?? error)}`)
  }
}
if (mode !== 'idle') {
  if (mode === 'wait') await went
  await engine.close()
  process.exit(0)
}
