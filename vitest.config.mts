// Owns how the JavaScript tests run: `addon` are the specs that run on every Node.js, `once` (the default
// for a new spec) those that run on one of them, and `package` packs and installs the addon. It joins `lib/` again;
// it must never build the addon: `scripts/test.sh` decides which one is tested.
import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import { ofTheFile, selection, shared } from './__test__/support/ledger/backends.mjs'

/** The specs that take longest, longest first: one that begins last is waited for alone. */
const long = [
  'ledger/file/disk-errors',
  'recovery/approval-kills',
  'providers/failover/refusal-storm',
  'providers/recorded-exchanges',
  'recovery/deletion-kills',
  'broker/elsewhere',
  'ledger/leases',
  'broker/deliveries',
  'recovery/interrupted-turns',
  'recovery/power-cuts',
  'ledger/transfer/jsonl',
  'providers/aimock',
  'ledger/disk',
  'ledger/maintenance',
].map((name) => `/__test__/${name}.spec.ts`)

class LongestFirst extends BaseSequencer {
  override async sort(specs: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) => {
      const at = long.findIndex((name) => moduleId.endsWith(name))
      return at < 0 ? long.length : at
    }
    return (await super.sort(specs)).sort((one, other) => rank(one) - rank(other))
  }
}

// Node itself loads the shipped files, so that a test sees the named exports which a user sees.
const shipped = [
  /\/(?:index|web|testing|ai-sdk|run-agent|pi-ai|pi-agent|pi-session)\.js$/,
  /\.node$/,
]

/** Specs of what depends on the Node.js: events, callbacks, signals, promises, workers, objects of the caller. */
const everyNode = [
  'docs/readme',
  'engine/abort',
  'engine/requests',
  'engine/result',
  'engine/run-timeout',
  'engine/steering',
  'ledger/reads',
  'ledger/rows',
  'ledger/run-end',
  'ledger/write-turn',
  'node/bad-context',
  'node/bad-messages',
  'node/bad-options',
  'node/exports',
  'node/given-histories',
  'node/hostile-values',
  'node/lifecycle',
  'node/throwing-callbacks',
  'node/workers',
  'streams/callbacks',
  'streams/readers',
  'streams/streams',
  'tools/pi-tools',
  'tools/tool-faults',
  'tools/tool-generators',
  'tools/tool-loop',
  'tools/tool-order',
  'tools/tool-results',
  'tools/tool-retries',
  'web/disconnect',
  'web/format',
  'web/reconnect',
  'web/requests',
].map((name) => `__test__/${name}.spec.ts`)

const common = {
  environment: 'node' as const,
  // A process of its own per file: a crash of the addon fails one file, and leaks do not add up.
  pool: 'forks' as const,
  // A test mostly waits: for servers, children, the disk.
  maxWorkers: 4,
  testTimeout: 60_000,
  hookTimeout: 60_000,
  // What is waited for comes when the machine has time for it.
  expect: { poll: { timeout: 30_000 } },
  server: { deps: { external: shipped } },
}

export default defineConfig({
  test: {
    sequence: { sequencer: LongestFirst },
    globalSetup: ['scripts/bundle.mjs'],
    projects: [
      {
        test: {
          ...common,
          name: 'addon',
          include: everyNode,
        },
      },
      {
        test: {
          ...common,
          name: 'once',
          include: ['__test__/**/*.spec.ts'],
          exclude: ['__test__/package/**', ...everyNode],
        },
      },
      {
        test: {
          ...common,
          name: 'postgres',
          include: (process.env.POSTGRES_SPECS === 'all' ? shared : selection).map(
            (name) => `__test__/${name}.spec.ts`,
          ),
          exclude: Object.keys(ofTheFile).map((name) => `__test__/${name}.spec.ts`),
          env: { LEDGER: 'postgres' },
          globalSetup: ['__test__/support/ledger/server-setup.ts'],
          setupFiles: ['__test__/support/ledger/backend-setup.ts'],
        },
      },
      {
        test: {
          ...common,
          name: 'package',
          include: ['__test__/package/**/*.spec.ts'],
          testTimeout: 180_000,
        },
      },
    ],
  },
})
