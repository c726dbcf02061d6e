// Makes crates/model/src/data/catalogue/models.json again: one line per model, sorted.
//
// Owns where the facts come from: the model tables of two npm packages (MIT; read as data, never as code to copy),
// and overrides.json for what those lack. It must never invent a price: what a table calls 0 is unknown.
//
//   node scripts/catalogue/update.mjs             the newest tables
//   node scripts/catalogue/update.mjs 1.5.2       that version, for a reproducible run
//
// Then `UPDATE_CATALOGUE=1 cargo nextest run --workspace --no-default-features packed` packs it for the binary.

import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const HERE = fileURLToPath(new URL('.', import.meta.url))
const TARGET = join(HERE, '../../crates/model/src/data/catalogue/models.json')
const OVERRIDES = JSON.parse(readFileSync(join(HERE, 'overrides.json'), 'utf8'))
const NEWEST = '@earendil-works/pi-ai'
const OLDER = { name: '@mariozechner/pi-ai', version: '0.73.1' }

const APIS = {
  'anthropic-messages': 'anthropic-messages',
  'bedrock-converse-stream': 'bedrock-converse',
  'google-generative-ai': 'google-generative-ai',
  'google-vertex': 'google-generative-ai',
  'mistral-conversations': 'openai-chat',
  'openai-completions': 'openai-chat',
  'openai-responses': 'openai-responses',
}
const EFFORTS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']
const LEVELS = ['minimal', 'low', 'medium', 'high']

const npm = (args, cwd) =>
  execFileSync('npm', args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })

function fetchPackage(name, version, workFolder) {
  const resolved = JSON.parse(npm(['view', `${name}@${version}`, 'version', '--json'], workFolder))
  const date = JSON.parse(npm(['view', name, 'time', '--json'], workFolder))[resolved].slice(0, 10)
  const [{ filename }] = JSON.parse(npm(['pack', `${name}@${resolved}`, '--json'], workFolder))
  const folder = mkdtempSync(join(workFolder, 'package-'))
  execFileSync('tar', ['xzf', join(workFolder, filename), '-C', folder])
  return { name, version: resolved, date, dist: join(folder, 'package/dist') }
}

/** Tables by the packages' provider name, from the newer layout: a JSON file per provider. */
function newTables(dist) {
  const data = join(dist, 'providers/data')
  const tables = new Map()
  for (const file of readdirSync(data).filter((name) => /^[a-z].*\.json$/.test(name))) {
    const models = Object.values(JSON.parse(readFileSync(join(data, file), 'utf8')))
      .flatMap((byApi) => Object.values(byApi))
      .filter((model) => model.type === 'chat')
    tables.set(file.replace(/\.json$/, ''), models)
  }
  return tables
}

/** The same from the older layout: one module that holds nothing but the table. */
async function oldTables(dist) {
  const { MODELS } = await import(pathToFileURL(join(dist, 'models.generated.js')).href)
  return new Map(Object.entries(MODELS).map(([name, models]) => [name, Object.values(models)]))
}

const known = (price) => (typeof price === 'number' && price > 0 ? price : undefined)
const tidy = (number) => Number(number.toPrecision(12))

function rates(cost, hourWrites) {
  return {
    input: cost.input,
    output: cost.output,
    cacheRead: known(cost.cacheRead),
    cacheWrite: known(cost.cacheWrite),
    cacheWrite1h: hourWrites && known(cost.cacheWrite) ? tidy(cost.input * 2) : undefined,
  }
}

function priced(model, line) {
  const { cost } = model
  if (!known(cost?.input) || !known(cost?.output)) return undefined
  const hourWrites = /claude/.test(line.id) && ['anthropic', 'openrouter'].includes(line.provider)
  const tiers = (cost.tiers ?? []).map((tier) => ({
    inputTokensAbove: tier.inputTokensAbove,
    ...rates(tier, hourWrites),
  }))
  return { ...rates(cost, hourWrites), tiers: tiers.length > 0 ? tiers : undefined }
}

