// The page of examples/web in a real browser: chat, a tool, a lost connection, steering, a reload, abort, a failure. It must never sleep: gates
// of the scripted model hold each state until the page shows it. Without a Chromium it reports that it is skipped.

import type { AddressInfo } from 'node:net'
import { type Browser, chromium, type Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { chatServer } from '../../examples/web/chat-server.mjs'
import type { ScriptedReply } from '../../index.js'
import { afterwards, closing, folder } from '../support/cleanup.js'
import { scriptedEngine } from '../support/engine.js'
import { chromiumFor } from '../support/processes/chromium.js'

const executablePath = chromiumFor('examples/web')

const thermometer = { name: 'thermometer', run: () => '11' }
const heating = { name: 'heating', permission: 'ask' as const, run: () => 'on' }

/** The page, with a model that answers by a script. */
async function opened(browser: Browser, replies: ScriptedReply[]) {
  const { file } = folder()
  const { engine, provider } = scriptedEngine(replies, { ledger: { path: file } })
  closing(engine)
  const tools = [thermometer, heating]
  const server = chatServer(engine, { provider: 'test', model: 'test-model', tools })
  const lastIds: (string | undefined)[] = []
  server.on('request', ({ url, headers }) => {
    if (url?.startsWith('/events')) lastIds.push(headers['last-event-id'] as string | undefined)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  afterwards(() => {
    server.closeAllConnections()
    return new Promise((resolve) => server.close(resolve))
  })
  const page = await browser.newPage()
  afterwards(() => page.close())
  const { port } = server.address() as AddressInfo
  await page.goto(`http://127.0.0.1:${port}`)
  return { engine, provider, server, page, lastIds }
}

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

const shows = (page: Page, text: string) => page.getByText(text, { exact: true }).waitFor()

describe.skipIf(executablePath === undefined)('the page of examples/web', () => {
  let browser: Browser
  beforeAll(async () => {
    // The tests may run as root, which Chromium's sandbox refuses.
    browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] })
  })
  afterAll(() => browser.close())

  test('shows a chat with its tool; a lost connection and a message while it answers cost nothing', async () => {
    const call = { name: 'thermometer', arguments: {} }
    const { engine, provider, server, page, lastIds } = await opened(browser, [
      { steps: [{ text: 'Let me look.' }, { toolCall: call }] },
      {
        steps: [
          { text: 'It is ' },
          { gate: 'a' },
          { text: 'eleven.' },
          { gate: 'b' },
          { text: ' Yes.' },
        ],
      },
      'Inside it is warmer.',
    ])
    await send(page, 'How warm is it?')
    await shows(page, 'It is')
    server.closeAllConnections()
    await shows(page, 'reconnecting')
    provider.open('a')
    await shows(page, 'It is eleven.')
    await send(page, 'And inside?')
    await shows(page, 'And inside?')
    provider.open('b')
    await shows(page, 'ready')
    expect(await log(page)).toEqual([
      ['user', 'How warm is it?'],
      ['assistant', 'Let me look.'],
      ['tool', 'thermometer: completed'],
      ['assistant', 'It is eleven. Yes.'],
      ['user steered', 'And inside?'],
      ['assistant', 'Inside it is warmer.'],
    ])
    const { rows } = await engine.ledger.query('SELECT status, stop_reason FROM turns')
    expect(rows).toEqual([{ status: 'completed', stop_reason: 'end_turn' }])
    // The browser continued after the last event that it had.
    expect(lastIds.length).toBeGreaterThanOrEqual(2)
    expect(lastIds[0]).toBeUndefined()
    expect(lastIds.slice(1).map(Number).every(Number.isSafeInteger)).toBe(true)
  })

  test('goes on with its run after a reload, and stops it', async () => {
    const { engine, page } = await opened(browser, [
      { steps: [{ text: 'For ever ' }, { gate: 'never' }] },
      'Again.',
    ])
    await send(page, 'How long?')
    await shows(page, 'For ever')
    await page.reload()
    await shows(page, 'For ever')
    await page.click('#stop')
    await shows(page, 'ready')
    const { rows } = await engine.ledger.query('SELECT status, stop_reason FROM turns')
    expect(rows).toEqual([{ status: 'aborted', stop_reason: 'aborted' }])
    // The session goes on.
    await send(page, 'And now?')
    await shows(page, 'Again.')
    await page.waitForSelector('#stop:disabled')
  })

  test('asks before a tool that needs an approval, also after a reload', async () => {
    const call = { name: 'heating', arguments: { on: true } }
    const { engine, page } = await opened(browser, [
      { toolCalls: [call] },
      'It is on.',
      { toolCalls: [call] },
      'It stays off.',
    ])
    await send(page, 'Turn it on.')
    await shows(page, 'heating {"on":true}')
    await page.reload()
    await shows(page, 'heating {"on":true}')
    await page.click('#approve')
    await shows(page, 'It is on.')
    await shows(page, 'ready')
    await page.waitForSelector('#approval', { state: 'hidden' })
    await send(page, 'Again.')
    await shows(page, 'heating {"on":true}')
    await page.click('#deny')
    await shows(page, 'It stays off.')
    const { items: found } = await engine.approvals()
    expect(found.map(({ status, decidedBy }) => [status, decidedBy])).toEqual([
      ['approved', 'page'],
      ['denied', 'page'],
    ])
  })

  test('shows a text as a text, and why a run failed', async () => {
    const { page } = await opened(browser, [
      '<img src=x onerror=alert(1)>',
      { error: { status: 400, message: 'nothing of that kind' } },
    ])
    await send(page, '<b>bold</b>')
    // The page is ready before it begins, too.
    await shows(page, '<img src=x onerror=alert(1)>')
    await shows(page, 'ready')
    expect(await log(page)).toEqual([
      ['user', '<b>bold</b>'],
      ['assistant', '<img src=x onerror=alert(1)>'],
    ])
    await send(page, 'again')
    await page.getByText(/^failed: .*nothing of that kind/).waitFor()
  })
})
