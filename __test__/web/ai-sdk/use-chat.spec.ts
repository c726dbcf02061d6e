// A chat of `ai` with its own transport against a loopback server: what a user of `useChat` sees, in both versions. It must never sleep:
// gates hold each state.

import { afterEach, describe, expect, test } from 'vitest'
import {
  fromUIMessages,
  toUIMessageStream,
  toUIMessageStreamResponse,
  writeUIMessageStream,
} from '../../../ai-sdk.js'
import { AgentEngine, type AgentRun, type AgentTool } from '../../../index.js'
import {
  failure,
  gate,
  reasoning,
  scriptedProvider,
  type TestReply,
  toolCall,
  transcript,
} from '../../../testing.js'
import { fromRequest, lastEventId } from '../../../web.js'
import { closing, folder, serving } from '../../support/cleanup.js'
import { context, engineAt, testModel } from '../../support/engine.js'
import { anthropic } from '../../support/servers/anthropic.js'
import { httpServer, send } from '../../support/servers/http.js'
import { sse } from '../../support/servers/server.js'
import { chatOf, textOf, versions } from './ai.js'

const thermometer: AgentTool = {
  name: 'thermometer',
  run: ({ room }) => {
    if (room === 'cellar') throw new Error('there is no thermometer')
    return '11'
  },
}

/** A chat server: a run for each message, and the run under way for a client that comes back. */
async function served(replies: readonly TestReply[], options: { detached?: boolean } = {}) {
  const { file } = folder()
  const model = scriptedProvider(replies)
  const engine = closing(
    new AgentEngine({ providers: { test: model }, models: [testModel], ledger: { path: file } }),
  )
  const runs: AgentRun[] = []
  const { detached = false } = options
  const { url, disconnect } = await httpServer(async (request, response) => {
    if (request.method === 'GET') {
      if (runs.length === 0) return response.writeHead(204).end()
      const source = engine.attach(`run-${runs.length}`)
      return writeUIMessageStream(source, response, { lastEventId: lastEventId(request) })
    }
    const { body } = await fromRequest<{ id: string; messages: any[] }>(request, { response })
    const [currentMessage] = fromUIMessages(body.messages.slice(-1))
    if (currentMessage === undefined) throw new Error('there is no message')
    const runId = `run-${runs.length + 1}`
    const tools = [thermometer]
    const run = engine.run(
      context({ runId, sessionLabel: body.id, currentMessage, tools, detached }),
    )
    runs.push(run)
    return detached
      ? writeUIMessageStream(run, response)
      : send(toUIMessageStreamResponse(run), response)
  })
  return { engine, model, runs, url, disconnect }
}

const plain = (value: unknown) => JSON.parse(JSON.stringify(value))

