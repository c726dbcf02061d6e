// A history as hosts have them, and what hosts do to one between two calls: at any depth, in place or not, usual or not.
// It must never make a message that the engine refuses, or one that reads otherwise the second time.

import type { Random } from './hostile.js'

type Loose = Record<string, any>

/** Texts: some are equal, some of equal length, some hard to write as JSON. */
function text(random: Random): string {
  return random.pick<() => string>([
    () => 'the same',
    () => 'the name',
    () => `said ${random.int(1_000)}`,
    () => `ünï \u{1f600} "quoted" \\ud83d ${random.int(9)}`,
    () => `half ${'\ud83d'} of a pair`,
    () => '漢字'.repeat(1 + random.int(20)),
    () => 'long '.repeat(1 + random.int(200)),
  ])()
}

/** Arguments of a call, as pi has them. */
function args(random: Random, depth = 0): Loose {
  const value = (): unknown =>
    random.pick<() => unknown>([
      () => text(random),
      () => random.int(100),
      () => -0,
      () => Number.NaN,
      () => null,
      () => undefined,
      () => random.once(2),
      () => [random.int(3), undefined, { deep: text(random) }],
      () => (depth < 3 ? args(random, depth + 1) : {}),
      () => new Date(random.int(3)),
      () => Buffer.from([random.int(3)]),
      () => new Uint8Array([random.int(3), 1]),
      () => Object.assign(Object.create(null), { bare: random.int(3) }),
      () => JSON.parse(`{"__proto__":${random.int(3)}}`),
      () => ({ toJSON: (key: string) => `json of ${key}` }),
      () => () => 'a function',
    ])()
  const made: Loose = {}
  for (let left = random.int(4); left > 0; left--) {
    made[random.pick(['a', 'b', '7', 'constructor', 'toString'])] = value()
  }
  return made
}

class Turn {
  role = 'user'
  content: string
  constructor(content: string) {
    this.content = content
  }
  get hidden(): string {
    return 'not written'
  }
}

let calls = 0

/** A few messages that belong together, in one of the forms that the engine reads. */
function messages(random: Random): unknown[] {
  const id = `call_${calls++}`
  return random.pick<() => unknown[]>([
    () => [{ role: 'user', content: text(random) }],
    () => [{ role: 'user', content: [{ type: 'text', text: text(random) }] }],
    () => [{ role: 'assistant', content: text(random), thinking: text(random) }],
    () => [{ role: 'system', content: text(random), extra: args(random) }],
    () => [new Turn(text(random))],
    () => [{ toJSON: (key: string) => ({ role: 'user', content: `message ${key}` }) }],
    () => [
      { id, role: 'user', content: text(random), createdAt: 5 },
      {
        id: `${id}-answer`,
        role: 'assistant',
        content: 'not read',
        blocks: [
          { type: 'thinking', thinking: 'hm', signature: 'c2ln' },
          { type: 'text', text: text(random) },
          { type: 'tool_call', id, name: 'look', argumentsJson: `{"n":${random.int(9)}}` },
        ],
        sequence: 1,
        createdAt: 6,
        provenance: { provider: 'test', api: 'anthropic-messages', model: 'test-model' },
      },
      { role: 'tool', content: text(random), toolCallId: id, toolName: 'look', isError: false },
      { role: 'assistant', content: text(random) },
    ],
    () => [
      { role: 'user', content: text(random) },
      {
        role: 'assistant',
        content: [{ type: 'toolCall', id, name: 'look', arguments: args(random) }],
      },
      {
        role: 'toolResult',
        toolCallId: id,
        toolName: 'look',
        content: [{ type: 'text', text: text(random) }],
      },
    ],
    () => [
      { role: 'user', content: text(random) },
      { role: 'assistant', content: text(random) },
    ],
  ])()
}

/** The blocks of a message, or nothing. */
function blocksOf(message: unknown): Loose[] | undefined {
  const { blocks, content } = message as Loose
  const found = Array.isArray(blocks) ? blocks : content
  return Array.isArray(found) && found.length > 0 ? found : undefined
}

function isUsual(message: unknown): message is Loose {
  return Object.getPrototypeOf(message) === Object.prototype && Object.isExtensible(message)
}

/** Sets a field, whatever it was. */
function set(object: Loose, field: string, value: unknown): void {
  Object.defineProperty(object, field, {
    value,
    enumerable: true,
    writable: true,
    configurable: true,
  })
}

