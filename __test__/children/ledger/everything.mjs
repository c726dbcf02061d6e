// Writes a ledger with a row of every kind, only through the public API, with its own server. Arguments: `build FILE`, which
// ends in the middle of a tool and is then killed from outside, or `next FILE`, which prints the messages of the next request
// of every session, a line each. It must never use an option that the first version did not have.
import { createServer } from 'node:http'
import { AgentEngine } from '../../../index.js'
import { context } from '../common.mjs'

const [mode, file] = process.argv.slice(2)

const event = (type, data) => `event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`
const start = (input, cached = 0) =>
  event('message_start', {
    message: {
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      model: 'claude-test',
      content: [],
      stop_reason: null,
      usage: {
        input_tokens: input,
        output_tokens: 1,
        cache_read_input_tokens: cached,
        cache_creation_input_tokens: 40,
      },
    },
  })
const block = (index, content_block, ...deltas) =>
  event('content_block_start', { index, content_block }) +
  deltas.map((delta) => event('content_block_delta', { index, delta })).join('') +
  event('content_block_stop', { index })
const end = (stop_reason) =>
  event('message_delta', {
    delta: { stop_reason, stop_sequence: null },
    usage: { output_tokens: 42 },
  }) + event('message_stop', {})
const thinks = (index, text) =>
  block(
    index,
    { type: 'thinking', thinking: '', signature: '' },
    { type: 'thinking_delta', thinking: text },
    { type: 'signature_delta', signature: 'c2lnbmF0dXJl' },
  )
const replyWith = (text, cached) =>
  start(900, cached) +
  block(
    0,
    { type: 'text', text: '' },
    { type: 'text_delta', text: text.slice(0, 7) },
    { type: 'text_delta', text: text.slice(7) },
  ) +
  end('end_turn')
const calls = (...requested) =>
  start(1200, 600) +
  thinks(0, 'Which tool is right here?') +
  requested
    .map(([id, name, input], at) =>
      block(
        at + 1,
        { type: 'tool_use', id, name, input: {} },
        { type: 'input_json_delta', partial_json: JSON.stringify(input) },
      ),
    )
    .join('') +
  end('tool_use')
const refuses = (status, type, headers = {}) => ({
  status,
  headers,
  body: JSON.stringify({ type: 'error', error: { type, message: `${type} for a test` } }),
})

const summary = [
  'Goal\nA house.',
  'Constraints & preferences\nCheap.',
  'Progress\nWalls.',
  'Key decisions\nBricks.',
  'Next steps\nThe roof.',
  'Critical context\n(none)',
]
  .map((part) => `## ${part}`)
  .join('\n\n')

const replies = []
const requests = []
const server = createServer((request, response) => {
  const chunks = []
  request.on('data', (chunk) => chunks.push(chunk))
  request.on('end', () => {
    requests.push(JSON.parse(Buffer.concat(chunks).toString('utf8')))
    const reply = replies.shift() ?? replyWith('and so on')
    if (typeof reply === 'string') {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).end(reply)
    } else {
      response
        .writeHead(reply.status, { 'content-type': 'application/json', ...reply.headers })
        .end(reply.body)
    }
  })
})
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))

const large = `A page of ${'the same words again and again, '.repeat(2_300)}`
const tools = ['look', 'write'].map((name) => ({
  name,
  description: `Can ${name}.`,
  replay: name === 'look' ? 'pure' : 'unsafe',
  parameters: { type: 'object', properties: { at: { type: 'string' } } },
  run: async ({ at }) => {
    if (at === 'never') {
      process.stdout.write('ready\n')
      await new Promise(() => setInterval(() => {}, 1_000))
    }
    return at === 'large' ? { page: large, at } : { [name]: at, of: ['one', 'two'] }
  },
}))

const model = {
  provider: 'test',
  id: 'test-model',
  contextWindow: 400_000,
  maxOutputTokens: 4_000,
  cost: { input: 3, output: 15, cacheRead: 0.3, cacheWrite: 3.75 },
}
const engine = new AgentEngine({
  providers: {
    test: { api: 'anthropic-messages', baseUrl: `http://127.0.0.1:${server.address().port}` },
  },
  authProfiles: ['first', 'second'].map((id) => ({
    id,
    provider: 'test',
    type: 'api_key',
    key: `sk-test-${id}`,
  })),
  models: [model],
  ledger: { path: file },
})

async function run(label, content, ...script) {
  replies.push(...script)
  const result = await engine.run(
    context({ sessionLabel: label, tools, currentMessage: { role: 'user', content } }),
  ).result
  if (!result.persisted) throw new Error(`not persisted: ${JSON.stringify(result.warnings)}`)
  return result
}

