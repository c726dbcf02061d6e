// Checks of a list of events. It must never read a run.

import { expect } from 'vitest'
import type { StreamEvent } from '../../index.js'

/** The numbers of the events, merged ones included: 1, 2, 3, … without a gap. */
export function expectGapless(events: StreamEvent[]): void {
  let last = 0
  for (const event of events) {
    const from = ('seqFrom' in event ? event.seqFrom : undefined) ?? event.seq
    expect(from).toBe(last + 1)
    expect(event.seq).toBeGreaterThanOrEqual(from)
    last = event.seq
  }
}

export const isTerminal = (event: StreamEvent) =>
  event.type === 'stream_error' || (event.type === 'stream_end' && event.final)
