// A conversation of pi as hosts have it, and what they do to its messages, tools and options between two calls. It must never make one that the engine
// refuses, or a value that reads otherwise the second time.

import type { Random } from '../../support/values/hostile.js'

type Loose = Record<string, any>

/** What a call is made with, besides the model. */
export interface Call {
  messages: Loose[]
  systemPrompt: string
  tools: Loose[]
  options: Loose
}

const APIS = [
  'anthropic-messages',
  'openai-completions',
  'openai-responses',
  'google-generative-ai',
]
let made = 0

function text(random: Random): string {
  return random.pick<() => string>([
    () => 'the same',
    () => 'the name',
    () => `said ${random.int(1_000)}`,
    () => `ünï \u{1f600} "quoted" \\ud83d ${random.int(9)}`,
    () => '漢字'.repeat(1 + random.int(20)),
    () => 'long '.repeat(1 + random.int(200)),
  ])()
}

/** Arguments of a call: half of them are plain data at any depth, others have what JSON writes differently. */
function args(random: Random, isPlain = random.once(2), depth = 0): Loose {
  const plain: (() => unknown)[] = [
    () => text(random),
    () => random.int(100),
    () => -0,
    () => null,
    () => random.once(2),
    () => [random.int(3), { deep: text(random) }],
    () => (depth < 3 ? args(random, isPlain, depth + 1) : {}),
  ]
  const others: (() => unknown)[] = [
    () => Number.NaN,
    () => undefined,
    () => [random.int(3), undefined],
    () => new Date(random.int(3)),
    () => Object.assign(Object.create(null), { bare: random.int(3) }),
    () => JSON.parse(`{"__proto__":${random.int(3)}}`),
    () => ({ toJSON: (key: string) => `json of ${key}` }),
    () => () => 'a function',
  ]
  const fields: Loose = {}
  for (let left = 1 + random.int(4); left > 0; left--) {
    const values = isPlain || random.once(2) ? plain : others
    fields[random.pick(['a', 'b', 'c', '7', 'constructor', 'toString'])] = random.pick(values)()
  }
  return fields
}

/** A part of a message that is no part of pi's: the class has it, or the host. */
class Part {
  type = 'text'
  text: string
  constructor(of: string) {
    this.text = of
  }
}

function textPart(random: Random): Loose {
  return random.pick<() => Loose>([
    () => ({ type: 'text', text: text(random) }),
    () => ({ type: 'text', text: text(random) }),
    () => ({ type: 'text', text: text(random), textSignature: `msg_${random.int(9)}` }),
    () => ({ type: 'text', text: text(random), note: args(random) }),
    () => new Part(text(random)),
  ])()
}

function user(random: Random): Loose {
  const content = random.pick<() => unknown>([
    () => text(random),
    () => [textPart(random)],
    () => [textPart(random), { type: 'image', data: 'aGk=', mimeType: 'image/png' }],
  ])()
  return { role: 'user', content, timestamp: random.int(100) }
}

function assistant(random: Random, content: Loose[]): Loose {
  const api = random.pick(APIS)
  const model = random.pick(['m', 'other'])
  const usage = { input: 1, output: 1 }
  return {
    role: 'assistant',
    content,
    api,
    provider: 'anthropic',
    model,
    usage,
    stopReason: random.once(8) ? 'error' : 'stop',
    timestamp: random.int(100),
  }
}

function messages(random: Random): Loose[] {
  const id = random.once(2) ? `call_${made++}` : `call_${made++}|fc_${made}`
  const thinking = { type: 'thinking', thinking: text(random), thinkingSignature: 'c2ln' }
  const call = { type: 'toolCall', id, name: 't', arguments: args(random) }
  const result = {
    role: 'toolResult',
    toolCallId: id,
    toolName: 't',
    content: [textPart(random)],
    details: { host: () => 'its own' },
    isError: random.once(4),
    timestamp: random.int(100),
  }
  return random.pick<() => Loose[]>([
    () => [user(random), assistant(random, [{ type: 'text', text: text(random) }])],
    () => [user(random), assistant(random, [thinking, { type: 'text', text: text(random) }])],
    () => [user(random), assistant(random, [call]), result],
    () => [user(random), assistant(random, [thinking, textPart(random), call]), result],
    () => [{ role: 'custom', content: args(random) }, user(random)],
  ])()
}

function isUsual(value: unknown): value is Loose {
  if (typeof value !== 'object' || value === null) return false
  return Object.getPrototypeOf(value) === Object.prototype && Object.isExtensible(value)
}

/** Changes the arguments of a call, at any depth. */
function mutateArguments(random: Random, call: Loose): void {
  const given: Loose = call.arguments
  const inner = [given, ...Object.values(given)].filter(isUsual)
  const within = random.pick(inner.length > 0 ? inner : [{}])
  const [name] = Object.keys(within)
  random.pick<() => void>([
    () => {
      call.arguments = args(random)
    },
    () => {
      Object.assign(within, args(random, true))
    },
    () => {
      Object.assign(within, args(random))
    },
    () => {
      for (const list of Object.values(given)) if (Array.isArray(list)) list.push(random.int(9))
    },
    () => {
      // The same fields in another order are other JSON.
      if (name === undefined) return
      const value = within[name]
      delete within[name]
      within[name] = value
    },
    () => {
      if (name !== undefined) delete within[name]
    },
    () => {
      if (name !== undefined) within[name] = undefined
    },
  ])()
}

