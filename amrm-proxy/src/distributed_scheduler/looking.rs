//! Looks at nodes before containers are placed: what the scheduler orders from its performer, and
//! what it does with the answer. Used under [`Placement::Look`] only.
//!
//! A call that looks goes through two hooks: the request's draws the nodes to look at, the answer's
//! allocates. In between the call has no containers; one that the AM abandons meanwhile has changed
//! nothing but the asks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use records::{NodeId, Resource};
use sched::{
    BoundNodes, DistributedAllocation, ExpectedRun, KnownNode, KnownNodes, LookAnswer, LookPlan,
    NodeList, Placement, Sight, Wish,
};

use super::{CallInProgress, DistributedScheduler, Gauges};
use crate::call::Request;
use crate::interceptor::{Action, Actions, Context};
use crate::looks::{Bound, CallLooks, Choice, KnownView, Looks};
use crate::observe::{BindNumbers, LookNumbers, Observation};

/// Effect of a scheduler's own.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Publish these numbers.
    Publish(Gauges),
    /// Look at these nodes before the request goes on. The answer is [`News::Looked`].
    Look(Vec<KnownNode>),
    /// Reserve for what is wanted before the request goes on, and take what is bound. The answer is
    /// [`News::Bound`]. Nothing wanted: all reservations are void, and there is no answer.
    Bind {
        /// Containers that are wanted, the most urgent ones first.
        wishes: Vec<Wish>,
        /// Expected run of a container.
        run: ExpectedRun,
    },
    /// Keep nodes that were bound and got no container until the next call.
    Unbound(Vec<BoundNodes>),
    /// Remember how the nodes of these containers were chosen.
    Chose(Vec<Choice>),
    /// Opportunistic containers are asked for: know the cluster's nodes.
    WantNodes {
        /// Number of nodes that the ResourceManager told last; `None` before.
        cluster: Option<u64>,
    },
    /// Know the nodes of the ResourceManager's list, which is another one than before.
    Listed(NodeList),
    /// Forget nodes that take no containers any more.
    Gone(BTreeSet<NodeId>),
    /// Forget all nodes, if this is another ResourceManager than before.
    ResourceManager {
        /// First container id of its epoch; `None` if its answer was lost.
        epoch: Option<i64>,
    },
}

/// News for a scheduler.
#[derive(Clone, Debug)]
pub enum News {
    /// Nodes that are known, in place of the earlier ones.
    Nodes(KnownView),
    /// Answer to [`Effect::Look`].
    Looked(Looks),
    /// Nodes that take no reservations, in place of the earlier ones: what is not bound goes there
    /// after looks.
    Others(Arc<KnownNodes>),
    /// Answer to [`Effect::Bind`].
    Bound(Bound),
    /// Another choice of nodes from now on.
    Placement(Placement),
}

/// Part that looks have in an allocation.
pub(super) enum LookFirst {
    /// None: the allocator decides alone, or gives what a failed call had.
    NotUsed,
    /// The answer of the looks decides.
    Ordered,
    /// Containers are placed without looks.
    Placed,
}

/// State of an attempt's looks.
#[derive(Debug)]
pub(super) struct Looking {
    is_used: bool,
    known: KnownView,
    /// Looks of the current call.
    plan: Option<LookPlan>,
    /// Nodes that take no reservations.
    others: Arc<KnownNodes>,
    /// Whether the current call waits for what is bound.
    is_binding: bool,
    /// Whether reservations of this attempt may stand.
    has_reserved: bool,
    cluster: Option<u64>,
    /// The last list that the performer was told; `None` before, or if it has forgotten it.
    listed: Option<NodeList>,
}

impl Looking {
    pub(super) fn new(placement: Placement) -> Self {
        Self {
            is_used: placement == Placement::Look,
            known: KnownView::default(),
            plan: None,
            others: Arc::default(),
            is_binding: false,
            has_reserved: false,
            cluster: None,
            listed: None,
        }
    }

    /// Begins or ends with looks. The nodes of the present list are told with the next answer.
    pub(super) fn set_placement(&mut self, placement: Placement) {
        *self = Self {
            cluster: self.cluster,
            has_reserved: self.has_reserved,
            ..Self::new(placement)
        };
    }

    /// Forgets the looks of a call that was abandoned.
    pub(super) fn abandon(&mut self) {
        self.plan = None;
        self.is_binding = false;
    }

    pub(super) fn note_news(&mut self, news: News) {
        match news {
            News::Nodes(known) => self.known = known,
            News::Others(others) => self.others = others,
            // The call that it was for is over.
            News::Looked(_) | News::Bound(_) | News::Placement(_) => {}
        }
    }

