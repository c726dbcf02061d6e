//! Deleting sessions and turns: random histories with forks, and what must hold after every deletion.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::*;
use crate::deletion::sessions::{self, PlannedSession};
use model::{
    DeleteSessionOptions, DeleteTurnsOptions, Deletion, LedgerDeletion, Metadata, PruneOptions,
    SearchOptions, TurnFilter,
};

/// Numbers that are the same in each run of a test.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }
}

fn json_of<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// A word that only the turn's messages have.
fn word(id: &str) -> String {
    format!("word{id}")
}

/// Sessions with threads, forks, failed turns beside them and large values, of which some are shared.
async fn history(fixture: &Fixture, dice: &mut Dice, size: usize) -> Vec<String> {
    let mut heads: BTreeMap<String, Option<String>> = BTreeMap::new();
    let mut ids: Vec<String> = Vec::new();
    let large = noise(23_000);
    for number in 0..size {
        let id = format!("t{number:03}");
        let label = format!("s{}", dice.below(4));
        if !ids.is_empty() && dice.below(5) == 0 {
            let from = ids[dice.below(ids.len())].clone();
            let fork = format!("f{number}");
            fixture.ledger.fork_at(&from, Some(&fork), None).await.unwrap();
            heads.insert(fork, Some(from));
        }
        let labels: Vec<String> = heads.keys().cloned().chain([label]).collect();
        let label = labels[dice.below(labels.len())].clone();
        let head = heads.get(&label).cloned().flatten();
        let mut turn = turn(&id, &label, head.as_deref());
        turn.header.started_at = NOW + i64::try_from(number).unwrap();
        turn.completed_at = turn.header.started_at + 1;
        turn.messages[0].blocks = vec![Block::text(format!("question {} all", word(&id)))];
        if dice.below(4) == 0 {
            let own = if dice.below(2) == 0 { large.clone() } else { format!("{large}{id}") };
            turn.messages[0].blocks.push(Block::text(own));
        }
        if dice.below(2) == 0 {
            let metadata = json!({ "userId": format!("u{}", dice.below(2)) }).to_string();
            turn.settings.metadata = Some(Metadata::parse("metadata", &metadata).unwrap());
        }
        turn.move_pointer = dice.below(6) != 0;
        let moved = turn.move_pointer;
        fixture.commit(turn).await.unwrap();
        if moved {
            heads.insert(label, Some(id.clone()));
        } else {
            heads.entry(label).or_insert(head);
        }
        ids.push(id);
    }
    ids
}

async fn read(fixture: &Fixture, id: &str) -> Option<Value> {
    let turn = LedgerRead::turn(&*fixture.ledger, id).await.unwrap()?;
    let mut json = serde_json::to_value(&turn).unwrap();
    // Whether turns follow it is what a deletion changes.
    json.as_object_mut().unwrap().remove("hasChildren");
    Some(json)
}

async fn finds(fixture: &Fixture, text: &str) -> usize {
    let options: SearchOptions = json_of(json!({ "limit": 1_000 }));
    fixture.ledger.search(text.to_owned(), options).await.unwrap().items.len()
}

fn deletions(dice: &mut Dice, ids: &[String]) -> Deletion {
    let secure = false;
    match dice.below(5) {
        0 => Deletion::Session(
            format!("s{}", dice.below(4)),
            DeleteSessionOptions { turns: dice.below(3) != 0, dry_run: false, secure },
        ),
        1 => Deletion::Prune(PruneOptions {
            before: NOW + i64::try_from(dice.below(ids.len())).unwrap(),
            keep: u32::try_from(dice.below(3)).unwrap(),
            dry_run: false,
            secure,
        }),
        2 => Deletion::Turns(
            json_of(json!({ "metadata": { "userId": format!("u{}", dice.below(2)) } })),
            DeleteTurnsOptions { followers: dice.below(2) == 0, dry_run: false, secure },
        ),
        3 => Deletion::Turns(
            json_of(json!({ "sessionLabel": format!("s{}", dice.below(4)) })),
            DeleteTurnsOptions { followers: false, dry_run: false, secure },
        ),
        _ => Deletion::Turns(
            json_of(json!({ "ids": [ids[dice.below(ids.len())], ids[dice.below(ids.len())]] })),
            DeleteTurnsOptions { followers: dice.below(2) == 0, dry_run: false, secure },
        ),
    }
}

fn dry(deletion: &Deletion) -> Deletion {
    let mut deletion = deletion.clone();
    match &mut deletion {
        Deletion::Session(_, options) => options.dry_run = true,
        Deletion::Turns(_, options) => options.dry_run = true,
        Deletion::Prune(options) => options.dry_run = true,
    }
    deletion
}

