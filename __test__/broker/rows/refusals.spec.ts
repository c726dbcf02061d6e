// Wrong options of a broker, requests, schedules and layers: one error lists every problem with its path. It must never accept one of
// them, store a message or reach a model.

import { expect, test } from 'vitest'
import { AgentEngineError, Broker } from '../../../index.js'
import { askedServer, brokerAt, echoing } from '../../support/broker.js'
import { thrown } from '../../support/refusals.js'
import { random } from '../../support/values/random.js'

type Fields = Record<string, unknown>

const to = { session: 'agent:main:main' }
const agent = { model: 'test-model', provider: 'test' }

const paths = ({ issues }: AgentEngineError) => issues.map(({ path }) => path).sort()

const refused = async (call: () => Promise<unknown>): Promise<AgentEngineError> => {
  const error = await call().then(
    () => expect.fail('it was accepted'),
    (error: unknown) => error,
  )
  expect(error).toBeInstanceOf(AgentEngineError)
  return error as AgentEngineError
}

/** A value with another one at a path. */
function at(value: Fields, path: string, wrong: unknown): Fields {
  const [first = '', ...rest] = path.split('.')
  const inner =
    rest.length === 0 ? wrong : at((value[first] ?? {}) as Fields, rest.join('.'), wrong)
  return { ...value, [first]: inner }
}

/** Independent mistakes: the path of the value, the value, and the path of the problem where that is another one. */
const ofOptions: [string, unknown, string?][] = [
  ['agents.main.model', 7],
  ['agents.main.modle', 'x'],
  ['agents.main.toolset', 'nothing'],
  ['agents.main.role', 'boss'],
  ['agents.main.temperature', 9],
  ['agents.main.maxIterations', 0],
  ['agents.main.thinking', { type: 'loud' }, 'agents.main.thinking.type'],
  ['agents.main.prompt', { mode: 'loud' }, 'agents.main.prompt.mode'],
  ['agents.main.files', 'AGENTS.md'],
  ['agents.main.budgets', { maxTokens: 0 }, 'agents.main.budgets.maxTokens'],
  ['agents.main.subagents', { maxDepth: 0 }, 'agents.main.subagents.maxDepth'],
  ['agents.main.reset', { idleMs: 0 }, 'agents.main.reset.idleMs'],
  ['agents.other', 5],
  ['agents.bare', {}, 'agents.bare.model'],
  ['agents.half', { model: 'x' }, 'agents.half.provider'],
  ['agents.away', { model: 'nowhere/x' }, 'agents.away.provider'],
  ['defaults.timeoutMs', -1],
  ['defaultAgent', 'nobody'],
  ['bindings', [{ agentId: 7, match: {} }], 'bindings[0].agentId'],
  ['personas.atlas', { agentId: 'main', file: [] }, 'personas.atlas.file'],
  ['personas.bob', { agentId: 'nobody' }, 'personas.bob.agentId'],
  ['dmScope', 'nobody'],
  ['toolsets.house', 'none'],
  ['queue.mode', 'fast'],
  ['queue.cap', 0],
  ['queue.drop', 'all'],
  ['queue.bySource.user', 'fast'],
  ['outbox.silent', 'NO_REPLY'],
  ['outbox.timeoutMs', 0],
  ['lanes.main', 0],
  ['lanes.other', 1],
  ['smartRoute', 'x'],
  ['smartRouteConfidence', 2],
  ['context.layers', 5],
  ['context.timeZone', 'Mars/Base'],
  ['context.memory', { limit: 0 }, 'context.memory.limit'],
  ['beforeToolCall', 5],
  ['quue', {}],
]

/** Chosen mistakes of a list, made in `whole`. */
function mistaken(whole: Fields, chosen: readonly [string, unknown, string?][]) {
  const given = chosen.reduce((value, [path, wrong]) => at(value, path, wrong), whole)
  return { given, expected: chosen.map(([path, , other]) => other ?? path).sort() }
}

/** One mistake at a time, and then many sets of them. */
function sets(
  all: readonly [string, unknown, string?][],
): (readonly [string, unknown, string?][])[] {
  const next = random(11)
  const several = Array.from({ length: 40 }, () => all.filter(() => next(10) < 3))
  return [...all.map((one) => [one]), ...several, all]
}

