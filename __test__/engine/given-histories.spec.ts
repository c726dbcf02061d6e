// Given histories that are given again: each kind of change is noticed, whatever is unusual is read as JSON has it, and what
// was dropped, closed or never there is sent whole. Random sequences of edits are `node/given-histories.spec.ts`.

import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'
import { describe, expect, test } from 'vitest'
import type { AssembledContext } from '../../index.js'
import { closing } from '../support/cleanup.js'
import { context, scriptedEngine, testModel } from '../support/engine.js'
import { bodyOf, freshBody, given, unsentEngine } from '../support/sent-bodies.js'

/** Why a context is refused. */
function refusal(run: () => unknown): { code: string; field?: string; message: string } {
  try {
    run()
  } catch (error) {
    const { code, field, message } = error as { code: string; field?: string; message: string }
    return { code, field, message }
  }
  throw new Error('it is not refused')
}

/** A history with every form that is read; nothing of it is shared with another one. */
const history = (): any[] => [
  { role: 'user', content: 'first' },
  { role: 'assistant', content: 'one' },
  { role: 'user', content: [{ type: 'text', text: 'second' }] },
  {
    role: 'assistant',
    content: [
      {
        type: 'toolCall',
        id: 'a',
        name: 'look',
        arguments: { in: { folder: 'x', depths: [1, 2] } },
      },
    ],
  },
  {
    role: 'toolResult',
    toolCallId: 'a',
    toolName: 'look',
    content: [{ type: 'text', text: 'seen' }],
  },
  { role: 'assistant', content: [{ type: 'text', text: 'two' }] },
  { role: 'user', content: 'third' },
  { role: 'assistant', content: 'three' },
]

class Said {
  role = 'user'
  content = 'from a class'
}

