// A model that answers from a list, for pi's agent and ours alike, and what a run of it comes to. It must never wait for a time.

import { createAssistantMessageEventStream, type Model } from '../../../pi-ai.js'

export const model: Model = {
  id: 'm',
  name: 'M',
  api: 'anthropic-messages',
  provider: 'demo',
  baseUrl: '',
  reasoning: true,
  input: ['text'],
  cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 },
  contextWindow: 100_000,
  maxTokens: 1_000,
}

type Part = { text: string } | { call: string; args?: unknown; id?: string }

/** An answer of the model. */
export interface Answer {
  parts: Part[]
  stopReason?: string
  errorMessage?: string
}

export const text = (...texts: string[]): Answer => ({ parts: texts.map((text) => ({ text })) })
/** An answer that calls tools: `a`, or `a:id` for an id of its own. */
export const calls = (...names: string[]): Answer => ({
  parts: names.map((name) => {
    const [call, id = `id-${call}`] = name.split(':') as [string, string?]
    return { call, id }
  }),
})

function messageOf({ parts, stopReason, errorMessage }: Answer): any {
  const hasCalls = parts.some((part) => 'call' in part)
  return {
    role: 'assistant',
    content: parts.map((part) =>
      'text' in part
        ? { type: 'text', text: part.text }
        : {
            type: 'toolCall',
            id: part.id ?? `id-${part.call}`,
            name: part.call,
            arguments: part.args ?? {},
          },
    ),
    api: model.api,
    provider: model.provider,
    model: model.id,
    usage: {
      input: 1,
      output: 1,
      cacheRead: 0,
      cacheWrite: 0,
      totalTokens: 2,
      cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 },
    },
    stopReason: stopReason ?? (hasCalls ? 'toolUse' : 'stop'),
    ...(errorMessage !== undefined && { errorMessage }),
    timestamp: 5,
  }
}

/** A `streamFn` that plays the answers, and records what it was called with. */
export function playing(...answers: Answer[]) {
  const seen: { roles: string[]; tools: string[]; options: any; context: any }[] = []
  const streamFn = (_: any, context: any, options: any): any => {
    seen.push({
      roles: context.messages.map((message: any) => message.role),
      tools: (context.tools ?? []).map((tool: any) => tool.name),
      options,
      context,
    })
    const message = messageOf(answers.shift() ?? text('(nothing left)'))
    const stream = createAssistantMessageEventStream()
    const { content, stopReason } = message
    const partial = { ...message, content: [] as any[] }
    stream.push({ type: 'start', partial })
    content.forEach((part: any, contentIndex: number) => {
      partial.content.push(part)
      if (part.type !== 'text') return
      stream.push({ type: 'text_start', contentIndex, partial })
      stream.push({ type: 'text_delta', contentIndex, delta: part.text, partial })
      stream.push({ type: 'text_end', contentIndex, content: part.text, partial })
    })
    if (stopReason === 'error' || stopReason === 'aborted') {
      stream.push({ type: 'error', reason: stopReason, error: message })
    } else {
      stream.push({ type: 'done', reason: stopReason, message })
    }
    stream.end(message)
    return stream
  }
  return { streamFn, seen }
}

/** What is the same in every run: without times, and messages as they were when the event came. */
export function shapeOf(value: unknown): unknown {
  const json = JSON.stringify(value, (key, part) => {
    return key === 'timestamp' ? undefined : part
  })
  return json === undefined ? undefined : JSON.parse(json)
}

/** A tool that answers with its name, or does what it is given. */
export const toolOf = (
  name: string,
  execute: (id: string, args: any, signal?: AbortSignal, onUpdate?: any) => unknown = () =>
    undefined,
  more: object = {},
): any => ({
  name,
  label: name,
  description: name,
  parameters: { type: 'object', properties: {} },
  execute: async (id: string, args: any, signal?: AbortSignal, onUpdate?: any) =>
    (await execute(id, args, signal, onUpdate)) ?? {
      content: [{ type: 'text', text: `did ${name}` }],
      details: { by: name },
    },
  ...more,
})

export const user = (content: string) => ({ role: 'user' as const, content, timestamp: 1 })
