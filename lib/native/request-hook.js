// The caller's look at a request before it is sent, made ready to cross.
// It must never throw, and never change what the caller returned.

import { messageOf } from '../values/errors.js'
import * as hub from './hub.js'

/** Characters of a body: more than any provider takes. */
const MAX_BODY = 256 * 1024 * 1024

/** What `onRequest` makes of a request: a JSON body, nothing to send it as it is, or the words of an error. */
async function look(onRequest, request) {
  try {
    const body = await onRequest(request)
    if (body === undefined) return {}
    if (body === null || typeof body !== 'object' || Array.isArray(body)) {
      const what = body === null ? 'null' : Array.isArray(body) ? 'a list' : `a ${typeof body}`
      return { error: `it returned ${what}; return the body to send, or nothing` }
    }
    const json = JSON.stringify(body)
    if (json?.length > MAX_BODY) return { error: `its body has more than ${MAX_BODY} characters` }
    return json === undefined ? { error: 'it returned an object without JSON' } : { body: json }
  } catch (error) {
    return { error: messageOf(error, 'it') }
  }
}

/** Sends a request to the native side whose own requests `onRequest` looks at, where there is one. */
async function lookedAt(native, onRequest, send) {
  if (onRequest === undefined) return hub.request((id) => send(id, false))
  let hook
  try {
    return await hub.request((id) => {
      hook = id
      hub.addHook(id, (number, request) => {
        look(onRequest, request).then(({ body, error }) => native.answerLook(number, body, error))
      })
      send(id, true)
    })
  } finally {
    hub.removeHook(hook)
  }
}

export { look, lookedAt }
