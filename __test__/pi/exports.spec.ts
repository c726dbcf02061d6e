// The names that both versions of pi declare beside ours: each is here, or in the list with the reason why not. It must never look at a value.

import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'
import { expect, test } from 'vitest'
import * as piAi from '../../pi-ai.js'

const root = fileURLToPath(new URL('../..', import.meta.url))

const codex = 'a subscription of OpenAI, with an identity of its own'
const cli = 'a subscription of Google, with an identity of its own'
const login = 'this package has no logins of its own: register one of pi’s'
const faux = 'a provider for tests: `scriptedProvider` of the package is one'
const inside = 'a part of one of pi’s own providers'
const sockets = 'the engine has no sockets of a session'

/** What is left out, and why. */
const leftOut: Record<string, string> = {
  GoogleGeminiCliOptions: cli,
  OpenAICodexResponsesOptions: codex,
  OpenAICodexWebSocketDebugStats: codex,
  streamOpenAICodexResponses: codex,
  streamSimpleOpenAICodexResponses: codex,
  streamGoogleGeminiCli: cli,
  streamSimpleGoogleGeminiCli: cli,
  buildRequest: inside,
  convertMessages: inside,
  extractRetryDelay: inside,
  setBedrockProviderModule: inside,
  appendAssistantMessageDiagnostic: inside,
  createAssistantMessageDiagnostic: inside,
  extractDiagnosticError: inside,
  formatThrownValue: inside,
  anthropicOAuthProvider: login,
  antigravityOAuthProvider: login,
  geminiCliOAuthProvider: login,
  githubCopilotOAuthProvider: login,
  openaiCodexOAuthProvider: login,
  getGitHubCopilotBaseUrl: login,
  normalizeDomain: login,
  refreshAnthropicToken: login,
  refreshAntigravityToken: login,
  refreshGitHubCopilotToken: login,
  refreshGoogleCloudToken: login,
  refreshOpenAICodexToken: login,
  FauxContentBlock: faux,
  FauxModelDefinition: faux,
  FauxProviderRegistration: faux,
  FauxResponseFactory: faux,
  FauxResponseStep: faux,
  RegisterFauxProviderOptions: faux,
  fauxAssistantMessage: faux,
  fauxText: faux,
  fauxThinking: faux,
  fauxToolCall: faux,
  registerFauxProvider: faux,
  SessionResourceCleanup: sockets,
  cleanupSessionResources: sockets,
  registerSessionResourceCleanup: sockets,
}

/** The names that declarations export, with whether each is a value. */
function names(path: string): Map<string, boolean> {
  const options = {
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    skipLibCheck: true,
    types: [],
  }
  const program = ts.createProgram([path], options)
  const checker = program.getTypeChecker()
  const file = program.getSourceFile(path)
  const module = file && checker.getSymbolAtLocation(file)
  if (module === undefined) throw new Error(`${path} exports nothing`)
  return new Map(
    checker.getExportsOfModule(module).map((symbol) => {
      const isAlias = (symbol.flags & ts.SymbolFlags.Alias) !== 0
      const { flags } = isAlias ? checker.getAliasedSymbol(symbol) : symbol
      return [symbol.name, (flags & ts.SymbolFlags.Value) !== 0]
    }),
  )
}

const declarationsOf = (name: string) => join(root, 'node_modules', name, 'dist', 'index.d.ts')

test.each([
  ['pi-ai', ['@mariozechner/pi-ai', 'pi-ai-073']],
  ['pi-agent', ['@mariozechner/pi-agent-core', 'pi-agent-core-073']],
])('every name of both versions is in `/%s`, or left out for a reason', (own, versions) => {
  const ours = names(join(root, `${own}.d.ts`))
  const missing = new Set<string>()
  for (const version of versions) {
    const theirs = names(declarationsOf(version))
    expect(theirs.size).toBeGreaterThan(10)
    for (const [name, isValue] of theirs) {
      if (!ours.has(name) || (isValue && !ours.get(name))) missing.add(name)
    }
  }
  const expected = own === 'pi-ai' ? Object.keys(leftOut) : []
  expect([...missing].sort()).toEqual(expected.sort())
})

test('every value that is declared is exported', () => {
  const declared = [...names(join(root, 'pi-ai.d.ts'))].filter(([, isValue]) => isValue)
  expect(declared.map(([name]) => name).filter((name) => !(name in piAi))).toEqual([])
})