/** Of each change: what a host had, and what it did. */
const CHANGES: [string, (messages: any[]) => unknown, ((messages: any[]) => unknown)?][] = [
  ['a text', (all) => Object.assign(all[0], { content: 'other' })],
  ['a text of equal length', (all) => Object.assign(all[0], { content: 'fIrst' })],
  ['the text of a block', (all) => Object.assign(all[2].content[0], { text: 'other' })],
  [
    'an argument deep inside',
    (all) => Object.assign(all[3].content[0].arguments.in, { folder: 'y' }),
  ],
  ['an item of a list deep inside', (all) => all[3].content[0].arguments.in.depths.splice(1, 1, 3)],
  ['an argument that is added', (all) => Object.assign(all[3].content[0].arguments, { more: 1 })],
  ['an argument that is gone', (all) => delete all[3].content[0].arguments.in.folder],
  [
    'an argument that is undefined now',
    (all) => Object.assign(all[3].content[0].arguments, { in: undefined }),
  ],
  [
    'the type of a value',
    (all) => Object.assign(all[3].content[0].arguments.in, { folder: ['x'] }),
  ],
  [
    'a list that is an object now',
    (all) => Object.assign(all[3].content[0].arguments.in, { depths: { 0: 1, 1: 2 } }),
  ],
  [
    'a field that is added',
    (all) => Object.assign(all[0], { blocks: [{ type: 'text', text: 'other' }] }),
  ],
  ['a role', (all) => Object.assign(all[6], { role: 'system' })],
  ['a block that is added', (all) => all[2].content.push({ type: 'text', text: 'more' })],
  [
    'a block that is gone',
    (all) => all[2].content.pop(),
    (all) => all[2].content.push({ type: 'text', text: 'more' }),
  ],
  [
    'a text that becomes blocks',
    (all) =>
      Object.assign(all[0], {
        content: [
          { type: 'text', text: 'first' },
          { type: 'text', text: '!' },
        ],
      }),
  ],
  ['a message that is another one', (all) => all.splice(0, 1, { role: 'user', content: 'other' })],
  ['a message that is left out', (all) => all.splice(2, 1)],
  ['a message that is put in', (all) => all.splice(1, 0, { role: 'user', content: 'and' })],
  ['two messages that change their positions', (all) => all.splice(0, 3, all[2], all[1], all[0])],
  ['an end that is cut off', (all) => all.splice(6)],
  ['a beginning that is cut off', (all) => all.splice(0, 2)],
  ['everything', (all) => all.splice(0, all.length, { role: 'user', content: 'new' })],
  [
    'a block that two messages share',
    (all) => Object.assign(all[2].content[0], { text: 'shared' }),
    (all) => Object.assign(all[0], { content: all[2].content }),
  ],
  [
    'bytes in a buffer',
    (all) => all[3].content[0].arguments.bytes.fill(7),
    (all) => Object.assign(all[3].content[0].arguments, { bytes: Buffer.alloc(3) }),
  ],
  [
    'items of a typed array',
    (all) => all[3].content[0].arguments.items.fill(7),
    (all) => Object.assign(all[3].content[0].arguments, { items: new Float64Array(2) }),
  ],
  [
    'a date',
    (all) => all[3].content[0].arguments.at.setTime(5),
    (all) => Object.assign(all[3].content[0].arguments, { at: new Date(0) }),
  ],
  [
    'a field of an instance',
    (all) => Object.assign(all[0], { content: 'other' }),
    (all) => all.splice(0, 1, new Said()),
  ],
  [
    'what is behind a proxy',
    (all) => Object.assign(all[0], { content: 'other' }),
    (all) => all.splice(0, 1, new Proxy(all[0], {})),
  ],
  [
    'what a toJSON returns',
    (all) => Object.assign(all[0].said, { content: 'other' }),
    (all) =>
      all.splice(
        0,
        1,
        Object.assign(
          Object.create({
            toJSON(this: any) {
              return this.said
            },
          }),
          { said: { role: 'user', content: 'x' } },
        ),
      ),
  ],
  [
    'what a getter returns',
    (all) => Object.assign(all[0].said, { text: 'other' }),
    (all) =>
      all.splice(0, 1, {
        role: 'user',
        said: { text: 'x' },
        get content() {
          return this.said.text
        },
      }),
  ],
  [
    'a field that is a getter now',
    (all) => Object.defineProperty(all[0], 'content', { get: () => 'computed' }),
  ],
  [
    'a toJSON that is added',
    (all) => Object.assign(all[0], { toJSON: () => ({ role: 'user', content: 'from toJSON' }) }),
  ],
  [
    'a prototype with a toJSON',
    (all) =>
      Object.setPrototypeOf(all[0], { toJSON: () => ({ role: 'user', content: 'inherited' }) }),
  ],
  [
    'an own field `__proto__`',
    (all) => Object.assign(all[3].content[0], JSON.parse('{"arguments":{"__proto__":{"b":2}}}')),
    (all) => Object.assign(all[3].content[0], JSON.parse('{"arguments":{"__proto__":{"a":1}}}')),
  ],
]

describe('what a host changes before it gives a history again', () => {
  test.each(CHANGES)('%s is sent', async (_, change, prepare = () => {}) => {
    const engine = closing(unsentEngine())
    const messages = history()
    prepare(messages)
    const before = await bodyOf(engine, given(messages))
    expect(before).toBe(await freshBody(given(messages)))
    expect(await bodyOf(engine, given(messages)), 'unchanged').toBe(before)
    change(messages)
    const changed = await bodyOf(engine, given(messages))
    expect(changed).toBe(await freshBody(given(messages)))
    expect(changed).not.toBe(before)
    messages.push({ role: 'user', content: 'fourth' }, { role: 'assistant', content: 'four' })
    expect(await bodyOf(engine, given(messages))).toBe(await freshBody(given(messages)))
  })

  test('a change under way is none of the run', async () => {
    const messages = history()
    const engine = closing(unsentEngine())
    const body = freshBody(given(messages))
    const sent = bodyOf(engine, given(messages))
    messages[0].content = 'too late'
    expect(await sent).toBe(await body)
    expect(await bodyOf(engine, given(messages))).toBe(await freshBody(given(messages)))
  })

  test('an item that a getter changes while the list is read is sent as it was when it was read', async () => {
    const engine = closing(unsentEngine())
    const messages = history()
    let turn = 0
    Object.defineProperty(messages[1], 'content', {
      enumerable: true,
      get: () => {
        messages[0].content = `changed ${++turn}`
        return 'one'
      },
    })
    // The first message was read before the second one changed it.
    for (const first of ['first', 'changed 1', 'changed 2']) {
      expect(await bodyOf(engine, given(messages))).toContain(`"text":"${first}"`)
    }
  })

  test('each property is read once in a call', async () => {
    const engine = closing(unsentEngine())
    let reads = 0
    const counted = {
      role: 'user',
      get content() {
        reads++
        return 'counted'
      },
    }
    const messages: unknown[] = [...history(), counted]
    for (const calls of [1, 2, 3]) {
      messages.push({ role: 'assistant', content: 'fine' }, { role: 'user', content: `${calls}` })
      await bodyOf(engine, given(messages))
      expect(reads).toBe(calls)
    }
  })
})

