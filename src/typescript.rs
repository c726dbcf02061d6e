//! The TypeScript of the data types, derived from the Rust types (tests only).
//!
//! Owns `types/model.d.ts`: a test fails while the file does not match the types; `UPDATE_TYPES=1` writes it. It must
//! never hold a type of its own.

use ts_rs::{Config, TS};

use broker::prompt::{
    FileCaps, PromptFile, PromptMode, PromptParts, PromptRuntime, PromptSkill, PromptTool,
};
use broker::routing::{
    AgentModel, Binding, BindingMatch, DmScope, Peer, PeerKind, RoutedEvent, RoutingTarget,
    SmartFallback,
};
use ledger::LedgerSalvage;
use model::*;
use provider::*;

fn declaration<T: TS>(config: &Config) -> String {
    let docs = T::docs().unwrap_or_default();
    format!("{docs}export {}\n", T::decl(config))
}

macro_rules! declarations {
    ($($name:ty),* $(,)?) => {{
        let config = Config::new().with_large_int("number");
        [$(declaration::<$name>(&config)),*].join("\n")
    }};
}

#[test]
fn the_typescript_declarations_match_the_rust_types() {
    let wanted = declarations![
        // Messages and context.
        Role,
        Block,
        BlockOrigin,
        Provenance,
        AgentMessage,
        AgentRole,
        ThinkingConfig,
        ThinkingMode,
        ThinkingEffort,
        TokenBudget,
        LayerName,
        ToolChoice,
        ResponseFormat,
        PromptCache,
        CacheTtl,
        ExecutionMode,
        ReplayClass,
        // Events.
        StreamEvent,
        ApprovalPhase,
        CompactionPhase,
        CompactionTrigger,
        ToolStatus,
        AgentPhase,
        // Results.
        AgentResult,
        PlanKind,
        PlannerKind,
        PlanRecord,
        StopReason,
        AgentToolCall,
        ToolCallStatus,
        TokenUsage,
        TokenCount,
        Attempt,
        CallPurpose,
        ModelName,
        ProfileState,
        ProfileWindow,
        AgentError,
        AgentErrorKind,
        ErrorDetail,
        RetryAfterSource,
        FailureKind,
        PersistError,
        RunWarning,
        CacheBreak,
        CacheBreakCause,
        CachePart,
        CacheChange,
        OutgoingRequest<'static>,
        CompactionResult,
        // Recovery.
        InterruptedTurn,
        InterruptedCall,
        // Approvals.
        Approval,
        ApprovalKind,
        ApprovalStatus,
        ToolPermission,
        // Options.
        Api,
        ProviderOptions,
        AuthProfile,
        AuthType,
        AuthKey,
        KeyText,
        AwsKey,
        BudgetOptions,
        BudgetPer,
        BudgetState,
        RunPolicy,
        LimitState,
        RateLimitState,
        ModelDeclaration,
        ModelInfo,
        ModelFilter,
        Modality,
        ThinkingCapability,
        ModelCost,
        CostTier,
        // The scripted provider.
        Script,
        ScriptedReplies,
        ScriptedReply,
        ScriptedParts,
        ScriptedStep,
        ScriptedCall,
        ScriptedUsage,
        ScriptedError,
        ScriptedStop,
        ScriptedRequest<'static>,
        // The ledger.
        SessionRow,
        TurnRow,
        TurnError,
        HistoryMessage,
        QueryResult,
        Truncation,
        LedgerCheck,
        LedgerProblem,
        LedgerChecked,
        LedgerReport,
        LedgerBackup,
        LedgerStats,
        TurnCounts,
        BlobCounts,
        LedgerVacuum,
        LedgerSalvage,
        LedgerFormat,
        LedgerExport,
        LedgerImport,
        LedgerCopy,
        TransferProblem,
        TransferCode,
        // Reading it.
        PageOptions,
        TurnSummary,
        SessionMove,
        SearchOptions,
        SearchHit,
        UsageBy,
        UsageFilter,
        UsageRow,
        SessionStatus,
        SessionFilter,
        RunStatus,
        RunProcess,
        RunInfo,
        RunFilter,
        DeleteSessionOptions,
        DeleteTurnsOptions,
        TurnSelection,
        LedgerDeletion,
        MetadataChange,
        SessionChange,
        TurnFilter,
        DiffOptions,
        DiffSide,
        TurnDiff,
        ToolCallFilter,
        ToolCallRow,
        AliasRow,
        PersonaRow,
        SessionKind,
        SessionKey,
        // The memory.
        MemoryScopeKind,
        MemoryScope,
        MemoryKind,
        MemoryWhy,
        MemorySearchOptions,
        MemoryHit,
        MemoryHits,
        RecalledLayer,
        RecalledHit,
        FactSource,
        MemoryFact,
        NewFact,
        FactFilter,
        VectorSearch,
        MemoryModel,
        MemoryExtraction,
        MemoryStats,
        ForgetOptions,
        MemoryForgotten,
        MemoryReindex,
        // The broker's decisions.
        PeerKind,
        Peer,
        RoutedEvent,
        RoutingTarget,
        SmartFallback,
        QueueMode,
        DispatchKind,
        DispatchStatus,
        DispatchCancel,
        Dispatch,
        AgentMessageKind,
        MessageSender,
        Route,
        DeliveryStatus,
        DropPolicy,
        FailedReason,
        ItemStatus,
        DmScope,
        BindingMatch,
        Binding,
        AgentModel,
        PromptMode,
        PromptTool,
        PromptSkill,
        PromptRuntime,
        PromptFile,
        FileCaps,
        PromptParts,
    ];
    let wanted = format!("// Written by the test in src/typescript.rs. Do not edit.\n\n{wanted}");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/types/model.d.ts");
    #[expect(clippy::disallowed_methods, reason = "a switch of this test, not of the engine")]
    if std::env::var_os("UPDATE_TYPES").is_some() {
        std::fs::write(path, &wanted).unwrap();
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        found == wanted,
        "`types/model.d.ts` does not match the Rust types; run `npm run types` and commit it"
    );
}
