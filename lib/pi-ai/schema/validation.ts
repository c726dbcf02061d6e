// Validates the arguments of a call, with the coercions that models need. It must never change the arguments of the call itself.

import type { Tool, ToolCall } from '../../../pi-ai.d.ts'
import { check } from './check.ts'
import { checkLater } from './later.ts'
import type { Problem } from './types.ts'

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
  { parameters }: Tool,
  toolCall: ToolCall,
  { semantics = '0.54' }: { semantics?: '0.54' | '0.73' } = {},
): unknown {
  const args = structuredClone(toolCall.arguments)
  const { value, lines } =
    semantics === '0.73' ? checkLater(parameters, args) : checked(parameters, args)
  if (lines.length === 0) return value
  const received = JSON.stringify(toolCall.arguments, null, 2)
  throw new Error(
    `Validation failed for tool "${toolCall.name}":\n${lines.join('\n')}\n\nReceived arguments:\n${received}`,
  )
}

function checked(parameters: unknown, args: unknown): { value: unknown; lines: string[] } {
  const { value, problems } = check(parameters, args)
  return { value, lines: problems.map(line) }
}

function line({ path, message, missing }: Problem): string {
  const at = path.join('/') || missing || 'root'
  return `  - ${at}: ${message}`
}

export { validateToolArguments, validateToolCall }
