// The pure functions of `/pi-ai` beside pi's own. It must never call a model.

import * as pi from '@mariozechner/pi-ai'
import { transformMessages as theirTransform } from '@mariozechner/pi-ai/dist/providers/transform-messages.js'
import { Type as TypeBox } from '@sinclair/typebox'
import { afterEach, expect, test, vi } from 'vitest'
import * as ours from '../../../pi-ai.js'

const call = (args: unknown): any => ({ type: 'toolCall', id: 'c', name: 't', arguments: args })
const of = (properties: object, more: object = {}) => ({
  name: 't',
  description: '',
  parameters: { type: 'object', properties, required: Object.keys(properties), ...more } as any,
})

/** What a validation comes to. */
function outcome(validate: (tool: any, call: any) => unknown, tool: any, args: unknown): unknown {
  try {
    return { value: validate(tool, call(args)) }
  } catch (error) {
    return { error: (error as Error).message }
  }
}

const number = { n: { type: 'number' } }
const shapes = {
  s: { type: 'string', minLength: 2, pattern: '^a' },
  e: { enum: ['x', 'y'] },
  l: { type: 'array', items: { type: 'integer' }, maxItems: 2, uniqueItems: true },
  o: {
    type: 'object',
    properties: { d: { type: 'string', format: 'date-time' } },
    required: ['d'],
    additionalProperties: false,
  },
  u: { anyOf: [{ type: 'number' }, { type: 'null' }] },
}
const whole = { s: 'ab', e: 'x', l: [1, 2], o: { d: '2026-11-23T10:00:00Z' }, u: null }

test.each([
  [number, { n: '5' }],
  [number, { n: ' 5 ' }],
  [number, { n: '1e3' }],
  [number, { n: null }],
  [number, { n: true }],
  [number, { n: 'abc' }],
  [number, { n: '' }],
  [number, {}],
  [number, { n: 1, extra: { stays: true } }],
  [{ n: { type: 'integer' } }, { n: 5.5 }],
  [{ n: { type: 'integer' } }, { n: '5.5' }],
  [{ n: { type: 'integer', minimum: 3, exclusiveMaximum: 5 } }, { n: 2 }],
  [{ n: { type: 'integer', minimum: 3, exclusiveMaximum: 5 } }, { n: 5 }],
  [{ n: { multipleOf: 0.1 } }, { n: 0.3 }],
  [{ b: { type: 'boolean' } }, { b: 'true' }],
  [{ b: { type: 'boolean' } }, { b: 1 }],
  [{ b: { type: 'boolean' } }, { b: null }],
  [{ b: { type: 'boolean' } }, { b: 'yes' }],
  [{ s: { type: 'string' } }, { s: 7 }],
  [{ s: { type: 'string' } }, { s: null }],
  [{ s: { type: 'string' } }, { s: { no: 1 } }],
  [{ z: { type: 'null' } }, { z: '' }],
  [{ z: { type: ['integer', 'null'] } }, { z: '4' }],
  [{ a: { type: 'array', items: { type: 'string' } } }, { a: 'one' }],
  [{ a: { type: 'array', items: { type: 'string' } } }, { a: [1, 'two', null] }],
  [shapes, whole],
  [shapes, { ...whole, s: 'b' }],
  [shapes, { ...whole, e: 'z' }],
  [shapes, { ...whole, l: [1, 1] }],
  [shapes, { ...whole, l: ['1', '2', '3'] }],
  [shapes, { ...whole, o: { d: 'yesterday' } }],
  [shapes, { ...whole, o: { d: '2026-11-23T10:00:00Z', more: 1 } }],
  [shapes, { ...whole, o: {} }],
])('arguments are coerced and refused as pi does: %j with %j', (properties, args) => {
  const tool = of(properties)
  const theirs = outcome(pi.validateToolArguments, tool, args)
  expect(outcome(ours.validateToolArguments, tool, args)).toEqual(theirs)
})

test('a validation changes a copy, and names an unknown tool', () => {
  const made = call({ n: '5' })
  const { arguments: args } = made
  expect(ours.validateToolCall([of(number)], made)).toEqual({ n: 5 })
  expect(made.arguments).toBe(args)
  expect(args).toEqual({ n: '5' })
  expect(() => ours.validateToolCall([], made)).toThrow('Tool "t" not found')
})

