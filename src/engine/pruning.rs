//! Pruning of old tool results before a call whose cache is cold: the options, and the conversation told anew.
//!
//! What is pruned is `turn/prune`'s. It is in memory only: the ledger's messages stay whole. It must never prune what a
//! provider may still have in its cache, and what is pruned stays so until the cache is cold again.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::call::RunUsage;
use super::compaction::{Stopped, base_of, warning};
use super::conversation::Conversation;
use super::driver::Run;
use super::session::Session;
use model::{InputError, typed};
use turn::compact::share;
use turn::machine::{Event, Machine};
use turn::prune::{Shares, decide};

/// When old tool results are told shorter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PruningOptions {
    /// Milliseconds after the last call from which the cache is taken for cold; what the cache is asked to keep by default.
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
    pub fn parse(raw: Option<&RawValue>) -> Result<Option<Self>, InputError> {
        let options: Self = match raw.map(|raw| (raw, raw.get())) {
            None | Some((_, "null" | "false")) => return Ok(None),
            Some((_, "true")) => return Ok(Some(Self::default())),
            Some((raw, _)) => typed("pruning", raw)?,
        };
        let wrong = |field: &str, message: &str| {
            Err(InputError { path: format!("pruning.{field}"), message: message.to_owned() })
        };
        for (field, given) in [("trimAt", options.trim_at), ("clearAt", options.clear_at)] {
            if given.is_some_and(|share| !(share > 0.0 && share <= 1.0)) {
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
            // Between 0 and 100: no number is lost.
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

impl Run {
    /// Tells old tool results shorter where the cache is cold and the window fills. The event is what the run ends with
    /// instead of a call.
    pub(super) async fn prune(
        &self,
        machine: &Machine,
        session: &mut Session,
        spent: &mut RunUsage,
    ) -> Option<Event> {
        let options = self.core.pruning?;
        let shares = options.shares();
        let least_idle = options.idle_ms.unwrap_or_else(|| self.cache_ttl_ms());
        let idle = session.watch.idle_ms(self.core.clock.now_ms());
        // What was shortened to fit is told by other rules, and for this run only.
        if idle.is_none_or(|idle| idle <= least_idle) || session.fit.shortened() {
            return None;
        }
        let overhead = self.overhead(&mut session.fit);
        let window = self.budget().window;
        if session.fit.estimate(&session.conversation) <= share(window, shares.trim) {
            return None;
        }
        let (whole, scope) = match self.projected(machine, session).await {
            Ok(whole) => whole,
            Err(stopped) => return not_pruned(stopped, spent),
        };
        let pruned = decide(&whole, overhead, window, shares);
        if pruned == *session.conversation.pruning() {
            return None;
        }
        let provider = self.provider.as_ref();
        let base = base_of(scope.summary.as_ref());
        let mut conversation = Conversation::pruned(self.target(), base, pruned);
        conversation.push_flat(self.context.history.as_deref().unwrap_or_default(), provider);
        for turn in scope.summary.iter().chain(&scope.turns) {
            conversation.push_turn(turn, provider);
        }
        if let Some(head) = &session.expected_head
            && self.context.history.is_none()
        {
            // The next runs begin with the same bytes.
            self.core.prefixes.put(self.prefix_key(), head.clone(), conversation.clone());
        }
        conversation.turn_begins();
        conversation.push_current(machine.messages(), provider);
        session.conversation = conversation;
        session.fit.pruned();
        session.watch.explained = true;
        None
    }
}

/// A history that cannot be read is told as it was.
fn not_pruned(stopped: Stopped, spent: &mut RunUsage) -> Option<Event> {
    match stopped {
        Stopped::Interrupted(cause) => Some(Event::Interrupted { cause, partial: None }),
        Stopped::Failed(why) => {
            let message = format!("old tool results were told whole: {why}");
            spent.notes.push(warning("pruning_failed", message));
            None
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
    fn it_is_off_unless_asked_for_and_wrong_shares_are_named() {
        assert_eq!(PruningOptions::parse(None).unwrap(), None);
        assert_eq!(parse("false"), Ok(None));
        let asked = parse("true").unwrap().unwrap();
        assert_eq!(asked.shares(), Shares { trim: 30, clear: 50 });
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
            let told = parse(json).unwrap_err();
            assert!(told.starts_with(&format!("`{field}`")), "{told}");
        }
    }
}
