// What is wrong with a request, as one error. It must never add what a client sent.

import type {
  WebRequestError as Declared,
  RequestErrorCode,
  RequestIssue,
  RequestProblem,
} from '../../web.d.ts'

const STATUS: Record<RequestErrorCode, Declared['status']> = {
  body_too_large: 413,
  unsupported_media_type: 415,
  invalid_json: 400,
  invalid_body: 400,
  invalid_last_event_id: 400,
}

/** A request that cannot be used. All that is wrong is in `issues`; `code` and `status` are those of the first. */
class WebRequestError extends Error implements Declared {
  override readonly name = 'WebRequestError'
  readonly code: RequestErrorCode
  readonly status: Declared['status']
  readonly issues: readonly RequestIssue[]

  constructor(problems: readonly RequestProblem[]) {
    super(problems.map(({ path, message }) => `\`${path}\`: ${message}`).join('; '))
    this.code = problems[0]?.code ?? 'invalid_body'
    this.status = STATUS[this.code]
    this.issues = problems.map(({ path, message }) => ({ path, message }))
  }
}

export { WebRequestError }