/** Changes something inside a message, in place. */
function mutate(random: Random, message: unknown): void {
  if (!isUsual(message)) return
  const blocks = blocksOf(message)
  const block = blocks === undefined ? undefined : random.pick(blocks)
  random.pick<() => void>([
    () => {
      if (typeof message.content === 'string') set(message, 'content', text(random))
    },
    () => {
      message[random.pick(['extra', 'name', 'note'])] = args(random)
    },
    () => {
      delete message.extra
      delete message.thinking
    },
    () => {
      if (block && Object.hasOwn(block, 'text')) block.text = text(random)
    },
    () => {
      if (block?.type === 'toolCall') {
        const within = Object.values(block.arguments).find((it) => it?.constructor === Object)
        Object.assign(within ?? block.arguments, args(random))
      }
    },
    () => {
      if (block?.type === 'toolCall')
        for (const key of Object.keys(block.arguments)) delete block.arguments[key]
    },
    () => {
      if (block?.type === 'toolCall') {
        const within = Object.values(block.arguments).find((it) => it?.constructor === Object)
        const changed = within ?? block.arguments
        const [key] = Object.keys(changed)
        // Sometimes the first field is gone, sometimes only its value.
        if (key !== undefined && random.once(2)) set(changed, key, undefined)
        else if (key !== undefined) delete changed[key]
      }
    },
    () => {
      set(message, random.pick(['thinking', 'extra', 'createdAt']), undefined)
    },
    () => {
      if (block?.type === 'tool_call') block.argumentsJson = `{"changed":${random.int(9)}}`
    },
    () => {
      if (block?.type === 'text') blocks?.push(random.once(2) ? block : { ...block })
    },
    () => {
      if (blocks?.every(({ type }) => type === 'text')) blocks.reverse()
    },
    () => {
      if (message.role === 'user' && typeof message.content === 'string') {
        set(message, 'content', [{ type: 'text', text: message.content }])
      }
    },
    () => {
      // A field that is computed, and reads the same each time.
      const { content } = message
      if (content === undefined) return
      Object.defineProperty(message, 'content', {
        get: () => content,
        enumerable: true,
        configurable: true,
      })
    },
    () => {
      if ('content' in message) set(message, 'content', message.content)
    },
  ])()
}

/** Freezes a value with all that it has, where that is possible. */
function freezeAll(value: unknown): void {
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return
  if (Object.isFrozen(value)) return
  Object.freeze(value)
  for (const inner of Object.values(value)) freezeAll(inner)
}

/** What a host does to its list of messages before the next call. Gives the list of the next call. */
export function edit(random: Random, history: unknown[]): unknown[] {
  const at = history.length === 0 ? 0 : random.int(history.length)
  const other = history.length === 0 ? 0 : random.int(history.length)
  const grow = () => {
    for (let left = 1 + random.int(3); left > 0; left--) history.push(...messages(random))
    return history
  }
  if (history.length === 0) return grow()
  return random.pick<() => unknown[]>([
    grow,
    grow,
    grow,
    () => history,
    () => {
      mutate(random, history[at])
      return history
    },
    () => {
      mutate(random, history[at])
      return grow()
    },
    () => history.map((message) => (isUsual(message) ? { ...message } : message)),
    () => {
      history[at] = random.pick(messages(random))
      return history
    },
    () => history.slice(0, at),
    () => history.slice(at),
    () => {
      history.splice(at, 1)
      return history
    },
    () => {
      history.splice(at, 0, ...messages(random))
      return history
    },
    () => {
      const [one, two] = [history[at], history[other]]
      history[at] = two
      history[other] = one
      return history
    },
    () => {
      // Two messages share what is inside of them.
      const blocks = blocksOf(history[at])
      const target = history[other]
      if (
        blocks?.every(({ type }) => type === 'text') &&
        isUsual(target) &&
        target.role === 'user'
      ) {
        set(target, 'content', blocks)
      }
      return history
    },
    () => {
      const message = history[at] as object
      history[at] = new Proxy(message, {})
      return history
    },
    () => {
      Object.freeze(history[at])
      return history
    },
    () => {
      freezeAll(history[at])
      return history
    },
    () => {
      // A message may be frozen, and what is inside of it not.
      const block = blocksOf(history[at])?.find(({ type }) => type === 'text')
      if (block !== undefined && Object.isExtensible(block)) block.text = text(random)
      return history
    },
    () => [...history],
    () => {
      history.length = 0
      return history
    },
  ])()
}
