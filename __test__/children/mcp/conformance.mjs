// The client that the scenarios of the protocol test: an engine whose model calls each tool of the server once. The last argument is the
// server's address. It must never know which scenario it is in.
import { AgentEngine, createMcpOAuth, scriptedProvider } from '../../../index.js'
import { context } from '../common.mjs'

const url = process.argv.at(-1)
/** The least value that a schema accepts. */
const least = ({ type, properties = {}, required = [] }) => {
  if (type === 'number' || type === 'integer') return 1
  if (type === 'string') return 'x'
  if (type === 'boolean') return true
  if (type === 'array') return []
  return Object.fromEntries(required.map((name) => [name, least(properties[name] ?? {})]))
}
/** What a person enters who leaves every field as it is. */
const accepted = ({ requestedSchema: { properties = {} } }) => ({
  action: 'accept',
  content: Object.fromEntries(
    Object.entries(properties).flatMap(([name, { default: value }]) =>
      value === undefined ? [] : [[name, value]],
    ),
  ),
})
/** What a browser does whose user agrees to everything. */
const agreed = async (address) => {
  const { headers } = await fetch(address, { redirect: 'manual' })
  return headers.get('location') ?? ''
}
const { client_id: clientId, client_secret: clientSecret } = JSON.parse(
  process.env.MCP_CONFORMANCE_CONTEXT ?? '{}',
)
const isUser = process.env.CONFORMANCE_USER !== '0'
const auth = createMcpOAuth({
  url,
  ...(isUser && { authorize: agreed, redirectUri: 'http://127.0.0.1:33418/callback' }),
  clientMetadataUrl: 'https://conformance-test.local/client-metadata.json',
  ...(clientId && { client: { clientId, clientSecret } }),
})
const mcp = { s: { url, auth, onElicitation: accepted, onSampling: () => 'sampled' } }
// The model of the second engine calls what the first one has found.
const looking = new AgentEngine({ mcp })
const tools = await looking.mcp.tools()
await looking.close()
const toolCalls = tools.map(({ name, parameters }) => ({ name, arguments: least(parameters) }))
const engine = new AgentEngine({
  providers: {
    test: scriptedProvider(toolCalls.length === 0 ? ['done'] : [{ toolCalls }, 'done']),
  },
  mcp,
})
const { stopReason, toolCalls: made } = await engine.run(context()).result
await engine.close()
if (stopReason !== 'end_turn' || made.some(({ error }) => error)) {
  console.error(stopReason, made)
  process.exit(1)
}
