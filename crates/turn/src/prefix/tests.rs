//! Differences of chains by name, and which drops are breaks.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;

use super::diff::{Difference, difference};
use super::*;
use crate::prune::Level;
use model::{
    Api, Block, CacheBreakCause, CacheChain, CacheChange, CachePart, Message, ModelInfo, Role,
};

fn message(role: Role, text: &str) -> Message {
    Message {
        id: "m".to_owned(),
        role,
        blocks: vec![Block::text(text)],
        sequence: 0,
        created_at: 0,
        provenance: None,
        provider_stop_reason: None,
    }
}

fn chain(system: &str, tools: &[(&str, u64)], links: &[u64]) -> CacheChain {
    CacheChain {
        system: text(system),
        tools: tools.iter().map(|(name, hash)| ((*name).to_owned(), *hash)).collect::<Arc<[_]>>(),
        links: links.to_vec(),
        comparable: links.len(),
        ..CacheChain::default()
    }
}

fn found(
    before: &CacheChain,
    now: &CacheChain,
) -> Option<(CachePart, CacheChange, Option<String>, Option<usize>)> {
    difference(before, now)
        .map(|Difference { part, change, name, index, .. }| (part, change, name, index))
}

#[test]
fn a_difference_is_named_by_its_part_its_position_and_its_kind() {
    use CacheChange::{Changed, Inserted, Removed, Reordered};
    use CachePart::{Message, System, Tool};
    let tools = [("a", 1), ("b", 2), ("c", 3)];
    let links = [10, 21, 32, 41, 50];
    let before = chain("s", &tools, &links);
    let named =
        |part, change, name: &str, at| Some((part, change, Some(name.to_owned()), Some(at)));
    let with_tools = |tools: &[(&str, u64)]| found(&before, &chain("s", tools, &links));
    let with_links = |links: &[u64]| found(&before, &chain("s", &tools, links));
    assert_eq!(found(&before, &before), None);
    assert_eq!(found(&before, &chain("t", &[], &[])), Some((System, Changed, None, None)));
    assert_eq!(found(&before, &chain("", &tools, &links)), Some((System, Removed, None, None)));
    assert_eq!(found(&chain("", &tools, &links), &before), Some((System, Inserted, None, None)));
    assert_eq!(with_tools(&[("a", 1), ("b", 9), ("c", 3)]), named(Tool, Changed, "b", 1));
    assert_eq!(with_tools(&[("b", 2), ("a", 1), ("c", 3)]), named(Tool, Reordered, "b", 0));
    assert_eq!(with_tools(&[("a", 1), ("c", 3)]), named(Tool, Removed, "b", 1));
    assert_eq!(with_tools(&[("a", 1), ("b", 2)]), named(Tool, Removed, "c", 2));
    assert_eq!(
        with_tools(&[("x", 9), ("a", 1), ("b", 2), ("c", 3)]),
        named(Tool, Inserted, "x", 0)
    );
    assert_eq!(
        with_tools(&[("a", 1), ("b", 2), ("c", 3), ("d", 4)]),
        named(Tool, Inserted, "d", 3)
    );
    let at = |change, at| Some((Message, change, None, Some(at)));
    assert_eq!(with_links(&[10, 21, 32, 41, 50, 61, 70]), None);
    assert_eq!(with_links(&[10, 21, 32, 41, 90, 61]), at(Changed, 4));
    assert_eq!(with_links(&[10, 21, 92, 41, 50, 61]), at(Changed, 2));
    assert_eq!(with_links(&[10, 21, 50, 61]), at(Removed, 2));
    assert_eq!(with_links(&[10, 21, 32]), at(Removed, 3));
    assert_eq!(with_links(&[10, 21, 90, 91, 32, 41, 50, 61]), at(Inserted, 2));
    assert_eq!(with_links(&[10, 41, 32, 21, 50, 61]), at(Reordered, 1));
}

