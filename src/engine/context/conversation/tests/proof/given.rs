//! Given histories that a host edits between calls: a conversation that continues a stored one equals the one that is
//! projected from the beginning. It must never compare less than all values that a run reads of a conversation.

use proptest::sample::Index;

use super::histories::message;
use super::*;
use crate::engine::context::GivenConversations;
use model::GivenHistory;
use turn::prune::{Level, Pruned};

/// A host's edit of its history before the next call.
#[derive(Debug, Clone)]
enum Edit {
    /// No edit: the same question again.
    Again,
    /// A number of new messages is appended.
    Grow(usize),
    /// The messages from this position on are removed.
    Cut(Index),
    /// One message is replaced.
    Replace(Index, Index),
    /// One message is removed.
    Remove(Index),
    /// Two messages change their positions.
    Swap(Index, Index),
    /// The results at these positions are pruned from here on.
    Prune(Vec<Index>),
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let one = prop_oneof![
        2 => Just(Edit::Again),
        9 => (1..6usize).prop_map(Edit::Grow),
        2 => any::<Index>().prop_map(Edit::Cut),
        2 => any::<(Index, Index)>().prop_map(|(at, with)| Edit::Replace(at, with)),
        1 => any::<Index>().prop_map(Edit::Remove),
        1 => any::<(Index, Index)>().prop_map(|(one, other)| Edit::Swap(one, other)),
        1 => prop::collection::vec(any::<Index>(), 0..3).prop_map(Edit::Prune),
    ];
    prop::collection::vec(one, 1..9)
}

/// The messages of a host, by their number in `all`.
struct Host<'a> {
    all: &'a [Message],
    given: Vec<usize>,
    pruned: Pruned,
}

impl Host<'_> {
    fn edit(&mut self, edit: &Edit) {
        let len = self.given.len();
        match edit {
            Edit::Grow(more) => {
                let next = self.given.iter().max().map_or(0, |last| last + 1);
                self.given.extend((next..self.all.len()).take(*more));
            }
            Edit::Prune(results) => {
                let level = |index: &Index| (index.index(40), Level::Cleared);
                self.pruned = results.iter().map(level).collect();
            }
            Edit::Again => {}
            _ if len == 0 => {}
            Edit::Cut(at) => self.given.truncate(at.index(len)),
            Edit::Replace(at, with) => self.given[at.index(len)] = with.index(self.all.len()),
            Edit::Remove(at) => drop(self.given.remove(at.index(len))),
            Edit::Swap(one, other) => self.given.swap(one.index(len), other.index(len)),
        }
    }

    /// The history as the border passes it: messages that are unchanged since the last call are shared in memory.
    fn history(&self, last: &(Vec<usize>, GivenHistory)) -> GivenHistory {
        let same = self.given.iter().zip(&last.0).take_while(|(now, before)| now == before).count();
        let mut history = last.1.prefix(same).unwrap();
        let rest = self.given[same..].iter().map(|number| self.all[*number].clone());
        history.append(rest.collect(), 0);
        history
    }
}

/// All values that a run reads of a conversation.
fn seen(server: &Server, conversation: &Conversation) -> impl PartialEq + std::fmt::Debug {
    let (pieces, open_end) = conversation.request_pieces(&server.encoder);
    let sizes = (conversation.tokens(), conversation.text_tokens());
    let links = conversation.links();
    let end = (conversation.earlier_end(), open_end, conversation.sendable());
    (
        server.body(vec![Bytes::from(join_pieces(&pieces))]),
        sizes,
        links,
        end,
        conversation.dropped(),
    )
}

fn prove_edits(server: &Server, all: &[Message], edits: &[Edit]) -> Result<(), TestCaseError> {
    let stored = GivenConversations::default();
    let (target, encoder) = (server.target(), &server.encoder);
    let mut host = Host { all, given: Vec::new(), pruned: Pruned::new() };
    let mut last = (Vec::new(), GivenHistory::default());
    for (number, edit) in edits.iter().enumerate() {
        host.edit(edit);
        let history = host.history(&last);
        let mut continued = stored.conversation(&history, &target, encoder, &host.pruned);
        let mut fresh = Conversation::pruned(target.clone(), 0, host.pruned.clone());
        fresh.push_flat(history.iter(), encoder);
        prop_assert_eq!(seen(server, &continued), seen(server, &fresh), "edit {}", number);
        let mut turn = vec![message(Role::User, vec![Block::text("and now?")])];
        if number % 2 == 1 {
            // A turn whose tools the host runs.
            turn.insert(0, message(Role::Assistant, vec![Block::text("I look.")]));
        }
        for conversation in [&mut continued, &mut fresh] {
            conversation.turn_begins();
            conversation.push_current(&turn, encoder);
        }
        prop_assert_eq!(seen(server, &continued), seen(server, &fresh), "call {}", number);
        last = (host.given.clone(), history);
    }
    Ok(())
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test's own switch, which no user sets")]
fn a_given_history_that_is_continued_is_the_whole() {
    let cases = std::env::var_os("GIVEN_CASES");
    let cases = cases.and_then(|cases| cases.to_str()?.parse().ok()).unwrap_or(300);
    let servers = [
        anthropic(),
        openai_chat(),
        mistral(),
        deepseek(),
        openai_responses(),
        gemini(),
        converse(),
    ];
    for server in &servers {
        let config = Config { cases, failure_persistence: None, ..Config::default() };
        let mut runner = TestRunner::new(config);
        let outcome = runner.run(&(conversed(server.writer), edits()), |(case, edits)| {
            let all: Vec<Message> = turns(&case).flatten().cloned().collect();
            prove_edits(server, &all, &edits)
        });
        if let Err(error) = outcome {
            panic!("{:?}: {error}", server.target().api);
        }
    }
}
