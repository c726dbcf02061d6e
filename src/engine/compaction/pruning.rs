//! Prunes old tool results before a call with a cold cache: the options, and the new conversation.
//!
//! `turn/prune` decides which results. It is in memory only: the ledger's messages stay whole. It must never prune a prefix
//! that a provider may still have in its cache; a pruned result stays pruned until the cache is cold again.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::errors::warning;
use super::reproject::read_input;
use crate::engine::active_run::ActiveRun;
use crate::engine::context::{Conversation, PrefixKey, Session, base_of, cache_ttl_ms, convert};
use crate::engine::state::{RunUsage, Unfinished};
use model::{InputError, typed};
use turn::compact::share;
use turn::machine::{Interrupt, Machine};
use turn::prune::{Shares, decide};

/// When old tool results are pruned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct PruningOptions {
    /// Milliseconds after the last call from which the cache counts as cold; by default the requested lifetime of the cache.
    pub idle_ms: Option<u64>,
    /// The share of the window from which large results are trimmed, 0 to 1.
    pub trim_at: Option<f64>,
    /// The share of the window above which results are left out.
    pub clear_at: Option<f64>,
}

impl PruningOptions {
    /// Reads `pruning` of the engine's options: left out and `false` are `None`, `true` is the default.
    ///
    /// # Errors
    /// The first field that is wrong, by its path.
    pub(crate) fn parse(raw: Option<&RawValue>) -> Result<Option<Self>, InputError> {
        let options: Self = match raw.map(|raw| (raw, raw.get())) {
            None | Some((_, "null" | "false")) => return Ok(None),
            Some((_, "true")) => return Ok(Some(Self::default())),
            Some((raw, _)) => typed("pruning", raw)?,
        };
        let wrong = |field: &str, message: &str| {
            Err(InputError { path: format!("pruning.{field}"), message: message.to_owned() })
        };
        for (field, share) in [("trimAt", options.trim_at), ("clearAt", options.clear_at)] {
            if share.is_some_and(|share| !(share > 0.0 && share <= 1.0)) {
                return wrong(field, "is not a share; pass more than 0 and at most 1");
            }
        }
        let Shares { trim, clear } = options.shares();
        if clear < trim {
            return wrong(
                "clearAt",
                "is below `trimAt`; results are trimmed before they are left out",
            );
        }
        Ok(Some(options))
    }

    fn shares(self) -> Shares {
        let percent = |share: Option<f64>, default: u64| {
            // Between 0 and 100: the conversion is exact.
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a share is more than 0 and at most 1"
            )]
            share.map_or(default, |share| (share * 100.0).round() as u64)
        };
        Shares { trim: percent(self.trim_at, 30), clear: percent(self.clear_at, 50) }
    }
}

/// Prunes old tool results if the cache is cold and the window is filling.
pub(crate) async fn prune(
    active: &ActiveRun,
    options: Option<PruningOptions>,
    machine: &Machine,
    session: &mut Session,
    usage: &mut RunUsage,
) -> Result<(), Interrupt> {
    let Some(options) = options else { return Ok(()) };
    let (run, shared) = (&active.run, &active.shared);
    let shares = options.shares();
    let least_idle = options.idle_ms.unwrap_or_else(|| cache_ttl_ms(&run.context));
    let idle = session.watch.idle_ms(shared.clock.now_ms());
    // Results truncated to fit follow other rules, and only for this run.
    if idle.is_none_or(|idle| idle <= least_idle) || session.size.shortened() {
        return Ok(());
    }
    let overhead = session.size.overhead(&run.context, run.tools());
    let window = active.window_budget().window;
    if session.size.estimate(&session.conversation) <= share(window, shares.trim) {
        return Ok(());
    }
    let input = match read_input(active, session).await {
        Ok(input) => input,
        Err(unfinished) => return not_pruned(unfinished, usage),
    };
    let given = run.context.history.clone().unwrap_or_default();
    let (target, provider) = (run.target.transcript(), Arc::clone(&run.target.provider));
    let (current, before) = (machine.messages().to_vec(), session.conversation.pruning().clone());
    let bytes = given.bytes().saturating_add(input.bytes());
    let pruning = convert(bytes, move || {
        let whole = input.projected(target.clone(), &given, &current);
        let pruned = decide(&whole, overhead, window, shares);
        if pruned == before {
            return None;
        }
        let base = base_of(input.summary.as_ref());
        let mut conversation = Conversation::pruned(target, base, pruned);
        conversation.push_flat(given.iter(), provider.as_ref());
        for turn in input.summary.iter().chain(&input.turns) {
            conversation.push_turn(turn, provider.as_ref());
        }
        Some(conversation)
    });
    let Some(mut conversation) = active.guard(pruning).await? else { return Ok(()) };
    if let Some(head) = &session.head.expected_head
        && run.context.history.is_none()
    {
        // So that the next runs begin with the same bytes.
        shared.prefixes.put(PrefixKey::of(run), head.clone(), conversation.clone());
    }
    conversation.turn_begins();
    conversation.push_current(machine.messages(), run.target.provider.as_ref());
    session.conversation = conversation;
    session.size.pruned();
    session.watch.explained = true;
    Ok(())
}

/// A history that cannot be read is sent unpruned, with a warning.
fn not_pruned(unfinished: Unfinished, usage: &mut RunUsage) -> Result<(), Interrupt> {
    match unfinished {
        Unfinished::Interrupted(cause) => Err(cause),
        Unfinished::Failed(why) => {
            let message = format!("old tool results were sent whole: {why}");
            usage.notes.push(warning("pruning_failed", message));
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> Result<Option<PruningOptions>, String> {
        let raw = RawValue::from_string(json.to_owned()).unwrap();
        PruningOptions::parse(Some(&raw)).map_err(|error| error.to_string())
    }

    #[test]
    fn it_is_off_by_default_and_wrong_shares_are_named() {
        assert_eq!(PruningOptions::parse(None).unwrap(), None);
        assert_eq!(parse("false"), Ok(None));
        let options = parse("true").unwrap().unwrap();
        assert_eq!(options.shares(), Shares { trim: 30, clear: 50 });
        let own = parse(r#"{"trimAt":0.1,"clearAt":0.29,"idleMs":0}"#).unwrap().unwrap();
        assert_eq!((own.shares(), own.idle_ms), (Shares { trim: 10, clear: 29 }, Some(0)));
        for (json, field) in [
            (r#"{"trimAt":0}"#, "pruning.trimAt"),
            (r#"{"clearAt":1.5}"#, "pruning.clearAt"),
            (r#"{"trimAt":0.6}"#, "pruning.clearAt"),
            (r#"{"idleMs":-1}"#, "pruning.idleMs"),
            (r#"{"idle":1}"#, "pruning.idle"),
            ("7", "pruning"),
        ] {
            let error = parse(json).unwrap_err();
            assert!(error.starts_with(&format!("`{field}`")), "{error}");
        }
    }
}
