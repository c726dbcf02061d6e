// The workloads and targets of docs/rules/performance.md as data.
// A target must never be relaxed to fit a measurement; a missed one is reported with its cause.

/** Our adapters: in memory, with the ledger on disk, and in memory read by callbacks. */
export const OURS = ['nexus-mem', 'nexus-ledger', 'nexus-cb']

/** Other choices of what the ledger stores, measured only where `--adapters` names them. */
export const VARIANTS = ['nexus-silent', 'nexus-final']

/** The columns of the table after ours, by their names in the harness. `floor` is the row's own napi floor. */
export const OTHERS = [
  { title: 'napi-floor', floor: true },
  { title: 'rust-floor', adapter: 'rust-floor' },
  { title: 'Node http', adapter: 'floor-http' },
  { title: 'pi 0.73', adapter: 'pi-agent-latest' },
  { title: 'pi 0.54', adapter: 'pi-agent-054' },
]

/** One commit of a turn at synchronous=FULL by rusqlite alone, in milliseconds (docs/rules/performance.md#targets, W6). */
const COMMIT = 0.2

/**
 * A workload: `args` are passed to the harness, `floor` is the napi floor it is compared with, `rows` are the lines of the
 * table. A row's `floorWas` is the time of that floor on the reference machine: an absolute target is scaled by how much
 * slower it is here. A target is `ratio` (times the floor), `plus` (over the floor), or `max` or `min` (absolute).
 */
