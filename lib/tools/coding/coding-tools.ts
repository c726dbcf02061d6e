// `createCodingTools()`: tools in pi's shape over a workspace of the native side. It must never open a file itself, or leave a
// listener on a caller's signal.

import { tmpdir } from 'node:os'
import { resolve } from 'node:path'
import type { NativeWorkspace } from '../../../binding.d.ts'
import type {
  CodingTool,
  CodingToolResult,
  CodingToolsOptions,
  Reconciled,
} from '../../../index.d.ts'
import * as addon from '../../native/addon.ts'
import * as hub from '../../native/hub.ts'
import { clip, guarded, messageOf, refusal } from '../../values/errors.ts'
import { toJson } from '../../values/json.ts'
import { readList, readNamed } from '../../values/reader.ts'
import { isAborted, listen, readSignal, unlisten } from '../../values/signals.ts'
import { type CodingToolName, definitions } from './definitions.ts'
import { mark } from './native.ts'

const CODE = 'invalid_options'
const ABORTED = 'Operation aborted'
const OPTIONS = ['readRoots', 'protect', 'tools', 'bash'] as const
const BASH = ['sandbox', 'network', 'timeoutMs', 'env', 'background', 'limits'] as const
const LIMITS = ['cpuSeconds', 'fileBytes', 'memoryBytes', 'openFiles', 'processes'] as const
const SANDBOXES = ['preferred', 'required', 'off'] as const
const BACKGROUNDS = ['end', 'keep'] as const
/** What a shell has of the environment of the process. */
const VARIABLES = ['PATH', 'HOME', 'LANG', 'TERM', 'TZ'] as const
/** The time of a command that names none. */
const TIMEOUT_MS = 600_000

/** An answer of the native side: a value, or what the model is to read. */
type Answer<Value> = Value & { error?: string }

/** The tools of a workspace. Its directories are opened here, and closed when no tool is referenced any more. */
function createCodingTools(workspace: string, options: CodingToolsOptions = {}): CodingTool[] {
  const given = readNamed(options, OPTIONS, 'options', CODE, 'options.')
  refuseUnknown(options, OPTIONS, 'options')
  const names = toolNames(given.tools)
  const json = toJson(
    {
      workspace: path(workspace, 'workspace'),
      readRoots: paths(given.readRoots, 'readRoots'),
      protect: paths(given.protect, 'protect'),
      shell: names.includes('bash') ? shell(given.bash) : undefined,
      temporary: resolve(tmpdir()),
    },
    'options',
    () => CODE,
  )
  const native = guarded(() => new addon.NativeWorkspace(json))
  return names.map((name) => codingTool(native, name))
}

function codingTool(native: NativeWorkspace, name: CodingToolName): CodingTool {
  const { description, parameters, executionMode, replay } = definitions[name]
  const tool: CodingTool = {
    name,
    label: name,
    description,
    // A copy: a host may change what it was given.
    parameters: structuredClone(parameters) as object,
    executionMode,
    replay,
    async execute(_toolCallId, params, signal, onUpdate) {
      const updates = typeof onUpdate === 'function' ? receiver(onUpdate) : undefined
      let request = 0
      const send = (id: number, json: string) => {
        request = id
        if (updates !== undefined) hub.addUpdates(id, updates)
        native.call(hub.nativeHub(), id, name, json, updates !== undefined)
      }
      try {
        // A command that is aborted has its own last words, when nothing of it is left.
        const result = await call<CodingToolResult>(native, params, signal, send, name !== 'bash')
        return { content: result.content, details: result.details }
      } finally {
        hub.removeUpdates(request)
      }
    },
  }
  mark(tool.execute, { workspace: native, name })
  if (replay === 'reconcilable') {
    tool.reconcile = async (_key, params, info): Promise<Reconciled> => {
      type Outcome = { outcome: Reconciled['outcome'] } & CodingToolResult
      const { outcome, content } = await call<Outcome>(native, params, info?.signal, (id, json) =>
        native.outcome(hub.nativeHub(), id, name, json),
      )
      if (outcome !== 'done') return { outcome }
      return { outcome, result: { content, details: undefined } }
    }
  }
  return tool
}

/** Calls the caller's `onUpdate`. A throw becomes a process warning, once per call, and affects nothing else. */
function receiver(onUpdate: (partial: CodingToolResult) => unknown): (update: unknown) => void {
  let warned = false
  const warn = (error: unknown) => {
    if (warned) return
    warned = true
    process.emitWarning(`\`onUpdate\` of a coding tool threw: ${clip(messageOf(error, 'it'))}`, {
      code: 'AGENT_ENGINE_CALLBACK',
    })
  }
  return (update) => {
    try {
      const returned = onUpdate(update as CodingToolResult) as PromiseLike<unknown> | undefined
      if (typeof returned?.then === 'function') returned.then(undefined, warn)
    } catch (error) {
      warn(error)
    }
  }
}

