// Three engine processes on one PostgreSQL, as on three machines: messages go to them in turn, one process is killed in the middle, and
// every message is answered. It must stay small enough to be read as a recipe.
//
//   node examples/cluster/cluster.mjs                         starts a private server, where PostgreSQL is installed
//   POSTGRES_URL=postgres://… node examples/cluster/cluster.mjs
//   ANTHROPIC_API_KEY=… node examples/cluster/cluster.mjs     without a key a script answers

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { createInterface } from 'node:readline'
import { json } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'

const file = (name) => fileURLToPath(new URL(name, import.meta.url))

/** A program that ends when its standard input does, and the first line that it prints. */
async function started(command, args) {
  const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] })
  const closed = once(child, 'close')
  const { value, done } = await createInterface({ input: child.stdout })
    [Symbol.asyncIterator]()
    .next()
  if (done) throw new Error(`${command} has ended`)
  const end = () => {
    child.stdin.end()
    return closed
  }
  return { child, line: value, closed, end }
}

/**
 * Sends `count` messages to `sessions` sessions of three processes, kills the first process when a third of them is answered, and
 * returns which process answered each message. `postgres` is the URL of a server; without one a private server is started.
 */
export async function cluster({ count = 30, sessions = 6, leaseMs = 2_000, postgres, log } = {}) {
  const say = log ?? (() => {})
  const server =
    postgres === undefined
      ? await started(file('../../crates/postgres/serve.sh'), [])
      : { line: postgres, end: () => {} }
  const schema = `cluster_${process.pid}_${Date.now()}`

  // Where answers arrive, as at the platform that messages come from.
  const answers = new Map()
  let repeated = 0
  const waiting = []
  const outlet = createServer(async (request, response) => {
    const answer = await json(request)
    if (answers.has(answer.target.id)) repeated += 1
    else answers.set(answer.target.id, answer)
    response.end()
    for (const each of waiting) if (answers.size >= each.size) each.resolve()
  })
  outlet.listen(0, '127.0.0.1')
  await once(outlet, 'listening')
  const reached = (size) => {
    if (answers.size >= size) return Promise.resolve()
    return new Promise((resolve) => waiting.push({ size, resolve }))
  }

  const to = `http://127.0.0.1:${outlet.address().port}`
  const args = [file('host.mjs'), server.line, schema, to, String(leaseMs)]
  const hosts = []
  try {
    // The first one creates the tables; the others would wait for it.
    for (let n = 0; n < 3; n++) hosts.push(await started(process.execPath, args))
    say(`3 processes: ${hosts.map(({ child }) => child.pid).join(', ')}`)
    const ports = hosts.map(({ line }) => line.split(' ')[1])

    /** Sends a message to one process, and to the next one where that does not take it: the id makes it the same message. */
    async function send(number) {
      const id = `m${number}`
      const body = JSON.stringify({
        id,
        session: `s${number % sessions}`,
        text: `message ${number}`,
      })
      for (let of = number; ; of++) {
        const url = `http://127.0.0.1:${ports[of % ports.length]}`
        const response = await fetch(url, { method: 'POST', body }).catch(() => undefined)
        if (response?.status === 202) return await response.json()
        if (of > number + 100) throw new Error(`no process takes message ${number}`)
      }
    }

    const half = Math.ceil(count / 2)
    await Promise.all(Array.from({ length: half }, (_, number) => send(number)))
    await reached(Math.floor(count / 3))
    hosts[0].child.kill('SIGKILL')
    await hosts[0].closed
    say(`killed ${hosts[0].child.pid} after ${answers.size} answers`)
    await Promise.all(Array.from({ length: count - half }, (_, number) => send(half + number)))
    await reached(count)
  } finally {
    await Promise.all(hosts.map(({ end }) => end()))
    outlet.closeAllConnections()
    outlet.close()
    await server.end()
  }
  const by = {}
  for (const { by: pid } of answers.values()) by[pid] = (by[pid] ?? 0) + 1
  say(`${answers.size} of ${count} messages are answered, by process: ${JSON.stringify(by)}`)
  return { answers, repeated, killed: hosts[0].child.pid, by, schema }
}

if (process.argv[1] === file('cluster.mjs')) {
  await cluster({ postgres: process.env.POSTGRES_URL, log: console.log })
}
