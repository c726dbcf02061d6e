// What MCP servers ask of their client: an input of the user, an answer of a model; over both forms of the protocol, and over HTTP. It must
// never start a server that is not its own.

import { createMcpHandler, inputRequired, McpServer } from '@modelcontextprotocol/server'
import { expect, test } from 'vitest'
import * as z from 'zod'
import { AgentEngine, type McpElicitation, type McpSampling } from '../../../index.js'
import { callbackWarnings } from '../../support/callback-warnings.js'
import { thrown } from '../../support/refusals.js'
import { callAll, engineWith, overFetch, scriptedServer } from '../../support/servers/mcp.js'
import { overHttp } from '../../support/servers/mcp-http.js'
import { callTools, deferred } from '../../support/tools.js'

const calls = callTools(['s__ask', {}])

test('a server is answered by the functions of the host, and told that it may ask', async () => {
  const seen: (McpElicitation | McpSampling)[] = []
  const s = scriptedServer(
    { asks: { message: 'Which?', messages: [], maxTokens: 9 } },
    {
      onElicitation: async (request) => {
        seen.push(request)
        return { action: 'accept', content: { name: 'Eve' } }
      },
      onSampling: (request) => {
        seen.push(request)
        return 'Bern'
      },
    },
  )
  const { texts } = await callAll(engineWith({ s }, [calls, 'done']))
  const sampled = {
    role: 'assistant',
    model: 'host',
    stopReason: 'endTurn',
    content: { type: 'text', text: 'Bern' },
  }
  expect(texts).toEqual([
    [
      'ping: {}',
      'roots/list: -32601',
      `sampling/createMessage: ${JSON.stringify(sampled)}`,
      'elicitation/create: {"action":"accept","content":{"name":"Eve"}}',
      'offered: {"elicitation":{},"sampling":{}}',
    ].join(', '),
  ])
  const asked = { message: 'Which?', messages: [], maxTokens: 9, server: 's' }
  expect(seen).toEqual([asked, asked])
})

test('without functions a server is told that there are none, and is declined', async () => {
  const { texts } = await callAll(engineWith({ s: scriptedServer() }, [calls, 'done']))
  expect(texts).toEqual([
    'ping: {}, roots/list: -32601, sampling/createMessage: -32601, elicitation/create: {"action":"decline"}, offered: {}',
  ])
})

test.each<[string, () => never, string, string]>([
  [
    'throws',
    () => {
      throw new Error('database password')
    },
    '-1',
    '{"action":"cancel"}',
  ],
  ['returns what is no answer', () => 7 as never, '-1', '{"action":"cancel"}'],
])(
  'a function that %s is a process warning, and the server does not learn why',
  async (_, given, sampling, elicitation) => {
    const warnings = callbackWarnings()
    const s = scriptedServer({}, { onElicitation: given, onSampling: given })
    const { texts } = await callAll(engineWith({ s }, [calls, 'done']))
    expect(texts[0]).toContain(
      `sampling/createMessage: ${sampling}, elicitation/create: ${elicitation}`,
    )
    await new Promise((resolve) => setImmediate(resolve))
    expect(warnings.map(({ message }) => message.split(' failed:')[0])).toEqual([
      '`onSampling` of MCP server `s`',
      '`onElicitation` of MCP server `s`',
    ])
  },
)

test('a question that nobody answers ends with its call, and with the engine', async () => {
  let asked = () => {}
  const called = new Promise<void>((resolve) => {
    asked = resolve
  })
  const onElicitation = () => {
    asked()
    return new Promise<never>(() => {})
  }
  const s = scriptedServer({}, { onElicitation })
  const { engine } = engineWith({ s }, [calls])
  const running = callAll({ engine, provider: { requests: [] } as never }).catch(() => {})
  await called
  await engine.abortAll()
  await running
  await engine.close()
})