    pub(super) fn note_cluster(&mut self, nodes: Option<i32>) {
        let nodes = nodes.and_then(|nodes| u64::try_from(nodes).ok());
        self.cluster = nodes.or(self.cluster);
    }

    pub(super) fn note_resource_manager(&mut self, epoch: Option<i64>, own: &mut Vec<Effect>) {
        self.listed = None;
        own.push(Effect::ResourceManager { epoch });
    }

    pub(super) fn note_list(&mut self, nodes: &NodeList, own: &mut Vec<Effect>) {
        let told = self.listed.as_ref();
        if !self.is_used || told.is_some_and(|told| told.is_same(nodes)) {
            return;
        }
        self.listed = Some(nodes.clone());
        own.push(Effect::Listed(nodes.clone()));
    }

    pub(super) fn note_gone(&mut self, nodes: BTreeSet<NodeId>, own: &mut Vec<Effect>) {
        if !nodes.is_empty() {
            own.push(Effect::Gone(nodes));
        }
    }
}

impl DistributedScheduler {
    /// Orders looks for the outstanding asks, or places them without where no node answers.
    pub(super) fn look_first(
        &mut self,
        context: &Context<'_>,
        Actions { chain, own }: &mut Actions<'_, Effect>,
    ) -> LookFirst {
        let now = context.now.mono;
        let KnownView {
            nodes,
            answers_looks,
            binds_late,
        } = &self.looking.known;
        if *binds_late {
            return self.bind_first(&Arc::clone(nodes), context, own);
        }
        Self::void_reservations(&mut self.looking.has_reserved, own);
        let plan = match answers_looks {
            true => self.allocator.plan_looks(nodes, now),
            false => self.allocator.plan_unseen(nodes, now),
        };
        let Some(plan) = plan else {
            return LookFirst::NotUsed;
        };
        let cluster = self.looking.cluster;
        own.push(Effect::WantNodes { cluster });
        if *answers_looks && !plan.nodes().is_empty() {
            own.push(Effect::Look(plan.nodes().to_vec()));
            self.looking.plan = Some(plan);
            return LookFirst::Ordered;
        }
        // Nobody has seen the nodes, so that there is no limit to apply.
        let outcome = self.allocator.allocate_seen(plan, None, now);
        let numbers = LookNumbers {
            held_back: outcome.held_back,
            unseen: outcome.unseen,
            ..LookNumbers::default()
        };
        own.push(self.chosen(&numbers, &BTreeMap::new(), |_| false, context));
        chain.push(Action::Observe(Observation::Looked(numbers)));
        LookFirst::Placed
    }

    /// Orders reservations for the outstanding asks.
    fn bind_first(
        &mut self,
        nodes: &KnownNodes,
        context: &Context<'_>,
        own: &mut Vec<Effect>,
    ) -> LookFirst {
        let now = context.now.mono;
        let wishes = self.allocator.wishes(nodes, now);
        let is_nothing = wishes.as_ref().is_none_or(Vec::is_empty);
        if self.allocator.asks().is_empty() {
            Self::void_reservations(&mut self.looking.has_reserved, own);
            return LookFirst::NotUsed;
        }
        let Some(wishes) = wishes.filter(|_| !is_nothing) else {
            return LookFirst::NotUsed;
        };
        let cluster = self.looking.cluster;
        own.push(Effect::WantNodes { cluster });
        let others = Arc::clone(&self.looking.others);
        if !others.is_empty() {
            self.looking.plan = self.allocator.plan_looks(&others, now);
        }
        let plan = self.looking.plan.as_ref().map(LookPlan::nodes);
        if let Some(nodes) = plan.filter(|nodes| !nodes.is_empty()) {
            own.push(Effect::Look(nodes.to_vec()));
        }
        let run = self.allocator.expected_run(now);
        own.push(Effect::Bind { wishes, run });
        (self.looking.is_binding, self.looking.has_reserved) = (true, true);
        LookFirst::Ordered
    }

    /// Has nothing bound any more, if anything may be.
    fn void_reservations(has_reserved: &mut bool, own: &mut Vec<Effect>) {
        if std::mem::take(has_reserved) {
            let (wishes, run) = (Vec::new(), ExpectedRun::AtLeast(0));
            own.push(Effect::Bind { wishes, run });
        }
    }

