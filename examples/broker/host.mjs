// A small host of a broker, without a framework: messages come in over HTTP, answers go out as server-sent events, and a call of a tool
// waits for a person. It must never be exposed as it is: whoever reaches it may do everything.

import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { Broker } from '../../index.js'
import { fromRequest } from '../../web.js'

/** What a caller sees for a refusal of the engine. */
const STATUS = { already_decided: 409, unknown_approval: 404, engine_closed: 503 }

/** Money leaves only after a person has decided. */
const refund = {
  name: 'refund',
  description: 'Pays an order back.',
  guidelines: ['Ask for the number of the order first.'],
  parameters: {
    type: 'object',
    properties: { order: { type: 'string' }, euros: { type: 'number' } },
    required: ['order', 'euros'],
  },
  permission: 'ask',
  run: ({ order, euros }) => `Order ${order}: ${euros} € were paid back.`,
}

/** Three agents: who answers depends on where a message comes from. The first one has a worker: it gives tasks to the last. */
function agents(model, workspace) {
  return {
    defaults: { ...model, workspace },
    agents: {
      main: {
        identity: 'You are Atlas, the assistant of the house.',
        subagents: { allowAgents: ['coder'] },
      },
      support: { identity: 'You help the customers of a shop.', toolset: 'shop' },
      coder: { identity: 'You fix code.', role: 'worker' },
    },
    defaultAgent: 'main',
    bindings: [
      { agentId: 'support', match: { channel: 'shop' } },
      { agentId: 'coder', match: { channel: 'github' } },
    ],
    toolsets: { shop: [refund] },
  }
}

/**
 * The host of `engine`; `memory` returns what it knows about a message, if anything.
 *
 * @param {import('../../index.js').AgentEngine} engine
 * @param {{ model: object, workspace: string, memory?: (text: string) => string | undefined }} options
 */
export function brokerHost(engine, { model, workspace, memory = () => undefined }) {
  const broker = new Broker(engine, {
    ...agents(model, workspace),
    queue: 'nexus',
    context: {
      layers: async (layers, { text }) => {
        const known = await memory(text)
        if (known === undefined) return layers
        return [...layers, { name: 'cortex', source: 'memory', text: known }]
      },
    },
  })
  broker.on('error', (error) => console.error(error))

  const page = (name, type) => async (_, response) => {
    response.writeHead(200, { 'content-type': `${type}; charset=utf-8` })
    response.end(await readFile(new URL(name, import.meta.url)))
  }
  const from = (channel, id) => ({ event: { channel, peer: { kind: 'group', id } } })

  const routes = {
    'GET /': page('page.html', 'text/html'),
    'GET /page.js': page('page.js', 'text/javascript'),

    // The session of whoever writes in a channel: its events are watched before its first message.
    'GET /session': async (_, response, url) => {
      const [channel, id] = ['channel', 'from'].map((name) => url.searchParams.get(name) ?? '')
      json(response, 200, broker.route(from(channel, id)))
    },

    // A message, from a webhook for example: its id makes it idempotent.
    'POST /messages': async (request, response) => {
      const { body } = await fromRequest(request, {
        response,
        schema: texts('id', 'channel', 'from', 'text'),
      })
      const { id, channel, from: author, text } = body
      const receipt = await broker.send({
        to: from(channel, author),
        message: text,
        event: { from: author },
        eventId: id,
        identity: author,
      })
      json(response, receipt.disposition === 'duplicate' ? 200 : 202, receipt)
    },

    // The events of all turns of a session, in whichever process they run.
    'GET /events': async (_, response, url) => {
      response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' })
      // Before the first event: a caller waits for them, and may send its message only then.
      response.flushHeaders()
      const events = broker.subscribe(url.searchParams.get('session') ?? '')
      response.once('close', () => void events.return?.())
      for await (const { event } of events) {
        const data = `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`
        if (!response.write(data))
          await Promise.race([once(response, 'drain'), once(response, 'close')])
      }
      response.end()
    },

    'GET /approvals': async (_, response) => {
      json(response, 200, (await engine.approvals({ status: 'pending' })).items)
    },

    'POST /approvals': async (request, response) => {
      const { body } = await fromRequest(request, { response, schema: texts('id', 'decision') })
      if (body.decision === 'approve') await engine.approve(body.id, { by: 'desk' })
      else await engine.deny(body.id, { reason: 'The desk does not want this.', by: 'desk' })
      json(response, 200, {})
    },

    // Why did the agent know this? What the contexts of a session were put together from.
    'GET /knowledge': async (_, response, url) => {
      const { rows } = await engine.ledger.query(
        `SELECT m.turn_id, l.value ->> 'name' AS layer, l.value ->> 'source' AS source
         FROM agent_turns t JOIN agent_messages m ON m.turn_id = t.id, json_each(m.context_json) l
         WHERE t.session_label = ? AND m.context_json IS NOT NULL ORDER BY m.turn_id, l.key`,
        [url.searchParams.get('session') ?? ''],
      )
      json(response, 200, rows)
    },
  }

  const server = createServer((request, response) => {
    const url = new URL(request.url ?? '/', 'http://host')
    const name = `${request.method} ${url.pathname}`
    if (!Object.hasOwn(routes, name)) return json(response, 404, { code: 'not_found' })
    routes[name](request, response, url).catch((error) => {
      if (response.headersSent) return response.destroy()
      json(response, STATUS[error.code] ?? error.status ?? 400, {
        code: error.code,
        message: error.message,
      })
    })
  })
  return {
    server,
    async close() {
      server.close()
      server.closeAllConnections()
      await broker.close({ drainMs: 5_000 })
    },
  }
}

/** A body with these texts, as a Standard Schema; an application has Zod, Valibot or ArkType for it. */
function texts(...names) {
  const validate = (value) => {
    const missing = names.filter((name) => typeof value?.[name] !== 'string' || value[name] === '')
    if (missing.length === 0) return { value }
    return { issues: missing.map((name) => ({ message: 'is not a text', path: [name] })) }
  }
  return { '~standard': { version: 1, vendor: 'example', validate } }
}

function json(response, status, value) {
  response.writeHead(status, { 'content-type': 'application/json' })
  response.end(JSON.stringify(value))
}