#[tokio::test]
async fn after_any_deletions_the_ledger_is_sound_and_every_other_turn_is_as_it_was() {
    for seed in 0..4 {
        let mut dice = Dice(seed);
        let fixture = Fixture::new();
        let ids = history(&fixture, &mut dice, 32).await;
        for _ in 0..4 {
            let mut before = BTreeMap::new();
            for id in &ids {
                if let Some(turn) = read(&fixture, id).await {
                    before.insert(id.clone(), turn);
                }
            }
            let deletion = deletions(&mut dice, &ids);
            let counted = fixture.ledger.delete(dry(&deletion)).await;
            let done = fixture.ledger.delete(deletion.clone()).await;
            let done = match (counted, done) {
                (Ok(counted), Ok(done)) => {
                    assert_eq!(counted, done, "seed {seed}: {deletion:?}");
                    done
                }
                (Err(counted), Err(done)) => {
                    assert_eq!(counted, done, "seed {seed}: {deletion:?}");
                    LedgerDeletion::default()
                }
                different => panic!("seed {seed}: {deletion:?}: {different:?}"),
            };
            let mut gone = BTreeSet::new();
            for (id, turn) in &before {
                match read(&fixture, id).await {
                    Some(now) => assert_eq!(&now, turn, "seed {seed}: {deletion:?}"),
                    None => {
                        gone.insert(id.clone());
                    }
                }
            }
            assert_eq!(gone.len() as u64, done.turns, "seed {seed}: {deletion:?}");
            for id in before.keys() {
                let found = usize::from(!gone.contains(id));
                assert_eq!(finds(&fixture, &word(id)).await, found, "seed {seed}: {id}");
            }
            let report = fixture.ledger.verify().await.unwrap();
            assert_eq!(report.problems, [], "seed {seed}: {deletion:?}");
            let sessions: Vec<(String, Option<String>)> = {
                let page = fixture.ledger.sessions(model::SessionFilter::default()).await.unwrap();
                page.items.into_iter().map(|row| (row.label, row.thread_id)).collect()
            };
            for (label, head) in sessions {
                let Some(head) = head else { continue };
                assert!(read(&fixture, &head).await.is_some(), "seed {seed}: {label} at {head}");
                LedgerRead::history(&*fixture.ledger, &label).await.unwrap();
            }
        }
        // What comes after a deletion is indexed and listed like everything else.
        fixture.commit(turn("new", "after", None)).await.unwrap();
        assert_eq!(fixture.ledger.verify().await.unwrap().problems, [], "seed {seed}");
    }
}

#[tokio::test]
async fn turns_that_another_session_reaches_stay_with_a_deleted_session() {
    let fixture = Fixture::new();
    for (id, parent) in [("t1", None), ("t2", Some("t1")), ("t3", Some("t2"))] {
        fixture.commit(turn(id, "main", parent)).await.unwrap();
    }
    fixture.ledger.fork_at("t1", Some("side"), None).await.unwrap();
    let options = DeleteSessionOptions { turns: true, ..DeleteSessionOptions::default() };
    let done =
        fixture.ledger.delete(Deletion::Session("main".to_owned(), options.clone())).await.unwrap();
    let expected = LedgerDeletion {
        sessions: 1,
        turns: 2,
        messages: 8,
        tool_calls: 2,
        retained_turns: 1,
        ..LedgerDeletion::default()
    };
    assert_eq!(done, expected);
    let listed = fixture.ledger.turns(TurnFilter::default()).await.unwrap();
    assert_eq!(listed.items.iter().map(|turn| turn.id.as_str()).collect::<Vec<_>>(), ["t1"]);
    assert_eq!(fixture.ledger.session("main").await.unwrap(), None);
    // The label is free again, and the last session takes the last turn with it.
    fixture.commit(turn("t4", "main", None)).await.unwrap();
    let session = fixture.ledger.session("main").await.unwrap().unwrap();
    assert_eq!(session.thread_id.as_deref(), Some("t4"));
    let side = fixture.ledger.delete(Deletion::Session("side".to_owned(), options)).await.unwrap();
    assert_eq!((side.sessions, side.turns, side.retained_turns), (1, 0, 0));
    assert_eq!(fixture.ledger.verify().await.unwrap().problems, []);
}

