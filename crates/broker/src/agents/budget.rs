//! How much of a turn's budget a task gets (docs/rules/agents.md#budgets). It must never give more than is left.

use model::{DispatchKind, SpendingLimits};

/// What a task may spend: its agent's own budget, as far as the turn that gives it has it `left`. Where that would be all that is left,
/// a task that the turn does not wait for gets half of it, because the turn goes on.
///
/// # Errors
/// Nothing is left.
pub fn task_budget(
    kind: DispatchKind,
    own: SpendingLimits,
    left: SpendingLimits,
) -> Result<SpendingLimits, String> {
    let most = |own: Option<u64>, left: Option<u64>| match (own, left, kind) {
        (Some(own), Some(left), _) if own < left => Some(own),
        (_, Some(left), DispatchKind::Spawn) => Some(left),
        (_, Some(left), DispatchKind::Dispatch) => Some(left / 2),
        (own, None, _) => own,
    };
    let limits = SpendingLimits {
        tokens: most(own.tokens, left.tokens),
        nanos: most(own.nanos, left.nanos),
    };
    if limits.tokens == Some(0) || limits.nanos == Some(0) {
        return Err("Not started: the budget of this turn is spent (`budgets` of the agent). Finish without another \
                    agent."
            .to_owned());
    }
    Ok(limits)
}

#[cfg(test)]
mod tests {
    use super::task_budget;
    use model::{DispatchKind, SpendingLimits};

    #[test]
    fn a_task_gets_the_smaller_of_its_own_budget_and_what_is_left() {
        let limits = |tokens, nanos| SpendingLimits { tokens, nanos };
        let (spawn, dispatch) = (DispatchKind::Spawn, DispatchKind::Dispatch);
        let none = limits(None, None);
        assert_eq!(task_budget(spawn, none, none), Ok(none));
        let own = limits(Some(10), Some(7));
        assert_eq!(task_budget(dispatch, own, none), Ok(own));
        assert_eq!(
            task_budget(dispatch, own, limits(Some(9), Some(8))),
            Ok(limits(Some(4), Some(7)))
        );
        assert_eq!(task_budget(spawn, own, limits(Some(9), Some(8))), Ok(limits(Some(9), Some(7))));
        assert_eq!(task_budget(spawn, none, limits(Some(9), None)), Ok(limits(Some(9), None)));
        assert_eq!(task_budget(dispatch, none, limits(Some(9), None)), Ok(limits(Some(4), None)));
        assert!(task_budget(spawn, own, limits(Some(0), None)).unwrap_err().contains("spent"));
        assert!(task_budget(dispatch, none, limits(None, Some(1))).is_err());
    }
}