test('k wrong options of a broker are k problems, each with its path', async () => {
  const server = await echoing()
  const { engine } = brokerAt(server.url)
  const making = (given: Fields) => thrown(() => new Broker(engine, given as never))
  for (const chosen of sets(ofOptions)) {
    if (chosen.length === 0) continue
    const { given, expected } = mistaken({ agents: { main: agent } }, chosen)
    const error = making(given)
    expect(paths(error)).toEqual(expected)
    expect(error).toMatchObject({ code: 'invalid_options', path: error.issues[0]?.path })
    expect(error.message.split('\n')).toHaveLength(expected.length)
  }
  // What is allowed is named.
  expect(making({ agents: { main: agent }, queue: { mode: 'fast', drop: 'all' } }).message).toBe(
    '`queue.mode`: is not one of queue, followup, collect, interrupt, steer, steer-backlog\n' +
      '`queue.drop`: is not one of old, new, summarize (docs/guide/errors.md#invalid_options)',
  )
  // An agent may have the mistake from the defaults: it is named once, where it is.
  const shared = { defaults: { temperature: 9 }, agents: { main: agent, other: agent } }
  expect(paths(making(shared))).toEqual(['defaults.temperature'])
})

test('an agent may have its model from the defaults of the broker or of the engine, or from the tasks that it gets', async () => {
  const server = await echoing()
  const { engine } = brokerAt(server.url)
  const making = (given: object) => thrown(() => new Broker(engine, given as never))
  expect(making({ agents: { main: { model: 'x' }, other: { provider: 'test' } } }).issues).toEqual([
    { path: 'agents.main.provider', message: 'is missing, also in the defaults' },
    { path: 'agents.other.model', message: 'is missing, also in the defaults' },
  ])
  const unknown = making({ agents: { main: {} }, defaults: { model: 'nowhere/x' } })
  expect(unknown.issues).toEqual([
    {
      path: 'agents.main.provider',
      message: "`nowhere` is not among the engine's providers (test)",
    },
  ])
  const fallbacks = [
    'slash/model',
    { provider: 'test', model: 'y' },
    { provider: 'no', model: 'x' },
  ]
  expect(making({ agents: { main: { ...agent, fallbacks } } }).issues).toEqual([
    {
      path: 'agents.main.fallbacks[2]',
      message: "`no` is not among the engine's providers (test)",
    },
  ])
  const accepted = async (broker: Broker) => expect(await broker.close()).toBeUndefined()
  const shared = { agents: { main: {} }, defaults: agent }
  await accepted(brokerAt(server.url, shared).broker)
  await accepted(brokerAt(server.url, { agents: { main: {} } }, { defaults: agent }).broker)
  const half = { agents: { main: { model: 'x' } } }
  await accepted(brokerAt(server.url, half, { defaults: { provider: 'test' } }).broker)
  const spawned = { allowAgents: ['helper'], allowModels: ['test/test-model'] }
  const tasks = { agents: { main: { ...agent, subagents: spawned }, helper: {} } }
  await accepted(brokerAt(server.url, tasks).broker)
})

const ofRequests: [string, unknown, string?][] = [
  ['to.sesion', 'x'],
  ['to.smart', 'yes'],
  ['message', ''],
  ['source', 7],
  ['mode', 'fast'],
  ['event.from', {}],
  ['event.nonce', 'x'],
  ['event.text', 5],
  ['eventId', 7],
  ['route.channl', 'x'],
  ['route.account', 7],
  ['outbox', 'yes'],
  ['target', () => 1],
  ['identity', Number.NaN],
  ['sorce', 'x'],
]

test('k wrong fields of a request are k problems, and nothing is queued', async () => {
  const server = await echoing()
  const { broker } = brokerAt(server.url)
  for (const chosen of sets(ofRequests)) {
    if (chosen.length === 0) continue
    const { given, expected } = mistaken({ to, message: 'Hi' }, chosen)
    expect(paths(await refused(() => broker.send(given as never)))).toEqual(expected)
    expect(paths(thrown(() => broker.execute(given as never)))).toEqual(expected)
  }
  expect(await broker.queue(to.session)).toEqual([])
  expect(server.seen).toEqual([])
})

const text = (given: unknown) => ({ type: 'text', text: given })

