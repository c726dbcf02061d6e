// Validates the arguments of a call, with the coercions that models need. It must never change the arguments of the call itself.

import type { Tool, ToolCall } from '../../../pi-ai.d.ts'
import { check } from './check.ts'
import type { Problem } from './types.ts'

/** Schemas of TypeBox carry it; their JSON does not. */
const KIND = Symbol.for('TypeBox.Kind')

/** @throws where the tool is unknown, or the arguments do not fit. */
function validateToolCall(tools: readonly Tool[], toolCall: ToolCall): unknown {
  const tool = tools.find(({ name }) => name === toolCall.name)
  if (tool === undefined) throw new Error(`Tool "${toolCall.name}" not found`)
  return validateToolArguments(tool, toolCall)
}

/**
 * The arguments as the tool gets them: a copy, coerced.
 *
 * @throws where they do not fit; the message is for the model.
 */
function validateToolArguments(
  tool: Tool,
  toolCall: ToolCall,
  { semantics = '0.54' }: { semantics?: '0.54' | '0.73' } = {},
): unknown {
  const { parameters } = tool
  const isTypeBox = typeof parameters === 'object' && parameters !== null && KIND in parameters
  const wraps = semantics === '0.73' && isTypeBox
  const { value, problems } = check(parameters, structuredClone(toolCall.arguments), wraps)
  if (problems.length === 0) return value
  const lines = problems.map(line).join('\n')
  const received = JSON.stringify(toolCall.arguments, null, 2)
  throw new Error(
    `Validation failed for tool "${toolCall.name}":\n${lines}\n\nReceived arguments:\n${received}`,
  )
}

function line({ path, message, missing }: Problem): string {
  const at = path.join('/') || missing || 'root'
  return `  - ${at}: ${message}`
}

export { validateToolArguments, validateToolCall }