/** Sends a call; when the signal is aborted it rejects, at once with the sentence of pi's tools, or with the call's answer. */
async function call<Value>(
  native: NativeWorkspace,
  params: unknown,
  given: AbortSignal | undefined,
  send: (id: number, json: string) => void,
  atOnce = true,
): Promise<Value> {
  const signal = readSignal(given, 'signal', CODE)
  if (signal !== undefined && isAborted(signal, 'signal', CODE)) throw new Error(ABORTED)
  const json = toJson(params ?? {}, 'params', () => CODE)
  let stopListening = () => {}
  try {
    const answer = await new Promise<Answer<Value>>((resolve, reject) => {
      const sent = hub.request<Answer<Value>>((id) => {
        const target = {
          abort() {
            native.cancel(id)
            if (atOnce) reject(new Error(ABORTED))
          },
        }
        if (signal !== undefined) {
          listen(signal, target, 'signal', CODE)
          stopListening = () => unlisten(signal, target)
        }
        send(id, json)
      })
      sent.then(resolve, reject)
    })
    if (answer.error !== undefined) throw new Error(answer.error)
    return answer
  } finally {
    stopListening()
  }
}

/** The options of `bash` for the native side, with what a shell gets of the environment. */
function shell(given: unknown): Record<string, unknown> {
  const options = given ?? {}
  if (typeof options !== 'object') throw refusal(CODE, 'options.bash', 'is not an object')
  const fields = readNamed(options, BASH, 'options.bash', CODE, 'options.bash.')
  refuseUnknown(options, BASH, 'options.bash')
  const { network = false, timeoutMs = TIMEOUT_MS, env } = fields
  if (typeof network !== 'boolean') {
    throw refusal(CODE, 'options.bash.network', 'is not true or false')
  }
  if (!Number.isSafeInteger(timeoutMs) || Number(timeoutMs) < 1) {
    throw refusal(CODE, 'options.bash.timeoutMs', 'is not a whole number of milliseconds above 0')
  }
  const environment: Record<string, string> = {}
  for (const name of VARIABLES) {
    const value = process.env[name]
    if (value !== undefined) environment[name] = value
  }
  const named = variables(env)
  for (const [name, value] of Object.entries(named)) environment[name] = value
  return {
    sandbox: oneOf(fields.sandbox, SANDBOXES, 'options.bash.sandbox'),
    background: oneOf(fields.background, BACKGROUNDS, 'options.bash.background'),
    network,
    timeoutMs,
    environment,
    ownHome: named.HOME === undefined,
    limits: limits(fields.limits),
  }
}

/** What each process of a command may use. */
function limits(given: unknown): Record<string, number> {
  if (given === undefined || given === null) return {}
  const field = 'options.bash.limits'
  if (typeof given !== 'object') throw refusal(CODE, field, 'is not an object')
  const fields = readNamed(given, LIMITS, field, CODE, `${field}.`)
  refuseUnknown(given, LIMITS, field)
  const checked: Record<string, number> = {}
  for (const [name, value] of Object.entries(fields)) {
    if (value === undefined) continue
    if (!Number.isSafeInteger(value) || Number(value) < 1) {
      throw refusal(CODE, `${field}.${name}`, 'is not a whole number above 0')
    }
    checked[name] = Number(value)
  }
  return checked
}

function variables(given: unknown): Record<string, string> {
  if (given === undefined || given === null) return {}
  const field = 'options.bash.env'
  if (typeof given !== 'object' || Array.isArray(given)) {
    throw refusal(CODE, field, 'is not an object of variables')
  }
  for (const [name, value] of Object.entries(given)) {
    if (typeof value !== 'string' || value.includes('\0')) {
      throw refusal(CODE, `${field}.${name}`, 'is not a string without NUL characters')
    }
    if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) {
      throw refusal(CODE, `${field}.${name}`, 'is not the name of a variable')
    }
  }
  return given as Record<string, string>
}

/** The value, or the first of the allowed ones where it is absent. */
function oneOf(given: unknown, allowed: readonly [string, ...string[]], field: string): string {
  if (given === undefined || given === null) return allowed[0]
  if (allowed.includes(given as string)) return given as string
  throw refusal(CODE, field, `is not one of ${allowed.join(', ')}`)
}

function refuseUnknown(given: object, known: readonly string[], path: string): void {
  for (const name of Object.keys(given)) {
    if (!known.includes(name)) {
      throw refusal(CODE, `${path}.${name}`, `is unknown; known are ${known.join(', ')}`)
    }
  }
}

function toolNames(given: unknown): CodingToolName[] {
  const all = Object.keys(definitions) as CodingToolName[]
  if (given === undefined || given === null) return all
  const names = readList(given, 'options.tools', CODE)
  if (names === undefined) throw refusal(CODE, 'options.tools', 'is not an array of names')
  names.forEach((name, index) => {
    if (all.includes(name as CodingToolName)) return
    throw refusal(CODE, `options.tools[${index}]`, `is not one of ${all.join(', ')}`)
  })
  return all.filter((name) => names.includes(name))
}

function paths(given: unknown, field: string): string[] {
  if (given === undefined || given === null) return []
  const list = readList(given, `options.${field}`, CODE)
  if (list === undefined) throw refusal(CODE, `options.${field}`, 'is not an array of paths')
  return list.map((each, index) => path(each, `options.${field}[${index}]`))
}

function path(given: unknown, field: string): string {
  if (typeof given !== 'string' || given === '') {
    throw refusal(CODE, field, 'is not a path')
  }
  return resolve(given)
}

export { createCodingTools }