test.each<[object, string[]]>([
  [{ content: 5 }, ['message.content']],
  [{ content: [] }, ['message.content']],
  [{ content: ' ' }, ['message.content']],
  [{ content: [text('\n')] }, ['message.content']],
  [{ content: [text(5), { type: 'image' }, 7] }, [0, 1, 2].map((at) => `message.content[${at}]`)],
  [{ blocks: [text('Hi'), text(5)] }, ['message.blocks[1].text']],
  [{ content: 'Hi', id: 5, createdAt: 'now' }, ['message.createdAt', 'message.id']],
  [{ content: 'Hi', role: 'assistant' }, ['message.role']],
])('a message that a run refuses is refused as it is sent: %j', async (message, expected) => {
  const server = await echoing()
  const { broker, engine } = brokerAt(server.url)
  const { turnId } = await broker.execute({ to, message: 'first' }).result
  const whole = { id: 's', every: 1_000, to, message } as never
  const errors = [
    await refused(() => broker.send({ to, message } as never)),
    thrown(() => broker.execute({ to, message } as never)),
    await refused(() => broker.schedule(whole)),
    await refused(() => broker.assembleContext({ to, message } as never)),
    await refused(() => broker.fork(turnId, message as never)),
  ]
  for (const error of errors) {
    expect(error.code).toBe('invalid_options')
    // Of a block the first wrong field.
    const found = paths(error).map((path) => path.replace(/(content\[\d\]).*/, '$1'))
    expect([...new Set(found)]).toEqual(expected)
  }
  expect([await broker.queue(to.session), await broker.schedules()]).toEqual([[], []])
  const { rows } = await engine.ledger.query('SELECT label FROM sessions')
  expect(rows).toEqual([{ label: to.session }])
  expect(server.seen).toHaveLength(1)
})

test('a message with blocks is sent, and is run, like one with content', async () => {
  const server = await echoing()
  const { broker, engine } = brokerAt(server.url)
  const message = { role: 'user', blocks: [text('Hi')] } as never
  expect((await broker.execute({ to, message }).result).text).toBe('to Hi')
  const { text: answer } = await engine.run(message, { model: 'test-model', provider: 'test' })
    .result
  expect(answer).toBe('to Hi')
})

test('a value that JSON has no text for is refused by its path', async () => {
  const server = await echoing()
  const { broker } = brokerAt(server.url)
  const error = await refused(() => broker.send({ to, message: 'Hi', target: { deep: 5n } }))
  expect([error.code, paths(error)]).toEqual(['invalid_options', ['target.deep']])
})

test('an empty id is refused by each call that has one', async () => {
  const server = await echoing()
  const { broker, engine } = brokerAt(server.url)
  const message = 'Hi'
  const errors = [
    await refused(() => broker.send({ to, message, eventId: '' })),
    await refused(() => broker.send({ to, message, source: '' })),
    await refused(() => broker.send({ to, message, route: { thread: '' } })),
    await refused(() => broker.cancel('')),
    await refused(() => broker.dispatch('')),
    await refused(() => broker.dispatches('')),
    await refused(() => broker.cancelDispatch('')),
    await refused(() => broker.delivered('')),
    await refused(() => broker.redeliver('')),
    await refused(() => broker.unschedule('')),
    thrown(() => broker.state('')),
    thrown(() => broker.route({ event: { peer: { kind: 'group', id: '' } } })),
    thrown(() => new Broker(engine, { agents: { main: agent, '': agent } })),
    thrown(
      () => new Broker(engine, { agents: { main: agent }, personas: { '': { agentId: 'main' } } }),
    ),
  ]
  expect(errors.map(paths)).toEqual([
    ...[
      ['eventId'],
      ['source'],
      ['route.thread'],
      ['itemId'],
      ['id'],
      ['label'],
      ['id'],
      ['turnId'],
    ],
    ...[['turnId'], ['id'], ['label'], ['to.event.peer.id'], ['agents'], ['personas']],
  ])
})

test('k wrong members of the filter of deliveries are k problems', async () => {
  const server = await echoing()
  const { broker } = brokerAt(server.url)
  const filter = { status: 'lost', limit: 0, session: 5, after: '', untill: 7 }
  const error = await refused(() => broker.deliveries(filter as never))
  expect([error.code, paths(error)]).toEqual(['invalid_options', Object.keys(filter).sort()])
})

