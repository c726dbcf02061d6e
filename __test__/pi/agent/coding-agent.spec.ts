// pi's own coding agent, of 0.54 and of 0.73, on this package's agent and calls: a conversation of thirty turns has the events, the messages and the file that
// it has on pi's own. It must never compare ids and times, which are chance, nor how much of an answer a snapshot of it had.

import { expect, test } from 'vitest'
import { folder } from '../../support/cleanup.js'
import { child } from '../../support/processes/child.js'

const IDS = new Set(['id', 'parentId', 'targetId', 'fromId', 'firstKeptEntryId'])

interface Conversation {
  events: any[]
  messages: any[]
  context: any[]
  file: any[]
  requests: string[]
}

/** A conversation with ids by their first use, and without times. */
function shapeOf(json: string): Conversation {
  const names = new Map<string, string>()
  const named = (id: string) => {
    if (!names.has(id)) names.set(id, `#${names.size}`)
    return names.get(id)
  }
  const read = JSON.parse(json, (key, part) => {
    if (['timestamp', 'responseId', 'cwd'].includes(key)) return undefined
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

async function conversation(module: string, semantics?: string): Promise<Conversation> {
  const alias = new URL('../../children/pi/alias.mjs', import.meta.url).href
  if (semantics !== undefined) process.env.PI_SEMANTICS = semantics
  const flags = semantics === undefined ? [] : ['--import', alias]
  const ended = await child('pi/coding-agent.mjs', [module, folder().path], flags)
  expect({ code: ended.code, err: ended.err }).toEqual({ code: 0, err: '' })
  return shapeOf(ended.out)
}

test.each([
  ['0.54', '@mariozechner/pi-coding-agent'],
  ['0.73', 'pi-coding-agent-073'],
])(
  'thirty turns with tools, steering, compactions, a branch and a restart (%s)',
  async (version, module) => {
    const theirs = await conversation(module)
    const ours = await conversation(module, version)
    expect(ours.file).toEqual(theirs.file)
    expect(ours.messages).toEqual(theirs.messages)
    expect(ours.context).toEqual(theirs.context)
    expect(ours.requests).toEqual(theirs.requests)
    expect(ours.events).toEqual(theirs.events)
    expect(theirs.file.length).toBeGreaterThan(90)
    const types = new Set(theirs.file.map(({ type }) => type))
    expect(types).toEqual(
      new Set([
        'session',
        'model_change',
        'thinking_level_change',
        'message',
        'compaction',
        'branch_summary',
      ]),
    )
  },
)