async function build() {
  const main = 'agent:alice:main'
  const first = await run(
    main,
    'What is in the house?',
    calls(['toolu_1', 'look', { at: 'hall' }], ['toolu_2', 'write', { at: 'list' }]),
    replyWith('A hall, and a list of what is in it.', 800),
  )
  const image = {
    type: 'image',
    mimeType: 'image/png',
    data: Buffer.from('an image of a house').toString('base64'),
  }
  await run(
    main,
    [{ type: 'text', text: 'Read this.' }, { type: 'text', text: large }, image],
    calls(['toolu_3', 'look', { at: 'large' }]),
    replyWith('It is the same page.', 5_000),
  )
  // One profile is refused, and another answers; later a call fails permanently.
  await run(
    'agent:alice:second',
    'Is anybody there?',
    refuses(429, 'rate_limit_error', { 'retry-after': '600' }),
    replyWith('Somebody is.'),
  )
  await run('agent:alice:second', 'And now?', refuses(400, 'invalid_request_error'))
  await run('agent:alice:second', 'And then?', replyWith('Then there was light.', 4_000))
  await run('agent:alice:third', 'How many windows?', replyWith('Four windows.'))
  for (const [at, what] of ['first', 'second', 'third', 'fourth'].entries()) {
    await run(
      'agent:bob:main',
      `The ${what} of the stories, told at length: ${'once upon a time '.repeat(40 + at)}`,
      replyWith(`That was the ${what}. ${'And they lived happily. '.repeat(30)}`),
    )
  }
  replies.push(replyWith(summary))
  if ((await engine.compact('agent:bob:main')) === null) throw new Error('not compacted')
  await run(
    'agent:bob:main',
    'And the fifth?',
    calls(['toolu_4', 'look', { at: 'fifth' }]),
    replyWith('The fifth is short.'),
  )
  const [call] = first.toolCalls
  await engine.ledger.fork(first.turnId, { label: 'fork of a turn' })
  await engine.ledger.fork(first.turnId, { label: 'fork of a call', atToolCall: call.callId })
  await engine.ledger.alias('home', main)
  await engine.ledger.alias('house', 'home')
  await engine.ledger.putPersona('alice')
  await engine.ledger.putPersona('carol', { mainSessionLabel: 'agent:carol:desk' })
  await engine.ledger.archive('agent:alice:third')
  // More messages than may wait for the search index.
  const messages = Array.from({ length: 300 }, (_, sequence) => ({
    id: `m${sequence}`,
    role: sequence % 2 === 0 ? 'user' : 'assistant',
    content: `line ${sequence} speaks of word${sequence % 37} and of brick${sequence}`,
    sequence,
    createdAt: 1_780_000_000_000 + sequence,
  }))
  const usage = {
    inputTokens: 1,
    outputTokens: 2,
    cachedInputTokens: 3,
    cacheWriteTokens: 4,
    reasoningTokens: 5,
    totalTokens: 15,
  }
  await engine.ledger.writeTurn(
    context({
      sessionLabel: 'written',
      permissionsGranted: [{ may: 'read', what: '/tmp' }],
      sourceEventId: 'event-1',
    }),
    {
      messages,
      toolCalls: [],
      usage,
      stopReason: 'end_turn',
      durationMs: 1,
    },
  )
  const found = await engine.ledger.search('brick7')
  if (found.items.length !== 1) throw new Error(`not found: ${JSON.stringify(found)}`)
  await run('written', 'What of brick7?', replyWith('It is red.', 9_000))
  // It never ends.
  await run(
    'interrupted',
    'Begin, and be interrupted.',
    calls(['toolu_5', 'look', { at: 'door' }]),
    calls(['toolu_6', 'look', { at: 'window' }], ['toolu_7', 'look', { at: 'never' }]),
  )
}

async function next() {
  const print = (label, of) => process.stdout.write(`${label}: ${JSON.stringify(of.messages)}\n`)
  const labels = [
    'agent:alice:main',
    'agent:alice:second',
    'agent:bob:main',
    'fork of a turn',
    'fork of a call',
    'written',
  ]
  for (const label of labels) {
    await run(label, 'What comes next?')
    print(label, requests.at(-1))
  }
  for (const { turnId, sessionLabel } of await engine.recover()) {
    replies.push(replyWith('It went on.'))
    const resumed = await engine.resume(turnId, {
      tools: tools.map((tool) => ({ ...tool, run: () => 'at last' })),
    })
    const { stopReason } = await resumed.result
    if (stopReason !== 'end_turn') throw new Error(`resumed to ${stopReason}`)
    print(sessionLabel, requests.at(-1))
  }
  const { problems } = await engine.ledger.verify()
  if (problems.length > 0) throw new Error(JSON.stringify(problems))
}

await (mode === 'build' ? build() : next())
await engine.close()
server.close()
