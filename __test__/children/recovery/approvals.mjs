// One run whose only call waits for an approval, with its effect at a counter over HTTP: run from the beginning, or resumed; or the process
// that decides. Arguments: file, the counter's address, the mode, its subject, the tool's replay class. Prints each step in a line. It is
// killed from outside at any moment.
import { writeSync } from 'node:fs'
import { AgentEngine } from '../../../index.js'
import { context, scripted } from '../common.mjs'

const [file, url, mode, subject, replay = 'idempotent'] = process.argv.slice(2)

/** In one write, so that a kill never leaves a partial line. */
const print = (line) => writeSync(1, `${line}\n`)

/** Posts to the counter; it answers when the effect has happened. */
async function count(path) {
  const answer = await fetch(`${url}/${path}`, { method: 'POST' })
  return await answer.text()
}

const pay = {
  name: 'pay',
  permission: 'ask',
  replay,
  async run(_params, { idempotencyKey }) {
    print('at before')
    await count(`${replay}/${idempotencyKey}`)
    print('at after')
    return 'paid'
  },
  async reconcile(idempotencyKey) {
    const happened = (await count(`queried/${replay}/${idempotencyKey}`)) === 'yes'
    return happened ? { outcome: 'done', result: 'paid' } : { outcome: 'not_done' }
  },
}

if (mode === 'approve' || mode === 'deny') {
  const engine = new AgentEngine({ ledger: { path: file } })
  const decided =
    mode === 'approve'
      ? engine.approve(subject, { by: 'child' })
      : engine.deny(subject, { reason: 'no', by: 'child' })
  print(`decided ${(await decided).status}`)
  await engine.close()
} else {
  const script = [{ toolCalls: [{ name: 'pay', arguments: { n: 1 } }] }, 'done']
  const skip = Number(process.env.SKIP ?? 0)
  const { engine } = scripted(script.slice(skip), { ledger: { path: file } })
  const tools = [pay]
  const run =
    mode === 'resume'
      ? await engine.resume(subject, { tools })
      : engine.run(context({ tools, runId: 'r1', sessionLabel: 'main' }))
  run.stream.onEvent((event) => {
    if (event.type === 'approval') print(`at ${event.phase}`)
  })
  const result = await run.result
  print(`result ${JSON.stringify(result)}`)
  await engine.close()
}
print('closed')
