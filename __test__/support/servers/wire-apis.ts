// The five wire APIs: answers with calls of given ids, and the position of these ids in a request. It reads raw requests and must
// never share code with the engine.

import type { AgentResult } from '../../../index.js'
import { anthropic } from './anthropic.js'
import { bedrock, eventStream } from './bedrock.js'
import { chat } from './chat.js'
import { google } from './google.js'
import { responses } from './responses.js'
import { type Handler, type Seen, sse } from './server.js'

/** The text of the model in a run. */
export const answerText = (result: AgentResult): string =>
  result.messages
    .filter((message) => message.role === 'assistant')
    .map((message) => message.content)
    .join('')

export interface WireApi {
  api: string
  /** More options of the provider. */
  provider: Record<string, unknown>
  /** An answer that calls a tool for each `[id, name]`; `more` is added to each call. */
  calls: (calls: [id: string, name: string][], more?: Record<string, unknown>) => Handler
  answer: (text: string) => Handler
  /** The calls of a request, as objects of the API. */
  sentCalls: (seen: Seen) => Record<string, any>[]
  idOf: (call: Record<string, any>) => string
  /** The call ids of the results of a request. */
  sentResults: (seen: Seen) => string[]
}

const flat = (lists: (any[] | undefined | null)[]) => lists.flatMap((list) => list ?? [])

export const wireApis: WireApi[] = [
  {
    api: 'anthropic-messages',
    provider: {},
    calls: (calls, more = {}) =>
      sse(
        anthropic.start(),
        ...calls.map(
          ([id, name], index) =>
            anthropic.blockStart(index, { type: 'tool_use', id, name, input: {}, ...more }) +
            anthropic.delta(index, { type: 'input_json_delta', partial_json: '{}' }) +
            anthropic.blockStop(index),
        ),
        anthropic.end('tool_use'),
      ),
    answer: (text) => sse(anthropic.answer(text)),
    sentCalls: ({ body }) =>
      flat(body.messages.map((it: any) => it.content)).filter((it) => it.type === 'tool_use'),
    idOf: (call) => call.id,
    sentResults: ({ body }) =>
      flat(body.messages.map((it: any) => it.content))
        .filter((it) => it.type === 'tool_result')
        .map((it) => it.tool_use_id),
  },
  {
    api: 'openai-chat',
    provider: {},
    calls: (calls, more = {}) =>
      sse(
        ...calls.map(([id, name], index) =>
          chat.delta({
            tool_calls: [
              { index, id, type: 'function', function: { name, arguments: '{}' }, ...more },
            ],
          }),
        ),
        chat.finish('tool_calls'),
        chat.usage(12, 3),
        chat.done(),
      ),
    answer: (text) => sse(chat.answer(text)),
    sentCalls: ({ body }) => flat(body.messages.map((it: any) => it.tool_calls)),
    idOf: (call) => call.id,
    sentResults: ({ body }) =>
      body.messages.filter((it: any) => it.role === 'tool').map((it: any) => it.tool_call_id),
  },
  {
    api: 'openai-responses',
    provider: {},
    calls: (calls, more = {}) =>
      sse(
        responses.of(
          ...calls.map(([id, name], index) => responses.call(`fc_${index}`, id, name, {}, more)),
        ),
      ),
    answer: (text) => sse(responses.answer(text)),
    sentCalls: ({ body }) => body.input.filter((it: any) => it.type === 'function_call'),
    idOf: (call) => call.call_id,
    sentResults: ({ body }) =>
      body.input
        .filter((it: any) => it.type === 'function_call_output')
        .map((it: any) => it.call_id),
  },
  {
    api: 'google-generative-ai',
    provider: {},
    calls: (calls, more = {}) =>
      sse(
        google.parts(
          ...calls.map(([id, name]) => ({ functionCall: { id, name, args: {} }, ...more })),
        ),
        google.finish('STOP'),
      ),
    answer: (text) => sse(google.answer(text)),
    sentCalls: ({ body }) =>
      flat(body.contents.map((it: any) => it.parts)).filter((it) => it.functionCall !== undefined),
    idOf: (call) => call.functionCall.id,
    sentResults: ({ body }) =>
      flat(body.contents.map((it: any) => it.parts))
        .filter((it) => it.functionResponse !== undefined)
        .map((it) => it.functionResponse.id),
  },
  {
    api: 'bedrock-converse',
    provider: { region: 'us-east-1' },
    calls: (calls, more = {}) =>
      eventStream(
        bedrock.start(),
        ...calls.map(([toolUseId, name], index) =>
          Buffer.concat([
            bedrock.event('contentBlockStart', {
              contentBlockIndex: index,
              start: { toolUse: { toolUseId, name, ...more } },
            }),
            bedrock.delta(index, { toolUse: { input: '{}' } }),
            bedrock.close(index),
          ]),
        ),
        bedrock.stop('tool_use'),
        bedrock.usage(12, 3),
      ),
    answer: (text) => eventStream(bedrock.answer(text)),
    sentCalls: ({ body }) =>
      flat(body.messages.map((it: any) => it.content))
        .filter((it) => it.toolUse !== undefined)
        .map((it) => it.toolUse),
    idOf: (call) => call.toolUseId,
    sentResults: ({ body }) =>
      flat(body.messages.map((it: any) => it.content))
        .filter((it) => it.toolResult !== undefined)
        .map((it) => it.toolResult.toolUseId),
  },
]
