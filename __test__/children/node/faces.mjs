// The main path of each face of the installed package, against a scripted server of its own: pi's calls, agents, sessions and embedded runs, `runAgent`, and
// the program. It prints what came of them. It must never call another machine.

import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { AgentEngine } from '@nexus/agent-engine'
import { Agent } from '@nexus/agent-engine/pi-agent'
import * as pi from '@nexus/agent-engine/pi-ai'
import { LedgerSessions, runEmbeddedPiAgent, SessionManager } from '@nexus/agent-engine/pi-session'
import { closeAgents, runAgent } from '@nexus/agent-engine/run-agent'

const event = (data) => `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`
const usage = { input_tokens: 10, output_tokens: 1 }
const start = event({
  type: 'message_start',
  message: { id: 'm', type: 'message', role: 'assistant', model: 'm', content: [], usage },
})
const block = (index, content_block, ...deltas) =>
  event({ type: 'content_block_start', index, content_block }) +
  deltas.map((delta) => event({ type: 'content_block_delta', index, delta })).join('')
const end = (stop_reason) =>
  event({ type: 'message_delta', delta: { stop_reason }, usage: { output_tokens: 5 } }) +
  event({ type: 'message_stop' })
const stop = (index) => event({ type: 'content_block_stop', index })
const half = (text) => start + block(0, { type: 'text', text: '' }, { type: 'text_delta', text })
const says = (text) => half(text) + stop(0) + end('end_turn')
const use = (index, name) =>
  block(
    index,
    { type: 'tool_use', id: `id-${name}`, name, input: {} },
    { type: 'input_json_delta', partial_json: '{"n":"5"}' },
  ) + stop(index)
const calls = (...names) =>
  start + names.map((name, at) => use(at, name)).join('') + end('tool_use')

/** The answers of the next requests; one without its end is held. */
let answers = []
const seen = []
const server = createServer(async (request, response) => {
  let body = ''
  for await (const chunk of request) body += chunk
  seen.push(JSON.parse(body))
  const answer = answers.shift() ?? says('nothing is scripted')
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  if (answer.includes('message_stop')) response.end(answer)
  else response.write(answer)
})
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
const baseUrl = `http://127.0.0.1:${server.address().port}`
const folder = mkdtempSync(join(tmpdir(), 'agent-engine-faces-'))
const model = { ...pi.getModel('anthropic', 'claude-haiku-4-5'), baseUrl }
const user = (content) => ({ role: 'user', content, timestamp: 1 })
const apiKey = 'sk-x'
const roles = (messages) => messages.map(({ role }) => role).join(' ')
const textOf = ({ content }) => content.map(({ text }) => text).join('')

async function ofPiAi() {
  answers = ['One', 'Two', 'Three', 'Four'].map(says)
  const context = { systemPrompt: 'Be brief.', messages: [user('hi')] }
  const types = []
  const stream = pi.streamSimple(model, context, { apiKey, reasoning: 'low' })
  for await (const { type } of stream) types.push(type)
  const texts = [
    await stream.result(),
    await pi.completeSimple(model, context, { apiKey }),
    await pi
      .stream(model, context, { apiKey, onPayload: (body) => ({ ...body, top_k: 3 }) })
      .result(),
    await pi.complete(model, context, { apiKey }),
  ].map(textOf)
  const parameters = { type: 'object', properties: { n: { type: 'number' } }, required: ['n'] }
  const tool = { name: 't', description: '', parameters }
  const check = (args) =>
    pi.validateToolArguments(tool, { type: 'toolCall', id: 'c', name: 't', arguments: args })
  let refused = ''
  try {
    check({ n: 'five' })
  } catch (error) {
    refused = error.message.split('\n')[0]
  }
  const own = (of) => {
    const stream = pi.createAssistantMessageEventStream()
    const message = {
      role: 'assistant',
      content: [{ type: 'text', text: of.id }],
      stopReason: 'stop',
    }
    stream.push({ type: 'done', reason: 'stop', message })
    return stream
  }
  pi.registerApiProvider({ api: 'own-api', stream: own, streamSimple: own }, 'here')
  const custom = await pi.completeSimple({ ...model, id: 'mine', api: 'own-api' }, context)
  pi.unregisterApiProviders('here')
  return {
    types,
    texts,
    topK: seen.at(-2).top_k,
    n: check({ n: '5' }).n,
    refused,
    custom: textOf(custom),
  }
}

