// Engines of specs on a server: with LEDGER=postgres, every ledger in a file is a schema of the server at POSTGRES_URL, the same for the
// same path, in a spec and in its child processes. It changes what is passed to the native side, so that every face of the package is covered.
// It must never change an option of anything else.
'use strict'

const { createHash } = require('node:crypto')
const { readdirSync } = require('node:fs')
const { join, resolve } = require('node:path')

const root = join(__dirname, '../../..')
const url = process.env.POSTGRES_URL

/** The options of a ledger on the server, in place of those of a file. */
function onServer(ledger) {
  if (typeof ledger?.path !== 'string' || ledger.path === '') return ledger
  const { path, synchronous: _, ...rest } = ledger
  const schema = `file_${createHash('sha256').update(resolve(path)).digest('hex').slice(0, 24)}`
  return { url, schema, pool: 4, ...rest }
}

/** The same for the JSON of an engine's options. */
function rewritten(json) {
  const options = JSON.parse(json)
  return options.ledger === undefined
    ? json
    : JSON.stringify({ ...options, ledger: onServer(options.ledger) })
}

const file = readdirSync(root).find((name) => name.endsWith('.node'))
if (process.env.LEDGER === 'postgres' && url !== undefined && file !== undefined) {
  const addon = require(join(root, file))
  addon.NativeEngine = new Proxy(addon.NativeEngine, {
    construct: (target, [hub, json, ...rest]) => new target(hub, rewritten(json), ...rest),
  })
}
