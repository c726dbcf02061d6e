// The options of a UI message stream, read once. It must never let a misspelt option pass unnoticed.

import type { UIMessageResponseOptions, UIMessageStreamOptions } from '../../ai-sdk.d.ts'
import type { EventStream } from '../../web.d.ts'
import { checkNames, readResponseOptions, readStreamOptions, refuse } from '../web/options.ts'
import type { ReaderOptions } from '../web/source-reader.ts'

/** Those of the chunks; the others are options of every stream. */
const CHUNKS = [
  'messageId',
  'messageMetadata',
  'sendReasoning',
  'dynamicTools',
  'toolProgress',
  'data',
  'errorText',
] as const
const STREAM = [...CHUNKS, 'onDisconnect', 'onError', 'signal']
const RESPONSE = [...STREAM, 'lastEventId', 'heartbeatMs', 'headers', 'status']

function checkChunks(options: UIMessageStreamOptions): void {
  const { messageId } = options
  if (messageId !== undefined && typeof messageId !== 'string')
    refuse('messageId', 'is not a string')
  for (const name of ['sendReasoning', 'dynamicTools', 'toolProgress'] as const) {
    const value = options[name]
    if (value !== undefined && typeof value !== 'boolean') refuse(name, 'is not a boolean')
  }
  for (const name of ['messageMetadata', 'data', 'errorText'] as const) {
    const value = options[name]
    if (value !== undefined && typeof value !== 'function') refuse(name, 'is not a function')
  }
}

/** The options of the reader; objects need no heartbeat. */
function readStream(source: EventStream, options: UIMessageStreamOptions): ReaderOptions {
  checkNames(options, STREAM)
  checkChunks(options)
  const { onDisconnect, onError, signal } = options
  return readStreamOptions(source, { onDisconnect, onError, signal, heartbeatMs: 0 })
}

function readResponse(source: EventStream, options: UIMessageResponseOptions) {
  checkNames(options, RESPONSE)
  checkChunks(options)
  const { onDisconnect, onError, signal, lastEventId, heartbeatMs, status } = options
  const headers = { 'x-vercel-ai-ui-message-stream': 'v1', ...options.headers }
  const stream = { onDisconnect, onError, signal, lastEventId, heartbeatMs }
  const read = readResponseOptions(source, { ...stream, headers, status })
  return { ...read, lastEventId: read.stream.lastEventId as number }
}

export { readResponse, readStream }
