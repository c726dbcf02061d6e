// Events of the Anthropic Messages stream, in the provider's form. It must never share code with the engine.

export interface Usage {
  input?: number
  output?: number
  cached?: number
  cacheWrite?: number
}

const event = (type: string, data: object) =>
  `event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`

export const anthropic = {
  start: ({ input = 10, cached = 0, cacheWrite = 0 }: Usage = {}, id = 'msg_1') =>
    event('message_start', {
      message: {
        id,
        type: 'message',
        role: 'assistant',
        model: 'claude-test',
        content: [],
        stop_reason: null,
        usage: {
          input_tokens: input,
          output_tokens: 1,
          cache_read_input_tokens: cached,
          cache_creation_input_tokens: cacheWrite,
        },
      },
    }),
  blockStart: (index: number, block: object) =>
    event('content_block_start', { index, content_block: block }),
  delta: (index: number, delta: object) => event('content_block_delta', { index, delta }),
  blockStop: (index: number) => event('content_block_stop', { index }),
  text: (index: number, ...parts: string[]) =>
    anthropic.blockStart(index, { type: 'text', text: '' }) +
    parts.map((text) => anthropic.delta(index, { type: 'text_delta', text })).join('') +
    anthropic.blockStop(index),
  thinking: (index: number, text: string, signature: string) =>
    anthropic.blockStart(index, { type: 'thinking', thinking: '', signature: '' }) +
    anthropic.delta(index, { type: 'thinking_delta', thinking: text }) +
    anthropic.delta(index, { type: 'signature_delta', signature }) +
    anthropic.blockStop(index),
  toolUse: (index: number, id: string, name: string, input: unknown) =>
    anthropic.blockStart(index, { type: 'tool_use', id, name, input: {} }) +
    anthropic.delta(index, { type: 'input_json_delta', partial_json: JSON.stringify(input) }) +
    anthropic.blockStop(index),
  messageDelta: (stop: string, { output = 5 }: Usage = {}) =>
    event('message_delta', {
      delta: { stop_reason: stop, stop_sequence: null },
      usage: { output_tokens: output },
    }),
  stop: () => event('message_stop', {}),
  end: (stop = 'end_turn', usage: Usage = {}) =>
    anthropic.messageDelta(stop, usage) + anthropic.stop(),
  ping: () => event('ping', {}),
  error: (type: string, message: string) => event('error', { error: { type, message } }),
  /** A whole answer of text. */
  answer: (text: string, usage: Usage = {}) =>
    anthropic.start(usage) + anthropic.text(0, text) + anthropic.end('end_turn', usage),
  /** A whole answer with tool calls: `[id, name, input]` each. */
  calls: (...calls: [string, string, unknown][]) =>
    anthropic.start() +
    calls.map(([id, name, input], index) => anthropic.toolUse(index, id, name, input)).join('') +
    anthropic.end('tool_use'),
}
