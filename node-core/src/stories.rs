//! Stories of containers: what happened to each and why, for operators who ask later.
//!
//! Decisions come here as the journal gets them. The story of a container that the node knows is
//! kept, and those of the last [`ENDED_MAX`] others. Bounded: a story of many steps loses those in
//! its middle.

use std::collections::{BTreeMap, VecDeque};

use node_view::overview::{Decision, decision_words};
use records::{ApplicationId, ContainerId, ContainerName, EpochMillis};
use sched::Note;

use crate::effect::Effect;
use crate::end::{End, Part};

/// Stories kept of containers that the node does not know any more: with a thousand short
/// containers a minute, those of the last minute, in about half a mebibyte.
pub(super) const ENDED_MAX: usize = 1_000;

/// Steps of one story. A container has five without incident; one that is retried, evicted or
/// changed has more.
const STEPS_MAX: usize = 24;

/// Steps at the beginning of a long story that stay.
const FIRST_STEPS: usize = 3;

/// Steps of all stories, about 100 bytes each, beyond which every story is a short one.
const ALL_STEPS_MAX: usize = 50_000;

/// Steps of a short story.
const FEW_STEPS: usize = 4;

/// Event in the life of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Happening {
    /// `startContainers` accepted the container.
    Accepted,
    /// An earlier agent had the container, and this one goes on with it.
    TakenOver,
    /// All resources are on the local disk.
    Localized,
    /// A process exists.
    Launched,
    /// Another container is evicted for this one.
    Evicts(ContainerId),
    /// A decision about the container.
    Decided(Decision),
}

impl Happening {
    fn words(&self) -> String {
        match self {
            Self::Accepted => "Accepted from its ApplicationMaster".to_owned(),
            Self::TakenOver => "Taken over from an earlier agent".to_owned(),
            Self::Localized => "Its resources are on the disk".to_owned(),
            Self::Launched => "Its process runs".to_owned(),
            Self::Evicts(id) => format!("Gets resources of {id}, which makes room"),
            Self::Decided(decision) => decision_words(decision),
        }
    }
}

/// Step of a story.
#[derive(Clone, Debug)]
struct Step {
    at: EpochMillis,
    happening: Happening,
}

impl Step {
    fn words(&self) -> String {
        self.happening.words()
    }
}

/// Last steps of an application's containers.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    /// Containers whose steps are remembered.
    pub(super) containers: Vec<ContainerId>,
    /// Last steps in words, oldest first.
    pub(super) steps: Vec<(EpochMillis, ContainerId, String)>,
    /// Steps before these, and those that stories have lost.
    pub(super) omitted: usize,
}

/// Steps of one container, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Story {
    steps: Vec<Step>,
    omitted: usize,
}

impl Story {
    /// Returns the steps in words.
    pub(super) fn steps(&self) -> impl Iterator<Item = (EpochMillis, String)> {
        self.steps.iter().map(|step| (step.at, step.words()))
    }

    /// Returns the number of steps that are lost, after the first three.
    pub(super) const fn omitted(&self) -> usize {
        self.omitted
    }

    /// Adds a step; returns by how many the story is longer.
    fn push(&mut self, step: Step, most: usize) -> usize {
        if self.steps.len() >= most {
            self.steps.remove(FIRST_STEPS.min(self.steps.len() - 1));
            self.omitted += 1;
            self.steps.push(step);
            return 0;
        }
        // Most containers that wait have three steps, and most that have ended five.
        if self.steps.len() == self.steps.capacity() {
            self.steps.reserve_exact(3);
        }
        self.steps.push(step);
        1
    }
}

/// Stories of the node's containers.
#[derive(Debug, Default)]
pub(super) struct Stories {
    known: BTreeMap<ContainerId, Story>,
    /// Stories of containers that the node does not know any more, oldest first.
    ended: VecDeque<(ContainerId, Story)>,
    /// Steps of all stories.
    steps: usize,
}

impl Stories {
    /// Begins the story of a container that the node knows from now on.
    pub(super) fn begin(&mut self, id: ContainerId, first: Happening, at: EpochMillis) {
        let replaced = self.known.insert(id, Story::default());
        self.steps -= replaced.map_or(0, |story| story.steps.len());
        self.add(id, first, at);
    }

    /// Adds a step to the story of a container that the node knows.
    pub(super) fn add(&mut self, id: ContainerId, happening: Happening, at: EpochMillis) {
        let most = if self.steps < ALL_STEPS_MAX {
            STEPS_MAX
        } else {
            FEW_STEPS
        };
        if let Some(story) = self.known.get_mut(&id) {
            self.steps += story.push(Step { at, happening }, most);
        }
    }

    /// Adds a decision to the stories that it is about.
    pub(super) fn decided(&mut self, decision: &Decision, at: EpochMillis) {
        if let Decision::Note(Note::Evicted {
            id, for_container, ..
        }) = decision
        {
            self.add(*for_container, Happening::Evicts(*id), at);
        }
        if let Some(id) = decision.container() {
            self.add(id, Happening::Decided(decision.clone()), at);
        }
    }

    /// Moves the story of a container that the node forgets to the ended ones.
    pub(super) fn end(&mut self, id: ContainerId) {
        let Some(mut story) = self.known.remove(&id) else {
            return;
        };
        story.steps.shrink_to_fit();
        self.ended.push_back((id, story));
        while self.ended.len() > ENDED_MAX {
            let oldest = self.ended.pop_front();
            self.steps -= oldest.map_or(0, |(_, story)| story.steps.len());
        }
    }

    /// Drops the story of a container that was refused.
    pub(super) fn drop_story(&mut self, id: ContainerId) {
        let dropped = self.known.remove(&id);
        self.steps -= dropped.map_or(0, |story| story.steps.len());
    }

