// The plans of the statements that the engines of specs send, from the log of the private server: none reads a growing table as a
// whole. The server explains every statement, with sequential scans turned off: one that is in a plan then has no index. The
// statements of specs themselves name no schema, and are not looked at.

import { createReadStream, readdirSync, readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'

const migrations = new URL('../../../crates/postgres/src/schema/migrations/', import.meta.url)
/** Indexes of a part of a table only: reading one whole reads that part. */
const partial = new Set(
  readdirSync(migrations).flatMap((file) => {
    const sql = readFileSync(new URL(file, migrations), 'utf8')
    return [...sql.matchAll(/create (?:unique )?index (\w+) on [^;]* where /g)].map((it) => it[1])
  }),
)

/** What the private server is started with. */
export const explains = {
  session_preload_libraries: 'auto_explain',
  'auto_explain.log_min_duration': '0',
  'auto_explain.log_nested_statements': 'on',
  'auto_explain.log_format': 'json',
  enable_seqscan: 'off',
  // Of a table without rows, the whole is cheap to hash.
  enable_hashjoin: 'off',
  enable_mergejoin: 'off',
  jit: 'off',
}

/** Tables with a few rows, whatever the number of turns is. */
const small = new Set([
  ...['auth_profiles', 'commands', 'ledger', 'listeners', 'memory_models'],
  ...[
    'memory_scopes',
    'memory_state',
    'pending_deletions',
    'personas',
    'queue_suspensions',
    'rate_queues',
    'runs',
    'schedules',
  ],
  ...['token_ratios', 'waits'],
])

/** Statements that read tables as a whole because that is what they are for, by how they begin, each with its call. */
const whole: [string, string][] = [
  ['select l.id, l.version', '`stats`'],
  ['select (select count(*) from @memory_turns)', '`stats` of the memory'],
  ['insert into @memory_pending (turn_id) select t.id from @turns', 'all turns, for a new memory'],
  [
    'update @memory_extractions set attempts = 0',
    '`reindex`, all turns whose extraction was given up',
  ],
  ['delete from @memory_vectors', '`reindex`, all vectors, or those of other models'],
  ['delete from @memory_skipped', '`reindex`, as above'],
  ['select label, updated_at, label !~', '`prune`, what is old among all sessions'],
  ['select label from @sessions where not opening', '`export` and `copyTo`, all sessions'],
  ["select id, 'is a message of a turn", '`verify`, as those below'],
  ["select t.id, 'has depth '", ''],
  ["select t.id, 'has ' || t.thread_tokens", ''],
  ["select s.label, 'points at a turn", ''],
  ["select id, 'has no reason of its end'", ''],
  ["select t.id, 'records '", ''],
  ["select t.id, 'is a compaction without", ''],
]

/** A join by labels that a parameter names: of the few sessions of a spec, the planner reads all first. */
const joinsByLabel = (scan: string, statement: string) =>
  scan === 'Index Scan of sessions sessions_pkey' && /\bs\.label = \w+\./.test(statement)

interface Node {
  'Node Type': string
  'Relation Name'?: string
  'Index Name'?: string
  'Index Cond'?: string
  Plans?: Node[]
}

/** Whether a condition bounds an index: that a column has a value does not. */
const bounds = (condition = '') => !/^(\(\w+ IS NOT NULL\))?$/.test(condition)

/** The growing tables that a node reads as a whole. A node under a limit reads its index as far as that goes. */
export function scans(node: Node, isLimited = false): string[] {
  const table = node['Relation Name'] ?? ''
  const kind = node['Node Type']
  const isWhole =
    kind === 'Seq Scan' ||
    (/^Index (Only )?Scan$/.test(kind) &&
      !isLimited &&
      !bounds(node['Index Cond']) &&
      !partial.has(node['Index Name'] ?? ''))
  const name = `${kind} of ${table} ${node['Index Name'] ?? ''}`.trim()
  const own = isWhole && !small.has(table) && !table.startsWith('pg_') ? [name] : []
  const under = isLimited || kind === 'Limit'
  return [...own, ...(node.Plans ?? []).flatMap((plan) => scans(plan, under))]
}

/** The scans in a log, each with its statement, and how many statements it explains. */
export async function scansOf(log: string): Promise<{ found: string[]; statements: number }> {
  const found = new Set<string>()
  const seen = new Set<string>()
  const times = new Map<string, number>()
  let json: string[] | undefined
  const judge = (lines: string[]) => {
    // Most of the log are the same statements: of each, some are read.
    const raw =
      lines.find((line) => line.includes('"Query Text"'))?.replace(/\\"\w+\\"\./g, '@') ?? ''
    const before = times.get(raw) ?? 0
    times.set(raw, before + 1)
    if (before >= 100) return
    const { 'Query Text': query, Plan } = JSON.parse(lines.join('\n')) as {
      'Query Text': string
      Plan: Node
    }
    if (!/"\w+"\.\w/.test(query)) return
    const statement = query
      .replace(/"\w+"\./g, '@')
      .replace(/\s+/g, ' ')
      .trim()
    seen.add(statement)
    if (whole.some(([beginning]) => statement.startsWith(beginning))) return
    for (const scan of scans(Plan)) {
      if (!joinsByLabel(scan, statement)) found.add(`${scan}: ${statement}`)
    }
  }
  for await (const line of createInterface({ input: createReadStream(log) })) {
    if (json !== undefined && line.startsWith('\t')) {
      json.push(line)
      continue
    }
    if (json !== undefined) judge(json)
    json = line.endsWith(' plan:') ? [] : undefined
  }
  return { found: [...found].sort(), statements: seen.size }
}
