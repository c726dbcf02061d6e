// From medians to the table: ratios to the floor, targets, verdicts, and how busy the machine was.
// It must never call a target met that the figures do not meet.

import { OTHERS, OURS, VARIANTS } from './plan.mjs'

/** One line per row of the plan. `results`: `{ workload, summary }` in the order they were measured. */
export function table(results, wire) {
  const columns = [
    ...[...OURS, ...VARIANTS].map((adapter) => ({ title: adapter, adapter })),
    ...OTHERS,
  ].filter((column) =>
    results.some(
      ({ workload, summary }) =>
        figureOf(column, workload, summary, workload.rows[0].metric) !== undefined,
    ),
  )
  const lines = results.flatMap(({ workload, summary }) =>
    workload.rows.map((row) => {
      const floor = summary[workload.floor]?.[row.metric]
      const cells = columns.map((column) =>
        cell(figureOf(column, workload, summary, row.metric), floor, column.floor),
      )
      // The targets are set for the Anthropic wire.
      const judged = verdicts(wire === 'anthropic' ? row : { ...row, targets: {} }, summary, floor)
      return [`${workload.title}: ${row.title}`, ...cells, judged.target, judged.verdict]
    }),
  )
  const head = ['Workload', ...columns.map(({ title }) => title), 'Target', 'Verdict']
  const rule = head.map((_, at) => (at === 0 || at >= head.length - 2 ? '---' : '--:'))
  return [head, rule, ...lines].map((line) => `| ${line.join(' | ')} |`).join('\n')
}

function figureOf({ adapter, floor }, workload, summary, metric) {
  return summary[floor ? workload.floor : adapter]?.[metric]
}

function cell(figure, floor, isFloor) {
  if (figure === undefined) return '–'
  if (isFloor || !floor) return shown(figure)
  return `${shown(figure)} (${(figure / floor).toFixed(2)}×)`
}

function shown(figure) {
  if (figure >= 1000) return Math.round(figure).toLocaleString('en-US')
  if (figure >= 100) return figure.toFixed(0)
  return figure.toFixed(figure >= 10 ? 1 : figure >= 1 ? 2 : 3)
}

/** The targets of a row in words, and whether the figures meet them. */
function verdicts(row, summary, floor) {
  const judged = Object.entries(row.targets).map(([adapter, target]) => {
    const name = adapter.replace('nexus-', '')
    const figure = summary[adapter]?.[row.metric]
    return {
      target: `${name} ${inWords(target)}`,
      verdict: `${name} ${judge(figure, target, floor, row.floorWas)}`,
    }
  })
  const join = (field) => judged.map((one) => one[field]).join('; ') || '–'
  return { target: join('target'), verdict: join('verdict') }
}

function inWords({ ratio, plus, max, min }) {
  if (min !== undefined) return `≥ ${shown(min)}`
  if (ratio !== undefined) return `≤ ${ratio} × floor`
  if (plus !== undefined) return `≤ floor + ${plus}`
  return `≤ ${shown(max)}`
}

function judge(figure, { ratio, plus, max, min }, floor, floorWas) {
  if (figure === undefined) return 'not measured'
  if (min !== undefined)
    return figure >= min ? '**met**' : `**missed**: ${times(figure / min)} the target`
  if (max !== undefined) {
    if (figure <= max) return '**met**'
    const slower = floor && floorWas ? Math.max(1, floor / floorWas) : 1
    const scaled = max * slower
    if (figure <= scaled) return `met as scaled (≤ ${shown(scaled)})`
    const also = slower > 1 ? `, ${times(figure / scaled)} as scaled` : ''
    return `**missed**: ${times(figure / max)} the target${also}`
  }
  if (floor === undefined) return 'no floor to hold it against'
  const limit = ratio === undefined ? floor + plus : floor * ratio
  return figure <= limit ? '**met**' : `**missed**: ${times(figure / limit)} the target`
}

function times(ratio) {
  return `${ratio.toFixed(2)} ×`
}

/** The conditions that a reader of the table must know. */
export function remarks(
  results,
  { alone, node, server, wire, reps, missing, lacking, engineError, ledgers },
) {
  const rows = results.flatMap(({ rows }) => rows)
  const loads = rows.map(({ load }) => load).filter(Number.isFinite)
  const waited = rows.filter((row) => row.wall_ms > 0 && row.wait_ms >= 0)
  const share = waited
    .map((row) => row.wait_ms / Math.max(row.wall_ms, row.wait_ms))
    .sort((a, b) => a - b)
  const median = share[share.length >> 1] ?? 0
  const lines = [
    `Medians of ${reps} interleaved runs, ${wire} wire, ${node}, ${server === 'rs' ? 'Rust' : 'Node'} server; in brackets the ratio to napi-floor. Ledgers in \`${ledgers}\`.`,
    `"Met as scaled": over the absolute figure, but the floor is as much slower here than on the reference machine.`,
    `Load average ${Math.min(...loads).toFixed(1)} to ${Math.max(...loads).toFixed(1)}; the median run waited ${(median * 100).toFixed(0)} % of its time for a core${median > 0.1 ? ': **noisy, do not quote**' : ''}.`,
  ]
  if (alone) {
    lines.push(
      'No shared bench here: our engine alone, over a server of this project. Set NEXUS_BENCH.',
    )
  } else if (missing.length > 0) {
    const names = missing.join(', ')
    lines.push(`Not installed, so not measured: ${names} (\`npm run bench -- --install\`).`)
  }
  if (lacking.length > 0) lines.push(`Not installed, so not counted: ${lacking.join(', ')}.`)
  if (engineError) lines.push(`**Our engine was not measured**: ${engineError}`)
  for (const { workload, summary } of results) {
    for (const [adapter, { error }] of Object.entries(summary)) {
      if (error)
        lines.push(
          `${workload.id} ${adapter} failed: \`${error.trim().split('\n')[0].slice(0, 200)}\``,
        )
    }
  }
  return lines.map((line) => `- ${line}`).join('\n')
}