    /// Returns the container of this name and its story. Of a name that ended twice, the later.
    pub(super) fn of(&self, name: ContainerName) -> Option<(ContainerId, &Story)> {
        let mut ids = name.ids();
        let known = ids.find_map(|id| self.known.get_key_value(&id));
        let known = known.map(|(id, story)| (*id, story));
        known.or_else(|| {
            let mut ended = self.ended.iter().rev();
            let (id, story) = ended.find(|(id, _)| id.name() == name)?;
            Some((*id, story))
        })
    }
}

impl Stories {
    /// Returns the last steps of an application's containers, at most `last`. Steps of one moment
    /// are in the order of their containers' ids.
    pub(super) fn of_application(&self, id: ApplicationId, last: usize) -> Timeline {
        let ended = self.ended.iter().map(|(id, story)| (id, story));
        let all = self.known.iter().chain(ended);
        let mut timeline = Timeline::default();
        let mut steps: Vec<(ContainerId, usize, &Step)> = Vec::new();
        for (container, story) in all.filter(|(each, _)| each.application_id() == id) {
            timeline.containers.push(*container);
            timeline.omitted += story.omitted;
            let own = story.steps.iter().enumerate();
            steps.extend(own.map(|(place, step)| (*container, place, step)));
        }
        steps.sort_by_key(|(container, place, step)| (step.at, *container, *place));
        let first = steps.len().saturating_sub(last);
        timeline.omitted += first;
        let words = |(container, _, step): &(ContainerId, usize, &Step)| {
            (step.at, *container, step.words())
        };
        timeline.steps = steps[first..].iter().map(words).collect();
        timeline
    }
}

impl Part for Stories {
    fn ended(&mut self, end: &End<'_>, _: &mut Vec<Effect>) {
        self.decided(&end.decision, end.now.wall);
    }
}

#[cfg(test)]
mod tests {
    use test_support::ids::container as container_id;

    use super::*;

    fn promoted(n: i64) -> Decision {
        Decision::Note(Note::Promoted(container_id(n)))
    }

    fn sum(stories: &Stories) -> usize {
        let ended = stories.ended.iter().map(|(_, story)| story);
        let all = stories.known.values().chain(ended);
        all.map(|story| story.steps.len()).sum()
    }

    #[test]
    fn a_long_story_keeps_its_beginning_and_its_end() {
        let mut stories = Stories::default();
        stories.begin(container_id(1), Happening::Accepted, EpochMillis(0));
        for at in 1..=100 {
            stories.decided(&promoted(1), EpochMillis(at));
        }
        let story = stories.of(container_id(1).name()).unwrap().1;
        let times: Vec<_> = story.steps().map(|(at, _)| at.0).collect();
        assert_eq!(times[..3], [0, 1, 2]);
        assert_eq!(times[3..], (80..=100).collect::<Vec<i64>>());
        assert_eq!((times.len(), story.omitted()), (STEPS_MAX, 77));
        assert_eq!(stories.steps, sum(&stories));
    }

    #[test]
    fn the_last_ended_stories_stay_and_others_go() {
        let mut stories = Stories::default();
        let all = i64::try_from(ENDED_MAX).unwrap() + 5;
        for n in 1..=all {
            stories.begin(container_id(n), Happening::Accepted, EpochMillis(n));
            stories.end(container_id(n));
        }
        assert!(stories.of(container_id(5).name()).is_none());
        assert!(stories.of(container_id(6).name()).is_some());
        assert!(stories.of(container_id(all).name()).is_some());
        assert!(stories.known.is_empty());
        assert_eq!(stories.steps, ENDED_MAX);
        // A decision that comes after the end has no story to go to.
        stories.decided(&promoted(6), EpochMillis(0));
        assert_eq!(stories.steps, sum(&stories));
    }

    #[test]
    fn an_applications_steps_are_in_the_order_of_time_and_the_last_ones_stay() {
        let mut stories = Stories::default();
        let application = container_id(1).application_id();
        for n in 1..=3 {
            stories.begin(container_id(n), Happening::Accepted, EpochMillis(n));
        }
        let other = test_support::ids::attempt(77).container(1);
        stories.begin(other, Happening::Accepted, EpochMillis(4));
        stories.decided(&promoted(2), EpochMillis(5));
        stories.decided(&promoted(1), EpochMillis(5));
        stories.end(container_id(3));
        let timeline = stories.of_application(application, 3);
        let told: Vec<_> = timeline
            .steps
            .iter()
            .map(|(at, id, _)| (at.0, *id))
            .collect();
        let expected = [
            (3, container_id(3)),
            (5, container_id(1)),
            (5, container_id(2)),
        ];
        assert_eq!(told, expected);
        assert_eq!((timeline.containers.len(), timeline.omitted), (3, 2));
        assert!(stories.of_application(application, 0).steps.is_empty());
    }

    #[test]
    fn with_too_many_steps_in_all_every_story_gets_short() {
        let mut stories = Stories::default();
        for n in 1..=5_000 {
            stories.begin(container_id(n), Happening::Accepted, EpochMillis(0));
            for at in 1..30 {
                stories.decided(&promoted(n), EpochMillis(at));
            }
        }
        assert!(
            stories.steps < ALL_STEPS_MAX + 5_000 * FEW_STEPS,
            "{}",
            stories.steps
        );
        assert_eq!(stories.steps, sum(&stories));
        let last = stories.of(container_id(5_000).name()).unwrap().1;
        assert_eq!(last.steps().count(), FEW_STEPS);
        assert_eq!(last.steps().last().unwrap().0, EpochMillis(29));
    }
}
