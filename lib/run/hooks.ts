// The caller's hooks of a run: `beforeToolCall` decides about a call, `afterToolCall` may replace a result, `stopWhen` ends the run,
// `prepareStep` changes its next call, and `planner` decides before its first.
// A throw of the gate must never let a tool run; a throw of the others must never fail a run.

import type {
  NextStep,
  PlanContext,
  PlanFunction,
  RunHooks,
  RunStep,
  ToolCallRequest,
} from '../../index.d.ts'
import { type Code, messageOf, refusal } from '../values/errors.ts'
import { noted, type Refuse } from '../values/problems.ts'
import { type Fields, isObject, readFields } from '../values/reader.ts'

const HOOKS = [
  'beforeToolCall',
  'afterToolCall',
  'stopWhen',
  'prepareStep',
] as const satisfies readonly (keyof RunHooks)[]

type Warn = (error: unknown) => void

/** The hooks, and the function of a planner. */
type OwnHooks = RunHooks & { plan?: PlanFunction }

/** Takes the hooks out of `fields`; the result has those that are there, each a function. Undefined where there is none. */
function takeHooks(fields: Fields, code: Code, refuse: Refuse): OwnHooks | undefined {
  let hooks: Fields | undefined
  if (fields.planner !== undefined && fields.planner !== null) {
    const plan = noted(refuse, () => takePlanner(fields, code))
    if (plan !== undefined) hooks = { plan }
  }
  for (const name of HOOKS) {
    const hook = fields[name]
    if (hook === undefined) continue
    // Not deleted: an object without one of its fields is slow to read.
    fields[name] = undefined
    if (hook === null) continue
    if (typeof hook !== 'function') {
      refuse(refusal(code, name, 'is not a function'))
      continue
    }
    hooks ??= {}
    hooks[name] = hook
  }
  return hooks
}

/**
 * Replaces the `planner` of `fields` by what the native side reads: `{ plan, keywords, replan }`. Returns its function, where it has one.
 */
function takePlanner(fields: Fields, code: Code): PlanFunction | undefined {
  const { planner } = fields
  fields.planner = undefined
  const given = isObject(planner) ? readFields(planner, 'planner', code) : { plan: planner }
  const { plan } = given
  if (typeof plan === 'function') {
    fields.planner = { ...given, plan: 'function' }
    return plan as PlanFunction
  }
  if (plan !== 'heuristic') {
    const path = isObject(planner) ? 'planner.plan' : 'planner'
    throw refusal(code, path, "is neither 'heuristic' nor a function that returns a plan")
  }
  fields.planner = given
  return undefined
}

/** The decision of `beforeToolCall` as JSON for the native side. Never rejects: whatever is no decision is a deny. */
async function decide(hook: RunHooks['beforeToolCall'], call: ToolCallRequest): Promise<string> {
  const { toolName } = call
  const deny = (reason: string) => JSON.stringify({ decision: { deny: reason } })
  try {
    const verdict: unknown = await hook?.(call)
    if (verdict === 'allow') return '{"decision":"allow"}'
    if (verdict === 'ask') return '{"decision":{"ask":{}}}'
    if (verdict === 'deny') return deny(`The call of \`${toolName}\` was denied.`)
    if (typeof verdict === 'object' && verdict !== null) {
      const { deny: reason, params, ask, ...others } = verdict as Fields
      if (ask === true) {
        const asked = asking(params, { ...others, reason })
        if (asked !== undefined) return asked
      }
      const isAlone = ask === undefined && Object.keys(others).length === 0
      if (isAlone && typeof reason === 'string' && params === undefined) return deny(reason)
      if (isAlone && params !== undefined && reason === undefined) {
        const json: string | undefined = JSON.stringify(params)
        if (json !== undefined) return JSON.stringify({ decision: { params: json } })
      }
    }
    return deny(
      `The call of \`${toolName}\` was denied: its gate returned none of 'allow', 'deny', 'ask', { deny: reason }, { params } and { ask: true }.`,
    )
  } catch (error) {
    return deny(
      `The call of \`${toolName}\` was denied: its gate failed: ${messageOf(error, 'it')}`,
    )
  }
}

/** `{ ask: true }` and its fields as JSON; undefined where one is wrong. */
function asking(params: unknown, others: Fields): string | undefined {
  const { question, expiresMs, ...unknown } = others
  if (Object.values(unknown).some((value) => value !== undefined)) return undefined
  if (question !== undefined && typeof question !== 'string') return undefined
  const isTime = Number.isSafeInteger(expiresMs) && (expiresMs as number) > 0
  if (expiresMs !== undefined && !isTime) return undefined
  const json: string | undefined = params === undefined ? undefined : JSON.stringify(params)
  if (params !== undefined && json === undefined) return undefined
  return JSON.stringify({ decision: { ask: { params: json, question, expiresMs } } })
}

/** What the model reads instead of `value`, or `value`. A throw is a warning. */
async function afterCall(
  hook: RunHooks['afterToolCall'],
  call: ToolCallRequest,
  value: unknown,
  warn: Warn,
): Promise<unknown> {
  if (hook === undefined) return value
  try {
    const changed = await hook(call, value)
    return changed === undefined ? value : changed
  } catch (error) {
    warn(error)
    return value
  }
}

/** The answer of `stopWhen` as JSON for the native side. Never rejects: a throw is a warning, and the run goes on. */
async function stops(hook: RunHooks['stopWhen'], step: RunStep, warn: Warn): Promise<string> {
  let stop = false
  try {
    stop = (await hook?.(step)) === true
  } catch (error) {
    warn(error)
  }
  return JSON.stringify({ decision: { stop } })
}

/** What `prepareStep` changes as JSON for the native side. Never rejects: a throw is a warning, and nothing is changed. */
async function prepares(
  hook: RunHooks['prepareStep'],
  step: NextStep,
  warn: Warn,
): Promise<string> {
  let plan: string | undefined
  try {
    const changes = await hook?.(step)
    if (changes !== undefined && changes !== null) plan = JSON.stringify(changes)
  } catch (error) {
    warn(error)
  }
  return JSON.stringify({ decision: { prepare: plan ?? null } })
}

/** The plan of the planner's function as JSON for the native side. Never rejects: a throw is a warning, and the model is called. */
async function plans(
  hook: PlanFunction | undefined,
  context: PlanContext,
  warn: Warn,
): Promise<string> {
  let plan: string | undefined
  try {
    const given: unknown = await hook?.(context)
    if (given !== undefined && given !== null) plan = JSON.stringify(given)
  } catch (error) {
    warn(error)
  }
  return JSON.stringify({ decision: { plan: plan ?? null } })
}

export type { OwnHooks }
export { afterCall, decide, plans, prepares, stops, takeHooks }
