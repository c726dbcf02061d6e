// Anthropic Messages: what the next call sends back of the answers before it, byte for byte. It asserts on the raw requests of a
// loopback server and must never read internal state of the engine.

import { describe, expect, test } from 'vitest'
import type { AgentEngineOptions, AgentTool, AssembledContext, Block } from '../../index.js'
import { describedTool, echoTool } from '../support/described-tools.js'
import { context, engineAt, tempDir, testModel } from '../support/engine.js'
import { anthropic } from '../support/servers/anthropic.js'
import { type Seen, sse } from '../support/servers/server.js'
import { serverPerTest } from '../support/servers/server-per-test.js'
import { singleRun } from '../support/single-run.js'

const server = serverPerTest(() => sse(anthropic.answer('ok')))

/** One run against the server with an engine of its own. */
const runOnce = (
  changes: Partial<AssembledContext> = {},
  options: AgentEngineOptions = {},
  provider: Record<string, unknown> = {},
) => singleRun(engineAt(server.url, options, provider), changes)

/** The breakpoint of the prompt cache, which is no part of a provider's hash. */
const breakpoint = { cache_control: { type: 'ephemeral' } }
/** The body without breakpoints. */
const unmarked = (seen: Seen) =>
  seen.raw.replaceAll(`,${JSON.stringify(breakpoint).slice(1, -1)}`, '')
/** The same up to its last message: system, tools and the messages so far. */
const prefix = (seen: Seen) => unmarked(seen).slice(0, unmarked(seen).lastIndexOf(']}'))

