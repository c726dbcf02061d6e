// What the native side must know of a run beside its context, in one number. It must have the bits of `src/node/run_flags.rs`.

/** Its signal is aborted already. */
const ABORTED = 1
/** It has an `onRequest`. */
const HOOKED = 2
/** It has an `onAgentEvent`. */
const PHASES = 4

export { ABORTED, HOOKED, PHASES }
