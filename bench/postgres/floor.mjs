// The floor: the statements of one turn, byte for byte as an engine sent them, sent again by crates/postgres/examples/floor.rs, which is
// `tokio-postgres` with a pool and nothing else. Only ids and labels change from turn to turn, so that each turn is a new one after the
// last of its session.

import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const ULID = /[0-7][0-9A-HJKMNP-TV-Z]{25}/g
const TEXT = 25
const TEXT_ARRAY = 1009
const root = fileURLToPath(new URL('../..', import.meta.url))

/** What the program reads: the turn `turnId` of the session `label` as `statements`; what was there before it has the ids `known`. */
export function template({ statements, label, labels, known, turnId, parent }) {
  const ids = []
  const number = (id) => {
    if (!ids.includes(id)) ids.push(id)
    return { id: ids.indexOf(id) }
  }
  const turn = number(turnId).id
  const changes = ({ oid, bytes }) => {
    // What is stored as bytes has no id that another row has.
    if (bytes === null || (oid !== TEXT && oid !== TEXT_ARRAY)) return []
    const text = Buffer.from(bytes).toString('latin1')
    const found = [...text.matchAll(ULID)].filter(([id]) => id === parent || !known.has(id))
    const named = found.map(({ 0: id, index }) => [index, id === parent ? 'parent' : number(id)])
    return [...named, ...[...text.matchAll(label)].map(({ index }) => [index, 'label'])]
  }
  const filled = statements.map(({ sql, params }) => ({
    sql,
    params: params.map((param) => ({ ...param, changes: changes(param) })),
  }))
  return { statements: filled, ids: ids.length, turn, parent, labels }
}

/** Builds the program, for the same profile as the addon that is measured; its path. */
export function built(profile) {
  const args = [
    'build',
    '-q',
    '--profile',
    profile,
    '-p',
    'nexus-agent-postgres',
    '--example',
    'floor',
  ]
  const { status } = spawnSync('cargo', args, { cwd: root, stdio: 'inherit' })
  if (status !== 0) throw new Error('the program of the floor was not built')
  return `${root}target/${profile === 'dev' ? 'debug' : profile}/examples/floor`
}

/** Runs turns of `sessions` sessions over `pool` connections; the turns a second. */
export function floor({ program, url, file, turn, sessions, pool, warm, turns }) {
  writeFileSync(file, JSON.stringify(turn))
  const args = [url, file, sessions, pool, warm, turns].map(String)
  const done = spawnSync(program, args, { encoding: 'utf8' })
  if (done.status !== 0) throw new Error(`the floor: ${done.stderr.slice(0, 2_000)}`)
  const { turns: made, ms } = JSON.parse(done.stdout)
  return made / (ms / 1_000)
}