    /// Allocates containers on the nodes to which tasks are bound, and adds them to the request.
    pub(super) fn place_bound(
        &mut self,
        bound: Bound,
        request: &mut Request,
        context: &Context<'_>,
        Actions { chain, own }: &mut Actions<'_, Effect>,
    ) {
        let is_expected = std::mem::take(&mut self.looking.is_binding);
        if !is_expected {
            own.push(Effect::Unbound(bound.nodes));
            return;
        }
        let mut plan = self.looking.plan.take();
        let looked = plan.as_mut().zip(bound.looks);
        let (numbers, seen) =
            looked.map_or_else(Default::default, |(plan, looks)| hear(plan, &looks));
        let nodes = bound.nodes.iter().flat_map(|bound| &bound.nodes);
        let nodes: BTreeSet<NodeId> = nodes.map(|known| known.node().node_id.clone()).collect();
        let had_offered = |node: &NodeId| nodes.contains(node);
        let now = context.now.mono;
        let left = self.allocator.allocate_bound(bound.nodes, plan, now);
        if !left.is_empty() {
            own.push(Effect::Unbound(left));
        }
        let placed = self.allocator.unconfirmed().iter();
        let placed = placed.filter(|given| had_offered(&given.container.node_id));
        let placed = u32::try_from(placed.count()).unwrap_or(u32::MAX);
        own.push(self.chosen(&numbers, &seen, had_offered, context));
        if numbers.asked > 0 {
            chain.push(Action::Observe(Observation::Looked(numbers)));
        }
        chain.push(Action::Observe(Observation::Bound(BindNumbers {
            reserved: bound.reserved,
            placed,
            took: bound.took,
        })));
        self.send_placed(request, context, chain);
    }

    fn send_placed(
        &mut self,
        request: &mut Request,
        context: &Context<'_>,
        chain: &mut Vec<Action>,
    ) {
        let sent = self.send(request, context, chain);
        if let Some(CallInProgress::Next { containers, .. }) = &mut self.in_progress {
            *containers = sent;
        }
    }

    /// Allocates containers by what looks showed, and adds them to the request.
    pub(super) fn place_by_looks(
        &mut self,
        looks: Looks,
        request: &mut Request,
        context: &Context<'_>,
        Actions { chain, own }: &mut Actions<'_, Effect>,
    ) {
        let Some(mut plan) = self.looking.plan.take() else {
            return;
        };
        let (heard, seen) = hear(&mut plan, &looks);
        for position in looks.late {
            let free = Resource::new(0, 0);
            plan.hears(position, LookAnswer::Unknown { free });
        }
        let (limit, now) = (looks.max_queue_length, context.now.mono);
        let outcome = self.allocator.allocate_seen(plan, limit, now);
        let numbers = LookNumbers {
            held_back: outcome.held_back,
            unseen: outcome.unseen,
            ..heard
        };
        own.push(self.chosen(&numbers, &seen, |_| false, context));
        chain.push(Action::Observe(Observation::Looked(numbers)));
        self.send_placed(request, context, chain);
    }

    /// Returns how the nodes of the containers that were just placed have been chosen: by looks, or
    /// because they `had_offered` room.
    fn chosen(
        &self,
        numbers: &LookNumbers,
        seen: &BTreeMap<NodeId, Sight>,
        had_offered: impl Fn(&NodeId) -> bool,
        context: &Context<'_>,
    ) -> Effect {
        let looks = CallLooks {
            asked: numbers.asked,
            answered: numbers.answered,
            held_back: numbers.held_back,
        };
        let placed = self.allocator.unconfirmed().iter();
        let choices = placed.map(|DistributedAllocation { container, .. }| Choice {
            container: container.container_id.name(),
            user: context.user.to_owned(),
            size: container.resource,
            node: container.node_id.clone(),
            sight: seen.get(&container.node_id).copied(),
            looks: (!had_offered(&container.node_id)).then_some(looks),
            at: context.now.wall,
        });
        Effect::Chose(choices.collect())
    }
}

/// Passes what looks showed on to their plan. Returns how many were made and answered, and the
/// loads of nodes.
fn hear(plan: &mut LookPlan, looks: &Looks) -> (LookNumbers, BTreeMap<NodeId, Sight>) {
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let mut seen = BTreeMap::new();
    for (position, load) in &looks.answers {
        plan.hears(*position, *load);
        if let (LookAnswer::Seen(sight), Some(known)) = (load, plan.nodes().get(*position)) {
            seen.insert(known.node().node_id.clone(), *sight);
        }
    }
    let numbers = LookNumbers {
        asked: count(looks.asked),
        answered: count(looks.answers.len()),
        took: looks.took,
        ..LookNumbers::default()
    };
    (numbers, seen)
}