/** What a caller may request of a model. Undefined where the tables do not have it. */
function thinking(model, api) {
  if (!model.reasoning) return undefined
  const map = model.thinkingLevelMap
  const capability = { canDisable: map?.off === null ? false : undefined }
  if (api === 'anthropic-messages') {
    if (!model.compat?.forceAdaptiveThinking) return { ...capability, budget: true }
    const levels = LEVELS.slice(1).filter((level) => map?.[level] !== null)
    const more = ['xhigh', 'max'].filter((level) => map?.[level])
    return { ...capability, adaptive: true, efforts: [...levels, ...more] }
  }
  if (api === 'google-generative-ai' && !map) return { ...capability, budget: true }
  if (!map || api === 'bedrock-converse') return undefined
  if (model.compat?.supportsReasoningEffort === false) return capability
  const levels = LEVELS.filter((level) => map[level] !== null).map((level) => map[level] ?? level)
  const more = ['off', 'xhigh', 'max'].map((level) => map[level])
  const efforts = EFFORTS.filter((effort) => levels.includes(effort) || more.includes(effort))
  return { ...capability, efforts: efforts.length > 0 ? efforts : undefined }
}

function lineOf(model, provider, rule, source) {
  const api = rule.api ?? APIS[model.api]
  if (!api)
    throw new Error(`no API is known for \`${model.api}\` of \`${model.id}\`; add it to APIS`)
  const id = rule.weights ? model.id.split('/').pop().toLowerCase() : model.id
  const line = {
    provider,
    id,
    api,
    name: model.name,
    contextWindow: model.contextWindow,
    maxInputTokens: undefined,
    maxOutputTokens: Math.min(model.maxTokens, model.contextWindow),
    input: model.input.includes('image') ? ['text', 'image'] : undefined,
    reasoning: model.reasoning || undefined,
    thinking: thinking(model, APIS[model.api]),
    temperature: model.compat?.supportsTemperature === false ? false : undefined,
    cost: undefined,
    aliases: rule.weights ? [model.id] : undefined,
    retires: undefined,
    source,
  }
  if (!rule.weights) line.cost = priced(model, line)
  return line
}

function applyRules(line) {
  for (const rule of OVERRIDES.rules) {
    const id = new RegExp(rule.id)
    if (!new RegExp(rule.provider).test(line.provider) || !id.test(line.id)) continue
    if (rule.reasoning && !line.reasoning) continue
    if (rule.contextWindow && rule.contextWindow !== line.contextWindow) continue
    for (const [key, value] of Object.entries(rule.set ?? {})) {
      if (key !== 'aliases') line[key] = value
      else
        line.aliases = [
          ...(line.aliases ?? []),
          ...value.map((alias) => filled(alias, line.id.match(id))),
        ]
    }
    if (rule.thinking && line.thinking) line.thinking = { ...line.thinking, ...rule.thinking }
  }
  return line
}

const filled = (template, groups) => template.replace(/\$(\d)/g, (_, group) => groups[group])

const omitted = (line) =>
  OVERRIDES.omit.some(
    (rule) => new RegExp(rule.provider).test(line.provider) && new RegExp(rule.id).test(line.id),
  )

/** The vendor's own name of a model that a cloud or a router renamed: `us.anthropic.claude-…-v1:0`. */
const vendorId = (id) =>
  id
    .replace(/^.*(anthropic|openai)[./]/, '')
    .replace(/-v\d+(:\d+)?$/, '')
    .replaceAll('.', '-')
    .replace(/-20\d{6}$/, '')

/** A cloud's table has less of a vendor's model than the vendor's own: thinking belongs to the model, not to the host. */
function shareThinking(lines) {
  const own = new Map(
    lines
      .filter((line) => line.provider === 'anthropic')
      .map((line) => [vendorId(line.id), line.thinking]),
  )
  for (const line of lines.filter((each) => /anthropic[./]claude/.test(each.id))) {
    line.thinking = own.get(vendorId(line.id)) ?? line.thinking
  }
}

/** The table limits some windows to the price step; where a cloud's table shows more, that is the real window. */
function unclamp(lines, azure) {
  const windows = new Map(azure.map((model) => [model.id, model.contextWindow]))
  for (const line of lines.filter((each) => each.provider === 'openai')) {
    const clamped = line.cost?.tiers?.some((tier) => tier.inputTokensAbove === line.contextWindow)
    const real = windows.get(line.id)
    if (clamped && real > line.contextWindow) line.contextWindow = real
  }
}