test('a target that names nothing that is known is one problem', async () => {
  const server = await echoing()
  const { broker } = brokerAt(server.url)
  const asked = [{ persona: 'nobody' }, { session: '' }, { sesion: 'x' }, {}]
  const errors = await Promise.all(
    asked.map((given) => refused(() => broker.send({ to: given as never, message: 'Hi' }))),
  )
  expect(errors.map(paths)).toEqual([['to.persona'], ['to.session'], ['to.sesion'], ['to']])
})

test('a schedule names what it has none or too many of', async () => {
  const server = await echoing()
  const { broker } = brokerAt(server.url)
  const whole = { id: 's', to, message: 'Hi' }
  const none = await refused(() => broker.schedule(whole))
  const two = await refused(() => broker.schedule({ ...whole, at: 5, every: 1_000 }))
  expect([none, two].map(({ issues }) => issues)).toEqual([
    [{ path: 'cron', message: 'is missing; pass one of cron, at, every' }],
    [{ path: 'every', message: 'is there beside `at`; pass one of cron, at, every' }],
  ])
})

test('a label that is no text is refused by each call that has one', async () => {
  const server = await echoing()
  const { broker } = brokerAt(server.url)
  const wrong = 5 as never
  const errors = [
    thrown(() => broker.state(wrong)),
    await refused(() => broker.queue(wrong)),
    await refused(() => broker.abort(wrong)),
    await refused(() => broker.suspendQueue(wrong)),
    await refused(() => broker.resumeQueue(wrong)),
  ]
  const refusal = ['invalid_label', ['label']]
  expect(errors.map((error) => [error.code, paths(error)])).toEqual(errors.map(() => refusal))
})

test('an event id of a schedule is refused, unless it is one of a channel', async () => {
  const server = await echoing()
  const { broker, engine } = brokerAt(server.url)
  const request = { to, message: 'Hi', eventId: 'schedule:tick:1700000000000' }
  for (const given of [request, { ...request, route: { account: 'a' } }]) {
    for (const error of [
      await refused(() => broker.send(given)),
      thrown(() => broker.execute(given)),
    ]) {
      expect([error.code, error.field, paths(error)]).toEqual([
        'invalid_options',
        'eventId',
        ['eventId'],
      ])
    }
  }
  expect(await broker.queue(to.session)).toEqual([])
  expect(server.seen).toEqual([])
  // It cannot stand for a due time there.
  const ofChannel = broker.execute({ ...request, route: { channel: 'telegram' } })
  expect((await ofChannel.result).text).toBe('to Hi')
  const { rows } = await engine.ledger.query('SELECT channel FROM queue_events')
  expect(rows).toEqual([{ channel: 'telegram' }])
})

const ofSchedules: [string, unknown, string?][] = [
  ['id', ''],
  ['cron', 'daily'],
  ['zone', 'Mars/Base'],
  ['misfire', 'all'],
  ['eventId', 'e'],
  ['to.sesion', 'x'],
  ['message', 5],
  ['mode', 'fast'],
]

test('k wrong fields of a schedule are k problems, and nothing is scheduled', async () => {
  const server = await echoing()
  const { broker } = brokerAt(server.url)
  const whole = { id: 's', cron: '0 0 * * *', to, message: 'Hi' }
  for (const chosen of sets(ofSchedules)) {
    if (chosen.length === 0) continue
    const { given, expected } = mistaken(whole, chosen)
    expect(paths(await refused(() => broker.schedule(given as never)))).toEqual(expected)
  }
  expect(await broker.schedules()).toEqual([])
})

test("the layers of a host's function are refused with all of their problems", async () => {
  const { server } = await askedServer()
  const { broker } = brokerAt(server.url, {
    context: { layers: () => [{ name: 'mood', source: 5, text: 'x' }, { name: 'event' }] as never },
  })
  const error = await refused(() => broker.assembleContext({ to, message: 'Hi' }))
  expect(error.code).toBe('context_failed')
  expect(paths(error)).toEqual([
    'context.layers[0].name',
    'context.layers[0].source',
    'context.layers[1].source',
    'context.layers[1].text',
  ])
  expect(server.seen).toEqual([])
})
