// A result as the native side writes it, completed for the host. It must never change a value that it does not complete.

import type { AgentResult } from '../../index.d.ts'

/** Fills in what the native side leaves out because it stands elsewhere in the result. */
function complete(result: AgentResult): AgentResult {
  for (const message of result.messages) {
    // The content is left out where it is the text of the only block.
    const [block, ...others] = message.blocks ?? []
    if (block?.type !== 'text' || others.length > 0 || block.origin !== undefined) continue
    message.content = block.text
  }
  result.text = result.messages.findLast(({ role }) => role === 'assistant')?.content ?? ''
  return result
}

export { complete }
