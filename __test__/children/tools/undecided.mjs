// A host whose hook fails, and never answers, about calls of dangerous tools: a command, and a function that cannot be repeated. Arguments: the
// ledger's file, a workspace. Prints what the host sees of both runs, and what of the tools ran. The clock is that of
// `support/processes/fast-clock.c`.

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { createCodingTools } from '../../../index.js'
import { context, scripted } from '../common.mjs'

const [file, workspace] = process.argv.slice(2)

const hooks = {
  throws: () => {
    throw new Error('the policy server is down')
  },
  rejects: () => Promise.reject(new Error('the policy server is down')),
  // Settled after the run, so that what a late answer does is seen too.
  silent: () => new Promise((resolve) => answers.push(() => resolve('allow'))),
}
const answers = []

async function attempt(name) {
  const ran = []
  const calls = [
    { name: 'bash', arguments: { command: 'touch made' } },
    { name: 'pay', arguments: { to: 'mallory' } },
  ]
  const { engine, provider } = scripted([{ toolCalls: calls }, 'I see.'], {
    ledger: { path: file },
    models: [{ provider: 'test', id: 'test-model', contextWindow: 90_000, maxOutputTokens: 1_000 }],
  })
  const tools = [
    ...createCodingTools(workspace, { tools: ['bash'] }),
    { name: 'pay', replay: 'unsafe', run: (params) => ran.push(params) },
  ]
  const begun = performance.now()
  const run = engine.run(
    context({
      tools,
      beforeToolCall: hooks[name],
      sessionLabel: `agent:main:${name}`,
      timeoutMs: 3_600_000,
    }),
  )
  const events = []
  for await (const event of run) if (event.type === 'tool_status') events.push(event)
  const result = await run.result
  const waited = performance.now() - begun
  for (const answer of answers.splice(0)) answer()
  await new Promise((resolve) => setTimeout(resolve, 5_000))
  const { rows } = await engine.ledger.query(
    'SELECT tool_name, status, error FROM tool_calls WHERE turn_id = ? ORDER BY sequence',
    [result.turnId],
  )
  await engine.close()
  return {
    stopReason: result.stopReason,
    waited,
    ran: [...ran, ...(existsSync(join(workspace, 'made')) ? ['bash'] : [])],
    calls: result.toolCalls.map(({ toolName, status, error }) => [toolName, status, error]),
    events: events,
    read: provider.requests[1],
    rows: rows.map((row) => [row.tool_name, row.status, row.error]),
  }
}

const attempts = {}
for (const name of Object.keys(hooks)) attempts[name] = await attempt(name)
console.log(JSON.stringify(attempts))
