// An engine that runs calls of every kind with a script, so that its log on stderr can be read beside them. Argument: the ledger's file. It
// prints the calls of the result, of the events and of the rows.
import { AgentEngine, createCodingTools, scriptedProvider } from '../../../index.js'
import { context } from '../common.mjs'

const [file] = process.argv.slice(2)
const call = (name, args = {}) => ({ name, arguments: args })
const calls = [
  call('look'),
  call('ls'),
  call('fails'),
  call('denied'),
  call('missing'),
  call('strict'),
]
const engine = new AgentEngine({
  ledger: { path: file },
  providers: { test: scriptedProvider([{ toolCalls: calls }, 'done']) },
  models: [{ provider: 'test', id: 'test-model', contextWindow: 100_000, maxOutputTokens: 1_000 }],
  policy: { deniedTools: ['denied'] },
})
const tools = [
  { name: 'look', run: () => 'seen' },
  ...createCodingTools(process.cwd(), { tools: ['ls'] }),
  {
    name: 'fails',
    run: () => {
      throw new Error('no')
    },
  },
  { name: 'denied', run: () => 'never' },
  { name: 'strict', parameters: { type: 'object', required: ['a'] }, run: () => 'never' },
]
const planner = () => ({ kind: 'tools', calls: [{ toolName: 'look', params: {} }] })
const run = engine.run(context({ tools, planner }))
const events = []
for await (const event of run) if (event.type === 'tool_status') events.push(event)
const { toolCalls, turnId, runId } = await run.result
const { rows } = await engine.ledger.query(
  'SELECT id, tool_name FROM tool_calls WHERE turn_id = ? ORDER BY sequence',
  [turnId],
)
await engine.close()
console.log(
  JSON.stringify({
    turnId,
    runId,
    calls: toolCalls.map(({ callId, toolName, status }) => [
      callId,
      toolName,
      status === 'completed',
    ]),
    ended: events
      .filter(({ status }) => status !== 'started')
      .map(({ callId, toolName, isError }) => [callId, toolName, !isError]),
    rows: rows.map(({ id, tool_name }) => [id, tool_name]),
  }),
)
