// Unknown members of a provider's block: they are sent back unchanged to that provider and model, and must never be sent to
// another. Also which servers get a `prompt_cache_key`, and which retry hint counts.

import { describe, expect, test } from 'vitest'
import { closing, folder, serving } from '../../support/cleanup.js'
import { context, engineAt, testModel } from '../../support/engine.js'
import { anthropic } from '../../support/servers/anthropic.js'
import { chat } from '../../support/servers/chat.js'
import { google } from '../../support/servers/google.js'
import { responses } from '../../support/servers/responses.js'
import { type Handler, sse, status } from '../../support/servers/server.js'
import { wireApis } from '../../support/servers/wire-apis.js'

const beside = { x_trace: 'canary-beside', gateway: { cache: [1, 2.5e3], deep: { a: null } } }
const read = { name: 'read', parameters: { type: 'object' }, run: () => 'content' }
const other = { ...testModel, id: 'other-model' }

async function replayed(api: string, answers: Handler[], provider: Record<string, unknown> = {}) {
  const server = await serving(...answers)
  const engine = closing(
    engineAt(
      server.url,
      { ledger: { path: folder().file }, models: [testModel, other] },
      { api, ...provider },
    ),
  )
  const runNext = async (changes = {}) => {
    const nextTurn = context({
      tools: [read],
      currentMessage: { role: 'user', content: 'next' },
      ...changes,
    })
    await engine.run(nextTurn).result
    const seen = server.seen.at(-1)
    if (seen === undefined) throw new Error('nothing was requested')
    return seen
  }
  await runNext()
  return { again: await runNext(), elsewhere: await runNext({ model: 'other-model' }) }
}

describe.each(wireApis)('unknown members of a call of $api', (wire) => {
  test('are sent back to its model unchanged, and to no other', async () => {
    const { again, elsewhere } = await replayed(
      wire.api,
      [wire.calls([['call1', 'read']], beside), wire.answer('done')],
      wire.provider,
    )
    expect(wire.sentCalls(again)[0]).toMatchObject(beside)
    expect(wire.sentCalls(elsewhere)).toHaveLength(1)
    expect(elsewhere.raw).not.toContain('canary')
  })
})

describe('unknown members of a block', () => {
  test('of Anthropic: text, thinking and calls', async () => {
    const text = { type: 'text', text: 'Let me look.', citations: [{ a: 1 }], ...beside }
    const thinking = { type: 'thinking', thinking: 'hm', signature: 'sig==', ...beside }
    const call = { type: 'tool_use', id: 'call_1', name: 'read', input: { a: 1 }, ...beside }
    const redacted = { type: 'redacted_thinking', data: 'b64==', ...beside }
    const blocks = [thinking, redacted, text, call]
    const { again, elsewhere } = await replayed('anthropic-messages', [
      sse(
        anthropic.start(),
        ...blocks.map((it, at) => anthropic.blockStart(at, it) + anthropic.blockStop(at)),
        anthropic.end('tool_use'),
      ),
      sse(anthropic.answer('done')),
    ])
    expect(again.body.messages[1].content).toEqual(blocks)
    expect(elsewhere.raw).not.toContain('canary')
  })

  test('of Google: text, in one block while they do not change, and calls', async () => {
    const call = {
      functionCall: { id: 'c1', name: 'read', args: {}, ...beside },
      thoughtSignature: 's==',
      ...beside,
    }
    const { again, elsewhere } = await replayed('google-generative-ai', [
      sse(
        google.text('Plain. '),
        google.parts({ text: 'One ', ...beside }),
        google.parts({ text: 'two.', ...beside }),
        google.parts({ text: ' End.', inlineData: null }),
        google.parts(call),
        google.finish('STOP'),
      ),
      sse(google.answer('done')),
    ])
    expect(again.body.contents[1].parts).toEqual([
      { text: 'Plain. ' },
      { text: 'One two.', ...beside },
      { text: ' End.' },
      call,
    ])
    expect(elsewhere.raw).not.toContain('canary')
  })

  test('of Chat Completions: a call and its function, over all its fragments', async () => {
    const piece = (fields: object, fn: object) =>
      chat.delta({ tool_calls: [{ index: 0, ...fields, function: fn }] })
    const { again, elsewhere } = await replayed('openai-chat', [
      sse(
        piece(
          { id: 'call_1', type: 'function', ...beside },
          {
            name: 'read',
            arguments: '',
            provider_specific_fields: { thought_signature: 'canary-a' },
          },
        ),
        piece({}, { arguments: '{}' }),
        piece({ late: 'canary-b' }, {}),
        chat.finish('tool_calls'),
        chat.done(),
      ),
      sse(chat.answer('done')),
    ])
    const sent = again.body.messages.find((it: any) => it.tool_calls !== undefined)
    expect(sent.tool_calls).toEqual([
      {
        id: 'call_1',
        type: 'function',
        function: {
          name: 'read',
          arguments: '{}',
          provider_specific_fields: { thought_signature: 'canary-a' },
        },
        ...beside,
        late: 'canary-b',
      },
    ])
    expect(elsewhere.raw).not.toContain('canary')
  })

  test('of Responses: messages, their parts, reasoning and calls', async () => {
    const message = {
      ...responses.message('msg_1', 'Let me look.', beside),
      content: [{ type: 'output_text', text: 'Let me look.', annotations: [], ...beside }],
    }
    const reasoning = { ...responses.reasoning('rs_1', 'enc=='), ...beside }
    const call = responses.call('fc_1', 'call_1', 'read', {}, beside)
    const { again, elsewhere } = await replayed('openai-responses', [
      sse(responses.of(reasoning, message, call)),
      sse(responses.answer('done')),
    ])
    const [, first, second, third] = again.body.input
    expect(first).toMatchObject({ type: 'reasoning', encrypted_content: 'enc==', ...beside })
    expect(second).toMatchObject({ type: 'message', ...beside })
    expect(second.content[0]).toMatchObject({ text: 'Let me look.', ...beside })
    expect(third).toMatchObject({ type: 'function_call', ...beside })
    expect(elsewhere.raw).not.toContain('canary')
  })
})

