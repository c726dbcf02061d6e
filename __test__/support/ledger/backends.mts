// Which specs run on which backend of the ledger: the one list of what is about the file, and of what a server has not got yet. The
// vitest project `postgres` runs all others on a server. It must never list a test without the reason.

/** The specs about what every ledger does. */
export const shared = [
  ...['broker/**/*', 'compaction/**/*', 'engine/approvals/**/*', 'ledger/**/*'],
  ...[
    'pi/session/**/*',
    'providers/prompt-cache',
    'providers/failover/shared-limits',
    'recovery/**/*',
    'runs/**/*',
    'streams/**/*',
  ],
]

/** Specs that are about the file itself, or start servers of their own. */
export const ofTheFile: Record<string, string> = {
  'broker/example-page': 'the page of an example in a browser: no other calls of the ledger',
  'broker/load/cluster': 'always runs on a server of its own',
  'broker/load/kill-points': 'kills at the writes and syncs of the file',
  'broker/load/postgres': 'always runs on servers of its own',
  'ledger/blobs': 'values in the folder of blobs beside the file',
  'ledger/damage/damaged-header': 'damaged bytes of the file',
  'ledger/damage/damaged-rows': 'damaged rows of the file, written by sqlite3',
  'ledger/damage/flipped-bytes': 'flipped bytes of the file',
  'ledger/disk': 'full disks, locks and copies of the file',
  'ledger/external-reader': 'the tables of the file, read by sqlite3',
  'ledger/file/clock-steps': 'processes of the file by their boot clock; a server has one clock',
  'ledger/file/disk-errors': 'errors of the disk under the file',
  'ledger/file/first-open': 'the creation of the file',
  'ledger/file/log-growth': "the file's log",
  'ledger/file/new-ledger-syncs': 'syncs of the file',
  'ledger/file/profile-syncs': 'syncs of the file',
  'ledger/file/replaced': 'files that are moved, removed or replaced',
  'ledger/file/second-sqlite': 'a second SQLite on the file',
  'ledger/file/unsupported-locations': 'file systems of the file',
  'ledger/first-version': 'a file of version 0.1',
  'ledger/host/postgres': 'always runs on a server of its own',
  'ledger/host/postgres-access': 'always runs on a server of its own',
  'ledger/host/postgres-faults': 'always runs on a server of its own',
  'ledger/host/postgres-kills': 'always runs on a server of its own',
  'ledger/host/postgres-lost': 'always runs on a server of its own',
  'ledger/host/postgres-operations': 'always runs on a server of its own',
  'ledger/host/postgres-pooler': 'always runs on a server of its own',
  'ledger/host/postgres-query': 'always runs on a server of its own',
  'ledger/host/postgres-reads': 'always runs on a server of its own',
  'ledger/host/postgres-silence': 'always runs on a server of its own',
  'ledger/host/postgres-upkeep': 'always runs on a server of its own',
  'ledger/host/views': 'the views of the file, by their columns',
  'ledger/maintenance-disk-faults': 'faults of the disk in the care of the file',
  'ledger/memory/pgvector': 'always runs on a server of its own',
  'ledger/memory/salvage': 'salvage of the file',
  'ledger/refused-files': 'files that are refused',
  'ledger/salvage': 'salvage of the file',
  'recovery/approval-kills': 'kills at the syncs of the file',
  'recovery/deletion-kills':
    'kills at the writes and syncs of the file; at the answers of a server in ledger/host/postgres-kills',
  'recovery/kill-points': 'kills at the writes and syncs of the file',
  'recovery/migration-kills': 'kills at the writes of a migration of the file',
  'recovery/power-cuts': 'power cuts under the file',
  'ledger/memory/extraction-kills':
    'kills at the writes and syncs of the file; at the answers of a server in ledger/host/postgres-kills',
  'ledger/maintenance': 'damage, backup and vacuum of the file',
  'ledger/memory/forgetting': 'a search for bytes of the file',
  'ledger/memory/lost': 'files that are deleted or moved',
  'ledger/transfer/copy': 'chooses a ledger of each kind itself',
  'ledger/transfer/import-mutations': 'compares the tables of the file',
  'recovery/altered-context': 'rows of the file, changed by sqlite3',
  'recovery/crash': 'the invariants of the tables of the file',
  'recovery/resumed-history': 'rows of the file, changed by sqlite3',
}