describe('paths', () => {
  const engine = () => closing(unsentEngine())
  const cases: [string, unknown, string][] = [
    [
      'a text that is none',
      { role: 'user', content: [{ type: 'text', text: 7 }] },
      'content[0].text',
    ],
    ['a value without JSON', { role: 'user', content: 'x', extra: { n: 1n } }, 'extra.n'],
    ['half a pair in an id', { role: 'user', content: 'x', id: '\ud83d' }, 'id'],
    ['no role', { content: 'x' }, 'role'],
  ]
  test.each(cases)(
    '%s in a message that follows known ones has the path of the whole history',
    async (_, wrong, path) => {
      const remembering = engine()
      const messages = history()
      await bodyOf(remembering, given(messages))
      messages.push(wrong)
      const whole = refusal(() => engine().run(context(given(messages))))
      expect(refusal(() => remembering.run(context(given(messages))))).toEqual(whole)
      expect(whole.field).toBe(`history[8].${path}`)
      messages.pop()
      expect(await bodyOf(remembering, given(messages))).toBe(await freshBody(given(messages)))
    },
  )

  test('what is wrong elsewhere is refused as ever, and nothing is forgotten', async () => {
    const remembering = engine()
    const messages = history()
    const body = await bodyOf(remembering, given(messages))
    const wrong = { ...given(messages), metadata: { n: 1n } } as unknown as AssembledContext
    expect(refusal(() => remembering.run(context(wrong)))).toMatchObject({ field: 'metadata.n' })
    expect(
      refusal(() => remembering.run(context({ ...given(messages), model: '' }))),
    ).toMatchObject({
      field: 'model',
    })
    expect(await bodyOf(remembering, given(messages))).toBe(body)
  })
})

test('histories that the native side had to drop are sent again in full', async () => {
  const engine = closing(unsentEngine())
  // Of messages that are not sent the native side has more than this side counts: it holds one of the two.
  const large = (text: string) => [
    { role: 'user', content: text },
    ...Array.from({ length: 100_000 }, () => ({ role: 'user', content: ' ' })),
    { role: 'assistant', content: 'fine' },
  ]
  const [one, two] = [large('one'), large('two')]
  const bodies = [await freshBody(given(one)), await freshBody(given(two))]
  for (const number of [0, 1, 0, 0, 1]) {
    expect(await bodyOf(engine, given([one, two][number] ?? []))).toBe(bodies[number])
  }
})

test('engines of a process, and a closed one, have nothing to do with each other', async () => {
  const [first, second] = [closing(unsentEngine()), closing(unsentEngine())]
  const messages = history()
  const body = await bodyOf(first, given(messages))
  messages[0].content = 'other'
  const other = await bodyOf(second, given(messages))
  expect(other).toBe(await freshBody(given(messages)))
  messages[0].content = 'first'
  expect(await bodyOf(first, given(messages))).toBe(body)
  expect(await bodyOf(second, given(messages))).toBe(body)
  await first.close()
  expect(refusal(() => first.run(context(given(messages))))).toMatchObject({
    code: 'engine_closed',
  })
  expect(await bodyOf(second, given(messages))).toBe(body)
})

