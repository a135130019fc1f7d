//! Faults planted on purpose, one at a time, to show that a checker catches them. Each changes what
//! passes between the code under test and the simulated world, as a defect of the code would. None
//! is part of a shipped program: nothing but the simulation's own programs depends on this crate.

use crate::checkers::{FINISHES, WORKERS};

/// A planted fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// The contents of a heartbeat count as delivered by any answer, also by a repeated one.
    EveryAnswerCounts,
    /// The ResourceManager repeats an end that its AM has acknowledged.
    EndRepeated,
    /// Orders in the answer to a repeated heartbeat are dropped.
    RepeatedOrdersDropped,
    /// Answers to AMs do not wait for the store.
    ToldBeforeStored,
    /// The record of a kill under way is not written.
    KillNotStored,
    /// A restarted agent does not ask the keeper which processes were left.
    KeeperIgnored,
    /// The keeper does not know the containers of processes that ended before their agent. Today's
    /// keeper does not, as it reads them from the environment of living processes.
    EndedForgotten,
    /// A restarted agent leaves processes alone that belong to no container.
    LeftoversLive,
    /// A restart reverses the queues.
    QueuesReversed,
    /// A restart reverses the order of starts.
    StartsReversed,
    /// SIGKILL does not follow SIGTERM.
    SigkillForgotten,
    /// The allocation of a container is free as soon as SIGKILL is sent.
    RoomFreedEarly,
    /// The ResourceManager's limit on the queue is ignored.
    LimitIgnored,
    /// A restarted ResourceManager counts ids from the beginning.
    IdsReused,
    /// An exit status that nobody knows counts as success.
    LostIsSuccess,
    /// A launch that is under way when its container is to end makes a process, which nobody ends.
    LateLaunchLives,
    /// A restarted agent gives the room of processes away that it kills.
    LeftoversTakeNothing,
    /// Workers do not hear of a change of size or type.
    ChangeNotTold,
    /// The resources of a container that has ended are not released.
    ResourcesKept,
}

impl Planted {
    /// Every planted fault.
    pub const ALL: [Self; 19] = [
        Self::EveryAnswerCounts,
        Self::EndRepeated,
        Self::RepeatedOrdersDropped,
        Self::ToldBeforeStored,
        Self::KillNotStored,
        Self::KeeperIgnored,
        Self::EndedForgotten,
        Self::LeftoversLive,
        Self::QueuesReversed,
        Self::StartsReversed,
        Self::SigkillForgotten,
        Self::RoomFreedEarly,
        Self::LimitIgnored,
        Self::IdsReused,
        Self::LostIsSuccess,
        Self::LateLaunchLives,
        Self::LeftoversTakeNothing,
        Self::ChangeNotTold,
        Self::ResourcesKept,
    ];

    /// Returns the name of the checker whose property this fault violates.
    #[must_use]
    pub const fn expected(self) -> &'static str {
        match self {
            Self::EveryAnswerCounts => FINISHES,
            Self::EndRepeated => "ends-once",
            Self::RepeatedOrdersDropped | Self::LimitIgnored => "queue-limit",
            Self::ToldBeforeStored | Self::KillNotStored => "acknowledged",
            Self::KeeperIgnored | Self::EndedForgotten | Self::LeftoversLive => "started-once",
            Self::QueuesReversed => "fifo",
            Self::StartsReversed => "kill-order",
            Self::SigkillForgotten => "bounded-kill",
            Self::RoomFreedEarly | Self::LeftoversTakeNothing => "overcommit",
            Self::IdsReused => "unique-ids",
            Self::LostIsSuccess => "exit-truth",
            Self::LateLaunchLives => "leftovers",
            Self::ChangeNotTold | Self::ResourcesKept => WORKERS,
        }
    }
}
