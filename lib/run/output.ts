// The output of a run: what the host requests, and the value that the library of its schema makes of an answer. The engine compares the
// answer with the JSON Schema and has it repaired. It must never accept a value that the library refuses.

import type { AgentResult } from '../../index.d.ts'
import { type Check, readOutputSchema } from '../tools/schema.ts'
import { clip, messageOf, refusal } from '../values/errors.ts'
import type { Fields } from '../values/reader.ts'
import { outputSchema } from './output-schema.ts'

const CODE = 'invalid_context'
/** Characters of what a check throws. */
const MAX_PROBLEMS = 3_000

/** How the output is made of the JSON of an answer: by a library's check, or as it is. */
interface Output {
  check: Check | undefined
}

/** An answer that was checked: why it is not the output (null where it is), and its value. */
interface Checked {
  problems: string | null
  value: unknown
}

/** Takes the output out of a context: that of `output`, whose JSON Schema becomes the `responseFormat`, or of a `json_schema` there. */
function takeOutput(context: Fields): Output | undefined {
  const { output, responseFormat } = context
  const asksFor = (responseFormat as { type?: unknown } | null | undefined)?.type
  if (output !== undefined) context.output = undefined
  if (output === undefined || output === null) {
    return asksFor === 'json_schema' ? { check: undefined } : undefined
  }
  if (responseFormat === undefined || responseFormat === null) {
    const { json, check } = readOutputSchema(output, true)
    context.responseFormat = { type: 'json_schema', ...outputSchema(json) }
    return { check }
  }
  if (asksFor !== 'json_schema') {
    throw refusal(CODE, 'output', 'needs a `responseFormat` of type `json_schema`, or none')
  }
  const { check } = readOutputSchema(output, false)
  if (check !== undefined) return { check }
  throw refusal(CODE, 'output', 'is JSON Schema, as is that of `responseFormat`; pass one of them')
}

/** Checks the JSON of an answer. Never rejects. */
async function checkOutput({ check }: Output, json: string): Promise<Checked> {
  try {
    const value: unknown = JSON.parse(json)
    return { problems: null, value: check === undefined ? value : await check(value) }
  } catch (error) {
    const message = clip(messageOf(error, 'the schema'), MAX_PROBLEMS)
    return {
      problems: message.startsWith('\n') ? message : `\n  - root: ${message}`,
      value: undefined,
    }
  }
}

/** Whether a result is one with an output, where it was requested. */
function hasOutput({ stopReason, error, messages }: AgentResult): boolean {
  // The question of a planner is no output.
  if (messages.at(-1)?.provenance?.api === 'planned') return false
  return error === undefined && (stopReason === 'end_turn' || stopReason === 'max_tokens')
}

/** The JSON of an answer: the text within a Markdown code fence around all of it, as the engine reads it. */
function jsonOf(text: string): string {
  const all = text.trim()
  return /^```(?:json|JSON)?[ \t\r]*\n([\s\S]*)```$/.exec(all)?.[1] ?? all
}

export type { Output }
export { checkOutput, hasOutput, jsonOf, takeOutput }
