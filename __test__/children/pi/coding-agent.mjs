// pi's own coding agent in a conversation of thirty turns with a scripted server: tools, steering, compaction, branches, a restart. It prints what it has
// emitted, its messages and its file. It must never call another machine.

import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'

const [, , module, folder, compaction = 'asked'] = process.argv
/** Compactions happen by themselves: one because the context is nearly full, one because the model refuses it. */
const isAutomatic = compaction === 'automatic'
const THRESHOLD = { turn: 8, tokens: 3_500 }
const OVERFLOW = { turn: 16, isDue: isAutomatic }
const pi = await import(module)

const event = (data) => `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`
const usage = (output, input = 2_000) => ({
  // Plausible for each request: a count that cannot be is estimated by the engine.
  input_tokens: input,
  output_tokens: output,
  cache_read_input_tokens: 0,
  cache_creation_input_tokens: 0,
})

/** An answer of parts: a text, or the name of a tool. */
const answer = (...parts) => answerOf(2_000, ...parts)

function answerOf(tokens, ...parts) {
  const blocks = parts.map((part, index) => {
    const isCall = part.startsWith('call:')
    const start = isCall
      ? {
          type: 'tool_use',
          id: `toolu_${part.slice(5)}`,
          name: part.slice(5).split('_')[0],
          input: {},
        }
      : { type: 'text', text: '' }
    const half = Math.ceil(part.length / 2)
    const deltas = isCall
      ? ['{"what":', '"all"}'].map((text) => ({ type: 'input_json_delta', partial_json: text }))
      : [part.slice(0, half), part.slice(half)].map((text) => ({ type: 'text_delta', text }))
    return [
      event({ type: 'content_block_start', index, content_block: start }),
      ...deltas.map((delta) => event({ type: 'content_block_delta', index, delta })),
      event({ type: 'content_block_stop', index }),
    ].join('')
  })
  const hasCalls = parts.some((part) => part.startsWith('call:'))
  const message = { id: 'msg_1', type: 'message', role: 'assistant', model: 'm', content: [] }
  return [
    event({
      type: 'message_start',
      message: { ...message, stop_reason: null, usage: usage(1, tokens) },
    }),
    ...blocks,
    event({
      type: 'message_delta',
      delta: { stop_reason: hasCalls ? 'tool_use' : 'end_turn' },
      usage: { output_tokens: 7 },
    }),
    event({ type: 'message_stop' }),
  ].join('')
}

/** What the model answers depends on the last message alone. */
function reply({ messages }) {
  const last = messages.at(-1)
  const parts = Array.isArray(last.content) ? last.content : [{ type: 'text', text: last.content }]
  const text = parts.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('')
  const results = parts.filter((part) => part.type === 'tool_result')
  if (/<conversation>/.test(text)) return answer('The summary of what was said.')
  if (text.includes('steered')) return answer('I was steered.')
  if (results.length > 0) return answer(`Done with ${results.length}.`)
  const [, turn = '0'] = /turn (\d+)/.exec(text) ?? []
  if (text.includes('tools')) return answer('I look. ', `call:look_${turn}`, `call:note_${turn}`)
  const isFull = isAutomatic && Number(turn) === THRESHOLD.turn
  return answerOf(isFull ? THRESHOLD.tokens : 2_000, `The answer to turn ${turn}.`)
}

const requests = []
const server = createServer((request, response) => {
  const chunks = []
  request.on('data', (chunk) => chunks.push(chunk))
  request.on('end', () => {
    const body = JSON.parse(Buffer.concat(chunks).toString('utf8'))
    requests.push(body.messages.map(({ role }) => role[0]).join(''))
    if (OVERFLOW.isDue && JSON.stringify(body.messages.at(-1)).includes(`turn ${OVERFLOW.turn}`)) {
      OVERFLOW.isDue = false
      const message = 'prompt is too long: 213462 tokens > 200000 maximum'
      response.writeHead(400, { 'content-type': 'application/json' })
      response.end(
        JSON.stringify({ type: 'error', error: { type: 'invalid_request_error', message } }),
      )
      return
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.end(reply(body))
  })
})
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))

