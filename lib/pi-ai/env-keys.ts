// The keys of the environment, by provider, under pi's names. It must never print a key.

import { existsSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'

/** What stands for credentials that are no key. */
const AUTHENTICATED = '<authenticated>'

/** The variables of a provider; the first that is set counts. */
const VARIABLES: Readonly<Record<string, readonly string[]>> = {
  anthropic: ['ANTHROPIC_OAUTH_TOKEN', 'ANTHROPIC_API_KEY'],
  'azure-openai-responses': ['AZURE_OPENAI_API_KEY'],
  cerebras: ['CEREBRAS_API_KEY'],
  'cloudflare-ai-gateway': ['CLOUDFLARE_API_KEY'],
  'cloudflare-workers-ai': ['CLOUDFLARE_API_KEY'],
  deepseek: ['DEEPSEEK_API_KEY'],
  fireworks: ['FIREWORKS_API_KEY'],
  'github-copilot': ['COPILOT_GITHUB_TOKEN', 'GH_TOKEN', 'GITHUB_TOKEN'],
  google: ['GEMINI_API_KEY'],
  groq: ['GROQ_API_KEY'],
  huggingface: ['HF_TOKEN'],
  'kimi-coding': ['KIMI_API_KEY'],
  minimax: ['MINIMAX_API_KEY'],
  'minimax-cn': ['MINIMAX_CN_API_KEY'],
  mistral: ['MISTRAL_API_KEY'],
  moonshotai: ['MOONSHOT_API_KEY'],
  'moonshotai-cn': ['MOONSHOT_API_KEY'],
  openai: ['OPENAI_API_KEY'],
  opencode: ['OPENCODE_API_KEY'],
  'opencode-go': ['OPENCODE_API_KEY'],
  openrouter: ['OPENROUTER_API_KEY'],
  together: ['TOGETHER_API_KEY'],
  'vercel-ai-gateway': ['AI_GATEWAY_API_KEY'],
  xai: ['XAI_API_KEY'],
  xiaomi: ['XIAOMI_API_KEY'],
  'xiaomi-token-plan-ams': ['XIAOMI_TOKEN_PLAN_AMS_API_KEY'],
  'xiaomi-token-plan-cn': ['XIAOMI_TOKEN_PLAN_CN_API_KEY'],
  'xiaomi-token-plan-sgp': ['XIAOMI_TOKEN_PLAN_SGP_API_KEY'],
  zai: ['ZAI_API_KEY'],
}

/** What Amazon's own tools read; one of them is enough. */
const AWS = [
  ['AWS_PROFILE'],
  ['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY'],
  ['AWS_BEARER_TOKEN_BEDROCK'],
  ['AWS_CONTAINER_CREDENTIALS_RELATIVE_URI'],
  ['AWS_CONTAINER_CREDENTIALS_FULL_URI'],
  ['AWS_WEB_IDENTITY_TOKEN_FILE'],
]

/** The key of a provider, or `<authenticated>` where it has credentials of another kind. */
function getEnvApiKey(provider: string): string | undefined {
  if (provider === 'google-vertex') return hasVertex() ? AUTHENTICATED : undefined
  if (provider === 'amazon-bedrock') {
    return AWS.some((names) => names.every((name) => process.env[name])) ? AUTHENTICATED : undefined
  }
  const [first] = findEnvKeys(provider) ?? []
  return first === undefined ? undefined : process.env[first]
}

/** The variables that have a key of a provider, the one that counts first; undefined where none has. */
function findEnvKeys(provider: string): string[] | undefined {
  if (!Object.hasOwn(VARIABLES, provider)) return undefined
  const set = VARIABLES[provider]?.filter((name) => process.env[name]) ?? []
  return set.length > 0 ? set : undefined
}

function hasVertex(): boolean {
  const { GOOGLE_APPLICATION_CREDENTIALS: path, GOOGLE_CLOUD_LOCATION: location } = process.env
  const project = process.env.GOOGLE_CLOUD_PROJECT || process.env.GCLOUD_PROJECT
  if (!project || !location) return false
  const usual = () => join(homedir(), '.config', 'gcloud', 'application_default_credentials.json')
  return existsSync(path || usual())
}

export { AUTHENTICATED, findEnvKeys, getEnvApiKey }
