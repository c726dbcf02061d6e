// A line to a server, on which answers are lost or late, or nothing arrives at all: in a process of its own, so that its pauses are not
// those of the engine's process. Arguments: the server's socket, its own. Reads a fault per line, JSON, and prints `lost` for each answer
// that it loses.
import { connect, createServer } from 'node:net'
import { createInterface } from 'node:readline'
import { print } from '../broker/setup.mjs'

const [to, at] = process.argv.slice(2)
/** The end of an answer to all that was sent, outside a transaction. */
const done = Buffer.from('Z\0\0\0\x05I', 'latin1')
let faults = {
  loseEvery: 0,
  loseAt: 0,
  loseDone: '',
  freezeAt: 0,
  delayMs: 0,
  swallows: false,
  cuts: false,
}
let answers = 0
let sinceSet = 0
const ends = new Set()
const server = createServer((client) => {
  const upstream = connect(to)
  let loses = false
  const close = () => {
    ends.delete(close)
    client.destroy()
    upstream.destroy()
  }
  ends.add(close)
  for (const socket of [client, upstream]) socket.on('error', close).on('close', close)
  // What it swallows, either side waits for.
  client.on('data', (chunk) => {
    if (faults.loseDone !== '' && chunk.includes(faults.loseDone)) {
      faults.loseDone = ''
      loses = true
    }
    if (!faults.swallows) upstream.write(chunk)
  })
  upstream.on('data', (chunk) => {
    if (faults.swallows) return
    answers += 1
    sinceSet += 1
    if (sinceSet === faults.freezeAt) {
      faults.swallows = true
      print('lost')
      return
    }
    const isDone = loses && chunk.subarray(-done.length).equals(done)
    const isNext = faults.loseEvery > 0 && answers % faults.loseEvery === 0
    if (isDone || isNext || sinceSet === faults.loseAt) {
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
    sinceSet = 0
    faults = {
      loseEvery: 0,
      loseAt: 0,
      loseDone: '',
      delayMs: 0,
      swallows: false,
      cuts: false,
      ...JSON.parse(line),
    }
    // The server notices nothing while it waits for a lock.
    if (faults.cuts) for (const end of ends) end()
    print('set')
  })
  .on('close', () => process.exit())
