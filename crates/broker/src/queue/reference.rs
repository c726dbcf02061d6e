//! What a queue does, stated a second time from its rules (docs/rules/queue.md) and as naively as possible: a list of messages, and one
//! small step after the other. The simulation compares it with the real decisions. It must never use any of them.

use model::{DropPolicy, FailedReason, QueueLimits, QueueMode};

/// What becomes visible of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Effect {
    /// A message waits, and does not run before this time.
    Queued(usize, i64),
    Rejected(usize),
    Dropped(usize),
    /// A turn begins with these messages, after a note about dropped ones.
    Started(Vec<usize>, Option<String>),
    /// Messages are offered to the running turn.
    Offered(Vec<usize>),
    /// The running turn is aborted.
    Aborting,
    Delivered(usize),
    Failed(usize, FailedReason),
    /// A message waits for another try, after so many, of which so many count, until this time.
    Again(usize, u32, u32, i64),
    /// Nothing is done before this time, unless something happens.
    Waits(Option<i64>),
}

/// A message as it is sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent {
    pub(super) mode: QueueMode,
    pub(super) principal: &'static str,
    /// Whether it came through a channel.
    pub(super) has_channel: bool,
    pub(super) is_system: bool,
}

/// How a turn ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Completed,
    Aborted,
    /// Trouble of the provider, which may request a wait.
    Trouble(Option<i64>),
    /// A failure that another try may mend, and that is not the provider's.
    Mishap,
    /// A failure that no try can mend.
    Refused,
    /// A failure after the turn has done something.
    AfterEffect,
    /// Its process died after a tool began.
    Interrupted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Waits,
    Offered,
    Runs,
    Over,
}

#[derive(Debug, Clone, Copy)]
struct Message {
    id: usize,
    sent: Sent,
    state: State,
    ready: i64,
    tries: u32,
    counted: u32,
}

#[derive(Debug, Clone, Copy)]
struct Turn {
    principal: &'static str,
    compacts: bool,
    is_parked: bool,
    is_ending: bool,
}

/// A queue, its running turn, and the time.
#[derive(Debug, Clone)]
pub(super) struct Reference {
    limits: QueueLimits,
    now: i64,
    is_suspended: bool,
    /// All messages, in the order of arrival.
    messages: Vec<Message>,
    turn: Option<Turn>,
    /// Dropped messages that no turn has named.
    unnamed: Vec<usize>,
    effects: Vec<Effect>,
}

impl Reference {
    pub(super) fn new(limits: QueueLimits) -> Self {
        Self {
            limits,
            now: 0,
            is_suspended: false,
            messages: Vec::new(),
            turn: None,
            unnamed: Vec::new(),
            effects: Vec::new(),
        }
    }

    fn waiting(&self) -> Vec<Message> {
        self.messages.iter().filter(|it| it.state == State::Waits).copied().collect()
    }

    fn change(&mut self, id: usize, change: impl FnOnce(&mut Message)) {
        change(self.messages.iter_mut().find(|it| it.id == id).unwrap());
    }

    /// The first message that is dropped for `sent`, where there are too many: none for a system message.
    fn rival(&self, sent: Sent) -> Option<usize> {
        if sent.is_system {
            return None;
        }
        // An interrupt takes the others with it, so that only interrupts are too many for it.
        let mut rivals = self.waiting();
        rivals.retain(|it| !it.sent.is_system);
        if sent.mode == QueueMode::Interrupt {
            rivals.retain(|it| it.sent.mode == QueueMode::Interrupt);
        }
        (rivals.len() >= self.limits.cap).then(|| rivals[0].id)
    }

