// Answers of four APIs with all that pi reads of them, as bytes, and pi's models for them. It must never share code with the engine.

import type { Model } from '../../../pi-ai.js'
import { anthropic } from '../../support/servers/anthropic.js'

export interface Wire {
  model: Omit<Model, 'baseUrl'>
  /** The path of the base URL. */
  path: string
  /** An answer with thinking, a text and two calls of the tool `t`. */
  full: string
  /** An answer with a text. */
  text: (text: string) => string
}

const common = {
  name: 'Model',
  reasoning: true,
  input: ['text', 'image'] as ('text' | 'image')[],
  cost: { input: 3, output: 15, cacheRead: 0.3, cacheWrite: 3.75 },
  contextWindow: 200_000,
  maxTokens: 64_000,
}

const data = (chunk: unknown) => `data: ${JSON.stringify(chunk)}\n\n`

const chatChunk = (choices: unknown[], more: object = {}) =>
  data({
    id: 'c1',
    object: 'chat.completion.chunk',
    created: 1,
    model: 'some-model',
    choices,
    ...more,
  })
const chatDelta = (delta: object) => chatChunk([{ index: 0, delta, finish_reason: null }])
const chatEnd = (reason: string) =>
  chatChunk([{ index: 0, delta: {}, finish_reason: reason }]) +
  chatChunk([], {
    usage: {
      prompt_tokens: 20,
      completion_tokens: 7,
      total_tokens: 27,
      prompt_tokens_details: { cached_tokens: 5 },
    },
  }) +
  'data: [DONE]\n\n'
const chatCall = (index: number, fields: object, args: string) => ({
  tool_calls: [
    { index, ...fields, function: { arguments: args, ...('id' in fields && { name: 't' }) } },
  ],
})

const item = (index: number, type: 'added' | 'done', of: object) => ({
  type: `response.output_item.${type}`,
  output_index: index,
  item: of,
})
const responses = (events: object[]) =>
  events
    .map((event, at) => ({ ...event, sequence_number: at }) as { type?: string })
    .map((event) => `event: ${event.type}\n${data(event)}`)
    .join('')
const reasoning = {
  type: 'reasoning',
  id: 'rs_1',
  summary: [{ type: 'summary_text', text: 'think' }],
  encrypted_content: 'enc',
}
const message = (text: string) => ({
  type: 'message',
  id: 'msg_1',
  status: 'completed',
  role: 'assistant',
  content: [{ type: 'output_text', text, annotations: [] }],
})
const call = {
  type: 'function_call',
  id: 'fc_1',
  call_id: 'call_1',
  name: 't',
  arguments: '{"a":"x"}',
  status: 'completed',
}
const said = (index: number, ...parts: string[]) => [
  item(index, 'added', { ...message(''), status: 'in_progress', content: [] }),
  {
    type: 'response.content_part.added',
    item_id: 'msg_1',
    output_index: index,
    content_index: 0,
    part: { type: 'output_text', text: '', annotations: [] },
  },
  ...parts.map((delta) => ({
    type: 'response.output_text.delta',
    item_id: 'msg_1',
    output_index: index,
    content_index: 0,
    delta,
  })),
  item(index, 'done', message(parts.join(''))),
]
const completed = (output: object[]) => ({
  type: 'response.completed',
  response: {
    id: 'resp_1',
    status: 'completed',
    output,
    usage: {
      input_tokens: 20,
      output_tokens: 9,
      total_tokens: 29,
      input_tokens_details: { cached_tokens: 4 },
      output_tokens_details: { reasoning_tokens: 3 },
    },
  },
})
const created = {
  type: 'response.created',
  response: { id: 'resp_1', status: 'in_progress', output: [] },
}

const googleChunk = (parts: object[], more: object = {}, candidate: object = {}) =>
  data({
    candidates: [{ content: { role: 'model', parts }, index: 0, ...candidate }],
    responseId: 'r1',
    ...more,
  })
const googleEnd = googleChunk(
  [],
  {
    usageMetadata: {
      promptTokenCount: 20,
      candidatesTokenCount: 6,
      thoughtsTokenCount: 3,
      totalTokenCount: 29,
    },
  },
  { finishReason: 'STOP' },
)