/** The cloud prices long prompts as the vendor's own service does; its table leaves the steps out. */
function shareSteps(lines) {
  const own = new Map(
    lines.filter((line) => line.provider === 'google').map((line) => [line.id, line.cost]),
  )
  for (const line of lines.filter((each) => each.provider === 'google-vertex' && each.cost)) {
    const cost = own.get(line.id)
    if (cost?.tiers && cost.input === line.cost.input && cost.output === line.cost.output)
      line.cost = cost
  }
}

const facts = (line) => JSON.stringify({ ...line, id: '', name: '', source: '' })

/** A dated line with the content of its undated one is left out: date suffixes are resolved. */
function withoutEchoes(lines) {
  const byKey = new Map(lines.map((line) => [`${line.provider} ${line.id}`, line]))
  return lines.filter((line) => {
    const bare = line.id.replace(/-(latest|20\d{6}|20\d\d-\d\d-\d\d)$/, '')
    const other = bare === line.id ? undefined : byKey.get(`${line.provider} ${bare}`)
    return !other || facts(other) !== facts(line)
  })
}

function collect(fresh, aged) {
  const lines = []
  for (const [provider, rule] of Object.entries(OVERRIDES.providers)) {
    const wanted = (model) => !rule.only || new RegExp(rule.only).test(model.id)
    const seen = new Set()
    const add = (models, source) => {
      for (const model of models.filter(wanted)) {
        const line = lineOf(model, provider, rule, source)
        if (seen.has(line.id) || omitted(line)) continue
        seen.add(line.id)
        lines.push(line)
      }
    }
    if (!fresh.has(rule.from))
      throw new Error(`no table is named \`${rule.from}\` any more; change the overrides`)
    add(fresh.get(rule.from), undefined)
    if (rule.older) add(aged.get(rule.from) ?? [], 'old')
  }
  unclamp(lines, fresh.get('azure') ?? [])
  shareThinking(lines)
  shareSteps(lines)
  const order = (line) => `${line.provider}\u0000${line.id}`
  return withoutEchoes(lines.map(applyRules)).sort((a, b) => (order(a) < order(b) ? -1 : 1))
}

function report(before, after) {
  const index = (lines) =>
    new Map(lines.map((line) => [`${line.provider} ${line.id}`, JSON.stringify(line)]))
  const [old, now] = [index(before), index(JSON.parse(JSON.stringify(after)))]
  for (const [key, text] of now) {
    if (!old.has(key)) console.log(`+ ${key}`)
    else if (old.get(key) !== text)
      console.log(`~ ${key}\n    was ${old.get(key)}\n    is  ${text}`)
  }
  for (const key of old.keys()) if (!now.has(key)) console.log(`- ${key}`)
  const counts = {}
  for (const { provider } of after) counts[provider] = (counts[provider] ?? 0) + 1
  console.log(
    Object.entries(counts)
      .map(([name, count]) => `${name} ${count}`)
      .join(', '),
  )
}

function previous() {
  try {
    return JSON.parse(readFileSync(TARGET, 'utf8')).models
  } catch {
    return []
  }
}

const workFolder = mkdtempSync(join(tmpdir(), 'catalogue-'))
try {
  const newest = fetchPackage(NEWEST, process.argv[2] ?? 'latest', workFolder)
  const older = fetchPackage(OLDER.name, OLDER.version, workFolder)
  const models = collect(newTables(newest.dist), await oldTables(older.dist))
  const source = ({ name, version, date }) => ({ package: name, version, date })
  const header = {
    date: newest.date,
    prices: 'US dollars per million tokens; a price that is missing is unknown',
    sources: { default: source(newest), old: source(older) },
  }
  const text =
    `{"header":${JSON.stringify(header)},\n"models":[\n` +
    `${models.map((line) => JSON.stringify(line)).join(',\n')}\n]}\n`
  report(previous(), models)
  writeFileSync(TARGET, text)
  console.log(`${models.length} models, ${Buffer.byteLength(text)} bytes, data of ${newest.date}`)
} finally {
  rmSync(workFolder, { recursive: true, force: true })
}