    pub(super) fn send(&mut self, id: usize, sent: Sent) {
        let is_alone = self.turn.is_none() && self.waiting().is_empty();
        let is_debounced = sent.mode == QueueMode::Collect && !sent.is_system && !is_alone;
        while let Some(rival) = self.rival(sent) {
            match self.limits.drop {
                DropPolicy::New => return self.effects.push(Effect::Rejected(id)),
                DropPolicy::Old => {}
                DropPolicy::Summarize => self.unnamed.push(rival),
            }
            self.change(rival, |it| it.state = State::Over);
            self.effects.push(Effect::Dropped(rival));
        }
        let ready = if is_debounced { self.now + self.limits.debounce_ms } else { self.now };
        let state = State::Waits;
        self.messages.push(Message { id, sent, state, ready, tries: 0, counted: 0 });
        self.effects.push(Effect::Queued(id, ready));
    }

    /// The turn stores the first of the messages that it was offered.
    pub(super) fn take(&mut self) {
        let first = self.messages.iter_mut().find(|it| it.state == State::Offered);
        if let Some(message) = first.filter(|_| self.turn.is_some()) {
            message.state = State::Runs;
        }
    }

    pub(super) fn end(&mut self, end: End) {
        if self.turn.take().is_none() {
            return;
        }
        let mut taken = self.messages.clone();
        taken.retain(|it| it.state == State::Runs);
        for Message { id, .. } in taken {
            self.end_message(id, end);
        }
        // What it was offered and has not taken waits as before.
        for message in &mut self.messages {
            if message.state == State::Offered {
                message.state = State::Waits;
            }
        }
    }

    fn end_message(&mut self, id: usize, end: End) {
        let now = self.now;
        let mut effect = None;
        self.change(id, |it| {
            it.state = State::Over;
            let requested = match end {
                End::Completed | End::Aborted => return effect = Some(Effect::Delivered(id)),
                End::Refused | End::AfterEffect => {
                    return effect = Some(Effect::Failed(id, FailedReason::RunFailed));
                }
                End::Interrupted => {
                    return effect = Some(Effect::Failed(id, FailedReason::Interrupted));
                }
                End::Trouble(requested) => requested.unwrap_or(0),
                End::Mishap => {
                    it.counted += 1;
                    0
                }
            };
            if it.counted == 7 {
                return effect = Some(Effect::Failed(id, FailedReason::Poisoned));
            }
            let pause = match it.tries {
                0 => 500,
                1 => 1_000,
                2 => 2_000,
                3 => 4_000,
                4 => 8_000,
                _ => 10_000,
            };
            it.state = State::Waits;
            it.tries += 1;
            it.ready = now + if requested > pause { requested } else { pause };
            effect = Some(Effect::Again(id, it.tries, it.counted, it.ready));
        });
        self.effects.extend(effect);
    }

    pub(super) fn compact(&mut self, compacts: bool) {
        if let Some(turn) = &mut self.turn {
            turn.compacts = compacts;
        }
    }

    pub(super) fn park(&mut self) {
        if let Some(turn) = &mut self.turn {
            turn.is_parked = !turn.is_parked;
        }
    }

    pub(super) fn pass(&mut self, by: i64) {
        self.now += by;
    }

    pub(super) fn suspend(&mut self, is_suspended: bool) {
        self.is_suspended = is_suspended;
    }

    pub(super) fn cancel(&mut self, id: usize) {
        if self.waiting().iter().any(|it| it.id == id) {
            self.change(id, |it| it.state = State::Over);
            self.effects.push(Effect::Failed(id, FailedReason::Cancelled));
        }
    }

    /// Does what is to be done now. Returns all that became visible since the last time.
    pub(super) fn settle(&mut self) -> Vec<Effect> {
        while self.step() {}
        let wake = self.wake();
        self.effects.push(Effect::Waits(wake));
        std::mem::take(&mut self.effects)
    }

    /// The first time at which something would be done: each that a message waits for is tried.
    fn wake(&self) -> Option<i64> {
        let longest = 10 * self.limits.debounce_ms;
        let waiting = self.waiting();
        let mut times: Vec<i64> =
            waiting.iter().flat_map(|it| [it.ready, it.ready + longest]).collect();
        times.retain(|time| *time > self.now);
        times.sort_unstable();
        times.into_iter().find(|time| {
            let mut later = Self { now: *time, messages: waiting.clone(), ..self.clone() };
            later.step()
        })
    }