describe('a cache key', () => {
  const requested = async (api: string, provider: Record<string, unknown>, changes = {}) => {
    const wire = wireApis.find((it) => it.api === api)
    if (wire === undefined) throw new Error('no such API')
    const server = await serving(wire.answer('ok'))
    const engine = closing(engineAt(server.url, {}, { api, ...provider }))
    const result = await engine.run(context(changes)).result
    return { key: server.seen[0]?.body.prompt_cache_key, warnings: result.warnings ?? [] }
  }

  test.each([
    ['openai', true],
    ['azure', true],
    ['xai', true],
    ['openrouter', true],
    ['groq', false],
    ['vllm', false],
    ['huggingface', false],
    [undefined, false],
  ])('is sent to the Responses API of `%s`: %s', async (flavor, sent) => {
    const { key } = await requested('openai-responses', flavor === undefined ? {} : { flavor })
    expect(typeof key).toBe(sent ? 'string' : 'undefined')
  })

  test.each(['openai-responses', 'openai-chat'])(
    'is sent where the option enables it, for %s',
    async (api) => {
      expect((await requested(api, { promptCacheKey: true })).key).toMatch(/^nx-/)
      expect(
        (await requested(api, { promptCacheKey: false, flavor: 'openai' })).key,
      ).toBeUndefined()
    },
  )

  test('of a context that is not sent is a warning', async () => {
    const mine = { promptCache: { key: 'mine' } }
    const { key, warnings } = await requested('openai-responses', {}, mine)
    expect(key).toBeUndefined()
    expect(warnings.map((it) => it.field)).toEqual(['promptCache.key'])
    const sent = await requested('openai-responses', { promptCacheKey: true }, mine)
    expect([sent.key, sent.warnings]).toEqual(['mine', []])
  })
})

test('an upstream’s retry hint is used if the gateway sends none', async () => {
  const refused = { error: { message: 'slow down', type: 'rate_limit_error' } }
  const waitOf = async (headers: Record<string, string>) => {
    const server = await serving(status(429, refused, headers))
    const engine = closing(engineAt(server.url, {}, { api: 'openai-chat' }))
    const result = await engine.run(context({ timeoutMs: 5_000 })).result
    return result.error?.detail.retryAfterMs
  }
  expect(await waitOf({ 'llm_provider-retry-after': '3600' })).toBeGreaterThan(3_500_000)
  expect(
    await waitOf({ 'retry-after': '7200', 'llm_provider-retry-after': '3600' }),
  ).toBeGreaterThan(7_100_000)
})
