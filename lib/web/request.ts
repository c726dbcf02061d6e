// A request as a handler needs it: its body, its last event, a signal. It must never pass on a body that the schema refused.

import type { StandardSchema } from '../../index.d.ts'
import type {
  NodeRequest,
  NodeResponse,
  ReadRequest,
  RequestErrorCode,
  RequestOptions,
  RequestProblem,
  WebRequest,
} from '../../web.d.ts'
import { checkNames, readNumber, refuse } from './options.ts'
import { nodeBytes, webBytes } from './request-body.ts'
import { WebRequestError } from './request-error.ts'
import { header, isWebRequest, readLastEventId } from './request-headers.ts'

const MAX_BYTES = 1024 * 1024
/** Issues of a schema that are listed: a body of a thousand bad items has a thousand. */
const MAX_ISSUES = 100

const JSON_TYPE = /^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i

type Options<Body> = RequestOptions<Body> & { response?: NodeResponse }

/** Reads a request, or rejects with all that is wrong with it. */
async function fromRequest<Body = unknown>(
  request: WebRequest | NodeRequest,
  options: Options<Body> = {},
): Promise<ReadRequest<Body>> {
  checkNames(options, ['maxBytes', 'schema', 'response'])
  const { schema, response } = options
  const most = readNumber('maxBytes', options.maxBytes, Number.MAX_SAFE_INTEGER, MAX_BYTES)
  const signal = isWebRequest(request) ? request.signal : disconnectSignal(response)
  const problems: RequestProblem[] = []
  const last = readLastEventId(request)
  if ('problem' in last) problems.push(last.problem)
  const json = await readJson(request, most, problems)
  const body = problems.length > 0 ? undefined : await checked(json, schema, problems)
  if (problems.length > 0) throw new WebRequestError(problems)
  return { body: body as Body, lastEventId: 'id' in last ? last.id : undefined, signal }
}

/** Aborted when the connection closes before the response has been sent. */
function disconnectSignal(response: NodeResponse | undefined): AbortSignal {
  // The request does not show it: its `close` comes with the end of its body, and its socket outlives it.
  if (response === undefined) refuse('response', 'pass the response beside a request of Node.js')
  const controller = new AbortController()
  if (response.destroyed && !response.writableFinished) controller.abort()
  else {
    response.on('close', () => {
      if (!response.writableFinished) controller.abort()
    })
  }
  return controller.signal
}

/** The body's JSON; undefined without a body. */
async function readJson(
  request: WebRequest | NodeRequest,
  most: number,
  problems: RequestProblem[],
): Promise<unknown> {
  const wrong = (code: RequestErrorCode, path: string, message: string) => {
    problems.push({ code, path, message })
  }
  const tooLarge = () => wrong('body_too_large', 'body', `has more than ${most} bytes`)
  if (Number(header(request, 'content-length') ?? 0) > most) return tooLarge()
  const bytes = isWebRequest(request)
    ? await webBytes(request, most)
    : await nodeBytes(request, most)
  if (bytes === null) return tooLarge()
  if (bytes.length === 0) return undefined
  // A page of another origin may send plain text without asking, but not JSON.
  if (!JSON_TYPE.test(header(request, 'content-type') ?? '')) {
    wrong('unsupported_media_type', 'headers.content-type', 'is not `application/json`')
  }
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  } catch {
    return wrong('invalid_json', 'body', 'is not JSON in UTF-8')
  }
}

/** What the schema makes of a body. */
async function checked<Body>(
  json: unknown,
  schema: StandardSchema<unknown, Body> | undefined,
  problems: RequestProblem[],
): Promise<unknown> {
  if (schema === undefined) return json
  const result = await schema['~standard'].validate(json)
  if (result.issues === undefined) return result.value
  for (const { message, path = [] } of result.issues.slice(0, MAX_ISSUES)) {
    const keys = path.map((part) => String(typeof part === 'object' ? part.key : part))
    problems.push({ code: 'invalid_body', path: ['body', ...keys].join('.'), message })
  }
  return undefined
}

export { fromRequest }
