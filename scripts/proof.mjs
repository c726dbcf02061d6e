// Owns the proofs at full size, which a normal run does in small form: `npm run proof:NAME`, and `npm run proof` lists them.
// It must never build an addon: the proofs use the one that `npm run build` left in the project's root.

import { spawnSync } from 'node:child_process'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const manifest = '--no-default-features --locked --no-capture --profile proof'.split(' ')
const spec = (name, project = 'once') => [
  process.execPath,
  join(root, 'node_modules', 'vitest', 'vitest.mjs'),
  'run',
  '--project',
  project,
  `__test__/${name}.spec.ts`,
]
const core = (filter) => ['cargo', 'nextest', 'run', '--workspace', ...manifest, filter]

/** What each proof is, what it sets, and what it runs. */
const proofs = {
  kills: {
    about: '1,000 SIGKILLs at random moments of a tool loop',
    env: { RECOVERY_KILLS: '1000' },
    command: [...spec('recovery/interrupted-turns'), '__test__/recovery/crash.spec.ts'],
  },
  'kill-points': {
    about: 'a kill before, after and in the middle of every write and sync of a turn',
    env: { KILL_POINTS: 'all' },
    command: spec('recovery/kill-points'),
  },
  approvals: {
    about:
      'kills before and after every sync of a run that waits for an approval, and of the decision: 50 each',
    env: { APPROVAL_KILLS: '50' },
    command: spec('recovery/approval-kills'),
  },
  deletions: {
    about:
      'a deletion killed before, after and in the middle of every write and sync of a file, in three ways, and at every answer of PostgreSQL',
    env: { DELETION_KILLS: 'all' },
    command: [...spec('recovery/deletion-kills'), '__test__/ledger/host/postgres-kills.spec.ts'],
  },
  salvage: {
    about: 'a damaged page, each of a ledger in turn: what is saved is whole',
    env: { SALVAGE_PAGES: 'all' },
    command: spec('ledger/salvage'),
  },
  chaos: {
    about: 'a mock server with random faults, 500 runs over each wire API',
    env: { CHAOS_RUNS: '500' },
    command: spec('providers/aimock'),
  },
  events: {
    about: 'what a consumer saw is a prefix of what `attach` replays: 250 kills',
    env: { EVENT_KILLS: '250' },
    command: spec('recovery/event-kills'),
  },
  'power-cuts': {
    about: '1,000 power cuts: no acknowledged turn is lost, no file is corrupt',
    env: { POWER_CUTS: '1000' },
    command: spec('recovery/power-cuts'),
  },
  leases: {
    about: '8 processes with 500 messages each on one session; 100 first opens by six processes',
    env: { LEDGER_OPENS: '100', LEDGER_MESSAGES: '500' },
    command: spec('ledger/leases'),
  },
  broker: {
    about:
      'brokers killed at any step, and before, in the middle of and after every write and sync of each of their commits, 50 times alone and 50 times beside two others: every receipt ends once, every answer is delivered, every due time has one message',
    env: { BROKER_KILLS: '50', BROKER_POINT_KILLS: '50' },
    command: [
      ...spec('broker/kills'),
      '__test__/broker/load/kill-points.spec.ts',
      '__test__/broker/delivery-kills.spec.ts',
      '__test__/broker/schedule-kills.spec.ts',
    ],
  },
  'broker-soak': {
    about:
      '20,000 turns of a broker over 200 sessions, every twentieth answer a fault, a restart after each 1,000: nothing is lost, and the memory is flat',
    env: { BROKER_SOAK_TURNS: '20000' },
    command: spec('broker/load/soak'),
  },
  postgres: {
    about:
      'PostgreSQL: 500 kills, stops and pauses of processes and of the server under 64 sessions, a standby that takes over, transactions that cannot be serialised, a pooler, 500 turns with lost answers, a full disk, an expired password, and 20 rounds of brokers that are killed: nothing is lost or doubled',
    env: {
      POSTGRES_KILLS: '500',
      POSTGRES_SESSIONS: '64',
      POSTGRES_PROCESSES: '4',
      POSTGRES_TURNS: '500',
      POSTGRES_BROKER_KILLS: '20',
      POSTGRES_TREES: '64',
    },
    command: [
      ...spec('ledger/host/postgres-faults'),
      '__test__/ledger/host/postgres-pooler.spec.ts',
      '__test__/broker/load/postgres.spec.ts',
    ],
  },
  queue: {
    about:
      'the rules of a queue against a naive reference, over 100,000 random histories of sends, offers, ends, cancels, crashes and clock steps',
    env: { PROPTEST_CASES: '100000' },
    command: core('a_queue_does_what_its_reference_does'),
  },
  agents: {
    about:
      'brokers whose agents give tasks, killed at any step, 50 times alone and 50 times beside two others: every task has one result',
    env: { AGENT_KILLS: '50' },
    command: spec('broker/agents/kills'),
  },
  budgets: {
    about: '64 trees of agents at once against one budget in money, from 3 processes, 10 times',
    env: { BUDGET_TREES: '64', BUDGET_ROUNDS: '10' },
    command: spec('broker/agents/budgets'),
  },
  storm: {
    about: '1,000 concurrent runs against a provider that refuses all, and then is a token bucket',
    env: { STORM_RUNS: '1000' },
    command: spec('providers/failover/refusal-storm'),
  },
  duplicates: {
    about: 'two processes submit the same run id at once, 200 times: one turn',
    env: { DUPLICATE_ROUNDS: '200' },
    command: spec('runs/duplicates'),
  },
  oracle: {
    about: 'the ledger beside a model in memory, 200 sequences',
    env: { LEDGER_CASES: '200' },
    command: core('the_ledger_agrees_with_a_model_in_memory'),
  },
  memory: {
    about:
      '200 kills of processes whose memory indexes and embeds, and a kill at every write and sync of one that extracts facts: each turn is indexed and extracted once',
    env: { MEMORY_KILLS: '200', EXTRACTION_KILLS: 'all' },
    command: [
      ...spec('ledger/memory/kills'),
      '__test__/ledger/memory/extraction-kills.spec.ts',
      '__test__/ledger/host/postgres-kills.spec.ts',
    ],
  },
  projection: {
    about: '100,000 histories, projected for each strict server',
    env: { PROJECTION_CASES: '100000' },
    command: core('conversation::tests::proof'),
  },
  fuzz: {
    about: '200,000 mutations of the corpus of each fuzz target',
    env: { NEXUS_FUZZ_RUNS: '200000' },
    command: core('fuzz::'),
  },
  hostile: {
    about: '20,000 hostile contexts, options, callbacks, signals and tool returns',
    env: { HOSTILE_CASES: '20000' },
    command: spec('node/hostile-values', 'addon'),
  },
  'given-histories': {
    about:
      '100,000 sequences of edits of a given history, each call as an engine that never saw it',
    env: { GIVEN_SEQUENCES: '100000' },
    command: spec('node/given-histories', 'addon'),
  },
  workspace: {
    about:
      'the file tools and commands for a minute while another thread swaps names for links that lead outside',
    env: { CODING_RACE_SECONDS: '60' },
    command: spec('tools/coding/hostile'),
  },
  shells: {
    about: 'a gigabyte of output of a command: less than 16 MiB more memory, and no process left',
    env: { SHELL_BYTES: '1000000000' },
    command: spec('tools/registry/rows/security'),
  },
  patches: {
    about:
      'a patch of 20 files, killed at every step, and its recovery killed at every step of it: all of it or nothing',
    env: { NEXUS_PATCH_KILLS: '1' },
    command: core('a_patch_that_is_killed'),
  },
  flips: {
    about: '1,000 changed bytes in live values of a ledger, each of which `verify()` finds',
    env: { FLIPS: '1000' },
    command: spec('ledger/damage/flipped-bytes'),
  },
  imports: {
    about: '2,000 mutated exports: refused by line, or `verify()` is clean',
    env: { MUTATIONS: '2000' },
    command: spec('ledger/transfer/import-mutations'),
  },
  migration: {
    about: 'a kill at every write of a migration',
    env: { MIGRATION_KILLS: 'all' },
    command: spec('recovery/migration-kills'),
  },
  'postgres-soak': {
    about: 'as broker-soak, with its ledger in PostgreSQL',
    env: { BROKER_SOAK_TURNS: '20000', POSTGRES_SPECS: 'all' },
    command: spec('broker/load/soak', 'postgres'),
  },
  'postgres-specs': {
    about: 'all specs of the ledger, the broker and the memory on a ledger in PostgreSQL',
    env: { POSTGRES_SPECS: 'all' },
    command: [process.execPath, join(root, 'crates', 'postgres', 'specs.mjs')],
  },
  eio: {
    about: 'an I/O error at every call of a turn, once and for good',
    env: { PROOF: 'eio' },
    command: spec('ledger/file/disk-errors'),
  },
  soak: {
    about: 'five hours of a host whose clock runs 60 times as fast, every twentieth answer a fault',
    env: { SOAK_MINUTES: '300' },
    command: spec('engine/soak'),
  },
  mcp: {
    about:
      "the protocol's own scenarios for MCP clients, logins among them (installed first, 51 MB); Node.js 22",
    env: {},
    command: ['bash', join(root, 'scripts', 'runtimes', 'mcp', 'run.sh')],
  },
  faces: {
    about:
      "pi's interfaces, `runAgent` and the command line from the packed package, with their type tests, on Node.js 20, 22 and 24",
    env: {},
    command: [process.execPath, join(root, 'scripts', 'runtimes', 'faces.mjs')],
  },
  bundlers: {
    about:
      'Next.js (installed first, 340 MB) builds and serves a route with a turn; all other bundles',
    env: { BUNDLERS: 'required' },
    command: ['bash', join(root, 'scripts', 'runtimes', 'next', 'run.sh')],
  },
  runtimes: {
    about: 'Bun and Deno (installed first, 200 MB) run the engine with all subpaths',
    env: { RUNTIMES: 'required' },
    command: ['bash', join(root, 'scripts', 'runtimes', 'run.sh')],
  },
  load: {
    about: 'the whole check, five times in a row, while two busy loops compete for the cores',
    env: {},
    command: ['bash', join(root, 'scripts', 'under-load.sh')],
  },
}

const [name] = process.argv.slice(2)
const proof = Object.hasOwn(proofs, name ?? '') ? proofs[name] : undefined
if (proof === undefined) {
  for (const [each, { about }] of Object.entries(proofs))
    console.log(`npm run proof:${each.padEnd(12)} ${about}`)
  process.exit(name === undefined ? 0 : 1)
}
const [command, ...args] = proof.command
const env = { ...process.env, ...proof.env }
const { status, error } = spawnSync(command, args, { cwd: root, env, stdio: 'inherit' })
if (error) throw error
process.exit(status ?? 1)
