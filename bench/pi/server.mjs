// An Anthropic server for the bench of pi's interfaces: answers made once, written as fast as they are read. It must never think.

import { createServer } from 'node:http'

const event = (data) => `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`
const usage = { input_tokens: 100, output_tokens: 1 }
const start = event({
  type: 'message_start',
  message: { id: 'msg_1', type: 'message', role: 'assistant', model: 'm', content: [], usage },
})
const end = (stop_reason) =>
  event({ type: 'message_delta', delta: { stop_reason }, usage: { output_tokens: 7 } }) +
  event({ type: 'message_stop' })
const text = (parts) =>
  event({ type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } }) +
  parts
    .map((text) =>
      event({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } }),
    )
    .join('') +
  event({ type: 'content_block_stop', index: 0 })
const call = (id, parts) =>
  event({
    type: 'content_block_start',
    index: 0,
    content_block: { type: 'tool_use', id, name: 'look', input: {} },
  }) +
  parts
    .map((partial_json) =>
      event({
        type: 'content_block_delta',
        index: 0,
        delta: { type: 'input_json_delta', partial_json },
      }),
    )
    .join('') +
  event({ type: 'content_block_stop', index: 0 })

const TOKENS = 20_000
const ARGUMENTS = JSON.stringify({ text: 'abcdefghijklmno '.repeat(12_500) })
const pieces = ARGUMENTS.match(/.{1,16}/gs)
const bodies = {
  tokens: start + text(Array(TOKENS).fill('token ')) + end('end_turn'),
  one: start + text(['one']) + end('end_turn'),
  arguments: start + call('toolu_0', pieces) + end('tool_use'),
}

/** A tool call in each of `rounds`, then a text. */
function round(body) {
  const results = body.match(/"tool_result"/g)?.length ?? 0
  const rounds = Number(/rounds (\d+)/.exec(body)?.[1] ?? 0)
  return results < rounds ? start + call(`toolu_${results}`, ['{}']) + end('tool_use') : bodies.one
}

const server = createServer((request, response) => {
  const chunks = []
  request.on('data', (chunk) => chunks.push(chunk))
  request.on('end', () => {
    const body = Buffer.concat(chunks).toString('utf8')
    const name = /bench:(\w+)/.exec(body)?.[1]
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.end(name === 'rounds' ? round(body) : bodies[name])
  })
})
server.listen(0, '127.0.0.1', () => process.send(server.address().port))
