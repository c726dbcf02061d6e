// Our engine with a whole journal and no events in its ledger. It must differ from its siblings in these choices alone.
import { info, makeNexus } from '../lib/nexus.mjs'

export { info }
export const create = (options) =>
  makeNexus(options, { ledger: { events: false }, reading: 'iterate' })
