// Provider-run calls that resemble calls of the context: they are identified by the tools of the request and by the provider's
// result. A call of an unknown tool without a result fails as one, and must never be dropped.

import { describe, expect, test } from 'vitest'
import type { AgentResult, AssembledContext } from '../../../index.js'
import { closing, folder, serving } from '../../support/cleanup.js'
import { context, engineAt } from '../../support/engine.js'
import { anthropic } from '../../support/servers/anthropic.js'
import { bedrock, eventStream } from '../../support/servers/bedrock.js'
import { chat } from '../../support/servers/chat.js'
import { google } from '../../support/servers/google.js'
import { type Item, responses } from '../../support/servers/responses.js'
import { type Handler, sse } from '../../support/servers/server.js'
import { answerText, type WireApi, wireApis } from '../../support/servers/wire-apis.js'

const read = { name: 'read', parameters: { type: 'object' }, run: () => 'content' }

/** Runs one turn against these answers, and then another; its request replays the first. */
async function played(
  api: string,
  answers: Handler[],
  after: Handler,
  changes: Partial<AssembledContext> = {},
  provider: Record<string, unknown> = {},
) {
  const server = await serving(...answers)
  const engine = closing(
    engineAt(server.url, { ledger: { path: folder().file } }, { api, ...provider }),
  )
  const result: AgentResult = await engine.run(context({ tools: [read], ...changes })).result
  const requests = server.seen.length
  server.use(after)
  await engine.run(
    context({ tools: [read], currentMessage: { role: 'user', content: 'and now?' }, ...changes }),
  ).result
  const replay = server.seen.at(-1)
  if (replay === undefined) throw new Error('nothing was requested')
  return { result, requests, replay }
}

const custom = (id: string, name: string, fields: object = {}): Item => ({
  type: 'custom_tool_call',
  id,
  call_id: `xs_${id}`,
  name,
  input: '{"query":"engines","limit":10}',
  status: 'completed',
  ...fields,
})

const streamed = (index: number, item: Item, delta: string) =>
  responses.added(index, { ...item, input: '', status: 'in_progress' }) +
  responses.event('response.custom_tool_call_input.delta', {
    output_index: index,
    item_id: item.id,
    delta,
  }) +
  responses.event('response.custom_tool_call_input.done', {
    output_index: index,
    item_id: item.id,
    input: delta,
  }) +
  responses.done(index, item)

describe('responses', () => {
  const search = custom('ctc_1', 'x_keyword_search')
  const page = custom('ctc_2', 'x_thread_fetch')
  const finalMessage = responses.message('msg_1', 'Two engines.')
  const input = String(search.input)
  const answer = sse(
    responses.created() +
      streamed(0, search, input) +
      streamed(1, page, input) +
      responses.added(2, { ...finalMessage, content: [] }) +
      responses.text(2, 'msg_1', 'Two ', 'engines.') +
      responses.done(2, finalMessage) +
      responses.completed([search, page, finalMessage]),
  )
  const tools = [{ type: 'x_search' }]

  test.each([
    ['where the request offered its tools', tools],
    ['where the model goes on with their results', undefined],
  ])('a search that came as custom calls is the provider’s %s', async (_, providerTools) => {
    const changes = providerTools === undefined ? {} : { providerTools }
    const { result, requests, replay } = await played(
      'openai-responses',
      [answer],
      sse(responses.answer('ok')),
      changes,
    )
    expect(result.stopReason).toBe('end_turn')
    expect(answerText(result)).toBe('Two engines.')
    expect(result.toolCalls).toEqual([])
    expect(requests).toBe(1)
    const items = replay.body.input.filter((it: Item) => it.type === 'custom_tool_call')
    expect(items).toEqual([search, page])
    expect(replay.body.input.map((it: Item) => it.type)).toEqual([
      'message',
      'custom_tool_call',
      'custom_tool_call',
      'message',
      'message',
    ])
  })

  test('a function call with an output from the provider is the provider’s', async () => {
    const call = responses.call('fc_1', 'call_1', 'lookup', { q: 1 })
    const output: Item = {
      type: 'function_call_output',
      id: 'fco_1',
      call_id: 'call_1',
      output: 'found',
    }
    const { result, requests, replay } = await played(
      'openai-responses',
      [sse(responses.of(call, output, finalMessage))],
      sse(responses.answer('ok')),
    )
    expect([result.stopReason, answerText(result), requests]).toEqual([
      'end_turn',
      'Two engines.',
      1,
    ])
    expect(result.toolCalls).toEqual([])
    expect(replay.body.input.slice(1, 3)).toEqual([call, output])
  })

  test('provider-run calls do not affect a call of the context beside them', async () => {
    const ours = responses.call('fc_1', 'call_1', 'read', {})
    const { result, requests } = await played(
      'openai-responses',
      [sse(responses.of(search, ours)), sse(responses.answer('done'))],
      sse(responses.answer('ok')),
      { providerTools: tools },
    )
    expect([result.stopReason, requests]).toEqual(['end_turn', 2])
    expect(result.toolCalls.map((it) => [it.toolName, it.status])).toEqual([['read', 'completed']])
  })

  test('a whole answer in JSON is decoded alike', async () => {
    const body = {
      id: 'resp_1',
      object: 'response',
      status: 'completed',
      model: 'grok',
      output: [search, finalMessage],
      usage: responses.usage(12, 3),
    }
    const { result, requests } = await played(
      'openai-responses',
      [
        (response) =>
          response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body)),
      ],
      sse(responses.answer('ok')),
    )
    expect([result.stopReason, answerText(result), requests]).toEqual([
      'end_turn',
      'Two engines.',
      1,
    ])
  })

  test('a custom call that a host described as the client’s is a call', async () => {
    const { result, requests } = await played(
      'openai-responses',
      [sse(responses.of(custom('ctc_1', 'patch'))), sse(responses.answer('done'))],
      sse(responses.answer('ok')),
      { providerTools: [{ type: 'custom', name: 'patch' }, { type: 'web_search' }] },
    )
    expect(requests).toBe(2)
    expect(result.toolCalls.map((it) => [it.toolName, it.status])).toEqual([['patch', 'failed']])
  })

  test('the provider’s own items are no calls: searches, interpreters, images, MCP', async () => {
    const items: Item[] = [
      'web_search_call',
      'file_search_call',
      'code_interpreter_call',
      'image_generation_call',
      'mcp_list_tools',
      'mcp_call',
      'x_search_call',
    ].map((type, at) => ({ type, id: `it_${at}`, status: 'completed', action: { a: [1, 2] } }))
    const { result, requests, replay } = await played(
      'openai-responses',
      [sse(responses.of(...items, finalMessage))],
      sse(responses.answer('ok')),
    )
    expect([result.stopReason, answerText(result), requests]).toEqual([
      'end_turn',
      'Two engines.',
      1,
    ])
    expect(replay.body.input.slice(1, 8)).toEqual(items)
  })
})

