// Reads request bodies of every API: the role and content of each message, in order, and the violations of the API's rules of order
// (the pages in docs/rules/wire). Written from the APIs' rules; it must never share code with the engine's encoders.

import type { Folder } from './recordings.js'

export type Item =
  | { kind: 'text'; text: string }
  | { kind: 'image' }
  | { kind: 'call'; id: string | null; name: string; arguments: unknown }
  | { kind: 'result'; id: string | null; text: string; isError: boolean }
  | { kind: 'opaque'; value: string }

export interface Turn {
  role: 'user' | 'assistant'
  items: Item[]
}

const text = (value: string): Item[] => (value === '' ? [] : [{ kind: 'text', text: value }])
const opaque = (value: unknown): Item[] =>
  typeof value === 'string' && value !== '' ? [{ kind: 'opaque', value }] : []
const list = (content: any): any[] =>
  typeof content === 'string' ? [{ type: 'text', text: content }] : (content ?? [])
const plain = (content: any): string =>
  list(content)
    .map((part) => part.text ?? (part.json === undefined ? '' : JSON.stringify(part.json)))
    .join('')

function anthropicItem(block: any): Item[] {
  switch (block.type) {
    case 'text':
      return text(block.text)
    case 'image':
      return [{ kind: 'image' }]
    case 'thinking':
      return opaque(block.signature)
    case 'redacted_thinking':
      return opaque(block.data)
    case 'tool_use':
      return [{ kind: 'call', id: block.id, name: block.name, arguments: block.input }]
    case 'tool_result': {
      const { tool_use_id: id, content, is_error: isError } = block
      return [{ kind: 'result', id, text: plain(content), isError: isError === true }]
    }
    default:
      return []
  }
}

function bedrockItem(block: any): Item[] {
  if (block.text !== undefined) return text(block.text)
  if (block.image !== undefined) return [{ kind: 'image' }]
  const reasoning = block.reasoningContent
  if (reasoning !== undefined) {
    return [...opaque(reasoning.reasoningText?.signature), ...opaque(reasoning.redactedContent)]
  }
  if (block.toolUse !== undefined) {
    const { toolUseId: id, name, input } = block.toolUse
    return [{ kind: 'call', id, name, arguments: input }]
  }
  if (block.toolResult !== undefined) {
    const { toolUseId: id, content, status } = block.toolResult
    return [{ kind: 'result', id, text: plain(content), isError: status === 'error' }]
  }
  return []
}

function googlePart(part: any): Item[] {
  const signature = opaque(part.thoughtSignature ?? part.thought_signature)
  const call = part.functionCall ?? part.function_call
  if (call !== undefined) {
    const { id = null, name, args = {} } = call
    return [{ kind: 'call', id, name, arguments: args }, ...signature]
  }
  const answer = part.functionResponse ?? part.function_response
  if (answer !== undefined) {
    const { id = null, response } = answer
    const turns = response.output ?? response.error ?? response
    const isError = response.error !== undefined
    return [
      {
        kind: 'result',
        id,
        text: typeof turns === 'string' ? turns : JSON.stringify(turns),
        isError,
      },
    ]
  }
  if (part.inlineData !== undefined) return [{ kind: 'image' }, ...signature]
  return [...(part.thought === true ? [] : text(part.text ?? '')), ...signature]
}

function chatMessage(message: any): Item[] {
  if (message.role === 'tool') {
    return [
      { kind: 'result', id: message.tool_call_id, text: plain(message.content), isError: false },
    ]
  }
  const details: any[] = message.reasoning_details ?? []
  const parts = list(message.content).flatMap((part): Item[] =>
    part.type === 'image_url' ? [{ kind: 'image' }] : text(part.text ?? ''),
  )
  const calls = (message.tool_calls ?? []).map(
    ({ id, function: { name, arguments: json } }: any) => ({
      kind: 'call' as const,
      id,
      name,
      arguments: JSON.parse(json === '' ? '{}' : json),
    }),
  )
  return [
    ...details.flatMap((detail) => [...opaque(detail.signature), ...opaque(detail.data)]),
    ...parts,
    ...calls,
  ]
}

