// Where a message goes: its target, or the answer of the host's smart route. The native side decides; a host that is silent or
// throws must never lose the message.

import type { AgentEngine, RoutingTarget, SmartFallback, SmartRoute } from '../../index.d.ts'
import * as addon from '../native/addon.ts'
import { guarded, refusal } from '../values/errors.ts'
import { toJson } from '../values/json.ts'
import { noted, type Problems } from '../values/problems.ts'
import { isObject, readNamed } from '../values/reader.ts'
import type { ReadOptions } from './options.ts'

const CODE = 'invalid_target'
/** How long a smart route may take, in milliseconds. */
const SILENCE = 2_000
const TARGETS = ['thread', 'session', 'persona'] as const

/** Where a message goes. A thread's session is found when the message is stored. */
interface Routed {
  thread?: string
  sessionLabel?: string
  agentId?: string
  smartFallback?: SmartFallback
}

/** What a smart route gave, for the native side. */
interface Smart {
  answer?: SmartRoute | null
  failed?: SmartFallback
  exists?: boolean
  confidence?: number | undefined
}

/** Notes all problems of a target. */
function noteTarget(options: ReadOptions, given: RoutingTarget, problems: Problems): void {
  const { smart, ...to } = given
  noted(problems.note, () => refuseSmart(smart))
  const args = withRoutes(
    options,
    toJson({ to }, 'to', () => CODE),
  )
  problems.add(addon.NativeEngine.routeProblems(args))
}

/** The JSON of an object, with what routes depend on as its field `config`. */
function withRoutes({ routes }: ReadOptions, json: string): string {
  return `{"config":${routes},${json.slice(1)}`
}

function refuseSmart(smart: unknown): void {
  if (smart === undefined || typeof smart === 'boolean') return
  throw refusal(CODE, 'to.smart', 'is not true or false')
}

/** The session and the agent of a target. */
function route(options: ReadOptions, to: RoutingTarget, smart?: Smart): Routed {
  const args = withRoutes(
    options,
    toJson({ to, smart }, 'to', () => CODE),
  )
  return JSON.parse(guarded(() => addon.NativeEngine.resolveRoute(args)))
}

/** Where a request leads: what the host's smart route answers where its target has `smart: true`, else `routed`. */
async function smartRoute(
  engine: AgentEngine,
  options: ReadOptions,
  { to, routed, text }: { to: RoutingTarget; routed: Routed; text: string },
): Promise<Routed> {
  const { smart, ...target } = to
  if (smart !== true || options.smartRoute === undefined) return routed
  const asked = await ask(options.smartRoute, { message: text, target })
  const exists = asked.answer ? await isThere(engine, options, asked.answer) : false
  return route(options, target, { ...asked, exists, confidence: options.confidence })
}

async function ask(
  decide: NonNullable<ReadOptions['smartRoute']>,
  query: { message: string; target: RoutingTarget },
): Promise<Smart> {
  let timer: NodeJS.Timeout | undefined
  const silence = new Promise<Smart>((resolve) => {
    timer = setTimeout(() => resolve({ failed: 'timeout' }), SILENCE)
  })
  const answering = (async (): Promise<Smart> => {
    try {
      const given = await decide(query)
      if (given === undefined || given === null) return { answer: null }
      if (!isObject(given)) return { failed: 'invalid' }
      const answer = readNamed(given, [...TARGETS, 'confidence'], 'smartRoute', CODE)
      // What is no target or no number is invalid, as two targets are.
      const isRead =
        Number.isFinite(answer.confidence) &&
        TARGETS.every((name) => answer[name] == null || typeof answer[name] === 'string')
      return isRead ? { answer: answer as unknown as SmartRoute } : { failed: 'invalid' }
    } catch {
      return { failed: 'threw' }
    }
  })()
  try {
    return await Promise.race([answering, silence])
  } finally {
    clearTimeout(timer)
  }
}

/** Whether the ledger, or the configuration, has what an answer names. */
async function isThere(
  engine: AgentEngine,
  { config }: ReadOptions,
  { thread, session, persona }: SmartRoute,
): Promise<boolean> {
  if (thread) return (await engine.ledger.turn(thread)) !== null
  if (session) return (await engine.ledger.session(session)) !== null
  return persona !== undefined && Object.hasOwn(config.personas ?? {}, persona)
}

export type { Routed }
export { noteTarget, refuseSmart, route, smartRoute }