describe('anthropic', () => {
  const block = (index: number, raw: object) =>
    anthropic.blockStart(index, raw) + anthropic.blockStop(index)

  test.each(['tool_result', 'web_search_tool_result'])(
    'a plain call whose `%s` is in the same answer is the provider’s',
    async (type) => {
      const call = { type: 'tool_use', id: 'call_1', name: 'web_search', input: { q: 'engines' } }
      const found = { type, tool_use_id: 'call_1', content: [{ type: 'text', text: 'found' }] }
      const { result, requests, replay } = await played(
        'anthropic-messages',
        [
          sse(
            anthropic.start(),
            anthropic.blockStart(0, { ...call, input: {} }),
            anthropic.delta(0, { type: 'input_json_delta', partial_json: '{"q":' }),
            anthropic.delta(0, { type: 'input_json_delta', partial_json: '"engines"}' }),
            anthropic.blockStop(0),
            block(1, found),
            anthropic.text(2, 'Two engines.'),
            anthropic.end('end_turn'),
          ),
        ],
        sse(anthropic.answer('ok')),
      )
      expect([result.stopReason, answerText(result), requests]).toEqual([
        'end_turn',
        'Two engines.',
        1,
      ])
      expect(result.toolCalls).toEqual([])
      expect(replay.body.messages[1]).toEqual({
        role: 'assistant',
        content: [call, found, { type: 'text', text: 'Two engines.' }],
      })
    },
  )

  test('a `server_tool_use` is sent back with its plain `tool_result`', async () => {
    const call = { type: 'server_tool_use', id: 's_1', name: 'reader', input: { url: 'x' } }
    const found = { type: 'tool_result', tool_use_id: 's_1', content: 'page' }
    const { result, replay } = await played(
      'anthropic-messages',
      [
        sse(
          anthropic.start(),
          block(0, call),
          block(1, found),
          anthropic.text(2, 'Read.'),
          anthropic.end('end_turn'),
        ),
      ],
      sse(anthropic.answer('ok')),
    )
    expect(result.stopReason).toBe('end_turn')
    expect(replay.body.messages[1].content.slice(0, 2)).toEqual([call, found])
  })
})

