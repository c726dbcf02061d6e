// Every subpath of the installed package from `import` and from `require`: the same names, and an engine, an agent and a session that work. It must never
// call another machine.

import { mkdtempSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const name = '@nexus/agent-engine'
const require = createRequire(import.meta.url)
const subpaths = Object.keys(require(`${name}/package.json`).exports)
const same = {}
for (const subpath of subpaths.filter((path) => path !== './package.json')) {
  const from = name + subpath.slice(1)
  const imported = await import(from)
  const required = require(from)
  const names = Object.keys(required)
  same[subpath] = names.length > 0 && names.every((each) => imported[each] === required[each])
}

const { AgentEngine, scriptedProvider } = require(name)
const { agentLoop } = require(`${name}/pi-agent`)
const { createAssistantMessageEventStream, getModel } = require(`${name}/pi-ai`)
const { LedgerSessions } = require(`${name}/pi-session`)
const folder = mkdtempSync(join(tmpdir(), 'agent-engine-subpaths-'))
const path = join(folder, 'agent.db')
const engine = new AgentEngine({ ledger: { path }, providers: { demo: scriptedProvider(['Hi.']) } })
const { text } = await engine.run('Hello?', { session: 'main', model: 'demo/scripted' }).result

const user = { role: 'user', content: 'Hello?', timestamp: 1 }
const model = getModel('anthropic', 'claude-haiku-4-5')
const streamFn = () => {
  const stream = createAssistantMessageEventStream()
  const message = { role: 'assistant', content: [], stopReason: 'stop', timestamp: 2 }
  stream.push({ type: 'done', reason: 'stop', message })
  return stream
}
const config = { model, convertToLlm: (messages) => messages }
const context = { systemPrompt: '', messages: [], tools: [] }
const messages = await agentLoop([user], context, config, undefined, streamFn).result()

const sessions = new LedgerSessions(engine.ledger)
const session = await sessions.create()
for (const message of messages) session.appendMessage(message)
await session.flush()
const entries = (await sessions.open(session.getSessionId())).getEntries().length
await engine.close()
rmSync(folder, { recursive: true, force: true })
process.stdout.write(JSON.stringify({ same, text, entries }))