/** Tests of other specs that are about the file, or show a difference that does not happen each time. */
export const testsOfTheFile: Record<string, Record<string, string>> = {
  'broker/context': {
    'a secure deletion leaves nothing of layers and events in the file':
      'bytes of the file after a secure deletion',
  },
  'broker/elsewhere': {
    'an image of a message that waits is in `blobs`, and is sent whole':
      'reads tables that only the file has',
  },
  'broker/example': {
    'a message comes in, an approval is given, the answer goes out, and what the agent knew is a query':
      'the query of the example is in SQL of the file',
  },
  'compaction/compaction': {
    'the strategies are tried in order, and recorded by their name':
      'reads tables that only the file has',
  },
  'ledger/host/deletion': {
    'a secure deletion leaves no byte of it in the file or its log':
      'bytes of the file after a secure deletion',
  },
  'ledger/host/metadata': {
    'the metadata of another ledger > is salvaged': 'salvage of the file',
    'metadata finds > turns, sessions and their usage, with and without an index, in two engines of the file':
      'indexes of metadata: a server indexes every key',
  },
  'ledger/leases': {
    'a session of a killed process is free immediately': 'a server frees it when its lease ends',
    '3 times six processes that open a new path together create one ledger':
      'reads tables that only the file has',
  },
  'ledger/memory/tiers': {
    'by words alone the hits are in the order of FTS5’s own bm25': 'the ranking of SQLite',
  },
  'ledger/memory/secrets': {
    'a key in a fact is in no byte of the file or its log, however the fact comes':
      'bytes of the file and its log',
  },
  'ledger/memory/memory': {
    'what is forgotten is not found, not indexed and not imported again':
      'the bytes of an index of the file',
  },
  'ledger/reads': {
    'query > binds values of every kind, and returns SQLite’s conversion':
      'reads tables that only the file has',
    'query > numbers beyond 2^53 are text, blobs are hex, and a repeated column has a number':
      'values of SQLite',
    'query > reports when rows are left out': 'reads tables that only the file has',
  },
  'ledger/rows': {
    'a turn with tools > has the columns of the broker interface, read by another SQLite (sqlite3)':
      'reads tables that only the file has',
    'turns form a thread: parent, depth, tokens of the thread, ancestry and the log of the pointer':
      'reads tables that only the file has',
  },
  'ledger/search': {
    'a commit indexes nothing, and a search finds everything > a message is found immediately, and in the index when there are enough':
      'reads tables that only the file has',
    'a commit indexes nothing, and a search finds everything > many turns are indexed after their commits without a search':
      'reads tables that only the file has',
    'a commit indexes nothing, and a search finds everything > another process finds messages committed here, and those of a killed process':
      'reads tables that only the file has',
  },
  'ledger/transfer/jsonl': {
    'damage > an unreadable turn is reported, and the others are exported':
      'reads tables that only the file has',
    'export and import > have the decisions about the calls of a turn, with nothing left to decide':
      'reads tables that only the file has',
    'damage > of any one line (noise) costs that line alone': 'reads tables that only the file has',
    'damage > of any one line (another shape) costs that line alone':
      'reads tables that only the file has',
    'damage > of any one line (an unknown type) costs that line alone':
      'reads tables that only the file has',
  },
  'ledger/transfer/pi': {
    'a session of pi > has the same context as in pi, its origin, and its turns':
      'reads tables that only the file has',
  },
  'runs/lookup': {
    'a run whose events are not stored, or not any more, is still found':
      'runs of the file are kept apart from turns',
  },
  'runs/output': {
    'a repair > of before a kill counts after it': 'goes on in a backup of the file',
  },
  'streams/persisted-events': {
    'after the run, attach delivers exactly the events of its reader, from any number':
      'reads tables that only the file has',
    'events are retained for the number of runs and the time in the options':
      'reads tables that only the file has',
    'a locked file delays no reader for long, and loses no event':
      'reads tables that only the file has',
    'without a ledger, with `final` or with `events: false` no event is persisted, and attach is refused':
      'reads tables that only the file has',
  },
  'streams/same-events': {
    'arguments and results are in the file once, however many events tell them':
      'reads tables that only the file has',
  },
}

/** What a server has not got yet: each of these tests must fail there, so that the list says when one works. */
export const waiting: Record<string, Record<string, string>> = {}

/** The specs of `npm test`: those that show most for their time. `POSTGRES_SPECS=all` runs all. */
export const selection = [
  'broker/{parked,resets,routes,schedules}',
  'broker/load/soak',
  'broker/prompts/*',
  'broker/agents/{closing,discarded-budgets,dispatch,slots,waiting-parents}',
  'broker/rows/{acceptance,queue-modes,queue-steps,refusals,routing,run-states,session-keys,terminal-events}',
  'compaction/recall',
  'engine/approvals/*',
  'ledger/{lists,reads,rows,run-end,write-turn}',
  'ledger/host/{deletion,diff,metadata,moves}',
  'ledger/memory/{contexts,embedders,extraction,kills,memory,noted,scopes,secrets,tiers,tools}',
  'ledger/transfer/{myclaw,pi,postgres}',
  'pi/session/{failures,ledger}',
  'providers/failover/shared-limits',
  'recovery/planned-calls',
  'runs/{duplicates,lookup}',
  'streams/{cross-process-events,many-readers,persisted-events,same-events}',
]
