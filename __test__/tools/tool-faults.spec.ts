// Tools that misbehave (docs/rules/faults.md#tool-faults): the model receives a failure, the run continues, the process lives. A
// call must never have more or less than one result.

import { expect, test } from 'vitest'
import type { PlainTool, StreamEvent } from '../../index.js'
import { context, engineAt, readAll, scriptedEngine, tempDir } from '../support/engine.js'
import { anthropic } from '../support/servers/anthropic.js'
import { chat } from '../support/servers/chat.js'
import { sse, testServer } from '../support/servers/server.js'
import { callTools, deferred, runTools, textOf, tool } from '../support/tools.js'
import { expectNothingStray } from '../support/uncaught.js'

expectNothingStray()

const thrower = (value: unknown) => () => {
  throw value
}
const unreadable = () =>
  Object.defineProperty({}, 'message', {
    get() {
      throw new Error('not for you')
    },
  })
const hostile = () =>
  new Proxy(
    {},
    {
      get: (_, key) => {
        if (key === 'then') return undefined
        throw new Error(`trap get ${String(key)}`)
      },
      ownKeys: () => {
        throw new Error('trap ownKeys')
      },
      getPrototypeOf: () => {
        throw new Error('trap getPrototypeOf')
      },
    },
  )
const deep = (levels: number) => {
  let value: unknown = 1
  for (let i = 0; i < levels; i++) value = [value]
  return value
}
const circular = () => {
  const value: { self?: unknown } = {}
  value.self = value
  return value
}

const UNREADABLE = 'the tool failed with an error that cannot be read'
const NOTHING = 'the tool failed without a message'

