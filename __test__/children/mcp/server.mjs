// An MCP server over stdin and stdout that does what its tools say, and whatever its first argument, the JSON of its settings, says: it
// dies, floods, answers late, twice or never. It must never use a library, which would be too well behaved.
//
// Settings: `log` (a file that receives each message), `gate` (a port of this machine: it begins when something comes from there),
// `never` (answers nothing), `exit` (ends at once), `modern` (knows no handshake), `print` (text for standard error), `noise` (lines before the first answer), `tools` (more descriptions; `pad` makes the schema of
// one long), `asks` (the parameters of what it asks of its client).

import { appendFileSync } from 'node:fs'
import { connect } from 'node:net'
import { createInterface } from 'node:readline'

const settings = JSON.parse(process.argv[2] ?? '{}')
const object = { type: 'object' }
const TOOLS = [
  'echo',
  'slow',
  'late',
  'twice',
  'die',
  'flood',
  'huge',
  'parts',
  'fail',
  'refuse',
  'ask',
  'grow',
  'about',
  'input',
  'rounds',
]
const tools = [
  ...TOOLS.map((name) => ({ name, description: `Does ${name}.`, inputSchema: object })),
  {
    name: 'structured',
    inputSchema: object,
    outputSchema: { type: 'object', properties: { n: { type: 'number' } }, required: ['n'] },
  },
  { name: 'progress', inputSchema: object, annotations: { readOnlyHint: true } },
  {
    name: 'strict',
    inputSchema: {
      type: 'object',
      properties: { n: { type: 'integer' } },
      required: ['n'],
      additionalProperties: false,
    },
  },
  ...(settings.tools ?? []).map(({ pad, ...tool }) =>
    pad ? { ...tool, inputSchema: { ...tool.inputSchema, description: 'x'.repeat(pad) } } : tool,
  ),
]
const open = new Map()
let asked = 0
/** What the client said that it offers. */
let offered

if (settings.print) process.stderr.write(settings.print)
if (settings.exit) process.exit(7)

function send(message) {
  process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
}

const text = (text) => ({ content: [{ type: 'text', text }] })

/** Asks the client, and resolves with its answer. */
function ask(method, params) {
  const id = `s${++asked}`
  send({ id, method, params })
  return new Promise((resolve) => open.set(id, resolve))
}

async function call(id, params) {
  const { name, arguments: args = {}, _meta: meta = {} } = params
  const answer = (result) => send({ id, result })
  switch (name) {
    case 'echo':
    case 'strict':
      return answer(text(JSON.stringify(args)))
    case 'slow':
      return
    case 'late':
      open.set(id, () => answer(text('too late')))
      return
    case 'twice':
      answer(text('first'))
      answer(text('second'))
      return send({ id: 999_999, result: text('to nobody') })
    case 'die':
      return process.exit(3)
    case 'flood': {
      const message = { method: 'notifications/message', params: { level: 'info', data: 'x' } }
      const line = `${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`
      const pump = () => {
        while (process.stdout.write(line.repeat(1_000)));
        process.stdout.once('drain', pump)
      }
      return pump()
    }
    case 'huge': {
      const part = 'x'.repeat(1 << 20)
      process.stdout.write(
        `{"jsonrpc":"2.0","id":${id},"result":{"content":[{"type":"text","text":"`,
      )
      const pump = () => {
        while (process.stdout.write(part));
        process.stdout.once('drain', pump)
      }
      return pump()
    }
    case 'parts':
      return answer({
        content: [
          { type: 'text', text: 'a' },
          { type: 'image', data: 'AAAA', mimeType: 'image/png' },
          { type: 'resource_link', uri: 'file:///a', name: 'a' },
          { type: 'resource', resource: { uri: 'file:///b', text: 'b' } },
          { type: 'audio', data: 'AAAA', mimeType: 'audio/wav' },
        ],
      })
    case 'structured':
      return answer({ content: [], structuredContent: args.value })
    case 'fail':
      return answer({ ...text('It did not work.'), isError: true })
    case 'refuse':
      return send({ id, error: { code: -32000, message: `no access with ${process.env.TOKEN}` } })
    case 'progress':
      for (const progress of [1, 2]) {
        const params = {
          progressToken: meta.progressToken,
          progress,
          total: 2,
          message: `step ${progress}`,
        }
        send({ method: 'notifications/progress', params })
      }
      return answer(text('done'))
    case 'ask': {
      const answers = []
      for (const method of ['ping', 'roots/list', 'sampling/createMessage', 'elicitation/create']) {
        const { result, error } = await ask(method, settings.asks ?? {})
        answers.push(`${method}: ${JSON.stringify(result ?? error.code)}`)
      }
      answers.push(`offered: ${JSON.stringify(offered)}`)
      return answer(text(answers.join(', ')))
    }
    case 'grow':
      tools.push({ name: 'grown', inputSchema: object })
      send({ method: 'notifications/tools/list_changed' })
      return answer(text('grown'))
    case 'about':
      return answer(
        text(JSON.stringify({ pid: process.pid, variables: Object.keys(process.env).sort() })),
      )
    case 'rounds': {
      // Asks once a round, and counts them in its state.
      const state = JSON.parse(params.requestState ?? '[]')
      if (params.inputResponses)
        state.push(params.inputResponses.q.content ?? params.inputResponses.q.action)
      if (state.length < args.rounds) {
        const message = `round ${state.length + 1}`
        const inputRequests = { q: { method: 'elicitation/create', params: { message } } }
        return answer({
          resultType: 'input_required',
          inputRequests,
          requestState: JSON.stringify(state),
        })
      }
      return answer(
        text(`state ${state.length}: ${state.map((it) => JSON.stringify(it)).join(' ')}`),
      )
    }
    case 'input':
      return answer({ resultType: 'input_required', inputRequests: {} })
    default:
      return send({ id, error: { code: -32602, message: `unknown tool ${name}` } })
  }
}

