// Counts what passes between an engine and a server on a socket: bytes, statements, round trips, and the types of their parameters. A
// process of its own, because an engine that opens a ledger waits for it. Arguments: the folder of the server's socket, and its own. It
// prints what it has counted for each line on its standard input.

import { createConnection, createServer } from 'node:net'
import { join } from 'node:path'

const [home, folder] = process.argv.slice(2)
const counts = { sent: 0, received: 0, statements: 0, roundTrips: 0 }
const types = new Map()
const server = createServer((client) => {
  const upstream = createConnection(join(home, '.s.PGSQL.5432'))
  for (const socket of [client, upstream]) socket.once('error', () => socket.destroy())
  let rest = Buffer.alloc(0)
  let begun = false
  client.on('data', (data) => {
    counts.sent += data.length
    rest = Buffer.concat([rest, data])
    for (;;) {
      // The first message has no type.
      const head = begun ? 1 : 0
      if (rest.length < head + 4) break
      const length = head + rest.readUInt32BE(head)
      if (rest.length < length) break
      if (begun) message(String.fromCharCode(rest[0]), rest.subarray(5, length))
      begun = true
      rest = rest.subarray(length)
    }
    upstream.write(data)
  })
  upstream.on('data', (data) => {
    counts.received += data.length
    client.write(data)
  })
  client.on('end', () => upstream.end())
  upstream.on('end', () => client.end())
})
function message(type, body) {
  if (type === 'E' || type === 'Q') counts.statements += 1
  // The server answers each of these, and nothing before.
  if (type === 'S' || type === 'Q') counts.roundTrips += 1
  if (type !== 'P') return
  const sqlAt = body.indexOf(0) + 1
  const end = body.indexOf(0, sqlAt)
  const number = body.readUInt16BE(end + 1)
  const oids = Array.from({ length: number }, (_, n) => body.readUInt32BE(end + 3 + 4 * n))
  types.set(body.toString('utf8', sqlAt, end), oids)
}
server.listen(join(folder, '.s.PGSQL.5432'), () => console.log('ready'))
process.stdin.on('data', () => console.log(JSON.stringify({ counts, types: [...types] })))
process.stdin.once('end', () => process.exit(0))
