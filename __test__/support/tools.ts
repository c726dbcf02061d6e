// Runs tools with a scripted provider: its input is the model's calls, its output the results that the model receives. It must never
// read internal state of the engine: everything is read from results, events and requests.

import type {
  AgentEngineOptions,
  AgentResult,
  AgentTool,
  AgentToolCall,
  AssembledContext,
  Block,
  PlainTool,
  ScriptedCall,
  ScriptedReply,
  StreamEvent,
} from '../../index.js'
import { context, readAll, scriptedEngine } from './engine.js'

/** The result of one call as the model receives it. */
export interface SentToolResult {
  toolCallId: string
  toolName: string
  content: Block[]
  isError: boolean
}

export interface ToolRun {
  result: AgentResult
  events: StreamEvent[]
  /** Calls of the model. */
  requests: number
  /** The tool results of the last request, in its order. */
  toolResults: SentToolResult[]
}

/** The reply of a model that calls tools: `[name, arguments]` each. */
export function callTools(...calls: [name: string, args?: unknown][]): ScriptedReply {
  return { toolCalls: calls.map(([name, args]): ScriptedCall => ({ name, arguments: args ?? {} })) }
}

/** Runs `replies`, and then a reply `done`. */
export async function runTools(
  tools: AgentTool[],
  replies: ScriptedReply[],
  changes: Partial<AssembledContext> = {},
  options: AgentEngineOptions = {},
): Promise<ToolRun> {
  const { engine, provider } = scriptedEngine([...replies, 'done'], options)
  const run = engine.run(context({ tools, ...changes }))
  const events = await readAll(run)
  const result = await run.result
  const requests = provider.requests
  await engine.close()
  return {
    result,
    events,
    requests: requests.length,
    toolResults: toolResultsIn(requests.at(-1)?.messages ?? []),
  }
}

/** The tool results among the messages of a request. */
export function toolResultsIn(messages: readonly unknown[]): SentToolResult[] {
  return (messages as { blocks: Block[] }[])
    .flatMap((message) => message.blocks)
    .filter((block) => block.type === 'tool_result')
    .map(({ toolCallId, toolName, content, isError }) => ({
      toolCallId,
      toolName,
      content: content as Block[],
      isError: isError ?? false,
    }))
}

/** A plain tool around a function. */
export function tool(
  name: string,
  run: PlainTool['run'],
  more: Partial<Omit<PlainTool, 'name' | 'run'>> = {},
): PlainTool {
  return { name, run, ...more }
}

/** The text of a result. */
export function textOf(toolResults: SentToolResult | undefined): string {
  return (toolResults?.content ?? [])
    .map((block) => (block.type === 'text' ? block.text : ''))
    .join('')
}

/** The compared fields of a call: those that are equal in every run. */
export function outline({ id, toolName, params, result, error, status, sequence }: AgentToolCall) {
  return { id, toolName, params, result, error, status, sequence }
}

/** A promise with its functions. */
export function deferred<T>() {
  let resolve: (value: T) => void = () => {}
  let reject: (error: unknown) => void = () => {}
  const promise = new Promise<T>((yes, no) => {
    resolve = yes
    reject = no
  })
  return { promise, resolve, reject }
}

/** A tool `wait` that runs until the test lets it end; `begun` resolves when its first call runs. */
export function waitingTool() {
  const [begun, finished] = [deferred<void>(), deferred<string>()]
  const wait = tool(
    'wait',
    () => {
      begun.resolve()
      return finished.promise
    },
    { description: 'Waits.' },
  )
  return { wait, begun: begun.promise, finish: () => finished.resolve('waited') }
}
