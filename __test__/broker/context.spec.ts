// What a broker puts beside a message: events and memories as blocks of their own, layers that a host changes, and the record of
// them in the ledger. It must never look inside the addon.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import {
  AgentEngine,
  type AgentEngineError,
  type Broker,
  type ContextLayer,
  type LayerChange,
  type QueuedMessage,
} from '../../index.js'
import { askedServer, brokerAt, echoing, userTexts } from '../support/broker.js'
import { closing, folder, serving } from '../support/cleanup.js'
import { context, engineAt } from '../support/engine.js'
import { ledgerAt } from '../support/ledger/named.js'
import { killedAfterTool } from '../support/processes/killed-sender.js'
import { wireApis } from '../support/servers/wire-apis.js'
import { waitingTool } from '../support/tools.js'

const to = { session: 'agent:main:main' }
const agent = { model: 'test-model', provider: 'test' }
const time = '2026-11-23T06:45:12+01:00'

/** The text of a tag, with its nonce as `N`. */
const plain = (text: string) => text.replaceAll(/nonce="[0-9a-f]{16}"/g, 'nonce="N"')

const short = ({ name, source, text }: LayerChange) => [name, source, plain(text)]

/** The messages of a request, without the marks of the prompt cache. */
const sent = (body: any) =>
  JSON.parse(
    JSON.stringify(body.messages, (key, value) => (key === 'cache_control' ? undefined : value)),
  )

/** The layers that are recorded with messages, by their turns and positions; null for a message without. */
async function recordedLayers(engine: AgentEngine): Promise<[string, number, any[] | null][]> {
  const { rows } = await engine.ledger.query(
    'SELECT turn_id, sequence, context_json FROM messages ORDER BY turn_id, sequence',
  )
  return rows.map(({ turn_id, sequence, context_json }) => [
    String(turn_id),
    Number(sequence),
    context_json === null ? null : JSON.parse(String(context_json)),
  ])
}

