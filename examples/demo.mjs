// The main use: one turn with two tools, streamed to the terminal, then read back from the ledger.
// It must run without a key; with ANTHROPIC_API_KEY, OPENAI_API_KEY or --base-url it calls a real model instead.
//
//   npm run demo
//   npm run demo -- --base-url http://127.0.0.1:11434/v1 --model qwen3

import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { AgentEngine, scriptedProvider } from '../index.js'

const { values: flags } = parseArgs({
  options: {
    'base-url': { type: 'string' },
    api: { type: 'string' },
    model: { type: 'string' },
    ledger: { type: 'string' },
  },
})

const tools = [
  {
    name: 'read_thermometer',
    description: 'Reads the temperature of a room in degrees Celsius.',
    parameters: {
      type: 'object',
      properties: { room: { type: 'string' } },
      required: ['room'],
    },
    executionMode: 'parallel',
    run: ({ room }) => ({ room, celsius: room === 'cellar' ? 11.5 : 21 }),
  },
  {
    name: 'set_heating',
    description: 'Turns the heating of a room on or off.',
    parameters: {
      type: 'object',
      properties: { room: { type: 'string' }, on: { type: 'boolean' } },
      required: ['room', 'on'],
    },
    run: ({ room, on }) => `heating of the ${room} is ${on ? 'on' : 'off'}`,
  },
]

function script() {
  return scriptedProvider([
    {
      steps: [
        { thinking: 'The cellar may be cold. I should look before I heat.' },
        { text: 'Let me look at the cellar. ' },
        { toolCall: { id: 'call_1', name: 'read_thermometer', arguments: { room: 'cellar' } } },
        { usage: { inputTokens: 412, outputTokens: 38 } },
      ],
    },
    {
      steps: [
        { text: '11.5 °C is too cold. ' },
        {
          toolCall: { id: 'call_2', name: 'set_heating', arguments: { room: 'cellar', on: true } },
        },
        { usage: { inputTokens: 96, outputTokens: 31, cachedInputTokens: 412 } },
      ],
    },
    {
      steps: [
        { text: 'The cellar had 11.5 °C, ' },
        { delayMs: 60 },
        { text: 'so I turned its heating on.' },
        { usage: { inputTokens: 74, outputTokens: 22, cachedInputTokens: 508 } },
      ],
    },
  ])
}

/** The provider that the environment configures, or the script. */
function choose() {
  if (flags['base-url']) {
    const api = flags.api ?? 'openai-chat'
    return {
      provider: 'custom',
      model: flags.model ?? 'default',
      options: {
        providers: { custom: { api, baseUrl: flags['base-url'] } },
        models: [{ provider: 'custom', id: flags.model ?? 'default', contextWindow: 32768 }],
      },
    }
  }
  if (process.env.ANTHROPIC_API_KEY) {
    return { provider: 'anthropic', model: flags.model ?? 'claude-haiku-4-5', options: {} }
  }
  if (process.env.OPENAI_API_KEY) {
    return { provider: 'openai', model: flags.model ?? 'gpt-5-mini', options: {} }
  }
  return { provider: 'demo', model: 'scripted', options: { providers: { demo: script() } } }
}

const { provider, model, options } = choose()
const path = flags.ledger ?? join(mkdtempSync(join(tmpdir(), 'agent-engine-demo-')), 'agent.db')
const engine = new AgentEngine({ ...options, ledger: { path } })

const dim = (text) => (process.stdout.isTTY ? `\x1b[2m${text}\x1b[0m` : text)
const run = engine.run({
  systemPrompt: 'You look after a house. Use the tools; be brief.',
  currentMessage: { role: 'user', content: 'Is the cellar warm enough? If not, heat it.' },
  tools,
  model,
  provider,
  timeoutMs: 120_000,
  runId: 'demo-1',
  sessionLabel: 'agent:main:main',
  role: 'unified',
  toolsetName: 'house',
  permissionsGranted: ['heating'],
  workspacePath: process.cwd(),
})

console.log(dim(`${provider} · ${model} · ${path}\n`))
for await (const event of run) {
  if (event.type === 'token') process.stdout.write(event.text)
  else if (event.type === 'reasoning') process.stdout.write(dim(event.text))
  else if (event.type === 'tool_status') {
    process.stdout.write(dim(`\n  [${event.toolName} ${event.status}] ${event.summary ?? ''}\n`))
  } else if (event.type === 'stream_error') process.stdout.write(`\nerror: ${event.error}\n`)
}

const result = await run.result
console.log(`\n\n${dim('the turn, as the ledger has it')}`)
const turn = await engine.ledger.turn(result.turnId)
console.log(
  `turn ${turn.id}  ${turn.status}  stop ${turn.stopReason}  parent ${turn.parentTurnId ?? 'none'}`,
)
console.log(
  `tokens ${turn.usage.inputTokens} in + ${turn.usage.cachedInputTokens} cached + ${turn.usage.outputTokens} out = ${turn.usage.totalTokens}` +
    `  context ${turn.contextTokens}  cost ${turn.cost ?? 'unpriced'}`,
)
for (const message of turn.messages) {
  console.log(
    `  ${String(message.sequence).padStart(2)} ${message.role.padEnd(9)} ${message.content.slice(0, 90)}`,
  )
}
for (const call of turn.toolCalls) {
  console.log(`  call ${call.toolName} ${JSON.stringify(call.params)} → ${call.status}`)
}
const { rows } = await engine.ledger.query('SELECT label, thread_id FROM sessions')
console.log('session', rows[0])
await engine.close()
if (result.stopReason !== 'end_turn') process.exitCode = 1
