// A session with all that pi has, and what of it is no chance. It must never know whose manager it is made with.

export const user = (content: string) => ({ role: 'user' as const, content, timestamp: 1 })
const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 }
export const assistant = (text: string) => ({
  role: 'assistant' as const,
  content: [{ type: 'text' as const, text }],
  api: 'anthropic-messages' as const,
  provider: 'anthropic',
  model: 'claude-haiku-4-5',
  usage: { input: 1, output: 1, cacheRead: 0, cacheWrite: 0, totalTokens: 2, cost },
  stopReason: 'stop' as const,
  timestamp: 2,
})

/** A session with all that pi has. The ids are those that the manager gave. */
export function whole(manager: any): void {
  manager.appendModelChange('anthropic', 'claude-haiku-4-5')
  manager.appendThinkingLevelChange('high')
  const first = manager.appendMessage(user('one'))
  manager.appendMessage(assistant('1'))
  manager.appendCustomEntry('mine', { any: ['data'] })
  const second = manager.appendMessage(user('two'))
  const answer = manager.appendMessage(assistant('2'))
  manager.appendLabelChange(answer, 'here')
  manager.appendMessage(user('three'))
  manager.appendMessage(assistant('3'))
  manager.appendCompaction('what was said', second, 1_000, { readFiles: ['a'] })
  manager.appendCustomMessageEntry('note', 'a note', true, { from: 'host' })
  manager.appendMessage(user('four'))
  manager.appendMessage(assistant('4'))
  manager.branch(answer)
  manager.branchWithSummary(answer, 'the other branch')
  manager.appendMessage(user('five'))
  manager.appendMessage(assistant('5'))
  manager.appendSessionInfo('  A name ')
  manager.appendLabelChange(first, 'first')
  manager.appendLabelChange(first, undefined)
}

/** Entries with their ids in the order of their first use, and without times. */
export function shapeOf(value: unknown): unknown {
  const names = new Map<string, string>()
  const named = (id: string) => {
    if (!names.has(id)) names.set(id, `#${names.size}`)
    return names.get(id)
  }
  return JSON.parse(
    JSON.stringify(value, (key, part) => {
      const isTime = key === 'timestamp' || key === 'labelTimestamp'
      if (isTime) return undefined
      const isId = ['id', 'parentId', 'targetId', 'fromId', 'firstKeptEntryId'].includes(key)
      return isId && typeof part === 'string' ? named(part) : part
    }),
  )
}
