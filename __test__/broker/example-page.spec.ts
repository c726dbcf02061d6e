// The page of examples/broker in a real browser: a caller who writes, a worker that is given a task, an approval that the desk gives. It must
// never sleep: the page shows each state. Without a Chromium it reports that it is skipped.

import { once } from 'node:events'
import { mkdirSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { type Browser, chromium, type Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { brokerHost } from '../../examples/broker/host.mjs'
import { userTexts } from '../support/broker.js'
import { afterwards, folder, serving } from '../support/cleanup.js'
import { engineAt } from '../support/engine.js'
import { chromiumFor } from '../support/processes/chromium.js'
import { anthropic } from '../support/servers/anthropic.js'

const executablePath = chromiumFor('examples/broker')

/** A model that pays, gives a task to the coder, or answers. */
const model = () =>
  serving((response, seen) => {
    const text = userTexts(seen).at(-1) ?? ''
    const results = JSON.stringify(seen.body.messages.at(-1).content).includes('tool_result')
    const isCoder = JSON.stringify(seen.body.system).includes('fix code')
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    if (isCoder) response.end(anthropic.answer('The test is green.'))
    else if (results) response.end(anthropic.answer('It is done.'))
    else if (text.includes('refund')) {
      response.end(anthropic.calls(['c', 'refund', { order: '7', euros: 12 }]))
    } else if (text.includes('test')) {
      response.end(anthropic.calls(['c', 'spawn_agent', { agent: 'coder', task: 'Fix it.' }]))
    } else response.end(anthropic.answer('<b>Hello</b>'))
  })

/** The page of a host, which is closed after the test. */
async function opened(browser: Browser) {
  const { path, file } = folder()
  const workspace = join(path, 'house')
  mkdirSync(workspace)
  const engine = engineAt((await model()).url, { ledger: { path: file } })
  const host = brokerHost(engine, { model: { provider: 'test', model: 'test-model' }, workspace })
  host.server.listen(0, '127.0.0.1')
  await once(host.server, 'listening')
  afterwards(async () => {
    await host.close()
    await engine.close()
  })
  const page = await browser.newPage()
  afterwards(() => page.close())
  await page.goto(`http://127.0.0.1:${(host.server.address() as AddressInfo).port}`)
  await shows(page, 'ready')
  return { engine, page }
}

const shows = (page: Page, text: string) => page.getByText(text, { exact: true }).waitFor()

async function send(page: Page, text: string) {
  await page.fill('#text', text)
  await page.press('#text', 'Enter')
}

/** The lines of the log as the page shows them. */
function log(page: Page): Promise<[string, string][]> {
  return page.$$eval('#log > p', (lines) =>
    lines.map((line): [string, string] => [line.className, line.textContent ?? '']),
  )
}

describe.skipIf(executablePath === undefined)('the page of examples/broker', () => {
  let browser: Browser
  beforeAll(async () => {
    // The tests may run as root, which Chromium's sandbox refuses.
    browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] })
  })
  afterAll(() => browser.close())

  test('shows an answer as a text, and that of an agent whose worker has done the task', async () => {
    const { engine, page } = await opened(browser)
    await send(page, '<i>Hi</i>')
    await shows(page, '<b>Hello</b>')
    await send(page, 'Fix the test, please.')
    await shows(page, 'It is done.')
    await shows(page, 'ready')
    expect(await log(page)).toEqual([
      ['user', '<i>Hi</i>'],
      ['assistant', '<b>Hello</b>'],
      ['user', 'Fix the test, please.'],
      ['tool', 'spawn_agent: completed'],
      ['assistant', 'It is done.'],
    ])
    const { rows } = await engine.ledger.query('SELECT agent_id, status, text FROM dispatches')
    expect(rows).toEqual([{ agent_id: 'coder', status: 'ok', text: 'The test is green.' }])
  })

  test('asks the desk before money leaves, and the turn goes on with the decision', async () => {
    const { engine, page } = await opened(browser)
    await page.selectOption('#channel', 'shop')
    await shows(page, 'agent:support:shop:group:ann')
    await shows(page, 'ready')
    await send(page, 'A refund, please.')
    await page.getByText('refund {"order":"7","euros":12}').waitFor()
    // The desk sees it in another page, too.
    await page.click('#approvals button')
    await shows(page, 'refund: completed')
    await shows(page, 'It is done.')
    const { items } = await engine.approvals()
    expect(items.map(({ status, decidedBy }) => [status, decidedBy])).toEqual([
      ['approved', 'desk'],
    ])
  })
})
