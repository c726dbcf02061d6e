// `createCodingTools()`: tools in pi's shape over a workspace of the native side. It must never open a file itself, or leave a
// listener on a caller's signal.

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
import { guarded, refusal } from '../../values/errors.ts'
import { toJson } from '../../values/json.ts'
import { readList, readNamed } from '../../values/reader.ts'
import { isAborted, listen, readSignal, unlisten } from '../../values/signals.ts'
import { type CodingToolName, definitions } from './definitions.ts'

const CODE = 'invalid_options'
const ABORTED = 'Operation aborted'
const OPTIONS = ['readRoots', 'protect', 'tools'] as const

/** An answer of the native side: a value, or what the model is to read. */
type Answer<Value> = Value & { error?: string }

/** The tools of a workspace. Its directories are opened here, and closed when no tool is referenced any more. */
function createCodingTools(workspace: string, options: CodingToolsOptions = {}): CodingTool[] {
  const given = readNamed(options, OPTIONS, 'options', CODE, 'options.')
  for (const name of Object.keys(options)) {
    if (!(OPTIONS as readonly string[]).includes(name)) {
      throw refusal(CODE, `options.${name}`, `is unknown; known are ${OPTIONS.join(', ')}`)
    }
  }
  const names = toolNames(given.tools)
  const json = toJson(
    {
      workspace: path(workspace, 'workspace'),
      readRoots: paths(given.readRoots, 'readRoots'),
      protect: paths(given.protect, 'protect'),
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
    async execute(_toolCallId, params, signal) {
      const result = await call<CodingToolResult>(native, params, signal, (id, json) =>
        native.call(hub.nativeHub(), id, name, json),
      )
      return { content: result.content, details: result.details }
    },
  }
  if (replay === 'reconcilable') {
    tool.reconcile = async (_key, params, info): Promise<Reconciled> => {
      const { outcome } = await call<{ outcome: Reconciled['outcome'] }>(
        native,
        params,
        info?.signal,
        (id, json) => native.outcome(hub.nativeHub(), id, name, json),
      )
      if (outcome !== 'done') return { outcome }
      const text =
        name === 'edit' ? `Successfully replaced text in ${params.path}.` : 'The patch was applied.'
      return { outcome, result: { content: [{ type: 'text', text }], details: undefined } }
    }
  }
  return tool
}

/** Sends a call; rejects at once when the signal is aborted, with the sentence of pi's tools. */
async function call<Value>(
  native: NativeWorkspace,
  params: unknown,
  given: AbortSignal | undefined,
  send: (id: number, json: string) => void,
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
            reject(new Error(ABORTED))
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
