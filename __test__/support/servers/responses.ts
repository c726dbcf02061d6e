// Events of the OpenAI Responses stream, in the provider's form. It must never share code with the engine.

let sequence = 0

const event = (type: string, fields: object) =>
  `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: sequence++, ...fields })}\n\n`

const response = (status: string, fields: object = {}) => ({
  id: 'resp_1',
  object: 'response',
  status,
  model: 'gpt-test',
  output: [],
  error: null,
  incomplete_details: null,
  usage: null,
  ...fields,
})

const usage = (input: number, output: number, cached = 0, reasoning = 0) => ({
  input_tokens: input,
  input_tokens_details: { cached_tokens: cached },
  output_tokens: output,
  output_tokens_details: { reasoning_tokens: reasoning },
  total_tokens: input + output,
})

/** A finished output item. */
export type Item = { type: string; id: string } & Record<string, unknown>

export const responses = {
  event,
  created: () =>
    event('response.created', { response: response('in_progress') }) +
    event('response.in_progress', { response: response('in_progress') }),
  added: (index: number, item: Item) =>
    event('response.output_item.added', { output_index: index, item }),
  done: (index: number, item: Item) =>
    event('response.output_item.done', { output_index: index, item }),
  text: (index: number, id: string, ...parts: string[]) =>
    parts
      .map((delta) =>
        event('response.output_text.delta', {
          item_id: id,
          output_index: index,
          content_index: 0,
          delta,
          logprobs: [],
          obfuscation: 'x',
        }),
      )
      .join(''),
  summary: (index: number, id: string, part: number, delta: string) =>
    event('response.reasoning_summary_text.delta', {
      item_id: id,
      output_index: index,
      summary_index: part,
      delta,
    }),
  args: (index: number, id: string, delta: string) =>
    event('response.function_call_arguments.delta', { item_id: id, output_index: index, delta }),
  usage,
  message: (id: string, text: string, fields: object = {}): Item => ({
    type: 'message',
    id,
    status: 'completed',
    role: 'assistant',
    ...fields,
    content: [{ type: 'output_text', annotations: [], logprobs: [], text }],
  }),
  reasoning: (id: string, encrypted: string, ...summary: string[]): Item => ({
    type: 'reasoning',
    id,
    summary: summary.map((text) => ({ type: 'summary_text', text })),
    encrypted_content: encrypted,
  }),
  call: (id: string, callId: string, name: string, args: unknown, fields: object = {}): Item => ({
    type: 'function_call',
    id,
    call_id: callId,
    name,
    arguments: typeof args === 'string' ? args : JSON.stringify(args),
    status: 'completed',
    ...fields,
  }),
  completed: (output: Item[] = [], usageOf = usage(12, 3, 2)) =>
    event('response.completed', { response: response('completed', { output, usage: usageOf }) }),
  incomplete: (reason: string, usageOf = usage(12, 3, 2)) =>
    event('response.incomplete', {
      response: response('incomplete', { incomplete_details: { reason }, usage: usageOf }),
    }),
  failed: (error: object | null) =>
    event('response.failed', { response: response('failed', { error }) }),
  /** A whole response with these items, each sent only with its final event. */
  of: (...items: Item[]) =>
    responses.created() +
    items
      .map((item, index) => responses.added(index, item) + responses.done(index, item))
      .join('') +
    responses.completed(items),
  answer: (text: string) =>
    responses.created() +
    responses.added(0, { ...responses.message('msg_1', ''), content: [] }) +
    responses.text(0, 'msg_1', text) +
    responses.done(0, responses.message('msg_1', text)) +
    responses.completed(),
}