test('workers send what this thread sends', async () => {
  const script = fileURLToPath(new URL('../children/node/given-worker.mjs', import.meta.url))
  const histories = [
    history(),
    history().slice(0, 4),
    [...history(), ...history()],
    history().slice(2),
  ]
  const bodies = async (): Promise<string[]> => {
    const worker = new Worker(script, { workerData: histories })
    return new Promise((resolve, reject) => {
      worker.on('message', resolve)
      worker.on('error', reject)
    })
  }
  const { engine, provider } = scriptedEngine(histories.map(() => 'fine'))
  closing(engine)
  for (const messages of histories) await engine.run(context(given(messages))).result
  const here = provider.requests.map((request) => JSON.stringify(request.messages))
  const withoutIds = (texts: string[]) =>
    texts.map((text) => text.replace(/"(id|createdAt)":("[^"]*"|\d+)/g, ''))
  const [one, two] = await Promise.all([bodies(), bodies()])
  expect(withoutIds(one)).toEqual(withoutIds(here))
  expect(withoutIds(two)).toEqual(withoutIds(here))
})

test('a run that calls the engine while its history is read is sent as it was read', async () => {
  const engine = closing(unsentEngine())
  const messages = history()
  await bodyOf(engine, given(messages))
  const inner: Promise<string>[] = []
  messages[7] = {
    role: 'assistant',
    get content() {
      // The same history, longer and shorter, before the outer run has crossed.
      const next = [...history(), { role: 'user', content: `inner ${inner.length}` }]
      inner.push(bodyOf(engine, given(next)), bodyOf(engine, given(next.slice(0, 3))))
      return 'three'
    },
  }
  const outer = await bodyOf(engine, given(messages))
  expect(outer).toBe(await freshBody(given(history())))
  const sent = await Promise.all(inner)
  expect(sent).toEqual([
    await freshBody(given([...history(), { role: 'user', content: 'inner 0' }])),
    await freshBody(given(history().slice(0, 3))),
  ])
})

describe('the whole history is there', () => {
  /** The requests of calls that a new engine answers, one history after the other. */
  async function requests(
    histories: unknown[][],
    script: any[],
    options: object,
  ): Promise<unknown[]> {
    const { engine, provider } = scriptedEngine(script, options)
    closing(engine)
    for (const messages of histories) await engine.run(context(given(messages))).result
    return provider.requests.map((request) => texts(request.messages))
  }
  const texts = (messages: any): string[] =>
    messages.map(({ role, blocks }: any) =>
      `${role}: ${blocks.map((it: any) => it.text ?? it.content?.[0]?.text ?? it.name).join(' ')}`.slice(
        0,
        80,
      ),
    )
  const longer = () => [
    ...history(),
    { role: 'user', content: 'fourth' },
    { role: 'assistant', content: 'four' },
  ]

  test('for a fallback to another model', async () => {
    const fails = { error: { kind: 'model_not_found', message: 'gone' } }
    const options = {
      models: [testModel, { ...testModel, id: 'other-model' }],
      failover: { fallbacks: [{ model: 'other-model' }] },
    }
    const sent = await requests([history(), longer()], ['one', fails, 'two'], options)
    expect(sent.at(-1)).toEqual((await requests([longer()], ['two'], options)).at(-1))
  })

  test('for a tool result that is cut short to fit', async () => {
    const huge = () => {
      const messages = history()
      messages[4].content[0].text = 'seen '.repeat(60_000)
      return messages
    }
    const overflow = { error: { kind: 'context_overflow', message: 'prompt is too long' } }
    const options = { compaction: true }
    const sent = await requests([huge(), huge()], ['one', overflow, 'two'], options)
    const alone = await requests([huge()], [overflow, 'two'], options)
    expect(sent.slice(1)).toEqual(alone)
  })

  test('for a count of tokens', async () => {
    const { engine } = scriptedEngine(['one'])
    closing(engine)
    await engine.run(context(given(history()))).result
    const fresh = closing(scriptedEngine([]).engine)
    for (const messages of [history(), longer(), history().slice(0, 5)]) {
      const counted = await engine.countTokens(context(given(messages)))
      expect(counted).toEqual(await fresh.countTokens(context(given(messages))))
    }
  })
})
