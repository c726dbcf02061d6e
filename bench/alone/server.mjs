// A mock model for machines without the shared bench: it streams what the model's name describes, on loopback.
// Its answer must depend on the request only, so that two runs get the same bytes.
// Names: claude-mock-n<tokens>-b<bytes a token>-c1 (one write)-r<tokens/s>-t<tool rounds>-p<parallel calls>-a<argument bytes>

import http from 'node:http'

const FRAGMENT = 16

const server = http.createServer((request, response) => {
  const parts = []
  request.on('data', (part) => parts.push(part))
  request.on('end', () => answer(request.url, Buffer.concat(parts).toString('latin1'), response))
})
server.keepAliveTimeout = 600_000
server.listen(0, '127.0.0.1', () => process.stdout.write(`${server.address().port}\n`))
process.on('disconnect', () => process.exit(0))

function answer(url, body, response) {
  const chat = url.includes('/chat/completions')
  const requested = controls(/"model":"[^"]*mock-([^"]*)"/.exec(body)?.[1] ?? '')
  const results = body.split(chat ? '"role":"tool"' : '"type":"tool_result"').length - 1
  const round = Math.floor(results / requested.p)
  const { before, deltas, after } = (chat ? chatEvents : anthropicEvents)(requested, round)
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' })
  if (requested.r > 0) pace(response, before, deltas, after, requested.r)
  else if (requested.c === 1) response.end([...before, ...deltas, ...after].join(''))
  else {
    for (const event of [...before, ...deltas, ...after]) response.write(event)
    response.end()
  }
}

function controls(name) {
  const requested = { n: 1, b: 4, c: 0, r: 0, t: 0, p: 1, a: 0 }
  for (const part of name.split('-')) {
    if (part[0] in requested && /^\d+$/.test(part.slice(1)))
      requested[part[0]] = Number(part.slice(1))
  }
  return requested
}

function pace(response, before, deltas, after, rate) {
  const start = performance.now()
  let sent = 0
  response.write(before.join(''))
  const next = () => {
    const due = Math.min(deltas.length, Math.floor(((performance.now() - start) * rate) / 1000) + 1)
    while (sent < due) response.write(deltas[sent++])
    if (sent === deltas.length) response.end(after.join(''))
    else setTimeout(next, start + (sent * 1000) / rate - performance.now())
  }
  next()
}

/** A space and letters that depend on the position only. */
function token(at, bytes) {
  let text = ' '
  for (let x = at; text.length < bytes; x = Math.floor(x / 26) + 7)
    text += String.fromCharCode(97 + (x % 26))
  return text
}

function calls({ p, a }, round) {
  return Array.from({ length: p }, (_, index) => {
    const x = round * 100 + index
    const json = JSON.stringify(a > 0 ? { x, pad: 'abcdefghij'.repeat(Math.ceil(a / 10)) } : { x })
    const fragments = []
    for (let at = 0; at < json.length; at += FRAGMENT) fragments.push(json.slice(at, at + FRAGMENT))
    return { index, fragments }
  })
}

function anthropicEvents(requested, round) {
  const event = (type, fields) => `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`
  const delta = (index, fields) => event('content_block_delta', { index, delta: fields })
  const usage = {
    input_tokens: 100,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: 0,
    output_tokens: 1,
  }
  const message = {
    id: `msg_${round}`,
    type: 'message',
    role: 'assistant',
    model: 'mock',
    content: [],
    usage,
  }
  const before = [event('message_start', { message }), event('ping', {})]
  const end = (stop_reason) => [
    event('message_delta', {
      delta: { stop_reason, stop_sequence: null },
      usage: { output_tokens: requested.n },
    }),
    event('message_stop', {}),
  ]
  if (round < requested.t) {
    const deltas = calls(requested, round).flatMap(({ index, fragments }) => {
      const content_block = {
        type: 'tool_use',
        id: `toolu_${round}_${index}`,
        name: 'noop',
        input: {},
      }
      return [
        event('content_block_start', { index, content_block }),
        ...fragments.map((partial_json) =>
          delta(index, { type: 'input_json_delta', partial_json }),
        ),
        event('content_block_stop', { index }),
      ]
    })
    return { before, deltas, after: end('tool_use') }
  }
  before.push(event('content_block_start', { index: 0, content_block: { type: 'text', text: '' } }))
  const deltas = Array.from({ length: requested.n }, (_, at) =>
    delta(0, { type: 'text_delta', text: token(at, requested.b) }),
  )
  return { before, deltas, after: [event('content_block_stop', { index: 0 }), ...end('end_turn')] }
}

function chatEvents(requested, round) {
  const chunk = (fields) =>
    `data: ${JSON.stringify({ id: `chat_${round}`, object: 'chat.completion.chunk', created: 1, model: 'mock', ...fields })}\n\n`
  const choice = (delta, finish_reason = null) =>
    chunk({ choices: [{ index: 0, delta, finish_reason }] })
  const before = [choice({ role: 'assistant', content: '' })]
  const usage = {
    prompt_tokens: 100,
    completion_tokens: requested.n,
    total_tokens: 100 + requested.n,
  }
  const end = (reason) => [choice({}, reason), chunk({ choices: [], usage }), 'data: [DONE]\n\n']
  if (round < requested.t) {
    const deltas = calls(requested, round).flatMap(({ index, fragments }) => [
      choice({
        tool_calls: [
          {
            index,
            id: `call_${round}_${index}`,
            type: 'function',
            function: { name: 'noop', arguments: '' },
          },
        ],
      }),
      ...fragments.map((text) =>
        choice({ tool_calls: [{ index, function: { arguments: text } }] }),
      ),
    ])
    return { before, deltas, after: end('tool_calls') }
  }
  const deltas = Array.from({ length: requested.n }, (_, at) =>
    choice({ content: token(at, requested.b) }),
  )
  return { before, deltas, after: end('stop') }
}
