// Messages as lines that a test compares. Pure; it must never show an id or a time.

import type { Block, Role } from '../../index.d.ts'
import type { TranscriptMessage } from '../../testing.d.ts'

/** One line for each block of each message. */
function transcript(messages: readonly TranscriptMessage[]): string[] {
  return messages.flatMap(({ role, content = '', blocks }) =>
    blocks === undefined ? [`${role}: ${content}`] : blocks.map((block) => line(role, block)),
  )
}

function line(role: Role, block: Block): string {
  switch (block.type) {
    case 'text':
      return `${block.origin ?? role}: ${block.text}`
    case 'image':
      return `${role}: [${block.mimeType}]`
    case 'thinking':
      return `reasoning: ${block.thinking}`
    case 'redacted_thinking':
      return 'reasoning: [encrypted]'
    case 'tool_call':
      return `call: ${block.name} ${block.argumentsJson}`
    case 'tool_result':
      return `${block.isError ? 'error' : 'result'}: ${block.content.map(part).join(' ')}`
    case 'opaque':
      return `${role}: ${block.rawJson}`
  }
}

/** A part of a tool's result. */
function part(block: Block): string {
  return block.type === 'text'
    ? block.text
    : `[${block.type === 'image' ? block.mimeType : block.type}]`
}

export { transcript }
