// The caller's `onRequest`: called before a request is sent; its answer is prepared for the native side.
// It must never throw, and never change what the caller returned.

import type { NativeEngine } from '../../binding.d.ts'
import type { OnRequest, OutgoingRequest } from '../../index.d.ts'
import { messageOf } from '../values/errors.ts'
import * as hub from './hub.ts'

/** The maximum length of a body: more than any provider accepts. */
const MAX_BODY = 256 * 1024 * 1024

/** A JSON body, nothing to send the original request, or why it must not be sent. */
interface HookAnswer {
  body?: string
  error?: string
}

/** Calls `onRequest` and returns its answer. Never rejects. */
async function callRequestHook(
  onRequest: OnRequest,
  request: OutgoingRequest,
): Promise<HookAnswer> {
  try {
    const body: unknown = await onRequest(request)
    if (body === undefined) return {}
    if (body === null || typeof body !== 'object' || Array.isArray(body)) {
      const what = body === null ? 'null' : Array.isArray(body) ? 'a list' : `a ${typeof body}`
      return { error: `it returned ${what}; return the body to send, or nothing` }
    }
    const json: string | undefined = JSON.stringify(body)
    if (json === undefined) return { error: 'it returned an object without JSON' }
    if (json.length > MAX_BODY) return { error: `its body has more than ${MAX_BODY} characters` }
    return { body: json }
  } catch (error) {
    return { error: messageOf(error, 'it') }
  }
}

/** Sends a request to the native side. `onRequest`, where there is one, sees the requests to providers that it makes. */
async function requestWithHook<Answer>(
  native: NativeEngine,
  onRequest: OnRequest | undefined,
  send: (id: number, hooked: boolean) => void,
): Promise<Answer> {
  if (onRequest === undefined) return hub.request((id) => send(id, false))
  let hook: number | undefined
  try {
    return await hub.request((id) => {
      hook = id
      hub.addHook(id, (number, request) => {
        callRequestHook(onRequest, request).then(({ body, error }) =>
          native.answerLook(number, body, error),
        )
      })
      send(id, true)
    })
  } finally {
    if (hook !== undefined) hub.removeHook(hook)
  }
}

export { callRequestHook, requestWithHook }