function responsesItem(item: any): Turn[] {
  switch (item.type ?? 'message') {
    case 'message': {
      if (item.role !== 'user' && item.role !== 'assistant') return []
      const items = list(item.content).flatMap((part): Item[] =>
        part.type === 'input_image' ? [{ kind: 'image' }] : text(part.text ?? part.refusal ?? ''),
      )
      return [{ role: item.role, items }]
    }
    case 'reasoning':
      return [{ role: 'assistant', items: opaque(item.encrypted_content) }]
    case 'function_call': {
      const { call_id: id, name, arguments: json } = item
      const args = JSON.parse(json === '' ? '{}' : json)
      return [{ role: 'assistant', items: [{ kind: 'call', id, name, arguments: args }] }]
    }
    case 'function_call_output': {
      const { call_id: id, output } = item
      return [
        { role: 'user', items: [{ kind: 'result', id, text: plain(output), isError: false }] },
      ]
    }
    default:
      return []
  }
}

/** The content of a request, message by message; system prompts left out. */
export function conversation(folder: Folder, body: any): Turn[] {
  const message = (role: string, items: Item[]): Turn => ({
    role: role === 'user' || role === 'tool' ? 'user' : 'assistant',
    items,
  })
  switch (folder) {
    case 'anthropic':
      return body.messages.map((one: any) =>
        message(one.role, list(one.content).flatMap(anthropicItem)),
      )
    case 'bedrock':
      return body.messages.map((one: any) => message(one.role, one.content.flatMap(bedrockItem)))
    case 'google':
      return body.contents.map((one: any) =>
        message(one.role ?? 'user', one.parts.flatMap(googlePart)),
      )
    case 'chat':
      return body.messages
        .filter((one: any) => !['system', 'developer'].includes(one.role))
        .map((one: any) => message(one.role, chatMessage(one)))
    case 'responses':
      return list(body.input).flatMap(responsesItem)
  }
}

/** Each run of messages of one role as one message, as the API reads them. */
function merged(turns: Turn[]): Turn[] {
  const out: Turn[] = []
  for (const { role, items } of turns) {
    const last = out.at(-1)
    if (last?.role === role) last.items.push(...items)
    else out.push({ role, items: [...items] })
  }
  return out
}

/** The rules of the API that a body breaks; empty for a body that its provider would accept. */
export function broken(folder: Folder, body: any): string[] {
  const turns = conversation(folder, body)
  const wrong: string[] = []
  const alternating = folder === 'anthropic' || folder === 'google' || folder === 'bedrock'
  if (turns[0]?.role !== 'user') wrong.push('the first message is not the user’s')
  turns.forEach(({ role, items }, at) => {
    if (alternating && turns[at - 1]?.role === role) wrong.push(`message ${at} repeats the role`)
    if (alternating && items.length === 0) wrong.push(`message ${at} is empty`)
  })
  const groups = merged(turns)
  groups.forEach(({ role, items }, at) => {
    const calls = items.flatMap((item) => (item.kind === 'call' ? [item] : []))
    const answers = (groups[at + 1]?.items ?? []).flatMap((item) =>
      item.kind === 'result' ? [item] : [],
    )
    if (role === 'user') {
      const results = items.filter((item) => item.kind === 'result')
      const first = items.slice(0, results.length)
      if (results.some((item) => !first.includes(item)))
        wrong.push(`message ${at}: results not first`)
      if (calls.length > 0) wrong.push(`message ${at}: a user calls`)
      return
    }
    if (items.some((item) => item.kind === 'result')) wrong.push(`message ${at}: a model answers`)
    if (calls.length !== answers.length) {
      wrong.push(`message ${at}: ${calls.length} calls, ${answers.length} answers`)
    }
    const ids = calls.map((call) => call.id)
    if (new Set(ids).size !== ids.length && folder !== 'google')
      wrong.push(`message ${at}: ids repeat`)
    answers.forEach(({ id }, index) => {
      if (id !== (ids[index] ?? null))
        wrong.push(`message ${at}: the answer of \`${id}\` is misplaced`)
    })
  })
  const orphans = groups.filter(
    ({ items }, at) =>
      items.some((item) => item.kind === 'result') &&
      !groups[at - 1]?.items.some((item) => item.kind === 'call'),
  )
  if (orphans.length > 0) wrong.push('a result without its call')
  return wrong
}