const capabilities = { tools: { listChanged: true }, resources: {}, prompts: {} }
const serverInfo = { name: 'scripted', version: '1.2.3' }

function request({ id, method, params = {} }) {
  const result = (result) => send({ id, result })
  if (
    settings.modern &&
    method !== 'server/discover' &&
    params._meta?.['io.modelcontextprotocol/protocolVersion'] !== '2026-07-28'
  ) {
    return send({ id, error: { code: -32022, message: 'unsupported protocol version' } })
  }
  switch (method) {
    case 'initialize':
      offered = params.capabilities
      return result({ protocolVersion: params.protocolVersion, capabilities, serverInfo })
    case 'server/discover':
      if (!settings.modern) return send({ id, error: { code: -32601, message: 'no such method' } })
      return result({
        supportedVersions: ['2026-07-28'],
        capabilities,
        serverInfo,
        resultType: 'complete',
        ttlMs: 0,
      })
    case 'tools/list': {
      // Two pages.
      const half = Math.ceil(tools.length / 2)
      if (params.cursor === undefined)
        return result({ tools: tools.slice(0, half), nextCursor: 'half' })
      return result({ tools: tools.slice(half) })
    }
    case 'tools/call':
      return call(id, params)
    case 'subscriptions/listen': {
      const _meta = { 'io.modelcontextprotocol/subscriptionId': id }
      const { notifications } = params
      return send({
        method: 'notifications/subscriptions/acknowledged',
        params: { notifications, _meta },
      })
    }
    case 'resources/list':
      return result({ resources: [{ uri: 'file:///a', name: 'a' }] })
    case 'resources/templates/list':
      return result({ resourceTemplates: [{ uriTemplate: 'file:///{name}', name: 'files' }] })
    case 'resources/read':
      if (params.uri === 'file:///never') return
      return result({ contents: [{ uri: params.uri, text: 'A' }] })
    case 'prompts/list':
      return result({ prompts: [{ name: 'greet' }] })
    case 'prompts/get':
      return result({
        messages: [
          { role: 'user', content: { type: 'text', text: `Greet ${params.arguments.who}` } },
        ],
      })
    default:
      return send({ id, error: { code: -32601, message: 'no such method' } })
  }
}

function receive(line) {
  if (settings.log) appendFileSync(settings.log, `${line}\n`)
  const message = JSON.parse(line)
  if (message.method === undefined) return open.get(message.id)?.(message)
  if (message.id !== undefined) return request(message)
  if (message.method === 'notifications/cancelled') open.get(message.params.requestId)?.()
}

if (!settings.never) {
  const begin = () => {
    for (const line of settings.noise ?? []) process.stdout.write(`${line}\n`)
    createInterface({ input: process.stdin }).on('line', receive)
  }
  if (settings.gate) connect(settings.gate, '127.0.0.1').once('data', begin)
  else begin()
} else {
  process.stdin.resume()
}
