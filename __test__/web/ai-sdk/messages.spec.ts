// Messages of `ai` as messages of the engine: each kind of part, what is refused, and that both ways through `ai` agree. It must never
// fetch anything.

import type { ModelMessage, UIMessage } from 'ai'
import { describe, expect, test } from 'vitest'
import { fromModelMessages, fromUIMessages } from '../../../ai-sdk.js'
import { AgentEngine } from '../../../index.js'
import { collect, scriptedProvider, transcript } from '../../../testing.js'
import { closing } from '../../support/cleanup.js'
import { context, testModel } from '../../support/engine.js'
import { versions } from './ai.js'

const PIXEL =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='

/** A chat with every kind of part that the engine has a form for. */
const chat: UIMessage[] = [
  { id: '0', role: 'system', parts: [{ type: 'text', text: 'Be brief.' }] },
  {
    id: '1',
    role: 'user',
    parts: [
      { type: 'text', text: 'What is this?' },
      { type: 'file', mediaType: 'image/png', url: `data:image/png;base64,${PIXEL}` },
    ],
  },
  {
    id: '2',
    role: 'assistant',
    parts: [
      { type: 'step-start' },
      { type: 'reasoning', text: 'A pixel.', state: 'done' },
      { type: 'text', text: 'Let me look.' },
      {
        type: 'tool-look',
        toolCallId: 'a',
        state: 'output-available',
        input: { x: 1 },
        output: { color: 'blue' },
      },
      {
        type: 'dynamic-tool',
        toolName: 'ask',
        toolCallId: 'b',
        state: 'output-error',
        input: {},
        errorText: 'nobody is there',
      },
      { type: 'step-start' },
      { type: 'text', text: 'It is blue.' },
    ],
  },
  { id: '3', role: 'user', parts: [{ type: 'text', text: 'Thank you.' }] },
]

const expected = [
  { role: 'system', content: 'Be brief.' },
  {
    role: 'user',
    content: [
      { type: 'text', text: 'What is this?' },
      { type: 'image', mimeType: 'image/png', data: PIXEL },
    ],
  },
  {
    role: 'assistant',
    content: [
      { type: 'thinking', thinking: 'A pixel.' },
      { type: 'text', text: 'Let me look.' },
      { type: 'tool_call', id: 'a', name: 'look', argumentsJson: '{"x":1}' },
      { type: 'tool_call', id: 'b', name: 'ask', argumentsJson: '{}' },
    ],
  },
  {
    role: 'tool',
    toolCallId: 'a',
    toolName: 'look',
    content: '{"color":"blue"}',
    isError: false,
  },
  { role: 'tool', toolCallId: 'b', toolName: 'ask', content: 'nobody is there', isError: true },
  { role: 'assistant', content: [{ type: 'text', text: 'It is blue.' }] },
  { role: 'user', content: [{ type: 'text', text: 'Thank you.' }] },
]

test('text, images, reasoning, tools with input, output and errors are messages of the engine, step by step', () => {
  expect(fromUIMessages(chat)).toEqual(expected)
})

test.each(versions)('the model messages of %s are the same messages', async (_, ai) => {
  const model = await ai.convertToModelMessages(chat)
  expect(fromModelMessages(model)).toEqual(expected)
})

test('a run takes them as its history', async () => {
  const model = scriptedProvider(['You are welcome.'])
  const engine = closing(new AgentEngine({ providers: { test: model }, models: [testModel] }))
  const messages = fromUIMessages(chat.slice(1))
  const { text } = await collect(
    engine.run(
      context({ history: messages.slice(0, -1), currentMessage: messages.at(-1) as never }),
    ),
  )
  expect(text).toBe('You are welcome.')
  expect(transcript(model.request(0).messages)).toEqual([
    'user: What is this?',
    'user: [image/png]',
    'assistant: Let me look.',
    'call: look {"x":1}',
    'call: ask {}',
    'result: {"color":"blue"}',
    'error: nobody is there',
    'assistant: It is blue.',
    'user: Thank you.',
  ])
})

/** The messages of one message of an assistant with one part. */
const assistant = (part: object) =>
  fromUIMessages([{ role: 'assistant', parts: [part as { type: string }] }])

test('a call is left out while its input streams, and unanswered while it runs', () => {
  const call = { type: 'tool-look', toolCallId: 'a' }
  expect(assistant({ ...call, state: 'input-streaming', input: { x: 1 } })).toEqual([])
  expect(assistant({ ...call, state: 'input-available', input: { x: 1 } })).toEqual([
    {
      role: 'assistant',
      content: [{ type: 'tool_call', id: 'a', name: 'look', argumentsJson: '{"x":1}' }],
    },
  ])
})

test('a call that was denied has an error as its result', () => {
  const call = { type: 'tool-look', toolCallId: 'a', input: {} }
  const approval = { id: 'p', approved: false, reason: 'not now' }
  const [, denied] = assistant({ ...call, state: 'output-denied', approval })
  expect(denied).toMatchObject({ role: 'tool', content: 'not now', isError: true })
  const [, responded] = assistant({
    ...call,
    state: 'approval-responded',
    approval: { approved: false },
  })
  expect(responded).toMatchObject({ content: 'The call was denied.', isError: true })
})