test.each<[string, PlainTool['run'], string | RegExp]>([
  ['throws at once', thrower(new Error('broken')), 'broken'],
  ['throws a string', thrower('just text'), 'just text'],
  ['throws undefined', thrower(undefined), NOTHING],
  ['throws null', thrower(null), NOTHING],
  ['throws an error without a message', thrower(new Error('')), NOTHING],
  ['throws a symbol', thrower(Symbol('why')), 'Symbol(why)'],
  ['throws a number', thrower(7), '7'],
  ['throws an object with a message', thrower({ message: 'said' }), 'said'],
  ['throws an object without one', thrower({ code: 'E_ROW', row: 7 }), '{"code":"E_ROW","row":7}'],
  ['throws an object whose message cannot be read', thrower(unreadable()), UNREADABLE],
  ['throws a circular object', thrower(circular()), UNREADABLE],
  ['throws a Proxy that throws', thrower(hostile()), UNREADABLE],
  ['throws an error with a lone surrogate', thrower(new Error('cut \ud83d')), 'cut \ufffd'],
  ['rejects with an error', async () => Promise.reject(new Error('broken')), 'broken'],
  ['rejects with a string', () => Promise.reject('text'), 'text'],
  ['rejects with undefined', () => Promise.reject(undefined), NOTHING],
  ['rejects with an unreadable object', () => Promise.reject(unreadable()), UNREADABLE],
  ['returns undefined', () => undefined, /the tool returned undefined; return a string, JSON/],
  ['returns a function', () => () => 1, /the tool returned a function;/],
  ['returns a symbol', () => Symbol('s'), /the tool returned a symbol;/],
  ['returns a BigInt', () => 5n, /BigInt/],
  ['returns a BigInt inside', () => ({ n: 5n }), /BigInt/],
  ['returns a circular object', circular, /circular/i],
  ['returns a Proxy that throws', hostile, 'trap get next'],
  [
    'returns an object whose getter throws',
    () => ({
      ok: 1,
      get broken() {
        throw new Error('getter')
      },
    }),
    'getter',
  ],
  [
    'returns an object whose toJSON throws',
    () => ({ toJSON: thrower(new Error('toJSON')) }),
    'toJSON',
  ],
  [
    'returns an object whose toJSON gives nothing',
    () => ({ toJSON: () => undefined }),
    /return a string/,
  ],
  ['returns a thenable whose then throws', () => ({ then: thrower(new Error('then')) }), 'then'],
  [
    'returns a thenable whose then cannot be read',
    () => ({
      get then() {
        throw new Error('get then')
      },
    }),
    'get then',
  ],
  ['returns 100,000 levels', () => deep(100_000), /call stack|too deep/i],
  [
    'returns an image of 40 MB',
    () => ({
      content: [{ type: 'image', data: 'A'.repeat(40 * 1024 * 1024), mimeType: 'image/png' }],
    }),
    'the tool returned 41943040 characters of images; at most 33554432 are allowed',
  ],
  [
    'returns content of unknown blocks',
    () => ({
      content: [
        { type: 'text', text: 'ok' },
        { type: 'audio', data: '' },
      ],
    }),
    "content[1] of the tool's result is neither a text nor an image block",
  ],
  ['returns content of null', () => ({ content: [null] }), /content\[0\] of the tool's result/],
  [
    'returns content of strings',
    () => ({ content: ['text'] }),
    /content\[0\] of the tool's result/,
  ],
  [
    'returns text that is no text',
    () => ({ content: [{ type: 'text', text: 5 }] }),
    /content\[0\]/,
  ],
  [
    'returns an image without data',
    () => ({ content: [{ type: 'image', mimeType: 'image/png' }] }),
    /content\[0\]/,
  ],
])(
  'a tool that %s: the model gets the reason, the other tool and the run continue',
  async (_, run, why) => {
    const { result, toolResults, requests, events } = await runTools(
      [tool('broken', run), tool('sound', () => 'fine')],
      [callTools(['broken'], ['sound'])],
    )
    expect(requests).toBe(2)
    expect(result.stopReason).toBe('end_turn')
    expect(toolResults.map((one) => [one.toolName, one.isError])).toEqual([
      ['broken', true],
      ['sound', false],
    ])
    const message = textOf(toolResults[0])
    if (typeof why === 'string') expect(message).toBe(why)
    else expect(message).toMatch(why)
    expect(result.toolCalls[0]).toMatchObject({ status: 'failed', error: message })
    expect(result.toolCalls[0]?.result).toBeUndefined()
    expect(
      events.flatMap((event) =>
        event.type === 'tool_status' ? [`${event.toolName} ${event.status}`] : [],
      ),
    ).toEqual(['broken started', 'broken failed', 'sound started', 'sound completed'])
  },
)

test('the same faults in pi’s shape are failures too', async () => {
  const faults: (() => unknown)[] = [
    thrower(new Error('sync')),
    () => Promise.reject('async'),
    () => undefined,
  ]
  const tools = faults.map((execute, index) => ({
    name: `pi_${index}`,
    description: '',
    parameters: { type: 'object' },
    execute,
  }))
  const { toolResults } = await runTools(tools, [callTools(['pi_0'], ['pi_1'], ['pi_2'])])
  expect(toolResults.map((one) => [one.isError, textOf(one).split(';')[0]])).toEqual([
    [true, 'sync'],
    [true, 'async'],
    [true, 'the tool returned undefined'],
  ])
})

test('a message of an error is cut at 65,536 characters', async () => {
  const { result } = await runTools(
    [tool('t', thrower(new Error(`${'x'.repeat(65_535)}\u{1f600}tail`)))],
    [callTools(['t'])],
  )
  // The cut splits a surrogate pair: half a character becomes U+FFFD.
  expect(result.toolCalls[0]?.error).toBe(`${'x'.repeat(65_535)}\ufffd`)
})

test('lone surrogates in a result become U+FFFD for the model and the ledger; the caller gets the value', async () => {
  const value = { cut: 'half \ud83d', whole: '\u{1f600}' }
  const { result, toolResults } = await runTools([tool('t', () => value)], [callTools(['t'])])
  expect(textOf(toolResults[0])).toBe('{"cut":"half \\ud83d","whole":"\u{1f600}"}')
  expect(result.toolCalls[0]?.result).toBe(value)
  const plain = await runTools([tool('t', () => 'half \ud83d')], [callTools(['t'])])
  expect(textOf(plain.toolResults[0])).toBe('half \ufffd')
  expect(plain.toolResults[0]?.isError).toBe(false)
})

test('3,000 levels of JSON are stored in the ledger and the result', async () => {
  const dir = tempDir()
  const value = deep(3_000)
  const { engine } = scriptedEngine([callTools(['t']), 'done'], { ledger: { path: dir.file } })
  const result = await engine.run(context({ tools: [tool('t', () => value)] })).result
  expect(result.toolCalls[0]?.status).toBe('completed')
  expect(result.toolCalls[0]?.result).toBe(value)
  expect(result.persisted).toBe(true)
  const row = await engine.ledger.turn(result.turnId)
  expect(row?.toolCalls).toHaveLength(1)
  const again = engine.run(context({ tools: [] }))
  expect((await again.result).persisted).toBe(true)
  await engine.close()
  dir.remove()
})

test('details that JSON cannot represent never fail a call', async () => {
  for (const details of [
    5n,
    circular(),
    hostile(),
    deep(100_000),
    () => 1,
    'x'.repeat(40 * 1024 * 1024),
  ]) {
    const value = { content: [{ type: 'text', text: 'ok' }], details }
    const { result, toolResults } = await runTools([tool('t', () => value)], [callTools(['t'])])
    expect(toolResults[0]?.isError).toBe(false)
    expect(result.toolCalls[0]?.result).toBe(value)
  }
})

test('a long result is cut for the model in the middle; the caller and the ledger have it whole', async () => {
  const dir = tempDir()
  const long = `begin ${'ä'.repeat(1_000_000)} end`
  const { engine, provider } = scriptedEngine([callTools(['t']), 'done'], {
    ledger: { path: dir.file },
  })
  const result = await engine.run(context({ tools: [tool('t', () => long)] })).result
  const { rows } = await engine.ledger.query(
    "SELECT length(whole_text('result_json', result_json, blobs_json)) AS n FROM tool_calls",
  )
  const request = JSON.stringify(provider.requests[1])
  await engine.close()
  dir.remove()
  expect(result.toolCalls[0]?.result).toBe(long)
  expect(rows).toEqual([{ n: JSON.stringify(long).length }])
  expect(request.length).toBeLessThan(250_000)
  expect(request).toContain('begin ä')
  expect(request).toContain('ä end')
  expect(request).toContain('characters were cut here; the full result is stored')
})

test('resolving twice, or resolving and then throwing, gives one result', async () => {
  const twice = tool('twice', () => ({
    then(resolve: (value: string) => void, reject: (error: Error) => void) {
      resolve('first')
      resolve('second')
      reject(new Error('third'))
      throw new Error('fourth')
    },
  }))
  const { result, toolResults } = await runTools([twice], [callTools(['twice'])])
  expect(toolResults.map(textOf)).toEqual(['first'])
  expect(result.toolCalls.map((call) => call.result)).toEqual(['first'])
})

test('results and updates after the time limit are discarded, fulfilled or rejected', async () => {
  const late = [deferred<string>(), deferred<string>()]
  const updates: unknown[] = []
  const lateUpdates: ((partial: unknown) => void)[] = []
  const tools = late.map(({ promise }, index) =>
    tool(
      `late_${index}`,
      (_, call) => {
        lateUpdates.push(call.onUpdate)
        return promise
      },
      { timeoutMs: 20, executionMode: 'parallel' },
    ),
  )
  const { engine, provider } = scriptedEngine([
    callTools(['late_0'], ['late_1']),
    { gate: 'go', text: 'done' },
  ])
  const run = engine.run(context({ tools }), { onToolUpdate: (payload) => updates.push(payload) })
  const events: StreamEvent[] = []
  for await (const event of run) {
    events.push(event)
    const failed = events.filter((one) => one.type === 'tool_status' && one.status === 'failed')
    if (event.type === 'tool_status' && failed.length === 2) {
      late[0]?.resolve('too late')
      late[1]?.reject(new Error('too late'))
      for (const update of lateUpdates) update('too late')
      setImmediate(() => provider.open('go'))
    }
  }
  const result = await run.result
  await engine.close()
  expect(result.stopReason).toBe('end_turn')
  expect(result.toolCalls.map((call) => [call.status, call.error, call.result])).toEqual([
    ['failed', 'Tool late_0 timed out after 20 ms.', undefined],
    ['failed', 'Tool late_1 timed out after 20 ms.', undefined],
  ])
  expect(updates).toEqual([])
  expect(events.filter((event) => event.type === 'tool_status')).toHaveLength(4)
})

test('an abort ends a run whose tool ignores its signal; its late result and updates are discarded', async () => {
  const late = deferred<string>()
  const updates: unknown[] = []
  let update: (partial: unknown) => void = () => {}
  let signal: AbortSignal | undefined
  const deaf = tool('deaf', (_, call) => {
    signal = call.signal
    update = call.onUpdate
    return late.promise
  })
  const { engine, provider } = scriptedEngine([callTools(['deaf']), 'never asked for'])
  const run = engine.run(context({ tools: [deaf] }), {
    onToolUpdate: (payload) => updates.push(payload),
    onToolResult: ({ status }) => status === 'started' && run.abort(),
  })
  const events = await readAll(run)
  const result = await run.result
  expect(result.stopReason).toBe('aborted')
  expect(result.toolCalls[0]).toMatchObject({ status: 'failed', error: 'aborted' })
  late.resolve('too late')
  update('too late')
  await new Promise((resolve) => setImmediate(resolve))
  expect(signal?.aborted ?? true).toBe(true)
  expect(updates).toEqual([])
  expect(provider.requests).toHaveLength(1)
  expect(result.toolCalls[0]?.result).toBeUndefined()
  expect(events.at(-1)).toMatchObject({ type: 'stream_end', final: true })
  await engine.close()
})

test('no tool starts after an abort, also if its start was pending', async () => {
  const began: string[] = []
  let abort = () => {}
  const make = (name: string) =>
    tool(
      name,
      () => {
        began.push(name)
        abort()
        return name
      },
      { executionMode: 'parallel' },
    )
  const { engine } = scriptedEngine([callTools(['a'], ['b'], ['c']), 'never'])
  const run = engine.run(context({ tools: ['a', 'b', 'c'].map(make) }))
  abort = () => run.abort()
  const result = await run.result
  await engine.close()
  expect(began).toEqual(['a'])
  expect(result.stopReason).toBe('aborted')
  expect(result.toolCalls.map((call) => call.status)).not.toContain('pending')
})

test('a throwing onToolUpdate or onToolResult harms neither the tool nor the run', async () => {
  const warnings: string[] = []
  const warned = deferred<void>()
  const onWarning = (warning: Error & { code?: string }) => {
    warnings.push(warning.code ?? '')
    warned.resolve()
  }
  process.on('warning', onWarning)
  const { engine } = scriptedEngine([callTools(['t']), 'done'])
  const result = await engine.run(
    context({
      tools: [
        tool('t', (_, call) => {
          call.onUpdate('half')
          return 'whole'
        }),
      ],
    }),
    { onToolUpdate: thrower(new Error('update')), onToolResult: thrower(new Error('result')) },
  ).result
  await warned.promise
  process.off('warning', onWarning)
  await engine.close()
  expect(warnings).toEqual(['AGENT_ENGINE_CALLBACK'])
  expect(result.toolCalls[0]).toMatchObject({ status: 'completed', result: 'whole' })
})

test('a tool that is modified during the run runs as it was passed', async () => {
  const fragile = tool('fragile', () => 'whole')
  const { engine } = scriptedEngine([callTools(['fragile']), 'done'])
  const run = engine.run(context({ tools: [fragile] }))
  delete (fragile as { run?: unknown }).run
  const result = await run.result
  await engine.close()
  expect(result.stopReason).toBe('end_turn')
  expect(result.toolCalls[0]).toMatchObject({ status: 'completed', result: 'whole' })
})

test('a call of a cut response is never executed', async () => {
  let executed = 0
  const tools = [
    tool('t', () => {
      executed++
      return 'ran'
    }),
  ]
  const whole = anthropic.calls(['c1', 't', { command: 'rm -rf /home/user' }])
  const half =
    anthropic.start() +
    anthropic.blockStart(0, { type: 'tool_use', id: 'c1', name: 't', input: {} }) +
    anthropic.delta(0, { type: 'input_json_delta', partial_json: '{"command":"rm -rf /home/u' })
  const bodies = [
    // The arguments are whole, but the answer may not be.
    whole.slice(0, whole.indexOf('event: message_delta')),
    whole.slice(0, whole.indexOf('event: message_stop')),
    half,
    half + anthropic.end('max_tokens'),
    anthropic.start() +
      anthropic.toolUse(0, 'c1', 't', { command: 'ls' }) +
      anthropic.end('max_tokens'),
  ]
  for (const body of bodies) {
    const server = await testServer(sse(body))
    const engine = engineAt(server.url)
    const result = await engine.run(context({ tools, timeoutMs: 1_000 })).result
    await engine.close()
    await server.close()
    expect(result.stopReason).not.toBe('tool_use')
    expect(result.toolCalls.filter((call) => call.status === 'completed')).toEqual([])
  }
  const chatCalls = chat.calls(['c1', 't', { command: 'ls' }])
  for (const body of [
    chatCalls.slice(
      0,
      chatCalls.indexOf(
        'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","model":"gpt-test","choices":[{"index":0,"delta":{},',
      ),
    ),
    chat.toolCall(0, 'c1', 't', '{"command":"ls"}') + chat.finish('length') + chat.done(),
    chat.toolCall(0, 'c1', 't', '{"command":"rm -rf /home/u') + chat.finish('length') + chat.done(),
  ]) {
    const server = await testServer(sse(body))
    const engine = engineAt(server.url, {}, { api: 'openai-chat' })
    const result = await engine.run(context({ tools, timeoutMs: 1_000 })).result
    await engine.close()
    await server.close()
    expect(result.toolCalls.filter((call) => call.status === 'completed')).toEqual([])
  }
  for (const reply of [
    { toolCalls: [{ name: 't' }], stopReason: 'max_tokens' as const },
    { steps: [{ toolCall: { name: 't' } }, { truncate: true as const }] },
  ]) {
    const { engine } = scriptedEngine([reply, reply, reply])
    await engine.run(context({ tools })).result
    await engine.close()
  }
  expect(executed).toBe(0)
})

test('the same call id twice in one answer: both get a result, and the model receives each once', async () => {
  const server = await testServer(
    sse(anthropic.calls(['same', 't', { n: 1 }], ['same', 't', { n: 2 }])),
    sse(anthropic.answer('ok')),
  )
  const engine = engineAt(server.url)
  const result = await engine.run(
    context({ tools: [tool('t', ({ n }: { n: number }) => `n=${n}`)] }),
  ).result
  await engine.close()
  await server.close()
  expect(result.stopReason).toBe('end_turn')
  expect(new Set(result.toolCalls.map((call) => call.callId)).size).toBe(result.toolCalls.length)
  const sent = server.seen[1]?.body.messages
  const uses = sent.at(-2).content.filter((block: { type: string }) => block.type === 'tool_use')
  const results = sent
    .at(-1)
    .content.filter((block: { type: string }) => block.type === 'tool_result')
  const ids = uses.map((block: { id: string }) => block.id)
  expect(new Set(ids).size).toBe(ids.length)
  expect(results.map((block: { tool_use_id: string }) => block.tool_use_id)).toEqual(ids)
})
