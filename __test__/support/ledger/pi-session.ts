// Entries of pi's sessions, whole and random ones, and an oracle of the context that pi makes of them. It must never share code with
// the import.

export type Entry = Record<string, any>

export const header = (version?: number): Entry => ({
  type: 'session',
  ...(version === undefined ? {} : { version }),
  id: 'd703a1a9-1b7b-4fb1-b512-c9738b1fe617',
  timestamp: '2025-11-20T23:33:50.805Z',
  cwd: '/work/space',
})

export const usage = {
  input: 3,
  output: 191,
  cacheRead: 10,
  cacheWrite: 1684,
  totalTokens: 1888,
  cost: { input: 0.1, output: 0.2, cacheRead: 0, cacheWrite: 0, total: 0.3 },
}

export const time = (n: number) => new Date(1763681630000 + n * 1000).toISOString()
export const user = (content: unknown, n: number) => ({
  role: 'user',
  content,
  timestamp: 1763681630000 + n,
})
export const assistant = (content: Entry[], n: number, changes: Entry = {}) => ({
  role: 'assistant',
  content,
  api: 'anthropic-messages',
  provider: 'anthropic',
  model: 'claude-sonnet-4-5',
  usage,
  stopReason: content.some(({ type }) => type === 'toolCall') ? 'toolUse' : 'stop',
  timestamp: 1763681630000 + n,
  ...changes,
})
export const toolResult = (toolCallId: string, text: string, n: number, isError = false) => ({
  role: 'toolResult',
  toolCallId,
  toolName: 'read',
  content: [{ type: 'text', text }],
  details: { lines: 3, nested: { of: [1.5, null] } },
  isError,
  timestamp: 1763681630000 + n,
})
export const text = (value: string, changes: Entry = {}) => ({
  type: 'text',
  text: value,
  ...changes,
})
export const call = (id: string, changes: Entry = {}) => ({
  type: 'toolCall',
  id,
  name: 'read',
  arguments: { path: 'a.md', limit: 5 },
  ...changes,
})

/** A session with everything that pi writes: a tool loop, a branch, two compactions, notes, odd roles. */
export function wholeSession(): Entry[] {
  const message = (id: string, parentId: string | null, message: Entry, n: number) => ({
    type: 'message',
    id,
    parentId,
    timestamp: time(n),
    message,
  })
  return [
    { ...header(3), parentSession: '/old.jsonl' },
    {
      type: 'model_change',
      id: '00000001',
      parentId: null,
      timestamp: time(0),
      provider: 'anthropic',
      modelId: 'm',
    },
    message('00000002', '00000001', user('first question', 2), 2),
    message(
      '00000003',
      '00000002',
      assistant(
        [
          { type: 'thinking', thinking: 'hm', thinkingSignature: 'c2ln' },
          text('reading'),
          call('toolu_1'),
          call('toolu_2'),
        ],
        3,
      ),
      3,
    ),
    message('00000004', '00000003', toolResult('toolu_1', 'of a', 4), 4),
    message('00000005', '00000004', toolResult('toolu_2', 'no such file', 5, true), 5),
    message('00000006', '00000005', assistant([text('the first answer')], 6), 6),
    {
      type: 'label',
      id: '00000007',
      parentId: '00000006',
      timestamp: time(7),
      targetId: '00000002',
      label: 'start',
    },
    message(
      '00000008',
      '00000007',
      user([text('look'), { type: 'image', data: 'aGk=', mimeType: 'image/png' }], 8),
      8,
    ),
    message('00000009', '00000008', assistant([text('an image')], 9), 9),
    // Another branch, from before the image.
    {
      type: 'branch_summary',
      id: '0000000a',
      parentId: '00000006',
      timestamp: time(10),
      fromId: '00000009',
      summary: 'we looked',
    },
    message('0000000b', '0000000a', user('the other way', 11), 11),
    message('0000000c', '0000000b', assistant([text('the other answer')], 12), 12),
    {
      type: 'custom',
      id: '0000000d',
      parentId: '0000000c',
      timestamp: time(13),
      customType: 'x',
      data: { a: 1 },
    },
    message(
      '0000000e',
      '0000000d',
      {
        role: 'bashExecution',
        command: 'ls',
        output: 'a.md',
        exitCode: 0,
        cancelled: false,
        truncated: false,
        timestamp: 14,
      },
      14,
    ),
    {
      type: 'custom_message',
      id: '0000000f',
      parentId: '0000000e',
      timestamp: time(15),
      customType: 'x',
      content: 'from an extension',
      display: true,
    },
    message('00000010', '0000000f', assistant([text('noted')], 16), 16),
    {
      type: 'compaction',
      id: '00000011',
      parentId: '00000010',
      timestamp: time(17),
      summary: 'what was said',
      firstKeptEntryId: '0000000b',
      tokensBefore: 900,
      details: { readFiles: ['a'] },
    },
    message('00000012', '00000011', user('after it', 18), 18),
    message(
      '00000013',
      '00000012',
      assistant([text('still here')], 19, {
        stopReason: 'aborted',
        errorMessage: 'Request was aborted',
      }),
      19,
    ),
    {
      type: 'session_info',
      id: '00000014',
      parentId: '00000013',
      timestamp: time(20),
      name: 'A name',
    },
  ]
}

