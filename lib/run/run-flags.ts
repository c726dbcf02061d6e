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
/** It has an `output` that only JavaScript can check. */
const CHECKS_OUTPUT = 128
/** It has an `afterToolCall`. */
const REPLACES = 256
/** From this bit on: the groups of events that do not cross (`event-groups.ts`). */
const SKIPPED_SHIFT = 9

export {
  ABORTED,
  CHECKS_OUTPUT,
  DECIDES,
  HOOKED,
  PHASES,
  PREPARES,
  REPLACES,
  SKIPPED_SHIFT,
  STOPS,
  TIMED_OUT,
}
