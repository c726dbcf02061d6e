// Our engine with a ledger on disk, read with `for await`. It must differ from its siblings in these two choices alone.
import { info, makeNexus } from '../lib/nexus.mjs'

export { info }
export const create = (options) => makeNexus(options, { ledger: true, reading: 'iterate' })
