// A run, read to its end. It must never leave a run half read.

import type { AgentRun, StreamEvent } from '../../index.d.ts'
import type { CollectedRun } from '../../testing.d.ts'

/** All events of a run, its result and its text. */
async function collect(run: AgentRun): Promise<CollectedRun> {
  const events: StreamEvent[] = []
  for await (const event of run) events.push(event)
  const text = events.map((event) => (event.type === 'token' ? event.text : '')).join('')
  return { events, result: await run.result, text }
}

export { collect }
