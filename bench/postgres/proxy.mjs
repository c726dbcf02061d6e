// Counts what passes between an engine and a server on a socket: bytes, statements and round trips; and notes the statements with the types
// and the bytes of their parameters. A process of its own, because an engine that opens a ledger waits for it. Arguments: the folder of the
// server's socket, and its own. For each line on its standard input it prints the counts, and the statements since the line before.

import { createConnection, createServer } from 'node:net'
import { join } from 'node:path'

const [home, folder] = process.argv.slice(2)
const counts = { sent: 0, received: 0, statements: 0, roundTrips: 0 }
let statements = []
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
  if (type === 'Q') statements.push({ sql: body.toString('utf8', 0, body.length - 1), params: [] })
  if (type === 'P') {
    const sqlAt = body.indexOf(0) + 1
    const end = body.indexOf(0, sqlAt)
    const number = body.readUInt16BE(end + 1)
    const oids = Array.from({ length: number }, (_, n) => body.readUInt32BE(end + 3 + 4 * n))
    statements.push({
      sql: body.toString('utf8', sqlAt, end),
      params: oids.map((oid) => ({ oid })),
    })
  }
  if (type === 'B') {
    // The names of the portal and of the statement, and the formats of the parameters, which are binary.
    let at = body.indexOf(0, body.indexOf(0) + 1) + 1
    at += 2 + 2 * body.readUInt16BE(at)
    const number = body.readUInt16BE(at)
    at += 2
    for (let n = 0; n < number; n++) {
      const length = body.readInt32BE(at)
      at += 4
      const bytes = length < 0 ? null : Array.from(body.subarray(at, at + length))
      statements.at(-1).params[n].bytes = bytes
      at += Math.max(length, 0)
    }
  }
}
server.listen(join(folder, '.s.PGSQL.5432'), () => console.log('ready'))
process.stdin.on('data', () => {
  console.log(JSON.stringify({ counts, statements }))
  statements = []
})
process.stdin.once('end', () => process.exit(0))
