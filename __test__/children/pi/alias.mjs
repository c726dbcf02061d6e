// Resolves pi's agent core to this package's agent, for all that imports it. `PI_SEMANTICS` says whose loop it is. It must never replace anything else.

import { register } from 'node:module'

// In a checkout the package finds itself; in a project this is the installed one.
const agent = import.meta.resolve('@nexus/agent-engine/pi-agent')
const semantics = JSON.stringify(process.env.PI_SEMANTICS)
const shim = `import { Agent } from ${JSON.stringify(agent)}
Agent.defaultSemantics = ${semantics}
export { Agent, agentLoop, agentLoopContinue } from ${JSON.stringify(agent)}`
const url = `data:text/javascript,${encodeURIComponent(shim)}`
const hooks = `export const resolve = (specifier, context, next) =>
  specifier === '@mariozechner/pi-agent-core'
    ? { url: ${JSON.stringify(url)}, format: 'module', shortCircuit: true }
    : next(specifier, context)`
register(`data:text/javascript,${encodeURIComponent(hooks)}`)
