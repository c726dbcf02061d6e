// The error class of the package, and its construction from errors of the native side.
// It must never carry a value of the caller beyond a short name.

import type { AgentEngineErrorCode, AgentEngineIssue, AgentError } from '../../index.d.ts'
import { boundedJson } from './bounded-json.ts'
import { suggested } from './field-names.ts'

/** The longest message of a caller's error that is passed on. */
const MAX_MESSAGE = 65536
/** The maximum length of a quoted text of the caller; a message quotes two at most. */
const MAX_QUOTED = 100
/** The maximum length of a path. */
const MAX_FIELD = 200
/** The maximum length of a message of the engine, lists of names included. */
const MAX_OWN = 4000
/** Every code has its anchor on this page of the package. */
const PAGE = 'docs/guide/errors.md'

type Code = AgentEngineErrorCode

/** An error in the form of the native side. */
interface NativeError {
  code: Code
  message: string
  field?: string | null
  error?: AgentError | null
}

/** A call was refused before anything was written or sent, or the ledger failed. `code` is stable. */
class AgentEngineError extends Error {
  override readonly name = 'AgentEngineError'
  declare readonly code: Code
  declare readonly path?: string
  declare readonly field?: string
  declare readonly error?: AgentError
  readonly issues: readonly AgentEngineIssue[]

  constructor(
    code: Code,
    message: string,
    field?: string | null,
    error?: AgentError | null,
    issues: readonly AgentEngineIssue[] = issuesOf(message, field),
  ) {
    const anchor = anchorOf(code)
    super(clip(message, MAX_OWN - anchor.length) + anchor)
    this.code = code
    if (field !== undefined && field !== null) {
      this.path = field
      this.field = field
    }
    if (error !== undefined && error !== null) this.error = error
    this.issues = issues
  }
}

/** Where the code is explained, as a message ends. */
function anchorOf(code: Code): string {
  return ` (${PAGE}#${code})`
}

/** The message of an error without its anchor, as a part of another message. */
function ownText({ message, code }: AgentEngineError): string {
  const anchor = anchorOf(code)
  return message.endsWith(anchor) ? message.slice(0, -anchor.length) : message
}

/** The only problem of an error, where it is one of a value. */
function issuesOf(message: string, field: string | null | undefined): AgentEngineIssue[] {
  if (field === undefined || field === null) return []
  const own = message.startsWith('`') ? message.replace(/^`[^`]*`: /, '') : message
  return [{ path: field, message: clip(own, MAX_OWN) }]
}

/** At most `most` characters of a text, cut on a character boundary and marked. */
function clip(text: string, most = MAX_QUOTED): string {
  if (text.length <= most) return text
  const last = text.charCodeAt(most - 2)
  const half = last >= 0xd800 && last <= 0xdbff
  return `${text.slice(0, half ? most - 2 : most - 1)}…`
}

/** A text of the caller in backticks: shortened, and without backticks. */
function quote(text: string): string {
  return `\`${clip(text).replaceAll('`', "'").toWellFormed()}\``
}

/** A refusal of the value at `path`. */
function refusal(code: Code, path: string, why: string): AgentEngineError {
  const field = clip(path, MAX_FIELD).toWellFormed()
  return new AgentEngineError(code, `${quote(path)}: ${why}`, field)
}

/** The message of a thrown value, at most 65,536 characters; without one, a sentence about `who`. Never throws. */
function messageOf(error: unknown, who: string): string {
  try {
    const message = readMessage(error)
    return message === '' ? `${who} failed without a message` : message.slice(0, MAX_MESSAGE)
  } catch {
    return `${who} failed with an error that cannot be read`
  }
}

function readMessage(error: unknown): string {
  if (error === undefined || error === null) return ''
  const { message } = error as { message?: unknown }
  if (typeof message === 'string') return message
  if (typeof error === 'object' && !(error instanceof Error)) {
    return boundedJson(error, MAX_MESSAGE).json ?? ''
  }
  return String(error)
}

/** Converts an error of the native side (JSON in its message) to an AgentEngineError. */
function fromNative(error: unknown): AgentEngineError {
  if (error instanceof AgentEngineError) return error
  try {
    const parsed: NativeError = JSON.parse((error as Error).message)
    return new AgentEngineError(parsed.code, suggested(parsed.message), parsed.field, parsed.error)
  } catch {
    return new AgentEngineError('internal', messageOf(error, 'the native side'))
  }
}

/** Calls the native side; a throw becomes an AgentEngineError with the caller's stack. */
function guarded<Value>(call: () => Value): Value {
  try {
    return call()
  } catch (error) {
    const typed = fromNative(error)
    Error.captureStackTrace?.(typed, guarded)
    throw typed
  }
}

export type { Code, NativeError }
export { AgentEngineError, clip, fromNative, guarded, messageOf, ownText, refusal }
