// A chat in the terminal with a memory: a session in a ledger, steering while the model works, Ctrl-C to stop a turn.
// It must stay small enough to be read as a recipe: its only option is the model.
//
//   ANTHROPIC_API_KEY=… node examples/chat.mjs claude-haiku-4-5
//   node examples/chat.mjs          without a key a script answers

import { randomUUID } from 'node:crypto'
import { createInterface } from 'node:readline'
import { AgentEngine, scriptedProvider } from '../index.js'

const isReal = Boolean(process.env.ANTHROPIC_API_KEY)
const echo = { text: 'I am a script, and I say this to everything.', chunkSize: 8 }
const engine = new AgentEngine({
  ledger: { path: 'chat.db' },
  ...(isReal ? {} : { providers: { demo: scriptedProvider([echo], { repeat: true }) } }),
})

let run
const waiting = []
const lines = createInterface({ input: process.stdin, output: process.stdout, prompt: '> ' })

/** Runs one turn and writes the answer as it arrives. */
async function turn(content) {
  run = engine.run({
    systemPrompt: 'You are a helpful companion in a terminal. Be brief.',
    currentMessage: { role: 'user', content },
    tools: [],
    provider: isReal ? 'anthropic' : 'demo',
    model: process.argv[2] ?? (isReal ? 'claude-haiku-4-5' : 'scripted'),
    timeoutMs: 300_000,
    runId: randomUUID(),
    sessionLabel: 'agent:chat:main',
    role: 'unified',
    toolsetName: 'none',
    permissionsGranted: [],
    workspacePath: process.cwd(),
  })
  for await (const event of run) {
    if (event.type === 'token') process.stdout.write(event.text)
    if (event.type === 'stream_error') process.stdout.write(`[${event.error}]`)
  }
  const { stopReason, undeliveredSteering } = await run.result
  run = undefined
  process.stdout.write(stopReason === 'aborted' ? ' [stopped]\n' : '\n')
  // Text that was typed too late for this turn is the next turn's question.
  waiting.unshift(...undeliveredSteering)
}

async function work() {
  while (waiting.length > 0) await turn(waiting.shift())
  lines.prompt()
}

let working = Promise.resolve()
lines.on('line', (line) => {
  if (line.trim() === '') return lines.prompt()
  if (run?.steer(line)) return
  waiting.push(line)
  working = working.then(work)
})
lines.on('SIGINT', () => (run === undefined ? lines.close() : run.abort()))
lines.on('close', async () => {
  await working
  await engine.close()
})
lines.prompt()
