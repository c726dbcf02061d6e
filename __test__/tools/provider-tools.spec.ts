// Provider-run tools: their blocks are sent back unchanged, a paused answer continues, and no other model receives them. It must
// never read columns: ledger/rows.spec.ts does.

import { describe, expect, test } from 'vitest'
import type { AgentResult } from '../../index.js'
import { closing, folder, serving } from '../support/cleanup.js'
import { context, engineAt, readAll, testModel, textOf } from '../support/engine.js'
import { anthropic } from '../support/servers/anthropic.js'
import { type Seen, sse } from '../support/servers/server.js'

/** A block that is sent whole, byte for byte. */
const whole = (index: number, raw: string) =>
  `event: content_block_start\ndata: {"type":"content_block_start","index":${index},"content_block":${raw}}\n\n` +
  anthropic.blockStop(index)

/** The search result, in an unusual JSON spelling. */
const FOUND =
  '{"type": "web_search_tool_result","tool_use_id":"srvtoolu_1", "content":[{"type":"web_search_result","url":"https:\\/\\/example.com","encrypted_content":"Eq\\u002b9==","age":1.50}]}'
const SEARCH =
  '{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query": "engines"}}'

/** Thinks, announces a search, begins it, and pauses. */
const paused = () =>
  anthropic.start({ input: 100 }, 'msg_a') +
  anthropic.thinking(0, 'a search', 'sig-a==') +
  anthropic.text(1, 'Let me look. ') +
  anthropic.blockStart(2, {
    type: 'server_tool_use',
    id: 'srvtoolu_1',
    name: 'web_search',
    input: {},
  }) +
  anthropic.delta(2, { type: 'input_json_delta', partial_json: '{"query": ' }) +
  anthropic.delta(2, { type: 'input_json_delta', partial_json: '"engines"}' }) +
  anthropic.blockStop(2) +
  anthropic.end('pause_turn', { output: 20 })

/** Returns the results, and answers with a citation. */
const found = () =>
  anthropic.start({ input: 300 }, 'msg_b') +
  whole(0, FOUND) +
  anthropic.blockStart(1, { type: 'text', text: '' }) +
  anthropic.delta(1, { type: 'text_delta', text: 'Two engines.' }) +
  anthropic.delta(1, {
    type: 'citations_delta',
    citation: { type: 'web_search_result_location', encrypted_index: 'Ix==' },
  }) +
  anthropic.blockStop(1) +
  anthropic.end('end_turn', { output: 30 })

const other = { ...testModel, id: 'other-model' }

const contents = (seen: Seen | undefined) =>
  (seen?.body.messages as { role: string; content: { type: string; text?: string }[] }[]).map(
    ({ role, content }) => `${role}: ${content.map(({ type, text }) => text ?? type).join(' | ')}`,
  )

async function searched() {
  const server = await serving(sse(paused()), sse(found()), sse(anthropic.answer('next')))
  const engine = closing(
    engineAt(server.url, { ledger: { path: folder().file }, models: [testModel, other] }),
  )
  const run = engine.run(context())
  const events = await readAll(run)
  const result: AgentResult = await run.result
  const runNext = async (changes = {}) => {
    await engine.run(context({ currentMessage: { role: 'user', content: 'and now?' }, ...changes }))
      .result
    return server.seen.at(-1)
  }
  return { server, engine, events, result, runNext }
}

describe('an answer that paused while the provider searched', () => {
  test('is sent back unchanged, and the run ends with one answer', async () => {
    const { server, events, result } = await searched()
    expect(server.seen).toHaveLength(2)
    expect(contents(server.seen[1])).toEqual([
      'user: hi',
      'assistant: thinking | Let me look.  | server_tool_use',
    ])
    expect(server.seen[1]?.raw).toContain(
      `{"type":"thinking","thinking":"a search","signature":"sig-a=="},{"type":"text","text":"Let me look. "},${SEARCH}]}`,
    )
    expect(textOf(events)).toBe('Let me look. Two engines.')
    const ends = events.filter(({ type }) => type.startsWith('stream_e'))
    expect(ends.map((event) => 'final' in event && event.final)).toEqual([false, true])
    expect([result.stopReason, result.error, result.persisted]).toEqual([
      'end_turn',
      undefined,
      true,
    ])
    expect(result.messages.map(({ role, content }) => [role, content])).toEqual([
      ['user', 'hi'],
      ['assistant', 'Let me look. '],
      ['assistant', 'Two engines.'],
    ])
    expect(result.toolCalls).toEqual([])
  })

  test('is paid for twice, and the context size is that of the last call', async () => {
    const { result } = await searched()
    expect(result.usage).toMatchObject({ inputTokens: 400, outputTokens: 50, totalTokens: 450 })
    expect(result.contextTokens).toBe(330)
  })

  test('is replayed from the ledger byte for byte in the next turn', async () => {
    const { runNext } = await searched()
    const next = await runNext()
    expect(contents(next)).toEqual([
      'user: hi',
      'assistant: thinking | Let me look.  | server_tool_use',
      'assistant: web_search_tool_result | Two engines.',
      'user: and now?',
    ])
    expect(next?.raw).toContain(
      `"signature":"sig-a=="},{"type":"text","text":"Let me look. "},${SEARCH}]}`,
    )
    expect(next?.raw).toContain(`{"role":"assistant","content":[${FOUND},`)
    expect(next?.raw).toContain(
      '"text":"Two engines.","citations":[{"type":"web_search_result_location","encrypted_index":"Ix=="}]}',
    )
  })

  test('has only its text for another model', async () => {
    const { runNext } = await searched()
    const next = await runNext({ model: 'other-model' })
    expect(contents(next)).toEqual([
      'user: hi',
      'assistant: Let me look.',
      'user: (Go on.)',
      'assistant: Two engines.',
      'user: and now?',
    ])
    for (const mark of ['srvtoolu', 'sig-a', 'encrypted', 'a search']) {
      expect(next?.raw).not.toContain(mark)
    }
    // Its own provider gets it back afterwards.
    expect((await runNext())?.raw).toContain(SEARCH)
  })
})

test('a ninth pause ends the run, and the next turn leaves out the search without a result', async () => {
  const server = await serving(
    ...Array.from({ length: 9 }, () => sse(paused())),
    sse(anthropic.answer('next')),
  )
  const engine = closing(engineAt(server.url, { ledger: { path: folder().file } }))
  const result = await engine.run(context()).result
  expect(server.seen).toHaveLength(9)
  expect([result.stopReason, result.error]).toEqual(['tool_use', undefined])
  expect(result.usage).toMatchObject({ inputTokens: 900, outputTokens: 180 })
  await engine.run(context({ currentMessage: { role: 'user', content: 'and now?' } })).result
  const next = server.seen.at(-1)
  expect(contents(next).at(-1)).toBe('user: and now?')
  expect(next?.raw).not.toContain('server_tool_use')
})

test('a message steered into a pause is sent, and the search without a result is left out', async () => {
  let steer = () => {}
  const server = await serving(
    (response, seen) => {
      steer()
      return sse(paused())(response, seen)
    },
    sse(anthropic.answer('as you wish')),
  )
  const engine = closing(engineAt(server.url))
  const run = engine.run(context())
  steer = () => void run.steer('no, wait')
  const result = await run.result
  expect(result.stopReason).toBe('end_turn')
  expect(contents(server.seen[1]).at(-1)).toBe('user: no, wait')
  expect(server.seen[1]?.raw).not.toContain('server_tool_use')
})