async function ofAgent(semantics) {
  const ran = []
  const tool = (name) => ({
    name,
    label: name,
    description: name,
    parameters: { type: 'object', properties: { n: { type: 'number' } } },
    async execute(_id, { n }) {
      ran.push(name, n)
      if (name === 'a') agent.steer(user('and now?'))
      return { content: [{ type: 'text', text: `${name} is done` }], details: {} }
    },
  })
  const agent = new Agent({
    semantics,
    initialState: { model, tools: [tool('a'), tool('b')] },
    getApiKey: () => apiKey,
    toolExecution: 'sequential',
  })
  answers = [calls('a', 'b'), says('Done.')]
  await agent.prompt('go')
  const conversation = roles(agent.state.messages)
  const skipped = agent.state.messages.filter(({ isError }) => isError).map(textOf)
  answers = [half('One')]
  agent.subscribe((event) => {
    if (event.assistantMessageEvent?.type === 'text_delta') agent.abort()
  })
  await agent.prompt('more')
  const { stopReason, content } = agent.state.messages.at(-1)
  return { ran, conversation, skipped, stopReason, partial: textOf({ content }) }
}

async function ofSessions() {
  const written = SessionManager.create(folder, folder)
  const first = written.appendMessage(user('one'))
  written.appendMessage({ ...user('two'), role: 'assistant', content: [] })
  written.branch(first)
  written.appendMessage(user('three'))
  const read = SessionManager.open(written.getSessionFile())
  const path = join(folder, 'agent.db')
  const engine = new AgentEngine({ ledger: { path } })
  const sessions = new LedgerSessions(engine.ledger, { cwd: folder })
  const stored = await sessions.importFile(written.getSessionFile())
  stored.appendMessage(user('four'))
  await stored.flush()
  const again = await sessions.continueRecent()
  const copy = join(folder, 'copy.jsonl')
  again.exportFile(copy)
  await engine.close()
  return {
    entries: read.getEntries().length,
    branch: read.buildSessionContext().messages.map(({ content }) => content),
    inLedger: again.buildSessionContext().messages.map(({ content }) => content),
    exported: SessionManager.open(copy).getEntries().length,
  }
}

async function ofEmbedded() {
  answers = [says('First.'), says('Second.')]
  const params = {
    sessionId: 's',
    sessionFile: join(folder, 'embedded.jsonl'),
    workspaceDir: folder,
    model,
    apiKey,
    timeoutMs: 60_000,
    runId: 'r',
  }
  const { payloads } = await runEmbeddedPiAgent({ ...params, prompt: 'one' })
  const { meta } = await runEmbeddedPiAgent({ ...params, prompt: 'two' })
  return { payloads, stopReason: meta.stopReason, sent: roles(seen.at(-1).messages) }
}

const provider = {
  name: 'anthropic',
  model: 'claude-haiku-4-5',
  baseUrl,
  authProfiles: [{ id: 'primary', apiKey }],
}

async function ofRunAgent() {
  answers = [calls('unknown'), says('Fine.')]
  const types = new Set()
  const { reply, iterations } = await runAgent({
    sessionKey: 'main',
    userMessage: 'hi',
    config: { provider },
    stateDir: join(folder, 'state'),
    onEvent: ({ type }) => types.add(type),
  })
  await closeAgents()
  return { reply, iterations, types: [...types] }
}

async function ofProgram() {
  const state = join(folder, '.myclaw')
  mkdirSync(state)
  writeFileSync(join(state, 'myclaw.json'), JSON.stringify({ provider }))
  const bin = join(process.cwd(), 'node_modules', '@nexus', 'agent-engine', 'cli.js')
  const env = { PATH: process.env.PATH, HOME: folder, MYCLAW_HOME: folder }
  const program = async (...args) => {
    const { stdout } = await promisify(execFile)(process.execPath, [bin, ...args], { env })
    return stdout
  }
  answers = [says('Hello.')]
  const linesOf = (text) =>
    text
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
  const lines = linesOf(await program('run', '--json', 'hi'))
  const doctor = linesOf(await program('doctor', '--json'))
  return {
    types: lines.map(({ type }) => type),
    text: lines.at(-1).result.text,
    doctor: doctor.map(({ name }) => name).join(' '),
  }
}

const printed = {
  piAi: await ofPiAi(),
  agent: { 0.54: await ofAgent('0.54'), 0.73: await ofAgent('0.73') },
  sessions: await ofSessions(),
  embedded: await ofEmbedded(),
  runAgent: await ofRunAgent(),
  program: await ofProgram(),
}
server.close()
server.closeAllConnections()
rmSync(folder, { recursive: true, force: true })
process.stdout.write(JSON.stringify(printed))
