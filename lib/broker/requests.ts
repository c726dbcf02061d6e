// What a message is sent with: read once, and made the row that the native side stores. It must never store anything.

import type { Message, NexusRequest, Route, RoutingTarget } from '../../index.d.ts'
import { NativeEngine } from '../native/addon.ts'
import { SMALLEST } from '../run/smallest-context.ts'
import { refusal } from '../values/errors.ts'
import { unknownField } from '../values/field-names.ts'
import { toJson } from '../values/json.ts'
import { listing, noted, Problems, type Refuse, throwing } from '../values/problems.ts'
import { givenFields, isObject, readFields, readId, refuseLost } from '../values/reader.ts'
import { partsOf, withEvent } from './event.ts'
import { type ReadOptions, readMode } from './options.ts'
import { noteTarget, type Routed, refuseSmart, route } from './routes.ts'

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

/** The JSON of what a context has beside its message, without the brace before it. */
const { currentMessage: _, ...OTHERS } = SMALLEST
const BESIDE = JSON.stringify(OTHERS).slice(1)

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
  /** Where that is, without the host's smart route. */
  routed: Routed
  message: Message
  /** Its text, for a smart route. */
  text: string
  source: string
  eventId: string | undefined
  stored: StoredRequest
  /** The row for the native side. */
  row(id: string, routed: Routed): string
}

/**
 * A request; a refusal lists all of its problems. `delivers` is whether the turn of a message has a delivery where the request does not
 * say it.
 */
function readRequest(request: unknown, options: ReadOptions, delivers: boolean): ReadRequest {
  return listing(
    () => read(request, options, delivers, throwing),
    (problems) => {
      noteProblems(request, options, delivers, problems)
    },
  )
}

/** Notes all problems of a request. */
function noteProblems(
  request: unknown,
  options: ReadOptions,
  delivers: boolean,
  problems: Problems,
): void {
  read(request, options, delivers, problems.note)
  const { to } = request as { to?: RoutingTarget }
  if (isObject(to)) noteTarget(options, to as RoutingTarget, problems)
}

function read(
  request: unknown,
  options: ReadOptions,
  delivers: boolean,
  refuse: Refuse,
): ReadRequest {
  const fields = readFields(request, 'request', CODE)
  for (const name of Object.keys(fields)) {
    if ((FIELDS as string[]).includes(name)) continue
    refuse(refusal(CODE, name, unknownField(name, 'a request', FIELDS)))
  }
  const to = noted(refuse, () => readFields(fields.to, 'to', 'invalid_target', 'to.'), {})
  const routed = noted(refuse, () => routedTo(to as RoutingTarget, options), {})
  const empty: Message = { role: 'user', content: '' }
  const given = noted(refuse, () => readMessage(fields.message, refuse), empty)
  const name = (field: 'source' | 'eventId') =>
    fields[field] === undefined
      ? undefined
      : noted(refuse, () => readId(fields[field], field, CODE))
  const source = name('source') ?? 'user'
  const asked = noted(refuse, () => readMode(fields.mode, 'mode'))
  const wanted = asked ?? options.bySource[source] ?? options.mode
  const mode = wanted === 'steer' && options.steerInterrupts ? 'interrupt' : wanted
  const eventId = name('eventId')
  const { identity, permissions, target, outbox = delivers } = fields
  if (typeof outbox !== 'boolean') refuse(refusal(CODE, 'outbox', 'is not a boolean'))
  for (const [field, value] of Object.entries({ identity, permissions, target })) {
    noted(refuse, () => refuseLost(value, field, CODE))
  }
  const isDelivered = outbox === true && target !== undefined && target !== null
  const stored: StoredRequest = {
    identity,
    permissions,
    target,
    outbox: isDelivered ? { silent: options.silent } : undefined,
  }
  const { timeZone } = options
  const message = noted(
    refuse,
    () => withEvent(given, fields.event, to as RoutingTarget, eventId, timeZone, refuse),
    given,
  )
  const isBlank = (part: unknown) =>
    isObject(part) &&
    part.type === 'text' &&
    typeof part.text === 'string' &&
    part.text.trim() === ''
  if (given !== empty && partsOf(message).parts.every(isBlank)) {
    refuse(refusal(CODE, 'message.content', 'is empty; pass a text or an image'))
  }
  const origin = noted(
    refuse,
    () =>
      fields.route === undefined ? routeOf(to as RoutingTarget) : readRoute(fields.route, refuse),
    {},
  )
  // A schedule has the events of no channel: one of the host would stand for a due time.
  if (eventId?.startsWith('schedule:') && origin.channel === undefined) {
    refuse(refusal(CODE, 'eventId', 'is one of a schedule; pass another one, or `route.channel`'))
  }
  const requestJson = noted(refuse, () => toJson(stored, 'request', () => CODE), '{}')
  const messageJson = noted(
    refuse,
    () =>
      toJson(
        message,
        'message',
        () => CODE,
        (path) => path.startsWith('message'),
      ),
    '{}',
  )
  // Equal values have equal texts as far as their fields are in the same order.
  const principal = noted(
    refuse,
    () => toJson({ identity, permissions }, 'request', () => CODE),
    '{}',
  )
  return {
    to: to as RoutingTarget,
    routed,
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
        route: origin,
        principal,
        message: messageJson,
        request: requestJson,
        eventId,
      }),
  }
}

/** Where a target leads. A wrong one is refused whatever a smart route would answer. */
function routedTo({ smart, ...to }: RoutingTarget, options: ReadOptions): Routed {
  refuseSmart(smart)
  return route(options, to)
}

/** A text, or a user's message with `content`. */
function readMessage(given: unknown, refuse: Refuse): Message {
  if (typeof given === 'string') {
    if (given.trim() === '') throw refusal(CODE, 'message', 'is empty; pass a text or an image')
    return { role: 'user', content: given }
  }
  if (!isObject(given)) throw refusal(CODE, 'message', 'is neither a text nor a message')
  const fields = readFields(given, 'message', CODE, 'message.')
  if (fields.role !== undefined && fields.role !== 'user') {
    refuse(refusal(CODE, 'message.role', 'cannot open a turn; pass `user`'))
  }
  const { content, blocks } = fields
  if (content === undefined && blocks === undefined) {
    throw refusal(CODE, 'message.content', 'is missing')
  }
  const message = { ...fields, role: 'user' } as Message
  noteMessage(message, refuse)
  return message
}

/** Refuses what a run refuses in a message: each problem is noted at once, and not as that of its turn. */
function noteMessage(message: Message, refuse: Refuse): void {
  const given = toJson(
    { message },
    'message',
    () => CODE,
    () => true,
  )
  const found = new Problems()
  found.add(
    NativeEngine.fieldProblems(
      `{"currentMessage":${given.slice('{"message":'.length, -1)},${BESIDE}`,
    ),
  )
  for (const { path, message: why } of found.list) {
    refuse(refusal(CODE, path.replace(/^currentMessage/, 'message'), why))
  }
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
  return givenFields({
    channel: event.channel,
    account: event.accountId,
    thread: event.threadId,
  }) as Route
}

function readRoute(given: unknown, refuse: Refuse): Route {
  const route = readFields(given, 'route', CODE, 'route.')
  for (const [name, value] of Object.entries(route)) {
    if (!['channel', 'account', 'thread'].includes(name)) {
      refuse(refusal(CODE, `route.${name}`, 'is not one of channel, account, thread'))
    } else if (value !== undefined) {
      noted(refuse, () => readId(value, `route.${name}`, CODE))
    }
  }
  return givenFields(route) as Route
}

export type { ReadRequest, StoredRequest }
export { readRequest }
