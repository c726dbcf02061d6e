// What a conversation of pi's coding agent printed, in a form that can be compared. It must never compare ids and times, which are chance, nor how much of an
// answer a snapshot of it had.

const IDS = new Set(['id', 'parentId', 'targetId', 'fromId', 'firstKeptEntryId'])

export interface Conversation {
  events: any[]
  messages: any[]
  context: any[]
  file: any[]
  requests: string[]
}

/** A conversation with ids by their first use, and without times. */
export function shapeOf(json: string): Conversation {
  const names = new Map<string, string>()
  const named = (id: string) => {
    if (!names.has(id)) names.set(id, `#${names.size}`)
    return names.get(id)
  }
  const read = JSON.parse(json, (key, part) => {
    if (['timestamp', 'responseId', 'cwd'].includes(key)) return undefined
    // The text of the status is the client's own.
    if (key === 'errorMessage' && /prompt is too long/.test(part)) return 'prompt is too long'
    const isEntry = typeof part === 'string' && /^[0-9a-f]{8}(?:-[0-9a-f-]+)?$/.test(part)
    return IDS.has(key) && isEntry ? named(part) : part
  })
  return {
    ...read,
    events: read.events.map(eventOf),
    // pi sends messages of one role one after the other, the engine joins them.
    requests: read.requests.map((roles: string) => roles.replace(/(.)\1+/g, '$1')),
  }
}

/** An event without the messages that grow. */
function eventOf({ message, assistantMessageEvent, ...event }: any): unknown {
  if (event.type === 'message_update') {
    const { partial, ...inner } = assistantMessageEvent
    return { ...event, ...inner, type: `update ${inner.type}` }
  }
  if (event.type === 'message_start') return { ...event, role: message.role }
  return message === undefined ? event : { ...event, message }
}