#[tokio::test]
async fn a_session_in_which_a_turn_is_open_is_refused() {
    let fixture = Fixture::new();
    fixture.commit(turn("t1", "main", None)).await.unwrap();
    let next = turn("t2", "main", Some("t1"));
    fixture.ledger.begin(opening(&next)).await.unwrap();
    for turns in [true, false] {
        let options = DeleteSessionOptions { turns, ..DeleteSessionOptions::default() };
        let refused = fixture.ledger.delete(Deletion::Session("main".to_owned(), options)).await;
        assert_eq!(refused.unwrap_err().kind, model::StorageErrorKind::Locked);
    }
    let prune = PruneOptions { before: NOW + 1_000_000, keep: 0, dry_run: false, secure: false };
    let done = fixture.ledger.delete(Deletion::Prune(prune)).await.unwrap();
    assert_eq!(done, LedgerDeletion::default());
    let options = DeleteTurnsOptions { followers: true, ..DeleteTurnsOptions::default() };
    let done =
        fixture.ledger.delete(Deletion::Turns(json_of(json!({ "ids": ["t1"] })), options)).await;
    assert_eq!((done.as_ref().unwrap().turns, done.unwrap().retained_turns), (0, 1));
    assert_eq!(fixture.ledger.verify().await.unwrap().problems, []);
}

#[tokio::test]
async fn a_secure_deletion_leaves_nothing_of_it_in_the_file() {
    let fixture = Fixture::new();
    let marker = "xylophonequartz";
    for number in 0..6_usize {
        let label = if number % 2 == 0 { "keep" } else { marker };
        let id = format!("t{number}");
        let parent = number.checked_sub(2).map(|before| format!("t{before}"));
        let mut turn = turn(&id, label, parent.as_deref());
        if label == marker {
            turn.messages[0].blocks =
                vec![Block::text(format!("{marker} {id}")), Block::text(marker.repeat(6_000))];
            turn.tool_calls[0].params = raw(&format!(r#"{{"path":"{marker}"}}"#));
            turn.settings.permissions_granted = format!(r#"["{marker}"]"#);
            let metadata = json!({ "name": marker }).to_string();
            turn.settings.metadata = Some(Metadata::parse("metadata", &metadata).unwrap());
        }
        fixture.commit(turn).await.unwrap();
    }
    assert_eq!(finds(&fixture, marker).await, 3);
    let options = DeleteSessionOptions { turns: true, dry_run: false, secure: true };
    let done = fixture.ledger.delete(Deletion::Session(marker.to_owned(), options)).await.unwrap();
    assert_eq!((done.turns, done.blobs, done.overwritten), (3, 1, true));
    for name in ["ledger.db", "ledger.db-wal"] {
        let bytes = std::fs::read(fixture.folder.path().join(name)).unwrap_or_default();
        assert!(memchr::memmem::find(&bytes, marker.as_bytes()).is_none(), "{name}");
    }
    assert_eq!(finds(&fixture, marker).await, 0);
    assert_eq!(fixture.ledger.verify().await.unwrap().problems, []);
}

#[tokio::test]
async fn the_next_deletion_finishes_one_that_was_cut_off_and_spares_a_new_session_of_that_name() {
    let fixture = Fixture::new();
    fixture.commit(turn("t1", "main", None)).await.unwrap();
    fixture.commit(turn("t2", "main", Some("t1"))).await.unwrap();
    let core = fixture.ledger.core().unwrap();
    let cut_off = |connection: &rusqlite::Connection| {
        let session = PlannedSession {
            label: "main".to_owned(),
            threads: Some(Vec::new()),
            runs: Vec::new(),
        };
        sessions::hide(connection, &session, &Clock::fixed(NOW + 20))
    };
    assert!(core.writer.submit(cut_off).await.unwrap());
    assert_eq!(fixture.ledger.verify().await.unwrap().problems, []);
    assert_eq!(fixture.ledger.session("main").await.unwrap(), None);
    let mut anew = turn("t3", "main", None);
    anew.completed_at = NOW + 30;
    fixture.commit(anew).await.unwrap();
    let prune = PruneOptions { before: 0, keep: 0, dry_run: false, secure: false };
    let done = fixture.ledger.delete(Deletion::Prune(prune)).await.unwrap();
    assert_eq!(done, LedgerDeletion::default());
    let listed = fixture.ledger.turns(TurnFilter::default()).await.unwrap();
    assert_eq!(listed.items.iter().map(|turn| turn.id.as_str()).collect::<Vec<_>>(), ["t3"]);
    let session = fixture.ledger.session("main").await.unwrap().unwrap();
    assert_eq!(session.thread_id.as_deref(), Some("t3"));
    assert_eq!(fixture.ledger.verify().await.unwrap().problems, []);
}
