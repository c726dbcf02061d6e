// Chunks of the OpenAI Chat Completions stream, in the provider's form. It must never share code with the engine.

const chunk = (fields: object) =>
  `data: ${JSON.stringify({ id: 'chatcmpl-1', object: 'chat.completion.chunk', model: 'gpt-test', ...fields })}\n\n`

export const chat = {
  delta: (delta: object) => chunk({ choices: [{ index: 0, delta, finish_reason: null }] }),
  text: (...parts: string[]) =>
    chat.delta({ role: 'assistant', content: '' }) +
    parts.map((content) => chat.delta({ content })).join(''),
  toolCall: (index: number, id: string, name: string, args: string) =>
    chat.delta({
      tool_calls: [{ index, id, type: 'function', function: { name, arguments: '' } }],
    }) + chat.delta({ tool_calls: [{ index, function: { arguments: args } }] }),
  finish: (reason: string) => chunk({ choices: [{ index: 0, delta: {}, finish_reason: reason }] }),
  usage: (prompt: number, completion: number, cached = 0) =>
    chunk({
      choices: [],
      usage: {
        prompt_tokens: prompt,
        completion_tokens: completion,
        total_tokens: prompt + completion,
        prompt_tokens_details: { cached_tokens: cached },
      },
    }),
  done: () => 'data: [DONE]\n\n',
  answer: (text: string) =>
    chat.text(text) + chat.finish('stop') + chat.usage(12, 3, 2) + chat.done(),
  calls: (...calls: [string, string, unknown][]) =>
    calls
      .map(([id, name, args], index) => chat.toolCall(index, id, name, JSON.stringify(args)))
      .join('') +
    chat.finish('tool_calls') +
    chat.usage(12, 3) +
    chat.done(),
}
