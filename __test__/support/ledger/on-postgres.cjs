// Engines of specs on a server: with LEDGER=postgres, every ledger in a file is a schema of the server at POSTGRES_URL, the same for the
// same path, in a spec and in its child processes. It changes what is passed to the native side, so that every face of the package is covered.
// It must never change an option of anything else.
'use strict'

const { createHash } = require('node:crypto')
const { readdirSync } = require('node:fs')
const { join, resolve } = require('node:path')

const root = join(__dirname, '../../..')
const url = process.env.POSTGRES_URL

/** The schema of a path. */
function schemaOf(path) {
  return `file_${createHash('sha256').update(resolve(path)).digest('hex').slice(0, 24)}`
}

/** The options of a ledger on the server, in place of those of a file. */
function onServer(ledger) {
  if (typeof ledger?.path !== 'string' || ledger.path === '') return ledger
  const { path, synchronous: _, ...rest } = ledger
  // The sessions of a killed process are free after that time.
  return {
    url,
    schema: schemaOf(path),
    pool: 4,
    leaseMs: Number(process.env.LEASE_MS ?? 2_000),
    ...rest,
  }
}

/** The same for the JSON of an engine's options. */
function rewritten(json) {
  const options = JSON.parse(json)
  return options.ledger === undefined
    ? json
    : JSON.stringify({ ...options, ledger: onServer(options.ledger) })
}

/** Relations of the file, of the tables of a server: what specs read of both. */
const relations = {
  runs: `select id as turn_id, run_id, session_label, epoch, completed_at as ended_at,
    (status = 'streaming')::int as in_journal from turns where is_run`,
  session_history: 'select id, session_label, thread_id, changed_at from session_moves',
  session_leases: 'select label as session_label, epoch, owner from sessions where epoch > 0',
  session_waits: 'select session_label, owner from waits',
  session_commands: 'select id, session_label from commands where taken is null',
  threads: `select id as turn_id, depth, (
    with recursive up as (select id, parent_turn_id, depth from turns where id = t.id
      union all select p.id, p.parent_turn_id, p.depth from up join turns p on p.id = up.parent_turn_id)
    select json_agg(id order by depth) from up)::text as ancestry from turns t where status <> 'streaming'`,
}

/** A query of a spec in the server's SQL: the markers of its parameters, and relations that only a file has. */
function queried(args) {
  const { sql, params } = JSON.parse(args)
  let number = 0
  const marked = sql.replace(/'[^']*'|\?/g, (part) => (part === '?' ? `$${++number}` : part))
  const used = Object.entries(relations).filter(([name]) =>
    new RegExp(`\\b(from|join)\\s+${name}\\b`, 'i').test(marked),
  )
  if (used.length === 0) return JSON.stringify({ sql: marked, params })
  const given = used.map(([name, of]) => `${name} as (${of})`).join(', ')
  const [, start] = /^\s*(with\s+recursive\b)?/i.exec(marked)
  const rest = start === undefined ? ` ${marked}` : `, ${marked.trimStart().slice(start.length)}`
  return JSON.stringify({ sql: `with recursive ${given}${rest}`, params })
}

const file = readdirSync(root).find((name) => name.endsWith('.node'))
if (process.env.LEDGER === 'postgres' && url !== undefined && file !== undefined) {
  const addon = require(join(root, file))
  const { ledger } = addon.NativeEngine.prototype
  addon.NativeEngine.prototype.ledger = function (id, method, args) {
    return ledger.call(this, id, method, method === 'query' ? queried(args) : args)
  }
  addon.NativeEngine = new Proxy(addon.NativeEngine, {
    construct: (target, [hub, json, ...rest]) => new target(hub, rewritten(json), ...rest),
  })
}

module.exports = { schemaOf }