describe('the next call', () => {
  const signature = `${'EqRkAbC+/='.repeat(30)}é`
  const thinking = {
    type: 'thinking',
    thinking: 'Let me “think”\n\tabout <it> & 🦀 \u2028',
    signature,
  }
  const redacted = { type: 'redacted_thinking', data: 'b64+/data==' }

  const thoughtful = (...rest: string[]) =>
    sse(
      anthropic.start(),
      anthropic.thinking(0, thinking.thinking, signature),
      anthropic.blockStart(1, redacted),
      anthropic.blockStop(1),
      ...rest,
    )

  test('gets thinking, signatures and redacted thinking back byte for byte, in order', async () => {
    server.use(
      thoughtful(
        anthropic.text(2, 'I look.'),
        anthropic.toolUse(3, 'toolu_1', 'echo', { a: 1 }),
        anthropic.end('tool_use'),
      ),
      sse(anthropic.answer('done')),
    )
    const { result } = await runOnce({ tools: [echoTool] })
    expect(server.seen[1]?.body.messages[1]).toEqual({
      role: 'assistant',
      content: [
        thinking,
        redacted,
        { type: 'text', text: 'I look.' },
        { type: 'tool_use', id: 'toolu_1', name: 'echo', input: { a: 1 } },
      ],
    })
    expect(result.stopReason).toBe('end_turn')
  })

  test('gets thinking back in the next turn too, read from the ledger', async () => {
    const dir = tempDir()
    server.use(thoughtful(anthropic.text(2, 'one'), anthropic.end()), sse(anthropic.answer('two')))
    const engine = engineAt(server.url, { ledger: { path: dir.file } })
    await engine.run(context()).result
    await engine.close()
    const again = engineAt(server.url, { ledger: { path: dir.file } })
    await again.run(context({ currentMessage: { role: 'user', content: 'more' } })).result
    await again.close()
    dir.remove()
    expect(server.seen[1]?.body.messages).toEqual([
      { role: 'user', content: [{ type: 'text', text: 'hi' }] },
      { role: 'assistant', content: [thinking, redacted, { type: 'text', text: 'one' }] },
      { role: 'user', content: [{ type: 'text', text: 'more', ...breakpoint }] },
    ])
  })

  test('does not get the thinking of another model, nor thinking without a signature', async () => {
    const dir = tempDir()
    server.use(thoughtful(anthropic.text(2, 'one'), anthropic.end()), sse(anthropic.answer('two')))
    const models = [testModel, { ...testModel, id: 'other-model' }]
    const engine = engineAt(server.url, { ledger: { path: dir.file }, models })
    await engine.run(context()).result
    await engine.run(context({ model: 'other-model' })).result
    await engine.close()
    dir.remove()
    expect(server.seen[1]?.body.messages[1]).toEqual({
      role: 'assistant',
      content: [{ type: 'text', text: 'one' }],
    })
  })

  test('gets a thinking block with only a signature back', async () => {
    server.use(
      sse(
        anthropic.start(),
        anthropic.blockStart(0, { type: 'thinking', thinking: '', signature: '' }),
        anthropic.delta(0, { type: 'signature_delta', signature }),
        anthropic.blockStop(0),
        anthropic.toolUse(1, 'toolu_1', 'echo', {}),
        anthropic.end('tool_use'),
      ),
      sse(anthropic.answer('done')),
    )
    await runOnce({ tools: [echoTool] })
    expect(server.seen[1]?.body.messages[1].content[0]).toEqual({
      type: 'thinking',
      thinking: '',
      signature,
    })
  })

  test('has all results of parallel calls in one user message, in call order', async () => {
    let release = () => {}
    const second = new Promise<void>((resolve) => {
      release = resolve
    })
    const slow: AgentTool = {
      ...describedTool('slow', async () => {
        await second
        return 'slow result'
      }),
      executionMode: 'parallel',
    }
    const fast: AgentTool = {
      ...describedTool('fast', () => {
        release()
        return 'fast result'
      }),
      executionMode: 'parallel',
    }
    server.use(
      sse(
        anthropic.calls(['toolu_a', 'slow', {}], ['toolu_b', 'fast', {}], ['toolu_c', 'gone', {}]),
      ),
      sse(anthropic.answer('done')),
    )
    const { result } = await runOnce({ tools: [slow, fast] })
    const messages = server.seen[1]?.body.messages
    expect(messages).toHaveLength(3)
    expect(messages[2]).toMatchObject({
      role: 'user',
      content: [
        {
          type: 'tool_result',
          tool_use_id: 'toolu_a',
          content: [{ type: 'text', text: 'slow result' }],
        },
        {
          type: 'tool_result',
          tool_use_id: 'toolu_b',
          content: [{ type: 'text', text: 'fast result' }],
        },
        { type: 'tool_result', tool_use_id: 'toolu_c', is_error: true },
      ],
    })
    expect(result.toolCalls.map(({ id, status }) => [id, status])).toEqual([
      ['toolu_a', 'completed'],
      ['toolu_b', 'completed'],
      ['toolu_c', 'failed'],
    ])
  })

  test('gets the blocks of server tools back unchanged', async () => {
    const raw: Block['type'][] = []
    const use = { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: {} }
    const found = {
      type: 'web_search_tool_result',
      tool_use_id: 'srvtoolu_1',
      content: [
        {
          type: 'web_search_result',
          url: 'https://a.test',
          encrypted_content: 'Eo+/=',
          page_age: null,
        },
      ],
    }
    const citation = {
      type: 'web_search_result_location',
      cited_text: 'c',
      url: 'https://a.test',
      encrypted_index: 'Ei==',
    }
    server.use(
      sse(
        anthropic.start(),
        anthropic.blockStart(0, use),
        anthropic.delta(0, { type: 'input_json_delta', partial_json: '{"query": ' }),
        anthropic.delta(0, { type: 'input_json_delta', partial_json: '"weather"}' }),
        anthropic.blockStop(0),
        anthropic.blockStart(1, found),
        anthropic.blockStop(1),
        anthropic.blockStart(2, { type: 'text', text: '', citations: [] }),
        anthropic.delta(2, { type: 'citations_delta', citation }),
        anthropic.delta(2, { type: 'text_delta', text: 'It rains.' }),
        anthropic.blockStop(2),
        anthropic.toolUse(3, 'toolu_1', 'echo', {}),
        anthropic.end('tool_use'),
      ),
      sse(anthropic.answer('done')),
    )
    const { result } = await runOnce({ tools: [echoTool] })
    for (const block of result.messages[1]?.blocks ?? []) raw.push(block.type)
    expect(raw).toEqual(['opaque', 'opaque', 'text', 'tool_call'])
    expect(server.seen[1]?.body.messages[1].content).toEqual([
      { ...use, input: { query: 'weather' } },
      found,
      { type: 'text', text: 'It rains.', citations: [citation] },
      { type: 'tool_use', id: 'toolu_1', name: 'echo', input: {} },
    ])
    expect(result.toolCalls.map(({ id }) => id)).toEqual(['toolu_1'])
  })

  test('has the original bytes of arguments, large integers included', async () => {
    const input = '{"big": 123456789012345678901234567890, "exp": 1E5, "dup": "\\u00e9"}'
    server.use(
      sse(
        anthropic.start(),
        anthropic.blockStart(0, { type: 'tool_use', id: 'toolu_1', name: 'echo', input: {} }),
        anthropic.delta(0, { type: 'input_json_delta', partial_json: input }),
        anthropic.blockStop(0),
        anthropic.end('tool_use'),
      ),
      sse(anthropic.answer('done')),
    )
    await runOnce({ tools: [echoTool] })
    expect(server.seen[1]?.raw).toContain(`"input":${input}}`)
  })

  test('begins with the bytes of the previous one, over a tool loop', async () => {
    const calls = [0, 1, 2, 3].map((n) =>
      sse(anthropic.calls([`toolu_${n}`, 'echo', { n }], [`toolu_${n}b`, 'echo', { text: '"\n' }])),
    )
    server.use(...calls, sse(anthropic.answer('done')))
    await runOnce({ tools: [echoTool, describedTool('other', () => 1)], systemPrompt: 'S' })
    expect(server.seen).toHaveLength(5)
    for (const [n, seen] of server.seen.entries()) {
      const next = server.seen[n + 1]
      if (next !== undefined) expect(unmarked(next).startsWith(prefix(seen))).toBe(true)
    }
  })

  test('begins with the bytes of the previous turn, from memory or from the ledger', async () => {
    const dir = tempDir()
    const turns = async (engine: ReturnType<typeof engineAt>, count: number) => {
      for (let turn = 0; turn < count; turn++) {
        const content = `turn ${turn} of ${server.seen.length}`
        await engine.run(context({ tools: [echoTool], currentMessage: { role: 'user', content } }))
          .result
      }
      await engine.close()
    }
    const script = () =>
      server.use(
        thoughtful(anthropic.toolUse(2, 'toolu_1', 'echo', { n: 1 }), anthropic.end('tool_use')),
        sse(anthropic.calls(['toolu_1', 'echo', { again: true }])),
        sse(anthropic.answer('one')),
        thoughtful(anthropic.text(2, 'two'), anthropic.end()),
        sse(anthropic.answer('three')),
      )
    script()
    await turns(engineAt(server.url, { ledger: { path: dir.file } }), 3)
    script()
    await turns(engineAt(server.url, { ledger: { path: dir.file } }), 3)
    dir.remove()
    expect(server.seen).toHaveLength(10)
    for (const [n, seen] of server.seen.entries()) {
      const next = server.seen[n + 1]
      if (next !== undefined)
        expect(unmarked(next).startsWith(prefix(seen)), `call ${n + 2}`).toBe(true)
    }
  })
})