describe('google', () => {
  test('a call whose response is in the same answer is the provider’s', async () => {
    const call = {
      functionCall: { id: 'c1', name: 'lookup', args: { q: 1 } },
      thoughtSignature: 's==',
    }
    const found = { functionResponse: { id: 'c1', name: 'lookup', response: { output: 'x' } } }
    const { result, requests, replay } = await played(
      'google-generative-ai',
      [sse(google.parts(call), google.parts(found), google.answer('Found.'))],
      sse(google.answer('ok')),
    )
    expect([result.stopReason, answerText(result), requests]).toEqual(['end_turn', 'Found.', 1])
    expect(result.toolCalls).toEqual([])
    expect(replay.body.contents[1].parts).toEqual([call, found, { text: 'Found.' }])
  })

  test('code that the provider ran and tools it called are sent back unchanged', async () => {
    const parts = [
      { executableCode: { language: 'PYTHON', code: 'print(1)', id: 'e1' } },
      { codeExecutionResult: { outcome: 'OUTCOME_OK', output: '1\n', id: 'e1' } },
      {
        toolCall: { id: 't1', toolType: 'GOOGLE_SEARCH_WEB', args: { queries: ['a'] } },
        thoughtSignature: 'q==',
      },
      { toolResponse: { id: 't1', toolType: 'GOOGLE_SEARCH_WEB', response: { a: 1 } } },
    ]
    const { result, requests, replay } = await played(
      'google-generative-ai',
      [sse(google.parts(...parts), google.answer('One.'))],
      sse(google.answer('ok')),
    )
    expect([result.stopReason, answerText(result), requests]).toEqual(['end_turn', 'One.', 1])
    expect(replay.body.contents[1].parts).toEqual([...parts, { text: 'One.' }])
  })
})

describe('bedrock', () => {
  test('a call whose result is in the same answer is the provider’s', async () => {
    const { result, requests, replay } = await played(
      'bedrock-converse',
      [
        eventStream(
          bedrock.start(),
          bedrock.toolUse(0, 'tu_1', 'nova_grounding', '{"q":', '1}'),
          bedrock.event('contentBlockStart', {
            contentBlockIndex: 1,
            start: { toolResult: { toolUseId: 'tu_1', status: 'success' } },
          }),
          bedrock.delta(1, { toolResult: [{ text: 'found' }] }),
          bedrock.close(1),
          bedrock.text(2, 'Found.'),
          bedrock.stop('end_turn'),
          bedrock.usage(12, 3),
        ),
      ],
      eventStream(bedrock.answer('ok')),
      {},
      { region: 'us-east-1' },
    )
    expect([result.stopReason, answerText(result), requests]).toEqual(['end_turn', 'Found.', 1])
    expect(result.toolCalls).toEqual([])
    expect(replay.body.messages[1].content).toEqual([
      { toolUse: { toolUseId: 'tu_1', name: 'nova_grounding', input: { q: 1 } } },
      { toolResult: { toolUseId: 'tu_1', status: 'success', content: [{ text: 'found' }] } },
      { text: 'Found.' },
    ])
  })
})

describe('chat', () => {
  const call = (fields: object) => ({
    index: 0,
    type: 'function',
    function: { name: 'web_search', arguments: '{"query":"engines"}' },
    ...fields,
  })

  test.each([
    ['an id of Anthropic’s own tools', { id: 'srvtoolu_01AbC' }],
    ['a type that no client has', { id: 'call_1', type: 'web_search' }],
  ])('a call with %s is the provider’s', async (_, fields) => {
    const { result, requests, replay } = await played(
      'openai-chat',
      [
        sse(
          chat.delta({ role: 'assistant', tool_calls: [call(fields)] }),
          chat.delta({ content: 'Two engines.' }),
          chat.finish('stop'),
          chat.usage(12, 3),
          chat.done(),
        ),
      ],
      sse(chat.answer('ok')),
    )
    expect([result.stopReason, answerText(result), requests]).toEqual([
      'end_turn',
      'Two engines.',
      1,
    ])
    expect(result.toolCalls).toEqual([])
    expect(replay.body.messages[2]).toEqual({ role: 'assistant', content: 'Two engines.' })
    const resultBlocks = result.messages.flatMap((message) => message.blocks)
    expect(resultBlocks.filter((block) => block.type === 'opaque')).toHaveLength(1)
  })

  test('tools that a gateway reports as executed are no calls', async () => {
    const executed = [{ index: 0, type: 'search', arguments: '{"query":"a"}', output: 'found' }]
    const { result, requests } = await played(
      'openai-chat',
      [
        sse(
          chat.delta({ role: 'assistant', executed_tools: executed }),
          chat.delta({ content: 'Found.' }),
          chat.finish('stop'),
          chat.done(),
        ),
      ],
      sse(chat.answer('ok')),
    )
    expect([result.stopReason, answerText(result), requests]).toEqual(['end_turn', 'Found.', 1])
  })
})

describe.each(wireApis)('a call of an unknown tool, of $api', (wire: WireApi) => {
  test('is reported to the model as unknown, and the run continues', async () => {
    const { result, requests } = await played(
      wire.api,
      [
        wire.calls([
          ['call1', 'nobody'],
          ['call2', 'read'],
        ]),
        wire.answer('Then without.'),
      ],
      wire.answer('ok'),
      {},
      wire.provider,
    )
    expect([result.stopReason, answerText(result), requests]).toEqual([
      'end_turn',
      'Then without.',
      2,
    ])
    expect(result.toolCalls.map((it) => [it.id, it.toolName, it.status])).toEqual([
      ['call1', 'nobody', 'failed'],
      ['call2', 'read', 'completed'],
    ])
  })
})
