//! Deleting sessions and turns: random histories with forks, what must hold after every deletion, and what goes with a session
//! (docs/rules/sessions-and-ledger.md).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::store::Fixture;
use crate::turns::{NOW, begin, ending, noise, short_turn, turn};
use model::{
    AgentSent, AgentTask, Block, DeleteSessionOptions, DeleteTurnsOptions, Deletion, Dispatch,
    DispatchFilter, DispatchKind, DispatchStatus, LedgerDeletion, LedgerPorts, Metadata,
    MetadataChange, NewAgentMessage, PruneOptions, QueueLimits, QueueMode, SearchOptions,
    SessionChange, SessionFilter, SpendingLimits, StorageErrorKind, SubagentLimits, TurnFilter,
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

pub async fn the_label_of_a_deleted_session_is_free(fixture: Fixture) {
    let ledger = &fixture.ledger;
    fixture.commit(short_turn("t1", "main", None)).await.unwrap();
    let taken = ledger.admin.fork_at("t1", Some("main"), None).await.unwrap_err();
    assert_eq!(taken.kind, StorageErrorKind::Constraint);
    delete_session(ledger, "main", false).await;
    let forked = ledger.admin.fork_at("t1", Some("main"), None).await.unwrap();
    assert_eq!(forked.thread_id.as_deref(), Some("t1"));
    delete_session(ledger, "main", false).await;
    let none = SessionChange { metadata: MetadataChange::None };
    let made = ledger.admin.create_session("main".to_owned(), none.clone()).await.unwrap();
    assert_eq!((made.thread_id, made.status.as_str()), (None, "active"));
    let taken = ledger.admin.create_session("main".to_owned(), none).await.unwrap_err();
    assert_eq!(taken.kind, StorageErrorKind::Constraint);
    fixture.commit(short_turn("t2", "main", None)).await.unwrap();
    assert!(ledger.admin.verify().await.unwrap().ok);
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
            fixture.ledger.admin.fork_at(&from, Some(&fork), None).await.unwrap();
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
    let turn = fixture.ledger.read.turn(id).await.unwrap()?;
    let mut json = serde_json::to_value(&turn).unwrap();
    // Whether turns follow it is what a deletion changes.
    json.as_object_mut().unwrap().remove("hasChildren");
    Some(json)
}

async fn finds(fixture: &Fixture, text: &str) -> usize {
    let options: SearchOptions = json_of(json!({ "limit": 1_000 }));
    fixture.ledger.read.search(text.to_owned(), options).await.unwrap().items.len()
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

async fn any_deletions(fixture: Fixture, seed: u64) {
    {
        let mut dice = Dice(seed);
        let ids = history(&fixture, &mut dice, 32).await;
        for _ in 0..4 {
            let mut before = BTreeMap::new();
            for id in &ids {
                if let Some(turn) = read(&fixture, id).await {
                    before.insert(id.clone(), turn);
                }
            }
            let deletion = deletions(&mut dice, &ids);
            let counted = fixture.ledger.admin.delete(dry(&deletion)).await;
            let done = fixture.ledger.admin.delete(deletion.clone()).await;
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
            let report = fixture.ledger.admin.verify().await.unwrap();
            assert_eq!(report.problems, [], "seed {seed}: {deletion:?}");
            let sessions: Vec<(String, Option<String>)> = {
                let page = fixture.ledger.read.sessions(SessionFilter::default()).await.unwrap();
                page.items.into_iter().map(|row| (row.label, row.thread_id)).collect()
            };
            for (label, head) in sessions {
                let Some(head) = head else { continue };
                assert!(read(&fixture, &head).await.is_some(), "seed {seed}: {label} at {head}");
                fixture.ledger.read.history(&label).await.unwrap();
            }
        }
        // What comes after a deletion is indexed and listed like everything else.
        fixture.commit(turn("new", "after", None)).await.unwrap();
        assert_eq!(fixture.ledger.admin.verify().await.unwrap().problems, [], "seed {seed}");
    }
}

pub async fn after_any_deletions_the_ledger_is_sound_and_every_other_turn_is_as_it_was(
    fixture: Fixture,
) {
    any_deletions(fixture, 0).await;
}

pub async fn after_other_deletions_the_ledger_is_sound_as_well(fixture: Fixture) {
    any_deletions(fixture, 1).await;
}

pub async fn after_more_deletions_the_ledger_is_sound_as_well(fixture: Fixture) {
    any_deletions(fixture, 2).await;
}

pub async fn turns_that_another_session_reaches_stay_with_a_deleted_session(fixture: Fixture) {
    for (id, parent) in [("t1", None), ("t2", Some("t1")), ("t3", Some("t2"))] {
        fixture.commit(turn(id, "main", parent)).await.unwrap();
    }
    fixture.ledger.admin.fork_at("t1", Some("side"), None).await.unwrap();
    let options = DeleteSessionOptions { turns: true, ..DeleteSessionOptions::default() };
    let done = fixture
        .ledger
        .admin
        .delete(Deletion::Session("main".to_owned(), options.clone()))
        .await
        .unwrap();
    let expected = LedgerDeletion {
        sessions: 1,
        turns: 2,
        messages: 8,
        tool_calls: 2,
        retained_turns: 1,
        ..LedgerDeletion::default()
    };
    assert_eq!(done, expected);
    let listed = fixture.ledger.read.turns(TurnFilter::default()).await.unwrap();
    assert_eq!(listed.items.iter().map(|turn| turn.id.as_str()).collect::<Vec<_>>(), ["t1"]);
    assert_eq!(fixture.ledger.read.session("main").await.unwrap(), None);
    // The label is free again, and the last session takes the last turn with it.
    fixture.commit(turn("t4", "main", None)).await.unwrap();
    let session = fixture.ledger.read.session("main").await.unwrap().unwrap();
    assert_eq!(session.thread_id.as_deref(), Some("t4"));
    let side =
        fixture.ledger.admin.delete(Deletion::Session("side".to_owned(), options)).await.unwrap();
    assert_eq!((side.sessions, side.turns, side.retained_turns), (1, 0, 0));
    assert_eq!(fixture.ledger.admin.verify().await.unwrap().problems, []);
}

pub async fn a_session_in_which_a_turn_is_open_is_refused(fixture: Fixture) {
    fixture.commit(turn("t1", "main", None)).await.unwrap();
    let next = turn("t2", "main", Some("t1"));
    begin(&fixture.ledger, &next).await;
    for turns in [true, false] {
        let options = DeleteSessionOptions { turns, ..DeleteSessionOptions::default() };
        let refused =
            fixture.ledger.admin.delete(Deletion::Session("main".to_owned(), options)).await;
        assert_eq!(refused.unwrap_err().kind, StorageErrorKind::Locked);
    }
    let prune = PruneOptions { before: NOW + 1_000_000, keep: 0, dry_run: false, secure: false };
    let done = fixture.ledger.admin.delete(Deletion::Prune(prune)).await.unwrap();
    assert_eq!(done, LedgerDeletion::default());
    let options = DeleteTurnsOptions { followers: true, ..DeleteTurnsOptions::default() };
    let done = fixture
        .ledger
        .admin
        .delete(Deletion::Turns(json_of(json!({ "ids": ["t1"] })), options))
        .await;
    assert_eq!((done.as_ref().unwrap().turns, done.unwrap().retained_turns), (0, 1));
    assert_eq!(fixture.ledger.admin.verify().await.unwrap().problems, []);
}

/// `main` has t1, and a turn t2 that gives the task `id` to a session of its own, and ends.
async fn task(ledger: &LedgerPorts, id: &str, label: &str) -> Dispatch {
    let mut giver = short_turn(&format!("t-{id}"), "main", Some("t1"));
    giver.settings.tools_available = vec!["agent_send".to_owned()];
    giver.move_pointer = false;
    let epoch = begin(ledger, &giver).await;
    let message = NewAgentMessage {
        id: id.to_owned(),
        from_session: "main".to_owned(),
        from_turn: giver.turn_id.clone(),
        from_agent: "default".to_owned(),
        to_session: label.to_owned(),
        to_agent: "helper".to_owned(),
        mode: QueueMode::Queue,
        message: r#"{"role":"user","content":"do it"}"#.to_owned(),
        task: Some(AgentTask {
            kind: DispatchKind::Dispatch,
            description: "do it".to_owned(),
            limits: SubagentLimits { max_depth: 3, max_children: 5, max_concurrent: 8 },
            is_new: true,
            is_fork: false,
            model: None,
            timeout_ms: None,
            is_detached: false,
            limits_of_agent: SpendingLimits::default(),
            parent_budget: None,
        }),
    };
    let sent = ledger.dispatches.send(Box::new(message), QueueLimits::default()).await.unwrap();
    let stored = AgentSent::Stored { session_label: label.to_owned(), dropped: Vec::new() };
    assert_eq!(sent, stored);
    ledger.journal.commit(ending(&giver, epoch, 1)).await.unwrap();
    ledger.dispatches.dispatch(id).await.unwrap().unwrap()
}

async fn delete_session(ledger: &LedgerPorts, label: &str, turns: bool) -> LedgerDeletion {
    let options = DeleteSessionOptions { turns, ..DeleteSessionOptions::default() };
    ledger.admin.delete(Deletion::Session(label.to_owned(), options)).await.unwrap()
}

pub async fn a_deleted_session_ends_its_tasks_and_answers_those_who_gave_them(fixture: Fixture) {
    let ledger = &fixture.ledger;
    fixture.commit(turn("t1", "main", None)).await.unwrap();
    let given = task(ledger, "d1", "worker").await;
    assert_eq!(given.status, DispatchStatus::Active);
    let done = delete_session(ledger, "worker", false).await;
    assert_eq!(done, LedgerDeletion { sessions: 1, ..LedgerDeletion::default() });
    let ended = ledger.dispatches.dispatch("d1").await.unwrap().unwrap();
    let expected = Dispatch {
        status: DispatchStatus::Aborted,
        text: Some("The session of the task was deleted.".to_owned()),
        result_item_id: ended.result_item_id.clone(),
        ended_at: Some(NOW),
        ..given
    };
    assert_eq!(ended, expected);
    let waiting = ledger.queue.waiting_items("main").await.unwrap();
    let ids: Vec<&str> = waiting.iter().map(|it| it.item.id.as_str()).collect();
    assert_eq!(ids, [ended.result_item_id.as_deref().unwrap()]);
    assert_eq!(ledger.queue.queue_item("d1").await.unwrap(), None);
    assert_eq!(ledger.read.session("worker").await.unwrap(), None);
    assert_eq!(ledger.admin.verify().await.unwrap().problems, []);
}

pub async fn a_deleted_session_leaves_no_link_and_no_task_behind(fixture: Fixture) {
    let ledger = &fixture.ledger;
    fixture.commit(turn("t1", "main", None)).await.unwrap();
    task(ledger, "d1", "worker").await;
    let linked = ledger.read.session("worker").await.unwrap().unwrap();
    assert_eq!(linked.parent_session_label.as_deref(), Some("main"));
    assert_eq!(linked.parent_turn_id.as_deref(), Some("t-d1"));
    assert_eq!(linked.spawn_tool_call_id.as_deref(), Some("d1"));
    let done = delete_session(ledger, "main", true).await;
    assert_eq!((done.turns, done.retained_turns), (2, 0));
    let left = ledger.read.session("worker").await.unwrap().unwrap();
    let expected = model::SessionRow {
        parent_session_label: None,
        parent_turn_id: None,
        spawn_tool_call_id: None,
        ..linked
    };
    assert_eq!(left, expected);
    assert_eq!(ledger.dispatches.dispatch("d1").await.unwrap(), None);
    let of_main = DispatchFilter { parent_session: Some("main".to_owned()), session_label: None };
    assert_eq!(ledger.dispatches.dispatches(of_main).await.unwrap(), []);
    // The session with the label is a new one.
    fixture.commit(turn("t9", "main", None)).await.unwrap();
    let again = ledger.read.session("main").await.unwrap().unwrap();
    assert_eq!((again.thread_id.as_deref(), again.is_subagent), (Some("t9"), false));
    assert_eq!(ledger.admin.verify().await.unwrap().problems, []);
}
