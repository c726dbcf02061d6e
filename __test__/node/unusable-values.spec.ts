// Values that no provider accepts: a name with a line break, an image that is no base64. They are refused where the caller can
// correct them, and left out otherwise: they must never reach a provider.

import { describe, expect, test } from 'vitest'
import { AgentEngine, type AgentEngineError, type AssembledContext } from '../../index.js'
import { context, engineAt, scriptedEngine, tempDir, testModel } from '../support/engine.js'
import { anthropic } from '../support/servers/anthropic.js'
import { sse } from '../support/servers/server.js'
import { serverPerTest } from '../support/servers/server-per-test.js'

const server = serverPerTest(() => sse(anthropic.answer('ok')))

const refusal = (attempt: () => unknown) => {
  try {
    attempt()
  } catch (error) {
    const { code, field } = error as AgentEngineError
    return `${code} ${field}`
  }
  return 'accepted'
}

describe.each(['\r', '\n', '\0', '\u001b', '\u007f', '\u0085'])(
  'the control character %j',
  (bad) => {
    test.each<[string, Partial<AssembledContext>, string]>([
      ['a model', { model: `m${bad}x` }, 'model'],
      ['a provider', { provider: `p${bad}x` }, 'provider'],
      ['a run id', { runId: `r${bad}x` }, 'runId'],
      ['a profile', { authProfileId: `a${bad}x` }, 'authProfileId'],
      ['a toolset', { toolsetName: `t${bad}x` }, 'toolsetName'],
      ['a source event', { sourceEventId: `e${bad}x` }, 'sourceEventId'],
      ['a fallback', { fallbacks: [`m${bad}x`] }, 'fallbacks[0]'],
      [
        'a fallback’s provider',
        { fallbacks: [{ provider: `p${bad}`, model: 'm' }] },
        'fallbacks[0]',
      ],
      ['a user id', { requestMetadata: { user_id: `u${bad}x` } }, 'requestMetadata.user_id'],
      ['a name of metadata', { requestMetadata: { [`u${bad}x`]: 'v' } }, 'requestMetadata'],
      ['a header', { headers: { 'x-a': `v${bad}x` } }, 'headers.x-a'],
      ['a cache key', { promptCache: { key: `k${bad}x` } }, 'promptCache.key'],
    ])('in %s is refused at the call', async (_, changes, field) => {
      const engine = engineAt(server.url)
      expect(refusal(() => engine.run(context(changes)))).toBe(`invalid_context ${field}`)
      await engine.close()
      expect(server.seen).toEqual([])
    })

    test.each<[string, (bad: string) => object, string]>([
      [
        'a base URL',
        (bad) => ({ providers: { p: { api: 'openai-chat', baseUrl: `https://a${bad}.test` } } }),
        'providers.p.baseUrl',
      ],
      [
        'a provider’s name',
        (bad) => ({
          providers: { [`p${bad}`]: { api: 'openai-chat', baseUrl: 'https://a.test' } },
        }),
        'providers',
      ],
      [
        'an API version',
        (bad) => ({
          providers: {
            p: {
              api: 'anthropic-messages',
              baseUrl: 'https://a.test',
              anthropicVersion: `2023${bad}`,
            },
          },
        }),
        'providers.p.anthropicVersion',
      ],
      [
        'a header',
        (bad) => ({
          providers: {
            p: {
              api: 'openai-chat',
              baseUrl: 'https://a.test',
              headers: { 'anthropic-beta': `b${bad}` },
            },
          },
        }),
        'providers.p.headers.anthropic-beta',
      ],
      [
        'a profile id',
        (bad) => ({
          providers: { p: { api: 'openai-chat', baseUrl: 'https://a.test' } },
          authProfiles: [{ id: `a${bad}`, provider: 'p', key: 'k' }],
        }),
        'authProfiles[0].id',
      ],
      ['a model id', (bad) => ({ models: [{ ...testModel, id: `m${bad}` }] }), 'models[0].id'],
      [
        'an alias',
        (bad) => ({ models: [{ ...testModel, aliases: [`m${bad}`] }] }),
        'models[0].aliases[0]',
      ],
    ])('in %s is refused by the constructor', (_, options, field) => {
      expect(refusal(() => new AgentEngine(options(bad)))).toBe(`invalid_options ${field}`)
    })
  },
)

test('line breaks are sent where they are allowed', async () => {
  const engine = engineAt(server.url)
  const lines = {
    systemPrompt: 'a\r\nb\tc',
    currentMessage: { role: 'user' as const, content: 'a\nb' },
  }
  expect((await engine.run(context(lines)).result).stopReason).toBe('end_turn')
  expect(server.seen[0]?.raw).toContain('a\\r\\nb\\tc')
  await engine.close()
})

