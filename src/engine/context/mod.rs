//! The input of a model: the encoded conversation, its size, and its caches.
//!
//! It must never send a request, emit an event, or write.

mod cache_chain;
mod cache_watch;
mod calibration;
mod compaction_input;
mod conversation;
mod conversion;
mod given_conversations;
mod guard;
mod joined_tools;
mod prefix_cache;
mod recall;
mod session;
mod size;
mod summary_turn;

pub(crate) use cache_chain::{AnsweredCall, CacheChainStore, cache_ttl_ms};

pub(crate) use calibration::Calibrations;
pub(crate) use compaction_input::{CompactionInput, InputPosition};
pub(crate) use conversation::Conversation;
pub(crate) use conversion::{convert, message_bytes};
pub(crate) use given_conversations::GivenConversations;
pub(crate) use guard::ContextGuard;
pub(crate) use joined_tools::{
    JoinedTools, Joining, JoiningTools, check_choice, join, join_tools, settle_choice,
};
pub(crate) use prefix_cache::{PrefixCache, PrefixKey};
pub(crate) use recall::{Recaller, offer_recall};
pub(crate) use session::{Session, SessionReader, storage_error};
pub(crate) use size::{
    GaveUp, MARGIN, max_tokens, settled_budget, token_budget, tools_tokens, window_budget,
    without_margin,
};
pub(crate) use summary_turn::{base_of, summary_turn};
