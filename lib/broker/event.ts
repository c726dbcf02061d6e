// The event that a message came with, as a block of its own before the text of the author. It must never change that text.

import type { BlockOrigin, Message, RoutedEvent, RoutingTarget } from '../../index.d.ts'
import * as addon from '../native/addon.ts'
import { clip, guarded, refusal } from '../values/errors.ts'
import { toJson } from '../values/json.ts'
import type { Refuse } from '../values/problems.ts'
import { type Fields, isGiven, isObject, readFields, readNamed } from '../values/reader.ts'

const CODE = 'invalid_options'
/** The name of an attribute of a tag. */
const NAME = /^[A-Za-z][A-Za-z0-9_-]{0,63}$/

/** The text of a block that the host puts into a message. */
type Tagged = { type: 'text'; text: string; origin: BlockOrigin }

/** The message with the block of its event; the message itself where it came with none. */
function withEvent(
  message: Message,
  given: unknown,
  to: RoutingTarget,
  eventId: string | undefined,
  timeZone: string | undefined,
  refuse: Refuse,
): Message {
  if ((given === undefined || given === null) && !to.event) return message
  const { text = '', ...attributes } = isGiven(given)
    ? readFields(given, 'event', CODE, 'event.')
    : {}
  if (typeof text !== 'string') refuse(refusal(CODE, 'event.text', 'is not a string'))
  const all: Fields = {
    ...(to.event ? attributesOf(to.event) : {}),
    ...(eventId === undefined ? {} : { id: eventId }),
    ...attributes,
  }
  if (all.time === undefined) all.time = timeIn(timeZone, Date.now())
  const pairs: [string, string][] = []
  for (const [name, value] of Object.entries(all)) {
    if (value === undefined || value === null) continue
    const path = `event.${clip(name)}`
    if (!NAME.test(name) || name === 'nonce') {
      const why = 'is no name of an attribute: letters, digits, `_` and `-`, and not `nonce`'
      refuse(refusal(CODE, path, why))
    }
    if (!['string', 'number', 'boolean'].includes(typeof value)) {
      refuse(refusal(CODE, path, 'is neither a string, a number nor a boolean'))
    }
    pairs.push([name, String(value)])
  }
  return withBlocks(message, [tagged('event', pairs, typeof text === 'string' ? text : '')])
}

function attributesOf(event: RoutedEvent): Fields {
  const { channel, accountId, peer, guildId, threadId } = readNamed(
    event,
    ['channel', 'accountId', 'peer', 'guildId', 'threadId'],
    'to.event',
    'invalid_target',
  ) as RoutedEvent
  return {
    channel,
    account: accountId,
    peer: isObject(peer) ? `${peer.kind}:${peer.id}` : undefined,
    guild: guildId,
    thread: threadId,
  }
}

/** A text of the host in a tag that only this message has. */
function tagged(
  origin: BlockOrigin,
  attributes: readonly (readonly [string, string])[],
  text: string,
): Tagged {
  const nonce = Buffer.from(crypto.getRandomValues(new Uint8Array(8))).toString('hex')
  const args = toJson(
    { origin, nonce, attributes, text },
    'event',
    () => CODE,
    () => true,
  )
  return { type: 'text', text: guarded(() => addon.NativeEngine.contextTag(args)), origin }
}

/** The message with blocks before its own. */
function withBlocks(message: Message, blocks: readonly Tagged[]): Message {
  const { name, parts } = partsOf(message)
  return { ...message, [name]: [...blocks, ...parts] } as Message
}

/** The blocks of a message, and the name of the field that has them. */
function partsOf(message: Message): { name: 'blocks' | 'content'; parts: readonly Fields[] } {
  const { blocks, content } = message as { blocks?: unknown; content?: unknown }
  const name = Array.isArray(blocks) ? 'blocks' : 'content'
  const given = name === 'blocks' ? blocks : content
  const parts = Array.isArray(given) ? given : [{ type: 'text', text: given }]
  return { name, parts }
}

/** A time with the offset of a zone: `2026-11-23T06:45:12+01:00`. */
function timeIn(timeZone: string | undefined, at: number): string {
  const format = new Intl.DateTimeFormat('en-US-u-ca-gregory-nu-latn', {
    timeZone,
    year: 'numeric',
    month: '2-digit',
    day: '2-digit',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
    hourCycle: 'h23',
    timeZoneName: 'longOffset',
  })
  const found: Record<string, string> = {}
  for (const { type, value } of format.formatToParts(at)) found[type] = value
  const { year, month, day, hour, minute, second, timeZoneName = 'GMT' } = found
  const offset = timeZoneName.replace('GMT', '') || 'Z'
  return `${year}-${month}-${day}T${hour}:${minute}:${second}${offset}`
}

export type { Tagged }
export { partsOf, tagged, timeIn, withEvent }
