//! The heuristic planner, and a plan in the machine.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::value::RawValue;

use super::{Situation, heuristic};
use crate::machine::{Event, Machine, Reply, Step, Tick, ToolFinish};
use model::{
    Block, ExecutionMode, Message, PLANNED, Plan, Provenance, ReplayClass, Role, StopReason,
    TokenUsage, ToolDefinition, ToolPermission,
};

fn tool(name: &str, parameters: &str) -> ToolDefinition {
    ToolDefinition {
        name: name.to_owned(),
        description: String::new(),
        parameters: RawValue::from_string(parameters.to_owned()).unwrap(),
        execution_mode: ExecutionMode::Sequential,
        timeout_ms: None,
        replay: ReplayClass::Unsafe,
        max_result_chars: None,
        retries: 0,
        permission: ToolPermission::Allow,
        external: false,
    }
}

const TEXT: &str =
    r#"{"type":"object","properties":{"query":{"type":"string"},"limit":{"type":"number"}}}"#;
const PATH: &str =
    r#"{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}"#;
const ACTIONS: &str = r#"{"type":"object","properties":{"action":{"type":"string","enum":["list","send"]},"to":{"type":"string"}}}"#;
const NUMBERS: &str = r#"{"type":"object","properties":{"a":{"type":"number"}},"required":["a"]}"#;

fn tools() -> Vec<ToolDefinition> {
    vec![
        tool("github__search_issues", TEXT),
        tool("github__search_code", TEXT),
        tool("read", PATH),
        tool("mail", ACTIONS),
        tool("add", NUMBERS),
        tool("clock__list", "{}"),
    ]
}

/// The plan of the heuristic in one line.
fn plan(message: &str, has_observation: bool) -> String {
    let keywords = [
        ("issue", "github"),
        ("open issue", "github__search_issues"),
        ("time", "clock"),
        ("sum", "add"),
        ("post", "mail"),
        ("door", "house"),
    ];
    let keywords: BTreeMap<String, String> =
        keywords.into_iter().map(|(word, tool)| (word.to_owned(), tool.to_owned())).collect();
    let tools = tools();
    let situation = Situation { message, tools: &tools, keywords: &keywords, has_observation };
    match heuristic(&situation) {
        Plan::Direct { reason } => format!("direct: {reason}"),
        Plan::Tools { calls, .. } => {
            calls.iter().map(|call| format!("{} {}", call.tool_name, call.params.get())).collect()
        }
        Plan::Clarify { question, reason } => format!("{question} ({reason})"),
    }
}

