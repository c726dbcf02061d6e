//! The table of docs/rules/failover.md#codes, as data: codes and texts with their kinds.
//!
//! Patterns have the form of [`super::pattern`]: lower case, `_` and `-` as blanks, `*` for anything within one sentence,
//! `#` for a number. It must never hold logic. Every line has a real string in `corpus.json`.

use model::FailureKind::{
    self, Auth, AuthPermanent, Billing, ContextOverflow, Format, ModelNotFound, Network,
    Overloaded, RateLimit, Refusal, ServerError, Timeout,
};

/// Structured codes and types that decide with any status. The first match wins.
pub(super) const CODES: &[(&str, FailureKind)] = &[
    // Spend and quota: a 429 for which a wait does not help (docs/rules/failover.md#spend-codes).
    ("insufficient quota", Billing),
    ("credit balance exhausted", Billing),
    ("enforced spend limit reached", Billing),
    ("contract spend limit reached", Billing),
    ("spend limit*", Billing),
    ("billing hard limit reached", Billing),
    ("billing not active", Billing),
    ("billing error", Billing),
    ("insufficient credits", Billing),
    ("insufficient balance", Billing),
    ("insufficient funds", Billing),
    ("payment required", Billing),
    ("usage not included", Billing),
    ("arrearage", Billing),
    ("exceeded current quota*", Billing),
    ("credit limit*", Billing),
    // Z.ai: the balance is used up.
    ("1113", Billing),
    // Overflow.
    ("context length exceeded", ContextOverflow),
    ("context window exceeded", ContextOverflow),
    ("model context window exceeded", ContextOverflow),
    ("exceed context size error", ContextOverflow),
    ("too many prompt tokens", ContextOverflow),
    ("request too large", ContextOverflow),
    // Rate.
    ("rate limit*", RateLimit),
    ("resource exhausted", RateLimit),
    ("too many requests*", RateLimit),
    ("throttl*", RateLimit),
    ("ramp limit exceeded", RateLimit),
    ("usage limit reached", RateLimit),
    ("servicequotaexceeded*", RateLimit),
    // Load.
    ("overloaded*", Overloaded),
    ("server is overloaded", Overloaded),
    ("provider overloaded", Overloaded),
    ("engine overloaded*", Overloaded),
    ("slow down", Overloaded),
    ("model not ready*", Overloaded),
    ("modelnotready*", Overloaded),
    ("insufficient system resource", Overloaded),
    ("flex tier capacity exceeded", Overloaded),
    ("service tier capacity exceeded", Overloaded),
    // Transient by the provider's own code, with any status (docs/rules/failover.md#codes).
    ("compaction unavailable", ServerError),
    ("cmek key unreachable", ServerError),
    // The model wrote a call or a JSON that its server could not parse: a retry may give another one (Groq).
    ("tool use failed", ServerError),
    ("json validate failed", ServerError),
    // Accounts for which a wait does not help.
    ("account deactivated", AuthPermanent),
    ("organization deactivated", AuthPermanent),
    ("deactivated workspace", AuthPermanent),
    ("api key disabled", AuthPermanent),
    ("api key revoked", AuthPermanent),
    ("key revoked", AuthPermanent),
    ("organization restricted", AuthPermanent),
    // Filters and policies.
    ("content filter", Refusal),
    ("content policy violation", Refusal),
    ("responsibleaipolicyviolation", Refusal),
    ("data inspection failed", Refusal),
    ("cyber policy", Refusal),
    ("bio policy", Refusal),
    ("image content policy violation", Refusal),
    // Models.
    ("model not found", ModelNotFound),
    ("model decommissioned", ModelNotFound),
    ("model not available", ModelNotFound),
    ("deploymentnotfound", ModelNotFound),
    ("invalid model", ModelNotFound),
];

/// Codes that decide only if neither the status nor the text does.
pub(super) const WEAK_CODES: &[(&str, FailureKind)] = &[
    ("invalid api key", Auth),
    ("invalid authentication*", Auth),
    ("authentication error", Auth),
    ("unauthenticated", Auth),
    ("unauthorized", Auth),
    ("permission*", Auth),
    ("forbidden", Auth),
    ("accessdenied*", Auth),
    ("unrecognizedclient*", Auth),
    ("expiredtoken*", Auth),
    ("invalidsignature*", Auth),
    ("not found*", ModelNotFound),
    ("resourcenotfound*", ModelNotFound),
    ("timeout*", Timeout),
    ("deadline exceeded", Timeout),
    ("modeltimeout*", Timeout),
    ("vector store timeout", Timeout),
    ("network error", Network),
    ("unavailable", ServerError),
    ("serviceunavailable*", ServerError),
    ("service unavailable*", ServerError),
    ("server error", ServerError),
    ("api error", ServerError),
    ("internal*", ServerError),
    ("modelstreamerror*", ServerError),
    ("modelerror*", ServerError),
    ("bad gateway", ServerError),
    ("provider unavailable", ServerError),
    ("invalid request*", Format),
    ("invalid prompt", Format),
    ("invalid argument", Format),
    ("failed precondition", Format),
    ("bad request*", Format),
    ("badrequest*", Format),
    ("validation*", Format),
    ("unsupported*", Format),
    // A response that failed because of the request (docs/rules/wire/openai-responses.md#failure-codes): a wait does not help.
    ("data residency mismatch", Format),
    ("image*", Format),
    ("invalid image*", Format),
    ("invalid base64 image", Format),
    ("empty image file", Format),
    ("failed to download image", Format),
    ("vector store timeout", Timeout),
];

