// What a message is sent with: read once, and made the row that the native side stores. It must never store anything.

import type { Message, NexusRequest, Route, RoutingTarget } from '../../index.d.ts'
import { refusal } from '../values/errors.ts'
import { unknownField } from '../values/field-names.ts'
import { toJson } from '../values/json.ts'
import { type Fields, isObject, readFields, readName } from '../values/reader.ts'
import { withEvent } from './event.ts'
import { type ReadOptions, readMode } from './options.ts'
import type { Routed } from './routes.ts'

const CODE = 'invalid_options'
const FIELDS = [
  'to',
  'message',
  'source',
  'mode',
  'event',
  'eventId',
  'route',
  'identity',
  'permissions',
  'target',
  'outbox',
] satisfies (keyof NexusRequest)[]

/** The part of a request that is stored beside its message. */
interface StoredRequest {
  identity?: unknown
  permissions?: unknown
  target?: unknown
  /** Set where its turn has a delivery: the answers that are not delivered. */
  outbox?: { silent: readonly string[] } | undefined
  /** The messages before that of a task: those of the turn at which its session begins. */
  earlier?: Message[]
}

/** A request, read. */
interface ReadRequest {
  to: RoutingTarget
  message: Message
  /** Its text, for a smart route. */
  text: string
  source: string
  eventId: string | undefined
  stored: StoredRequest
  /** The row for the native side. */
  row(id: string, routed: Routed): string
}

/** `delivers` is whether the turn of a message has a delivery where the request does not say it. */
function readRequest(request: unknown, options: ReadOptions, delivers: boolean): ReadRequest {
  const fields = readFields(request, 'request', CODE)
  for (const name of Object.keys(fields)) {
    if (!(FIELDS as string[]).includes(name)) {
      throw refusal(CODE, name, unknownField(name, 'a request', FIELDS))
    }
  }
  const to = readFields(fields.to, 'to', 'invalid_target', 'to.') as RoutingTarget
  const given = readMessage(fields.message)
  const source = fields.source === undefined ? 'user' : readName(fields.source, 'source', CODE)
  const wanted = readMode(fields.mode, 'mode') ?? options.bySource[source] ?? options.mode
  const mode = wanted === 'steer' && options.steerInterrupts ? 'interrupt' : wanted
  const eventId =
    fields.eventId === undefined ? undefined : readName(fields.eventId, 'eventId', CODE)
  const { identity, permissions, target, outbox = delivers } = fields
  if (typeof outbox !== 'boolean') throw refusal(CODE, 'outbox', 'is not a boolean')
  const isDelivered = outbox && target !== undefined && target !== null
  const stored: StoredRequest = {
    identity,
    permissions,
    target,
    outbox: isDelivered ? { silent: options.silent } : undefined,
  }
  const message = withEvent(given, fields.event, to, eventId, options.timeZone)
  const requestJson = toJson(stored, 'request', () => CODE)
  const route = fields.route === undefined ? routeOf(to) : readRoute(fields.route)
  const messageJson = toJson(
    message,
    'message',
    () => CODE,
    (path) => path.startsWith('message'),
  )
  // Equal values have equal texts as far as their fields are in the same order.
  const principal = toJson({ identity, permissions }, 'request', () => CODE)
  return {
    to,
    message,
    text: textOf(given),
    source,
    eventId,
    stored,
    row: (id, { thread, sessionLabel }) =>
      JSON.stringify({
        id,
        ...(thread === undefined ? { session: sessionLabel } : { thread }),
        mode,
        source,
        route,
        principal,
        message: messageJson,
        request: requestJson,
        eventId,
      }),
  }
}

/** A text, or a user's message with `content`. */
function readMessage(given: unknown): Message {
  if (typeof given === 'string') {
    if (given.trim() === '') throw refusal(CODE, 'message', 'is empty; pass a text or an image')
    return { role: 'user', content: given }
  }
  if (!isObject(given)) throw refusal(CODE, 'message', 'is neither a text nor a message')
  const fields = readFields(given, 'message', CODE, 'message.')
  if (fields.role !== undefined && fields.role !== 'user') {
    throw refusal(CODE, 'message.role', 'cannot open a turn; pass `user`')
  }
  if (fields.content === undefined) throw refusal(CODE, 'message.content', 'is missing')
  return { ...fields, role: 'user' } as Message
}

function textOf(message: Message): string {
  const { content } = message as { content: unknown }
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return ''
  return content
    .flatMap((block: { text?: unknown }) => (typeof block?.text === 'string' ? block.text : []))
    .join('\n\n')
}

/** Where the event of a target came from. */
function routeOf({ event }: RoutingTarget): Route {
  if (event === undefined || event === null) return {}
  return defined({ channel: event.channel, account: event.accountId, thread: event.threadId })
}

function readRoute(given: unknown): Route {
  const route = readFields(given, 'route', CODE, 'route.')
  for (const [name, value] of Object.entries(route)) {
    if (!['channel', 'account', 'thread'].includes(name)) {
      throw refusal(CODE, `route.${name}`, 'is not one of channel, account, thread')
    }
    if (value !== undefined) readName(value, `route.${name}`, CODE)
  }
  return defined(route)
}

function defined(fields: Fields): Route {
  const given = Object.entries(fields).filter(([, value]) => value !== undefined && value !== null)
  return Object.fromEntries(given) as Route
}

export type { ReadRequest, StoredRequest }
export { readRequest }
