//! Passes events to the decisions and performs the resulting actions. Makes no decision.

use std::sync::Arc;
use std::time::Duration;

use records::MonoMillis;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use wire::protection::Protections;
use wire::protocol::application_master;
use wire::rpc::ClientAuth;

use super::decisions::Master;
use super::endpoint::{Endpoint, Told};
use super::nodes::Nodes;
use super::rm::{self, MasterAddress, Order, OrderResult};
use super::vocabulary::{Action, Event, Loss};
use super::{Inputs, MasterError};
use crate::rm_link;
use crate::summary::{Outcome, Summary};

/// Capacity of the queue of calls to the ResourceManager: at most one is in flight, and one
/// follows.
const ORDERS_MAX: usize = 4;

/// Longest wait at the end for nodes to stop containers. The ResourceManager orders the same.
const STOP_PATIENCE: Duration = Duration::from_secs(3);

/// Longest wait when the AM's own node terminates the AM, which is killed 250 ms later
/// (`yarn.nodemanager.sleep-delay-before-sigkill.ms`).
const TERMINATED_PATIENCE: Duration = Duration::from_millis(200);

/// Reason of the tasks that failed because of SIGTERM.
const TERMINATED: &str = "the node ends this container";

/// Sleep without an end.
const FAR: Duration = Duration::from_secs(365 * 24 * 3600);

struct Driver {
    master: Master,
    nodes: Nodes,
    calls: JoinSet<Option<Event>>,
    orders: mpsc::Sender<Order>,
    results: mpsc::Receiver<OrderResult>,
    told: watch::Sender<Told>,
    started: Instant,
}

/// Runs the AM to its end.
pub(super) async fn run(given: Inputs) -> Result<Outcome, MasterError> {
    let Inputs {
        spec,
        container,
        host,
        token,
    } = given;
    let mut terminate = signal(SignalKind::terminate()).map_err(MasterError::Signals)?;
    let job = spec.job.clone();
    tracing::info!(%container, containers = job.containers(), "running the ApplicationMaster of a job");
    let started = Instant::now();
    let (orders, orders_taken) = mpsc::channel(ORDERS_MAX);
    let (results_sent, results) = mpsc::channel(ORDERS_MAX);
    let schedulers = spec.schedulers.clone();
    let auth = ClientAuth::Token(token);
    let protections = Protections::from_names(&spec.protections).unwrap_or_default();
    let protocol = application_master::PROTOCOL;
    let config = rm_link::link_config(schedulers, protocol, auth, protections.clone());
    let link = rm_link::client(config, spec.patience);
    let mut background = JoinSet::new();
    let (told, telling) = watch::channel(Told::default());
    let stop = Arc::new(Notify::new());
    let endpoint = Endpoint::bind(&host, spec.secret.clone(), telling, Arc::clone(&stop)).await;
    // Without an endpoint the ResourceManager still reports the share of the job that is done.
    let endpoint = endpoint
        .inspect_err(|error| tracing::warn!(%error, "cannot serve progress"))
        .ok();
    let address = MasterAddress::new(host, endpoint.as_ref().map(Endpoint::port));
    if let Some(endpoint) = endpoint {
        background.spawn(endpoint.serve());
    }
    background.spawn(rm::serve(
        link,
        address,
        job.size(),
        orders_taken,
        results_sent,
    ));
    let mut driver = Driver {
        master: Master::new(job.clone(), spec.user.clone(), MonoMillis(0)),
        nodes: Nodes::new(job, protections),
        calls: JoinSet::new(),
        orders,
        results,
        told,
        started,
    };
    let mut actions = vec![driver.master.begin()];
    loop {
        for action in actions {
            if let Action::Finish { summary, loss } = action {
                let outcome = summary.outcome;
                return tokio::select! {
                    finished = driver.finish(summary, loss) => finished.map(|()| outcome),
                    _ = terminate.recv() => Err(MasterError::Lost(TERMINATED)),
                };
            }
            driver.perform(action).await;
        }
        driver.nodes.forget_container_tokens();
        let event = tokio::select! {
            event = driver.next_event() => event,
            () = stop.notified() => Event::Stop,
            _ = terminate.recv() => Event::Lost(Loss::Terminated),
        };
        actions = driver.master.handle(event, driver.now());
        driver.publish();
    }
}