#[test]
fn only_what_is_sent_again_is_compared() {
    let before = CacheChain { comparable: 2, ..chain("s", &[], &[10, 21, 32, 41]) };
    assert_eq!(difference(&before, &chain("s", &[], &[10, 21, 90])), None);
    assert!(difference(&before, &chain("s", &[], &[10, 90])).is_some());
}

proptest! {
    #[test]
    fn one_edit_of_a_history_is_found_at_its_index(
        length in 2..60usize,
        at in 0..60usize,
        edit in 0..3u8,
        grown in 0..4usize,
    ) {
        let links: Vec<u64> = (0..length).map(|n| (n as u64 + 1) << 4).collect();
        let at = at % length;
        let mut now = links.clone();
        let wanted = match edit {
            0 => { now[at] = 1 << 60; CacheChange::Changed }
            1 => { now.insert(at, 1 << 60); CacheChange::Inserted }
            _ => { now.remove(at); CacheChange::Removed }
        };
        // A last message that was removed and followed by another cannot be told from a changed one.
        let last = edit == 2 && at + 1 == length && grown > 0;
        now.extend((0..grown).map(|n| (n as u64 + 1) << 50));
        let judged = found(&chain("s", &[], &links), &chain("s", &[], &now));
        let wanted = if last { CacheChange::Changed } else { wanted };
        prop_assert_eq!(judged, Some((CachePart::Message, wanted, None, Some(at))));
    }
}

#[test]
fn a_link_has_its_role_and_its_level_and_every_field_counts() {
    for role in [Role::User, Role::Assistant, Role::Tool, Role::System] {
        for level in [None, Some(Level::Trimmed), Some(Level::Cleared)] {
            let link = link(&message(role, "x"), level);
            assert_eq!((link::role_of(link), level_of(link)), (role, level));
        }
    }
    let call = |id: &str, name: &str| Block::ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments_json: "{}".to_owned(),
        incomplete: false,
        provider_data: None,
    };
    let image =
        |mime: &str, data: &str| Block::Image { mime_type: mime.to_owned(), data: data.to_owned() };
    let of = |blocks: Vec<Block>| link(&Message { blocks, ..message(Role::User, "") }, None);
    assert_ne!(of(vec![call("ab", "c")]), of(vec![call("a", "bc")]));
    assert_ne!(of(vec![image("image/png", "AA")]), of(vec![image("image/png", "AB")]));
    assert_ne!(of(vec![Block::text("a"), Block::text("b")]), of(vec![Block::text("ab")]));
    assert_ne!(named(["ab", "c"]), named(["a", "bc"]));
}

fn priced(cost: serde_json::Value) -> ModelInfo {
    let mut model = ModelInfo::safe_defaults("p", Api::AnthropicMessages, "m", 200_000);
    model.cost = serde_json::from_value(cost).unwrap();
    model
}

fn call(tokens: [u64; 3], at: i64, links: &[u64]) -> CacheChain {
    let reported = tokens[1] + tokens[2] > 0;
    CacheChain { tokens, called_at: at, reported, ..chain("s", &[], links) }
}

fn rules(model: &ModelInfo, explicit: bool) -> Rules<'_> {
    Rules { explicit, ttl_ms: 300_000, same_run: false, hour: false, model }
}

#[test]
fn a_changed_prefix_costs_the_unread_tokens_at_the_price_they_were_paid_at() {
    let model =
        priced(json!({ "input": 3.0, "output": 15.0, "cacheRead": 0.3, "cacheWrite": 3.75 }));
    let before = call([10, 0, 5_000], 0, &[10, 21]);
    let now = call([100, 1_000, 5_500], 1_000, &[92, 21, 30]);
    let judged = judge(&before, &now, &rules(&model, true)).unwrap();
    assert_eq!(
        (judged.cause, judged.part, judged.change, judged.index, judged.role),
        (
            CacheBreakCause::Prefix,
            Some(CachePart::Message),
            Some(CacheChange::Changed),
            Some(0),
            Some(Role::User)
        )
    );
    assert_eq!(
        (judged.expected_tokens, judged.read_tokens, judged.tokens, judged.idle_ms),
        (5_000, 1_000, 4_000, 1_000)
    );
    assert!((judged.cost.unwrap() - 0.015).abs() < 1e-12, "{:?}", judged.cost);
    let unpriced = priced(json!(null));
    assert_eq!(judge(&before, &now, &rules(&unpriced, true)).unwrap().cost, None);
}

