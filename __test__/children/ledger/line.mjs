// A line to a server, on which answers are lost or late: in a process of its own, because an engine that opens a ledger waits for the
// server. Arguments: the server's socket, its own. Reads a fault per line, JSON, and prints `lost` for each answer that it loses.
import { connect, createServer } from 'node:net'
import { createInterface } from 'node:readline'
import { print } from '../broker/setup.mjs'

const [to, at] = process.argv.slice(2)
let faults = { loseEvery: 0, delayMs: 0 }
let answers = 0
const server = createServer((client) => {
  const upstream = connect(to)
  const close = () => {
    client.destroy()
    upstream.destroy()
  }
  for (const socket of [client, upstream]) socket.on('error', close).on('close', close)
  client.pipe(upstream)
  upstream.on('data', (chunk) => {
    answers += 1
    if (faults.loseEvery > 0 && answers % faults.loseEvery === 0) {
      // The server has done it, and nobody learns of it.
      close()
      print('lost')
    } else if (faults.delayMs > 0) setTimeout(() => client.write(chunk), faults.delayMs)
    else client.write(chunk)
  })
})
server.listen(at, () => print('open'))
createInterface({ input: process.stdin })
  .on('line', (line) => {
    faults = { loseEvery: 0, delayMs: 0, ...JSON.parse(line) }
    print('set')
  })
  .on('close', () => process.exit())
