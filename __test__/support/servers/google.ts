// Chunks of Google's `streamGenerateContent`, in the provider's form. It must never share code with the engine.

export type Part = Record<string, unknown>

const chunk = (fields: object) =>
  `data: ${JSON.stringify({ ...fields, modelVersion: 'gemini-test', responseId: 'resp-1' })}\n\n`

export const google = {
  parts: (...parts: Part[]) =>
    chunk({ candidates: [{ content: { role: 'model', parts }, index: 0 }] }),
  text: (...texts: string[]) => texts.map((text) => google.parts({ text })).join(''),
  thought: (text: string) => google.parts({ text, thought: true }),
  call: (name: string, args: unknown, more: Part = {}): Part => ({
    functionCall: { name, args },
    ...more,
  }),
  finish: (reason: string, prompt = 12, answer = 3, more: object = {}) =>
    chunk({
      candidates: [{ finishReason: reason, index: 0 }],
      usageMetadata: {
        promptTokenCount: prompt,
        candidatesTokenCount: answer,
        totalTokenCount: prompt + answer,
        ...more,
      },
    }),
  blocked: (blockReason: string) =>
    chunk({
      promptFeedback: { blockReason },
      usageMetadata: { promptTokenCount: 12, totalTokenCount: 12 },
    }),
  error: (code: number, status: string, message: string, details: object[] = []) => ({
    error: { code, message, status, details },
  }),
  /** A whole answer of text. */
  answer: (text: string) => google.text(text) + google.finish('STOP'),
  /** A whole answer with tool calls: `[name, args]` each. */
  calls: (...calls: [string, unknown][]) =>
    google.parts(...calls.map(([name, args]) => google.call(name, args))) + google.finish('STOP'),
}
