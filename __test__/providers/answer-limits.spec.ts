// The size limits of one answer: an answer over a limit ends its run with a code while it streams, and a smaller one arrives whole.
// It must never measure memory or time: it counts what is stored, and where the connection was closed.

import { expect, test, vi } from 'vitest'
import type { AgentRun } from '../../index.js'
import { afterwards, closing, serving } from '../support/cleanup.js'
import { context, engineAt, readAll, scriptedEngine, tempDir, textOf } from '../support/engine.js'
import { anthropic } from '../support/servers/anthropic.js'
import { chat } from '../support/servers/chat.js'
import type { Handler } from '../support/servers/server.js'
import { tool } from '../support/tools.js'

// A debug build reads these texts slowly; nothing here is measured.
vi.setConfig({ testTimeout: 300_000 })

const MIB = 1024 * 1024
const PIECE = MIB

/** Streams `head`, then `piece` while the client reads, at most `most` times; counts the sent pieces. */
function endless(head: string, piece: string, most: number, end = '') {
  const sent = { pieces: 0, cut: false }
  const handler: Handler = async (response) => {
    let wake = () => {}
    response.on('drain', () => wake())
    response.on('close', () => {
      sent.cut = !response.writableFinished
      wake()
    })
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write(head)
    while (sent.pieces < most && !response.destroyed) {
      sent.pieces++
      if (!response.write(piece)) {
        await new Promise<void>((resolve) => {
          wake = resolve
        })
      }
    }
    response.end(end)
  }
  return { handler, sent }
}

const anthropicText = endless(
  anthropic.start() + anthropic.blockStart(0, { type: 'text', text: '' }),
  anthropic.delta(0, { type: 'text_delta', text: 'x'.repeat(PIECE) }),
  100,
)
const anthropicThinking = endless(
  anthropic.start() + anthropic.blockStart(0, { type: 'thinking', thinking: '', signature: '' }),
  anthropic.delta(0, { type: 'thinking_delta', thinking: 'x'.repeat(PIECE) }),
  100,
)
const anthropicArguments = endless(
  anthropic.start() + anthropic.blockStart(0, { type: 'tool_use', id: 'c', name: 't', input: {} }),
  anthropic.delta(0, { type: 'input_json_delta', partial_json: ' '.repeat(PIECE) }),
  100,
)
const anthropicOpaque = endless(
  anthropic.start() +
    anthropic.blockStart(0, { type: 'server_tool_use', id: 's', name: 'web_search', input: {} }),
  anthropic.delta(0, { type: 'input_json_delta', partial_json: ' '.repeat(PIECE) }),
  100,
)
const chatArguments = endless(
  chat.toolCall(0, 'c', 't', ''),
  chat.delta({ tool_calls: [{ index: 0, function: { arguments: ' '.repeat(PIECE) } }] }),
  100,
)

test.each([
  ['text (Anthropic)', anthropicText, 'anthropic-messages', 'answer_too_large', 32],
  ['reasoning (Anthropic)', anthropicThinking, 'anthropic-messages', 'answer_too_large', 32],
  ['arguments (Anthropic)', anthropicArguments, 'anthropic-messages', 'arguments_too_large', 4],
  ['what a provider runs itself', anthropicOpaque, 'anthropic-messages', 'arguments_too_large', 4],
  ['arguments (Chat Completions)', chatArguments, 'openai-chat', 'arguments_too_large', 4],
])(
  '%s without end ends the run by name, and the server is hung up on',
  async (_, { handler, sent }, api, code, mib) => {
    const server = await serving(handler)
    const engine = closing(engineAt(server.url, {}, { api }))
    let ran = 0
    const result = await engine.run(context({ tools: [tool('t', () => ran++)] })).result
    expect(result).toMatchObject({
      stopReason: 'error',
      error: { kind: 'model_error', retryable: false, detail: { kind: 'server_error', code } },
    })
    expect(ran).toBe(0)
    // One request: a too large answer would be too large again.
    expect(server.seen).toHaveLength(1)
    await server.seen[0]?.closed
    expect(sent.cut).toBe(true)
    expect(sent.pieces).toBeLessThan(100)
    const storedText = result.messages
      .filter((message) => message.role === 'assistant')
      .flatMap((message) => message.blocks ?? [])
    const text = storedText.map((block) => (block.type === 'text' ? block.text : '')).join('')
    expect(text.length).toBe(code === 'answer_too_large' && _.startsWith('text') ? mib * MIB : 0)
  },
)

test('a text of 32 MiB arrives whole: as events, in the result, and from the ledger', async () => {
  const dir = tempDir()
  afterwards(dir.remove)
  // Quotes, newlines and a character of three bytes: its JSON is larger than the text.
  const line = `"line"\n${'x'.repeat(1010)}\tü上`
  const piece = line.repeat(Math.floor(PIECE / Buffer.byteLength(line)))
  const count = Math.floor((32 * MIB) / Buffer.byteLength(piece))
  const { handler } = endless(
    anthropic.start() + anthropic.blockStart(0, { type: 'text', text: '' }),
    anthropic.delta(0, { type: 'text_delta', text: piece }),
    count,
    anthropic.blockStop(0) + anthropic.end(),
  )
  const server = await serving(handler)
  const engine = closing(engineAt(server.url, { ledger: { path: dir.file } }))
  const other = closing(scriptedEngine([{ text: 'beside' }]).engine)
  const run: AgentRun = engine.run(context())
  const beside = other.run(context()).result
  const events = await readAll(run)
  const result = await run.result
  expect((await beside).stopReason).toBe('end_turn')
  const whole = piece.repeat(count)
  // Compared as a flag: a diff of such texts would be unreadable.
  expect(textOf(events) === whole).toBe(true)
  expect(result).toMatchObject({ stopReason: 'end_turn', persisted: true })
  expect(result.messages.at(-1)?.content === whole).toBe(true)
  const turn = await engine.ledger.turn(result.turnId)
  expect(turn?.messages.at(-1)?.content === whole).toBe(true)
  let replayed = ''
  for await (const event of engine.attach(result.runId)) {
    if (event.type === 'token') replayed += event.text
  }
  expect(replayed === whole).toBe(true)
})

test('a text of 10 MiB that is six times as long in JSON arrives whole, too', async () => {
  const dir = tempDir()
  afterwards(dir.remove)
  const piece = '\u0001'.repeat(PIECE)
  const { handler } = endless(
    anthropic.start() + anthropic.blockStart(0, { type: 'text', text: '' }),
    anthropic.delta(0, { type: 'text_delta', text: piece }),
    10,
    anthropic.blockStop(0) + anthropic.end(),
  )
  const server = await serving(handler)
  const engine = closing(engineAt(server.url, { ledger: { path: dir.file } }))
  const result = await engine.run(context()).result
  expect(result).toMatchObject({ stopReason: 'end_turn', persisted: true })
  const turn = await engine.ledger.turn(result.turnId)
  expect(turn?.messages.at(-1)?.content === piece.repeat(10)).toBe(true)
})

test('arguments of 4 MiB reach the tool', async () => {
  const { engine } = scriptedEngine([
    { toolCalls: [{ name: 't', arguments: { text: 'y'.repeat(4 * MIB - 100) } }] },
    'done',
  ])
  let length = 0
  const tools = [
    tool('t', (params) => {
      length = (params as { text: string }).text.length
      return 'ok'
    }),
  ]
  const result = await closing(engine).run(context({ tools })).result
  expect(result.stopReason).toBe('end_turn')
  expect(length).toBe(4 * MIB - 100)
})
