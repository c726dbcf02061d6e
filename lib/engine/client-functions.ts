// What MCP servers ask of their client, by the host's functions: `onElicitation` asks a user, `onSampling` a model.
// It must never show a server why a function failed, and no function's throw reaches the process.

import { messageOf, refusal } from '../values/errors.ts'
import { type Fields, isObject } from '../values/reader.ts'

const CODE = 'invalid_options'
const ACTIONS: readonly unknown[] = ['accept', 'decline', 'cancel']
const DECLINED = 'the client declines'

/** A request of a server, as the native side passes it. */
interface ServerRequest {
  server: string
  method: string
  params: Fields
}

/** A function that answers a server. */
interface ClientFunction {
  answer: (request: Fields) => unknown
  option: 'onElicitation' | 'onSampling'
}

/** The JSON of a result for a server, or what it reads instead. */
interface ClientAnswer {
  result?: string
  error?: string
}

/** Takes the functions out of a server's options: their numbers stand for them. */
function takeClientFunctions(
  fields: Fields,
  path: string,
  add: (given: ClientFunction) => number,
): void {
  for (const option of ['onElicitation', 'onSampling'] as const) {
    const answer = fields[option]
    if (answer === undefined) continue
    delete fields[option]
    if (answer === null) continue
    if (typeof answer !== 'function') {
      throw refusal(CODE, `${path}.${option}`, 'is not a function')
    }
    fields[option] = add({ answer: answer as ClientFunction['answer'], option })
  }
}

/** Calls a function for a request. Never rejects: a throw, or what is no answer, is a process warning, and the server is declined. */
async function answerServer(
  { answer, option }: ClientFunction,
  { server, params }: ServerRequest,
): Promise<ClientAnswer> {
  try {
    const given: unknown = await answer({ ...params, server })
    return option === 'onElicitation' ? elicited(given) : sampled(given)
  } catch (error) {
    const message = `\`${option}\` of MCP server \`${server}\` failed: ${messageOf(error, 'it')}`
    process.emitWarning(message, { code: 'AGENT_ENGINE_CALLBACK' })
    return option === 'onElicitation' ? { result: '{"action":"cancel"}' } : { error: DECLINED }
  }
}

function elicited(given: unknown): ClientAnswer {
  if (!isObject(given) || !ACTIONS.includes(given.action)) {
    throw new Error("it returned none of { action: 'accept', content }, 'decline' and 'cancel'")
  }
  const { action, content } = given
  return {
    result: JSON.stringify(action === 'accept' ? { action, content: content ?? {} } : { action }),
  }
}

function sampled(given: unknown): ClientAnswer {
  if (given === null || given === undefined) return { error: DECLINED }
  const text = (text: string) => ({ role: 'assistant', content: { type: 'text', text } })
  const message: Fields = typeof given === 'string' ? text(given) : { ...(given as Fields) }
  if (!isObject(message.content) && !Array.isArray(message.content)) {
    throw new Error('it returned neither a text nor a message with `content`')
  }
  const defaults = { role: 'assistant', model: 'host', stopReason: 'endTurn' }
  return { result: JSON.stringify({ ...defaults, ...message }) }
}

export type { ClientFunction, ServerRequest }
export { answerServer, takeClientFunctions }
