// The flags of a run that do not belong to its context, as one number. The bits must equal those of `src/node/given_histories.rs`.

/** Its signal is aborted already. */
export const ABORTED = 1
/** It has an `onRequest`. */
export const HOOKED = 2
/** It has an `onAgentEvent`. */
export const PHASES = 4

/** It has a `beforeToolCall`. */
export const DECIDES = 8
/** It has a `stopWhen`. */
export const STOPS = 16
/** It has a `prepareStep`. */
export const PREPARES = 32
/** The reason of its aborted signal is that of a time limit. */
export const TIMED_OUT = 64
/** It has an `output` that only JavaScript can check. */
export const CHECKS_OUTPUT = 128
/** It has an `afterToolCall`. */
export const REPLACES = 256
/** From this bit on: the groups of events that do not cross (`event-groups.ts`). */
export const SKIPPED_SHIFT = 9
