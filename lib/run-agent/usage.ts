// Tokens and cost of calls in pi's form. It must never name a price that nobody knows.

import type { Attempt, ModelInfo, TokenUsage } from '../../index.d.ts'
import type { PiUsage, RunAgentCost, RunAgentUsage } from '../../run-agent.d.ts'

/** Finds the prices of a model. */
type Prices = (provider: string, model: string) => ModelInfo | undefined

const FREE: RunAgentCost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 }

/** The sum of calls; its cost is null where a price is unknown. */
function usageOf(attempts: readonly Attempt[], prices: Prices): RunAgentUsage {
  const sum: RunAgentUsage = { ...tokensOf(undefined), cost: { ...FREE } }
  for (const { usage, provider, model, cost } of attempts) {
    if (usage === undefined) continue
    const tokens = tokensOf(usage)
    sum.input += tokens.input
    sum.output += tokens.output
    sum.cacheRead += tokens.cacheRead
    sum.cacheWrite += tokens.cacheWrite
    sum.totalTokens += tokens.totalTokens
    const parts = costOf(usage, cost, prices(provider, model))
    sum.cost = parts === null || sum.cost === null ? null : added(sum.cost, parts)
  }
  return sum
}

/** The usage of one call as pi has it, where an unknown price is 0. */
function piUsage(
  usage: TokenUsage,
  cost: number | undefined,
  model: ModelInfo | undefined,
): PiUsage {
  return { ...tokensOf(usage), cost: costOf(usage, cost, model) ?? { ...FREE } }
}

function noUsage(): PiUsage {
  return { ...tokensOf(undefined), cost: { ...FREE } }
}

function tokensOf(usage: TokenUsage | undefined): Omit<PiUsage, 'cost'> {
  return {
    input: usage?.inputTokens ?? 0,
    output: usage?.outputTokens ?? 0,
    cacheRead: usage?.cachedInputTokens ?? 0,
    cacheWrite: usage?.cacheWriteTokens ?? 0,
    totalTokens: usage?.totalTokens ?? 0,
  }
}

/** The parts of what the engine computed for a call. Writes to the cache are the rest: they have a price for each lifetime. */
function costOf(
  usage: TokenUsage,
  total: number | undefined,
  model: ModelInfo | undefined,
): RunAgentCost | null {
  if (total === undefined || model?.cost == null) return null
  const prompt = usage.inputTokens + usage.cachedInputTokens + usage.cacheWriteTokens
  const tier = model.cost.tiers.findLast((each) => prompt > each.inputTokensAbove)
  const price = { ...model.cost, ...tier }
  const input = (usage.inputTokens * price.input) / 1e6
  const output = (usage.outputTokens * price.output) / 1e6
  const cacheRead = (usage.cachedInputTokens * (price.cacheRead ?? 0)) / 1e6
  const rest = total - input - output - cacheRead
  return { input, output, cacheRead, cacheWrite: usage.cacheWriteTokens === 0 ? 0 : rest, total }
}

function added(a: RunAgentCost, b: RunAgentCost): RunAgentCost {
  return {
    input: a.input + b.input,
    output: a.output + b.output,
    cacheRead: a.cacheRead + b.cacheRead,
    cacheWrite: a.cacheWrite + b.cacheWrite,
    total: a.total + b.total,
  }
}

export type { Prices }
export { noUsage, piUsage, usageOf }