#[test]
fn a_drop_without_a_change_is_expired_or_unexplained_and_a_setting_is_named() {
    let model = priced(json!(null));
    let rules = rules(&model, true);
    let before = call([10, 3_000, 2_000], 0, &[10, 21]);
    let cause = |now: &CacheChain| judge(&before, now, &rules).map(|judged| judged.cause);
    assert_eq!(cause(&call([10, 5_000, 90], 1_000, &[10, 21, 30])), None);
    assert_eq!(cause(&call([10, 4_872, 218], 1_000, &[10, 21, 30])), None);
    let dropped = |at| call([10, 3_000, 2_090], at, &[10, 21, 30]);
    assert_eq!(cause(&dropped(300_000)), Some(CacheBreakCause::Unexplained));
    assert_eq!(cause(&dropped(300_001)), Some(CacheBreakCause::Expired));
    let named = |settings, same_run| {
        let now = CacheChain { settings, ..dropped(1_000) };
        judge(&before, &now, &Rules { same_run, ..rules }).map(|judged| judged.name)
    };
    assert_eq!(named([1, 0], true), Some(Some("thinkingConfig".to_owned())));
    assert_eq!(named([0, 1], false), Some(Some("toolChoice".to_owned())));
    assert_eq!(named([0, 1], true), None);
}

#[test]
fn nothing_is_missed_where_nothing_was_cached() {
    let unpriced = priced(json!(null));
    let caching = priced(json!({ "input": 2.0, "output": 8.0, "cacheRead": 0.5 }));
    // A provider that never reported a cache, whatever changes.
    let silent = call([9_000, 0, 0], 0, &[10]);
    let changed = call([9_000, 0, 0], 1, &[90]);
    assert_eq!(judge(&silent, &changed, &rules(&unpriced, false)), None);
    assert_eq!(judge(&silent, &changed, &rules(&unpriced, true)), None);
    // A provider that has reported it: 8,960 tokens would have been read in steps of 128.
    let judged = judge(&silent, &changed, &rules(&caching, false)).unwrap();
    assert_eq!((judged.expected_tokens, judged.cost), (8_960, Some(0.017_92)));
    // Below the smallest cached prompt.
    let short = |links: &[u64]| call([1_000, 0, 0], 0, links);
    assert_eq!(judge(&short(&[10]), &short(&[90]), &rules(&caching, false)), None);
    // A provider that chooses what it caches is compared with its previous reads, in its steps.
    let read = call([200, 2_048, 0], 0, &[10]);
    let next = |cached| call([2_300 - cached, cached, 0], 1, &[10, 21]);
    assert_eq!(judge(&read, &next(2_048), &rules(&caching, false)), None);
    assert_eq!(judge(&read, &next(1_920), &rules(&caching, false)), None);
    assert_eq!(
        judge(&read, &next(0), &rules(&caching, false)).map(|judged| (judged.cause, judged.tokens)),
        Some((CacheBreakCause::Unexplained, 2_048))
    );
    // A shortened or interrupted request has no known count of tokens.
    let cut = CacheChain { comparable: 0, ..call([10, 3_000, 2_000], 0, &[10, 21]) };
    assert_eq!(judge(&cut, &call([5_010, 0, 90], 1, &[90]), &rules(&unpriced, true)), None);
}