export const PLAN = [
  {
    id: 'w1',
    title: 'W1 one stream of 20,000 tokens',
    floor: 'napi-hub',
    rows: [
      {
        title: 'CPU µs per token',
        metric: 'cpu_us_per_token',
        floorWas: 1.57,
        targets: { 'nexus-mem': { ratio: 1.25 } },
      },
      {
        title: 'peak RSS, MB',
        metric: 'rss_peak_mb',
        floorWas: 59,
        targets: { 'nexus-mem': { plus: 10 } },
      },
    ],
  },
  {
    id: 'w2',
    title: 'W2 500 one-token calls',
    floor: 'napi-hub',
    quick: { calls: 200 },
    rows: [
      {
        title: 'CPU ms per call',
        metric: 'cpu_ms_per_call',
        floorWas: 0.114,
        targets: { 'nexus-mem': { ratio: 1.5 }, 'nexus-ledger': { max: 0.45 } },
      },
      {
        title: 'first token p50, ms',
        metric: 'ttft_p50',
        floorWas: 0.137,
        targets: { 'nexus-mem': { max: 0.2 } },
      },
      {
        title: 'first token p99, ms',
        metric: 'ttft_p99',
        floorWas: 0.26,
        targets: { 'nexus-mem': { max: 0.5 } },
      },
      // `server_conns` does not show it: a connection per call means that the pool is not used. One is right.
      { title: 'connections opened', metric: 'server_conns', targets: {} },
    ],
  },
  {
    id: 'counts',
    title: 'W2 counted',
    workload: 'w2',
    floor: 'napi-hub',
    rows: [
      {
        title: 'instructions per call',
        metric: 'instructions_per_call',
        targets: { 'nexus-mem': { max: 500_000 } },
      },
      { title: 'system calls per call', metric: 'syscalls_per_call', targets: {} },
      { title: 'syncs per call', metric: 'fsyncs_per_call', targets: {} },
      { title: 'writes to the log per call', metric: 'logWrites_per_call', targets: {} },
      {
        title: 'bytes to the log per call',
        metric: 'logBytes_per_call',
        targets: { 'nexus-ledger': { max: 56_000 } },
      },
    ],
  },
  {
    id: 'w3',
    title: 'W3 25 tool rounds',
    floor: 'napi-batch',
    rows: [
      {
        title: 'ms per round',
        metric: 'wall_ms_per_round',
        floorWas: 0.127,
        targets: { 'nexus-mem': { max: 0.2 }, 'nexus-ledger': { max: 0.2 + COMMIT } },
      },
    ],
  },
  {
    id: 'w3par',
    title: 'W3 25 rounds of 8 parallel tools',
    workload: 'w3',
    set: { par: 8 },
    floor: 'napi-batch',
    rows: [
      {
        title: 'ms per round',
        metric: 'wall_ms_per_round',
        floorWas: 0.273,
        targets: { 'nexus-mem': { max: 0.4 } },
      },
    ],
  },
  {
    id: 'w3args',
    title: 'W3 streamed arguments of 200 KB',
    workload: 'w3',
    set: { rounds: 1, argbytes: 200_000 },
    floor: 'napi-batch',
    // Engines that parse the arguments again with each fragment take 20 to 30 s a run: they get one, and no warm-up.
    slow: { adapters: ['pi-agent-latest', 'pi-agent-054'], set: { reps: 1, warmup: 0 } },
    rows: [
      {
        title: 'CPU ms',
        metric: 'cpu_ms',
        floorWas: 12.6,
        targets: { 'nexus-mem': { ratio: 1.5 } },
      },
    ],
  },
  {
    id: 'w4',
    title: 'W4 200 streams × 50 tokens/s',
    set: { streams: 200 },
    floor: 'napi-hub5ms',
    rows: [
      {
        title: 'CPU µs per token',
        metric: 'cpu_us_per_token',
        floorWas: 8.4,
        targets: { 'nexus-mem': { max: 10 } },
      },
    ],
  },
  {
    id: 'w4k',
    title: 'W4 1,000 streams × 50 tokens/s',
    workload: 'w4',
    set: { streams: 1000 },
    floor: 'napi-hub5ms',
    rows: [
      {
        title: 'event-loop lag p99, ms',
        metric: 'lag_p99',
        floorWas: 2.1,
        targets: { 'nexus-mem': { max: 3 } },
      },
      {
        title: 'peak RSS, MB',
        metric: 'rss_peak_mb',
        floorWas: 95,
        targets: { 'nexus-mem': { max: 110 } },
      },
    ],
  },
  {
    id: 'w5short',
    title: 'W5 history of 200 messages',
    workload: 'w5',
    set: { messages: 200 },
    floor: 'napi-hub',
    rows: [{ title: 'ms per call, warm', metric: 'wall_ms', targets: {} }],
  },
  {
    id: 'w5',
    title: 'W5 history of 2,000 messages',
    set: { messages: 2_000 },
    floor: 'napi-hub',
    rows: [
      {
        title: 'ms per call, warm',
        metric: 'wall_ms',
        floorWas: 0.42,
        targets: { 'nexus-ledger': { max: 0.6 } },
      },
    ],
  },
  {
    id: 'w5long',
    title: 'W5 history of 20,000 messages',
    workload: 'w5',
    set: { messages: 20_000 },
    floor: 'napi-hub',
    rows: [
      {
        title: 'ms per call, warm',
        metric: 'wall_ms',
        floorWas: 3.4,
        targets: { 'nexus-ledger': { max: 4 }, 'nexus-mem': { max: 5 } },
      },
    ],
  },
  {
    id: 'w6',
    title: 'W6 turns with two tool calls, each synced',
    floor: 'none',
    rows: [
      { title: 'one session, p50 ms', metric: 'commit_p50_ms', targets: {} },
      { title: 'one session, turns/s', metric: 'turns_per_s_1', targets: {} },
      {
        title: '64 sessions, turns/s',
        metric: 'turns_per_s_64',
        targets: { 'nexus-ledger': { min: 12_000 } },
      },
      { title: '64 sessions, CPU ms per turn', metric: 'cpu_ms_per_turn_64', targets: {} },
    ],
  },
  {
    id: 'w7',
    title: 'W7 start',
    floor: 'napi-floor',
    rows: [
      { title: 'import, ms', metric: 'import_ms', targets: { 'nexus-mem': { max: 5 } } },
      {
        // An engine that is ready and idle: ours with a client, and with an open ledger.
        title: 'memory over bare Node, MB',
        metric: 'rss_over_bare_mb',
        targets: { 'nexus-mem': { max: 8 }, 'nexus-ledger': { max: 8 } },
      },
    ],
  },
]

/** The workloads that `--only` names: an id, or a `w3` for all that begin with it. */
export function chosen(only) {
  if (only.length === 0) return PLAN
  const wanted = PLAN.filter(({ id }) => only.some((name) => id === name || id.startsWith(name)))
  if (wanted.length === 0) {
    throw new Error(
      `--only \`${only.join(',')}\` names no workload; there are ${PLAN.map(({ id }) => id).join(', ')}`,
    )
  }
  return wanted
}
