// The host's own SQL with its limits, and the arguments that the reads refuse. It must never test lists: ledger/lists.spec.ts does.

import { describe, expect, test } from 'vitest'
import { AgentEngine, scriptedProvider } from '../../index.js'
import { closing } from '../support/cleanup.js'
import { context } from '../support/engine.js'
import { refusal } from '../support/ledger/sqlite3.js'
import { fullUsage as usage } from '../support/ledger/turn-input.js'
import { pricedLedger } from '../support/ledger/two-tools.js'

describe('query', () => {
  test('binds values of every kind, and returns SQLite’s conversion', async () => {
    const { ledger } = pricedLedger()
    const answer = await ledger.query(
      `SELECT ? AS text, ? AS whole, ? AS part, ? AS yes, ? AS no, ? AS none, typeof(?) AS kind, ? AS big`,
      ["it's; --", 42, 0.5, true, false, null, 1, Number.MAX_SAFE_INTEGER],
    )
    const columns = ['text', 'whole', 'part', 'yes', 'no', 'none', 'kind', 'big']
    expect(answer).toEqual({
      columns,
      rows: [
        {
          text: "it's; --",
          whole: 42,
          part: 0.5,
          yes: 1,
          no: 0,
          none: null,
          kind: 'integer',
          big: Number.MAX_SAFE_INTEGER,
        },
      ],
      truncated: null,
    })
  })

  test('numbers beyond 2^53 are text, blobs are hex, and a repeated column has a number', async () => {
    const { ledger } = pricedLedger()
    expect(await ledger.query("SELECT 9007199254740993 AS a, x'00ff' AS a, 1e999 AS c")).toEqual({
      columns: ['a', 'a_2', 'c'],
      rows: [{ a: '9007199254740993', a_2: '00ff', c: 'inf' }],
      truncated: null,
    })
  })

  test('reports when rows are left out', async () => {
    const { ledger } = pricedLedger()
    const counting =
      'WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) SELECT i FROM n'
    const many = await ledger.query(counting, [10_001])
    expect([many.rows.length, many.truncated]).toEqual([10_000, 'rows'])
    const wide = await ledger.query(`SELECT hex(zeroblob(4000000)) AS h FROM (${counting})`, [9])
    expect([wide.rows.length < 9, wide.truncated]).toEqual([true, 'bytes'])
  })

  test.each([
    "INSERT INTO sessions (label, created_at, updated_at) VALUES ('x', 1, 1)",
    'UPDATE turns SET status = status',
    'DELETE FROM turns',
    'DROP TABLE turns',
    'CREATE TABLE t (x)',
    'CREATE TEMP TABLE t (x)',
    'PRAGMA user_version',
    'PRAGMA journal_mode = DELETE',
    "ATTACH ':memory:' AS other",
    'VACUUM',
    "VACUUM INTO '/tmp/agent-engine-copy.db'",
    'BEGIN IMMEDIATE',
    'SELECT 1; SELECT 2',
    "SELECT load_extension('x')",
    "SELECT writefile('/tmp/x', 'y')",
    'SELECT * FROM nowhere',
    'SELECT * FROM turns WHERE id = "x"',
    'EXPLAIN DELETE FROM turns',
    'SELEC 1',
    '',
    '-- nothing',
  ])('refuses `%s`', async (sql) => {
    const { ledger } = pricedLedger()
    expect(await refusal(ledger.query(sql))).toEqual({ code: 'invalid_query' })
  })

  test('refuses values that SQLite or JSON cannot represent, and wrong counts of parameters', async () => {
    const { ledger } = pricedLedger()
    const bad = (params: unknown[]) => refusal(ledger.query('SELECT ?', params as never))
    const at = (field: string) => ({ code: 'invalid_query', field })
    expect([
      await bad([1n]),
      await bad([undefined]),
      await bad([{}]),
      await bad([new Date()]),
      await bad([Number.NaN]),
      await bad([Number.POSITIVE_INFINITY]),
      await bad(['a', Symbol('b')]),
      await bad('a' as never),
      await bad([]),
      await bad([1, 2]),
      await refusal(ledger.query(undefined as never)),
    ]).toEqual([
      at('params[0]'),
      at('params[0]'),
      at('params[0]'),
      at('params[0]'),
      at('params[0]'),
      at('params[0]'),
      at('params[1]'),
      at('params'),
      { code: 'invalid_query' },
      { code: 'invalid_query' },
      at('sql'),
    ])
  })

  test('an endless query is stopped, and others continue meanwhile', async () => {
    const { engine, ledger } = pricedLedger(['ok'])
    const endless = refusal(
      ledger.query(
        'WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n',
      ),
    )
    const result = await engine.run(context()).result
    expect((await ledger.turn(result.turnId))?.status).toBe('completed')
    expect(await endless).toEqual({ code: 'invalid_query' })
  })
})

describe('the other reads', () => {
  test('an unknown row is null, or an error with its code', async () => {
    const { ledger } = pricedLedger()
    expect([await ledger.turn('nowhere'), await ledger.session('nowhere')]).toEqual([null, null])
    expect(await refusal(ledger.history('nowhere'))).toEqual({ code: 'unknown_session' })
    expect(await refusal(ledger.fork('nowhere'))).toEqual({ code: 'unknown_turn' })
  })

  test('an argument of a wrong type is named', async () => {
    const { ledger } = pricedLedger()
    expect([
      await refusal(ledger.turn(1 as never)),
      await refusal(ledger.session(null as never)),
      await refusal(ledger.history(undefined as never)),
      await refusal(ledger.fork({} as never)),
      await refusal(ledger.fork('t', 1 as never)),
    ]).toEqual([
      { code: 'invalid_context', field: 'id' },
      { code: 'invalid_label', field: 'label' },
      { code: 'invalid_context', field: 'labelOrTurnId' },
      { code: 'invalid_context', field: 'turnId' },
      { code: 'invalid_label', field: 'label' },
    ])
  })

  test('half a surrogate pair is refused in a label and an id, and is U+FFFD in stored texts', async () => {
    const { engine, ledger } = pricedLedger(['ok'])
    const half = 'half \ud83d'
    expect(() => engine.run(context({ sessionLabel: half }))).toThrow(
      expect.objectContaining({ code: 'invalid_label', field: 'sessionLabel' }),
    )
    expect([
      await refusal(ledger.session(half)),
      await refusal(ledger.turn(half)),
      await refusal(ledger.query('SELECT ?1', [half])),
      await refusal(ledger.sessions({ labelPrefix: half } as never)),
    ]).toEqual([
      { code: 'invalid_label', field: 'label' },
      { code: 'invalid_context', field: 'id' },
      { code: 'invalid_query', field: 'params[0]' },
      { code: 'invalid_query', field: 'filter.labelPrefix' },
    ])
    const written = await ledger.writeTurn(context(), {
      messages: [{ id: 'a', role: 'user', content: '\ude00', sequence: 0, createdAt: 1 }],
      toolCalls: [],
      usage: { ...usage, totalTokens: 1 },
      stopReason: 'end_turn',
      durationMs: 0,
    })
    expect((await ledger.turn(written))?.messages[0]?.content).toBe('\ufffd')
  })

  test('without a ledger, reading `ledger` names the option to pass', () => {
    const engine = new AgentEngine({ providers: { test: scriptedProvider([]) } })
    closing(engine)
    expect(() => engine.ledger).toThrow(
      expect.objectContaining({ code: 'no_ledger', field: 'ledger' }),
    )
  })
})
