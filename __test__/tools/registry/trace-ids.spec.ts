// One id for each call of a tool: in the result, the events, the row, the log and the span, whether the tool ran or not. It must never look at a text
// of the log other than its fields.

import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { folder } from '../../support/cleanup.js'

interface Traced {
  turnId: string
  runId: string
  calls: [callId: string, tool: string, ok: boolean][]
  ended: [callId: string, tool: string, ok: boolean][]
  rows: [callId: string, tool: string][]
}

test('each call of a tool has one id in result, events, row, log and span, and its line names the run', async () => {
  const child = join(import.meta.dirname, '../../children/tools/trace.mjs')
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [child, folder().file], {
    env: { ...process.env, NEXUS_AGENT_ENGINE_LOG: 'debug' },
  })
  const { turnId, runId, calls, ended, rows }: Traced = JSON.parse(stdout)
  expect(calls.map(([, tool, ok]) => [tool, ok])).toEqual([
    // The planner's, before the model's.
    ['look', true],
    ['look', true],
    ['ls', true],
    ['fails', false],
    ['denied', false],
    ['missing', false],
    ['strict', false],
  ])
  for (const [id] of calls) expect(id).toMatch(/^[0-9A-HJKMNP-TV-Z]{26}$/)
  expect(new Set(calls.map(([id]) => id)).size).toBe(calls.length)
  const sorted = <T extends [string, ...unknown[]]>(list: T[]) =>
    list.toSorted(([one], [other]) => one.localeCompare(other))
  expect(sorted(ended)).toEqual(sorted(calls))
  expect(sorted(rows)).toEqual(sorted(calls.map(([id, tool]): [string, string] => [id, tool])))

  const lines = stderr.split('\n').filter((line) => line.includes('agent.tool.ended'))
  const logged = lines.map((line): [string, string, boolean] => {
    const {
      id = '',
      tool = '',
      ok,
    } = /agent\.tool\.ended tool="(?<tool>\w+)" call_id="(?<id>\w+)" ran=\w+ ok=(?<ok>\w+)/.exec(
      line,
    )?.groups ?? {}
    expect(line).toContain(`agent.run{turn_id="${turnId}" run_id="${runId}"`)
    return [id, tool, ok === 'true']
  })
  expect(sorted(logged)).toEqual(sorted(calls))

  // What a tool that runs does is in a span of its own, within that of the run.
  const spans = stderr.split('\n').flatMap((line) => {
    const span = /agent\.run\{[^}]+\}:agent\.tool\{tool="(?<tool>\w+)" call_id="(?<id>\w+)"\}/.exec(
      line,
    )
    const { id = '', tool = '' } = span?.groups ?? {}
    return line.includes('agent.tool.began') ? [[id, tool] as [string, string]] : []
  })
  const ran = calls.filter(([, tool]) => ['look', 'ls', 'fails'].includes(tool))
  expect(sorted(spans)).toEqual(sorted(ran.map(([id, tool]): [string, string] => [id, tool])))
})