test('a schema may refer to itself, and deep arguments end with an error', () => {
  const node = { type: 'object', properties: { next: { $ref: '#/$defs/node' } } }
  const tool = of({ root: { $ref: '#/$defs/node' } }, { $defs: { node } })
  expect(ours.validateToolArguments(tool, call({ root: { next: { next: {} } } }))).toEqual({
    root: { next: { next: {} } },
  })
  let deep: object = {}
  for (let depth = 0; depth < 300; depth++) deep = { next: deep }
  expect(() => ours.validateToolArguments(tool, call({ root: deep }))).toThrow('nested too deeply')
})

const usage = (input: number, cacheRead = 0, output = 1): any => ({
  input,
  output,
  cacheRead,
  cacheWrite: 0,
  totalTokens: input + cacheRead + output,
  cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 },
})
const model: any = {
  id: 'm',
  name: 'M',
  api: 'anthropic-messages',
  provider: 'anthropic',
  baseUrl: '',
  reasoning: true,
  input: ['text', 'image'],
  cost: { input: 3, output: 15, cacheRead: 0.3, cacheWrite: 3.75 },
  contextWindow: 1_000,
  maxTokens: 100,
}

test('the cost of a usage is set in it, and returned', () => {
  const mine = usage(1_000, 500, 77)
  expect(ours.calculateCost(model, mine)).toBe(mine.cost)
  const theirs = usage(1_000, 500, 77)
  pi.calculateCost(model, theirs)
  expect(mine).toEqual(theirs)
})

const errored = (errorMessage: string): any => ({
  role: 'assistant',
  content: [],
  stopReason: 'error',
  errorMessage,
  usage: usage(0),
})

test.each([
  'prompt is too long: 213462 tokens > 200000 maximum',
  'Your input exceeds the context window of this model',
  'The input token count (1196265) exceeds the maximum number of tokens allowed (1048575)',
  "This model's maximum prompt length is 131072 but the request contains 537812 tokens",
  'Please reduce the length of the messages or completion',
  "This endpoint's maximum context length is 9 tokens. However, you requested about 10 tokens",
  'prompt token count of 9 exceeds the limit of 8',
  'the request exceeds the available context size, try increasing it',
  '400 status code (no body)',
  'overloaded_error',
  '401 bad key',
])('an overflow is recognised as pi does: %s', (text) => {
  expect(ours.isContextOverflow(errored(text), 1_000)).toBe(
    pi.isContextOverflow(errored(text), 1_000),
  )
})

test('a limit of the rate is no overflow, and a window that was passed silently is one', () => {
  const throttled = 'ThrottlingException: Too many tokens, please wait before trying again.'
  expect(ours.isContextOverflow(errored(throttled))).toBe(false)
  expect(ours.isContextOverflow(errored('exceeds the limit of 5 images'))).toBe(false)
  const stopped = { ...errored(''), stopReason: 'stop', usage: usage(900, 200) }
  expect(ours.isContextOverflow(stopped, 1_000)).toBe(true)
  expect(ours.isContextOverflow(stopped)).toBe(false)
})

const answer = (content: unknown[], changes: object = {}): any => ({
  role: 'assistant',
  content,
  api: 'openai-responses',
  provider: 'openai',
  model: 'gpt',
  usage: usage(1),
  stopReason: 'toolUse',
  timestamp: 2,
  ...changes,
})
const result = (toolCallId: string): any => ({
  role: 'toolResult',
  toolCallId,
  toolName: 't',
  content: [{ type: 'text', text: 'r' }],
  isError: false,
  timestamp: 3,
})
const user: any = { role: 'user', content: 'hi', timestamp: 1 }
const toolCall = (id: string) => ({
  type: 'toolCall',
  id,
  name: 't',
  arguments: {},
  thoughtSignature: 's',
})

test.each([
  [
    'thinking, signatures and ids of another model',
    [
      user,
      answer([
        { type: 'thinking', thinking: 'hm', thinkingSignature: 'x' },
        { type: 'thinking', thinking: ' ' },
        { type: 'text', text: 'a', textSignature: 'y' },
        toolCall('call|1'),
      ]),
      result('call|1'),
      user,
    ],
  ],
  [
    'all of the same model',
    [
      user,
      answer([{ type: 'thinking', thinking: '', thinkingSignature: 'x' }, toolCall('call|1')], {
        api: 'anthropic-messages',
        provider: 'anthropic',
        model: 'm',
      }),
      result('call|1'),
      user,
    ],
  ],
  ['calls without results', [user, answer([toolCall('a'), toolCall('b')]), result('a'), user]],
  ['failed answers', [user, answer([{ type: 'text', text: 'x' }], { stopReason: 'error' }), user]],
])('messages are transformed as pi does: %s', (_, messages) => {
  vi.useFakeTimers({ now: 7 })
  const normalize = (id: string) => id.replace('|', '_')
  const before = structuredClone(messages)
  const theirs = theirTransform(messages, model, normalize)
  expect(ours.transformMessages(messages, model, normalize)).toEqual(theirs)
  expect(messages).toEqual(before)
})