test('reasoning has the signature that the AI SDK stored, and encrypted reasoning is encrypted', () => {
  const signed = { anthropic: { signature: 'sig' } }
  expect(assistant({ type: 'reasoning', text: 'Hm.', providerMetadata: signed })).toMatchObject([
    { content: [{ type: 'thinking', thinking: 'Hm.', signature: 'sig' }] },
  ])
  const redacted = { anthropic: { redactedData: 'xyz' } }
  expect(assistant({ type: 'reasoning', text: '', providerMetadata: redacted })).toMatchObject([
    { content: [{ type: 'redacted_thinking', data: 'xyz' }] },
  ])
})

test('a steered message is a message of the user between two steps', () => {
  const parts = [
    { type: 'text', text: 'One.' },
    { type: 'steering-message', id: 's', parts: [{ type: 'text', text: 'Faster!' }] },
    { type: 'text', text: 'Two.' },
  ]
  expect(fromUIMessages([{ role: 'assistant', parts }]).map(({ role }) => role)).toEqual([
    'assistant',
    'user',
    'assistant',
  ])
})

describe('files', () => {
  const user = (part: object, options = {}) =>
    fromUIMessages([{ role: 'user', parts: [part as { type: string }] }], options)

  test('a text in a data URL is a text', () => {
    const file = { type: 'file', mediaType: 'text/plain' }
    const texts = [
      `data:text/plain;charset=utf-8;base64,${Buffer.from('né').toString('base64')}`,
      'data:text/plain,n%C3%A9',
      'data:;base64,bsOp',
    ]
    for (const url of texts) {
      expect(user({ ...file, url })).toEqual([
        { role: 'user', content: [{ type: 'text', text: 'né' }] },
      ])
    }
  })

  test.each([
    [
      { type: 'file', mediaType: 'application/pdf', url: 'data:application/pdf;base64,AAAA' },
      '`messages[0].parts[0]`: is a file of the type `application/pdf`: the engine takes images (PNG, JPEG, GIF, WebP) and texts in the message itself; convert it with the option `part`',
    ],
    [
      { type: 'file', mediaType: 'image/png', url: 'https://host/a.png' },
      '`messages[0].parts[0]`: is a file by its address: the engine takes images (PNG, JPEG, GIF, WebP) and texts in the message itself; convert it with the option `part`',
    ],
  ])('one that the engine cannot pass on is refused, or converted by the host: %#', (part, why) => {
    expect(() => user(part)).toThrow(new TypeError(why))
    expect(user(part, { part: () => 'a file' })).toEqual([
      { role: 'user', content: [{ type: 'text', text: 'a file' }] },
    ])
    expect(user(part, { part: () => undefined })).toEqual([])
  })

  test('an image of a model message comes in any of its forms', () => {
    const bytes = Buffer.from(PIXEL, 'base64')
    const forms: ModelMessage['content'][] = [
      [{ type: 'image', image: PIXEL }],
      [{ type: 'image', image: new Uint8Array(bytes), mediaType: 'image/png' }],
      [{ type: 'image', image: new URL(`data:image/png;base64,${PIXEL}`) }],
      [{ type: 'file', data: PIXEL, mediaType: 'image/*' }],
      [{ type: 'file', data: { type: 'data', data: bytes }, mediaType: 'image' }],
    ]
    for (const content of forms) {
      expect(fromModelMessages([{ role: 'user', content: content as never }])).toEqual([
        { role: 'user', content: [{ type: 'image', mimeType: 'image/png', data: PIXEL }] },
      ])
    }
  })
})

test('each kind of output of a tool is a result', () => {
  const outputs = [
    { type: 'text', value: 'a' },
    { type: 'json', value: { a: 1 } },
    { type: 'error-text', value: 'no' },
    { type: 'error-json', value: { no: 1 } },
    { type: 'execution-denied', reason: 'later' },
    {
      type: 'content',
      value: [
        { type: 'text', text: 'see' },
        { type: 'media', data: PIXEL, mediaType: 'image/png' },
      ],
    },
  ]
  const content = outputs.map((output) => ({
    type: 'tool-result',
    toolCallId: 'a',
    toolName: 'look',
    output,
  }))
  const results = fromModelMessages([{ role: 'tool', content }])
  expect(results.map(({ content, isError }) => [content, isError])).toEqual([
    ['a', false],
    ['{"a":1}', false],
    ['no', true],
    ['{"no":1}', true],
    ['later', true],
    [
      [
        { type: 'text', text: 'see' },
        { type: 'image', mimeType: 'image/png', data: PIXEL },
      ],
      false,
    ],
  ])
})

test.each([
  [5, '`messages`: is not a list'],
  [[null], '`messages[0].parts`: is not a list of parts'],
  [[{ role: 'robot', parts: [] }], '`messages[0].role`: is not `system`, `user` or `assistant`'],
  [[{ role: 'user', parts: [7] }], '`messages[0].parts[0]`: is not a part with a type'],
  [[{ role: 'user', parts: [{ type: 'text' }] }], '`messages[0].parts[0].text`: is not a string'],
  [
    [{ role: 'assistant', parts: [{ type: 'tool-a', state: 'output-available' }] }],
    '`messages[0].parts[0].toolCallId`: is not a string',
  ],
])('what a client sent that is no message is refused with its path: %j', (messages, why) => {
  expect(() => fromUIMessages(messages as never)).toThrow(new TypeError(why))
})
