// One run on an engine of its own. It must never leave the engine open.

import type { AgentEngine, AgentResult, AssembledContext, StreamEvent } from '../../index.js'
import { context, readAll } from './engine.js'

/** Runs one turn, reads its events to the end, and closes the engine. */
export async function singleRun(
  engine: AgentEngine,
  changes: Partial<AssembledContext> = {},
): Promise<{ events: StreamEvent[]; result: AgentResult }> {
  const run = engine.run(context(changes))
  const events = await readAll(run)
  const result = await run.result
  await engine.close()
  return { events, result }
}
