// pi's logins of subscriptions: the registry of a host's own ones. The logins that pi has belong to other programs, and are refused with what to do instead.
// It must never store a credential.

import type { OAuthCredentials, OAuthProviderInfo, OAuthProviderInterface } from '../../pi-ai.d.ts'

const providers = new Map<string, OAuthProviderInterface>()

/** A login that this package does not have. */
class LoginUnavailableError extends Error {
  override readonly name = 'LoginUnavailableError'
  readonly code = 'login_unavailable'
  readonly provider: string

  constructor(provider: string) {
    super(
      `there is no login for \`${provider}\`: register one with \`registerOAuthProvider\`, for example pi's own \`getOAuthProvider('${provider}')\`, or pass an \`apiKey\``,
    )
    this.provider = provider
  }
}

function registerOAuthProvider(provider: OAuthProviderInterface): void {
  providers.set(provider.id, provider)
}

function getOAuthProvider(id: string): OAuthProviderInterface | undefined {
  return providers.get(id)
}

function getOAuthProviders(): OAuthProviderInterface[] {
  return [...providers.values()]
}

function getOAuthProviderInfoList(): OAuthProviderInfo[] {
  return getOAuthProviders().map(({ id, name }) => ({ id, name, available: true }))
}

function knownProvider(id: string): OAuthProviderInterface {
  const provider = providers.get(id)
  if (provider === undefined) throw new LoginUnavailableError(id)
  return provider
}

async function refreshOAuthToken(
  id: string,
  credentials: OAuthCredentials,
): Promise<OAuthCredentials> {
  return knownProvider(id).refreshToken(credentials)
}

async function getOAuthApiKey(
  id: string,
  credentials: Record<string, OAuthCredentials>,
): Promise<{ newCredentials: OAuthCredentials; apiKey: string } | null> {
  const provider = knownProvider(id)
  const known = credentials[id]
  if (known === undefined) return null
  const isExpired = Date.now() >= known.expires
  const newCredentials = isExpired ? await provider.refreshToken(known) : known
  return { newCredentials, apiKey: provider.getApiKey(newCredentials) }
}

/** A function of pi's that belongs to the login of a provider: the registered one does its work. */
const loginOf =
  (id: string) =>
  async (callbacks: Parameters<OAuthProviderInterface['login']>[0]): Promise<OAuthCredentials> =>
    knownProvider(id).login(callbacks)

const loginAnthropic = loginOf('anthropic')
const loginGitHubCopilot = loginOf('github-copilot')
const loginAntigravity = loginOf('google-antigravity')
const loginGeminiCli = loginOf('google-gemini-cli')
const loginOpenAICodex = loginOf('openai-codex')

export {
  getOAuthApiKey,
  getOAuthProvider,
  getOAuthProviderInfoList,
  getOAuthProviders,
  LoginUnavailableError,
  loginAnthropic,
  loginAntigravity,
  loginGeminiCli,
  loginGitHubCopilot,
  loginOpenAICodex,
  refreshOAuthToken,
  registerOAuthProvider,
}
