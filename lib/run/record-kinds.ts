// The kinds of records in the queue between Rust and JavaScript. It must never differ from `src/node/hub`.

export const TOKEN = 0
export const REASONING = 1
export const MESSAGE = 2
export const EVENT = 3
export const PHASE = 4
export const RESULT = 5
export const TOOL = 6
export const TOOL_CANCEL = 7
export const DEFECT = 8
export const REQUEST = 9
export const UNREADABLE = 10
export const LIVE = 11
export const TOOL_UPDATE = 12
export const REFUSED = 13
