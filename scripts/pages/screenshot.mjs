// Owns the picture of examples/web in docs/guide/web/web.md: `npm run screenshot` opens the page in a Chromium, with a model that answers from a
// script, and writes docs/guide/web/web.png. It must never call a real model. No test runs it: what the page does is proven in
// __test__/web/browser.spec.ts.

import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { chromium } from 'playwright-core'
import { chatServer } from '../../examples/web/chat-server.mjs'
import { AgentEngine } from '../../index.js'
import { gate, scriptedProvider, toolCall } from '../../testing.js'

const root = join(dirname(fileURLToPath(import.meta.url)), '../..')
const folder = mkdtempSync(join(tmpdir(), 'agent-engine-screenshot-'))
const end = gate()
const model = scriptedProvider([
  ['Let me look.', toolCall('thermometer', { where: 'outside' })],
  ['Eleven degrees outside. '],
  ['In the evening it will be ', end, 'colder.'],
])
const engine = new AgentEngine({
  ledger: { path: join(folder, 'agent.db') },
  providers: { demo: model },
})
const thermometer = { name: 'thermometer', run: () => ({ celsius: 11 }) }
const server = chatServer(engine, { provider: 'demo', model: 'scripted', tools: [thermometer] })
server.listen(0, '127.0.0.1')
await once(server, 'listening')

const executablePath =
  process.env.CHROMIUM ?? execFileSync('which', ['chromium'], { encoding: 'utf8' }).trim()
// It may run as root, which Chromium's sandbox refuses.
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] })
const page = await browser.newPage({ viewport: { width: 640, height: 420 }, colorScheme: 'light' })
await page.goto(`http://127.0.0.1:${server.address().port}`)

async function send(text, answer) {
  await page.fill('#text', text)
  await page.press('#text', 'Enter')
  await page.getByText(answer).last().waitFor()
}
await send('How warm is it?', 'Eleven degrees outside.')
await page.getByText('ready', { exact: true }).waitFor()
await send('And in the evening?', 'In the evening it will be')
await page.screenshot({ path: join(root, 'docs', 'guide', 'web.png') })

end.open()
await browser.close()
server.closeAllConnections()
server.close()
await engine.close()
rmSync(folder, { recursive: true, force: true })