/** The part of an entry that the model receives: its role and its text. */
export function entryText(entry: Entry): [string, string] | null {
  const words = (content: unknown) =>
    typeof content === 'string'
      ? content
      : (content as Entry[]).map((part) => (part.type === 'text' ? part.text : '')).join('')
  if (entry.type === 'branch_summary' && entry.summary) {
    return ['user', `[Summary of another branch]:\n\n${entry.summary}`]
  }
  if (entry.type === 'custom_message') return ['user', words(entry.content)]
  if (entry.type !== 'message') return null
  const { role, content, command, output } = entry.message
  if (role === 'bashExecution') return ['user', `The user ran \`${command}\`:\n\n${output}`]
  if (role === 'toolResult') return ['tool', words(content)]
  return [role === 'assistant' ? 'assistant' : 'user', words(content)]
}

/** The context of a session by pi's rule: the last compaction, the entries it did not summarise, and the later ones. */
export function piContext(entries: Entry[]): [string, string][] {
  const byId = new Map(entries.slice(1).map((entry) => [entry.id, entry]))
  const path: Entry[] = []
  for (let at = entries.at(-1); at !== undefined; at = byId.get(at.parentId)) path.unshift(at)
  const last = path.findLastIndex(({ type }) => type === 'compaction')
  const compaction = path[last]
  const firstKept = path.findIndex(({ id }) => id === compaction?.firstKeptEntryId)
  const textsOf = (list: Entry[]) =>
    list.map(entryText).filter((historyTexts) => historyTexts !== null)
  if (compaction === undefined) return textsOf(path)
  return [
    ['user', `[Previous conversation summary]:\n\n${compaction.summary}`],
    ...textsOf(firstKept < 0 ? [] : path.slice(firstKept, last)),
    ...textsOf(path.slice(last + 1)),
  ]
}

/** A random tree: questions, answers, tools, notes, branches from anywhere, compactions from anywhere. */
export function randomSession(seed: number): Entry[] {
  let state = seed * 7919
  const pick = (below: number) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
  const entries: Entry[] = [header(3)]
  let leaf: string | null = null
  const path = () => {
    const ids: string[] = []
    const byId = new Map(entries.slice(1).map((entry) => [entry.id, entry]))
    for (let at = leaf; at !== null; at = byId.get(at)?.parentId ?? null) ids.push(at)
    return ids
  }
  for (let n = 1; n <= 30; n++) {
    const all = entries.slice(1).map(({ id }) => id)
    if (all.length > 2 && pick(8) === 0) leaf = all[pick(all.length)]
    const base: Entry = { id: n.toString(16).padStart(8, '0'), parentId: leaf, timestamp: time(n) }
    const messageEntry = (message: Entry) => ({ type: 'message', ...base, message })
    const kinds = [
      () => messageEntry(user(`question ${n}`, n)),
      () => messageEntry(user([text(`question ${n}`)], n)),
      () => messageEntry(assistant([text(`answer ${n}`)], n)),
      () => messageEntry(assistant([text(`asking ${n}`), call(`c${pick(3)}`)], n)),
      () => messageEntry(toolResult(`c${pick(3)}`, `result ${n}`, n)),
      () => ({ type: 'label', ...base, targetId: base.id, label: 'x' }),
      () => ({ type: 'branch_summary', ...base, fromId: 'root', summary: `branch ${n}` }),
      () => ({
        type: 'custom_message',
        ...base,
        customType: 'x',
        content: `custom ${n}`,
        display: false,
      }),
      () => {
        const above = path()
        const firstKept = above[pick(above.length + 1)] ?? 'gone'
        return {
          type: 'compaction',
          ...base,
          summary: `summary ${n}`,
          firstKeptEntryId: firstKept,
          tokensBefore: n,
        }
      },
    ]
    entries.push((kinds[pick(kinds.length)] as () => Entry)())
    leaf = base.id
  }
  return entries
}