const model = {
  id: 'claude-haiku-4-5',
  name: 'M',
  api: 'anthropic-messages',
  provider: 'anthropic',
  baseUrl: `http://127.0.0.1:${server.address().port}`,
  reasoning: false,
  input: ['text', 'image'],
  cost: { input: 1, output: 5, cacheRead: 0.1, cacheWrite: 1.25 },
  contextWindow: 200_000,
  maxTokens: 8_000,
}

const parameters = { type: 'object', properties: { what: { type: 'string' } }, required: ['what'] }
let session
let steers = false
const tool = (name, execute) => ({ name, label: name, description: name, parameters, execute })
const customTools = [
  tool('look', async (id, { what }) => {
    if (steers) await session.steer('steered now')
    steers = false
    return { content: [{ type: 'text', text: `${id} looked at ${what}` }], details: { id } }
  }),
  tool('note', async (id) => ({ content: [{ type: 'text', text: `noted ${id}` }], details: {} })),
]

const settingsManager = pi.SettingsManager.inMemory({
  compaction: {
    enabled: true,
    keepRecentTokens: 40,
    // What is left of the window is the threshold: 3,000 tokens.
    reserveTokens: isAutomatic ? 197_000 : 1_000,
  },
  retry: { enabled: false },
})
const authStorage = pi.AuthStorage.inMemory({ anthropic: { type: 'api_key', key: 'sk-x' } })
const modelRegistry = pi.ModelRegistry.inMemory?.(authStorage) ?? new pi.ModelRegistry(authStorage)
const loader = new pi.DefaultResourceLoader({
  cwd: folder,
  agentDir: folder,
  settingsManager,
  noExtensions: true,
  noSkills: true,
  noPromptTemplates: true,
  noThemes: true,
  systemPromptOverride: () => 'You are a test.',
})
await loader.reload()

const events = []
async function begin(sessionManager) {
  const made = await pi.createAgentSession({
    cwd: folder,
    agentDir: folder,
    authStorage,
    modelRegistry,
    settingsManager,
    sessionManager,
    resourceLoader: loader,
    model,
    thinkingLevel: 'off',
    ...(module.includes('073') ? { tools: ['look', 'note'] } : { tools: [] }),
    customTools,
  })
  session = made.session
  session.subscribe((emitted) => events.push(JSON.parse(JSON.stringify(emitted))))
}

await begin(pi.SessionManager.create(folder, join(folder, 'sessions')))

/** The answer to a turn is there: pi compacts, and asks again, when the prompt has returned. */
async function answered(turn) {
  const text = `The answer to turn ${turn}.`
  while (session.isCompacting || !JSON.stringify(session.messages.at(-1)).includes(text)) {
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
  await session.agent.waitForIdle()
}

for (let turn = 1; turn <= 30; turn++) {
  steers = turn === 6
  await session.prompt(`turn ${turn}${turn % 3 === 0 ? ' with tools' : ''}`)
  if (isAutomatic) {
    if (turn === OVERFLOW.turn) await answered(turn)
    while (session.isCompacting) await new Promise((resolve) => setTimeout(resolve, 10))
    continue
  }
  if (turn === 10) await session.compact()
  if (turn === 15) {
    const users = session.sessionManager
      .getBranch()
      .filter((entry) => entry.message?.role === 'user')
    await session.navigateTree(users.at(-2).id, { summarize: true })
  }
  if (turn === 20) {
    const file = session.sessionFile
    session.dispose()
    await begin(pi.SessionManager.open(file))
  }
  if (turn === 25) await session.compact()
}
const result = {
  events,
  messages: session.messages,
  context: session.sessionManager.buildSessionContext().messages,
  file: readFileSync(session.sessionFile, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line)),
  requests,
}
session.dispose()
server.close()
server.closeAllConnections()
process.stdout.write(JSON.stringify(result), () => process.exit(0))