test('an event is a block of its own before the message, and is sent again byte for byte', async () => {
  const server = await echoing()
  const { broker } = brokerAt(server.url)
  const send = (message: string, from: string) =>
    broker.execute({
      to,
      message,
      event: { from, time, text: 'In #general.' },
      eventId: `of ${from}`,
    })
  await send('Hi', 'ann').result
  await send('Bye', 'bob').result
  const [first, second] = server.seen.map(({ body }) => sent(body))
  expect(first[0].content.map(({ text }: { text: string }) => plain(text))).toEqual([
    `<event nonce="N" id="of ann" from="ann" time="${time}">\nIn #general.\n</event nonce="N">`,
    'Hi',
  ])
  expect(second.slice(0, 1)).toEqual(first)
  const nonces = second.flatMap(({ content }: any) =>
    [...JSON.stringify(content).matchAll(/<event nonce=\\"(\w+)/g)].map(([, nonce]) => nonce),
  )
  expect(new Set(nonces).size).toBe(2)
})

test('the fields of an event that a message is routed by are its attributes, with the time of its zone', async () => {
  const server = await echoing()
  const { broker } = brokerAt(server.url, { context: { timeZone: 'Asia/Kolkata' } })
  const peer = { kind: 'group', id: '7"><event>' } as const
  const event = { channel: 'telegram', accountId: 'bot', peer, threadId: '9' }
  await broker.execute({ to: { event }, message: 'Hi' }).result
  const [tag, text] = userTexts(server.seen[0] as never)
  expect(plain(tag ?? '').replace(/time="[^"]*"/, 'time="T"')).toBe(
    '<event nonce="N" channel="telegram" account="bot" peer="group:7\\"\\u003e\\u003cevent\\u003e" thread="9" time="T"></event nonce="N">',
  )
  expect(tag).toMatch(/time="\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+05:30"/)
  expect(text).toBe('Hi')
})

test('a message without an event, of an agent without a prompt, is sent and stored as it is', async () => {
  const server = await echoing()
  const { broker, engine } = brokerAt(server.url)
  await broker.execute({ to, message: 'Hi' }).result
  expect(sent(server.seen[0]?.body)).toEqual([
    { role: 'user', content: [{ type: 'text', text: 'Hi' }] },
  ])
  const [[turnId = '', sequence, layers] = []] = await recordedLayers(engine)
  expect([sequence, layers]).toEqual([0, null])
  const [stored] = (await engine.ledger.turn(turnId))?.messages ?? []
  expect([stored?.content, stored?.blocks]).toEqual(['Hi', [{ type: 'text', text: 'Hi' }]])
})

test('a block with an origin is no part of a content, a search or a recalled text', async () => {
  const server = await echoing()
  const { broker, engine } = brokerAt(server.url)
  const event = { text: 'walrus', time }
  const result = await broker.execute({ to, message: 'penguin', event }).result
  expect(result.messages[0]?.content).toBe('penguin')
  expect(
    result.messages[0]?.blocks.map(({ type, ...rest }) => ('origin' in rest ? rest.origin : type)),
  ).toEqual(['event', 'text'])
  expect(result.text).toBe('to penguin')
  const found = async (text: string) => (await engine.ledger.search(text)).items.length
  expect([await found('walrus'), await found('penguin')]).toEqual([0, 2])
  const turn = await engine.ledger.turn(result.turnId)
  expect(turn?.messages[0]).toEqual(result.messages[0])
})

test('every wire sends an event as a part of its own before the text', async () => {
  for (const { api, answer, provider } of wireApis) {
    const server = await serving(answer('fine'))
    const engine = closing(engineAt(server.url, {}, { api, ...provider }))
    const content = [
      { type: 'text', text: '<event>', origin: 'event' },
      { type: 'text', text: '<memory>', origin: 'memory' },
      { type: 'text', text: 'Hi' },
    ] as const
    await engine.run(context({ currentMessage: { role: 'user', content: [...content] } })).result
    // Chat Completions have one text, with blank lines between its parts.
    const json = JSON.stringify(server.seen[0]?.body).replace(
      '<event>\\n\\n<memory>\\n\\nHi',
      '<event>","<memory>","Hi',
    )
    const at = ['"<event>"', '"<memory>"', '"Hi"'].map((text) => json.indexOf(text))
    expect([api, at.every((position) => position > 0), at]).toEqual([
      api,
      true,
      at.toSorted((a, b) => a - b),
    ])
    expect(json).not.toContain('origin')
  }
})

test('an origin belongs into a message of a user, and has two names', async () => {
  const server = await echoing()
  const engine = closing(engineAt(server.url))
  const asked = (origin: string) =>
    engine.run(
      context({
        currentMessage: { role: 'user', content: [{ type: 'text', text: 'x', origin }] } as never,
      }),
    )
  expect(() => asked('tool')).toThrow(
    /currentMessage\.content\[0\]\.origin.*neither `event` nor `memory`/,
  )
  const answer = {
    role: 'assistant',
    content: [{ type: 'text', text: 'x', origin: 'event' }],
  } as never
  expect(() => engine.run(context({ history: [answer] }))).toThrow(
    /history\[0\].*belongs into a message of role `user`/,
  )
  const result = {
    role: 'tool',
    toolCallId: 'c',
    toolName: 't',
    content: [{ type: 'text', text: 'x', origin: 'event' }],
  } as never
  expect(() => engine.run(context({ history: [result] }))).toThrow(/history\[0\]/)
  expect(server.seen).toEqual([])
})

test('a host replaces, adds and removes layers; what it returns for a memory has a tag of its own', async () => {
  const server = await echoing()
  const seen: ContextLayer[][] = []
  const scopes: unknown[] = []
  const { broker, engine } = brokerAt(server.url, {
    agents: { main: { ...agent, identity: 'You are Atlas.', prompt: { safety: 'No mail.' } } },
    context: {
      layers: async (layers, scope) => {
        seen.push(layers)
        scopes.push([scope.sessionLabel, scope.agentId, scope.text, scope.identity])
        const kept = layers.filter(({ source }) => source !== 'safety')
        return [
          { name: 'persona', source: 'house', text: 'House rules.' },
          ...kept,
          { name: 'cortex', source: 'notes', text: 'Ann likes tea.' },
        ]
      },
    },
  })
  const event = { from: 'ann', time }
  const result = await broker.execute({ to, message: 'Hi', event, identity: 'ann' }).result
  const tag = `<event nonce="N" from="ann" time="${time}"></event nonce="N">`
  expect(seen[0]?.map(short)).toEqual([
    ['persona', 'identity', 'You are Atlas.'],
    ['persona', 'safety', '## Safety\n\nNo mail.'],
    ['session', 'agent:main:main', ''],
    ['event', 'message', tag],
  ])
  expect(scopes).toEqual([['agent:main:main', 'main', 'Hi', 'ann']])
  const { body } = server.seen[0] as never as { body: any }
  expect(body.system[0].text).toBe('House rules.\n\nYou are Atlas.')
  expect(userTexts(server.seen[0] as never).map(plain)).toEqual([
    '<memory nonce="N" source="notes">\nAnn likes tea.\n</memory nonce="N">',
    tag,
    'Hi',
  ])
  // Why did the agent know this?
  const [recorded, ...others] = (await recordedLayers(engine)).filter(([, , of]) => of !== null)
  expect([recorded?.[0], others]).toEqual([result.turnId, []])
  expect(recorded?.[2]?.map(({ name, source, tokens }) => [name, source, tokens])).toEqual([
    ['persona', 'house', 3],
    ['persona', 'identity', 4],
    ['session', 'agent:main:main', 0],
    ['event', 'message', expect.any(Number)],
    ['cortex', 'notes', 4],
  ])
})

test('the same text has the same hash in every turn', async () => {
  const server = await echoing()
  const { broker, engine } = brokerAt(server.url, {
    context: { layers: (layers) => [...layers, { name: 'cortex', source: 'm', text: 'Tea.' }] },
  })
  for (const message of ['a', 'b']) await broker.execute({ to, message }).result
  const layers = (await recordedLayers(engine)).flatMap(([, , of]) => of ?? [])
  const [one, other] = layers.filter(({ source }) => source === 'm').map(({ hash }) => hash)
  expect(one).toMatch(/^[0-9a-f]{32}$/)
  expect(other).toBe(one)
})

const wrong: [string, unknown, RegExp][] = [
  ['throws', () => Promise.reject(new Error('no memory')), /`context\.layers` threw: no memory/],
  ['returns nothing', () => undefined, /did not return a list of layers/],
  [
    'invents a layer',
    () => [{ name: 'mood', source: 'x', text: '' }],
    /\[0\]\.name`: is not one of workspace, persona, session, cortex, event/,
  ],
  ['returns no text', () => [{ name: 'cortex', source: 'x' }], /\[0\]\.text`: is not a string/],
]
for (const [what, layers, why] of wrong) {
  test(`a host's function that ${what} fails the message visibly, and the next one is answered`, async () => {
    const server = await echoing()
    let fails = true
    const { broker, engine } = brokerAt(server.url, {
      context: { layers: (given) => (fails ? (layers as () => never)() : given) },
    })
    const errors: unknown[] = []
    broker.on('error', (error) => void errors.push(error))
    const failed = broker.execute({ to, message: 'a' })
    await expect(failed.result).rejects.toMatchObject({
      code: 'not_delivered',
      message: expect.stringMatching(why),
    })
    expect(errors).toMatchObject([{ code: 'context_failed', message: expect.stringMatching(why) }])
    const { itemId } = await failed.receipt
    const { rows } = await engine.ledger.query('SELECT id, status, reason FROM queue_items')
    expect(rows).toEqual([{ id: itemId, status: 'failed', reason: 'run_failed' }])
    fails = false
    expect((await broker.execute({ to, message: 'b' }).result).text).toBe('to b')
    expect(server.seen.length).toBe(1)
  })
}

const silent = {
  '`context.layers`': (waits: () => Promise<never>) => ({ context: { layers: waits } }),
  'toolset `house`': (waits: () => Promise<never>) => ({
    agents: { main: { ...agent, toolset: 'house' } },
    toolsets: { house: waits },
  }),
}
for (const [name, optionsOf] of Object.entries(silent)) {
  test(`a host whose ${name} does not answer for 30 seconds fails the message, and its session is free`, async () => {
    const server = await echoing()
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    try {
      const asked: (() => void)[] = []
      const { broker } = brokerAt(
        server.url,
        optionsOf(() => {
          asked.shift()?.()
          return new Promise(() => {})
        }),
      )
      // The second one shows that the session is not busy for ever.
      for (const message of ['a', 'b']) {
        const waits = new Promise<void>((resolve) => void asked.push(resolve))
        const { result } = broker.execute({ to, message })
        await waits
        vi.advanceTimersByTime(30_000)
        await expect(result).rejects.toMatchObject({
          code: 'not_delivered',
          message: expect.stringContaining(`${name} did not answer within 30 s`),
        })
      }
    } finally {
      vi.useRealTimers()
    }
  })
}

test('a toolset that does not answer for 30 seconds when a turn is resumed closes the turn, and its session is free', async () => {
  const { server, next, file } = await killedAfterTool()
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  try {
    let answers = false
    const asked: (() => void)[] = []
    const waits = new Promise<void>((resolve) => void asked.push(resolve))
    const { broker, engine } = brokerAt(
      server.url,
      {
        agents: { main: { ...agent, toolset: 'house' } },
        toolsets: {
          house: () => {
            asked.shift()?.()
            return answers ? [] : new Promise<never>(() => {})
          },
        },
        queue: { pulseMs: 20 },
      },
      { ledger: ledgerAt(file) },
    )
    const errors: unknown[] = []
    broker.on('error', (error) => {
      const { code, message } = error as AgentEngineError
      errors.push([code, message])
    })
    const ended = new Promise<QueuedMessage[]>((resolve) => {
      broker.on('queue', ({ items }) => resolve(items))
    })
    await waits
    const following = broker.execute({ to: { session: 'main' }, message: 'b' })
    await following.receipt
    answers = true
    vi.advanceTimersByTime(29_999)
    expect(errors).toEqual([])
    vi.advanceTimersByTime(1)
    const [item] = await ended
    expect(errors).toEqual([
      ['context_failed', expect.stringContaining('toolset `house` did not answer within 30 s')],
    ])
    // What the turn has done is in the session, and nothing of it is done again.
    const turn = await engine.ledger.turn(item?.turnId ?? '')
    expect([item?.status, turn?.status, turn?.messages.map(({ role }) => role)]).toEqual([
      'delivered',
      'failed',
      ['user', 'assistant', 'tool'],
    ])
    ;(await next()).answer('to b')
    expect((await following.result).text).toBe('to b')
    expect(await engine.recover()).toEqual([])
  } finally {
    vi.useRealTimers()
  }
})

test('a steered message enters the turn with its event', async () => {
  const { server, next } = await askedServer()
  const { wait, begun, finish } = waitingTool()
  const { broker, engine } = brokerAt(server.url, {
    agents: { main: { ...agent, toolset: 'house' } },
    toolsets: { house: [wait] },
  })
  const first = broker.execute({ to, message: 'a' })
  ;(await next()).calls(['call_1', 'wait', {}])
  await begun
  const steered = broker.execute({ to, message: 'b', mode: 'steer', event: { from: 'ann', time } })
  await steered.receipt
  // Another step of the session may be under way: it is offered to the turn by the next one.
  const offered = 'SELECT id FROM queue_items WHERE turn_id IS NOT NULL'
  await expect.poll(async () => (await engine.ledger.query(offered)).rows.length).toBe(2)
  finish()
  const asked = await next()
  expect(asked.texts.map(plain)).toEqual([
    'a',
    `<event nonce="N" from="ann" time="${time}"></event nonce="N">`,
    'b',
  ])
  asked.answer('to both')
  const { turnId } = await first.result
  const messages = (await engine.ledger.turn(turnId))?.messages ?? []
  const users = messages.filter(({ role }) => role === 'user')
  expect(users.map(({ content, blocks }) => [content, blocks.length])).toEqual([
    ['a', 1],
    ['b', 2],
  ])
})

test('a context that was put together apart has its layers, and its run records them', async () => {
  const server = await echoing()
  const { broker, engine } = brokerAt(server.url, {
    agents: { main: { ...agent, identity: 'Me.' } },
  })
  const assembled = await broker.assembleContext({
    to,
    message: 'Hi',
    event: { from: 'ann', time },
  })
  expect(assembled.layers?.map((layer) => short(layer as ContextLayer))).toEqual([
    ['persona', 'identity', 'Me.'],
    ['session', 'agent:main:main', ''],
    ['event', 'message', `<event nonce="N" from="ann" time="${time}"></event nonce="N">`],
  ])
  expect(assembled.layers?.[0]).toEqual({
    name: 'persona',
    source: 'identity',
    text: 'Me.',
    tokens: 1,
    hash: expect.stringMatching(/^[0-9a-f]{32}$/),
  })
  const { turnId } = await broker.runAgent(assembled).result
  expect((await recordedLayers(engine))[0]).toEqual([
    turnId,
    0,
    assembled.layers?.map(({ text: _, ...recorded }) => recorded),
  ])
})

test('a run without a broker records its layers, also where its turn is written at its end', async () => {
  const server = await echoing()
  const layers = [
    { name: 'cortex', source: 'm', tokens: 1, hash: 'h', text: 'not stored' },
  ] as const
  for (const journal of ['full', 'final'] as const) {
    const engine = closing(engineAt(server.url, { ledger: { path: folder().file, journal } }))
    const { turnId } = await engine.run(context({ layers })).result
    const own = [{ name: 'cortex', source: 'm', tokens: 1, hash: 'h' }]
    expect([journal, await recordedLayers(engine)]).toEqual([
      journal,
      [
        [turnId, 0, own],
        [turnId, 1, null],
      ],
    ])
    expect(await engine.ledger.verify()).toMatchObject({ ok: true })
  }
})

/** A session of two turns with events and layers. */
async function recorded() {
  const server = await echoing()
  const made = brokerAt(server.url, { agents: { main: { ...agent, identity: 'Me.' } } })
  for (const message of ['a', 'b']) {
    await made.broker.execute({ to, message, event: { text: `walrus ${message}`, time } }).result
  }
  return { ...made, server }
}

const contexts = async (engine: AgentEngine) => {
  const { rows } = await engine.ledger.query(
    "SELECT turn_id, id, context_json FROM messages WHERE role = 'user' ORDER BY created_at, id",
  )
  const read = rows.map(async ({ turn_id, id, context_json }) => {
    const turn = await engine.ledger.turn(String(turn_id))
    const message = turn?.messages.find((it) => it.id === id)
    return { context_json, content: message?.content, blocks: message?.blocks }
  })
  return Promise.all(read)
}

test('layers and injected texts survive an export and an import', async () => {
  const { engine } = await recorded()
  const path = join(folder().path, 'out.jsonl')
  await engine.ledger.export(path)
  const other = closing(new AgentEngine({ ledger: { path: folder().file } }))
  await other.ledger.import(path)
  const before = await contexts(engine)
  expect(before.map(({ context_json }) => typeof context_json)).toEqual(['string', 'string'])
  expect(await contexts(other)).toEqual(before)
  expect((await other.ledger.search('walrus')).items).toEqual([])
  expect(await other.ledger.verify()).toMatchObject({ ok: true })
})

test('a fork has the layers of its turns', async () => {
  const { engine } = await recorded()
  const before = await contexts(engine)
  const head = (await engine.ledger.session(to.session))?.threadId ?? ''
  await engine.ledger.fork(head, { label: 'fork-1' } as never)
  expect((await contexts(engine)).length).toBeGreaterThanOrEqual(before.length)
})

test('a secure deletion leaves nothing of layers and events in the file', async () => {
  const { engine, broker, file } = await recorded()
  await broker.close()
  const holds = () => readFileSync(file, 'latin1')
  await engine.ledger.deleteSession(to.session, { turns: true, secure: true })
  await engine.close()
  for (const part of ['walrus', '"persona"', 'You are'])
    expect([part, holds().includes(part)]).toEqual([part, false])
})

test('layers are a list, and each names its layer, its source, its tokens and its hash', async () => {
  const server = await echoing()
  const engine = closing(engineAt(server.url))
  const run = (layers: unknown) => engine.run(context({ layers: layers as never }))
  expect(() => run('x')).toThrow(/layers.*is not a list of layers/)
  expect(() => run([{ name: 'mood', source: 'x', tokens: 1, hash: 'h' }])).toThrow(
    /layers\[0\]\.name|layers/,
  )
  expect(() => run([{ name: 'cortex', source: 'x', tokens: 1 }])).toThrow(/hash/)
  expect(server.seen).toEqual([])
})

const options: [string, object, RegExp][] = [
  ['context', { context: 7 }, /context/],
  ['context.layer', { context: { layer: 1 } }, /context\.layer.*layers, memory, timeZone/],
  ['context.layers', { context: { layers: 'x' } }, /context\.layers.*is not a function/],
  ['context.timeZone', { context: { timeZone: 'Mars' } }, /context\.timeZone.*no time zone/],
]
for (const [path, given, why] of options) {
  test(`a wrong \`${path}\` is refused`, async () => {
    const server = await echoing()
    expect(() => brokerAt(server.url, given as never)).toThrow(why)
  })
}

test('an event has names of attributes, and values that are no objects', async () => {
  const server = await echoing()
  const { broker } = brokerAt(server.url)
  const refusals: [object, RegExp][] = [
    [{ nonce: 'x' }, /event\.nonce.*is no name of an attribute/],
    [{ 'a b': 'x' }, /event\.a b.*is no name of an attribute/],
    [{ from: {} }, /event\.from.*neither a string, a number nor a boolean/],
    [{ text: 1 }, /event\.text.*is not a string/],
  ]
  for (const [event, why] of refusals) {
    await expect(
      (broker as Broker).send({ to, message: 'x', event: event as never }),
    ).rejects.toThrow(why)
  }
  expect(await broker.queue(to.session)).toEqual([])
})
