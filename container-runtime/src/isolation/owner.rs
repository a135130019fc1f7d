//! Thread that owns the state machine. Takes events from a mailbox, carries out fast jobs itself,
//! and passes slow ones on to two executor threads, whose results come back as events.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender, at, bounded, never, select, unbounded};
use records::ContainerId;
use threads::ThreadOwner;
use tokio::sync::mpsc;

use super::executor::Places;
use super::limits::Rules;
use super::outbox::{self, Outbox};
use super::state::{Action, Done, Event, Groups, Job, Lane, Report, Severity, State, Subject};
use crate::isolation::IsolationEvent;

/// Message to the owner.
#[derive(Debug)]
enum Message {
    Tell(Event),
    /// Asks for a container's cgroups. The event, if any, is handled before the answer is sent;
    /// the answer is from before the event.
    Ask {
        id: ContainerId,
        event: Option<Event>,
        answer: Sender<Groups>,
    },
}

/// Handle to the owner. Cheap to clone; the threads end with the last one. The queue is bounded by
/// the containers: each sends a handful of messages.
#[derive(Clone, Debug)]
pub(super) struct Mailbox {
    _threads: Arc<ThreadOwner>,
    messages: Sender<Message>,
}

impl Mailbox {
    /// Sends an event without waiting.
    pub(super) fn tell(&self, event: Event) {
        if self.messages.send(Message::Tell(event)).is_err() {
            tracing::error!("the thread that owns the cgroups' state has ended");
        }
    }

    /// Returns a container's cgroups as they were before `event`, after its fast jobs are done.
    /// Takes microseconds: the owner never blocks. `None`: the owner has ended.
    pub(super) fn ask(&self, id: ContainerId, event: Option<Event>) -> Option<Groups> {
        let (answer, answered) = bounded(1);
        let sent = self.messages.send(Message::Ask { id, event, answer });
        sent.ok().and_then(|()| answered.recv().ok())
    }
}

/// Owner of the state machine.
struct Owner {
    state: State,
    places: Arc<Places>,
    outbox: Outbox,
    limits: Sender<Job>,
    reclaim: Sender<Job>,
}

/// Writes the limits of the classes, and then starts the threads.
pub(super) fn start(
    rules: Rules,
    places: &Arc<Places>,
    events: mpsc::Sender<IsolationEvent>,
) -> io::Result<Mailbox> {
    let (mailbox, messages) = unbounded();
    let (results, done) = unbounded();
    let (limits, limit_jobs) = unbounded();
    let (reclaim, reclaim_jobs) = unbounded();
    let mut owner = Owner {
        state: State::new(rules, Instant::now()),
        places: Arc::clone(places),
        outbox: Outbox::new(events),
        limits,
        reclaim,
    };
    owner.write_first_limits();
    let threads = ThreadOwner::default();
    for (name, jobs) in [
        ("cgroup-limits", limit_jobs),
        ("cgroup-reclaim", reclaim_jobs),
    ] {
        let (places, results) = (Arc::clone(places), results.clone());
        threads.start(name, move || execute(&places, &jobs, &results))?;
    }
    threads.start("cgroup-owner", move || owner.serve(&messages, &done))?;
    Ok(Mailbox {
        _threads: Arc::new(threads),
        messages: mailbox,
    })
}

/// Carries out slow jobs until the owner has ended.
fn execute(places: &Places, jobs: &Receiver<Job>, results: &Sender<Done>) {
    for job in jobs {
        if let Some(done) = job.run(&mut &*places)
            && results.send(done).is_err()
        {
            return;
        }
    }
}

impl Owner {
    /// Carries out all jobs on this thread: no container starts before the classes have limits.
    fn write_first_limits(&mut self) {
        while let Some(action) = self.state.next_action() {
            match action {
                Action::Do(_, job) => self.run(job),
                Action::Answer(event) => self.outbox.send(event),
                Action::Report(report) => log(&report),
            }
        }
    }

    /// Serves until the last handle is gone.
    fn serve(mut self, messages: &Receiver<Message>, done: &Receiver<Done>) {
        loop {
            let retry = self.outbox.flush().then(|| Instant::now() + outbox::RETRY);
            let deadline = [self.state.next_deadline(), retry]
                .into_iter()
                .flatten()
                .min();
            let alarm = deadline.map_or_else(never, at);
            select! {
                recv(messages) -> message => match message {
                    Ok(message) => self.take(message),
                    Err(_gone) => return,
                },
                recv(done) -> done => if let Ok(done) = done {
                    self.handle(Event::Done(done));
                },
                recv(alarm) -> _ => {}
            }
            // All that wait already, so that containers told to freeze stop at the same time.
            for message in messages.try_iter() {
                self.take(message);
            }
            self.state.tick(Instant::now());
            self.perform();
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Tell(event) => self.handle(event),
            Message::Ask { id, event, answer } => {
                let groups = self.state.groups(id);
                if let Some(event) = event {
                    self.handle(event);
                }
                // An asker that has gone needs no answer.
                let _gone = answer.send(groups);
            }
        }
    }

    fn handle(&mut self, event: Event) {
        self.state.handle(event, Instant::now());
        self.perform();
    }

    fn perform(&mut self) {
        while let Some(action) = self.state.next_action() {
            match action {
                Action::Do(Lane::Fast, job) => self.run(job),
                Action::Do(Lane::Limits, job) => pass_on(&self.limits, job),
                Action::Do(Lane::Reclaim, job) => pass_on(&self.reclaim, job),
                Action::Answer(event) => self.outbox.send(event),
                Action::Report(report) => log(&report),
            }
        }
    }

    fn run(&mut self, job: Job) {
        if let Some(done) = job.run(&mut &*self.places) {
            self.state.handle(Event::Done(done), Instant::now());
        }
    }
}

fn pass_on(jobs: &Sender<Job>, job: Job) {
    if jobs.send(job).is_err() {
        tracing::error!("a thread that writes cgroup files has ended");
    }
}

fn log(report: &Report) {
    let Report {
        subject,
        what,
        error,
        severity,
    } = report;
    let subject = match subject {
        Subject::Container(id) => id.to_string(),
        Subject::Scope(scope) => format!("{scope:?}"),
    };
    let error = crate::error_chain(error);
    match severity {
        Severity::Debug => tracing::debug!(subject, error, "{what}"),
        Severity::Warn => tracing::warn!(subject, error, "{what}"),
        Severity::Error => tracing::error!(subject, error, "{what}"),
    }
}
