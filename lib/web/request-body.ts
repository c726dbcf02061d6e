// The bytes of a request's body, up to a limit. It must never hold more than the limit, nor destroy a socket that an answer still needs.

import type { NodeRequest, WebRequest } from '../../web.d.ts'

/** The body, or null where it is longer than `most` bytes. */
async function webBytes(request: WebRequest, most: number): Promise<Uint8Array | null> {
  if (request.body === null) return new Uint8Array()
  const reader = request.body.getReader()
  const chunks: Uint8Array[] = []
  let length = 0
  for (;;) {
    const { value, done } = await reader.read()
    if (done) return joined(chunks, length)
    length += value.length
    if (length > most) {
      await reader.cancel()
      return null
    }
    chunks.push(value)
  }
}

/** The same of Node.js: what is over the limit stays in the socket, and Node.js drops it after the answer. */
function nodeBytes(request: NodeRequest, most: number): Promise<Uint8Array | null> {
  return new Promise((resolve, reject) => {
    const chunks: Uint8Array[] = []
    let length = 0
    request.on('data', onData)
    request.on('end', onEnd)
    request.on('error', onError)
    request.on('close', onClose)

    function settle(): void {
      request.off('data', onData)
      request.off('end', onEnd)
      request.off('error', onError)
      request.off('close', onClose)
    }
    function onData(chunk: Uint8Array | string): void {
      const bytes = typeof chunk === 'string' ? new TextEncoder().encode(chunk) : chunk
      length += bytes.length
      if (length <= most) {
        chunks.push(bytes)
        return
      }
      settle()
      request.pause()
      resolve(null)
    }
    function onEnd(): void {
      settle()
      resolve(joined(chunks, length))
    }
    function onError(error: unknown): void {
      settle()
      reject(error)
    }
    function onClose(): void {
      onError(new Error('the client disconnected before its request had ended'))
    }
  })
}

function joined(chunks: readonly Uint8Array[], length: number): Uint8Array {
  const bytes = new Uint8Array(length)
  let at = 0
  for (const chunk of chunks) {
    bytes.set(chunk, at)
    at += chunk.length
  }
  return bytes
}

export { nodeBytes, webBytes }