/** Changes something in a message, in place. */
function mutate(random: Random, message: Loose): void {
  const parts: Loose[] = Array.isArray(message.content) ? message.content : []
  const part = parts.length === 0 ? undefined : random.pick(parts)
  const call = parts.find(({ type }) => type === 'toolCall')
  if (call !== undefined && random.once(2)) {
    mutateArguments(random, call)
    return
  }
  random.pick<() => void>([
    () => {
      if (typeof message.content === 'string') message.content = text(random)
    },
    () => {
      if (part?.type === 'text') part.text = text(random)
    },
    () => {
      if (part?.type === 'text') part.textSignature = `msg_${random.int(9)}`
    },
    () => {
      if (part?.type === 'text') delete part.textSignature
    },
    () => {
      if (part?.type === 'thinking')
        part.thinkingSignature = random.once(2) ? undefined : 'b3RoZXI='
    },
    () => {
      if (part?.type === 'text') parts.push(random.once(2) ? part : { ...part })
    },
    () => {
      if (parts.every(({ type }) => type === 'text')) parts.reverse()
    },
    () => {
      if (part?.type === 'text') part.toJSON = () => ({ type: 'text', text: 'as JSON' })
    },
    () => {
      let { content } = message
      Object.defineProperty(message, 'content', {
        get: () => content,
        set: (changed) => {
          content = changed
        },
        enumerable: true,
        configurable: true,
      })
    },
    () => {
      if (message.role === 'assistant') message.model = random.pick(['m', 'other'])
    },
    () => {
      if (message.role === 'assistant') message.api = random.pick(APIS)
    },
    () => {
      if (message.role === 'assistant') message.stopReason = random.pick(['stop', 'aborted'])
    },
    () => {
      if (message.role === 'toolResult') message.isError = !message.isError
    },
    () => {
      message.details = args(random)
      message.extra = args(random)
    },
  ])()
}

/** What a host does to its messages. Gives the list of the next call. */
function edited(random: Random, list: Loose[]): Loose[] {
  const at = random.int(Math.max(1, list.length))
  const other = random.int(Math.max(1, list.length))
  const message = list[at]
  const grow = () => {
    list.push(...messages(random))
    return list
  }
  if (message === undefined) return grow()
  const change = () => {
    if (isUsual(message)) mutate(random, message)
    return list
  }
  return random.pick<() => Loose[]>([
    grow,
    grow,
    grow,
    change,
    change,
    change,
    () => list,
    () => [...list],
    () => list.map((each) => (isUsual(each) ? { ...each } : each)),
    () => structuredCloneOf(list),
    () => {
      list[at] = user(random)
      return list
    },
    () => list.slice(0, at),
    () => list.slice(at),
    () => {
      list.splice(at, 1)
      return list
    },
    () => {
      list.splice(at, 0, ...messages(random))
      return list
    },
    () => {
      const swapped = list[other] as Loose
      list[other] = message
      list[at] = swapped
      return list
    },
    () => {
      list.splice(at, 0, message)
      return list
    },
    () => {
      list[at] = new Proxy(message, {})
      return list
    },
    () => {
      Object.freeze(message)
      return list
    },
  ])()
}

/** A copy of a list whose messages are equal, where they can be copied. */
function structuredCloneOf(list: Loose[]): Loose[] {
  return list.map((message) => {
    try {
      return structuredClone(message)
    } catch {
      return message
    }
  })
}

/** What a host does between two calls. */
export function edit(random: Random, call: Call): void {
  for (let left = 1 + random.int(3); left > 0; left--) call.messages = edited(random, call.messages)
  if (random.once(6)) call.systemPrompt = text(random)
  if (random.once(6)) call.options = { ...call.options, temperature: random.int(3) / 4 }
  if (random.once(8)) call.options = { ...call.options, headers: { 'x-a': `${random.int(3)}` } }
  const [tool] = call.tools
  if (tool === undefined || random.once(12)) {
    call.tools = [
      { name: 't', description: 'A tool.', parameters: { type: 'object', properties: {} } },
    ]
  } else if (random.once(4)) {
    random.pick<() => void>([
      () => {
        tool.description = text(random)
      },
      () => {
        tool.parameters.properties[random.pick(['a', 'b'])] = { type: 'string' }
      },
      () => {
        tool.parameters.properties.a = { type: 'number', description: undefined }
      },
      () => {
        tool.parameters = { ...tool.parameters }
      },
      () => {
        call.tools.push({ name: `t${call.tools.length}`, description: '', parameters: {} })
      },
      () => {
        call.tools = []
      },
    ])()
  }
}