afterEach(() => {
  vi.useRealTimers()
  vi.unstubAllEnvs()
})

test('results of failed answers are left out, and a last call without a result gets one', () => {
  const failed = answer([toolCall('a')], { stopReason: 'aborted' })
  const open = answer([toolCall('b')])
  expect(ours.transformMessages([user, failed, result('a'), user, open], model)).toMatchObject([
    user,
    user,
    { role: 'assistant' },
    { role: 'toolResult', toolCallId: 'b', isError: true },
  ])
})

test('images are left out for a model that reads none', () => {
  const image = { type: 'image', data: 'AAAA', mimeType: 'image/png' }
  const seen = { ...user, content: [{ type: 'text', text: 'a' }, image, image] }
  const blind = { ...model, input: ['text'] }
  expect(ours.transformMessages([seen], blind)).toEqual([
    {
      ...seen,
      content: [
        { type: 'text', text: 'a' },
        { type: 'text', text: '(image omitted: model does not support images)' },
      ],
    },
  ])
})

test('models are those of the engine, in pi’s shape', () => {
  const haiku = ours.getModel('anthropic', 'claude-haiku-4-5')
  expect(haiku).toEqual({
    id: 'claude-haiku-4-5',
    name: expect.any(String),
    api: 'anthropic-messages',
    provider: 'anthropic',
    baseUrl: 'https://api.anthropic.com',
    reasoning: true,
    input: ['text', 'image'],
    cost: { input: 1, output: 5, cacheRead: 0.1, cacheWrite: 1.25 },
    contextWindow: 200_000,
    maxTokens: 64_000,
  })
  expect(ours.getModel('anthropic', 'claude-haiku-4-5')).toBe(haiku)
  expect(ours.getModel('anthropic', 'no-such-model')).toBeUndefined()
  expect(ours.getModel('nobody', 'no-such-model')).toBeUndefined()
  expect(ours.getModels('anthropic')).toContain(haiku)
  expect(ours.getProviders()).toEqual(expect.arrayContaining(['anthropic', 'openai', 'google']))
  expect(ours.modelsAreEqual(haiku, { ...haiku })).toBe(true)
  expect(ours.modelsAreEqual(haiku, undefined)).toBe(false)
})

test.each(['anthropic', 'openai', 'groq', 'amazon-bedrock', 'github-copilot', 'nobody'])(
  'the key of the environment is the one that pi takes (%s)',
  (provider) => {
    for (const name of [
      'ANTHROPIC_OAUTH_TOKEN',
      'AWS_PROFILE',
      'COPILOT_GITHUB_TOKEN',
      'GH_TOKEN',
    ]) {
      vi.stubEnv(name, '')
    }
    for (const name of ['ANTHROPIC_API_KEY', 'OPENAI_API_KEY', 'GITHUB_TOKEN']) {
      vi.stubEnv(name, `key of ${name}`)
    }
    expect(ours.getEnvApiKey(provider)).toBe(pi.getEnvApiKey(provider))
  },
)

test('JSON that is still written has what it has so far', () => {
  const text = '{"a":"one \\"two\\" \\u00e4","list":[1,-2.5e3,{"b":null,"c":[true,false]}],"d":{}}'
  for (let end = 0; end <= text.length; end++) {
    expect(() => ours.parseStreamingJson(text.slice(0, end))).not.toThrow()
  }
  expect(ours.parseStreamingJson(text)).toEqual(JSON.parse(text))
  expect(ours.parseStreamingJson('{"a":"on')).toEqual({ a: 'on' })
  expect(ours.parseStreamingJson('{"a":"on","b')).toEqual({ a: 'on' })
  expect(ours.parseStreamingJson('{"a":[1,{"b":tr')).toEqual({ a: [1, { b: true }] })
  expect(ours.parseStreamingJson('')).toEqual({})
  expect(ours.parseStreamingJson('no json')).toEqual({})
})

test('`Type` is TypeBox’s own', () => {
  expect(ours.Type.Object({ a: ours.Type.String() })).toEqual(
    TypeBox.Object({ a: TypeBox.String() }),
  )
  expect(ours.StringEnum(['a', 'b'], { description: 'd' })).toEqual({
    type: 'string',
    enum: ['a', 'b'],
    description: 'd',
  })
})