export const wires: Record<string, Wire> = {
  anthropic: {
    model: { ...common, id: 'claude-sonnet-4-5', api: 'anthropic-messages', provider: 'anthropic' },
    path: '',
    full:
      anthropic.start({ input: 10, cached: 3, cacheWrite: 2 }) +
      anthropic.thinking(0, 'hm', 'c2ln') +
      anthropic.text(1, 'Hel', 'lo') +
      anthropic.blockStart(2, { type: 'tool_use', id: 'toolu_1', name: 't', input: {} }) +
      anthropic.delta(2, { type: 'input_json_delta', partial_json: '{"a":' }) +
      anthropic.delta(2, { type: 'input_json_delta', partial_json: '"x"}' }) +
      anthropic.blockStop(2) +
      anthropic.blockStart(3, { type: 'tool_use', id: 'toolu_2', name: 't', input: {} }) +
      anthropic.blockStop(3) +
      anthropic.end('tool_use'),
    text: (text) => anthropic.answer(text),
  },
  'openai-completions': {
    model: { ...common, id: 'some-model', api: 'openai-completions', provider: 'vllm' },
    path: '/v1',
    full:
      [
        { reasoning_content: 'th' },
        { reasoning_content: 'ink' },
        { content: 'Hel' },
        { content: 'lo' },
        chatCall(0, { id: 'call_1', type: 'function' }, '{"a":'),
        chatCall(0, {}, '"x"}'),
        chatCall(1, { id: 'call_2', type: 'function' }, '{"a":"y"}'),
      ]
        .map(chatDelta)
        .join('') + chatEnd('tool_calls'),
    text: (text) => chatDelta({ content: text }) + chatEnd('stop'),
  },
  'openai-responses': {
    model: { ...common, id: 'gpt-5-mini', api: 'openai-responses', provider: 'openai' },
    path: '/v1',
    full: responses([
      created,
      item(0, 'added', { type: 'reasoning', id: 'rs_1', summary: [] }),
      {
        type: 'response.reasoning_summary_part.added',
        item_id: 'rs_1',
        output_index: 0,
        summary_index: 0,
        part: { type: 'summary_text', text: '' },
      },
      ...['thi', 'nk'].map((delta) => ({
        type: 'response.reasoning_summary_text.delta',
        item_id: 'rs_1',
        output_index: 0,
        summary_index: 0,
        delta,
      })),
      item(0, 'done', reasoning),
      ...said(1, 'Hel', 'lo'),
      item(2, 'added', { ...call, arguments: '', status: 'in_progress' }),
      ...['{"a":', '"x"}'].map((delta) => ({
        type: 'response.function_call_arguments.delta',
        item_id: 'fc_1',
        output_index: 2,
        delta,
      })),
      {
        type: 'response.function_call_arguments.done',
        item_id: 'fc_1',
        output_index: 2,
        arguments: '{"a":"x"}',
      },
      item(2, 'done', call),
      completed([reasoning, message('Hello'), call]),
    ]),
    text: (text) => responses([created, ...said(0, text), completed([message(text)])]),
  },
  google: {
    model: { ...common, id: 'gemini-3-flash', api: 'google-generative-ai', provider: 'google' },
    path: '',
    full:
      [
        { text: 'thi', thought: true },
        { text: 'nk', thought: true },
        { text: 'Hel' },
        { text: 'lo' },
        { functionCall: { name: 't', args: { a: 'x' } }, thoughtSignature: 'c2lnYg==' },
        { functionCall: { name: 't', args: { a: 'y' } } },
      ]
        .map((part) => googleChunk([part]))
        .join('') + googleEnd,
    text: (text) => googleChunk([{ text }]) + googleEnd,
  },
}

/** The model of a wire at a server. */
export const modelAt = (
  { model, path }: Wire,
  url: string,
  changes: Partial<Model> = {},
): Model => ({
  ...model,
  baseUrl: url + path,
  ...changes,
})

export const tool = {
  name: 't',
  description: 'A tool.',
  parameters: { type: 'object', properties: { a: { type: 'string' } } },
}
