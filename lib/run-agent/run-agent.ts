// `runAgent`: one message of a session, with the tools of a workspace, to its reply. It must never run what the config does not say.

import type { AgentResult, AgentRun, CodingTool, RunOptions } from '../../index.d.ts'
import { createCodingTools } from '../../index.js'
import type {
  RunAgentError,
  RunAgentEvent,
  RunAgentParams,
  RunAgentResult,
} from '../../run-agent.d.ts'
import { type Agent, withAgent } from './agents.ts'
import { refusal } from './config/problems.ts'
import { readSettings, type Settings } from './config/settings.ts'
import { EventTranslator } from './events/translate.ts'
import { systemPrompt, userMessage } from './prompt/system-prompt.ts'
import { importTranscript } from './transcripts.ts'
import { usageOf } from './usage.ts'
import { ensureDirectories } from './workspace.ts'

/** A run of `runAgent` that has failed, with `throwOnError`. */
class RunAgentFailure extends Error {
  override readonly name = 'RunAgentFailure'
  readonly kind: RunAgentError['kind']
  readonly result: RunAgentResult

  constructor(error: RunAgentError, result: RunAgentResult) {
    super(error.message)
    this.kind = error.kind
    this.result = result
  }
}

/** Runs a message of a session, and resolves with the reply. */
async function runAgent(params: RunAgentParams): Promise<RunAgentResult> {
  const { sessionKey, userMessage: text, config, signal, onEvent, stateDir } = params
  checkParams(params)
  const settings = readSettings(config, stateDir, process.env)
  ensureDirectories(settings.paths, settings.workspace)
  const result = await withAgent(settings, async (agent) => {
    await importTranscript(agent.engine.ledger, settings.paths.sessions, sessionKey)
    const run = startTurn(agent, settings, sessionKey, text, {
      signal,
      events: onEvent === undefined ? 'core' : { toolInput: true },
    })
    if (onEvent !== undefined) deliver(run, agent, settings, onEvent)
    return resultOf(await run.result, agent)
  })
  if (params.throwOnError !== true || result.error === undefined) return result
  if (signal?.aborted && result.stopReason === 'aborted') throw signal.reason
  throw new RunAgentFailure(result.error, result)
}

/** Starts the turn of a message. Its tools work in the settings' workspace. */
function startTurn(
  { engine }: Agent,
  settings: Settings,
  sessionKey: string,
  text: string,
  options: Pick<RunOptions, 'signal' | 'events'>,
): AgentRun {
  const { workspace, maxResponseTokens, temperature, thinkingConfig, timeoutMs } = settings
  const tools = codingTools(settings)
  return engine.run(userMessage(text, new Date()), {
    session: sessionKey,
    provider: settings.provider,
    model: settings.model,
    systemPrompt: systemPrompt({ identity: settings.identity, workspace, tools, sessionKey }),
    tools,
    toolsetName: 'coding',
    workspacePath: workspace,
    maxIterations: settings.maxIterations,
    policy: { maxResultChars: settings.maxToolResultChars },
    ...(timeoutMs !== undefined && { timeoutMs }),
    ...(maxResponseTokens !== undefined && { maxResponseTokens }),
    ...(temperature !== undefined && { temperature }),
    ...(thinkingConfig !== undefined && { thinkingConfig }),
    ...options,
  })
}

/** The tools of the settings, in their workspace. */
function codingTools({ workspace, tools, bash, readRoots, paths }: Settings): CodingTool[] {
  // Where there are none, nothing is opened: that works on every system.
  if (tools.length === 0) return []
  const protect = [paths.ledger, paths.config]
  return createCodingTools(workspace, { tools, bash, readRoots, protect })
}

/** Calls `onEvent` with what the run streams. A throw in it is a process warning of the engine. */
function deliver(
  run: AgentRun,
  agent: Agent,
  { provider, model }: Settings,
  onEvent: (event: RunAgentEvent) => void,
): void {
  const translator = new EventTranslator(provider, model, agent.model)
  run.stream.onEvent((event) => {
    for (const each of translator.next(event)) onEvent(each)
  })
}

function resultOf(result: AgentResult, agent: Agent): RunAgentResult {
  const { turnId, stopReason, text, messages } = result
  const calls = result.attempts.filter(({ purpose }) => purpose === undefined)
  const last = calls.findLast(({ usage }) => usage !== undefined)
  const error = errorOf(result)
  return {
    reply: text,
    usage: usageOf(calls, agent.model),
    lastCallUsage: usageOf(last === undefined ? [] : [last], agent.model),
    iterations: messages.filter(({ role }) => role === 'assistant').length,
    maxIterationsReached: stopReason === 'tool_use',
    stopReason,
    turnId,
    ...(error !== undefined && { error }),
  }
}

function errorOf({ error, stopReason }: AgentResult): RunAgentError | undefined {
  if (error !== undefined) return error
  if (stopReason !== 'aborted') return undefined
  return { kind: 'aborted', message: 'the run was aborted', retryable: false }
}

function checkParams(params: RunAgentParams): void {
  const { sessionKey, userMessage, onEvent } = params
  const issues = [
    ...(typeof sessionKey === 'string' && sessionKey !== ''
      ? []
      : [{ path: 'sessionKey', message: 'is not the key of a session' }]),
    ...(typeof userMessage === 'string' && userMessage !== ''
      ? []
      : [{ path: 'userMessage', message: 'is not a text with at least one character' }]),
    ...(onEvent === undefined || typeof onEvent === 'function'
      ? []
      : [{ path: 'onEvent', message: 'is not a function' }]),
  ]
  const [first, ...others] = issues
  if (first !== undefined) throw refusal('invalid_options', [first, ...others])
}

export { codingTools, RunAgentFailure, runAgent, startTurn }