impl Driver {
    fn now(&self) -> MonoMillis {
        self.started.elapsed().into()
    }

    fn publish(&self) {
        let counts = self.master.counts();
        self.told.send_if_modified(|told| {
            let is_new = told.counts != counts;
            told.counts = counts;
            told.number += u64::from(is_new);
            is_new
        });
    }

    /// Returns the next event. Cancel-safe: the sources keep what has not been taken.
    async fn next_event(&mut self) -> Event {
        loop {
            let wake = self.master.next_wake();
            let wake = wake.map_or(FAR, |wake| Duration::from_millis(wake.0));
            tokio::select! {
                result = self.results.recv() => {
                    let result = result.expect("the task ends after the last order only");
                    for (node, token) in result.nm_tokens {
                        self.nodes.add_token(node, token);
                    }
                    for (id, token) in result.container_tokens {
                        self.nodes.add_container_token(id, token);
                    }
                    if let Some(event) = result.event {
                        return event;
                    }
                }
                Some(done) = self.calls.join_next() => match done {
                    Ok(Some(event)) => return event,
                    Ok(None) => {}
                    Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
                },
                () = sleep_until(self.started + wake) => return Event::Tick,
            }
        }
    }

    async fn order(&self, order: Order) {
        let sent = self.orders.send(order).await;
        sent.expect("the task ends after the last order only");
    }

    async fn perform(&mut self, action: Action) {
        match action {
            Action::Register => self.order(Order::Register).await,
            Action::Allocate(heartbeat) => {
                let progress = self.master.counts().fraction();
                self.order(Order::Allocate(heartbeat, progress)).await;
            }
            Action::Start { node, containers } => {
                let call = self.nodes.start(&node, &containers);
                self.calls.spawn(call.run());
            }
            Action::PollStatus { node, containers } => {
                let call = self.nodes.poll_status(&node, containers);
                self.calls.spawn(call.run());
            }
            Action::Update { node, changes } => {
                let call = self.nodes.update(&node, changes);
                self.calls.spawn(call.run());
            }
            Action::StopContainers { node, containers } => {
                let call = self.nodes.stop(&node, containers);
                self.calls.spawn(call.run());
            }
            Action::Finish { .. } => unreachable!("the loop takes the last action itself"),
        }
    }

    /// Waits for the nodes, then unregisters.
    async fn finish(
        mut self,
        summary: Box<Summary>,
        loss: Option<Loss>,
    ) -> Result<(), MasterError> {
        let patience = match loss {
            Some(Loss::Terminated) => TERMINATED_PATIENCE,
            Some(Loss::Silent | Loss::Disowned) | None => STOP_PATIENCE,
        };
        let left = async { while self.calls.join_next().await.is_some() {} };
        if timeout(patience, left).await.is_err() {
            tracing::warn!("some nodes have not answered to the order to stop containers");
        }
        let outcome = summary.outcome;
        tracing::info!(?summary, "the job has ended");
        match loss {
            None => {
                let unregister = self.unregister(summary);
                // A result is worth waiting for the ResourceManager; the fact that the job was
                // stopped is not.
                if outcome == Outcome::Stopped {
                    let _ = timeout(STOP_PATIENCE, unregister).await;
                } else {
                    unregister.await;
                }
                Ok(())
            }
            Some(Loss::Silent) => Err(MasterError::Lost("the ResourceManager does not answer")),
            Some(Loss::Disowned) => Err(MasterError::Lost(
                "the ResourceManager does not know this attempt any more",
            )),
            Some(Loss::Terminated) => Err(MasterError::Lost(TERMINATED)),
        }
    }

    async fn unregister(&mut self, summary: Box<Summary>) {
        self.order(Order::Finish(summary)).await;
        // Results of earlier orders come first.
        let is_last =
            |result: Option<OrderResult>| result.is_none_or(|result| result.event.is_none());
        while !is_last(self.results.recv().await) {}
    }
}