/// Limits per minute: a 413 or 400 with one of these is a rate limit, not an overflow.
pub(super) const TOKENS_PER_MINUTE: &[&str] = &[
    "tokens per min",
    "(tpm)",
    "tpm limit",
    "tpm rate limit",
    "tokens/min",
    "token rate limit",
    "tokens per day",
    "(tpd)",
];

/// Credit is used up.
pub(super) const BILLING: &[&str] = &[
    "credit balance",
    "insufficient credit",
    "insufficient balance",
    "insufficient account balance",
    "insufficient funds",
    "insufficient quota",
    "not enough credits",
    "more credits",
    "out of credits",
    "no credits",
    "purchase credits",
    "purchase more credits",
    "add credits",
    "billing hard limit",
    "billing details",
    "billing account",
    "plans & billing",
    "payment required",
    "payment method",
    "key limit exceeded",
    "credit limit exceeded",
    "used all available credits",
    "enable billing",
    "spend limit",
    "spending limit",
    "exceeded your current quota",
    "余额不足",
    "欠费",
];

/// A limit that resets by itself: it makes a 402 a rate limit.
pub(super) const PERIODIC: &[&str] = &[
    "daily limit",
    "weekly limit",
    "monthly limit",
    "hourly limit",
    "daily*limit",
    "weekly*limit",
    "monthly*limit",
    "limit*per day",
    "limit*per hour",
    "usage limit",
    "limit resets",
    "limit will reset",
    "resets at",
    "resets in",
    "try again in #",
    "try again after",
    "try again at",
];

/// Too many requests.
pub(super) const RATE_LIMIT: &[&str] = &[
    "rate limit",
    "ratelimit",
    "too many requests",
    "throttl",
    "requests per min",
    "requests per second",
    "requests per day",
    "(rpm)",
    "(rpd)",
    "resource exhausted",
    "resource has been exhausted",
    "quota exceeded",
    "exceeded*rate",
    "concurrency limit",
    "too many concurrent",
    "too many tokens, please wait",
    "try again in #",
    "请求过于频繁",
    "速率限制",
];

/// A long prompt that the account's plan does not include: a wait does not help, a shorter prompt does.
pub(super) const LONG_CONTEXT_SURCHARGE: &[&str] =
    &["extra usage is required for long context", "extra usage*long context requests"];

/// The prompt does not fit.
pub(super) const OVERFLOW: &[&str] = &[
    "prompt is too long",
    "prompt too long",
    "request too large",
    "request exceeds the maximum size",
    "request size exceeds",
    "exceeds the context window",
    "exceeds model context window",
    "exceeds the model's context",
    "context length exceeded",
    "context window exceeded",
    "maximum context length",
    "max context length",
    "input length*exceed*context",
    "max tokens*exceed*context",
    "input token count*exceeds the maximum",
    "input tokens exceed",
    "number of input tokens exceeds",
    "input is too long for*model",
    "input too long for*model",
    "input is too long",
    "exceeds the maximum number of tokens",
    "exceeds maximum allowed input length",
    "maximum prompt length is #",
    "prompt exceeds max length",
    "reduce the length of the messages",
    "reduce the length of either one",
    "total length of all messages is too long",
    "exceeds the limit of # token",
    "token*exceeds the limit of #",
    "prompt*exceeds the limit of #",
    "exceeds the available context size",
    "configured context size is #",
    "greater than the context length",
    "longer than the model's context length",
    "tokens when context the overflows",
    "context length of only #",
    "range of input length should be",
    "context window exceeds limit",
    "exceeded model token limit",
    "token limit exceeded",
    "too large for model with # maximum context",
    "ran out of room*context window",
    "ran out of space*context window",
    "tokens in request more than max tokens allowed",
    "上下文过长",
    "上下文超出",
    "上下文长度超",
    "超出最大上下文",
    "请压缩上下文",
];

/// The service is busy.
pub(super) const OVERLOADED: &[&str] = &[
    "overloaded",
    "over capacity",
    "capacity exceeded",
    "at capacity",
    "server is busy",
    "servers are busy",
    "high demand",
    "high load",
    "currently busy",
];

/// The account or key is permanently disabled.
pub(super) const AUTH_PERMANENT: &[&str] = &[
    "revoked",
    "deactivated",
    "disabled",
    "key has expired",
    "api key expired",
    "reported as leaked",
    "account*suspended",
    "account*terminated",
];

/// The key is refused.
pub(super) const AUTH: &[&str] = &[
    "incorrect api key",
    "invalid api key",
    "invalid x api key",
    "api key not valid",
    "api key is invalid",
    "api key expired",
    "reported as leaked",
    "no api key",
    "missing api key",
    "no auth credentials",
    "missing authentication",
    "authentication failed",
    "authentication fails",
    "unauthorized",
];

/// The model does not exist.
pub(super) const MODEL_NOT_FOUND: &[&str] = &[
    "model not found",
    "model*does not exist",
    "model*is not found",
    "not found, try pulling it",
    "model*not supported with the responses api",
    "model*has been decommissioned",
    "model*has been deprecated",
    "model identifier is invalid",
    "invalid model",
    "not a valid model",
    "unknown model",
    "no endpoints found",
    "the supported api model names are",
];

/// A filter or policy refused the prompt.
pub(super) const REFUSAL: &[&str] = &[
    "content management policy",
    "content policy",
    "usage policies",
    "violat*policy",
    "input was flagged",
    "flagged by*moderation",
];
