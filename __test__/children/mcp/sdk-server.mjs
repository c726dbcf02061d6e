// A server of the protocol's own library, which speaks both of its forms over stdin and stdout. It must never do more than add.

import { McpServer } from '@modelcontextprotocol/server'
import { serveStdio } from '@modelcontextprotocol/server/stdio'
import * as z from 'zod'

serveStdio(
  () => {
    const server = new McpServer({ name: 'adder', version: '1.0.0' })
    const schemas = {
      inputSchema: z.object({ a: z.number(), b: z.number() }),
      outputSchema: z.object({ sum: z.number() }),
    }
    server.registerTool('add', schemas, async ({ a, b }) => ({
      content: [{ type: 'text', text: `${a + b}` }],
      structuredContent: { sum: a + b },
    }))
    return server
  },
  { legacy: process.argv[2] },
)