    /// One step; false where nothing is to be done now.
    fn step(&mut self) -> bool {
        if self.is_suspended {
            return false;
        }
        let waiting = self.waiting();
        let interrupt =
            waiting.iter().find(|it| it.sent.mode == QueueMode::Interrupt && it.ready <= self.now);
        let Some(turn) = &mut self.turn else {
            let company = match interrupt {
                Some(interrupt) => with_backlog(&waiting, interrupt.sent.principal),
                None => self.next(&waiting),
            };
            return self.begin(&company);
        };
        if turn.is_ending {
            return false;
        }
        if interrupt.is_some() {
            turn.is_ending = true;
            self.effects.push(Effect::Aborting);
            return true;
        }
        if turn.is_parked || turn.compacts {
            return false;
        }
        let mut entering = waiting;
        entering.retain(|it| {
            let steers = [QueueMode::Steer, QueueMode::SteerBacklog].contains(&it.sent.mode);
            steers && it.sent.principal == turn.principal && it.ready <= self.now
        });
        let ids: Vec<usize> = entering.iter().map(|it| it.id).collect();
        for id in &ids {
            self.change(*id, |it| it.state = State::Offered);
        }
        if ids.is_empty() {
            return false;
        }
        self.effects.push(Effect::Offered(ids));
        true
    }

    /// The messages of the next turn of an idle session without an interrupt; none where they are not ready.
    fn next(&self, waiting: &[Message]) -> Vec<Message> {
        let missed = waiting.iter().find(|it| it.sent.mode == QueueMode::Steer);
        let Some(head) = missed.or(waiting.first()) else { return Vec::new() };
        if head.sent.mode != QueueMode::Collect || head.sent.is_system {
            return if head.ready <= self.now { vec![*head] } else { Vec::new() };
        }
        let mut group: Vec<Message> = Vec::new();
        for message in waiting {
            let (one, other) = (message.sent, head.sent);
            let is_alike = one.has_channel == other.has_channel && one.principal == other.principal;
            if one.mode != QueueMode::Collect || one.is_system || !is_alike {
                break;
            }
            group.push(*message);
        }
        let is_quiet = group.iter().all(|it| it.ready <= self.now);
        let is_enough = head.ready + 10 * self.limits.debounce_ms <= self.now;
        if is_quiet || is_enough { group } else { Vec::new() }
    }

    fn begin(&mut self, company: &[Message]) -> bool {
        let Some(first) = company.first() else { return false };
        let (principal, ids) = (first.sent.principal, company.iter().map(|it| it.id).collect());
        for message in company {
            self.change(message.id, |it| it.state = State::Runs);
        }
        self.turn = Some(Turn { principal, compacts: false, is_parked: false, is_ending: false });
        let named = std::mem::take(&mut self.unnamed);
        let note = (!named.is_empty()).then(|| self.note(&named));
        self.effects.push(Effect::Started(ids, note));
        true
    }

    /// A line for each of the newest dropped messages, as many as may wait.
    fn note(&self, named: &[usize]) -> String {
        let head = match named.len() {
            1 => "1 message was".to_owned(),
            many => format!("{many} messages were"),
        };
        let mut lines = vec![format!("[{head} left out because the queue was full:]")];
        let mut newest: Vec<&usize> = named.iter().rev().take(self.limits.cap).collect();
        newest.reverse();
        lines.extend(newest.iter().map(|id| format!("- text {id}")));
        lines.join("\n")
    }

    /// Whether a message neither waits nor is in a turn.
    pub(super) fn is_empty(&self) -> bool {
        self.messages.iter().all(|it| it.state == State::Over)
    }
}

/// An interrupt's turn: all that its principal has sent up to its last interrupt.
fn with_backlog(waiting: &[Message], principal: &str) -> Vec<Message> {
    let mut company = waiting.to_vec();
    company.retain(|it| it.sent.principal == principal);
    while company.last().is_some_and(|it| it.sent.mode != QueueMode::Interrupt) {
        company.pop();
    }
    company
}
