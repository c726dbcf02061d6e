// Planned calls that a kill interrupts: they are recovered as those of a model are. It must never kill anything but its own children.

import { expect, test } from 'vitest'
import { afterwards, folder } from '../support/cleanup.js'
import { effectsOnce, look, resume } from '../support/processes/interrupted.js'
import { killable } from '../support/processes/killable.js'
import { counter } from '../support/servers/effect-counter.js'

const stops = ['pure', 'idempotent', 'reconcilable', 'unsafe'].flatMap((name) => [
  `before ${name} planned`,
  `after ${name} planned`,
])

test.each([...stops, 'before pure one'])(
  'killed %s, a turn with a plan is resumed to its end, and is not planned again',
  async (stopAt) => {
    const { file } = folder()
    const service = await counter()
    afterwards(() => service.close())
    const changes = { planned: true, rounds: 1 }
    const args = [file, service.url, 'run', 'main', JSON.stringify({ ...changes, stopAt })]
    const child = killable('recovery/recovery.mjs', args)
    await child.line(`at ${stopAt}`)
    child.kill()
    expect(await child.ended).toBe('SIGKILL')

    const [turn] = (await look(file)).listed
    if (turn === undefined) throw new Error('not listed')
    const result = await resume(file, service.url, turn, changes)
    expect([result.stopReason, result.persisted]).toEqual(['end_turn', true])
    expect(result.messages.map(({ role, provenance }) => provenance?.provider ?? role)).toEqual([
      'user',
      ...['planner', 'test'].flatMap((by) => [by, ...Array(4).fill('tool')]),
      'test',
    ])
    expect(result.plans).toMatchObject([
      { kind: 'tools', reason: 'all of them', messageId: result.messages[1]?.id },
    ])
    effectsOnce(service, result, 1)
    const { head } = await look(file)
    expect(head?.attempts.filter(({ purpose }) => purpose === 'plan')).toHaveLength(1)
  },
)
