// Which events a reader receives: the option `events`, as the bits of `EventGroup` in Rust.
// It must never leave out one of the broker interface's six.

import type { EventsOption, StreamEvent } from '../../index.d.ts'
import { type Code, refusal } from '../values/errors.ts'
import { isObject, readFields } from '../values/reader.ts'

/** The bits must equal those of `EventGroup` in `crates/model/src/data/event.rs`. */
const GROUPS = {
  usage: 1,
  waiting: 2,
  compaction: 4,
  userMessage: 8,
  toolProgress: 16,
  modelSwitch: 32,
  cacheBreak: 64,
  toolInput: 128,
  approval: 256,
} as const

const TYPES: Partial<Record<StreamEvent['type'], number>> = {
  usage: GROUPS.usage,
  waiting: GROUPS.waiting,
  retry: GROUPS.waiting,
  compaction: GROUPS.compaction,
  user_message: GROUPS.userMessage,
  tool_progress: GROUPS.toolProgress,
  model_switch: GROUPS.modelSwitch,
  cache_break: GROUPS.cacheBreak,
  tool_input_delta: GROUPS.toolInput,
  approval: GROUPS.approval,
}

const NOTHING = 0
const EVERYTHING = Object.values(GROUPS).reduce((sum, bit) => sum | bit, NOTHING)
/** What is left out by default: fragments are for those who ask for them. */
const BY_DEFAULT: number = GROUPS.toolInput

/** The groups that are left out, as bits. */
function readSkipped(events: unknown, code: Code, byDefault = BY_DEFAULT): number {
  if (events === undefined || events === null) return byDefault
  if (events === 'all') return BY_DEFAULT
  if (events === 'core') return EVERYTHING
  if (!isObject(events)) {
    throw refusal(code, 'events', "is not `'core'`, `'all'` or an object of groups")
  }
  let skipped = BY_DEFAULT
  for (const [name, wanted] of Object.entries(readFields(events, 'events', code, 'events.'))) {
    const bit = GROUPS[name as keyof typeof GROUPS]
    if (bit === undefined) throw refusal(code, `events.${name}`, 'is not a group of events')
    if (wanted === undefined) continue
    if (typeof wanted !== 'boolean') {
      throw refusal(code, `events.${name}`, 'is not true or false')
    }
    skipped = wanted ? skipped & ~bit : skipped | bit
  }
  return skipped
}

/** Whether an event is one of those that are not left out. */
function isSelected(event: StreamEvent, skipped: number): boolean {
  return ((TYPES[event.type] ?? NOTHING) & skipped) === 0
}

export type { EventsOption }
export { BY_DEFAULT, GROUPS, isSelected, readSkipped }
