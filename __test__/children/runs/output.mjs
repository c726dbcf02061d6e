// A process whose run has answered with what is not its output, and prints when the request for the repair is stored. Arguments: file.
import { writeSync } from 'node:fs'
import { context, scripted } from '../common.mjs'

const [file] = process.argv.slice(2)
const { engine } = scripted(['no JSON', { gate: 'never' }], { ledger: { path: file } })
const output = {
  type: 'object',
  properties: { city: { type: 'string' } },
  required: ['city'],
}
for await (const { type } of engine.run(context({ output }))) {
  if (type === 'user_message') writeSync(1, 'repairing\n')
}
