// An engine with a scripted MCP server: prints the server's number, and waits to be killed. It must never close the engine.
import { fileURLToPath } from 'node:url'
import { AgentEngine, scriptedProvider } from '../../../index.js'

const args = [fileURLToPath(new URL('./server.mjs', import.meta.url)), '{}']
const engine = new AgentEngine({
  providers: {
    test: scriptedProvider([{ toolCalls: [{ name: 's__about', arguments: {} }] }, 'done']),
  },
  mcp: { s: { command: process.execPath, args } },
})
const { toolCalls } = await engine.run('hi', { model: 'test/scripted' }).result
console.log(`server ${JSON.parse(toolCalls[0].result.content[0].text).pid}`)
setInterval(() => {}, 1_000)