const PIXEL =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
const image = (data: string, mimeType = 'image/png') => ({ type: 'image' as const, mimeType, data })
const BROKEN = [
  'not base64!',
  `data:image/png;base64,${PIXEL}`,
  `${PIXEL}\n`,
  PIXEL.slice(0, -1),
  PIXEL.replaceAll('+', '-'),
]

describe('an image that is no base64', () => {
  test.each(BROKEN)('%s in the current message is refused at the call', async (data) => {
    const engine = engineAt(server.url)
    const content = [{ type: 'text' as const, text: 'see' }, image(data)]
    const changes = { currentMessage: { role: 'user' as const, content } }
    const error = (() => {
      try {
        engine.run(context(changes))
      } catch (error) {
        return error as AgentEngineError
      }
    })()
    expect(error).toMatchObject({
      code: 'invalid_context',
      field: 'currentMessage.content[1].data',
    })
    expect(error?.message).not.toContain(data)
    await engine.close()
    expect(server.seen).toEqual([])
  })

  test.each(BROKEN)(
    '%s in a tool’s result becomes a text, with a warning, and the session continues',
    async (data) => {
      const dir = tempDir()
      server.use(sse(anthropic.calls(['toolu_1', 'shot', {}])), sse(anthropic.answer('ok')))
      const engine = engineAt(server.url, { ledger: { path: dir.file } })
      const tools = [
        {
          name: 'shot',
          run: () => ({ content: [{ type: 'text', text: 'here' }, image(data), image(PIXEL)] }),
        },
      ]
      const result = await engine.run(context({ tools })).result
      expect(result.stopReason).toBe('end_turn')
      expect(result.warnings?.map(({ code, message }) => [code, message])).toEqual([
        [
          'unusable_image',
          '`shot` returned 1 images whose data is not base64; the model reads a note instead',
        ],
      ])
      expect(
        (
          await engine.run(context({ tools, currentMessage: { role: 'user', content: 'next' } }))
            .result
        ).stopReason,
      ).toBe('end_turn')
      for (const { body } of server.seen.slice(1)) {
        const [answer] = body.messages[2].content
        const parts = answer.content.map((part: any) => part.text ?? part.source.data)
        expect(parts).toEqual(['here', '[an image was left out: its data is not base64]', PIXEL])
      }
      expect(server.seen.length).toBe(3)
      await engine.close()
      dir.remove()
    },
  )

  test.each([
    'anthropic-messages',
    'openai-chat',
    'openai-responses',
    'google-generative-ai',
    'bedrock-converse',
  ])('in a given history is left out of every request to %s', async (api) => {
    server.use((response) =>
      response
        .writeHead(400, { 'content-type': 'application/json' })
        .end('{"error":{"message":"no"}}'),
    )
    const engine = engineAt(
      server.url,
      {},
      { api, ...(api === 'bedrock-converse' ? { region: 'us-east-1' } : {}) },
    )
    const history = BROKEN.flatMap((data, n) => [
      { role: 'user' as const, content: [{ type: 'text' as const, text: `q${n}` }, image(data)] },
      {
        role: 'assistant' as const,
        content: [{ type: 'toolCall' as const, id: `c${n}`, name: 'shot', arguments: {} }],
      },
      {
        role: 'toolResult' as const,
        toolCallId: `c${n}`,
        toolName: 'shot',
        content: [image(data), image('AAAA', 'image/bmp')],
        isError: false,
        timestamp: 1,
      },
      { role: 'assistant' as const, content: `a${n}` },
    ])
    await engine.run(context({ history: history as AssembledContext['history'] })).result
    await engine.close()
    const raw = server.seen[0]?.raw ?? ''
    for (const data of BROKEN) expect(raw).not.toContain(JSON.stringify(data).slice(1, -1))
    expect(raw.split('its data is not base64').length - 1).toBe(BROKEN.length * 2)
    expect(raw).toContain('image/bmp')
    expect(raw).not.toContain('AAAA')
  })

  test('in a tool of the scripted provider is reported too', async () => {
    const { engine, provider } = scriptedEngine([
      { toolCalls: [{ name: 'shot', arguments: {} }] },
      'ok',
    ])
    const tools = [{ name: 'shot', run: () => ({ content: [image('%%%')] }) }]
    const result = await engine.run(context({ tools })).result
    expect(JSON.stringify(provider.requests[1])).not.toContain('%%%')
    expect(result.warnings?.map((warning) => warning.code)).toEqual(['unusable_image'])
    await engine.close()
  })
})
