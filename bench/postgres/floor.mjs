// The floor: the statements of one turn, as the server logged them, sent again by pgbench, which is written in C and does nothing else.
// Only ids change from turn to turn, so that each turn is a new one after the last of its session.

import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'

const ULID = /[0-7][0-9A-HJKMNP-TV-Z]{25}/g

/** The statements of a log, each with its parameters. */
export function logged(log) {
  const entries = []
  for (const line of log.split('\n')) {
    if (/^\d{4}-\d\d-\d\d /.test(line)) entries.push(line.replace(/^\S+ \S+ \S+ \[\d+\] /, ''))
    else if (entries.length > 0) entries[entries.length - 1] += `\n${line.replace(/^\t/, '')}`
  }
  const statements = []
  for (const entry of entries) {
    const [, sql] = /^LOG: {2}(?:statement|execute [^:]*): ([\s\S]*)$/.exec(entry) ?? []
    const [, given] = /^DETAIL: {2}parameters: ([\s\S]*)$/.exec(entry) ?? []
    if (sql !== undefined) statements.push({ sql, params: [] })
    else if (given !== undefined) {
      const params = [...given.matchAll(/\$\d+ = (NULL|'(?:[^']|'')*')/g)].map(([, value]) => value)
      statements.at(-1).params = params
    }
  }
  return statements
}

/** The first value of `y` in a script: the turn before the first one is `P<first>-<number of the turn's id>`. */
export const FIRST = '1000000000000000'

/** The script of pgbench for the turn `turnId` of the session `label`; what was there before it has the ids `known`. */
export function script({ statements, types, typeNames, label, known, turnId, parent }) {
  const names = new Map()
  const number = (id) => {
    if (!names.has(id)) names.set(id, names.size)
    return names.get(id)
  }
  const renamed = (text) =>
    text.replaceAll(label, `${label}-:client_id`).replace(ULID, (id) => {
      if (id === parent) return `P:y-${number(turnId)}`
      return known.has(id) ? id : `P:x-${number(id)}`
    })
  const texts = statements.map(({ sql, params }) => {
    const oids = types.get(sql) ?? []
    const values = params.map((value, n) => {
      // What is stored as bytes has no id that another row has.
      const named = /^'(\{")?\\+x/.test(value) ? value : renamed(value)
      return value === 'NULL'
        ? `null::${typeNames.get(oids[n])}`
        : `${named}::${typeNames.get(oids[n])}`
    })
    return sql.replace(/\$(\d+)/g, (_, n) => `(${values[n - 1]})`)
  })
  const draw = '\\set y :x\n\\set x random(2000000000000000, 8000000000000000)\n'
  return { text: `${draw}${texts.join(';\n')};\n`, first: `P${FIRST}-${number(turnId)}` }
}

/** Runs pgbench with `clients` sessions for some seconds; the turns it made a second. */
export function floor({ bin, url, schema, file, text, clients, seconds }) {
  writeFileSync(file, text)
  const args = [
    '-n',
    '-M',
    'simple',
    '-f',
    file,
    '-c',
    String(clients),
    '-j',
    '2',
    '-T',
    String(seconds),
  ]
  const done = spawnSync(`${bin}/pgbench`, [...args, '-D', `x=${FIRST}`, url], {
    encoding: 'utf8',
    env: { ...process.env, PGOPTIONS: `-c search_path=${schema}` },
  })
  const [, tps] = /tps = ([\d.]+)/.exec(done.stdout) ?? []
  if (done.status !== 0 || tps === undefined)
    throw new Error(`pgbench: ${done.stderr.slice(0, 2_000)}`)
  return Number(tps)
}
