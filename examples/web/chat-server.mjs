// The HTTP side of a chat, without a framework: a page, messages that start runs, the events of a run, abort and steering. A run belongs to
// its session and not to a connection: a page that reconnects, to this process or to another one with the same ledger, misses nothing. It must
// never be exposed as it is: a session is whoever knows its id, and an application has a login instead.

import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { fromRequest, lastEventId, WebRequestError, writeSSE } from '../../web.js'

const PAGE = {
  '/': ['page.html', 'text/html; charset=utf-8'],
  '/page.js': ['page.js', 'text/javascript; charset=utf-8'],
  '/page.css': ['page.css', 'text/css; charset=utf-8'],
}

/** What the page shows for a refusal of the engine. */
const STATUS = {
  not_running: 409,
  already_decided: 409,
  unknown_approval: 404,
  unknown_run: 404,
  events_expired: 410,
  invalid_label: 400,
}

/** A body with these texts, as a Standard Schema; an application has Zod, Valibot or ArkType for it. */
function texts(...names) {
  const isText = (value) => typeof value === 'string' && value.trim() !== ''
  const validate = (value) => {
    const missing = names.filter((name) => !isText(value?.[name]))
    if (missing.length === 0) return { value }
    return { issues: missing.map((name) => ({ message: 'is not a text', path: [name] })) }
  }
  return { '~standard': { version: 1, vendor: 'example', validate } }
}

const label = (session) => `agent:chat:dm:${session}`

/** The server of a chat with `engine`; `turn` has what every turn is given: provider, model, tools. */
export function chatServer(engine, turn) {
  const routes = {
    'POST /messages': async (request, response) => {
      const { body } = await fromRequest(request, { response, schema: texts('session', 'text') })
      const runId = randomUUID()
      engine.run({
        systemPrompt: 'You are a helpful companion on a web page. Be brief.',
        currentMessage: { role: 'user', content: body.text },
        timeoutMs: 300_000,
        runId,
        sessionLabel: label(body.session),
        role: 'unified',
        toolsetName: 'web',
        permissionsGranted: [],
        workspacePath: process.cwd(),
        ...turn,
        // The page reads the run by its id, and may come and go.
        detached: true,
      })
      json(response, 202, { runId })
    },

    'GET /events': (request, response, url) => {
      const runId = url.searchParams.get('run') ?? ''
      const source = engine.attach(runId, { afterSeq: lastEventId(request) ?? 0 })
      return writeSSE(source, response, { retryMs: 500, onError: report })
    },

    'POST /steer': async (request, response) => {
      const { body } = await fromRequest(request, { response, schema: texts('session', 'text') })
      json(response, 200, { steered: await engine.steerSession(label(body.session), body.text) })
    },

    'POST /abort': async (request, response) => {
      const { body } = await fromRequest(request, { response, schema: texts('session') })
      await engine.abortSession(label(body.session))
      json(response, 200, {})
    },

    'POST /approval': async (request, response) => {
      const { body } = await fromRequest(request, {
        response,
        schema: texts('session', 'id', 'decision'),
      })
      // Only calls of the page's own session.
      const { items: open } = await engine.approvals({
        session: label(body.session),
        status: 'pending',
      })
      if (!open.some(({ id }) => id === body.id)) {
        return json(response, 404, { code: 'unknown_approval' })
      }
      if (body.decision === 'approve') await engine.approve(body.id, { by: 'page' })
      else await engine.deny(body.id, { reason: 'The user does not want this.', by: 'page' })
      json(response, 200, {})
    },
  }

  async function answer(request, response) {
    const url = new URL(request.url, 'http://page')
    if (request.method === 'GET' && Object.hasOwn(PAGE, url.pathname)) {
      const [file, type] = PAGE[url.pathname]
      response.writeHead(200, {
        'content-type': type,
        'content-security-policy': "default-src 'self'",
      })
      response.end(await readFile(new URL(file, import.meta.url)))
      return
    }
    const name = `${request.method} ${url.pathname}`
    if (!Object.hasOwn(routes, name)) json(response, 404, { code: 'not_found' })
    else await routes[name](request, response, url)
  }

  return createServer((request, response) => {
    answer(request, response).catch((error) => refuse(response, error))
  })
}

function json(response, status, value) {
  response.writeHead(status, { 'content-type': 'application/json' })
  response.end(JSON.stringify(value))
}

/** A mistake of the client is explained to it; the rest is the log's. */
function refuse(response, error) {
  if (response.headersSent) return response.destroy()
  if (error instanceof WebRequestError) {
    return json(response, error.status, { code: error.code, issues: error.issues })
  }
  const status = STATUS[error.code] ?? 500
  if (status === 500) report(error)
  return json(response, status, { code: status === 500 ? 'internal' : error.code })
}

function report(error) {
  console.error(error)
}
