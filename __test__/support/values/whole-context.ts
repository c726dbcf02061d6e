// A context with every field that all APIs support, for the specs of the APIs. It must never have one that an API does not support.

import type { AgentTool, AssembledContext } from '../../../index.js'

/** A schema with a definition of its own. */
export const pointSchema = {
  type: 'object',
  $defs: { point: { type: 'object', properties: { x: { type: 'number' } } } },
  properties: { at: { $ref: '#/$defs/point' } },
  required: ['at'],
  additionalProperties: false,
}

/** A system prompt, two earlier messages, a new one, a tool with that schema, a limit and a temperature. */
export const wholeContext = (changes: Partial<AssembledContext> = {}) => ({
  systemPrompt: 'Be "brief".',
  history: [
    { role: 'user' as const, content: 'earlier' },
    { role: 'assistant' as const, content: 'answer' },
  ],
  currentMessage: { role: 'user' as const, content: 'now' },
  tools: [plotTool(pointSchema)],
  maxResponseTokens: 1_000,
  temperature: 0.25,
  ...changes,
})

/** The tool of the whole context, with a schema. */
export const plotTool = (parameters: object): AgentTool => ({
  name: 'plot',
  description: 'Plots.',
  parameters,
  run: () => '',
})

export const image = { type: 'image' as const, mimeType: 'image/png', data: 'aGk=' }

/** A message of a text and an image. */
export const illustrated = {
  role: 'user' as const,
  content: [{ type: 'text' as const, text: 'now' }, image],
}

/** A tool that returns a text and an image. */
export const pictureTool: AgentTool = {
  name: 'picture',
  description: '',
  parameters: { type: 'object' },
  execute: () => ({ content: [{ type: 'text', text: 'here' }, image] }),
}
