// Our engine without a ledger, read with callbacks. It must differ from its siblings in these two choices alone.
import { info, makeNexus } from '../lib/nexus.mjs'

export { info }
export const create = (options) => makeNexus(options, { ledger: false, reading: 'callbacks' })