describe.each(versions)('%s', (_, ai) => {
  const closers: (() => unknown)[] = []
  afterEach(() => {
    for (const close of closers.splice(0)) close()
  })

  test('shows reasoning, text and a tool with its output, and the next message goes on in the session', async () => {
    const { model, url } = await served([
      [reasoning('I look.'), 'Let me look.', toolCall('thermometer', {})],
      'Eleven degrees.',
      'You are welcome.',
    ])
    const ends: unknown[] = []
    const { chat } = chatOf(ai, url, {
      onFinish: ({ isAbort, isError }) => ends.push([isAbort, isError]),
    })
    await chat.sendMessage({ text: 'How warm is it?' })
    expect(chat.status).toBe('ready')
    expect(plain(chat.messages)).toMatchObject([
      { role: 'user', parts: [{ type: 'text', text: 'How warm is it?' }] },
      {
        id: 'run-1',
        role: 'assistant',
        parts: [
          { type: 'step-start' },
          { type: 'reasoning', text: 'I look.', state: 'done' },
          { type: 'text', text: 'Let me look.', state: 'done' },
          {
            type: 'tool-thermometer',
            toolCallId: 'call_1',
            state: 'output-available',
            input: {},
            output: '11',
          },
          { type: 'step-start' },
          { type: 'text', text: 'Eleven degrees.', state: 'done' },
        ],
      },
    ])
    await chat.sendMessage({ text: 'Thank you.' })
    expect(textOf(chat.lastMessage)).toBe('You are welcome.')
    expect(ends).toEqual([
      [false, false],
      [false, false],
    ])
    expect(transcript(model.request(-1).messages)).toEqual([
      'user: How warm is it?',
      'reasoning: I look.',
      'assistant: Let me look.',
      'call: thermometer {}',
      'result: 11',
      'assistant: Eleven degrees.',
      'user: Thank you.',
    ])
  })

  test('shows the input of a tool as it streams, its progress and its output, from a provider over HTTP', async () => {
    const input = { room: 'attic', days: [1, { half: true }], note: 'ö"\n' }
    const json = JSON.stringify(input)
    const pieces = [json.slice(0, 9), json.slice(9, 31), json.slice(31)]
    const called = [
      anthropic.start(),
      anthropic.blockStart(0, { type: 'tool_use', id: 'toolu_1', name: 'thermometer', input: {} }),
      ...pieces.map((partial_json) =>
        anthropic.delta(0, { type: 'input_json_delta', partial_json }),
      ),
      anthropic.blockStop(0),
      anthropic.end('tool_use'),
    ].join('')
    const provider = await serving(sse(called), sse(anthropic.answer('Eleven.')))
    const engine = closing(engineAt(provider.url))
    const seen: unknown[] = []
    const tools: AgentTool[] = [
      {
        name: 'thermometer',
        run: (params, { onUpdate }) => {
          seen.push(params)
          onUpdate({ percent: 50 })
          return { celsius: 11, of: params.room }
        },
      },
    ]
    const run = engine.run(context({ tools, events: { toolInput: true } }))
    const chunks: any[] = []
    for await (const chunk of toUIMessageStream(run, { toolProgress: true })) chunks.push(chunk)
    const output = { celsius: 11, of: 'attic' }
    expect(chunks.filter(({ type }) => type.startsWith('tool-'))).toEqual([
      { type: 'tool-input-start', toolCallId: 'toolu_1', toolName: 'thermometer' },
      ...pieces.map((inputTextDelta) => ({
        type: 'tool-input-delta',
        toolCallId: 'toolu_1',
        inputTextDelta,
      })),
      { type: 'tool-input-available', toolCallId: 'toolu_1', toolName: 'thermometer', input },
      {
        type: 'tool-output-available',
        toolCallId: 'toolu_1',
        output: { percent: 50 },
        preliminary: true,
      },
      { type: 'tool-output-available', toolCallId: 'toolu_1', output },
    ])
    expect(seen).toEqual([input])
    const stream = new ReadableStream({
      start(controller) {
        for (const chunk of chunks) controller.enqueue(chunk)
        controller.close()
      },
    })
    let message: any
    for await (const state of ai.readUIMessageStream({ stream })) message = state
    expect(message.parts).toMatchObject([
      { type: 'step-start' },
      { type: 'tool-thermometer', state: 'output-available', input, output },
      { type: 'step-start' },
      { type: 'text', text: 'Eleven.', state: 'done' },
    ])
  })

  test('shows a tool that failed, and goes on', async () => {
    const { url } = await served([[toolCall('thermometer', { room: 'cellar' })], 'I cannot.'])
    const { chat } = chatOf(ai, url)
    await chat.sendMessage({ text: 'How warm is the cellar?' })
    expect(plain(chat.lastMessage?.parts)).toMatchObject([
      { type: 'step-start' },
      {
        type: 'tool-thermometer',
        state: 'output-error',
        errorText: expect.stringContaining('there is no thermometer'),
      },
      { type: 'step-start' },
      { type: 'text', text: 'I cannot.' },
    ])
  })

  test('an error of the run is the error of the chat, and what came before stays', async () => {
    const { url } = await served([['Half an ans', failure('server_error', { message: 'broken' })]])
    const errors: string[] = []
    const { chat } = chatOf(ai, url, { onError: ({ message }) => errors.push(message) })
    await chat.sendMessage({ text: 'Hello?' })
    expect(chat.status).toBe('error')
    expect(errors).toEqual([expect.stringContaining('broken')])
    expect(textOf(chat.lastMessage)).toBe('Half an ans')
  })

  test('`stop` aborts the run of the engine', async () => {
    const never = gate()
    const { engine, runs, url } = await served([['For ever ', never]])
    const { chat, state } = chatOf(ai, url)
    const sent = chat.sendMessage({ text: 'How long?' })
    await state.until('For ever ')
    await chat.stop()
    await sent
    expect(chat.status).toBe('ready')
    expect(await runs[0]?.result).toMatchObject({ stopReason: 'aborted', persisted: true })
    const { rows } = await engine.ledger.query('SELECT status FROM turns')
    expect(rows).toEqual([{ status: 'aborted' }])
  })

  test('a page that is loaded again resumes the stream of the run under way', async () => {
    const door = gate()
    const { runs, url, disconnect } = await served(
      [[toolCall('thermometer', {})], ['It is ', door, 'eleven.']],
      { detached: true },
    )
    const first = chatOf(ai, url)
    const sent = first.chat.sendMessage({ text: 'How warm is it?' })
    await first.state.until('It is ')
    disconnect()
    await sent
    expect(first.chat.status).toBe('error')

    // The new page has the messages that its server stored: those before the answer.
    const second = chatOf(ai, url)
    second.chat.messages = first.chat.messages.slice(0, 1)
    const resumed = second.chat.resumeStream()
    await second.state.until('It is ')
    door.open()
    await resumed
    await runs[0]?.result
    expect(second.chat.status).toBe('ready')
    expect(plain(second.chat.messages.map(({ role }) => role))).toEqual(['user', 'assistant'])
    expect(plain(second.chat.lastMessage)).toMatchObject({
      id: 'run-1',
      parts: [
        { type: 'step-start' },
        { type: 'tool-thermometer', state: 'output-available', output: '11' },
        { type: 'step-start' },
        { type: 'text', text: 'It is eleven.', state: 'done' },
      ],
    })
  })

  test('without a run under way there is nothing to resume', async () => {
    const { url } = await served([])
    const { chat } = chatOf(ai, url)
    await chat.resumeStream()
    expect([chat.status, chat.messages]).toEqual(['ready', []])
  })

  test('a client with `Last-Event-ID` reads on where it was, and makes the same message', async () => {
    const { runs, url } = await served(
      [
        [reasoning('I look.'), toolCall('thermometer', {})],
        ['It is ', 'eleven.'],
      ],
      { detached: true },
    )
    const { chat } = chatOf(ai, url)
    await chat.sendMessage({ text: 'How warm is it?' })
    await runs[0]?.result
    const whole = await (await fetch(url)).text()
    const ids = [...whole.matchAll(/^id: (\d+)$/gm)].map(([, id]) => id ?? '')
    expect(ids.length).toBeGreaterThan(6)
    for (const id of ids) {
      const rest = await (await fetch(url, { headers: { 'last-event-id': id } })).text()
      const cut = whole.indexOf('\n\n', whole.indexOf(`id: ${id}\n`)) + 2
      expect(rest).toBe(`:\n\n${whole.slice(cut)}`)
      const body = new Response(whole.slice(0, cut) + rest).body as ReadableStream<Uint8Array>
      const schema = ai.uiMessageChunkSchema
      const parsed = ai.parseJsonEventStream({ stream: body, schema }) as ReadableStream<any>
      const stream = parsed.pipeThrough(
        new TransformStream({ transform: ({ value }, to) => to.enqueue(value) }),
      )
      let message: unknown
      for await (message of ai.readUIMessageStream({ stream, terminateOnError: true })) {
      }
      expect(plain(message)).toEqual(plain(chat.lastMessage))
    }
  })
})