test('a result that asks for input is called again with the answers and the state of the server', async () => {
  const seen: unknown[] = []
  const s = scriptedServer(
    { modern: true },
    {
      protocol: '2026-07-28',
      onElicitation: (request) => {
        seen.push(request.message)
        return { action: 'accept', content: { n: seen.length } }
      },
    },
  )
  const { texts } = await callAll(
    engineWith({ s }, [
      callTools(['s__rounds', { rounds: 3 }], ['s__rounds', { rounds: 50 }]),
      'done',
    ]),
  )
  expect(texts).toEqual([
    'state 3: {"n":1} {"n":2} {"n":3}',
    'error: MCP server `s` asks for input without an end',
  ])
  expect(seen.slice(0, 3)).toEqual(['round 1', 'round 2', 'round 3'])
  expect(seen).toHaveLength(13)

  const none = scriptedServer({ modern: true }, { protocol: '2026-07-28' })
  const declined = await callAll(
    engineWith({ s: none }, [callTools(['s__rounds', { rounds: 1 }]), 'done']),
  )
  expect(declined.texts).toEqual(['state 1: "decline"'])
})

test('the library of the protocol asks over HTTP, in its newest form', async () => {
  const handler = createMcpHandler(() => {
    const server = new McpServer({ name: 'asking', version: '1' })
    server.registerTool('book', { inputSchema: z.object({}) }, async (_args, ctx) => {
      const answered = ctx.mcpReq.inputResponses?.who as { content?: { name?: string } } | undefined
      if (answered === undefined) {
        return inputRequired({
          inputRequests: {
            who: inputRequired.elicit({
              message: 'For whom?',
              requestedSchema: { type: 'object', properties: { name: { type: 'string' } } },
            }),
          },
        })
      }
      return { content: [{ type: 'text', text: `booked for ${answered.content?.name}` }] }
    })
    return server
  })
  const url = await overFetch((request) => handler.fetch(request))
  const onElicitation = () => ({ action: 'accept' as const, content: { name: 'Eve' } })
  const s = { url, protocol: '2026-07-28' as const, onElicitation }
  const { texts } = await callAll(engineWith({ s }, [callTools(['s__book', {}]), 'done']))
  expect(texts).toEqual(['booked for Eve'])
})

test('an answer reaches a server over HTTP that takes longer to get it than a cancellation may', async () => {
  const { promise: answered, resolve } = deferred<object>()
  const event = (message: object) => `data: ${JSON.stringify({ jsonrpc: '2.0', ...message })}\n\n`
  const { url } = await overHttp(
    async ({ id }, response) => {
      response.setHeader('content-type', 'text/event-stream')
      response.write(event({ id: 'q', method: 'elicitation/create', params: { message: 'Who?' } }))
      const { name } = (await answered) as { name: string }
      response.end(event({ id, result: { content: [{ type: 'text', text: `for ${name}` }] } }))
    },
    (_seen, response, message) => {
      if (message?.id !== 'q') return false
      response.writeHead(202).end()
      resolve((message as unknown as { result: { content: object } }).result.content)
      return true
    },
  )
  let isAsked = false
  const onElicitation = () => {
    isAsked = true
    return { action: 'accept' as const, content: { name: 'Eve' } }
  }
  // The answer waits for a token for one second; that of a cancellation would not be waited for.
  const auth = async () => {
    if (isAsked) await new Promise((resolve) => setTimeout(resolve, 1_000))
    return { key: 'x', expiresAt: Date.now() }
  }
  const { texts } = await callAll(
    engineWith({ s: { url, auth, onElicitation } }, [callTools(['s__echo']), 'done']),
  )
  expect(texts).toEqual(['for Eve'])
})

test('what is no function is refused with its path', () => {
  const refused = (options: object) =>
    thrown(() => new AgentEngine({ mcp: { s: { command: 'x', ...options } as never } })).field
  expect(refused({ onElicitation: 'ask' })).toBe('mcp.s.onElicitation')
  expect(refused({ onSampling: {} })).toBe('mcp.s.onSampling')
})
