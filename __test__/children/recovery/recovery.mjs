// One turn of a scripted tool loop with effects at a counter over HTTP: run from the beginning, or resumed. Arguments: file,
// the counter's address, `run` or `resume`, the turn to resume, and a JSON of options. Prints each step in a line. It is
// killed from outside at any moment.
import { writeSync } from 'node:fs'
import { context, scripted } from '../common.mjs'

const [file, url, mode, turnId, changes = '{}'] = process.argv.slice(2)
const {
  replies,
  rounds = 2,
  stopAt,
  leaseMs,
  timeoutMs = 60_000,
  history,
  planned,
} = JSON.parse(changes)

/** In one write, so that a kill never leaves a partial line. */
const print = (line) => writeSync(1, `${line}\n`)

const classes = ['pure', 'idempotent', 'reconcilable', 'unsafe']
const round = (text) => ({
  thinking: `think of ${text}`,
  signature: 'c2ln',
  text,
  toolCalls: classes.map((name) => ({ name, arguments: { of: text } })),
})
const script = replies ?? [...['one', 'two'].slice(0, rounds).map(round), 'done']

/** Posts to the counter; it answers when the effect has happened. */
async function count(path) {
  const answer = await fetch(`${url}/${path}`, { method: 'POST' })
  return await answer.text()
}

/** Prints the step; at `stopAt` it then waits to be killed. */
async function at(stop) {
  print(`at ${stop}`)
  if (stop === stopAt) await new Promise(() => setInterval(() => {}, 1000))
}

const tools = classes.map((name) => ({
  name,
  replay: name,
  async run({ of }, { idempotencyKey }) {
    await at(`before ${name} ${of}`)
    await count(`${name}/${idempotencyKey}`)
    await at(`after ${name} ${of}`)
    return `${name} ${of}`
  },
  async reconcile(idempotencyKey, { of }) {
    const happened = (await count(`queried/${name}/${idempotencyKey}`)) === 'yes'
    return happened ? { outcome: 'done', result: `${name} ${of}` } : { outcome: 'not_done' }
  },
}))

// The part of the script that a resumed turn has used already. A planned round is none of it.
const used = Number(process.env.SKIP ?? 0) - (planned ? 1 : 0)
const skip = mode === 'resume' ? Math.max(0, used) : 0
const calls = classes.map((toolName) => ({ toolName, params: { of: 'planned' } }))
const planner = planned ? () => ({ kind: 'tools', calls, reason: 'all of them' }) : undefined
const { engine } = scripted(script.slice(skip), { ledger: { path: file, leaseMs } })
const run =
  mode === 'resume'
    ? await engine.resume(turnId, { tools })
    : engine.run(context({ tools, timeoutMs, history, planner, sessionLabel: turnId ?? 'main' }))
run.stream.onEvent((event) => {
  if (event.type === 'stream_start') print('at stream_start')
  if (event.type === 'stream_end') print(`at stream_end ${event.final}`)
})
const result = await run.result
print(`result ${JSON.stringify(result)}`)
await engine.close()
print('closed')
