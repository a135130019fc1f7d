//! `nm-agent simulate --replay`: records of a node's scheduler, played again.

use std::path::Path;

use clap::{Args, ValueEnum};
use event_record::{CONTAINERS_MAX, Fates, Lives, Model, OtherSettings, differences, table};

use super::recorded::{Run, as_recorded, each_step, open, runs_in, unusable};
use super::{Failure, print};

/// What other settings than the recorded ones do to guaranteed containers' victims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Victims {
    Freeze,
    Kill,
}

/// Settings of a replay in place of the recorded ones.
#[derive(Debug, Args)]
#[command(next_help_heading = "Other settings than the recorded ones")]
pub(super) struct Other {
    /// Opportunistic containers that may wait on the node
    #[arg(long, value_name = "N", requires = "replay")]
    queue_length: Option<usize>,
    /// What happens to opportunistic containers that make room
    #[arg(long, value_name = "HOW", requires = "replay")]
    victims: Option<Victims>,
    /// Milliseconds that a container may stay frozen
    #[arg(long, value_name = "MS", requires = "replay")]
    pause_max_ms: Option<u64>,
    /// Queue length that the ResourceManager allows
    #[arg(long, value_name = "N", requires = "replay")]
    limit_length: Option<usize>,
}

impl Other {
    fn settings(&self) -> OtherSettings {
        OtherSettings {
            queue_length_max: self.queue_length,
            freeze_victims: self.victims.map(|victims| victims == Victims::Freeze),
            pause_max_ms: self.pause_max_ms,
            limit_length: self.limit_length,
            ..OtherSettings::default()
        }
    }
}

/// Plays the records of a directory, first as they are, then with other settings, if there are
/// any.
pub(super) fn replay(dir: &Path, other: &Other) -> Result<(), Failure> {
    let runs = runs_in(dir)?;
    let settings = other.settings();
    let is_other = settings != OtherSettings::default();
    let mut recorded = Fates::default();
    let (mut unchanged, mut changed) = (Fates::default(), Fates::default());
    let (mut steps, mut assumed) = (0, 0);
    for run in &runs {
        let mut lives = Lives::default();
        steps += as_recorded(run, &mut lives, |step| {
            let actions = step.actions.iter();
            actions.for_each(|action| recorded.observe(action));
            recorded.of.len() <= CONTAINERS_MAX
        })?;
        if is_other {
            play(run, &lives, OtherSettings::default(), &mut unchanged)?;
            assumed += play(run, &lives, settings, &mut changed)?;
        }
    }
    print(&format!(
        "{steps} events in {} runs give the recorded actions.\n\n",
        runs.len()
    ))?;
    if !is_other {
        return print(&table(&[("recorded".to_owned(), &recorded)]));
    }
    let plays = [
        ("recorded".to_owned(), &recorded),
        ("modelled, as recorded".to_owned(), &unchanged),
        ("modelled, other".to_owned(), &changed),
    ];
    let (count, listed) = differences(&unchanged, &changed);
    print(&format!(
        "{}\n{count} containers fare otherwise in the model:\n{listed}\nStarts, kills and limits \
         come when they came. The record does not tell how long {assumed} of the containers that \
         the other settings start would have run; they run as long as others. What \
         ApplicationMasters would have asked for instead is not known.\n",
        table(&plays)
    ))
}

/// Plays a run with other settings. Returns of how many containers the run time is assumed.
fn play(
    run: &Run,
    lives: &Lives,
    settings: OtherSettings,
    fates: &mut Fates,
) -> Result<usize, Failure> {
    let mut model: Option<Model<'_>> = None;
    for file in run {
        let (reader, begin) = open(file)?;
        let mut played = match model.take() {
            Some(model) => model,
            None => {
                let new = Model::new(&begin, lives, settings);
                new.map_err(|error| unusable(file, error))?
            }
        };
        each_step(file, reader, |_, step| {
            played.step(step);
            Ok(())
        })?;
        model = Some(played);
    }
    let Some(model) = model else {
        return Ok(0);
    };
    let (of_run, assumed) = model.end();
    fates.of.extend(of_run.of);
    Ok(assumed)
}
