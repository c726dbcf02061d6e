// Frames of Amazon's binary event stream, in the form of Bedrock Converse, and an independent Signature Version 4. It must never
// share code with the engine, which is compared with it.

import { createHash, createHmac } from 'node:crypto'
import type { Handler, Seen } from './server.js'

const table = Array.from({ length: 256 }, (_, byte) => {
  let value = byte
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1
  return value
})

/** CRC-32: Node has one, but not in every supported version. */
function crc32(bytes: Buffer): number {
  let value = 0xffffffff
  for (const byte of bytes) value = (value >>> 8) ^ (table[(value ^ byte) & 255] ?? 0)
  return (value ^ 0xffffffff) >>> 0
}

/** One frame: text headers, a payload, and both checksums. */
export function frame(headers: Record<string, string>, payload: unknown = ''): Buffer {
  const parts = Object.entries(headers).map(([name, value]) => {
    const text = Buffer.from(value)
    const length = Buffer.alloc(3)
    length.writeUInt8(7)
    length.writeUInt16BE(text.length, 1)
    return Buffer.concat([Buffer.from([name.length]), Buffer.from(name), length, text])
  })
  const head = Buffer.concat(parts)
  const body = Buffer.from(typeof payload === 'string' ? payload : JSON.stringify(payload))
  const prelude = Buffer.alloc(12)
  prelude.writeUInt32BE(head.length + body.length + 16)
  prelude.writeUInt32BE(head.length, 4)
  prelude.writeUInt32BE(crc32(prelude.subarray(0, 8)), 8)
  const covered = Buffer.concat([prelude, head, body])
  const checksum = Buffer.alloc(4)
  checksum.writeUInt32BE(crc32(covered))
  return Buffer.concat([covered, checksum])
}

const event = (name: string, payload: object) =>
  frame(
    { ':event-type': name, ':content-type': 'application/json', ':message-type': 'event' },
    { ...payload, p: 'abcdefgh' },
  )

const delta = (contentBlockIndex: number, piece: object) =>
  event('contentBlockDelta', { contentBlockIndex, delta: piece })

export const bedrock = {
  event,
  start: () => event('messageStart', { role: 'assistant' }),
  delta,
  close: (contentBlockIndex: number) => event('contentBlockStop', { contentBlockIndex }),
  text: (index: number, ...parts: string[]) =>
    Buffer.concat([...parts.map((text) => delta(index, { text })), bedrock.close(index)]),
  reasoning: (index: number, text: string, signature: string) =>
    Buffer.concat([
      delta(index, { reasoningContent: { text } }),
      delta(index, { reasoningContent: { signature } }),
      bedrock.close(index),
    ]),
  toolUse: (index: number, toolUseId: string, name: string, ...input: string[]) =>
    Buffer.concat([
      event('contentBlockStart', {
        contentBlockIndex: index,
        start: { toolUse: { toolUseId, name } },
      }),
      ...input.map((part) => delta(index, { toolUse: { input: part } })),
      bedrock.close(index),
    ]),
  stop: (stopReason: string) => event('messageStop', { stopReason }),
  usage: (inputTokens: number, outputTokens: number, more: object = {}) =>
    event('metadata', {
      usage: { inputTokens, outputTokens, totalTokens: inputTokens + outputTokens, ...more },
      metrics: { latencyMs: 1 },
    }),
  exception: (name: string, payload: object) =>
    frame(
      {
        ':exception-type': name,
        ':content-type': 'application/json',
        ':message-type': 'exception',
      },
      payload,
    ),
  answer: (text: string) =>
    Buffer.concat([
      bedrock.start(),
      bedrock.text(0, text),
      bedrock.stop('end_turn'),
      bedrock.usage(12, 3),
    ]),
}

/** Answers with a whole binary event stream. */
export function eventStream(...frames: Buffer[]): Handler {
  return (response) => {
    response.writeHead(200, { 'content-type': 'application/vnd.amazon.eventstream' })
    response.end(Buffer.concat(frames))
  }
}

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')
const hmac = (key: string | Buffer, text: string) => createHmac('sha256', key).update(text).digest()

/** The expected `authorization` header of a request, from what the server received. */
export function expectedSignature(seen: Seen, accessKeyId: string, secret: string, region: string) {
  const date = String(seen.headers['x-amz-date'])
  const scope = `${date.slice(0, 8)}/${region}/bedrock/aws4_request`
  const names = ['content-type', 'host', 'x-amz-date', 'x-amz-security-token'].filter(
    (name) => seen.headers[name] !== undefined,
  )
  const encode = (text: string) =>
    encodeURIComponent(text).replace(
      /[!'()*]/g,
      (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
    )
  const canonical = [
    seen.method,
    seen.path.split('/').map(encode).join('/'),
    '',
    ...names.map((name) => `${name}:${seen.headers[name]}`),
    '',
    names.join(';'),
    sha256(seen.raw),
  ].join('\n')
  const toSign = ['AWS4-HMAC-SHA256', date, scope, sha256(canonical)].join('\n')
  let key: Buffer = hmac(`AWS4${secret}`, date.slice(0, 8))
  for (const part of [region, 'bedrock', 'aws4_request']) key = hmac(key, part)
  const signature = hmac(key, toSign).toString('hex')
  return `AWS4-HMAC-SHA256 Credential=${accessKeyId}/${scope}, SignedHeaders=${names.join(';')}, Signature=${signature}`
}
