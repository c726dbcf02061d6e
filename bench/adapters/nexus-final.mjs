// Our engine with a ledger that gets finished turns only and no events. It must differ from its siblings in these choices alone.
import { info, makeNexus } from '../lib/nexus.mjs'

export { info }
export const create = (options) =>
  makeNexus(options, { ledger: { journal: 'final', events: false }, reading: 'iterate' })