#[test]
fn a_directive_becomes_the_call_that_it_names() {
    for (message, expected) in [
        ("tool:github.search_issues leaks", r#"github__search_issues {"query":"leaks"}"#),
        (" tool:github.search_code {\"limit\":3}", r#"github__search_code {"limit":3}"#),
        ("app/github/search_issues", "github__search_issues {}"),
        ("tool:read README.md", r#"read {"path":"README.md"}"#),
        ("tool:mail.send Eve", r#"mail {"action":"send","to":"Eve"}"#),
        ("app/mail/list {\"to\":\"Eve\"}", r#"mail {"action":"list","to":"Eve"}"#),
    ] {
        assert_eq!(plan(message, false), expected, "{message}");
    }
}

#[test]
fn a_directive_that_cannot_be_read_becomes_a_question_with_an_example() {
    let question = "Which tool and action should I use? Example: tool:github.search_issues";
    for (message, why) in [
        ("tool:", "`tool:` names no tool of the run"),
        ("tool:github", "`tool:github` names no tool of the run"),
        ("tool:github.", "`tool:github.` names no tool of the run"),
        ("tool:github.delete all", "`tool:github.delete` names no tool of the run"),
        ("app/mail/forward", "`app/mail/forward` names no tool of the run"),
        ("tool:add two and two", "the arguments after `tool:add` cannot be read"),
        ("tool:read {\"path\":", "the arguments after `tool:read` cannot be read"),
    ] {
        assert_eq!(plan(message, false), format!("{question} ({why})"), "{message}");
    }
}

#[test]
fn a_keyword_of_the_host_becomes_a_lookup_in_its_tool() {
    for (message, expected) in [
        (
            "Is there an ISSUE about it?",
            r#"github__search_code {"query":"Is there an ISSUE about it?"}"#,
        ),
        (
            "the open issue of the time",
            r#"github__search_issues {"query":"the open issue of the time"}"#,
        ),
        ("What time is it?", "clock__list {}"),
        ("Any post?", r#"mail {"action":"list","to":"Any post?"}"#),
        ("the sum of it", "direct: `sum` stands for `add`, which needs more than a text"),
        (
            "the door",
            "direct: `door` stands for `house`, of which the run has no search, list or query",
        ),
        ("sometimes, reissued", "direct: the message names no tool"),
    ] {
        assert_eq!(plan(message, false), expected, "{message}");
    }
}

#[test]
fn other_messages_and_turns_with_an_observation_go_to_the_model() {
    for message in ["Hello", "see app/models/user.rb", "app/models/user/index", "use tool:read"] {
        assert_eq!(plan(message, false), "direct: the message names no tool");
    }
    assert_eq!(plan("tool:read a", true), "direct: a tool has answered in this turn");
}

proptest! {
    /// Whatever a user writes, a plan is made, and the same again.
    #[test]
    fn the_same_message_has_the_same_plan(message in "(tool:|app/)?[a-z. /{}\"_]{0,30}\\PC{0,10}") {
        prop_assert_eq!(plan(&message, false), plan(&message, false));
    }
}

fn with_tick<T>(work: impl FnOnce(&mut Tick<'_>) -> T) -> T {
    let mut ids = 0;
    let mut new_id = || {
        ids += 1;
        format!("new{ids}")
    };
    work(&mut Tick { now_ms: 1, new_id: &mut new_id, remaining: Duration::from_secs(60) })
}

fn machine(max_iterations: u32) -> Machine {
    let query = Message {
        id: "q".to_owned(),
        role: Role::User,
        blocks: vec![Block::text("hi")],
        sequence: 0,
        created_at: 0,
        provenance: None,
        provider_stop_reason: None,
    };
    Machine::new(query, max_iterations)
}

fn reply(blocks: Vec<Block>) -> Reply {
    Reply {
        message_id: "planned".to_owned(),
        blocks,
        provenance: Provenance {
            provider: "planner".to_owned(),
            api: PLANNED.to_owned(),
            model: "heuristic".to_owned(),
            response_id: None,
        },
        usage: TokenUsage::default(),
        usage_estimated: false,
    }
}

fn call() -> Block {
    Block::ToolCall {
        id: "p".to_owned(),
        name: "read".to_owned(),
        arguments_json: "{}".to_owned(),
        incomplete: false,
        provider_data: None,
    }
}

#[test]
fn planned_calls_run_before_the_model_and_count_as_a_step() {
    let mut machine = machine(2);
    let step = with_tick(|tick| machine.feed(Event::Planned(reply(vec![call()])), tick));
    let Step::RunTools(calls) = step else { panic!("{step:?}") };
    let call_id = calls[0].call_id.clone();
    let finish = ToolFinish {
        content: vec![Block::text("ok")],
        result: None,
        error: None,
        spawned_session_label: None,
    };
    let next = with_tick(|tick| machine.feed(Event::ToolFinished { call_id, finish }, tick));
    assert_eq!((next, machine.progress().iterations), (Step::CallModel, 1));
    assert_eq!(machine.messages()[1].provider_stop_reason.as_deref(), Some("planned"));
    // The second plan would be the last step: its calls do not run, and the run ends.
    let last = with_tick(|tick| machine.feed(Event::Planned(reply(vec![call()])), tick));
    assert_eq!(last, Step::Done);
    assert_eq!(machine.outcome().unwrap().stop_reason, StopReason::ToolUse);
    assert_eq!(machine.messages().len(), 5);
}

#[test]
fn a_question_ends_the_turn_and_a_message_continues_it() {
    let mut machine = machine(25);
    let question = reply(vec![Block::text("Which?")]);
    let step = with_tick(|tick| machine.feed(Event::Planned(question.clone()), tick));
    assert_eq!(step, Step::Done);
    assert_eq!(machine.outcome().unwrap().stop_reason, StopReason::EndTurn);
    // Late: a turn that has ended takes no plan.
    with_tick(|tick| machine.feed(Event::Planned(question), tick));
    assert_eq!(machine.messages().len(), 2);
    let steered = Event::Steered(vec![vec![Block::text("the first")]]);
    assert_eq!(with_tick(|tick| machine.feed(steered, tick)), Step::CallModel);
}
