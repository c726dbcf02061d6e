// The flags of a run that do not belong to its context, as one number. The bits must equal those of `src/node/given_histories.rs`.

/** Its signal is aborted already. */
const ABORTED = 1
/** It has an `onRequest`. */
const HOOKED = 2
/** It has an `onAgentEvent`. */
const PHASES = 4

/** It has a `beforeToolCall`. */
const DECIDES = 8
/** It has a `stopWhen`. */
const STOPS = 16
/** It has a `prepareStep`. */
const PREPARES = 32
/** The reason of its aborted signal is that of a time limit. */
const TIMED_OUT = 64
/** It has an `afterToolCall`. */
const REPLACES = 128
/** From this bit on: the groups of events that do not cross (`event-groups.ts`). */
const SKIPPED_SHIFT = 8

export { ABORTED, DECIDES, HOOKED, PHASES, PREPARES, REPLACES, SKIPPED_SHIFT, STOPS, TIMED_OUT }
