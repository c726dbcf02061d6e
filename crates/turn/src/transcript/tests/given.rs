//! What follows a host's history, by example.

use super::*;

#[test]
fn a_history_that_ends_with_results_is_closed_before_all_but_an_answer_of_the_running_turn() {
    let history = [user("Read"), assistant(vec![call("a")]), result("a", "one")];
    let roles = |turn: &dyn Fn(&mut Projector) -> Vec<Message>| {
        let mut projector = Projector::new(target(Api::AnthropicMessages));
        let mut out = projector.project_flat(&history);
        join(&mut out, turn(&mut projector));
        out.iter().map(|message| message.role.as_str()).collect::<Vec<_>>().join(" ")
    };
    let next = [assistant(vec![call("b")]), result("b", "two")];
    let whole = "user assistant tool assistant tool";
    assert_eq!(roles(&|projector| projector.project_current(&next)), whole);
    assert_eq!(roles(&|projector| projector.project_flat(&next)), whole);
    let closed = "user assistant tool assistant user";
    let question = [user("And now?")];
    assert_eq!(roles(&|projector| projector.project_current(&question)), closed);
    let other = |messages: &[Message], edited| {
        let status = TurnStatus::Completed;
        roles(&|projector| projector.project_turn(status, edited, messages))
    };
    assert_eq!(other(&question, true), closed);
    let answered = [assistant(vec![Block::text("Done")])];
    assert_eq!(other(&answered, false), "user assistant tool assistant user assistant");
}
