// The bodies of requests that are seen and never sent: what an engine makes of a context, without a server.
// It must never let a request go out.

import { AgentEngine, type AssembledContext } from '../../index.js'
import { context, testModel } from './engine.js'

const NOWHERE = 'http://127.0.0.1:1'
const NOT_SENT = 'seen, and not sent'
const NAMES = ['test', 'chat']
const MODELS = ['test-model', 'other-model']

/** An engine for `bodyOf`: provider `test` speaks Anthropic's API, `chat` Chat Completions; both have two models. */
export function unsentEngine(): AgentEngine {
  return new AgentEngine({
    providers: {
      test: { api: 'anthropic-messages', baseUrl: NOWHERE },
      chat: { api: 'openai-chat', baseUrl: NOWHERE },
    },
    authProfiles: NAMES.map((provider) => ({ id: provider, provider, type: 'api_key', key: 'k' })),
    models: NAMES.flatMap((provider) => MODELS.map((id) => ({ ...testModel, provider, id }))),
  })
}

/** A given history of whatever a host has. */
export function given(history: unknown[]): Pick<AssembledContext, 'history'> {
  return { history } as Pick<AssembledContext, 'history'>
}

/** The body of the first request of a context as JSON, or why there is none. */
export async function bodyOf(
  engine: AgentEngine,
  changes: Partial<AssembledContext>,
): Promise<string> {
  let body = ''
  const onRequest = (request: { body: object }): undefined => {
    body = JSON.stringify(request.body)
    throw new Error(NOT_SENT)
  }
  try {
    const { error } = await engine.run(context({ ...changes, onRequest })).result
    return error?.message.includes(NOT_SENT) ? body : `no request: ${JSON.stringify(error)}`
  } catch (error) {
    const { code, field, message } = error as { code: string; field: string; message: string }
    return `refused: ${code} ${field} ${message}`
  }
}

/** The body of an engine that sees the context for the first time. */
export async function freshBody(changes: Partial<AssembledContext>): Promise<string> {
  const fresh = unsentEngine()
  const body = await bodyOf(fresh, changes)
  await fresh.close()
  return body
}
